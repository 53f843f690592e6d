"""Statements of a server's log, session by session, put together to transactions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from isolde.errors import ExecutionError, InputError
from isolde.history import History, Sql, Status, Transaction
from isolde.semantics.concrete import Store
from isolde.tx.dialects import Dialect
from isolde.tx.script import begins, commits, level_in, rolls_back, sets, statements_of
from isolde.tx.sql import schema
from isolde.tx.sql import statement as read_statement

_MAKES = re.compile(r"create\s+(unique\s+)?(table|index)\b", re.IGNORECASE)
_FILLS = re.compile(r"insert\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Converted:
    """The history, and what has to be said about it, a sentence each."""

    history: History
    notes: tuple[str, ...]


@dataclass(slots=True)
class Logged:
    """One text as a session sent it, in milliseconds of the server's clock. ``error``: the word for why it failed, if it did.

    ``over``: whether the log shows that it ended; ``None`` if logs of this kind never do.
    """

    session: str
    text: str
    start: int
    end: int | None = None
    error: str | None = None
    message: str = ""
    over: bool | None = False


@dataclass(slots=True)
class _Open:
    start: int
    level: str | None
    ops: list[Sql] = field(default_factory=list)
    failed: bool = False


def tables_in(text: str, dialect: Dialect, name: str) -> dict[str, Any]:
    """What a header says of tables: from a text of SQL with CREATE TABLE, CREATE INDEX and INSERT; all else is passed over."""
    texts = statements_of(text, dialect)
    made = [one for one in texts if _MAKES.match(one)]
    if not made:
        raise InputError(
            f"{name}: no CREATE TABLE is in it; expected the tables of the log, and INSERTs of their first rows"
        )
    store = Store(schema(";\n".join(made), dialect, name), dialect)
    transaction = store.transaction()
    try:
        for one in texts:
            if _FILLS.match(one):
                transaction.run(read_statement(one, dialect, name))
    except ExecutionError as error:
        raise InputError(f"{name}: its rows cannot be inserted: {error}") from None
    transaction.commit()
    rows = {table: [[_told(value) for value in row] for row in some] for table, some in store.state().items() if some}
    return {"schema": made, "rows": rows}


def _told(value: Any) -> Any:
    return value.isoformat(sep=" ") if isinstance(value, datetime) else value


def history_of(logged: list[Logged], dialect: Dialect, header: dict[str, Any]) -> History:
    """The transactions in the order in which they ended; a statement outside of one is one of its own."""
    found: list[Transaction] = []
    sessions: dict[str, list[Logged]] = {}
    for one in logged:
        sessions.setdefault(one.session, []).append(one)
    for session, texts in sessions.items():
        found += _Session(session, dialect).transactions(texts)
    found.sort(key=lambda one: (one.end is None, one.end or 0))
    numbered = tuple(replace(one, id=number) for number, one in enumerate(found))
    return History(numbered, extra={"dialect": dialect.value, **header})


class _Session:
    """The transactions of one session; a transaction is made only of what was seen from its beginning."""

    def __init__(self, name: str, dialect: Dialect) -> None:
        self._name, self._dialect = name, dialect
        self._found: list[Transaction] = []
        self._level: str | None = None
        self._open: _Open | None = None

    def transactions(self, texts: list[Logged]) -> list[Transaction]:
        for one in texts:
            statements = statements_of(one.text, self._dialect)
            # Several statements sent at once are one transaction, unless they say otherwise.
            together = len(statements) > 1 and self._open is None and not any(map(begins, statements))
            if together:
                self._open = _Open(one.start, self._level)
            for place, statement in enumerate(statements):
                # Which of several failed is not told: the last one, whose failure undoes the others.
                last = place == len(statements) - 1
                self._statement(one, statement, failed=one.error is not None and last)
            if together:
                self._close(one, Status.ABORTED if one.error else _ended(one))
        if self._open is not None and self._open.ops:
            # The log ends before the transaction does, and its COMMIT may not be in it.
            self._add(self._open, Status.UNKNOWN, None)
        return self._found

    def _statement(self, one: Logged, statement: str, *, failed: bool) -> None:
        if begins(statement):
            named = level_in(statement)
            self._open = self._open or _Open(one.start, named.upper() if named else self._level)
        elif commits(statement) or rolls_back(statement):
            if self._open is not None:
                undone = failed or self._open.failed or rolls_back(statement)
                self._close(one, Status.ABORTED if undone else _ended(one))
        elif sets(statement):
            self._set_level(statement)
        elif self._open is not None:
            self._open.ops.append(_operation(one, statement, failed=failed))
            self._open.failed |= failed and self._dialect is Dialect.POSTGRESQL
        else:
            alone = _Open(one.start, self._level, [_operation(one, statement, failed=failed)])
            self._add(alone, Status.ABORTED if failed else _ended(one), one.end)

    def _set_level(self, statement: str) -> None:
        named = level_in(statement)
        if named and self._open is not None:
            self._open.level = named.upper()
        elif named:
            self._level = named.upper()

    def _close(self, one: Logged, status: Status) -> None:
        transaction, self._open = self._open, None
        if transaction is not None and transaction.ops:
            self._add(transaction, status, one.end)

    def _add(self, transaction: _Open, status: Status, end: int | None) -> None:
        times = (transaction.start, None if status is Status.UNKNOWN else end)
        self._found.append(Transaction(0, self._name, tuple(transaction.ops), status, *times, level=transaction.level))


def _ended(one: Logged) -> Status:
    return Status.COMMITTED if one.over else Status.UNKNOWN


def _operation(one: Logged, statement: str, *, failed: bool) -> Sql:
    content: dict[str, Any] = {"sql": statement, "params": [], "rows": None, "start": one.start}
    if failed:
        content |= {"error": one.error, "message": one.message}
    if one.end is not None:
        content["end"] = one.end
    return Sql(content)
