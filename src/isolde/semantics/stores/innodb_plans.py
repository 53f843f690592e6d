"""How InnoDB's statements get at rows, as far as locks tell: the order of tables, whole keys, ranges of the primary key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from isolde.semantics.core.evaluate import Environment
from isolde.semantics.core.nodes import Apply, Column, Constant, Expression, Logic, Variable
from isolde.semantics.core.plan import Visit, access, depends_on, plan
from isolde.semantics.core.relations import Join, Query, Scan, Source, scans
from isolde.semantics.stores.evaluation import Evaluation
from isolde.semantics.stores.indexes import HIGHEST, LOWEST, Entry, Index


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


def bounds(index: Index, conditions: Sequence[Expression], run: Evaluation, env: Environment) -> tuple[Entry, Entry]:
    """The range of a clustered index that comparisons of its first column with constants leave, its end excluded."""
    low, high = LOWEST, HIGHEST
    if not index.columns:
        return low, high
    for condition in _conjuncts(conditions):
        if not isinstance(condition, Apply) or len(condition.arguments) != 2:
            continue
        left, right = condition.arguments
        name = condition.primitive.name
        if isinstance(right, Column) and isinstance(left, Constant | Variable):
            left, right, name = right, left, {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(name, name)
        if not (isinstance(left, Column) and left.place == index.columns[0] and isinstance(right, Constant | Variable)):
            continue
        value = run.value(right, env)
        if value is None or name not in {"<", "<=", ">", ">="}:
            continue
        probe = index.probe([value])
        if name == "<":
            high = min(high, probe)
        elif name == "<=":
            high = min(high, (*probe, HIGHEST[0]))
        elif name == ">":
            low = max(low, (*probe, HIGHEST[0]))
        else:
            low = max(low, probe)
    return low, high


def _conjuncts(conditions: Iterable[Expression]) -> list[Expression]:
    found: list[Expression] = []
    for condition in conditions:
        if isinstance(condition, Logic) and not condition.decides:
            found += _conjuncts([condition.left, condition.right])
        else:
            found.append(condition)
    return found
