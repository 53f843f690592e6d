"""Queries on states: rows that are found by their keys, rows that some condition finds, and groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from isolde.semantics.core.nodes import (
    Apply,
    Bound,
    Column,
    Exists,
    Expression,
    Field,
    Logic,
    Member,
    Scalar,
    Variable,
    below,
    query_of,
)
from isolde.semantics.core.plan import Outer, Visit, depends_on, plan
from isolde.semantics.core.relations import Aggregate, Derived, Query, Scan, Source, scans
from isolde.semantics.sets.expressions import TEXT_COMPARED, Environment, Reader
from isolde.semantics.sets.ghosts import Ghosts
from isolde.semantics.sets.state import Book, Key, View
from isolde.semantics.sets.values import Value, key_places, naming, outside, terms_of
from isolde.smt import terms as smt
from isolde.smt.terms import Term
from isolde.tx.queries import Patience

Free = Callable[[Scan], Key]
"""The key of a row that nothing but conditions finds."""


@dataclass(frozen=True, slots=True)
class Tables:
    """What queries are asked of: a state, what is known of it, and the aggregates of the application."""

    book: Book
    ghosts: Ghosts
    view: View
    dirty: bool = False
    """Whether nothing is known of what queries inside of expressions see: it may be what is never committed."""
    inside: View | None = None
    """What queries inside of expressions see, if it is another state."""

    def reader(self) -> Reader:
        return Reader(self.book, self.asked)

    def asked(self, node: Exists | Member | Scalar, env: Environment) -> Value:
        if not isinstance(node, Exists):
            raise outside("a query inside of an expression other than EXISTS")
        if self.dirty:
            return Value(self.book.fresh("seen", "boolean"))
        if self.inside is not None:
            return replace(self, view=self.inside, inside=None).asked(node, env)
        query = node.query
        if query.grouping is not None or may_leave_out(query) or query.source is None:
            raise outside("EXISTS of groups or of a limited query")
        keyed = by_key(query)
        if keyed is not None:
            inside = env.copy()
            return Value(self.bound(query.source, query.where, inside, _nowhere))
        count = self.grouped(query.source, query.where, env, None)
        return Value(count.known >= 1)

    # Rows

    def bound(self, source: Source | None, where: Sequence[Expression], env: Environment, free: Free) -> Term:
        """The condition under which there is such a combination of rows; the environment has them then."""
        way = plan(source, tuple(where))
        found = [self._step(step, env, free) for step in way.steps]
        return smt.every([*found, self.reader().holds(way.last, env)])

    def _step(self, step: Visit | Outer, env: Environment, free: Free) -> Term:
        if isinstance(step, Outer):
            self._outer(step, env)
            return self.reader().holds(step.conditions, env)
        there = self._visit(step, env, free, step.conditions)
        return smt.both(there, self.reader().holds(step.conditions, env))

    def _visit(self, step: Visit, env: Environment, free: Free, equations: Sequence[Expression]) -> Term:
        if isinstance(step.source, Derived):
            return self._derived(step.source, env, equations)
        info, way, reader = step.source.table, step.access, self.reader()
        assert way is not None
        if way.unique == 0 and key_places(info) is not None:
            keys = [reader.value(node, env) for node in way.keys]
            key, known = terms_of(keys), smt.every(smt.no(value.null) for value in keys)
        else:
            key, known = free(step.source), smt.TRUE
        row = self.book.row(self.view, info, key)
        env.rows[step.source.id] = row.values
        return smt.both(known, row.there)

    def _outer(self, step: Outer, env: Environment) -> None:
        if len(step.steps) != 1 or not isinstance(step.steps[0], Visit):
            raise outside("an outer join with a join on its right")
        visit = step.steps[0]
        source = visit.source
        conditions = (*visit.conditions, *step.on)
        if isinstance(source, Derived):
            matched = self._derived(source, env, conditions)
        elif visit.access is not None and visit.access.unique == 0 and key_places(source.table) is not None:
            matched = self._visit(visit, env, _nowhere, conditions)
        else:
            many = self.grouped(source, conditions, env, None)
            width = len(source.table.types)
            env.rows[source.id] = tuple(Value(None, smt.no(many.known >= 1)) for _ in range(width))
            return
        matched = smt.both(matched, self.reader().holds(conditions, env))
        env.rows[source.id] = tuple(value.unless(matched) for value in env.rows[source.id])

    # Groups

    def _derived(self, source: Derived, env: Environment, equations: Sequence[Expression]) -> Term:
        """A group of a query in FROM: the one that the equations name."""
        query = source.query
        if query.grouping is None or may_leave_out(query) or query.distinct is not None or query.grouping.having:
            raise outside("a query in FROM that does not only group")
        reader = self.reader()
        wanted: list[tuple[Expression, Term]] = []
        known: list[Term] = []
        for node in query.grouping.keys:
            value = None
            for condition in equations:
                named = equation(condition, {source.id})
                if named is not None and query.outputs[named[0].place].value == node:
                    value = reader.value(named[1], env)
            if value is None:
                raise outside("a group that is not joined by all that it is grouped by")
            wanted.append((node, naming(value)))
            known.append(smt.no(value.null))
        inside = env.copy()
        aggregates = self._aggregates(query, wanted, inside)
        inside.aggregates = aggregates
        keys = dict(wanted)
        values = []
        for output in query.outputs:
            if output.value in keys:
                values.append(Value(keys[output.value]))
            else:
                values.append(reader.value(output.value, inside))
        env.rows[source.id] = tuple(values)
        if query.grouping.whole:
            return smt.TRUE
        assert query.source is not None
        many = self.ghosts.value(self.book, self.view, (query.source, query.where), wanted, None)
        return smt.both(*known, many.known >= 1)

    def _aggregates(self, query: Query, groups: Sequence[tuple[Expression, Term]], env: Environment) -> list[Value]:
        assert query.grouping is not None
        assert query.source is not None
        if groups:
            over = (query.source, query.where)
            return [self.ghosts.value(self.book, self.view, over, groups, one) for one in query.grouping.aggregates]
        return [self.grouped(query.source, query.where, env, one) for one in query.grouping.aggregates]

    def top_group(self, query: Query, env: Environment, free: Free) -> Term:
        """A group of a query with GROUP BY by one of its rows; its columns and aggregates are in the environment."""
        assert query.grouping is not None
        there = self.bound(query.source, query.where, env, free)
        reader = self.reader()
        groups = []
        for node in query.grouping.keys:
            value = reader.value(node, env)
            there = smt.both(there, smt.no(value.null))
            if not node.nonnull and not _excluded(node, query.where):
                raise outside("a group of nulls")
            groups.append((node, naming(value)))
        env.aggregates = self._aggregates(query, groups, env)
        return smt.both(there, reader.holds(query.grouping.having, env))

    def grouped(
        self, source: Source, where: Sequence[Expression], env: Environment, aggregate: Aggregate | None
    ) -> Value:
        """An aggregate of all rows for which conditions hold: equations with what is known outside name the group."""
        inner = {leaf.id for leaf in scans(source)}
        groups: list[tuple[Expression, Term]] = []
        filters: list[Expression] = []
        known: list[Term] = []
        reader = self.reader()
        for condition in where:
            named = equation(condition, inner)
            if named is not None:
                value = reader.value(named[1], env)
                groups.append((named[0], naming(value)))
                known.append(smt.no(value.null))
            elif _depends_only_on(condition, inner):
                filters.append(condition)
            else:
                raise outside("an aggregate of rows by something other than equations")
        found = self.ghosts.value(self.book, self.view, (source, tuple(filters)), groups, aggregate)
        all_known = smt.every(known)
        if smt.is_true(all_known):
            return found
        return Value(smt.choose(all_known, found.known, smt.number(0)), smt.both(all_known, found.null))


def _nowhere(scan: Scan) -> Key:
    raise outside(f"a row of {scan.table.table.name} that no key names")


def by_key(query: Query) -> tuple[Visit, ...] | None:
    """The way to the rows, if each is found by its key."""
    steps = plan(query.source, query.where).steps
    found = []
    for step in steps:
        if not isinstance(step, Visit) or not isinstance(step.source, Scan) or step.access is None:
            return None
        if step.access.unique != 0 or key_places(step.source.table) is None:
            return None
        found.append(step)
    return tuple(found)


def may_leave_out(query: Query) -> bool:
    """Whether rows that match may not be given: those after LIMIT, before OFFSET, or that others have locked."""
    return query.limit is not None or query.offset is not None or query.patience is Patience.SKIP_LOCKED


def _excluded(node: Expression, where: Sequence[Expression]) -> bool:
    return any(
        isinstance(one, Apply) and one.primitive.name == "is not null" and one.arguments == (node,) for one in where
    )


def asks(node: Expression) -> bool:
    """Whether there is a query in an expression."""
    return any(query_of(part) is not None for part in below(node))


def _depends_only_on(node: Expression, inner: set[int]) -> bool:
    return depends_on(node) <= inner and not any(isinstance(part, Variable | Field | Bound) for part in below(node))


def equation(node: Expression, inner: set[int]) -> tuple[Column, Expression] | None:
    """A column of a source equal to something from outside of it."""
    if not isinstance(node, Apply) or node.primitive.name != "=":
        return None
    left, right = (_uncovered(argument) for argument in node.arguments)
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Column) and one.source in inner and not depends_on(other) & inner:
            return one, other
    return None


def _uncovered(node: Expression) -> Expression:
    """A text itself, where it is compared without regard to case: what stands for texts does not tell such texts apart."""
    return node.arguments[0] if isinstance(node, Apply) and node.primitive.name == TEXT_COMPARED else node


def alternatives(condition: Expression, scan: Scan) -> list[Expression] | None:
    """The keys of ``key = a OR key = b OR …``, where the table has a key of one column."""
    places = key_places(scan.table)
    if places is None or len(places) != 1:
        return None
    if isinstance(condition, Logic) and condition.decides:
        left, right = alternatives(condition.left, scan), alternatives(condition.right, scan)
        return None if left is None or right is None else left + right
    named = equation(condition, {scan.id})
    if named is None or named[0].place != places[0]:
        return None
    return [named[1]]


def free_scans(query: Query) -> Iterator[Scan]:
    """The tables whose rows are not found by their keys."""
    for step in plan(query.source, query.where).steps:
        if isinstance(step, Outer) or isinstance(step.source, Derived):
            raise outside("an outer join or a query in FROM")
        assert step.access is not None
        if step.access.unique != 0 or key_places(step.source.table) is None:
            yield step.source
