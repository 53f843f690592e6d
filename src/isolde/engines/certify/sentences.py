"""What statements did, in words: "T3 counted the rows of t with c1 between 0 and 10; T7 then inserted t 5 = (5, 7, 0)"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from isolde.engines.certify.answers import shown_row
from isolde.engines.certify.statements import Asked
from isolde.history import TxnId
from isolde.history.certificate import RowId
from isolde.semantics.tables.view import Row

_WHERE = re.compile(
    r"\bwhere\b(.*?)(?:\border\s+by\b|\bgroup\s+by\b|\bhaving\b|\blimit\b|\boffset\b|\breturning\b|\bfor\s+update\b|\bfor\s+share\b"
    r"|\block\s+in\b|;|$)",
    re.IGNORECASE | re.DOTALL,
)
_TABLE = re.compile(r"\b(?:from|update|into)\s+([`\"\[]?)(\w+)", re.IGNORECASE)
_AGGREGATES = (
    ("count", "counted"),
    ("sum", "summed up"),
    ("min", "took the least of"),
    ("max", "took the greatest of"),
)
_SHOWN = 160


def txn_name(name: TxnId) -> str:
    """How a transaction is called in sentences: T7 for the integer 7."""
    return f"T{name}" if isinstance(name, int) else name


def row_name(name: RowId) -> str:
    """A row as a person calls it.

    >>> row_name(RowId("accounts", (1,)))
    'accounts 1'
    """
    return f"{name.table} {', '.join(str(part) for part in name.key)}"


def wrote_again(writer: str, what: str, other: str, *, twice: bool) -> str:
    """Why a transaction is before and after another one; ``twice``: one and the same operation of it is.

    >>> wrote_again("T1", "x", "T2", twice=True)
    'T1 wrote x before and after T2 did, by one operation: a duplicate write, which the database tells that it installed twice.'
    """
    text = f"{writer} wrote {what} before and after {other} did"
    if twice:
        return f"{text}, by one operation: a duplicate write, which the database tells that it installed twice."
    return f"{text}."


def deed(asked: Asked) -> str:
    """What a statement asked of its rows, as the end of a sentence that begins with the transaction."""
    text = _filled(asked.sql, asked.params)
    where = _WHERE.search(text)
    table = _TABLE.search(text)
    rows = f"the rows of {table[2]}" if table else "the rows"
    if where is None and asked.form.upsert:
        return f"looked for the row that '{_short(text)}' would replace"
    rows += f" with {_short(_worded(where[1]))}" if where is not None else ""
    if not asked.form.simple:
        return f"asked '{_short(text)}'"
    match asked.form.what:
        case "update":
            return f"updated {rows}"
        case "delete":
            return f"deleted {rows}"
        case _:
            head = text[: where.start()] if where is not None else text
            for word, verb in _AGGREGATES:
                if re.search(rf"\b{word}\s*\(", head, re.IGNORECASE):
                    return f"{verb} {rows}"
            return f"read {rows}"


def change(name: RowId, before: Row | None, after: Row | None) -> str:
    """What a transaction did to a row, as the end of a sentence that begins with it."""
    what = row_name(name)
    if before is None and after is None:
        return f"wrote {what}"
    if before is None:
        assert after is not None
        return f"inserted {what} = {shown_row(after)}"
    if after is None:
        return f"deleted {what} = {shown_row(before)}"
    return f"changed {what} from {shown_row(before)} to {shown_row(after)}"


def _filled(sql: str, params: Sequence[Any]) -> str:
    """The statement with its parameters in place.

    >>> _filled("SELECT a FROM t WHERE a >= $2 AND b = $1 AND c = '?'", [1, None])
    "SELECT a FROM t WHERE a >= null AND b = 1 AND c = '?'"
    """
    values = iter(params)

    def value(found: re.Match[str]) -> str:
        if found[0].startswith("'"):
            return found[0]
        if found[1]:
            place = int(found[1]) - 1
            return _literal(params[place]) if 0 <= place < len(params) else found[0]
        return _literal(next(values, found[0]))

    text = re.sub(r"'(?:[^']|'')*'|\$(\d+)|\?|%s", value, sql) if params else sql
    return " ".join(text.split())


def _literal(value: Any) -> str:
    if value is None:
        return "null"
    return f"'{value}'" if isinstance(value, str) else str(value)


def _worded(condition: str) -> str:
    text = " ".join(condition.split())
    return re.sub(r"\b(AND|OR|BETWEEN|NOT|IS|NULL|IN|LIKE)\b", lambda found: found[0].lower(), text)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + " …"
