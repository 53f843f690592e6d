"""How InnoDB's statements get at rows, as far as locks tell: the order of tables, whole keys, lists and ranges of a key."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, NamedTuple

from isolde.semantics.core.evaluate import Environment
from isolde.semantics.core.nodes import Apply, Column, Constant, Expression, Logic, Variable, below, query_of
from isolde.semantics.core.plan import Access, Visit, access, depends_on, plan
from isolde.semantics.core.relations import Join, Query, Scan, Source, scans
from isolde.semantics.stores.evaluation import Evaluation
from isolde.semantics.stores.indexes import HIGHEST, LOWEST, Entry, Index
from isolde.semantics.stores.rows import Version
from isolde.semantics.tables.view import Row
from isolde.tx.queries import Patience


def planned(query: Query) -> Query:
    """The query with its tables in the order of MariaDB's plan: first those whose key is known."""
    leaves = list(scans(query.source))
    if len(leaves) < 2 or not all(isinstance(leaf, Scan) for leaf in leaves):
        return query
    conditions = list(query.where)
    if not _inner(query.source, conditions):
        return query
    left = [leaf for leaf in leaves if isinstance(leaf, Scan)]
    ordered: list[Scan] = []
    while left:
        unbound = {leaf.id for leaf in left}
        found = [(leaf, access(leaf, conditions, unbound)) for leaf in left]
        best = next((leaf for leaf, way in found if way.unique is not None), None)
        best = best or next((leaf for leaf, way in found if way.columns), None) or left[0]
        ordered.append(best)
        left = [leaf for leaf in left if leaf is not best]
    source: Source = ordered[0]
    for leaf in ordered[1:]:
        source = Join(False, source, leaf, ())
    return replace(query, source=source, where=tuple(conditions))


def _inner(source: Source | None, conditions: list[Expression]) -> bool:
    """Whether all joins are inner ones; their conditions are added."""
    if not isinstance(source, Join):
        return True
    conditions.extend(source.on)
    return not source.outer and _inner(source.left, conditions) and _inner(source.right, conditions)


def by_whole_key(query: Query) -> bool:
    """Whether a query reads one row of one table, by values that depend on no other row."""
    steps = plan(query.source, query.where).steps
    if len(steps) != 1 or not isinstance(steps[0], Visit) or not isinstance(query.source, Scan):
        return False
    way = steps[0].access
    return (
        way is not None
        and any(set(unique) <= set(way.columns) for unique in query.source.table.uniques)
        and not any(depends_on(key) for key in way.keys)
    )


def visit_key(visit: tuple[Scan, Visit, Environment]) -> Any:
    scan, way, env = visit
    return (
        scan.id,
        tuple(id(condition) for condition in way.conditions),
        tuple(sorted((source, tuple(row)) for source, row in env.rows.items() if source != scan.id)),
    )


class Span(NamedTuple):
    """A part of an index that is gone through, its end excluded. ``probe``: what all its entries begin with; ``None``: it is
    bounded by comparisons, or not at all.
    """

    low: Entry
    high: Entry
    probe: Entry | None


@dataclass(slots=True)
class Going:
    """A scan on its way. ``apply`` is done with each row that matches; ``left``: how many of them LIMIT still lets through;
    ``constant``: at most one row is found, by values that depend on no other row; ``whole``: rows are read, and not only an index
    that holds all that is asked for; ``skipped``: rows that SKIP LOCKED left out.
    """

    scan: Scan
    way: Visit
    env: Environment
    run: Evaluation
    exclusive: bool
    patience: Patience
    apply: Callable[[int, Version], Generator[Any, Any, Any]] | None
    semi: bool
    left: int | None
    constant: bool
    whole: bool
    skipped: list[int] = field(default_factory=list)

    def matches(self, row: Row) -> bool:
        self.env.rows[self.scan.id] = row
        return all(self.run.value(condition, self.env) is True for condition in self.way.conditions)


def bare(expression: Expression) -> Expression:
    """A text without what makes it ready to be compared; indexes are in that order, too."""
    if isinstance(expression, Apply) and expression.primitive.name in {"mysql text compared", "mysql text ordered"}:
        return expression.arguments[0]
    return expression


def way_in(indexes: Sequence[Index], access: Access) -> Index:
    """The index by which rows are found: a whole unique key, else one whose first column is known, else the clustered one."""
    known = set(access.columns)
    for index in indexes:
        if index.unique is not None and index.columns and known.issuperset(index.columns):
            return index
    return next((index for index in indexes if index.columns and index.columns[0] in known), indexes[0])


def covering(indexes: Sequence[Index], query: Query) -> Index | None:
    """The index that a query without conditions goes through alone, as it holds every column that is asked for: the smallest."""
    if not isinstance(query.source, Scan) or query.where or query.limit is not None:
        return None
    clustered, *others = indexes
    if query.order and isinstance(key := bare(query.order[0].key), Column) and key.place in clustered.columns[:1]:
        # In the order of the primary key the rows are there already.
        return None
    needed = _columns(query, query.source.id)
    found = [index for index in others if needed <= {*index.columns, *clustered.columns}]
    return min(found, key=lambda index: len(index.columns), default=None)


