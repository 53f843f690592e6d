"""Histories of an exploration as transactions of the history format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from isolde.engines.explore.bodies import shown_key
from isolde.engines.explore.evidence import Executed
from isolde.engines.explore.tables import Ran
from isolde.history import Read, Sql, Status, Transaction, Write
from isolde.tx.expressions import Literal, Parameter
from isolde.tx.render import render
from isolde.tx.rewrite import rewritten
from isolde.tx.sql import statement


def transactions_of(history: Sequence[Executed]) -> tuple[Transaction, ...]:
    """The transactions, session after session; over SQL with the statements that ran."""
    return tuple(_transaction(entry) for entry in sorted(history, key=lambda entry: entry.number))


def _transaction(entry: Executed) -> Transaction:
    trace = entry.trace
    ops = tuple(
        [Sql(statement_content(ran)) for ran in trace.statements]
        if trace.statements
        else [
            (Write if event.kind == "write" else Read)(plain_key(event.key), plain(event.value))
            for event in trace.events
        ]
    )
    status = Status.COMMITTED if entry.committed else Status.ABORTED
    return Transaction(entry.call.id, entry.call.session, ops, status, extra={"call": str(entry.call)})


def accesses_of(history: Sequence[Executed]) -> tuple[Transaction, ...]:
    """The same as reads and writes of keys, in which every write has a value of its own: who read from whom is plain.

    A row of a table is a key. For whoever names and draws what is wrong with the order of transactions.
    """
    by_number = {entry.number: entry for entry in history}
    found = []
    for entry in sorted(history, key=lambda entry: entry.number):
        ops: list[Read | Write] = []
        reads = iter(entry.sources)
        last: dict[Any, str] = {}
        for place, event in enumerate(entry.trace.events):
            key = plain_key(event.key)
            if event.kind == "write":
                last[event.key] = f"{entry.call.id}:{place}"
                ops.append(Write(key, last[event.key]))
            elif event.kind == "own":
                ops.append(Read(key, last[event.key]))
            else:
                source = next(reads)
                ops.append(Read(key, None if source < 0 else _last_write(by_number[source], event.key)))
        status = Status.COMMITTED if entry.committed else Status.ABORTED
        found.append(Transaction(entry.call.id, entry.call.session, tuple(ops), status))
    return tuple(found)


def _last_write(entry: Executed, key: Any) -> str:
    places = [place for place, event in enumerate(entry.trace.events) if event.kind == "write" and event.key == key]
    return f"{entry.call.id}:{places[-1]}"


def statement_content(ran: Ran) -> dict[str, Any]:
    """A statement as an operation of the history format, its parameters written into the text."""
    content: dict[str, Any] = {"sql": text_of(ran)}
    content["rows"] = None if ran.rows is None else [[plain(value) for value in row] for row in ran.rows]
    if ran.error:
        content |= {"error": ran.error, "message": ran.message}
    else:
        content["count"] = ran.count
    return content


def text_of(ran: Ran) -> str:
    """The statement with its parameters as literals, so that it can be typed."""
    if not ran.parameters:
        return " ".join(ran.sql.split())

    def given(node: Any) -> Any:
        if isinstance(node, Parameter) and node.name in ran.parameters:
            return Literal(ran.parameters[node.name])
        return node

    return render(rewritten(statement(ran.sql, ran.dialect), given), ran.dialect)


def plain_key(key: Any) -> str | int:
    return key if isinstance(key, str | int) and not isinstance(key, bool) else shown_key(key)


def plain(value: Any) -> Any:
    """The value as the history format can say it: what it has no form for is a text."""
    match value:
        case None | bool() | int() | str() | Decimal():
            return value
        case float():
            return Decimal(repr(value)) if value == value and abs(value) != float("inf") else repr(value)
        case datetime() | date():
            return str(value)
        case _:
            return repr(value)


def plain_state(state: Mapping[Any, Any]) -> dict[str, Any]:
    """A state as JSON: keys with their values, or tables with their rows."""
    return {
        str(plain_key(key)): [[plain(part) for part in row] for row in value]
        if isinstance(value, list)
        else plain(value)
        for key, value in state.items()
    }
