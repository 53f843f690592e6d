"""Plays schedules on a real database."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from isolde.databases import Adapter, Connection, Database, Feature, Kind, Offer, SqlConnection, Table
from isolde.databases.stepper import PATIENCE_S, End, Step, SteppedSession, Stepper
from isolde.databases.waiting import patiently
from isolde.engines.matrix.schedules import FIRST, SCHEDULES, Played, Schedule
from isolde.errors import Aborted, IsoldeError, StatementFailed
from isolde.history import History, Key, Read, Status, Transaction, Value, Write
from isolde.levels import implies

_STEP = re.compile(r"(\w+):(?:(commit|abort)|([rwid])(\d+)(?:=(\d+))?|([qx])\[([^]]*)\])")
_TRIES = 20
_AT_ONCE = 6
_LONG_PATIENCE_S = 1.5


class Cell(StrEnum):
    """What became of an anomaly at a level."""

    SEEN = "seen"
    """It happened, and the level does not forbid it."""
    BROKEN = "broken"
    """It happened, and the level claims that it cannot."""
    PREVENTED = "prevented"
    UNTRIED = "untried"
    """The database cannot do what the schedule asks for."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One schedule at one level; ``why`` says what prevented it, or why it was not tried."""

    schedule: Schedule
    offer: Offer
    cell: Cell
    why: str = ""


def play_all(adapter: Adapter, database: Database, told: Callable[[Tried], None]) -> list[Tried]:
    """Every schedule at every level that the database offers; ``told`` is called after each, on the caller's thread.

    Most of the time goes by waiting for what is blocked, so several are played at once, each on a table of its own.
    """
    results = []
    with ThreadPoolExecutor(1 if adapter.locks_everything else _AT_ONCE) as pool:
        tries = [
            pool.submit(play_cell, adapter, database, offer, schedule)
            for offer in database.offers()
            for schedule in SCHEDULES
        ]
        try:
            for one in tries:
                results.append(one.result())
                told(results[-1])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return results


def play_cell(adapter: Adapter, database: Database, offer: Offer, schedule: Schedule) -> Tried:
    """One schedule at one level."""
    for feature in _needs(schedule):
        ability = adapter.able(feature)
        if not ability.able:
            return Tried(schedule, offer, Cell.UNTRIED, ability.how)
    forbidden = implies(offer.claims, schedule.ruled_out_from)
    try:
        played, why = play(database, offer, schedule)
        if not schedule.seen(played) and played.blocked and not forbidden:
            # A machine that is busy may take a slow statement for a blocked one, and the steps then come in another order.
            # That can hide an anomaly, and never makes one up: what was seen was seen.
            played, why = play(database, offer, schedule, _LONG_PATIENCE_S)
    except StatementFailed as refused:
        return Tried(schedule, offer, Cell.UNTRIED, str(refused))
    if not schedule.seen(played):
        return Tried(schedule, offer, Cell.PREVENTED, why)
    return Tried(schedule, offer, Cell.BROKEN if forbidden else Cell.SEEN)


def _needs(schedule: Schedule) -> Iterator[Feature]:
    if schedule.predicates:
        yield from (Feature.SQL, Feature.PREDICATES)
    else:
        yield Feature.TRANSACTIONS
    if schedule.deletes:
        yield Feature.DELETES


def play(database: Database, offer: Offer, schedule: Schedule, patience_s: float = PATIENCE_S) -> tuple[Played, str]:
    """Plays one schedule on a table of its own; also why sessions were aborted, if any were."""
    with _table(database) as table:
        _transact(database, table, [_operation("w", key, str(value)) for key, value in FIRST.items()])
        stepper = Stepper(lambda: database.connect(table), offer, patience_s)
        steps: list[tuple[str, Step]] = []
        try:
            for name, step in _steps(schedule, table, stepper):
                steps.append((name, step))
            stepper.settle()
        finally:
            stepper.close()
        sessions = stepper.sessions
        keys = sorted({*FIRST, *_inserted(schedule)})
        final = _transact(database, table, [_operation("r", key, None) for key in keys])
    answers: dict[str, list[Any]] = {name: [] for name in sessions}
    for match, (name, step) in zip(_STEP.finditer(schedule.steps), steps, strict=True):
        reads = match[3] == "r" or match[6] is not None
        if reads and step.answered:
            answers[name].append(step.result)
    played = Played(
        answers,
        frozenset(name for name, session in sessions.items() if session.end is End.COMMITTED),
        dict(zip(keys, final, strict=True)),
        any(step.blocked for _, step in steps),
        None if schedule.predicates else _history(schedule, [step for _, step in steps], sessions),
    )
    return played, "; ".join(f"{name}: {session.reason}" for name, session in sessions.items() if session.reason)


