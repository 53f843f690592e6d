"""Histories of an exploration as transactions of the history format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from isolde.engines.explore.bodies import shown, shown_key
from isolde.engines.explore.evidence import Executed
from isolde.history import History, Read, Sql, Status, Transaction, Write
from isolde.history.model import token

if TYPE_CHECKING:
    from isolde.engines.explore.tables import Ran
    from isolde.tx.dialects import Dialect


def transactions_of(history: Sequence[Executed]) -> tuple[Transaction, ...]:
    """The transactions, session after session; over SQL with the statements that ran."""
    names = key_names(keys_of(history))
    return tuple(_transaction(entry, names) for entry in sorted(history, key=lambda entry: entry.number))


def keys_of(history: Sequence[Executed]) -> list[Any]:
    """The keys that a history reads and writes, each once."""
    return list(dict.fromkeys(event.key for entry in history for event in entry.trace.events))


def _transaction(entry: Executed, names: Mapping[Any, str | int]) -> Transaction:
    trace = entry.trace
    ops = tuple(
        [Sql(statement_content(ran)) for ran in trace.statements]
        if trace.statements
        else [
            (Write if event.kind == "write" else Read)(names[event.key], plain(event.value)) for event in trace.events
        ]
    )
    status = Status.COMMITTED if entry.committed else Status.ABORTED
    return Transaction(entry.call.id, entry.call.session, ops, status, extra={"call": str(entry.call)})


def accesses_of(history: Sequence[Executed], initial: Callable[[Any], Any]) -> History:
    """The same as reads and writes of keys, in which no two versions of a key have the same value.

    So it is plain who read from whom, for whoever names and draws what is wrong with the order of transactions. A row of a table
    is a key. A value that is written several times, or is the initial one too, tells its writer: ``10 by 1.0``.
    """
    labels, names = _labels(history, initial), key_names(keys_of(history))
    found = []
    for entry in sorted(history, key=lambda entry: entry.number):
        ops: list[Read | Write] = []
        reads = iter(entry.sources)
        last: dict[Any, Any] = {}
        for place, event in enumerate(entry.trace.events):
            key = names[event.key]
            if event.kind == "write":
                last[event.key] = labels[entry.number, place]
                ops.append(Write(key, last[event.key]))
            elif event.kind == "own":
                ops.append(Read(key, last[event.key]))
            else:
                source = next(reads)
                ops.append(
                    Read(
                        key,
                        labels[source, event.key] if source < 0 else labels[_last_write(history, source, event.key)],
                    )
                )
        status = Status.COMMITTED if entry.committed else Status.ABORTED
        found.append(Transaction(entry.call.id, entry.call.session, tuple(ops), status))
    first = {names[key]: value for (source, key), value in labels.items() if source < 0 and value is not None}
    return History(tuple(found), first)


def _labels(history: Sequence[Executed], initial: Callable[[Any], Any]) -> dict[tuple[int, Any], Any]:
    """The value shown for each write (by transaction and place) and for the initial version of each key (-1 and the key)."""
    labels: dict[tuple[int, Any], Any] = {(-1, key): plain(initial(key)) for key in keys_of(history)}
    taken = {(key, token(value)) for (_, key), value in labels.items()}
    written = [
        (entry, place, event)
        for entry in history
        for place, event in enumerate(entry.trace.events)
        if event.kind == "write"
    ]
    times = Counter((event.key, token(plain(event.value))) for _, _, event in written)
    for entry, place, event in written:
        value = plain(event.value)
        mark = (event.key, token(value))
        alone = times[mark] == 1 and mark not in taken and value is not None
        labels[entry.number, place] = (
            value if alone else f"{'nothing' if value is None else value} by {entry.call.id}:{place}"
        )
    return labels


def _last_write(history: Sequence[Executed], number: int, key: Any) -> tuple[int, int]:
    (entry,) = (entry for entry in history if entry.number == number)
    places = [place for place, event in enumerate(entry.trace.events) if event.kind == "write" and event.key == key]
    return number, places[-1]


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
    return literal_text(ran.sql, ran.parameters, ran.dialect, ran.dialect)


def literal_text(sql: str, parameters: Mapping[str, Any], written: Dialect, spoken: Dialect) -> str:
    """A statement written in one dialect as another speaks it, with its parameters as literals."""
    if not parameters and written is spoken:
        return " ".join(sql.split())
    from isolde.tx.expressions import Literal, Parameter
    from isolde.tx.render import render
    from isolde.tx.rewrite import rewritten
    from isolde.tx.sql import statement

    def given(node: Any) -> Any:
        if isinstance(node, Parameter) and node.name in parameters:
            return Literal(parameters[node.name])
        return node

    return render(rewritten(statement(sql, written), given), spoken)


def plain_key(key: Any) -> str | int:
    return key if isinstance(key, int) and not isinstance(key, bool) and abs(key) < _LARGE else _text(shown_key(key))


def key_names(keys: Iterable[Any]) -> dict[Any, str | int]:
    """The keys as the history format can say them, no two alike: the text ``(1,)`` beside the tuple is quoted.

    >>> key_names(["(1,)", (1,), "x"])
    {'(1,)': "'(1,)'", (1,): '(1,)', 'x': 'x'}
    """
    listed = list(keys)
    others = {plain_key(key) for key in listed if not isinstance(key, str)}
    return {key: shown(key) if isinstance(key, str) and plain_key(key) in others else plain_key(key) for key in listed}


def plain(value: Any) -> Any:
    """The value as the history format can say it: what it has no form for is a text."""
    match value:
        case None | bool() | Decimal():
            return value
        case int():
            return value if abs(value) < _LARGE else shown(value)
        case str():
            return _text(value)
        case float():
            return Decimal(repr(value)) if value == value and abs(value) != float("inf") else repr(value)
        case datetime() | date():
            return str(value)
        case _:
            return _text(shown(value))


_LARGE = 10**1000


def _text(text: str) -> str:
    """The text as UTF-8 can hold it: halves of characters are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()
