"""Rows with the commits that made and ended them: the state as of any commit, plus a transaction's own writes.

A commit is a number; later commits have greater ones. A view costs nothing to make: what it shows is looked up in the chains of
versions when it is asked for. Versions that no view can see any more are let go by ``forget``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from isolde.semantics.core.catalog import Catalog, Key, TableInfo
from isolde.semantics.tables.view import IdCounter, Numbered, Row, Undo

Version = tuple[int, Row | None]
"""The commit that made it, and the row; ``None``: the row was deleted."""
_NOT_WRITTEN = object()
"""Before a transaction's first write of a row."""


class VersionedTable:
    """All versions of a table's rows, each row's in the order of their commits."""

    def __init__(self, info: TableInfo, catalog: Catalog) -> None:
        self.info = info
        self.catalog = catalog
        self.ids = IdCounter()
        self.chains: dict[int, list[Version]] = {}
        self.next_number = 0
        self._places: dict[tuple[int, ...], dict[Any, dict[int, None]]] = {}
        self._keys: dict[tuple[int, ...], Key] = {}
        for unique in info.uniques:
            self._index(unique)

    def load(self, rows: list[Row], commit: int = 0) -> None:
        """Rows that are there from this commit on."""
        for row in rows:
            self.install(self.new_number(), row, commit)

    def new_number(self) -> int:
        self.next_number += 1
        return self.next_number - 1

    def view(self, commit: int, log: Undo | None = None) -> VersionView:
        """The table as the commit left it, for a transaction that has written nothing yet."""
        return VersionView(self, commit, [] if log is None else log)

    def install(self, number: int, row: Row | None, commit: int) -> None:
        """A new version of a row; ``None`` deletes it."""
        chain = self.chains.setdefault(number, [])
        if chain and chain[-1][0] > commit:
            raise ValueError(f"a version of commit {commit} comes after one of commit {chain[-1][0]}")
        chain.append((commit, row))
        if row is not None:
            for columns, index in self._places.items():
                key = self._keys[columns](row)
                if key is not None:
                    index.setdefault(key, {})[number] = None

    def visible(self, number: int, commit: int) -> Row | None:
        """The row as of a commit."""
        for made, row in reversed(self.chains.get(number, ())):
            if made <= commit:
                return row
        return None

    def version(self, number: int, commit: int) -> int | None:
        """The commit that made the version which is visible as of a commit; ``None`` if the row was not there yet."""
        for made, _ in reversed(self.chains.get(number, ())):
            if made <= commit:
                return made
        return None

    def candidates(self, columns: tuple[int, ...], key: Any) -> dict[int, None]:
        """The rows that have, or had, this key in these columns."""
        index = self._places.get(columns)
        if index is None:
            index = self._index(columns)
        return index.get(key, {})

    def _index(self, columns: tuple[int, ...]) -> dict[Any, dict[int, None]]:
        key = self._keys[columns] = self.catalog.key(self.info.table, columns)
        index: dict[Any, dict[int, None]] = {}
        for number, chain in self.chains.items():
            for _, row in chain:
                found = None if row is None else key(row)
                if found is not None:
                    index.setdefault(found, {})[number] = None
        self._places[columns] = index
        return index

    def forget(self, commit: int) -> None:
        """Lets go of every version that no view as of this commit, or of a later one, can see."""
        for number in list(self.chains):
            chain = self.chains[number]
            newest = max((place for place, (made, _) in enumerate(chain) if made <= commit), default=0)
            chain = chain[newest:]
            if len(chain) == 1 and chain[0][1] is None and chain[0][0] <= commit:
                del self.chains[number]
            else:
                self.chains[number] = chain
        self._places = {}
        for columns in list(self._keys):
            self._index(columns)

    def __len__(self) -> int:
        """How many versions are held."""
        return sum(map(len, self.chains.values()))


class VersionView:
    """A ``TableView``: the table as of a commit, with own writes over it. ``log`` gets what every own write replaced."""

    __slots__ = ("commit", "ids", "info", "log", "own", "table")

    def __init__(self, table: VersionedTable, commit: int, log: Undo) -> None:
        self.table = table
        self.info = table.info
        self.ids = table.ids
        self.commit = commit
        self.own: dict[int, Row | None] = {}
        self.log = log

    def all(self) -> Iterator[Numbered]:
        for number in sorted({*self.table.chains, *self.own}):
            row = self._row(number)
            if row is not None:
                yield number, row

    def by_key(self, unique: int, key: Any) -> list[Numbered]:
        return self.by_equal(self.info.uniques[unique], key)

    def by_equal(self, columns: tuple[int, ...], key: Any) -> list[Numbered]:
        if key is None:
            return []
        wanted = self.table.catalog.key(self.info.table, columns) if self.own else None
        numbers = dict(self.table.candidates(columns, key))
        if wanted is not None:
            numbers |= {number: None for number, row in self.own.items() if row is not None and wanted(row) == key}
        matches = self.table._keys[columns]
        return [
            (number, row)
            for number in sorted(numbers)
            if (row := self._row(number)) is not None and matches(row) == key
        ]

    def _row(self, number: int) -> Row | None:
        return self.own[number] if number in self.own else self.table.visible(number, self.commit)

    def put(self, number: int | None, row: Row | None, same_keys: bool = False) -> int:  # noqa: ARG002
        if number is None:
            number = self.table.new_number()
        self.log.append((self, number, self.own.get(number, _NOT_WRITTEN)))
        self.own[number] = row
        return number

    def restore(self, number: int, before: Any) -> None:
        if before is _NOT_WRITTEN:
            del self.own[number]
        else:
            self.own[number] = before

    def commit_at(self, commit: int) -> None:
        """Makes versions of the own writes."""
        for number, row in self.own.items():
            if row is not None or number in self.table.chains:
                self.table.install(number, row, commit)
        self.own = {}
