"""``infer --from-populate``: only states that the application's first rows lead to.

What proofs may assume then, beside the invariants, are simple conditions that the first rows satisfy and that every transaction
keeps: no negative numbers, references, numbers below the counter that gives them out. They are guessed from the tables, looked at
in first rows that are drawn, and proved like invariants. A transaction breaks an invariant alone only where a state shows it that
transactions led to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from isolde.campaigns.refuting import Call, Refuter
from isolde.engines.explore.invariants import holds, loaded_store
from isolde.engines.explore.program import populated
from isolde.engines.explore.shown import plain
from isolde.engines.infer.nameless import found_by
from isolde.engines.infer.problem import Problem
from isolde.findings import BrokenInvariant, TableRows
from isolde.semantics.concrete import Store
from isolde.tx.dialects import Dialect
from isolde.tx.procedures import Invariant
from isolde.tx.schema import Kind, Table
from isolde.workloads.application import Application, must_hold

SAMPLES = 8
"""How many first rows are drawn, of different sizes."""
_CALLS = 400
_OVER = "first rows: "


def first_conditions(
    application: Application, problem: Problem, named: Collection[str], *, all_kinds: bool
) -> list[Invariant]:
    """Conditions of the usual kinds, about tables of these names, that hold of all first rows that were drawn.

    The kinds that proofs mostly need are counters and what takes the place of keys; ``all_kinds`` has those about signs and
    references, too, which are many.
    """
    states = list(_drawn(application))
    tables = [table for name, table in application.schema.tables.items() if name in named]
    columns = {
        info.table.name: [[info.table.columns[place].name for place in places] for places in found_by(problem, info)]
        for info in problem.catalog.tables
    }
    looked = frozenset(_named(problem, problem.looked))
    updated = frozenset(
        (table, place)
        for one in problem.transactions.values()
        for table, places in one.writing.updates.items()
        for place in places
    )
    told = _Told(looked, frozenset(_named(problem, updated)))
    guesses = [*_counters_of(tables, columns, told), *_nameless(tables, columns)]
    if all_kinds:
        guesses += [*_plain(tables, told)]
    guessed = [must_hold(f"{_OVER}{meaning}", query, "") for meaning, query in guesses]
    return [one for one in guessed if all(_holds(one, store) for store in states)]


def _named(problem: Problem, places: Iterable[tuple[int, int]]) -> Iterator[tuple[str, str]]:
    for position, place in places:
        table = problem.table(position).table
        yield table.name, table.columns[place].name


def is_derived(name: str) -> bool:
    """Whether a condition was derived from the first rows, and is no invariant of the application."""
    return name.startswith(_OVER)


def _drawn(application: Application) -> Iterator[Store]:
    for seed in range(SAMPLES):
        random = Random(seed)
        scale = {name: random.randint(1, min(size, 3)) for name, size in application.scale.items()}
        store = Store(application.schema, Dialect.POSTGRESQL)
        for table, rows in populated(application.populate(random, scale)).items():
            store.load(table, [tuple(row) for row in rows])
        yield store


def _holds(invariant: Invariant, store: Store) -> bool:
    rows = store.state()
    return holds(invariant.name, invariant.violations, rows, lambda: loaded_store(store, rows))


Columns = Mapping[str, Sequence[Sequence[str]]]
"""By table without a key: the columns by which its rows are found, in several ways."""


@dataclass(frozen=True, slots=True)
class _Told:
    """Tables and columns that invariants look at, and those that transactions update."""

    looked: Collection[tuple[str, str]]
    updated: Collection[tuple[str, str]]


def _plain(tables: Sequence[Table], told: _Told) -> Iterator[tuple[str, str]]:
    """No negative numbers, and references: a meaning and a query for violations each."""
    for table in tables:
        for column in (one for one in _numbers(table) if (table.name, one) in told.looked):
            yield (
                f"{table.name}.{column} is not negative",
                f'SELECT "{column}" FROM "{table.name}" WHERE "{column}" < 0',
            )
    for child in tables:
        for parent in tables:
            if child is not parent:
                yield from _references(child, parent, told)


def _counters_of(tables: Sequence[Table], columns: Columns, told: _Told) -> Iterator[tuple[str, str]]:
    for child in tables:
        for parent in tables:
            for keys in [list(child.primary_key)] if child.primary_key else columns[child.name]:
                if child is not parent:
                    yield from _counters(child, keys, parent, told)


def _references(child: Table, parent: Table, told: _Told) -> Iterator[tuple[str, str]]:
    if len(parent.primary_key) != 1:
        return
    (key,) = parent.primary_key
    for column in (one for one in _numbers(child) if {(child.name, one), (parent.name, key)} <= set(told.looked)):
        yield (
            f"{child.name}.{column} is in {parent.name}",
            f'SELECT c."{column}" FROM "{child.name}" c LEFT JOIN "{parent.name}" p ON p."{key}" = c."{column}"'
            f' WHERE p."{key}" IS NULL',
        )


def _counters(child: Table, keys: Sequence[str], parent: Table, told: _Told) -> Iterator[tuple[str, str]]:
    if not parent.primary_key or len(keys) != len(parent.primary_key) + 1 or keys[-1] not in _numbers(child):
        return
    joined = " AND ".join(f'p."{one}" = c."{other}"' for one, other in zip(parent.primary_key, keys[:-1], strict=True))
    for column in _numbers(parent):
        if (parent.name, column) in told.updated:
            yield (
                f"{child.name}.{keys[-1]} is below {parent.name}.{column}",
                f'SELECT c."{keys[-1]}" FROM "{child.name}" c JOIN "{parent.name}" p ON {joined}'
                f' WHERE c."{keys[-1]}" >= p."{column}"',
            )


def _nameless(tables: Sequence[Table], columns: Columns) -> Iterator[tuple[str, str]]:
    """Of tables without a key: no two rows agree in columns by which rows are found; of rows that another table names a column
    is null."""
    for table in tables:
        for found in columns[table.name]:
            shown = ", ".join(f'"{one}"' for one in found)
            yield (
                f"no two rows of {table.name} agree in {', '.join(found)}",
                f'SELECT {shown} FROM "{table.name}" GROUP BY {shown} HAVING COUNT(*) > 1',
            )
            for other in tables:
                for named in columns[other.name] if other is not table else ():
                    if len(named) == len(found):
                        yield from _null_where_named(table, found, other, named)


def _null_where_named(
    table: Table, found: Sequence[str], other: Table, named: Sequence[str]
) -> Iterator[tuple[str, str]]:
    joined = " AND ".join(f'a."{one}" = b."{two}"' for one, two in zip(found, named, strict=True))
    for column in table.columns:
        if column.nullable:
            yield (
                f"{table.name}.{column.name} is null where {other.name} names the row by {', '.join(named)}",
                f'SELECT a."{found[0]}" FROM "{table.name}" a JOIN "{other.name}" b ON {joined}'
                f' WHERE a."{column.name}" IS NOT NULL',
            )


def _numbers(table: Table) -> list[str]:
    return [
        column.name
        for column in table.columns
        if column.type.kind is Kind.INTEGER and (not column.nullable or column.name in table.primary_key)
    ]


# What breaks alone


def broken_on_the_way(refuter: Refuter, transaction: str, invariant: Invariant) -> BrokenInvariant | None:
    """A state that transactions led to from the first rows, in which this one breaks an invariant that held."""
    random = Random(f"{transaction} {invariant.name}")
    states = [store for store in refuter.states() if _holds(invariant, store)]
    for _ in range(_CALLS if states else 0):
        store = random.choice(states)
        (call,) = refuter.calls((transaction,), random)
        twin = store.copy()
        if refuter.run(twin, *call) and not _holds(invariant, twin):
            return _shown(store, call, invariant)
    return None


def _shown(store: Store, call: Call, invariant: Invariant) -> BrokenInvariant:
    called = f"{call[0]}({', '.join(map(repr, call[1]))})"
    said = f" ({invariant.meaning})" if invariant.meaning else ""
    tables: dict[str, Any] = store.state()
    return BrokenInvariant(
        check=invariant.name,
        explanation=f"{called} alone breaks {invariant.name}{said}, from a state that the first rows lead to",
        tables=tuple(
            TableRows(table, tuple(tuple(plain(value) for value in row) for row in rows))
            for table, rows in tables.items()
            if rows
        ),
        confirmed="explored",
    )
