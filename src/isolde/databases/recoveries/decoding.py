"""What PostgreSQL's plug-in ``test_decoding`` prints of committed transactions: which rows they wrote, in order.

    BEGIN 1359
    table public.accounts: INSERT: id[integer]:1 name[text]:'O''Hara' balance[bigint]:5
    table public.accounts: UPDATE: old-key: id[integer]:1 new-tuple: id[integer]:2 name[text]:'O''Hara' balance[bigint]:5
    table public.accounts: DELETE: id[integer]:2
    COMMIT 1359

Transaction ids have 32 bits there and begin anew after four thousand million; ``widened`` finds the whole id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from isolde.databases.recovery import Followed
from isolde.errors import DatabaseUnavailable
from isolde.history.certificate import ObjectId, RowId

_TABLE = re.compile(r'table ("(?:[^"]|"")*"|[^".]+)\.("(?:[^"]|"")*"|[^":]+): (INSERT|UPDATE|DELETE|TRUNCATE): ')
_COLUMN = re.compile(
    r"""("(?:[^"]|"")*"|[^\s"\[]+)\[([^\]]*(?:\[\])?)\]:(null|unchanged-toast-datum|[BX]?'(?:[^']|'')*'|[^\s']+)"""
)
_OLD, _NEW = "old-key: ", " new-tuple: "
_INTEGERS = frozenset({"smallint", "integer", "bigint"})
_TEXTS = frozenset({"text", "character varying", "character"})
_XIDS = 2**32


@dataclass(frozen=True, slots=True)
class Written:
    """A row that was written, or deleted (``dead``); one whose key changed was another object before."""

    thing: ObjectId
    dead: bool = False
    moved_from: ObjectId | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """One transaction: its id of 32 bits, and the rows that it wrote, in order."""

    xid: int
    written: tuple[Written, ...]


def widened(xid: int, now: int) -> int:
    """The whole id of a transaction that ended before the one that is told whole.

    >>> widened(4294967295, 2**32 + 5), widened(3, 2**32 + 5)
    (4294967295, 4294967299)
    """
    return now - (now - xid) % _XIDS


class Decoder:
    """Puts lines together to transactions, whichever parts they come in; of other tables nothing is kept."""

    def __init__(self, tables: Mapping[str, Followed]) -> None:
        self._tables = tables
        self._written: list[Written] = []

    def transactions(self, lines: Sequence[str]) -> Iterator[Committed]:
        """The transactions that end in these lines."""
        for line in lines:
            if line.startswith("table "):
                self._row(line)
            elif line.startswith("BEGIN"):
                self._written = []
            elif line.startswith("COMMIT") and self._written:
                yield Committed(int(line.split()[1]), tuple(self._written))
                self._written = []

    def _row(self, line: str) -> None:
        found = _TABLE.match(line)
        if found is None:
            return
        followed = self._tables.get(_plain(found[2]))
        if followed is None:
            return
        if found[3] == "TRUNCATE":
            raise DatabaseUnavailable(
                f"the table {_plain(found[2])} was truncated during the run; no certificate tells that"
            )
        rest = line[found.end() :]
        if rest.startswith(_OLD):
            old, _, new = rest[len(_OLD) :].partition(_NEW)
            before, after = _object(old, followed), _object(new, followed)
            self._written.append(Written(after, moved_from=None if before == after else before))
        else:
            self._written.append(Written(_object(rest, followed), dead=found[3] == "DELETE"))


def _object(columns: str, followed: Followed) -> ObjectId:
    """The object of a row by its primary key."""
    cells: dict[str, tuple[str, str]] = {}
    for found in _COLUMN.finditer(columns):
        cells[_plain(found[1])] = found[2], found[3]
        if followed.name is None:
            # The key of a workload's own table is its first column.
            break
    key = tuple(_cell(name, *cells[name]) for name in followed.key)
    return key[0] if followed.name is None else RowId(followed.name, key)


def _cell(name: str, kind: str, text: str) -> int | str:
    if kind in _INTEGERS:
        return int(text)
    if kind.partition("(")[0] in _TEXTS and text.startswith("'"):
        return text[1:-1].replace("''", "'")
    raise DatabaseUnavailable(
        f"the primary key column {name} is of type {kind}; certificates need keys of integers or texts"
    )


def _plain(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
