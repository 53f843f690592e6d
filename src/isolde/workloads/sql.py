"""The workload ``sql``: random tables, rows and small transactions of several sessions, as schedules that can be played again.

The number of a round and the seed give all of it. Values are few, so that transactions meet; what the databases compute
differently, or leave open, is not asked for (``docs/design/random-sql.md``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from isolde.history.schedule import Row, Schedule, ScheduleStep
from isolde.tx.dialects import Dialect
from isolde.workloads.sql_statements import Column, DrawnTable, Statements, of_integers

NAME = "sql"
MEANING = (
    "random transactions over one or two tables: conditions, sub-queries, joins, aggregates, changes by key, by condition and of"
    " everything; every answer is judged by 'isolde audit'"
)
SOURCE = "Checking Observational Correctness of Database Systems, section 8"
SESSIONS, OPERATIONS, TABLES, KEYS = 3, 4, 2, 6
LAST = "last"
"""The session that reads everything when the others are over."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large a round is at most: sessions, statements a transaction, tables, and keys to choose from."""

    sessions: int = SESSIONS
    operations: int = OPERATIONS
    tables: int = TABLES
    keys: int = KEYS


def round_of(
    seed: int, number: int, sizes: Sizes, dialect: Dialect, isolation: str, *, to_the_letter: bool = True
) -> Schedule:
    """One round: the same numbers, the same schedule. All sessions run at one level."""
    chance = Random(f"{seed}/{number}")
    tables = [_table(chance, place) for place in range(chance.randint(1, sizes.tables))]
    statements = Statements(chance, dialect, tables, sizes.keys, to_the_letter=to_the_letter)
    rows = {table.name: tuple(_rows(chance, table, sizes.keys)) for table in tables}
    sessions = [f"s{place}" for place in range(1, chance.randint(min(2, sizes.sessions), sizes.sessions) + 1)]
    waiting = [list(_session(chance, statements, name, sizes.operations)) for name in sessions]
    steps = []
    while left := [each for each in waiting if each]:
        (each,) = chance.choices(left, [len(each) for each in left])
        steps.append(each.pop(0))
    steps += [ScheduleStep(LAST, "begin")]
    steps += [ScheduleStep(LAST, f"SELECT * FROM {table.name}") for table in tables]
    steps += [ScheduleStep(LAST, "commit")]
    schema = tuple(text for table in tables for text in table.texts())
    return Schedule(schema, rows, dict.fromkeys([*sessions, LAST], isolation), tuple(steps), f"round {number}")


def transactions_of(schedule: Schedule) -> int:
    """How many transactions a round begins."""
    return sum(step.sql == "begin" for step in schedule.steps)


def _session(chance: Random, statements: Statements, name: str, operations: int) -> Iterator[ScheduleStep]:
    for _ in range(chance.choice((1, 1, 2, 3))):
        yield ScheduleStep(name, "begin")
        for _ in range(chance.randint(1, operations)):
            yield ScheduleStep(name, statements.draw())
        yield ScheduleStep(name, "rollback" if chance.random() < 0.1 else "commit")


def _table(chance: Random, place: int) -> DrawnTable:
    """Two or three numbers and perhaps a text beside the key; the key may have two columns."""
    name = f"t{place}"
    composite = chance.random() < 0.2
    keys = (Column("k", "INT", True), Column("l", "INT", True)) if composite else (Column("id", "INT", True),)
    columns = [Column(one, "INT", chance.random() < 0.3) for one in ("a", "b", "c")[: chance.choice((2, 2, 3))]]
    if chance.random() < 0.3:
        columns.append(Column("s", "VARCHAR(20)", chance.random() < 0.3))
    numbers = of_integers(columns)
    unique = chance.choice(numbers) if chance.random() < 0.2 else None
    index = chance.choice(numbers) if chance.random() < 0.3 else None
    return DrawnTable(name, keys, tuple(columns), unique, index if index is not unique else None)


def _rows(chance: Random, table: DrawnTable, keys: int) -> Iterator[Row]:
    taken: set[object] = set()
    for key in _keys(chance, table, keys):
        row: list[int | str | None] = list(key)
        for column in table.columns:
            value: int | str | None = chance.randrange(4) if column.type == "INT" else chance.choice(("a", "b", "ab"))
            if column is table.unique:
                value = next(one for one in range(100) if one not in taken)
                taken.add(value)
            elif not column.required and chance.random() < 0.15:
                value = None
            row.append(value)
        yield tuple(row)


def _keys(chance: Random, table: DrawnTable, keys: int) -> Sequence[tuple[int, ...]]:
    every: list[tuple[int, ...]]
    if len(table.keys) == 1:
        every = [(key,) for key in range(1, keys + 1)]
    else:
        every = [(first, second) for first in range(1, 4) for second in range(1, 1 + max(1, keys // 2))]
    return sorted(chance.sample(every, chance.randint(1, min(len(every), 5))))
