"""The part of a statement that computes: which rows match, what they become. It reads views and touches nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.core.arrange import ordered
from isolde.semantics.core.catalog import Catalog
from isolde.semantics.core.elaborate_statements import columns_of
from isolde.semantics.core.evaluate import Environment, Evaluator
from isolde.semantics.core.nodes import Expression, NextId, below, query_of
from isolde.semantics.core.plan import Outer, Visit, depends_on, plan
from isolde.semantics.core.relations import Delete, Derived, Insert, OnConflict, Output, Query, Scan, Update, scans
from isolde.semantics.core.types import outside
from isolde.semantics.events.interpreter import Interpreter
from isolde.semantics.stores.requests import Cut, Returned
from isolde.semantics.stores.rows import Version, View
from isolde.semantics.tables.constraints import Checks
from isolde.semantics.tables.plans import insert_plan, update_plan
from isolde.semantics.tables.view import Numbered, Row

NOW = datetime(2024, 1, 1, 12)
"""What the clock shows: one moment, since a transaction may only depend on what it reads."""
_PURE = Evaluator()


class Predicate:
    """Rows of a table by the conditions that a scan has for them. Conditions with queries inside are left out.

    Two are equal if they come from the same place of the same statement with the same values.
    """

    __slots__ = ("_conditions", "_env", "_key", "_scan", "table")

    def __init__(self, scan: Scan, conditions: Sequence[Expression], env: Environment) -> None:
        own = [condition for condition in conditions if all(query_of(part) is None for part in below(condition))]
        around = sorted({source for condition in own for source in depends_on(condition)} - {scan.id})
        self.table = scan.table.position
        self._scan, self._conditions, self._env = scan.id, own, env.copy()
        self._key = (
            self.table,
            tuple(id(condition) for condition in own),
            tuple(tuple(env.rows[source]) for source in around),
            tuple(env.variables.items()),
            tuple((slot, value) for slot, value in env.bound.items() if slot >= 0),
        )

    def matches(self, row: Row | None) -> bool:
        if row is None:
            return False
        self._env.rows[self._scan] = row
        try:
            return all(_PURE.value(condition, self._env) is True for condition in self._conditions)
        except ExecutionError:
            return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Predicate) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


class KeyPredicate:
    """Rows of a table that have a key in some columns."""

    __slots__ = ("_columns", "_key", "_key_of", "table")

    def __init__(self, catalog: Catalog, table: int, columns: tuple[int, ...], key: Any) -> None:
        self.table, self._columns, self._key = table, columns, key
        self._key_of = catalog.key(catalog.tables[table].table, columns)

    def matches(self, row: Row | None) -> bool:
        return row is not None and bool(self._key_of(row) == self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyPredicate) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def _parts(self) -> tuple[Any, ...]:
        return self.table, self._columns, self._key


class WholeTable(NamedTuple):
    """All rows of a table: what a sequential scan of PostgreSQL reads, whatever its conditions are."""

    table: int

    def matches(self, row: Row | None) -> bool:
        return row is not None


class Match(NamedTuple):
    """Rows of the tables of a query that belong together, by the numbers of the scans."""

    numbers: dict[int, int]
    rows: dict[int, Row]


class Evaluation(Interpreter):
    """A statement on views. ``reads`` gets a predicate for every scan, if they are asked for."""

    def __init__(self, catalog: Catalog, views: Sequence[View], *, notes_reads: bool, counts_found: bool) -> None:
        super().__init__(catalog, views, lambda: NOW, counts_found)
        self.views = views
        self.reads: dict[Predicate, None] = {}
        self._notes_reads = notes_reads
        self.visits: list[tuple[Scan, Visit, Environment]] = []
        """Every scan with the values that it was made with, if reads are noted."""
        self._numbers: dict[int, int] = {}

    def found(self, visit: Visit, scan: Scan, env: Environment) -> Sequence[Numbered]:
        if self._notes_reads:
            self.reads[Predicate(scan, visit.conditions, env)] = None
            self.visits.append((scan, visit, env.copy()))
        return super().found(visit, scan, env)

    def _visited(self, step: Visit | Outer, env: Environment) -> Iterator[None]:
        if isinstance(step, Outer) or isinstance(step.source, Derived):
            yield from super()._visited(step, env)
            return
        for number, row in self.found(step, step.source, env):
            env.rows[step.source.id] = row
            self._numbers[step.source.id] = number
            if self._holds(step.conditions, env):
                yield

    # Queries that lock

    def matches(self, query: Query, env: Environment) -> tuple[list[Match], int, int | None]:
        """What a locking query finds, in its order, and its OFFSET and LIMIT."""
        locked_tables(query)
        self._remembered = {}
        limit = None if query.limit is None else self.value(query.limit, env)
        offset = 0 if query.offset is None else self.value(query.offset, env) or 0
        found: list[Match] = []
        keys: list[tuple[Row, Row]] = []
        for _ in self._matches(plan(query.source, query.where), env):
            keys.append((self._all([order.key for order in query.order], env), (len(found),)))
            found.append(Match(dict(self._numbers), {scan: tuple(row) for scan, row in env.rows.items()}))
        specs = tuple((place, order.descending, order.nulls_first) for place, order in enumerate(query.order))
        sorted_ = ordered(keys, specs, offset or None, limit)
        return [found[place] for (place,) in sorted_], offset, limit

    def still_matches(self, query: Query, rows: dict[int, Row], env: Environment) -> bool:
        """Whether the conditions of a query without outer joins hold for these rows."""
        env.rows.update(rows)
        way = plan(query.source, query.where)
        conditions = [part for step in way.steps if isinstance(step, Visit) for part in step.conditions]
        return self._holds([*conditions, *way.last], env)

    def output(self, query: Query, rows: dict[int, Row], env: Environment) -> Row:
        env.rows.update(rows)
        return self._all([output.value for output in query.outputs], env)

    # Changes

    def hits(self, change: Update | Delete, env: Environment) -> list[tuple[int, Version]]:
        """The rows that an UPDATE or DELETE finds."""
        self._remembered = {}
        view = self.views[change.scan.table.position]
        found = []
        for number, _ in self._hits(change, env):
            version = view.version(number)
            assert version is not None
            found.append((number, version))
        return found

    def still_hit(self, change: Update | Delete, row: Row, env: Environment) -> bool:
        env.rows[change.scan.id] = row
        return self._holds(change.where, env)

    def new_row(self, change: Update, row: Row, env: Environment) -> Row:
        env.rows[change.scan.id] = row
        return self._assigned(change.sets, row, env)

    def resolved(self, conflict: OnConflict, old: Row, new: Row, env: Environment) -> Row | None:
        """What ON CONFLICT makes of the row that is there; ``None``: it stays."""
        return self._resolved(conflict, env, old, new)

    def returned(self, change: Update | Delete | Insert, rows: list[Row], env: Environment) -> tuple[Row, ...]:
        return tuple(map(tuple, self._returned(change, rows, env)))

    def update_checks(self, change: Update) -> Checks:
        return update_plan(self.catalog, change, self._row_check).checks

    def insert_checks(self, change: Insert) -> Checks:
        return insert_plan(self.catalog, change, self._row_check).checks

    def to_insert(self, change: Insert, env: Environment) -> list[tuple[Sequence[Expression], Row | None]]:
        """For each row of an INSERT its expressions, and the row of the query that it is made from."""
        self._remembered = {}
        if change.batch is not None:
            raise outside("a batch of rows in a store model", "insert row by row")
        if change.query is None:
            return [(cells, None) for cells in change.rows]
        return [(change.rows[0], row) for row in self.rows(change.query, env)]

    def inserted_row(self, change: Insert, cells: Sequence[Expression], source: Row | None, env: Environment) -> Row:
        if source is not None:
            env.rows[change.source] = source
        return self._all(cells, env)


def returned_by(run: Interpreter, query: Query, env: Environment, *, tells_cuts: bool) -> Returned:
    """A query's rows on the state that it reads, with what they are ordered by. ``tells_cuts``: an open cut is no error."""
    width = len(query.outputs)
    keys = tuple(Output("key", order.key, order.key.type) for order in query.order)
    keyed = replace(query, outputs=(*query.outputs, *keys))
    names = tuple(name for name, _ in columns_of(query))
    try:
        rows = tuple(map(tuple, run.rows(query, env)))
    except OutsideFragment:
        if not tells_cuts or (query.limit is None and query.offset is None):
            raise
        every = run.rows(replace(keyed, limit=None, offset=None), env)
        limit = None if query.limit is None else run.value(query.limit, env)
        offset = 0 if query.offset is None else run.value(query.offset, env) or 0
        split = tuple(tuple(row[:width]) for row in every), tuple(tuple(row[width:]) for row in every)
        return Returned(names, (), 0, True, None, Cut(*split, offset, limit))
    if not keys:
        return Returned(names, rows, len(rows))
    return Returned(names, rows, len(rows), True, lambda: [row[width:] for row in run.rows(keyed, env)])


def drawn(cells: Sequence[Expression]) -> int:
    """How many generated ids a row draws."""
    return sum(isinstance(part, NextId) for cell in cells for part in below(cell))


def locked_tables(query: Query) -> list[Scan]:
    """The tables whose rows a locking query locks; refused where PostgreSQL refuses it, or the language cannot say it."""
    if query.grouping is not None or query.distinct is not None:
        raise ExecutionError("type", "FOR UPDATE is not allowed with GROUP BY, DISTINCT or aggregates")
    leaves = list(scans(query.source))
    if any(isinstance(leaf, Derived) for leaf in leaves):
        raise outside("a locking query over a query in FROM", "lock the tables themselves")
    if any(isinstance(step, Outer) for step in plan(query.source, query.where).steps):
        raise outside("a locking query with an outer join", "use an inner join, or two queries")
    return [leaf for leaf in leaves if isinstance(leaf, Scan)]
