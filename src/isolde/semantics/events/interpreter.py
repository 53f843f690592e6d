"""Statements of the core on table views, node by node: slow and plain, where the emitted code is fast.

The two are compared with each other. Readings with other kinds of values, and those that watch what is read, extend this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any

from isolde.errors import ExecutionError
from isolde.semantics.core.arrange import distinct_same, distinct_values, ordered
from isolde.semantics.core.catalog import Catalog
from isolde.semantics.core.evaluate import Environment, Evaluator
from isolde.semantics.core.nodes import Clock, Exists, Expression, Member, NextId, Scalar, below
from isolde.semantics.core.plan import Outer, Plan, Visit, plan
from isolde.semantics.core.relations import (
    Aggregate,
    Delete,
    Derived,
    Grouping,
    Insert,
    OnConflict,
    Query,
    RowChecks,
    Scan,
    Set,
    Statement,
    Update,
    query_parts,
    scans,
    width,
)
from isolde.semantics.core.values.rows import any_true
from isolde.semantics.core.values.ties import is_first
from isolde.semantics.tables import constraints
from isolde.semantics.tables.plans import insert_plan, update_plan
from isolde.semantics.tables.view import Numbered, Row, TableView

Answer = tuple[int, list[Row]]
"""How many rows a statement found or changed, and the rows that it gives."""


class Interpreter(Evaluator):
    """Runs statements on the views of all tables."""

    def __init__(
        self, catalog: Catalog, tables: Sequence[TableView], clock: Callable[[], datetime], counts_found: bool = False
    ) -> None:
        self.catalog, self.tables, self.clock, self.counts_found = catalog, tables, clock, counts_found
        self.rules = catalog.rules
        self._remembered: dict[int, list[Row]] = {}

    def writable(self, position: int) -> TableView:
        return self.tables[position]

    def run(self, statement: Statement, variables: dict[int, Any]) -> Answer:
        env = Environment(variables=variables)
        self._remembered = {}
        match statement:
            case Query():
                rows = self.rows(statement, env)
                return len(rows), rows
            case Update():
                return self._update(statement, env)
            case Delete():
                return self._delete(statement, env)
            case Insert():
                return self._insert(statement, env)

    # Queries

    def asked(self, node: Exists | Member | Scalar | Clock | NextId, env: Environment) -> Any:
        match node:
            case Exists():
                return bool(self._inside(node.query, env, exists=True))
            case Scalar():
                return node.pick.function(self._inside(node.query, env))
            case Member():
                rows = self._inside(node.query, env)
                if not rows and node.lazy:
                    return False
                env.bound[node.slot] = self.value(node.operand, env)
                answers = []
                for row in rows:
                    env.bound[node.item] = row[0]
                    answers.append(self.value(node.equal, env))
                return any_true(answers)
            case Clock():
                return node.shown.function(self.clock())
            case NextId():
                ids = self.tables[node.table].ids
                ids.next += 1
                return ids.next - 1

    def _inside(self, query: Query, env: Environment, exists: bool = False) -> list[Row]:
        """The rows of a query inside of an expression; one that depends on no row is run once a statement."""
        if query.correlated:
            return self.rows(query, env, exists)
        if id(query) not in self._remembered:
            self._remembered[id(query)] = self.rows(query, env, exists)
        return self._remembered[id(query)]

    def rows(self, query: Query, env: Environment, exists: bool = False) -> list[Row]:
        """``exists``: only whether there is one is asked, which is the same whichever are cut off."""
        env = env.copy()
        self._read_ahead(query_parts(query), env)
        limit = None if query.limit is None else self.value(query.limit, env)
        offset = None if query.offset is None else self.value(query.offset, env)
        for leaf in scans(query.source):
            if isinstance(leaf, Derived):
                env.bound[-leaf.id] = self.rows(leaf.query, env)
        matches = self._matches(plan(query.source, query.where), env)
        if exists and not (query.grouping or query.distinct or query.limit or query.offset):
            # The first row answers: no other is looked at.
            return [() for _ in islice(matches, 1)]
        found = self._groups(query, query.grouping, matches, env) if query.grouping is not None else matches
        seen: dict[Any, Any] = {}
        out: list[tuple[Row, Row]] = []
        for _ in found:
            row = self._all([output.value for output in query.outputs], env)
            if query.distinct is not None:
                same = self._all(query.distinct.keys, env)
                if not is_first(seen, same, self._all(query.distinct.open, env)):
                    continue
            out.append((self._all([order.key for order in query.order], env), row))
        specs = tuple((place, order.descending, order.nulls_first) for place, order in enumerate(query.order))
        result = ordered(out, specs) if exists else ordered(out, specs, offset, limit)
        result = result[offset or 0 :]
        return result if limit is None else result[:limit]

    def _read_ahead(self, nodes: Iterable[Expression], env: Environment) -> None:
        """MySQL runs scalar queries that depend on no row before it looks at rows."""
        for node in nodes:
            for part in below(node):
                if isinstance(part, Scalar) and part.ahead:
                    self.value(part, env)

    def _all(self, nodes: Sequence[Expression], env: Environment) -> Row:
        return tuple(self.value(node, env) for node in nodes)

    def _holds(self, conditions: Sequence[Expression], env: Environment) -> bool:
        return all(self.value(condition, env) is True for condition in conditions)

    def _matches(self, way: Plan, env: Environment) -> Iterator[None]:
        """For each combination of rows that the conditions hold for: the environment has those rows."""
        if not way.steps:
            if self._holds(way.last, env):
                yield
            return
        step, rest = way.steps[0], Plan(way.steps[1:], way.last)
        for _ in self._visited(step, env):
            yield from self._matches(rest, env)

    def _visited(self, step: Visit | Outer, env: Environment) -> Iterator[None]:
        if isinstance(step, Outer):
            leaves = [leaf.id for leaf in step.sources]
            found = [[env.rows[leaf] for leaf in leaves] for _ in self._matches(Plan(step.steps, step.on), env)]
            for rows in found or [[(None,) * width(leaf) for leaf in step.sources]]:
                env.rows.update(zip(leaves, rows, strict=True))
                if self._holds(step.conditions, env):
                    yield
            return
        source = step.source
        for row in (
            env.bound[-source.id] if isinstance(source, Derived) else [row for _, row in self.found(step, source, env)]
        ):
            env.rows[source.id] = row
            if self._holds(step.conditions, env):
                yield

    def found(self, visit: Visit, scan: Scan, env: Environment) -> Sequence[Numbered]:
        """The rows of a table that may match."""
        way, view = visit.access, self.tables[scan.table.position]
        assert way is not None
        keys = self._all(way.keys, env)
        if way.unique is not None:
            return view.by_key(way.unique, keys[0] if len(keys) == 1 else keys)
        return view.by_equal(way.columns, keys[0] if len(keys) == 1 else keys) if way.columns else list(view.all())

    def _groups(self, query: Query, grouping: Grouping, matches: Iterator[None], env: Environment) -> Iterator[None]:
        leaves = list(scans(query.source))
        groups: dict[Row, list[dict[int, Sequence[Any]]]] = {}
        shown: dict[Row, Row] = {}
        for _ in matches:
            key = self._all(grouping.keys, env)
            is_first(shown, key, self._all(grouping.open, env))
            groups.setdefault(key, []).append({leaf.id: env.rows[leaf.id] for leaf in leaves})
        if grouping.whole and not groups:
            groups[()] = []
        for rows in groups.values():
            env.aggregates = [self._aggregate(aggregate, rows, env) for aggregate in grouping.aggregates]
            env.rows.update(rows[0] if rows else {leaf.id: (None,) * width(leaf) for leaf in leaves})
            if self._holds(grouping.having, env):
                yield

    def _aggregate(self, aggregate: Aggregate, rows: list[dict[int, Sequence[Any]]], env: Environment) -> Any:
        if aggregate.operand is None:
            return len(rows)
        pairs = []
        for row in rows:
            env.rows.update(row)
            value = self.value(aggregate.operand, env)
            if value is not None:
                env.bound[aggregate.slot] = value
                pairs.append((None if aggregate.distinct is None else self.value(aggregate.distinct, env), value))
        if aggregate.distinct is None:
            return aggregate.function([value for _, value in pairs])
        return aggregate.function((distinct_same if aggregate.equals_differ else distinct_values)(pairs))

    # Changes

    def _hits(self, change: Update | Delete, env: Environment) -> Iterator[Numbered]:
        (visit,) = plan(change.scan, change.where).steps
        assert isinstance(visit, Visit)
        values = [assigned.value for assigned in change.sets] if isinstance(change, Update) else []
        self._read_ahead([*change.where, *values], env)
        for number, row in self.found(visit, change.scan, env):
            env.rows[change.scan.id] = row
            if self._holds(visit.conditions, env):
                yield number, row

    def _update(self, change: Update, env: Environment) -> Answer:
        hits = [(number, row, self._assigned(change.sets, row, env)) for number, row in self._hits(change, env)]
        count = constraints.updated(self, update_plan(self.catalog, change, self._row_check), hits)
        return count, self._returned(change, [new for _, _, new in hits], env)

    def _delete(self, change: Delete, env: Environment) -> Answer:
        hits = list(self._hits(change, env))
        count = constraints.deleted(self, change.scan.table.position, hits)
        return count, self._returned(change, [row for _, row in hits], env)

    def _assigned(self, sets: Sequence[Set], row: Row, env: Environment) -> Row:
        new = list(row)
        for assigned in sets:
            new[assigned.place] = self.value(assigned.value, env)
            if assigned.slot is not None:
                env.bound[assigned.slot] = new[assigned.place]
        return tuple(new)

    def _returned(self, change: Update | Delete | Insert, rows: list[Row], env: Environment) -> list[Row]:
        found = []
        for row in rows if change.returning else []:
            env.rows[change.scan.id] = row
            found.append(self._all([output.value for output in change.returning], env))
        return found

    def _row_check(self, checks: RowChecks) -> constraints.RowCheck:
        def check(row: Row) -> None:
            for place, reason in checks.nonnull:
                if row[place] is None:
                    raise ExecutionError("not-null", reason)
            env = Environment(rows={checks.source: row})
            for condition, reason in checks.checks:
                if self.value(condition, env) is False:
                    raise ExecutionError("check", reason)

        return check

    def _insert(self, change: Insert, env: Environment) -> Answer:
        size = len(change.rows)
        rows: Iterable[Row] = (self._all(row, env) for row in change.rows)
        if change.query is not None:
            query = change.query
            found = constraints.half_way(self, change.table.position, lambda: self.rows(query, env))
            size, rows = len(found), (self._from_query(change, row, env) for row in found)
        elif change.batch is not None:
            given = env.variables[change.batch.slot]
            size, rows = len(given), (self._from_batch(change, place, values, env) for place, values in given)
        elif change.queries and not self.rules.shows_rows_before:
            # Queries among the values see the table as it was before the statement.
            rows = list(rows)
        resolve = None
        if change.conflict is not None and change.conflict.sets:
            resolve = partial(self._resolved, change.conflict, env)
        count, done = constraints.inserted(
            self, insert_plan(self.catalog, change, self._row_check), size, rows, resolve
        )
        return count, self._returned(change, done, env)

    def _from_query(self, change: Insert, row: Row, env: Environment) -> Row:
        env.rows[change.source] = row
        return self._all(change.rows[0], env)

    def _from_batch(self, change: Insert, place: int, values: Sequence[Any], env: Environment) -> Row:
        assert change.batch is not None
        env.variables.update(zip(change.batch.templates[place], values, strict=True))
        return self._all(change.rows[place], env)

    def _resolved(self, conflict: OnConflict, env: Environment, old: Row, new: Row) -> Row | None:
        env.rows[conflict.old], env.rows[conflict.new] = old, new
        return self._assigned(conflict.sets, old, env) if self._holds(conflict.where, env) else None
