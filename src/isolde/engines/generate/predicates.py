"""Synthetic histories with predicates, and the certificate of the store that they ran on.

The store has versions and keeps what a level promises: at serializable transactions run one after the other, at snapshot
isolation on the state at their start, at read committed each statement on what is committed by then. A transaction that would
overwrite what it could not see, or a row that another one has written and not committed, is aborted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from isolde.errors import UsageError
from isolde.history import History, Sql, Status, Transaction
from isolde.history.certificate import Certificate, Installed, ObjectId, RowId, Sees, VersionId, VersionSet
from isolde.levels import Level, level_named
from isolde.semantics.concrete import Store
from isolde.semantics.tables.memory import MemoryTable
from isolde.tx.dialects import Dialect
from isolde.tx.sql import schema, statement
from isolde.workloads.predicates import DDL, TABLE, Draws, Step, application, mix_named

LEVELS = (Level.READ_COMMITTED, Level.SNAPSHOT_ISOLATION, Level.SERIALIZABLE)
_NAMED = re.compile(r":(\w+)")
Row = tuple[Any, ...]


@dataclass(slots=True)
class _Open:
    """A transaction on its way: its statements, its own writes by row, and how many had committed when it began."""

    id: int
    session: int
    steps: list[Step]
    snapshot: int
    start: int
    ops: list[Sql] = field(default_factory=list)
    own: dict[int, tuple[int, Row | None]] = field(default_factory=dict)


def generate_predicates(
    *,
    mix: Sequence[str] = (),
    level: str = "serializable",
    sessions: int = 10,
    transactions: int = 1000,
    keys: int | None = None,
    operations: int = 5,
    inject: Sequence[str] = (),
    seed: int = 0,
) -> tuple[History, Certificate]:
    """A history of the workload ``predicates`` and its certificate; ``inject`` plants anomalies by name, on rows of their own."""
    promised = level_named(level)
    if promised not in LEVELS:
        names = ", ".join(one.value for one in LEVELS)
        raise UsageError(f"the workload predicates is generated at {names}; not at {promised.value}")
    unknown = [name for name in inject if name not in PLANTED]
    if unknown:
        raise UsageError(f"no predicate anomaly '{unknown[0]}' to plant (there are {', '.join(PLANTED)})")
    chosen = mix_named(mix)
    machine = _Machine(promised, keys or chosen.keys, seed)
    draws = [Draws(chosen, machine.keys, operations, session, seed=seed) for session in range(sessions)]
    machine.run(draws, transactions)
    for name in inject:
        PLANTED[name](machine)
    return machine.history(chosen.name), machine.certificate()


class _Machine:
    """The store: the rows that are committed, and how to get back to what was committed before."""

    def __init__(self, level: Level, keys: int, seed: int) -> None:
        self.level, self.keys = level, keys
        self.chance = Random(f"{seed}/machine")
        self.store = Store(schema(DDL, Dialect.POSTGRESQL), Dialect.POSTGRESQL)
        made = application(keys)
        self.first = [row for _, row in made.populate(Random(f"{seed}/rows"), made.scale)]
        table = self.store.tables[0]
        assert isinstance(table, MemoryTable)
        self.table = table
        # A row's number is its key; those that are inserted get one of these until they are committed.
        table.next_number = 1 << 60
        for row in self.first:
            table.restore(row[0], row)
        self.changes: list[dict[int, Row | None]] = []
        """By commit, the rows that it replaced as they were before."""
        self.commits: list[int] = []
        self.versions: dict[int, list[VersionId]] = {}
        self.reads: dict[VersionId, VersionSet] = {}
        self.done: dict[int, Transaction] = {}
        self.clock = 0

    # Running

    def run(self, draws: Sequence[Draws], transactions: int) -> None:
        """So many transactions, those of different sessions one statement at a time."""
        running: dict[int, _Open] = {}
        begun = 0
        while begun < transactions or running:
            session = self.chance.randrange(len(draws))
            one = running.get(session)
            if one is None:
                if begun == transactions:
                    session = self.chance.choice(list(running))
                    one = running[session]
                else:
                    one = self.begin(begun, session, draws[session].next())
                    running[session] = one
                    begun += 1
            ended = False
            while not ended:
                ended = self.step(one, [other for other in running.values() if other is not one])
                if self.level is not Level.SERIALIZABLE:
                    break
            if ended:
                del running[session]

    def begin(self, number: int, session: int, steps: Sequence[Step]) -> _Open:
        self.clock += 1
        return _Open(number, session, list(steps), len(self.commits), self.clock)

    def step(self, one: _Open, others: Sequence[_Open]) -> bool:
        """The next statement of a transaction, or its end; whether it has ended."""
        if not one.steps:
            self.end(one, Status.COMMITTED)
            return True
        step = one.steps.pop(0)
        first = one.snapshot if self.level is Level.SNAPSHOT_ISOLATION else len(self.commits)
        rows, count, written = self.ran(one, step, first)
        blocked = any(key in other.own for other in others for key in written)
        stale = any(key in changed for changed in self.changes[first:] for key in written)
        if blocked or stale:
            self.end(one, Status.ABORTED)
            return True
        self.note(one, step, first, rows, count, written)
        if step.then is not None and rows:
            value = rows[0][0]
            parameters = {**step.then.parameters, "value": (value or 0) + 1}
            one.steps.insert(0, Step(step.then.sql, parameters))
        return False

    def note(self, one: _Open, step: Step, first: int, rows: Any, count: int, written: dict[int, Row | None]) -> None:
        """Writes a statement down, with what it gave and what it could see."""
        names = _NAMED.findall(step.sql)
        content: dict[str, Any] = {
            "sql": _NAMED.sub("?", step.sql),
            "params": [step.parameters[name] for name in names],
            "rows": None if rows is None else [list(row) for row in rows],
        }
        if rows is None:
            content["count"] = count
        place = len(one.ops)
        self.reads[one.id, place] = VersionSet(Sees(first))
        one.own.update((key, (place, row)) for key, row in written.items())
        one.ops.append(Sql(content))

    def ran(self, one: _Open, step: Step, first: int) -> tuple[Any, int, dict[int, Row | None]]:
        """What a statement gives on the state after the first commits, with the transaction's own writes over it."""
        laid: dict[int, Row | None] = {}
        for changed in reversed(self.changes[first:]):
            laid.update(changed)
        laid.update((key, row) for key, (_, row) in one.own.items())
        before = {key: self.table.rows.get(key) for key in laid}
        for key, row in laid.items():
            self._set(key, row)
        transaction = self.store.transaction()
        result = transaction.run(statement(step.sql, Dialect.POSTGRESQL), dict(step.parameters))
        touched = dict.fromkeys(number for _, number, _ in self.store.undo)
        written: dict[int, Row | None] = {}
        for number in touched:
            row = self.table.rows.get(number)
            written[number if row is None else row[0]] = row
        transaction.rollback()
        for key, row in before.items():
            self._set(key, row)
        is_query = step.sql.startswith("SELECT")
        return (result.rows if is_query else None), result.count, written

    def _set(self, key: int, row: Row | None) -> None:
        if row is not None or key in self.table.rows:
            self.table.restore(key, row)

    def end(self, one: _Open, status: Status) -> None:
        """Installs what a transaction wrote, unless it is aborted."""
        self.clock += 1
        self.done[one.id] = Transaction(one.id, one.session, tuple(one.ops), status, one.start, self.clock)
        if status is not Status.COMMITTED:
            return
        self.commits.append(one.id)
        self.changes.append({key: self.table.rows.get(key) for key in one.own})
        for key, (place, row) in one.own.items():
            self._set(key, row)
            self.versions.setdefault(key, []).append((one.id, place))

    # Written down

    def history(self, mix: str) -> History:
        extra = {
            "dialect": "postgresql",
            "schema": [DDL.rstrip(";")],
            "rows": {TABLE: [list(row) for row in self.first]},
        }
        meta = {"workload": "predicates", "mix": mix, "level": self.level.value, "keys": self.keys}
        return History(tuple(self.done[number] for number in sorted(self.done)), meta=meta, extra=extra)

    def certificate(self) -> Certificate:
        objects: dict[ObjectId, Installed] = {
            RowId(TABLE, (key,)): Installed((None, *versions)) for key, versions in sorted(self.versions.items())
        }
        return Certificate("generated", objects, tuple(self.commits), self.reads)

    # Planting

    def planted(self, *scripts: Sequence[tuple[str, dict[str, Any]]]) -> list[_Open]:
        """Transactions that all run on the state as it is now, and have not ended yet."""
        open_: list[_Open] = []
        for script in scripts:
            number = len(self.done) + len(open_)
            one = self.begin(number, 10_000 + number, [])
            for sql, parameters in script:
                step = Step(sql, parameters)
                self.note(one, step, one.snapshot, *self.ran(one, step, one.snapshot))
            open_.append(one)
        return open_

    def fresh(self) -> int:
        """A key, and the beginning of a range of values, that nothing else uses."""
        return 10_000_000 + 1_000 * len(self.done)

    def commit(self, *transactions: _Open) -> None:
        for one in transactions:
            self.end(one, Status.COMMITTED)


