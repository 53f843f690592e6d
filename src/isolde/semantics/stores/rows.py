"""The rows of a table as values: a state of a table is never changed, so that a snapshot of it costs nothing.

Every row carries the transaction that wrote it, by which a version is told from a later one with the same columns. States can
be compared and hashed: an exploration meets the same one on many ways.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from isolde.semantics.core.catalog import Catalog, Key, TableInfo
from isolde.semantics.stores.indexes import Entries, Index
from isolde.semantics.tables.view import IdCounter, Numbered, Row


class TransactionId(NamedTuple):
    """A transaction by its session and its place among the session's transactions, from 0."""

    session: str
    number: int


class Version(NamedTuple):
    """A row, and the transaction that wrote it; ``None``: it was there from the beginning."""

    row: Row
    by: TransactionId | None


Changes = Mapping[int, Version | None]
"""Rows by number as a transaction left them; ``None``: deleted."""


class Rows:
    """The committed rows of a table, by number."""

    __slots__ = ("_catalog", "_entries", "_hash", "_indexes", "info", "versions")

    def __init__(self, info: TableInfo, catalog: Catalog, versions: dict[int, Version]) -> None:
        self.info, self.versions = info, versions
        self._catalog = catalog
        self._indexes: dict[tuple[int, ...], dict[Any, list[int]]] = {}
        self._entries: dict[int, Entries] = {}
        self._hash: int | None = None

    def changed(self, changes: Changes) -> Rows:
        versions = dict(self.versions)
        # The hash is a sum over rows, so that of a large table only what changed is hashed again.
        mark = hash(self)
        for number, version in changes.items():
            before = versions.pop(number, None)
            if before is not None:
                mark ^= hash((number, before))
            if version is not None:
                versions[number] = version
                mark ^= hash((number, version))
        after = Rows(self.info, self._catalog, versions)
        after._hash = mark
        # So are indexes: entries of rows that did not change are shared.
        after._indexes = {columns: self._reindexed(columns, index, changes) for columns, index in self._indexes.items()}
        if self._entries:
            moved = [(number, self.versions.get(number), version) for number, version in changes.items()]
            after._entries = {place: entries.changed(moved) for place, entries in self._entries.items()}
        return after

    def entries(self, index: Index) -> Entries:
        """The entries of an index over these rows."""
        found = self._entries.get(index.place)
        if found is None:
            found = self._entries[index.place] = Entries(index, self.versions.items())
        return found

    def _reindexed(
        self, columns: tuple[int, ...], index: dict[Any, list[int]], changes: Changes
    ) -> dict[Any, list[int]]:
        key_of = self._catalog.key(self.info.table, columns)
        found: dict[Any, list[int]] | None = None
        for number, version in changes.items():
            before = self.versions.get(number)
            old = None if before is None else key_of(before.row)
            new = None if version is None else key_of(version.row)
            if old == new:
                continue
            if found is None:
                found = dict(index)
            if old is not None:
                found[old] = [one for one in found[old] if one != number]
            if new is not None:
                found[new] = [*found.get(new, ()), number]
        return index if found is None else found

    def having(self, columns: tuple[int, ...], key: Any) -> Sequence[int]:
        """The numbers of the rows that have this key in these columns."""
        index = self._indexes.get(columns)
        if index is None:
            key_of = self._catalog.key(self.info.table, columns)
            index = self._indexes[columns] = {}
            for number, (row, _) in self.versions.items():
                found = key_of(row)
                if found is not None:
                    index.setdefault(found, []).append(number)
        return index.get(key, ())

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Rows) or hash(self) != hash(other):
            return False
        # Python says that 1 == True == 1.0: a column has one type, so that rows of one table are told apart by ``==``.
        return self.info is other.info and self.versions == other.versions

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = self.info.position
            for entry in self.versions.items():
                self._hash ^= hash(entry)
        return self._hash


class View:
    """A ``TableView`` for statements to read: committed rows, and over them the changes of one or more transactions.

    Nothing is ever put into it: statements change rows through the requests that they make.
    """

    __slots__ = ("_catalog", "base", "ids", "info", "over")

    def __init__(self, base: Rows, over: Changes, catalog: Catalog) -> None:
        self.base, self.over, self.info = base, over, base.info
        self._catalog = catalog
        self.ids = IdCounter()

    def key_of(self, columns: tuple[int, ...]) -> Key:
        return self._catalog.key(self.info.table, columns)

    def version(self, number: int) -> Version | None:
        return self.over[number] if number in self.over else self.base.versions.get(number)

    def all(self) -> Iterator[Numbered]:
        for number in sorted({*self.base.versions, *self.over} if self.over else self.base.versions):
            version = self.version(number)
            if version is not None:
                yield number, version.row

    def by_key(self, unique: int, key: Any) -> Sequence[Numbered]:
        return self.by_equal(self.info.uniques[unique], key)

    def by_equal(self, columns: tuple[int, ...], key: Any) -> Sequence[Numbered]:
        if key is None:
            return []
        found = [
            (number, self.base.versions[number].row)
            for number in self.base.having(columns, key)
            if number not in self.over
        ]
        if self.over:
            key_of = self._catalog.key(self.info.table, columns)
            found += [
                (number, version.row)
                for number, version in self.over.items()
                if version is not None and key_of(version.row) == key
            ]
        return sorted(found)

    def put(self, number: int | None, row: Row | None, same_keys: bool = False) -> int:  # noqa: ARG002
        raise AssertionError("a statement of a store model changes rows through its requests")

    def restore(self, number: int, before: Any) -> None:  # noqa: ARG002
        raise AssertionError("a view of a store model has nothing to take back")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, View) and self.base == other.base and self.over == other.over

    def __hash__(self) -> int:
        return hash((self.base, frozenset(self.over.items())))


def overlaid(changes: Iterable[Changes]) -> dict[int, Version | None]:
    """The changes of several transactions, which are of different rows, as one."""
    found: dict[int, Version | None] = {}
    for one in changes:
        found.update(one)
    return found
