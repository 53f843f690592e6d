"""What the sessions of a schedule saw, as a history of SQL transactions."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from isolde.engines.play.player import Recorded, Sent
from isolde.history import History, Sql, Status, Transaction
from isolde.history.schedule import Ended
from isolde.tx.script import begins, commits, level_in, rolls_back

_OF_TABLES = re.compile(r"create\s+(\w+\s+)*?(table|index)\b", re.IGNORECASE)
_OF_PROCEDURES = re.compile(r"create\s+(or\s+replace\s+)?(procedure|function)\b", re.IGNORECASE)
_SET_LEVEL = re.compile(r"set\b", re.IGNORECASE)


class _Open:
    """A transaction that is being gathered."""

    def __init__(self, start: int, level: str | None) -> None:
        self.start, self.end, self.level = start, start, level
        self.ops: list[Sql] = []


def history_of(recorded: Recorded) -> History:
    """The transactions in the order of their ends; a statement outside of one is one of its own."""
    found: list[Transaction] = []
    for session in recorded.schedule.sessions:
        sent = [one for one in recorded.sent if one.session == session]
        found += _transactions(session, sent, recorded.levels[session])
    found.sort(key=lambda transaction: transaction.end or 0)
    schema = recorded.schedule.schema
    extra: dict[str, Any] = {
        "dialect": recorded.dialect.value,
        "store": recorded.store,
        "schema": [text for text in schema if _OF_TABLES.match(text)],
        "rows": {table: [list(row) for row in rows] for table, rows in recorded.first_rows.items()},
        "counts": "found",
    }
    if recorded.settings:
        extra["settings"] = recorded.settings
    procedures = [text for text in schema if _OF_PROCEDURES.match(text)]
    if procedures:
        extra["procedures"] = procedures
    numbered = [replace(one, id=number) for number, one in enumerate(found)]
    return History(tuple(numbered), extra=extra)


def _transactions(session: str, sent: list[Sent], level: str | None) -> list[Transaction]:
    found: list[Transaction] = []
    current: _Open | None = None

    def close(transaction: _Open, status: Status) -> None:
        times = transaction.start, transaction.end
        found.append(Transaction(0, session, tuple(transaction.ops), status, *times, level=transaction.level))

    for one in sent:
        sql, ended = one.answer.sql, one.answer.ended
        if begins(sql) and one.answer.error is None:
            if current is not None and current.ops:
                close(current, Status.COMMITTED)
            named = level_in(sql)
            current = _Open(one.start, named.upper() if named else level)
            continue
        if _SET_LEVEL.match(sql):
            named = level_in(sql)
            if named and current is not None:
                current.level = named.upper()
            elif named:
                level = named.upper()
            continue
        alone = current is None
        transaction = current or _Open(one.start, level)
        transaction.end = one.end
        if not commits(sql) and not rolls_back(sql):
            transaction.ops.append(_operation(one))
        if alone:
            if transaction.ops:
                close(transaction, Status.ABORTED if one.answer.error else Status.COMMITTED)
        elif ended is not None:
            close(transaction, Status.COMMITTED if ended is Ended.COMMITTED else Status.ABORTED)
            current = None
    if current is not None and current.ops:
        # What is open at the end is rolled back.
        close(current, Status.ABORTED)
    return found


def _operation(one: Sent) -> Sql:
    answer = one.answer
    content: dict[str, Any] = {"sql": answer.sql, "params": []}
    content["rows"] = None if answer.rows is None else [list(row) for row in answer.rows]
    if answer.count is not None:
        content["count"] = answer.count
    if answer.error is not None:
        content["error"], content["message"] = answer.error.value, answer.message
    return Sql(content | {"start": one.start, "end": one.end})
