"""Queries for violations as conditions on states: which rows, by their keys, would violate them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from isolde.semantics.core.nodes import Aggregated, Apply, Column, Constant, below, query_of
from isolde.semantics.core.relations import Delete, Derived, Insert, Query, Scan, Statement, query_parts, scans
from isolde.semantics.sets.expressions import Environment
from isolde.semantics.sets.ghosts import Ghosts
from isolde.semantics.sets.queries import Free, Tables
from isolde.semantics.sets.state import Base, Book, Key, Names, View
from isolde.semantics.sets.values import outside
from isolde.smt import terms as smt
from isolde.smt.terms import Term


@dataclass(frozen=True, eq=False)
class Condition:
    """An invariant. ``rows``: the scans whose rows, one of each, may violate it together; the rest follows from those.

    ``tables``: positions of all tables that it looks at. ``aggregates``: whether it is about groups of rows.
    ``columns``: tables and places of the columns that it looks at.
    """

    name: str
    query: Query
    rows: tuple[Scan, ...]
    tables: frozenset[int]
    aggregates: bool
    columns: frozenset[tuple[int, int]]
    twice: frozenset[int] = frozenset()
    """Of two different rows of a table it says that they are not alike in these columns."""

    def violated(self, tables: Tables, keys: Sequence[Key]) -> Term:
        """That the rows of these keys violate it."""
        if self.twice:
            return _alike(self.rows[0], self.twice, tables, keys)
        given = dict(zip((scan.id for scan in self.rows), keys, strict=True))
        return _violated(self.query, tables, lambda scan: given[scan.id])


def condition(name: str, query: Query, ghosts: Ghosts) -> Condition:
    """The invariant that a query for violations states; what cannot be carried is refused by name."""
    if query.limit is not None or query.offset is not None:
        raise outside("a limited query for violations")
    book = Book(Names())
    if _counts_twice(query):
        (scan,) = scans(query.source)
        assert isinstance(scan, Scan)
        columns = frozenset(_columns(query))
        places = frozenset(place for _, place in columns)
        return Condition(name, query, (scan, scan), frozenset({scan.table.position}), False, columns, places)
    rows: list[Scan] = []

    def free(scan: Scan) -> Key:
        rows.append(scan)
        return book.fresh_key(scan.table)

    _violated(query, Tables(book, ghosts, View(Base(f"shape of {name}"))), free)
    return Condition(name, query, tuple(rows), frozenset(tables_of(query)), bool(book.uses), frozenset(_columns(query)))


def _counts_twice(query: Query) -> bool:
    """``SELECT … FROM table GROUP BY columns HAVING COUNT(*) > 1``, of columns that are never null."""
    grouping = query.grouping
    if (
        grouping is None
        or grouping.whole
        or not isinstance(query.source, Scan)
        or query.where
        or len(grouping.having) != 1
    ):
        return False
    if not all(isinstance(node, Column) and node.nonnull for node in grouping.keys):
        return False
    (having,) = grouping.having
    if not isinstance(having, Apply) or having.primitive.name != ">" or len(having.arguments) != 2:
        return False
    many, one = having.arguments
    if not isinstance(many, Aggregated) or not isinstance(one, Constant) or one.value != 1:
        return False
    aggregate = grouping.aggregates[many.place]
    counted = aggregate.operand is None or aggregate.operand.nonnull
    return getattr(aggregate.function, "__name__", "") == "len" and aggregate.distinct is None and counted


def _alike(scan: Scan, places: frozenset[int], tables: Tables, keys: Sequence[Key]) -> Term:
    one, other = (tables.book.row(tables.view, scan.table, key) for key in keys)
    alike = smt.every(smt.equal(one.values[place].known, other.values[place].known) for place in sorted(places))
    return smt.both(one.there, other.there, smt.no(smt.all_equal(*keys)), alike)


def _violated(query: Query, tables: Tables, free: Free) -> Term:
    env = Environment()
    if query.grouping is None:
        return tables.bound(query.source, query.where, env, free)
    if query.grouping.whole:
        assert query.source is not None
        env.aggregates = [tables.grouped(query.source, query.where, env, one) for one in query.grouping.aggregates]
        return tables.reader().holds(query.grouping.having, env)
    return tables.top_group(query, env, free)


def _columns(query: Query, around: Mapping[int, int] = MappingProxyType({})) -> Iterator[tuple[int, int]]:
    """``around``: the tables of the queries that this one is in, by the numbers of their scans: it may read columns of theirs."""
    tables = {**around, **{leaf.id: leaf.table.position for leaf in scans(query.source) if isinstance(leaf, Scan)}}
    for leaf in scans(query.source):
        if isinstance(leaf, Derived):
            yield from _columns(leaf.query, tables)
    for part in query_parts(query):
        for node in below(part):
            inside = query_of(node)
            if inside is not None:
                yield from _columns(inside, tables)
            if isinstance(node, Column) and node.source in tables:
                yield tables[node.source], node.place


def tables_of(query: Query) -> Iterator[int]:
    """All tables that a query looks at."""
    for leaf in scans(query.source):
        if isinstance(leaf, Derived):
            yield from tables_of(leaf.query)
        else:
            yield leaf.table.position
    for part in query_parts(query):
        for node in below(part):
            inside = query_of(node)
            if inside is not None:
                yield from tables_of(inside)


def changed_tables(statement: Statement) -> Iterator[int]:
    """The table of an UPDATE or DELETE, and those of queries in it."""
    assert not isinstance(statement, Query | Insert)
    yield statement.scan.table.position
    sets = () if isinstance(statement, Delete) else tuple(one.value for one in statement.sets)
    for part in (*statement.where, *sets):
        for node in below(part):
            inside = query_of(node)
            if inside is not None:
                yield from tables_of(inside)


__all__ = ["Condition", "changed_tables", "condition", "tables_of"]
