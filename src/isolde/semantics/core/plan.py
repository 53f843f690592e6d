"""The way to the rows of a query: which source comes when, by which key its rows are found, which conditions it is tested by.

Every reading of a query goes this way, so that all of them touch the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from isolde.semantics.core.immutable import node
from isolde.semantics.core.nodes import Apply, Column, Expression, below, query_of
from isolde.semantics.core.relations import Derived, Join, Scan, Source, scans


@node(frozen=True, slots=True)
class Access:
    """``unique``: the place of the unique key; ``None`` with ``columns``: those are equal to ``keys``; without any: all rows.

    ``settled``: the equations that the keys were taken from, which hold for every row that is found by them.
    """

    unique: int | None
    columns: tuple[int, ...]
    keys: tuple[Expression, ...]
    settled: tuple[Expression, ...]


def depends_on(node: Expression) -> set[int]:
    """The sources whose rows an expression uses; a query inside uses those that it reads."""
    found: set[int] = set()
    for part in below(node):
        if isinstance(part, Column):
            found.add(part.source)
        else:
            query = query_of(part)
            if query is not None:
                found.update(query.reads_rows)
    return found


def access(scan: Scan, conditions: Sequence[Expression], unbound: set[int]) -> Access:
    """The best way to the rows of a scan for which the conditions may hold.

    ``unbound``: sources of the query that have no row yet, the scan included.
    """
    found: dict[int, tuple[Expression, Expression]] = {}
    for condition in conditions:
        if not isinstance(condition, Apply):
            continue
        for lookup in condition.lookups:
            place = lookup.column.place
            if lookup.column.source == scan.id and place not in found and _known(lookup.key, unbound):
                found[place] = lookup.key, condition
                break
    for place, unique in enumerate(scan.table.uniques):
        if all(column in found for column in unique):
            return _access(place, unique, found)
    return _access(None, tuple(sorted(found)), found)


def _access(unique: int | None, columns: tuple[int, ...], found: dict[int, tuple[Expression, Expression]]) -> Access:
    keys, settled = tuple(found[column][0] for column in columns), tuple(found[column][1] for column in columns)
    return Access(unique, columns, keys, settled)


def _known(key: Expression, unbound: set[int]) -> bool:
    return all(
        part.source not in unbound if isinstance(part, Column) else query_of(part) is None for part in below(key)
    )


@node(frozen=True, slots=True)
class Visit:
    """The rows of one source; ``conditions`` are tested as soon as a row is there. ``access`` is how a table's are found."""

    source: Scan | Derived
    access: Access | None
    conditions: tuple[Expression, ...]


@node(frozen=True, slots=True)
class Outer:
    """The right side of a LEFT JOIN: its own way, the conditions of a match, and those that are tested after it."""

    steps: tuple[Visit | Outer, ...]
    on: tuple[Expression, ...]
    sources: tuple[Scan | Derived, ...]
    conditions: tuple[Expression, ...]


@node(frozen=True, slots=True)
class Plan:
    """``last``: conditions that need no row, or are left when all rows are there."""

    steps: tuple[Visit | Outer, ...]
    last: tuple[Expression, ...]


def plan(source: Source | None, where: tuple[Expression, ...]) -> Plan:
    """Sources in the order in which they are written; conditions as early as their rows are there."""
    if source is None:
        return Plan((), where)
    if not isinstance(source, Join):
        return Plan((Visit(source, _way(source, where, {source.id}), where),), ())
    steps: list[Visit | Outer] = []
    pool = _pool(where)
    _visit(source, pool, {leaf.id for leaf in scans(source)}, steps)
    return Plan(tuple(steps), tuple(condition for condition, _ in pool))


_Pool = list[tuple[Expression, set[int]]]
"""Conditions that were not tested yet, and the sources whose rows each uses."""


def _pool(conditions: tuple[Expression, ...]) -> _Pool:
    return [(condition, depends_on(condition)) for condition in conditions]


def _way(source: Scan | Derived, conditions: Sequence[Expression], unbound: set[int]) -> Access | None:
    return access(source, conditions, unbound) if isinstance(source, Scan) else None


def _visit(source: Source, pool: _Pool, unbound: set[int], steps: list[Visit | Outer]) -> None:
    if isinstance(source, Join):
        if not source.outer:
            pool.extend(_pool(source.on))
            _visit(source.left, pool, unbound, steps)
            _visit(source.right, pool, unbound, steps)
            return
        _visit(source.left, pool, unbound, steps)
        on, inside = _pool(source.on), list[Visit | Outer]()
        _visit(source.right, on, unbound, inside)
        leaves, left = tuple(scans(source.right)), tuple(condition for condition, _ in on)
        steps.append(Outer(tuple(inside), left, leaves, _ready(pool, unbound)))
        return
    way = _way(source, [condition for condition, _ in pool], unbound)
    unbound.discard(source.id)
    steps.append(Visit(source, way, _ready(pool, unbound)))


def _ready(pool: _Pool, unbound: set[int]) -> tuple[Expression, ...]:
    """Takes the conditions whose rows are all there out of the pool."""
    ready = tuple(condition for condition, rows in pool if not rows & unbound)
    pool[:] = [entry for entry in pool if entry[1] & unbound]
    return ready