def _history(schedule: Schedule, steps: list[Step], sessions: Mapping[str, SteppedSession]) -> History:
    """What the sessions saw, as a history: of transactions that were aborted, what they wrote."""
    ops: dict[str, list[list[Read | Write]]] = {name: [[]] for name in sessions}
    for match, step in zip(_STEP.finditer(schedule.steps), steps, strict=True):
        name, ending, kind, key, value, *_ = match.groups()
        if ending:
            ops[name].append([])
        elif kind == "d":
            # A delete that found nothing read that the key is absent; one that failed is told as the write that it meant to be.
            ops[name][-1].append(Read(int(key), None) if step.result is False else Write(int(key), None))
        elif kind != "r":
            ops[name][-1].append(Write(int(key), int(value)))
        elif step.answered:
            ops[name][-1].append(Read(int(key), step.result))
    first = dict[Key, Value](FIRST.items())
    transactions: list[Transaction] = []
    for name, parts in ops.items():
        done = [part for part in parts if part]
        for place, part in enumerate(done):
            committed = place < len(done) - 1 or sessions[name].end is End.COMMITTED
            status = Status.COMMITTED if committed else Status.ABORTED
            transactions.append(Transaction(len(transactions), name, tuple(part), status))
    return History(tuple(transactions), initial=first)


def _steps(schedule: Schedule, table: Table, stepper: Stepper) -> Iterator[tuple[str, Step]]:
    for match in _STEP.finditer(schedule.steps):
        name, ending, kind, key, value, sql_kind, text = match.groups()
        if ending == "commit":
            yield name, stepper.commit(name)
        elif ending == "abort":
            yield name, stepper.roll_back(name)
        elif sql_kind is not None:
            yield name, stepper.do(name, _sql(sql_kind, text, table))
        else:
            yield name, stepper.do(name, _operation(kind, int(key), value))


def in_words(schedule: Schedule) -> list[tuple[str, str]]:
    """The steps as a person says them, each with its session.

    >>> from isolde.engines.matrix.schedules import SCHEDULES
    >>> in_words(next(one for one in SCHEDULES if one.anomaly == "lost-insert"))[:4]
    [('A', 'read 2'), ('B', 'read 2'), ('A', 'insert 2 = 30'), ('B', 'insert 2 = 31')]
    """
    found = []
    for match in _STEP.finditer(schedule.steps):
        name, ending, kind, key, value, sql_kind, text = match.groups()
        if sql_kind is not None:
            said = f"read all where {text}" if sql_kind == "q" else text.format(t="t")
        else:
            said = ending or f"{_DEEDS[kind]} {key}" + ("" if value is None else f" = {value}")
        found.append((name, said))
    return found


_DEEDS = {"r": "read", "w": "write", "i": "insert", "d": "delete"}


def _operation(kind: str, key: int, value: str | None) -> Callable[[Connection], Any]:
    if kind == "r":
        return lambda connection: json.loads(connection.read(key))
    if kind == "d":
        return lambda connection: connection.delete(key)
    written = int(value or 0)
    if kind == "i":
        return lambda connection: connection.insert(key, written)
    return lambda connection: connection.write(key, written)


def _sql(kind: str, text: str, table: Table) -> Callable[[Connection], Any]:
    if kind == "q":
        statement = f"SELECT k, v FROM {table.name} WHERE {text} ORDER BY k"
        return lambda connection: [tuple(row) for row in cast(SqlConnection, connection).execute(statement).rows or []]
    changed = text.format(t=table.name)
    return lambda connection: cast(SqlConnection, connection).execute(changed).count


def _inserted(schedule: Schedule) -> set[int]:
    return {int(match[4]) for match in _STEP.finditer(schedule.steps) if match[3] == "i"}


@contextmanager
def _table(database: Database) -> Iterator[Table]:
    table = Table(f"isolde_{secrets.token_hex(6)}", Kind.REGISTERS, len(FIRST))
    database.create(table)
    try:
        yield table
    finally:
        database.drop(table)


def _transact(database: Database, table: Table, actions: list[Callable[[Connection], Any]]) -> list[Any]:
    """A transaction of our own at the strongest level, with nobody else there."""
    connection = database.connect(table)
    try:
        for _ in range(_TRIES):
            try:
                with patiently(connection):
                    connection.begin(database.offers()[-1])
                    results = [action(connection) for action in actions]
                    connection.commit()
                return results
            except Aborted:
                connection.rollback()
        raise IsoldeError(f"the database aborted a transaction on {table.name} {_TRIES} times with nobody else there")
    finally:
        connection.close()
