"""The indexes of an InnoDB table, the entries that they hold, and the gaps between these.

An entry is what rows are ordered by: the columns of the index, then those of the primary key. Besides the committed rows an index
holds what open transactions have written, and what they have replaced or deleted, until they end.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from isolde.semantics.core.catalog import Catalog, TableInfo
from isolde.semantics.tables.view import Row

if TYPE_CHECKING:
    from isolde.semantics.stores.rows import Version

Entry = tuple[Any, ...]
LOWEST: Entry = ((-1,),)
HIGHEST: Entry = ((9,),)
"""Before and after all entries."""


@dataclass(frozen=True, slots=True)
class Index:
    """``columns`` are those that it was declared for; ``unique``: the place among the table's unique keys, if it is one."""

    place: int
    columns: tuple[int, ...]
    unique: int | None
    folds: tuple[Any, ...]
    key_folds: tuple[tuple[int, Any], ...]

    def entry(self, row: Row, number: int) -> Entry:
        own = tuple(_part(row[column], fold) for column, fold in zip(self.columns, self.folds, strict=True))
        if self.place == 0:
            return own or ((1, number),)
        rest = tuple(_part(row[column], fold) for column, fold in self.key_folds)
        return (*own, *(rest or ((1, number),)))

    def probe(self, values: Iterable[Any]) -> Entry:
        """What entries with these values in the first columns come right after."""
        return tuple(_part(value, fold) for value, fold in zip(values, self.folds, strict=False))


def _part(value: Any, fold: Any) -> tuple[Any, ...]:
    """Nulls come first."""
    return (0,) if value is None else (1, fold(value) if fold is not None else value)


def indexes_of(catalog: Catalog, info: TableInfo) -> tuple[Index, ...]:
    """The clustered index first, then the other unique keys, then plain ones, and those that foreign keys bring along."""
    rules = catalog.rules

    def folds(columns: tuple[int, ...]) -> tuple[Any, ...]:
        return tuple(rules.key_part(info.table.columns[column].type) for column in columns)

    primary = info.uniques[0] if info.table.primary_key else ()
    key_folds = tuple(zip(primary, folds(primary), strict=True))
    found = [Index(0, primary, 0 if primary else None, folds(primary), key_folds)]
    for place, unique in enumerate(info.uniques):
        if place or not primary:
            found.append(Index(len(found), unique, place, folds(unique), key_folds))
    for plain in info.table.indexes:
        columns = tuple(info.column(name) for name in plain.columns)
        found.append(Index(len(found), columns, None, folds(columns), key_folds))
    for reference in catalog.references:
        columns = reference.child_columns
        if reference.child == info.position and all(one.columns[: len(columns)] != columns for one in found):
            found.append(Index(len(found), columns, None, folds(columns), key_folds))
    return tuple(found)


class Entries:
    """All entries of an index in order, each with the number of its row; never changed."""

    __slots__ = ("_index", "_keys", "_numbers")

    def __init__(self, index: Index, versions: Iterable[tuple[int, Version]]) -> None:
        # Of a row that was deleted and one that came in its place, the later is given.
        found = sorted({index.entry(version.row, number): number for number, version in versions}.items())
        self._index = index
        self._keys = [entry for entry, _ in found]
        self._numbers = [number for _, number in found]

    def changed(self, changes: Iterable[tuple[int, Version | None, Version | None]]) -> Entries:
        """The same after rows have changed: number, before and after of each."""
        entry = self._index.entry
        gone = [(entry(before.row, number), number) for number, before, _ in changes if before is not None]
        come = [(entry(after.row, number), number) for number, _, after in changes if after is not None]
        if sorted(gone) == sorted(come):
            return self
        found = Entries.__new__(Entries)
        found._index, found._keys, found._numbers = self._index, self._keys.copy(), self._numbers.copy()
        for key, number in gone:
            place = bisect_left(found._keys, key)
            if place < len(found._keys) and found._keys[place] == key and found._numbers[place] == number:
                del found._keys[place], found._numbers[place]
        for key, number in come:
            place = bisect_left(found._keys, key)
            if place < len(found._keys) and found._keys[place] == key:
                found._numbers[place] = number
            else:
                found._keys.insert(place, key)
                found._numbers.insert(place, number)
        return found

    def after(self, entry: Entry, *, itself: bool) -> tuple[Entry, int] | None:
        """The first one that comes after, or is it ``itself``."""
        place = (bisect_left if itself else bisect_right)(self._keys, entry)
        return (self._keys[place], self._numbers[place]) if place < len(self._keys) else None

    def holds(self, entry: Entry) -> bool:
        place = bisect_left(self._keys, entry)
        return place < len(self._keys) and bool(self._keys[place] == entry)

    def gap(self, entry: Entry) -> tuple[Entry, Entry]:
        """The entries between which this one is, or is to be; of one that is there, the gap before it."""
        place = bisect_left(self._keys, entry)
        low = self._keys[place - 1] if place else LOWEST
        return low, self._keys[place] if place < len(self._keys) else HIGHEST


class EntriesOver:
    """Entries, and a few more over them."""

    __slots__ = ("_base", "_over")

    def __init__(self, base: Entries, over: Entries) -> None:
        self._base, self._over = base, over

    def after(self, entry: Entry, *, itself: bool) -> tuple[Entry, int] | None:
        """The first one that comes after, or is it ``itself``; of two for one entry, that of those over the others."""
        below, above = self._base.after(entry, itself=itself), self._over.after(entry, itself=itself)
        if below is None or above is None:
            return below or above
        return above if above[0] <= below[0] else below

    def holds(self, entry: Entry) -> bool:
        return self._over.holds(entry) or self._base.holds(entry)

    def gap(self, entry: Entry) -> tuple[Entry, Entry]:
        """The entries between which this one is, or is to be; of one that is there, the gap before it."""
        below, above = self._base.gap(entry), self._over.gap(entry)
        return max(below[0], above[0]), min(below[1], above[1])