_COUNT = f"SELECT COUNT(*) FROM {TABLE} WHERE c1 >= :low AND c1 <= :high"
_INSERT = f"INSERT INTO {TABLE} (c0, c1, c2) VALUES (:key, :value, :fresh)"
_READ = f"SELECT c1, c2 FROM {TABLE} WHERE c0 = :key"
_UPDATE = f"UPDATE {TABLE} SET c1 = :value, c2 = :fresh WHERE c0 = :key"


def _range(low: int) -> dict[str, Any]:
    return {"low": low, "high": low + 9}


def _row(key: int, value: int) -> dict[str, Any]:
    return {"key": key, "value": value, "fresh": key}


def _phantom(machine: _Machine) -> None:
    """Two transactions each count a range, and insert into the other's."""
    at = machine.fresh()
    one = [(_COUNT, _range(at)), (_INSERT, _row(at, at + 101))]
    other = [(_COUNT, _range(at + 100)), (_INSERT, _row(at + 1, at + 1))]
    machine.commit(*machine.planted(one, other))


def _g2(machine: _Machine) -> None:
    """One reads a row that the other then changes; the other counts a range into which the first inserts."""
    at = machine.fresh()
    machine.commit(*machine.planted([(_INSERT, _row(at, at + 500))]))
    one = [(_READ, {"key": at}), (_INSERT, _row(at + 1, at + 1))]
    other = [(_COUNT, _range(at)), (_UPDATE, _row(at, at + 501))]
    machine.commit(*machine.planted(one, other))


