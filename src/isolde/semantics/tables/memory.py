"""Rows in memory: by number, with an index for each unique key and, when first asked for, for equal columns and for ranges."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from math import inf
from typing import Any

from isolde.semantics.core.catalog import Catalog, Key, TableInfo
from isolde.semantics.tables.view import IdCounter, Numbered, Row, Undo


class MemoryTable:
    """A ``TableView`` that holds the rows itself. ``log`` gets the row that every change replaced."""

    __slots__ = (
        "_unordered",
        "catalog",
        "equality",
        "equality_keys",
        "ids",
        "info",
        "log",
        "next_number",
        "ranges",
        "rows",
        "unique",
    )

    def __init__(self, info: TableInfo, catalog: Catalog, log: Undo) -> None:
        self.info = info
        self.catalog = catalog
        self.log = log
        self.ids = IdCounter()
        self.rows: dict[int, Row] = {}
        self.unique: list[dict[Any, int]] = [{} for _ in info.uniques]
        self.equality: dict[tuple[int, ...], dict[Any, dict[int, None]]] = {}
        self.equality_keys: dict[tuple[int, ...], Key] = {}
        self.ranges: dict[int, list[tuple[Any, int]]] = {}
        self.next_number = 0
        self._unordered = False

    def clone(self, log: Undo) -> MemoryTable:
        twin = MemoryTable(self.info, self.catalog, log)
        twin.rows = dict(self.all())
        twin.unique = [index.copy() for index in self.unique]
        twin.next_number = self.next_number
        twin.ids = IdCounter(self.ids.next, self.ids.uncertain)
        return twin

    # Asking

    def all(self) -> Iterable[Numbered]:
        if self._unordered:
            self.rows = dict(sorted(self.rows.items()))
            self._unordered = False
        return self.rows.items()

    def by_key(self, unique: int, key: Any) -> tuple[Numbered, ...]:
        number = self.unique[unique].get(key)
        return () if number is None else ((number, self.rows[number]),)

    def by_equal(self, columns: tuple[int, ...], key: Any) -> list[Numbered]:
        index = self.equality.get(columns)
        if index is None:
            index = self._indexed(columns)
        found = index.get(key)
        if not found:
            return []
        rows = self.rows
        return [(number, rows[number]) for number in sorted(found)]

    def _indexed(self, columns: tuple[int, ...]) -> dict[Any, dict[int, None]]:
        key = self.catalog.key(self.info.table, columns)
        index: dict[Any, dict[int, None]] = {}
        for number, row in self.rows.items():
            found = key(row)
            if found is not None:
                index.setdefault(found, {})[number] = None
        self.equality[columns] = index
        self.equality_keys[columns] = key
        return index

    def between(self, column: int, low: Any, high: Any) -> list[Numbered]:
        """At least the rows with a column of whole numbers from ``low`` to ``high``; ``None``: from or to anywhere."""
        index = self.ranges.get(column)
        if index is None:
            cells = [(row[column], number) for number, row in self.rows.items() if row[column] is not None]
            index = self.ranges[column] = sorted(cells)
        start = 0 if low is None else bisect_left(index, (low,))
        end = len(index) if high is None else bisect_right(index, (high, inf))
        rows = self.rows
        return [(number, rows[number]) for number in sorted([number for _, number in index[start:end]])]

    # Changing

    def put(self, number: int | None, row: Row | None, same_keys: bool = False) -> int:
        if number is None:
            number = self.next_number
            self.next_number = number + 1
            before = None
        else:
            before = self.rows[number]
        self.log.append((self, number, before))
        if same_keys and row is not None and not self.equality and not self.ranges:
            self.rows[number] = row
        else:
            self._replace(number, before, row)
        return number

    def _replace(self, number: int, before: Row | None, row: Row | None) -> None:
        for index, key in zip(self.unique, self.info.unique_keys, strict=True):
            old = None if before is None else key(before)
            new = None if row is None else key(row)
            if old == new:
                continue
            # On the way through a statement two rows may hold one key: the index has the one that took it last.
            if old is not None and index.get(old) == number:
                del index[old]
            if new is not None:
                index[new] = number
        if self.equality:
            self._reindex(number, before, row)
        for column, places in self.ranges.items():
            old = None if before is None else before[column]
            new = None if row is None else row[column]
            if old != new:
                if old is not None:
                    del places[bisect_left(places, (old, number))]
                if new is not None:
                    insort(places, (new, number))
        if row is None:
            del self.rows[number]
        else:
            self.rows[number] = row

    def _reindex(self, number: int, before: Row | None, row: Row | None) -> None:
        for columns, index in self.equality.items():
            key = self.equality_keys[columns]
            old = None if before is None else key(before)
            new = None if row is None else key(row)
            if old == new:
                continue
            if old is not None:
                del index[old][number]
            if new is not None:
                index.setdefault(new, {})[number] = None

    def restore(self, number: int, before: Row | None) -> None:
        current = self.rows.get(number)
        self._replace(number, current, before)
        self._unordered = self._unordered or (current is None and before is not None)