def _columns(node: Any, source: int) -> set[int]:
    """The places of a source's columns anywhere below a node, queries inside included."""
    if isinstance(node, Column):
        return {node.place} if node.source == source else set()
    if isinstance(node, tuple):
        return set().union(*(_columns(part, source) for part in node))
    if is_dataclass(node) and not isinstance(node, type | Scan):
        return set().union(*(_columns(getattr(node, part.name), source) for part in fields(node)))
    return set()


def spans(index: Index, scan: Scan, way: Visit, run: Evaluation, env: Environment) -> list[Span]:
    """The parts of an index that hold what a scan looks for: by equal values of its first columns, in the clustered index also by
    lists of values, and by comparisons of the column after those.
    """
    assert way.access is not None
    keys = {column: (run.value(key, env),) for column, key in zip(way.access.columns, way.access.keys, strict=True)}
    conditions = _conjuncts(way.conditions)
    # Nothing equals a null, and nothing is read for a condition that no row can meet.
    if any(value is None for (value,) in keys.values()) or any(
        _is_constant(condition) and run.value(condition, env) is not True for condition in conditions
    ):
        return []
    prefixes: list[tuple[Any, ...]] = [()]
    for column in index.columns:
        values = keys.get(column)
        if values is None and index.place == 0:
            values = _listed(scan, column, conditions, run, env)
        if values is None:
            break
        prefixes = [(*prefix, value) for prefix in prefixes for value in values]
    if not prefixes:
        return []
    if len(prefixes) > _points_max(len(run.views[scan.table.position].base.versions)):
        return [Span(LOWEST, HIGHEST, None)]
    length = len(prefixes[0])
    compared = index.columns[length] if index.place == 0 and length < len(index.columns) else None
    found = {_span(index, prefix, _compared(scan, compared, conditions, run, env)) for prefix in prefixes}
    return sorted(found, key=lambda span: span.low)


def _points_max(rows: int) -> int:
    """In how many places MariaDB goes into an index rather than through the whole table.

    Measured: two in the smallest table, three from five rows on, nine of fifty.
    """
    return (35 + 2 * rows) // 15


def _listed(
    scan: Scan, column: int, conditions: Sequence[Expression], run: Evaluation, env: Environment
) -> tuple[Any, ...] | None:
    """The values that a column may have by ``column IN (…)``, or by equations joined by OR; ``None`` if there is no such list."""
    for condition in conditions:
        leaves = list(_alternatives(condition))
        found = [_equal_to(scan, column, leaf) for leaf in leaves]
        keys = [key for key in found if key is not None]
        if len(keys) == len(leaves):
            values = (run.value(key, env) for key in keys)
            return tuple(value for value in values if value is not None)
    return None


def _alternatives(condition: Expression) -> Iterator[Expression]:
    if isinstance(condition, Logic) and condition.decides:
        yield from _alternatives(condition.left)
        yield from _alternatives(condition.right)
    else:
        yield condition


def _equal_to(scan: Scan, column: int, condition: Expression) -> Expression | None:
    """The constant that the condition says the column to be equal to."""
    for lookup in condition.lookups if isinstance(condition, Apply) else ():
        if (lookup.column.source, lookup.column.place) == (scan.id, column) and _is_constant(lookup.key):
            return lookup.key
    return None


def _is_constant(expression: Expression) -> bool:
    """Whether it is the same for all rows, and no query."""
    return not any(isinstance(part, Column) or query_of(part) is not None for part in below(expression))


_Compared = list[tuple[str, Any]]
"""Comparisons of a column with constants."""
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def _compared(
    scan: Scan, column: int | None, conditions: Iterable[Expression], run: Evaluation, env: Environment
) -> _Compared:
    found: _Compared = []
    for condition in conditions:
        if not isinstance(condition, Apply) or len(condition.arguments) != 2:
            continue
        left, right = map(bare, condition.arguments)
        name = condition.primitive.name
        if isinstance(right, Column) and isinstance(left, Constant | Variable):
            left, right, name = right, left, _TURNED.get(name, name)
        if not isinstance(left, Column) or (left.source, left.place) != (scan.id, column):
            continue
        if name in _TURNED and isinstance(right, Constant | Variable) and (value := run.value(right, env)) is not None:
            found.append((name, value))
    return found


def _span(index: Index, prefix: tuple[Any, ...], compared: _Compared) -> Span:
    begin = index.probe(prefix)
    low, high = (begin, (*begin, HIGHEST[0])) if prefix else (LOWEST, HIGHEST)
    for name, value in compared:
        probe = index.probe((*prefix, value))
        if name == "<":
            high = min(high, probe)
        elif name == "<=":
            high = min(high, (*probe, HIGHEST[0]))
        elif name == ">":
            low = max(low, (*probe, HIGHEST[0]))
        else:
            low = max(low, probe)
    return Span(low, high, begin if prefix and not compared else None)


def _conjuncts(conditions: Iterable[Expression]) -> list[Expression]:
    found: list[Expression] = []
    for condition in conditions:
        if isinstance(condition, Logic) and not condition.decides:
            found += _conjuncts([condition.left, condition.right])
        else:
            found.append(condition)
    return found