def _g_single(machine: _Machine) -> None:
    """A range is counted, a row comes into it, and it is counted again."""
    at = machine.fresh()
    (reader,) = machine.planted([(_COUNT, _range(at))])
    writer = machine.begin(reader.id + 1, 20_000 + reader.id, [])
    step = Step(_INSERT, _row(at, at + 1))
    machine.note(writer, step, writer.snapshot, *machine.ran(writer, step, writer.snapshot))
    machine.commit(writer)
    again = Step(_COUNT, _range(at))
    machine.note(reader, again, len(machine.commits), *machine.ran(reader, again, len(machine.commits)))
    machine.commit(reader)


def _mismatch(machine: _Machine) -> None:
    """A row is missing from a result."""
    at = machine.fresh()
    machine.commit(*machine.planted([(_INSERT, _row(at, at + 1)), (_INSERT, _row(at + 1, at + 2))]))
    (reader,) = machine.planted([(f"SELECT c0, c1 FROM {TABLE} WHERE c1 >= :low AND c1 <= :high", _range(at))])
    content = dict(reader.ops[0].content)
    reader.ops[0] = Sql({**content, "rows": content["rows"][1:]})
    machine.commit(reader)


def _seen(machine: _Machine, *, aborted: bool) -> None:
    """A version is seen that was never installed."""
    at = machine.fresh()
    (writer,) = machine.planted([(_INSERT, _row(at, at + 1)), (_UPDATE, _row(at, at + 2))])
    machine.end(writer, Status.ABORTED if aborted else Status.COMMITTED)
    (reader,) = machine.planted([(_COUNT, _range(at))])
    reader.ops[0] = Sql({**reader.ops[0].content, "rows": [[1]]})
    row: ObjectId = RowId(TABLE, (at,))
    machine.reads[reader.id, 0] = VersionSet(Sees(reader.snapshot), {row: (writer.id, 0)})
    machine.commit(reader)


def _not_my_own(machine: _Machine) -> None:
    """A transaction does not see the row that it has inserted."""
    at = machine.fresh()
    (one,) = machine.planted([(_INSERT, _row(at, at + 1)), (_COUNT, _range(at))])
    one.ops[1] = Sql({**one.ops[1].content, "rows": [[0]]})
    machine.reads[one.id, 1] = VersionSet(Sees(one.snapshot), {RowId(TABLE, (at,)): None})
    machine.commit(one)


PLANTED: dict[str, Callable[[_Machine], None]] = {
    "phantom": _phantom,
    "g2": _g2,
    "g-single": _g_single,
    "result-set-mismatch": _mismatch,
    "aborted-read": lambda machine: _seen(machine, aborted=True),
    "intermediate-read": lambda machine: _seen(machine, aborted=False),
    "not-my-own-write": _not_my_own,
}
"""The anomalies that can be planted, each with what it does."""
