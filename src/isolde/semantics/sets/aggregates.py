"""Aggregates as functions of a state and a group: ghosts, which follow every write.

A count or a sum of a state that nothing is known of is a function that nothing is known of; a write of one row changes it by what
the row adds after the write less what it added before. A largest or smallest value is a bound of all rows and the value of one.
What a group has to do with single rows is said in ``ties``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from isolde.semantics.core.catalog import TableInfo
from isolde.semantics.core.nodes import Column, Expression
from isolde.semantics.core.plan import Plan, Visit
from isolde.semantics.core.relations import Scan
from isolde.semantics.sets.expressions import Environment, Reader
from isolde.semantics.sets.state import Base, Book, Key, Names, View, Write
from isolde.semantics.sets.values import key_size, terms_of
from isolde.smt import terms as smt
from isolde.smt.terms import Term

Kind = Literal["count", "sum", "max", "min"]


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
    _sort: smt.Sort | None = None

    @property
    def table(self) -> TableInfo:
        return self.scan.table

    @property
    def sort(self) -> smt.Sort:
        """Whole numbers add up to one."""
        if self._sort is None:
            book, view = Book(Names()), View(Base(f"any {self.name}"))
            measure = self.part(book, view, book.fresh_key(self.table)).measure
            self._sort = "integer" if smt.is_integer(measure) else "real"
        return self._sort

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
        unknown = self._function(view, f"{view.name}.{id(view)}")
        if self.kind in {"max", "min"} or write.table is not self.table:
            return unknown(*group)
        if write.rest is not None:
            return self._other_rounds(book, view, write, group)
        key = write.key if write.alone is None else write.alone[0]
        if key is None:
            return unknown(*group)
        old, new = self.part(book, view.before, key), self.part(book, view, key)
        book.point(self.table, key)
        changed = self.term(book, view.before, group) + added(new, group) - added(old, group)
        return changed if write.alone is None else smt.choose(write.alone[1], changed, unknown(*group))

    def opaque(self, view: View) -> bool:
        """Whether rows were written of which it is not known how many they are."""
        return any(
            write.key is None and write.rest is None and self._looks_at(write.table, write.changed)
            for write in view.writes
        )

    def _other_rounds(self, book: Book, view: View, write: Write, group: Key) -> Term:
        """A group that other rounds of a loop cannot reach is as before; one that all of them add to grows by their number."""
        before, rest = self.term(book, view.before, group), write.rest
        assert rest is not None
        if self.never_counts(book, view, write):
            return before
        fixed, numbered = list[Term](), list[Term]()
        for node, term in zip(self.groups, group, strict=True):
            if isinstance(node, Column) and node.source == self.scan.id:
                if node.place in rest.fixed:
                    fixed.append(smt.equal(term, rest.fixed[node.place]))
                if node.place in rest.numbered:
                    numbered.append(smt.equal(term, rest.numbered[node.place]))
        unknown = self._function(view, f"{view.name}.{id(view)}")(*group)
        exactly = rest.many is not None and self.kind == "count" and not self.way.last and len(self.way.steps) == 1
        if exactly and len(fixed) == len(self.groups):
            step = self.way.steps[0]
            if not step.conditions:
                return before + smt.choose(smt.every(fixed), rest.many, smt.number(0))
        return smt.choose(smt.either(smt.no(smt.every(fixed)), *numbered), before, unknown)

    def never_counts(self, book: Book, view: View, write: Write) -> bool:
        """Whether the rows that other rounds insert do not count, whichever they are."""
        if write.rest is None or not write.rest.given or len(self.way.steps) != 1:
            return False
        key = tuple(smt.constant(f"any {place}") for place in range(key_size(self.table)))
        _, row = write.written(key, view.before.row(self.table, key))
        env = Environment(rows={self.scan.id: row.values})
        (step,) = self.way.steps
        return smt.is_false(Reader(book).holds([*step.conditions, *self.way.last], env))

    def touched(self, view: View) -> bool:
        return any(self._looks_at(write.table, write.changed) for write in view.writes)

    def _looks_at(self, table: TableInfo, changed: frozenset[int] | None) -> bool:
        seen = self.depends.get(table.position)
        return seen is not None and (changed is None or bool(seen & changed))

    def _function(self, of: View | Base, name: str) -> Callable[..., Term]:
        if name not in self._functions:
            made = smt.function(f"{self.kind}[{self.name}]@{name}", len(self.groups), self.sort)
            self._functions[name] = (of, made)
        return self._functions[name][1]


def added(part: Part, group: Key) -> Term:
    """What a row adds to a group."""
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
