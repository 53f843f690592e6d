"""Aggregates as functions of a state and a group: ghosts, which follow every write.

A count or a sum of a state that nothing is known of is a function that nothing is known of; a write of one row changes it by what
the row adds after the write less what it added before. A largest or smallest value is a bound of all rows and the value of one.
What a group has to do with single rows is said in ``ties``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

from isolde.semantics.core.catalog import TableInfo
from isolde.semantics.core.nodes import Apply, Column, Expression, below
from isolde.semantics.core.plan import Plan, Visit, depends_on, plan
from isolde.semantics.core.primitives import IS_NOT_NULL, Primitive
from isolde.semantics.core.relations import Aggregate, Join, Scan, Source, scans
from isolde.semantics.core.types import BOOLEAN, ValueType
from isolde.semantics.sets.expressions import Environment, Reader
from isolde.semantics.sets.state import Base, Book, Key, Rest, Universal, View
from isolde.semantics.sets.values import Value, key_places, outside, terms_of
from isolde.smt import terms as smt
from isolde.smt.terms import Term

Kind = Literal["count", "sum", "max", "min"]
_KINDS: dict[str, Kind] = {
    "len": "count",
    "sum_integers": "sum",
    "decimal_total": "sum",
    "maximum": "max",
    "minimum": "min",
}


@dataclass(frozen=True, slots=True)
class Part:
    """What one row contributes: whether it counts, its group, its measure."""

    counts: Term
    group: Key
    measure: Term


@dataclass(eq=False)
class Ghost:
    """An aggregate of ``operand`` over rows of one table (``scan``; others are found from it by their keys), by ``groups``.

    ``depends``: the columns of each table that it looks at, the place of its own table included.
    """

    scan: Scan
    way: Plan
    groups: tuple[Expression, ...]
    kind: Kind
    operand: Expression | None
    name: str
    depends: dict[int, frozenset[int]]
    count: Ghost | None = None
    """How many rows it is of; ``None`` if that is what it counts."""
    opposite: Ghost | None = None
    """Of the largest the smallest, and the other way round, where they number the rows of a group: no two rows share one."""
    _parts: dict[tuple[int, tuple[int, ...]], tuple[View, Key, Part]] = field(default_factory=dict)
    _functions: dict[str, tuple[Any, Callable[..., Term]]] = field(default_factory=dict)
    _values: dict[tuple[int, tuple[int, ...]], tuple[View, Key, Term]] = field(default_factory=dict)

    @property
    def table(self) -> TableInfo:
        return self.scan.table

    def part(self, book: Book, view: View, key: Key) -> Part:
        """What the row of this key contributes in this state."""
        index = (id(view), smt.identity(key))
        if index not in self._parts:
            env = Environment(rows={self.scan.id: view.row(self.table, key).values})
            there = view.row(self.table, key).there
            reader = Reader(book)
            conditions = [there, *_followed(view, self.scan, self.way, env, reader)]
            groups = [reader.value(node, env) for node in self.groups]
            conditions += [smt.no(value.null) for value in groups]
            measure = smt.number(1) if self.operand is None else reader.value(self.operand, env).known
            self._parts[index] = (view, key, Part(smt.every(conditions), terms_of(groups), measure))
        return self._parts[index][2]

    def term(self, book: Book, view: View, group: Key) -> Term:
        """The aggregate of a group; what it is of no rows has to be asked of the count."""
        index = (id(view), smt.identity(group))
        if index not in self._values:
            self._values[index] = (view, group, self._term(book, view, group))
        return self._values[index][2]

    def _term(self, book: Book, view: View, group: Key) -> Term:
        if not view.writes or not self.touched(view):
            return self._function(view.base, f"{view.base.name}")(*group)
        write = view.writes[-1]
        if not self._looks_at(write.table, write.changed):
            return self.term(book, view.before, group)
        if write.table is self.table and write.rest is not None and self.kind in {"count", "sum"}:
            return self._other_rounds(book, view, write.rest, group)
        if self.kind in {"max", "min"} or write.table is not self.table or write.key is None:
            return self._function(view, f"{view.name}.{id(view)}")(*group)
        old, new = self.part(book, view.before, write.key), self.part(book, view, write.key)
        book.point(self.table, write.key)
        return self.term(book, view.before, group) + _added(new, group) - _added(old, group)

    def _other_rounds(self, book: Book, view: View, rest: Rest, group: Key) -> Term:
        """A group that other rounds of a loop cannot reach is as before; one that all of them add to grows by their number."""
        before = self.term(book, view.before, group)
        places = key_places(self.table) or ()
        fixed, numbered = list[Term](), list[Term]()
        for node, term in zip(self.groups, group, strict=True):
            if isinstance(node, Column) and node.source == self.scan.id and node.place in places:
                place = places.index(node.place)
                if place in rest.fixed:
                    fixed.append(smt.equal(term, rest.fixed[place]))
                if place in rest.numbered:
                    numbered.append(smt.equal(term, rest.numbered[place]))
        unknown = self._function(view, f"{view.name}.{id(view)}")(*group)
        exactly = rest.many is not None and self.kind == "count" and not self.way.last and len(self.way.steps) == 1
        if exactly and len(fixed) == len(self.groups):
            step = self.way.steps[0]
            if not step.conditions:
                return before + smt.choose(smt.every(fixed), rest.many, smt.number(0))
        return smt.choose(smt.either(smt.no(smt.every(fixed)), *numbered), before, unknown)

    def touched(self, view: View) -> bool:
        return any(self._looks_at(write.table, write.changed) for write in view.writes)

    def _looks_at(self, table: TableInfo, changed: frozenset[int] | None) -> bool:
        seen = self.depends.get(table.position)
        return seen is not None and (changed is None or bool(seen & changed))

    def _function(self, of: View | Base, name: str) -> Callable[..., Term]:
        if name not in self._functions:
            made = smt.function(f"{self.kind}[{self.name}]@{name}", len(self.groups), "integer")
            self._functions[name] = (of, made)
        return self._functions[name][1]


def _numbers(ghost: Ghost) -> bool:
    """Whether the group and the measure make up the key of the table, and nothing is left out."""
    nodes = [*ghost.groups, ghost.operand]
    if not all(isinstance(node, Column) and node.source == ghost.scan.id for node in nodes) or ghost.way.last:
        return False
    step = ghost.way.steps[0]
    places = [node.place for node in nodes if isinstance(node, Column)]
    return len(ghost.way.steps) == 1 and not step.conditions and sorted(places) == sorted(key_places(ghost.table) or ())


def _dense(book: Book, view: View, ghost: Ghost, group: Key, many: Term) -> None:
    """There are no more rows than numbers from the smallest to the largest; if there are as many, all of them are there."""
    assert ghost.opposite is not None
    book.use(view, ghost.opposite, group)
    one, other = ghost.term(book, view, group), ghost.opposite.term(book, view, group)
    low, high = (one, other) if ghost.kind == "min" else (other, one)
    book.fact(smt.implies(many >= 1, many <= high - low + 1))
    assert isinstance(ghost.operand, Column)
    named = {node.place: term for node, term in zip(ghost.groups, group, strict=True) if isinstance(node, Column)}
    places = key_places(ghost.table) or ()
    number = places.index(ghost.operand.place)

    def there(_: Book, key: Key) -> Term:
        alike = smt.every(smt.equal(key[places.index(place)], term) for place, term in named.items())
        between = smt.both(low <= key[number], key[number] <= high, many == high - low + 1, many >= 1)
        return smt.implies(smt.both(alike, between), view.row(ghost.table, key).there)

    book.universals.append(Universal((ghost.table,), there))
    for term in (low + 1, high):
        book.point(ghost.table, tuple(named.get(place, term) for place in places))


def _added(part: Part, group: Key) -> Term:
    return smt.choose(smt.both(part.counts, smt.all_equal(part.group, group)), part.measure, smt.number(0))


def _followed(view: View, scan: Scan, way: Plan, env: Environment, reader: Reader) -> Iterator[Term]:
    """The conditions on the way from a row to those that it names by their keys."""
    for step in way.steps:
        assert isinstance(step, Visit)
        if step.source is not scan:
            assert isinstance(step.source, Scan)
            assert step.access is not None
            keys = [reader.value(node, env) for node in step.access.keys]
            row = view.row(step.source.table, terms_of(keys))
            env.rows[step.source.id] = row.values
            yield smt.both(row.there, *(smt.no(value.null) for value in keys))
        yield reader.holds(step.conditions, env)
    yield reader.holds(way.last, env)


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
        for step in way.steps[1:]:
            if not _found_by_key(step):
                raise outside("an aggregate over a join that does not follow a primary key")
        ids = {leaf.id: number for number, leaf in enumerate(leaves)}
        names = [leaf.table.table.name if isinstance(leaf, Scan) else "?" for leaf in leaves]
        conditions = sorted(spelled(node, ids) for node in (*where, *_joined_on(source)))
        shown = [",".join(names), " & ".join(conditions), ",".join(spelled(node, ids) for node in groups)]
        name = f"{kind} {'' if operand is None else spelled(operand, ids)} of " + " by ".join(shown)
        if name not in self._known:
            nodes = [*where, *_joined_on(source), *groups, *([operand] if operand is not None else [])]
            self._known[name] = Ghost(first.source, way, groups, kind, operand, name, _depends(leaves, nodes))
        return self._known[name]


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


def ties(book: Book, view: View, ghost: Ghost, group: Key, *, near: bool) -> None:
    """What a group's aggregate has to do with single rows, as facts and as facts about all rows.

    ``near``: the transaction or the goal asks for it; of others, counts and sums are not told which rows they are of.
    """
    count = ghost.count or ghost
    many = count.term(book, view, group)
    book.fact(many >= 0)
    value = ghost.term(book, view, group)

    def belongs(inside: Book, key: Key) -> Term:
        part = count.part(inside, view, key)
        return smt.both(part.counts, smt.all_equal(part.group, group))

    book.universals.append(Universal((ghost.table,), lambda inside, key: smt.implies(belongs(inside, key), many >= 1)))

    if not near and ghost.kind in {"count", "sum"}:
        book.fact(smt.implies(many == 0, value == 0))
        return
    witness = book.fresh_key(ghost.table, "witness")
    book.fact(smt.implies(many >= 1, belongs(book, witness)))

    def two(inside: Book, one: Key, other: Key) -> Term:
        return smt.implies(
            smt.both(belongs(inside, one), belongs(inside, other), smt.no(smt.all_equal(one, other))), many >= 2
        )

    match ghost.kind:
        case "count":
            book.universals.append(Universal((ghost.table, ghost.table), two))
            other = book.fresh_key(ghost.table, "witness")
            book.fact(smt.implies(many >= 2, smt.both(belongs(book, other), smt.no(smt.all_equal(other, witness)))))
        case "sum":
            book.fact(smt.implies(many == 0, value == 0))
            alone = ghost.part(book, view, witness).measure
            book.fact(smt.implies(many == 1, value == alone))
        case "max" | "min":
            least = ghost.kind == "min"

            def bounded(inside: Book, key: Key) -> Term:
                measure = ghost.part(inside, view, key).measure
                return smt.implies(belongs(inside, key), measure >= value if least else measure <= value)

            book.universals.append(Universal((ghost.table,), bounded))
            if ghost.opposite is not None:
                _dense(book, view, ghost, group, many)
            book.fact(smt.implies(many >= 1, ghost.part(book, view, witness).measure == value))
