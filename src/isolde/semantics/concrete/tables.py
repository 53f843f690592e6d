"""Rows of one table: by number, with unique keys and equality indexes; and how changes are taken back.

Rows are tuples that never change, numbered in the order of their insertion, so that a copy of a table shares them.
"""

from __future__ import annotations

from typing import Any

from isolde.errors import ExecutionError
from isolde.semantics.concrete.catalog import Catalog, Key, TableInfo

Row = tuple[Any, ...]
Undo = list[tuple[int, int, Row | None, Row | None]]
"""Table, row number, the row before, the row after; the newest last."""


class TableData:
    """``unique`` maps keys to row numbers; ``equality`` maps other columns' keys to sets of them, when first asked for.

    ``uncertain``: nobody can tell MySQL's counter of generated ids any more.
    """

    __slots__ = ("counter", "equality", "equality_keys", "info", "next_number", "rows", "shared", "uncertain", "unique")

    def __init__(self, info: TableInfo) -> None:
        self.info = info
        self.rows: dict[int, Row] = {}
        self.unique: list[dict[Any, int]] = [{} for _ in info.uniques]
        self.equality: dict[tuple[int, ...], dict[Any, dict[int, None]]] = {}
        self.equality_keys: dict[tuple[int, ...], Key] = {}
        self.next_number = 0
        self.counter = 1
        self.uncertain = False
        self.shared = False

    def clone(self) -> TableData:
        twin = TableData(self.info)
        twin.rows = self.rows.copy()
        twin.unique = [index.copy() for index in self.unique]
        twin.next_number, twin.counter, twin.uncertain = self.next_number, self.counter, self.uncertain
        return twin

    def equal(self, columns: tuple[int, ...], catalog: Catalog) -> dict[Any, dict[int, None]]:
        """Row numbers by the key of these columns."""
        index = self.equality.get(columns)
        if index is None:
            key = catalog.key(self.info.table, columns)
            index = {}
            for number, row in self.rows.items():
                found = key(row)
                if found is not None:
                    index.setdefault(found, {})[number] = None
            self.equality[columns] = index
            self.equality_keys[columns] = key
        return index

    def row_of(self, place: int, key: Any) -> tuple[Row, ...]:
        number = self.unique[place].get(key)
        return () if number is None else (self.rows[number],)

    def number_of(self, place: int, key: Any) -> tuple[tuple[int, Row], ...]:
        number = self.unique[place].get(key)
        return () if number is None else ((number, self.rows[number]),)

    def rows_equal(self, columns: tuple[int, ...], key: Any, catalog: Catalog) -> list[Row]:
        return [self.rows[number] for number in sorted(self.equal(columns, catalog).get(key, ()))]

    def numbers_equal(self, columns: tuple[int, ...], key: Any, catalog: Catalog) -> list[tuple[int, Row]]:
        return [(number, self.rows[number]) for number in sorted(self.equal(columns, catalog).get(key, ()))]

    # Changes: unique keys are checked, nothing else is.

    def insert(self, row: Row, undo: Undo) -> int:
        number = self.next_number
        for place, key in enumerate(self.info.unique_keys):
            found = key(row)
            if found is not None:
                other = self.unique[place].setdefault(found, number)
                if other != number:
                    self._forget_keys(row, number, place)
                    raise self.taken(place, found)
        self.next_number = number + 1
        self.rows[number] = row
        if self.equality:
            self._index(number, row)
        undo.append((self.info.position, number, None, row))
        return number

    def delete(self, number: int, undo: Undo) -> None:
        row = self.rows.pop(number)
        self._forget_keys(row, number, len(self.unique))
        if self.equality:
            self._unindex(number, row)
        undo.append((self.info.position, number, row, None))

    def replace(self, number: int, row: Row, undo: Undo) -> None:
        """The row changed in columns that no unique key has."""
        old = self.rows[number]
        self.rows[number] = row
        if self.equality:
            self._unindex(number, old)
            self._index(number, row)
        undo.append((self.info.position, number, old, row))

    def taken(self, place: int, key: Any) -> ExecutionError:
        names = ", ".join(self.info.table.columns[column].name for column in self.info.uniques[place])
        return ExecutionError("unique", f"{self.info.table.name} has already a row with ({names}) = {key!r}")

    def conflicts(self, row: Row, places: range | tuple[int, ...]) -> list[int]:
        """Numbers of rows that hold a key of this one, in the order of the keys."""
        found: dict[int, None] = {}
        for place in places:
            key = self.info.unique_keys[place](row)
            if key is not None and (number := self.unique[place].get(key)) is not None:
                found[number] = None
        return list(found)

    def rekey(self, number: int, old: Row, row: Row) -> None:
        """Keys of ``old``, already taken out, become those of ``row``."""
        for place, key in enumerate(self.info.unique_keys):
            found = key(row)
            if found is not None:
                other = self.unique[place].setdefault(found, number)
                if other != number:
                    self._forget_keys(row, number, place)
                    raise self.taken(place, found)
        self.rows[number] = row
        if self.equality:
            self._unindex(number, old)
            self._index(number, row)

    def _forget_keys(self, row: Row, number: int, places: int) -> None:
        for place in range(places):
            key = self.info.unique_keys[place](row)
            if key is not None and self.unique[place].get(key) == number:
                del self.unique[place][key]

    def forget_keys(self, row: Row, number: int) -> None:
        self._forget_keys(row, number, len(self.unique))

    def _index(self, number: int, row: Row) -> None:
        for columns, index in self.equality.items():
            key = self.equality_keys[columns](row)
            if key is not None:
                index.setdefault(key, {})[number] = None

    def _unindex(self, number: int, row: Row) -> None:
        for columns, index in self.equality.items():
            key = self.equality_keys[columns](row)
            if key is not None:
                del index[key][number]

    # Taking back

    def take_back(self, number: int, before: Row | None, after: Row | None) -> bool:
        """Whether rows are out of order now."""
        if after is not None:
            self._forget_keys(after, number, len(self.unique))
            if self.equality:
                self._unindex(number, after)
        if before is None:
            del self.rows[number]
            return False
        again = after is None
        self.rows[number] = before
        if self.equality:
            self._index(number, before)
        return again

    def restore_keys(self, number: int, row: Row) -> None:
        for place, key in enumerate(self.info.unique_keys):
            found = key(row)
            if found is not None:
                self.unique[place][found] = number

    def restore_order(self) -> None:
        self.rows = dict(sorted(self.rows.items()))


def take_back(tables: list[TableData], undo: Undo, mark: int) -> None:
    """All changes after the mark, the newest first. Row numbers and counters of generated ids are not given back."""
    unordered: set[int] = set()
    touched: list[tuple[int, int]] = []
    while len(undo) > mark:
        table, number, before, after = undo.pop()
        if tables[table].take_back(number, before, after):
            unordered.add(table)
        if before is not None:
            touched.append((table, number))
    # Keys come back when all rows are back: on the way two rows may hold one key.
    for table, number in touched:
        row = tables[table].rows.get(number)
        if row is not None:
            tables[table].restore_keys(number, row)
    for table in unordered:
        tables[table].restore_order()
