"""The ghosts of an application: one for each aggregate, whoever asks for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from isolde.semantics.core.nodes import Apply, Column, Expression, below
from isolde.semantics.core.plan import Visit, depends_on, plan
from isolde.semantics.core.primitives import IS_NOT_NULL, Primitive
from isolde.semantics.core.relations import Aggregate, Join, Scan, Source, scans
from isolde.semantics.core.types import BOOLEAN, ValueType
from isolde.semantics.sets.aggregates import Ghost, Kind
from isolde.semantics.sets.joined import Joined
from isolde.semantics.sets.state import Book, View
from isolde.semantics.sets.values import ORDERED, Value, key_places, outside
from isolde.smt.terms import Term

_KINDS: dict[str, Kind] = {
    "len": "count",
    "sum_integers": "sum",
    "decimal_total": "sum",
    "maximum": "max",
    "minimum": "min",
}


class Ghosts:
    """The ghosts of an application: one for each aggregate, whoever asks for it."""

    def __init__(self) -> None:
        self._known: dict[str, Ghost] = {}

    def value(
        self,
        book: Book,
        view: View,
        over: tuple[Source, Sequence[Expression]],
        groups: Sequence[tuple[Expression, Term]],
        aggregate: Aggregate | None,
    ) -> Value:
        """An aggregate over the rows of a source that satisfy conditions (``over``), in one group: null of no rows, but counts.

        ``groups`` are what the group is by, with what it is there. Without an ``aggregate`` rows are counted.
        """
        source, where = over
        ids = {leaf.id: number for number, leaf in enumerate(scans(source))}
        ordered = sorted(groups, key=lambda pair: spelled(pair[0], ids))
        group = tuple(term for _, term in ordered)
        ghost = self._ghost(source, where, [node for node, _ in ordered], aggregate)
        book.use(view, ghost, group)
        term = ghost.term(book, view, group)
        if ghost.count is None:
            return Value(term)
        book.use(view, ghost.count, group)
        return Value(term, ghost.count.term(book, view, group) == 0)

    def _ghost(
        self, source: Source, where: Sequence[Expression], groups: Sequence[Expression], aggregate: Aggregate | None
    ) -> Ghost:
        if aggregate is None:
            return self._made(source, tuple(where), tuple(groups), "count", None)
        kind = _KINDS.get(getattr(aggregate.function, "__name__", ""))
        if kind is None or aggregate.distinct is not None:
            raise outside("an aggregate other than COUNT, SUM, MIN and MAX, or one of distinct values")
        operand = aggregate.operand
        if kind in {"max", "min"} and (operand is None or operand.type.sort not in ORDERED):
            raise outside("the first or the last of values other than numbers and times")
        if operand is not None and not operand.nonnull:
            where = (*where, Apply(IS_NOT_NULL, (operand,), BOOLEAN, True))
        counted = self._made(source, tuple(where), tuple(groups), "count", None)
        if kind == "count":
            return counted
        ghost = self._made(source, tuple(where), tuple(groups), kind, operand)
        ghost.count = counted
        if kind in {"max", "min"} and ghost.opposite is None and _numbers(ghost):
            other = self._made(source, tuple(where), tuple(groups), "min" if kind == "max" else "max", operand)
            other.count = counted
            ghost.opposite, other.opposite = other, ghost
        return ghost

    def _made(
        self,
        source: Source,
        where: tuple[Expression, ...],
        groups: tuple[Expression, ...],
        kind: Kind,
        operand: Expression | None,
    ) -> Ghost:
        leaves = list(scans(source))
        way = plan(source, where)
        first = way.steps[0] if way.steps else None
        if not isinstance(first, Visit) or not isinstance(first.source, Scan):
            raise outside("an aggregate over something other than tables")
        if not all(_found_by_key(step) for step in way.steps[1:]):
            return self._joined(source, where, groups, kind, operand)
        ids = {leaf.id: number for number, leaf in enumerate(leaves)}
        names = [leaf.table.table.name if isinstance(leaf, Scan) else "?" for leaf in leaves]
        conditions = sorted(spelled(node, ids) for node in (*where, *_joined_on(source)))
        shown = [",".join(names), " & ".join(conditions), ",".join(spelled(node, ids) for node in groups)]
        name = f"{kind} {'' if operand is None else spelled(operand, ids)} of " + " by ".join(shown)
        if name not in self._known:
            nodes = [*where, *_joined_on(source), *groups, *([operand] if operand is not None else [])]
            self._known[name] = Ghost(first.source, way, groups, kind, operand, name, _depends(leaves, nodes))
        return self._known[name]

    def _joined(
        self,
        source: Source,
        where: tuple[Expression, ...],
        groups: tuple[Expression, ...],
        kind: Kind,
        operand: Expression | None,
    ) -> Ghost:
        """Rows of one table, by which the groups are, with those of another that equations find."""
        leaves = [leaf for leaf in scans(source) if isinstance(leaf, Scan)]
        owners = {one for node in groups for one in depends_on(node)}
        if len(leaves) != 2 or len(list(scans(source))) != 2 or len(owners) != 1 or kind in {"max", "min"}:
            raise outside("an aggregate over a join that does not follow a primary key")
        scan = next(leaf for leaf in leaves if leaf.id in owners)
        other = next(leaf for leaf in leaves if leaf.id not in owners)
        own, others, links = _divided((*where, *_joined_on(source)), scan, other)
        if operand is not None and depends_on(operand) != {other.id}:
            raise outside("an aggregate over a join of what is not in the joined table")
        ids = {scan.id: 0, other.id: 1}
        shown = [
            " & ".join(sorted(spelled(node, ids) for node in (*where, *_joined_on(source)))),
            ",".join(spelled(node, ids) for node in groups),
        ]
        tables = f"{scan.table.table.name},{other.table.table.name}"
        name = f"{kind} {'' if operand is None else spelled(operand, ids)} of joined {tables}" + " by ".join(shown)
        if name not in self._known:
            ordered = sorted(links, key=lambda pair: spelled(pair[0], {other.id: 0}))
            columns = tuple(column for _, column in ordered)
            each = self._made(other, tuple(others), tuple(found for found, _ in ordered), kind, operand)
            if kind == "sum":
                each.count = self._made(other, tuple(others), tuple(found for found, _ in ordered), "count", None)
            matching = self._made(scan, tuple(own), (*groups, *columns), "count", None)
            nodes = [*where, *_joined_on(source), *groups, *([operand] if operand is not None else [])]
            self._known[name] = Joined(
                scan, plan(scan, tuple(own)), groups, kind, operand, name, _depends(leaves, nodes),
                links=columns, each=each, matching=matching,
            )  # fmt: skip
        return self._known[name]


def _divided(
    conditions: Sequence[Expression], scan: Scan, other: Scan
) -> tuple[list[Expression], list[Expression], list[tuple[Column, Column]]]:
    """Conditions of a join: those of the one table, those of the other, and columns of the other with what they are equal to."""
    own, others, links = list[Expression](), list[Expression](), list[tuple[Column, Column]]()
    for node in conditions:
        sources = depends_on(node)
        if sources <= {scan.id}:
            own.append(node)
        elif sources == {other.id}:
            others.append(node)
        else:
            found = _linked(node, scan, other)
            if found is None:
                raise outside("an aggregate over a join by something other than equations")
            links.append(found)
    return own, others, links


def _linked(node: Expression, scan: Scan, other: Scan) -> tuple[Column, Column] | None:
    if isinstance(node, Apply) and node.primitive.name == "=":
        for one, two in (node.arguments, node.arguments[::-1]):
            if isinstance(one, Column) and isinstance(two, Column) and (one.source, two.source) == (other.id, scan.id):
                return one, two
    return None


def _found_by_key(step: Any) -> bool:
    return (
        isinstance(step, Visit)
        and isinstance(step.source, Scan)
        and step.access is not None
        and step.access.unique == 0
        and key_places(step.source.table) is not None
    )


def _joined_on(source: Source) -> Iterator[Expression]:
    if isinstance(source, Join):
        if source.outer:
            raise outside("an aggregate over an outer join")
        yield from _joined_on(source.left)
        yield from _joined_on(source.right)
        yield from source.on


def _depends(leaves: Sequence[Any], nodes: Sequence[Expression]) -> dict[int, frozenset[int]]:
    tables = {leaf.id: leaf.table.position for leaf in leaves}
    found: dict[int, set[int]] = {position: set() for position in tables.values()}
    for node in nodes:
        if depends_on(node) - set(tables):
            raise outside("an aggregate of rows that depends on another row")
        for part in below(node):
            if isinstance(part, Column):
                found[tables[part.source]].add(part.place)
    return {position: frozenset(places) for position, places in found.items()}


def spelled(node: Any, ids: dict[int, int]) -> str:
    """An expression as a text: the same for two that differ in the numbers of their sources alone."""
    if isinstance(node, Column):
        return f"{ids.get(node.source, node.source)}.{node.name}"
    if isinstance(node, Apply) and node.primitive.name == "=":
        # Two spellings of one equation.
        return "(" + " = ".join(sorted(spelled(argument, ids) for argument in node.arguments)) + ")"
    if isinstance(node, Primitive):
        return node.name
    if isinstance(node, ValueType):
        return ""
    if isinstance(node, tuple):
        return "(" + ",".join(spelled(part, ids) for part in node) + ")"
    if is_dataclass(node) and not isinstance(node, type):
        parts = (getattr(node, one.name) for one in fields(node) if one.name not in {"lookups", "nonnull", "type"})
        return f"{type(node).__name__}({','.join(spelled(part, ids) for part in parts)})"
    return repr(node)


def _numbers(ghost: Ghost) -> bool:
    """Whether the group and the measure make up the key of the table, or it has none, and nothing is left out."""
    nodes = [*ghost.groups, ghost.operand]
    if not all(isinstance(node, Column) and node.source == ghost.scan.id for node in nodes) or ghost.way.last:
        return False
    step, own = ghost.way.steps[0], key_places(ghost.table)
    places = [node.place for node in nodes if isinstance(node, Column)]
    return len(ghost.way.steps) == 1 and not step.conditions and (own is None or sorted(places) == sorted(own))
