"""Tables without a primary key: the columns by which transactions find rows, as good as a key where no two rows agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from isolde.semantics.core.catalog import TableInfo
from isolde.semantics.core.nodes import Expression, below, query_of
from isolde.semantics.core.relations import (
    Derived,
    Insert,
    Join,
    Query,
    Scan,
    Source,
    Statement,
    Update,
    query_parts,
    scans,
)
from isolde.semantics.core.types import Sort
from isolde.semantics.sets.havoc import statements
from isolde.semantics.sets.queries import equation
from isolde.semantics.sets.values import key_places

if TYPE_CHECKING:
    from isolde.engines.infer.problem import Problem


def found_by(problem: Problem, info: TableInfo) -> list[tuple[int, ...]]:
    """Whole numbers that are never null, by place and in order, by which statements find rows of a table without a key."""
    if key_places(info) is not None:
        return []
    found: dict[tuple[int, ...], None] = {}
    for transaction in problem.transactions.values():
        if transaction.execution is None:
            continue
        for statement in statements(transaction.execution.routine.body):
            for places in _of_statement(statement, info):
                kept = sorted(
                    place for place in places if info.nonnull[place] and info.types[place].sort is Sort.INTEGER
                )
                if kept:
                    found[tuple(kept)] = None
    return list(found)


def _of_statement(statement: Statement, info: TableInfo) -> Iterator[set[int]]:
    if isinstance(statement, Query):
        yield from _of_query(statement, info)
    elif not isinstance(statement, Insert):
        yield from _of_scans(statement.scan, statement.where, info)
        parts = [*statement.where, *([one.value for one in statement.sets] if isinstance(statement, Update) else [])]
        yield from _inside(parts, info)


def _of_query(query: Query, info: TableInfo) -> Iterator[set[int]]:
    yield from _of_scans(query.source, query.where, info)
    for leaf in scans(query.source):
        if isinstance(leaf, Derived):
            yield from _of_query(leaf.query, info)
    yield from _inside(list(query_parts(query)), info)


def _inside(parts: list[Expression], info: TableInfo) -> Iterator[set[int]]:
    for part in parts:
        for node in below(part):
            query = query_of(node)
            if query is not None:
                yield from _of_query(query, info)


def _of_scans(source: Source | None, where: tuple[Expression, ...], info: TableInfo) -> Iterator[set[int]]:
    conditions = [*where, *_on(source)]
    for leaf in scans(source):
        if isinstance(leaf, Scan) and leaf.table is info:
            yield {named[0].place for node in conditions if (named := equation(node, {leaf.id})) is not None}


def _on(source: Source | None) -> Iterator[Expression]:
    if isinstance(source, Join):
        yield from source.on
        yield from _on(source.left)
        yield from _on(source.right)
