"""What may be true of every commit: candidates for the rely.

Each is a relation of two states, row by row, that holds of a state and itself and of what several steps in a row come to. Those
that every transaction keeps at its level may be assumed of what others do meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from isolde.engines.infer.nameless import found_by
from isolde.engines.infer.problem import SERIAL, Problem, Writing
from isolde.semantics.core.catalog import TableInfo
from isolde.semantics.core.types import Sort
from isolde.semantics.sets.state import Base, Book, Committed, Counted, Key
from isolde.semantics.sets.values import key_places, same, same_row
from isolde.smt import terms as smt
from isolde.smt.terms import Term

State = Base | Committed


@dataclass(frozen=True, eq=False)
class Candidate:
    """``step`` says it of two states, at a row of ``table``.

    Only who deletes rows of the tables ``goes``, inserts into the tables ``comes`` or updates one of ``columns`` (a table and a
    place) can break it.
    """

    name: str
    table: TableInfo
    step: Callable[[Book, State, State, Key], Term]
    goes: frozenset[int] = frozenset()
    comes: frozenset[int] = frozenset()
    columns: frozenset[tuple[int, int]] = frozenset()
    counts: TableInfo | None = None
    """The table whose commits it counts."""

    @property
    def stays(self) -> bool:
        """Whether rows of its table may not go."""
        return self.table.position in self.goes

    @property
    def simple(self) -> bool:
        """Whether it is about rows of one table alone, which either may not go or may not come."""
        tables = self.goes | self.comes | {position for position, _ in self.columns}
        return tables == {self.table.position} and not (self.goes and self.comes)

    def may_break(self, writing: Writing) -> bool:
        """Whether a transaction could break it, by what it writes."""
        updated = ((table, place) for table, places in writing.updates.items() for place in places)
        return bool(writing.deletes & self.goes or writing.inserts & self.comes or self.columns & set(updated))


def _at(info: TableInfo, places: Iterable[int]) -> frozenset[tuple[int, int]]:
    return frozenset((info.position, place) for place in places)


def candidates(problem: Problem) -> Iterator[Candidate]:
    """The candidates for an application, by its tables and what is written anywhere."""
    named, used = problem.named, problem.looked
    for link in links(problem):
        if link[0].position in named and link[2].position in named:
            yield from _together(link)
    writing = [one.writing for one in problem.transactions.values()]
    for info in problem.catalog.tables:
        position = info.position
        inserted = any(position in one.inserts for one in writing)
        deleted = any(position in one.deletes for one in writing)
        updated = frozenset[int]().union(*(one.updates.get(position, frozenset()) for one in writing))
        # What no invariant speaks of is left out: it could matter only by what transactions decide.
        if position not in named:
            continue
        if not (inserted or deleted or updated):
            yield _unchanged(info)
            continue
        places = frozenset(place for table, place in used if table == position)
        yield from _rows(info, updated & places, places - updated)
        for place in sorted(updated & places):
            if info.types[place].sort in {Sort.INTEGER, Sort.DECIMAL} and info.nonnull[place]:
                yield from _ordered(info, place)
                yield from _filled(problem, info, place)


Link = tuple[TableInfo, tuple[int, ...], TableInfo]
"""Rows of a table name, by these columns, the row of another that is written or locked together with them."""


def links(problem: Problem) -> list[Link]:
    """Which rows transactions write or lock together, by the terms that name them when they run alone."""
    found: dict[tuple[int, tuple[int, ...], int], Link] = {}
    for transaction in problem.transactions.values():
        if transaction.refused or transaction.reads_only:
            continue
        for path in transaction.ways(SERIAL, problem.names):
            others = [(write.table, write.key) for write in path.writes if write.key is not None]
            others += [(lock.table, lock.key) for lock in path.timeline.locks]
            for write in path.writes:
                if write.changed is not None or write.key is None:
                    continue
                values = [value.term for value in write.at(write.key)[1].values]
                for other, key in others:
                    if other is write.table or key_places(other) is None:
                        continue
                    places = [_place(values, term) for term in key]
                    columns = tuple(place for place in places if place is not None)
                    if len(columns) == len(key) and all(write.table.nonnull[place] for place in columns):
                        found[write.table.position, columns, other.position] = (write.table, columns, other)
    return list(found.values())


def _place(values: Sequence[Term], term: Term) -> int | None:
    return next((place for place, value in enumerate(values) if value is not None and smt.same_term(value, term)), None)


def _together(link: Link) -> Iterator[Candidate]:
    """A row that comes (or goes) has the row that it names written, or locked, by the same transaction."""
    info, columns, other = link

    def step(comes: bool, counted: Counted) -> Callable[[Book, State, State, Key], Term]:
        def say(book: Book, old: State, new: State, key: Key) -> Term:
            before, after = old.row(info, key), new.row(info, key)
            one, two = (after, before) if comes else (before, after)
            named = tuple(one.values[place].known for place in columns)
            kept = smt.every(same(one.values[place], two.values[place]) for place in columns)
            book.point(other, named)
            touched = old.counter(other, counted, named) < new.counter(other, counted, named)
            return smt.either(smt.no(one.there), smt.both(two.there, kept), touched)

        return say

    shown = ", ".join(info.table.columns[place].name for place in columns)
    own = frozenset({info.position})
    for comes in (True, False):
        for counted in ("written", "locked"):
            word = "comes" if comes else "goes"
            name = f"{info.table.name}: a row that {word} has its {other.table.name} ({shown}) {counted}"
            goes, come = (frozenset[int](), own) if comes else (own, frozenset[int]())
            yield Candidate(name, info, step(comes, counted), goes, come, _at(info, columns), other)


def _unchanged(info: TableInfo) -> Candidate:
    def step(_: Book, old: State, new: State, key: Key) -> Term:
        return same_row(old.row(info, key), new.row(info, key))

    own = frozenset({info.position})
    return Candidate(f"{info.table.name} never changes", info, step, own, own, _at(info, range(len(info.types))))


def _rows(info: TableInfo, updated: frozenset[int], kept: frozenset[int]) -> Iterator[Candidate]:
    name, own, nothing = info.table.name, frozenset({info.position}), frozenset[int]()
    fixed = tuple(sorted(kept))

    def staying(places: tuple[int, ...]) -> Callable[[Book, State, State, Key], Term]:
        def step(_: Book, old: State, new: State, key: Key) -> Term:
            before, after = old.row(info, key), new.row(info, key)
            values = smt.every(same(before.values[place], after.values[place]) for place in places)
            return smt.implies(before.there, smt.both(after.there, values))

        return step

    def old_ones(places: tuple[int, ...]) -> Callable[[Book, State, State, Key], Term]:
        stay = staying(places)
        return lambda book, old, new, key: stay(book, new, old, key)

    yield Candidate(f"{name}: rows stay", info, staying(fixed), own, nothing, _at(info, fixed))
    yield Candidate(f"{name}: no new rows", info, old_ones(fixed), nothing, own, _at(info, fixed))
    for place in sorted(updated):
        column, only = info.table.columns[place].name, _at(info, [place])
        yield Candidate(f"{name}: rows stay with their {column}", info, staying((place,)), own, nothing, only)
        yield Candidate(f"{name}: no new rows, nor {column}", info, old_ones((place,)), nothing, own, only)


def _ordered(info: TableInfo, place: int) -> Iterator[Candidate]:
    name, own, nothing = (
        f"{info.table.name}.{info.table.columns[place].name}",
        frozenset({info.position}),
        frozenset[int](),
    )

    def rising(rises: bool, stays: bool) -> Callable[[Book, State, State, Key], Term]:
        def step(_: Book, old: State, new: State, key: Key) -> Term:
            before, after = old.row(info, key), new.row(info, key)
            low, high = before.values[place].known, after.values[place].known
            ordered = low <= high if rises else low >= high
            there, other = (before, after) if stays else (after, before)
            return smt.implies(there.there, smt.both(other.there, ordered))

        return step

    for rises in (True, False):
        for stays in (True, False):
            word = "rises" if rises else "falls"
            kept = "rows stay" if stays else "no new rows"
            goes, comes = (own, nothing) if stays else (nothing, own)
            shown = f"{name} only {word}, {kept}"
            yield Candidate(shown, info, rising(rises, stays), goes, comes, _at(info, [place]))


def _as_near(book: Book, info: TableInfo, key: Key) -> None:
    """Names a row that is as near to what the transaction names as the row that this is said of."""
    depth, book.depth = book.depth, max(book.depth - 1, 0)
    book.point(info, key)
    book.depth = depth


def _filled(problem: Problem, info: TableInfo, place: int) -> Iterator[Candidate]:
    """Numbers that a counter gives out: rows of another table have them, and stay; none comes below the counter."""
    places = key_places(info)
    if places is None:
        return
    for other in problem.catalog.tables:
        named = key_places(other)
        for columns in found_by(problem, other) if named is None else [named]:
            if other is info or len(columns) != len(places) + 1:
                continue
            if any(info.types[a].sort is not other.types[b].sort for a, b in zip(places, columns, strict=False)):
                continue
            counter = _Counter(info, place, other, columns)
            called, only = f"{info.table.columns[place].name} of {info.table.name}", _at(info, [place])
            mine, theirs = frozenset({info.position}), frozenset({other.position})
            shown = "" if named is not None else f" ({', '.join(other.table.columns[one].name for one in columns)})"
            name = f"{other.table.name}: new rows{shown} are not below {called}"
            yield Candidate(name, other, counter.above, mine, theirs, only | _at(other, columns))
            if named is not None:
                name = f"{other.table.name}: numbers below {called} are taken"
                yield Candidate(name, other, counter.filled, mine | theirs, frozenset(), only)


@dataclass(frozen=True, slots=True)
class _Counter:
    """``place``: the column of ``info`` that counts; ``columns`` of ``other`` name its row, the last of them is the number."""

    info: TableInfo
    place: int
    other: TableInfo
    columns: tuple[int, ...]

    def filled(self, book: Book, old: State, new: State, key: Key) -> Term:
        info, other = self.info, self.other
        counter = key[:-1]
        _as_near(book, info, counter)
        before, after = old.row(info, counter), new.row(info, counter)
        row, later = old.row(other, key), new.row(other, key)
        passed = smt.both(
            before.there,
            after.there,
            before.values[self.place].known <= key[-1],
            key[-1] < after.values[self.place].known,
        )
        stays = smt.implies(before.there, after.there)
        return smt.both(stays, smt.implies(row.there, later.there), smt.implies(passed, later.there))

    def above(self, book: Book, old: State, new: State, key: Key) -> Term:
        # Of a row that is not there the columns are any numbers: so the counter is any one.
        info, other = self.info, self.other
        later, row = new.row(other, key), old.row(other, key)
        *counter, number = (later.values[column].known for column in self.columns)
        _as_near(book, info, tuple(counter))
        before, after = old.row(info, tuple(counter)), new.row(info, tuple(counter))
        low = before.values[self.place].known
        rises = smt.implies(before.there, smt.both(after.there, low <= after.values[self.place].known))
        alike = smt.every(same(row.values[column], later.values[column]) for column in self.columns)
        comes = smt.both(later.there, smt.no(smt.both(row.there, alike)))
        near = smt.both(after.there, smt.implies(before.there, low <= number))
        return smt.both(rises, smt.implies(comes, near))
