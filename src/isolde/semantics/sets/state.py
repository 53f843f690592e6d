"""States of all tables: one of which nothing is known, and what a transaction has written over it.

A table is a function from keys to presence, and one from keys to values for each column. ``Book`` is what is known on one way
through a transaction: facts, facts about all rows (instantiated at the rows that are named anywhere), and those rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from isolde.semantics.core.catalog import TableInfo
from isolde.semantics.sets.values import Row, Value, column_sort, key_places, key_size, merged
from isolde.smt import terms as smt
from isolde.smt.terms import Term

if TYPE_CHECKING:
    from isolde.semantics.sets.aggregates import Ghost

Key = tuple[Term, ...]
Counted = Literal["written", "locked"]


@dataclass(frozen=True, slots=True)
class Universal:
    """A fact about all rows of these tables: ``say`` gives it for a book and rows by their keys."""

    tables: tuple[TableInfo, ...]
    say: Callable[..., Term]


@dataclass(eq=False)
class Base:
    """A committed state of which nothing is known but what is said of it."""

    name: str
    _functions: dict[tuple[int, int | str], Callable[..., Term]] = field(default_factory=dict)
    _rows: dict[tuple[int, tuple[int, ...]], tuple[Key, Row]] = field(default_factory=dict)

    def row(self, info: TableInfo, key: Key) -> Row:
        index = (info.position, smt.identity(key))
        if index not in self._rows:
            self._rows[index] = (key, self._row(info, key))
        return self._rows[index][1]

    def _row(self, info: TableInfo, key: Key) -> Row:
        places = key_places(info) or ()
        values = []
        for place, column in enumerate(info.table.columns):
            if place in places:
                values.append(Value(key[places.index(place)]))
                continue
            name = f"{self.name}.{info.table.name}.{column.name}"
            term = self._function(info, place, name, column_sort(info, place))(*key)
            null = smt.FALSE
            if not info.nonnull[place]:
                null = self._function(info, f"{place} null", f"{name}.null", "boolean")(*key)
            values.append(Value(term, null))
        there = self._function(info, "there", f"{self.name}.{info.table.name}", "boolean")(*key)
        return Row(there, tuple(values))

    def counter(self, info: TableInfo, counted: Counted, key: Key) -> Term:
        """How many transactions that wrote the row of a key (or at least locked it) have committed."""
        name = f"{self.name}.{info.table.name}.{counted}"
        return self._function(info, counted, name, "integer")(*key)

    def _function(self, info: TableInfo, part: int | str, name: str, sort: smt.Sort) -> Callable[..., Term]:
        index = (info.position, part)
        if index not in self._functions:
            self._functions[index] = smt.function(name, key_size(info), sort)
        return self._functions[index]


@dataclass(frozen=True, slots=True)
class Rest:
    """Which rows the other rounds of a loop may write: columns, by place, that are alike in all rounds, or in none.

    ``many``: how many rows they insert; ``None``: not known. ``apart``: columns that are not all alike in two rounds.
    ``given``: what all rounds put into columns of rows that they insert.
    """

    fixed: Mapping[int, Term]
    numbered: Mapping[int, Term]
    many: Term | None
    apart: tuple[Mapping[int, Term], ...] = ()
    given: Mapping[int, Value] = field(default_factory=dict)

    def may(self, values: Sequence[Value]) -> Term:
        """Whether other rounds may write a row with these values."""
        fixed = smt.every(smt.equal(values[place].known, term) for place, term in self.fixed.items())
        apart = [smt.every(smt.equal(values[place].known, term) for place, term in one.items()) for one in self.apart]
        numbered = [smt.equal(values[place].known, term) for place, term in self.numbered.items()]
        return smt.both(fixed, *(smt.no(one) for one in (*numbered, *apart)))


At = Callable[..., tuple[Term, Row]]


@dataclass(frozen=True, eq=False)
class Write:
    """What a statement does to a table. ``at`` gives, for a key, whether the row is written and what it is then.

    ``key``: the one row that may be written; ``None``: any. ``changed``: the columns that change, ``None`` if rows come or go.
    ``equations``: what columns, by place, are in all rows that are written. ``rest``: it stands for rounds of a loop; ``at`` is
    then also given the row as it was. ``replaces``: a row that is there is changed instead (ON CONFLICT DO UPDATE).
    ``alone``: where no key names the rows, one of them, and whether no other is written.
    ``was``: a row that is changed as it was before.
    """

    table: TableInfo
    at: At
    key: Key | None
    changed: frozenset[int] | None
    equations: tuple[tuple[int, Term], ...] = ()
    rest: Rest | None = None
    replaces: bool = False
    alone: tuple[Key, Term] | None = None
    was: Callable[[Key], Row] | None = None

    def written(self, key: Key, before: Row) -> tuple[Term, Row]:
        return self.at(key) if self.rest is None else self.at(key, before)


class View:
    """A state with writes over it: what the transaction that made them sees."""

    def __init__(self, base: Base, writes: tuple[Write, ...] = ()) -> None:
        self.base, self.writes = base, writes
        # Keys are held beside the rows: what names a term is only its own as long as it is there.
        self._rows: dict[tuple[int, tuple[int, ...]], tuple[Key, Row]] = {}
        self._before: View | None = None

    @property
    def name(self) -> str:
        return f"{self.base.name}+{len(self.writes)}"

    @property
    def before(self) -> View:
        """The same without the last write."""
        if self._before is None:
            self._before = View(self.base, self.writes[:-1])
        return self._before

    def row(self, info: TableInfo, key: Key) -> Row:
        if not any(write.table is info for write in self.writes):
            return self.base.row(info, key)
        index = (info.position, smt.identity(key))
        if index not in self._rows:
            row = self.before.row(info, key)
            write = self.writes[-1]
            if write.table is info:
                hit, new = write.written(key, row)
                if smt.is_true(hit):
                    row = new
                elif not smt.is_false(hit):
                    values = (merged(hit, one, other) for one, other in zip(new.values, row.values, strict=True))
                    row = Row(smt.choose(hit, new.there, row.there), tuple(values))
            self._rows[index] = (key, row)
        return self._rows[index][1]


class Committed(View):
    """What a transaction leaves: its writes over the state that it commits to, and which rows it had locked besides."""

    def __init__(self, base: Base, writes: tuple[Write, ...], locked: Sequence[tuple[TableInfo, Key, Term]]) -> None:
        super().__init__(base, writes)
        self.locked = locked

    def counter(self, info: TableInfo, counted: Counted, key: Key) -> Term:
        """One more than before, for a row that was written (or locked)."""
        touched = [write.at(key)[0] for write in self.writes if write.table is info and write.rest is None]
        if counted == "locked":
            touched += [smt.both(held, smt.all_equal(key, own)) for table, own, held in self.locked if table is info]
        before = self.base.counter(info, counted, key)
        return smt.choose(smt.some(touched), before + 1, before)


class Names:
    """Fresh names, by counting. ``folds_texts``: texts that differ in case alone, and the like, are equal in the database."""

    def __init__(self, folds_texts: bool = False) -> None:
        self.folds_texts = folds_texts
        self._next = 0

    def fresh(self, name: str) -> str:
        self._next += 1
        return f"{name}!{self._next}"

    @property
    def last(self) -> int:
        """The number of the last name."""
        return self._next


class Book:
    """What is known on one way through a transaction. A copy goes on by itself.

    ``depth``: how far what is named now is from the rows that the transaction names itself; facts stop at some depth.
    ``distinct``: states, tables and columns, where no two rows of the table agree in all of these columns.
    """

    def __init__(self, names: Names) -> None:
        self.names = names
        self.facts: list[Term] = []
        self.universals: list[Universal] = []
        self.points: dict[int, dict[tuple[int, ...], tuple[Key, int]]] = {}
        self.uses: dict[tuple[int, str, tuple[int, ...]], tuple[View, Ghost, Key, int]] = {}
        self.depth = 0
        self.kept: list[View] = []
        self.distinct: set[tuple[int, int, frozenset[int]]] = set()

    def copy(self) -> Book:
        new = Book(self.names)
        new.facts, new.universals, new.kept = list(self.facts), list(self.universals), list(self.kept)
        new.points = {table: dict(keys) for table, keys in self.points.items()}
        new.uses, new.distinct = dict(self.uses), set(self.distinct)
        return new

    def fact(self, term: Term) -> None:
        if not smt.is_true(term):
            self.facts.append(term)

    def fresh(self, name: str, sort: smt.Sort = "integer") -> Term:
        return smt.constant(self.names.fresh(name), sort)

    def fresh_key(self, info: TableInfo, name: str = "row") -> Key:
        key = tuple(self.fresh(f"{info.table.name}.{name}") for _ in range(key_size(info)))
        self.point(info, key)
        return key

    def point(self, info: TableInfo, key: Key) -> None:
        """A row that facts about all rows are to be instantiated at."""
        self.points.setdefault(info.position, {}).setdefault(smt.identity(key), (key, self.depth))

    def row(self, view: View | Base, info: TableInfo, key: Key) -> Row:
        self.point(info, key)
        return view.row(info, key)

    def keys(self, info: TableInfo) -> Sequence[Key]:
        return [key for key, _ in self.points.get(info.position, {}).values()]

    def use(self, view: View, ghost: Ghost, group: Key) -> None:
        """An aggregate of a group that was asked for: it is tied to the rows of that group."""
        self.kept.append(view)
        self.uses.setdefault((id(view), ghost.name, smt.identity(group)), (view, ghost, group, self.depth))
