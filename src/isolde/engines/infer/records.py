"""Rows as records of which nothing is known but their fields, and invariants as facts about all records of a state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from isolde.engines.infer.figure_10 import Member
from isolde.engines.infer.problem import Problem
from isolde.errors import OutsideFragment
from isolde.semantics.core.catalog import TableInfo
from isolde.semantics.core.elaborate_statements import elaborated
from isolde.semantics.core.nodes import Apply, Column, Exists, Scalar
from isolde.semantics.core.nodes import Member as InQuery
from isolde.semantics.core.plan import Outer, Visit, plan
from isolde.semantics.core.relations import Query, Scan
from isolde.semantics.core.scope import Variables
from isolde.semantics.sets.expressions import Environment, Reader
from isolde.semantics.sets.state import Book, Names
from isolde.semantics.sets.values import Row, Value, column_sort, key_places, outside, same
from isolde.smt import terms as smt
from isolde.smt.terms import Term


class Records:
    """``kinds``: the sort of the records of each table. ``invariants``: queries for violations that are carried, by name."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.kinds: dict[int, Any] = {
            info.position: smt.record_sort(f"record of {info.table.name}") for info in problem.catalog.tables
        }
        self._fields: dict[tuple[int, int | str], Callable[..., Term]] = {}
        self.invariants: dict[str, Query] = {}
        self.uncarried: dict[str, str] = {}
        wanted = [
            one for one in problem.application.invariants if one.name in {*problem.conditions, *problem.uncarried}
        ]
        for invariant in wanted:
            query = elaborated(problem.catalog, invariant.violations, Variables.of({}))
            assert isinstance(query, Query)
            try:
                self._violation(query, lambda *_: smt.TRUE)
                self.invariants[invariant.name] = query
            except OutsideFragment as error:
                self.uncarried[invariant.name] = error.what

    # Records

    def row(self, table: TableInfo, record: Term) -> Row:
        values = []
        for place, column in enumerate(table.table.columns):
            name = f"{table.table.name}.{column.name}"
            null = (
                smt.FALSE
                if table.nonnull[place]
                else self._field(table, f"{place} null", f"{name}.null", "boolean")(record)
            )
            values.append(Value(self._field(table, place, name, column_sort(table, place))(record), null))
        return Row(smt.TRUE, tuple(values))

    def _field(self, table: TableInfo, part: int | str, name: str, sort: smt.Sort) -> Callable[..., Term]:
        index = (table.position, part)
        if index not in self._fields:
            self._fields[index] = smt.of_records(name, [self.kinds[table.position]], sort)
        return self._fields[index]

    def holds(self, table: TableInfo, record: Term, values: Sequence[Value]) -> Term:
        """That a record has these values."""
        return smt.every(same(one, other) for one, other in zip(self.row(table, record).values, values, strict=True))

    def key(self, table: TableInfo, record: Term) -> tuple[Term, ...]:
        return self.key_of(table, self.row(table, record).values)

    @staticmethod
    def key_of(table: TableInfo, values: Sequence[Value]) -> tuple[Term, ...]:
        places = key_places(table)
        if places is None:
            raise outside(f"{table.table.name} has no primary key")
        return tuple(values[place].known for place in places)

    def same_key(self, table: TableInfo, one: Term, other: Term) -> Term:
        return smt.all_equal(self.key(table, one), self.key(table, other))

    # What stands under a quantifier must not speak of anything that was made up for it

    def exactly(self, said: Callable[[Book], Term]) -> Term:
        book = self._apart()
        found = said(book)
        if book.facts or book.names.last:
            raise outside("an expression of which not everything is known, in a set of records")
        return found

    def known_value(self, said: Callable[[Book], Value]) -> Value:
        book = self._apart()
        found = said(book)
        if book.names.last or found.term is None:
            raise outside("a value of which nothing is known, in a set of records")
        return found

    def _apart(self) -> Book:
        """A book with names of its own, so that it shows whether any was made up."""
        return Book(Names(self.problem.names.folds_texts))

    # Invariants

    def known(self, state: Member) -> list[Term]:
        """What is known of every state: the invariants, and that no two rows have the same key."""
        facts = []
        for query in self.invariants.values():
            rows, body = self._violation(query, state)
            facts.append(smt.for_all(rows, smt.no(body)))
        for table in self.problem.catalog.tables:
            if key_places(table) is None:
                continue
            one, other = (self._record(table) for _ in range(2))
            both = smt.both(state(table, one), state(table, other), self.same_key(table, one, other))
            facts.append(smt.for_all([one, other], smt.implies(both, smt.equal(one, other))))
        return facts

    def violation(self, name: str, state: Member) -> tuple[list[Term], Term]:
        """Records, and that they violate an invariant."""
        return self._violation(self.invariants[name], state)

    def _violation(self, query: Query, state: Member) -> tuple[list[Term], Term]:
        if query.grouping is not None or query.distinct is not None or query.limit is not None:
            raise outside("an aggregate, or a limited query, in an invariant")
        return self._found(query, Environment(), state)

    def _found(self, query: Query, env: Environment, state: Member) -> tuple[list[Term], Term]:
        rows: list[Term] = []
        parts: list[Term] = []
        way = plan(query.source, query.where)
        for step in way.steps:
            if isinstance(step, Outer):
                parts.append(self._without_partner(step, env, state))
                continue
            rows.append(self._visited(step, env, state, parts))
        parts.append(self._said(way.last, env, state))
        return rows, smt.every(parts)

    def _visited(self, step: Visit, env: Environment, state: Member, parts: list[Term]) -> Term:
        if not isinstance(step.source, Scan):
            raise outside("a query in FROM, in an invariant")
        record = self._record(step.source.table)
        env.rows[step.source.id] = self.row(step.source.table, record).values
        parts += [state(step.source.table, record), self._said(step.conditions, env, state)]
        return record

    def _without_partner(self, step: Outer, env: Environment, state: Member) -> Term:
        """``LEFT JOIN … WHERE key IS NULL``: no record of the other table fits."""
        visit = step.steps[0] if len(step.steps) == 1 else None
        if not isinstance(visit, Visit) or not isinstance(visit.source, Scan) or len(step.conditions) != 1:
            raise outside("an outer join other than for rows without a partner, in an invariant")
        (null,) = step.conditions
        column = null.arguments[0] if isinstance(null, Apply) and null.primitive.name == "is null" else None
        table = visit.source.table
        if not isinstance(column, Column) or column.source != visit.source.id or not table.nonnull[column.place]:
            raise outside("an outer join other than for rows without a partner, in an invariant")
        inside, parts = env.copy(), list[Term]()
        record = self._visited(visit, inside, state, parts)
        parts.append(self._said(step.on, inside, state))
        return smt.no(smt.there_is([record], smt.every(parts)))

    def _said(self, conditions: Sequence[Any], env: Environment, state: Member) -> Term:
        def asked(node: Exists | InQuery | Scalar, around: Environment) -> Value:
            if not isinstance(node, Exists) or node.query.grouping is not None or node.query.limit is not None:
                raise outside("a query inside of an expression other than EXISTS")
            rows, body = self._found(node.query, around.copy(), state)
            return Value(smt.there_is(rows, body))

        book = self._apart()
        found = Reader(book, asked).holds(conditions, env)
        if book.facts or book.names.last:
            raise outside("an expression of which not everything is known, in an invariant")
        return found

    def _record(self, table: TableInfo) -> Term:
        return smt.record(self.problem.names.fresh(f"record of {table.table.name}"), self.kinds[table.position])
