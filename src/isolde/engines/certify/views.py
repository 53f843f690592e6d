"""Tables as one statement saw them: a state that all share, with what differs for the statement on top."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from isolde.semantics.core.catalog import Catalog, TableInfo
from isolde.semantics.tables.memory import MemoryTable
from isolde.semantics.tables.view import IdCounter, Numbered, Row, Undo

_MISSING = object()
Numbering = Callable[[int, Row], int]
"""The number of the object that a row of a table is, by its primary key."""


class Overlay:
    """A ``TableView``: a shared table, and ``changes`` of it by number (``None``: there is no such row). Own writes go there."""

    __slots__ = ("_base", "_catalog", "_keys", "_log", "_numbering", "changes", "ids", "info")

    def __init__(
        self, base: MemoryTable, catalog: Catalog, changes: dict[int, Row | None], log: Undo, numbering: Numbering
    ) -> None:
        self._base, self._catalog, self.changes, self._log, self._numbering = base, catalog, changes, log, numbering
        self.info: TableInfo = base.info
        self.ids = IdCounter()
        self._keys: dict[tuple[int, ...], Callable[[Row], Any]] = {}

    def all(self) -> list[Numbered]:
        changes = self.changes
        if not changes:
            return list(self._base.all())
        kept = [pair for pair in self._base.all() if pair[0] not in changes]
        return kept + [(number, row) for number, row in changes.items() if row is not None]

    def by_key(self, unique: int, key: Any) -> Sequence[Numbered]:
        if key is None:
            return ()
        changes = self.changes
        found = [pair for pair in self._base.by_key(unique, key) if pair[0] not in changes]
        key_of = self.info.unique_keys[unique]
        return found + [(number, row) for number, row in changes.items() if row is not None and key_of(row) == key]

    def by_equal(self, columns: tuple[int, ...], key: Any) -> Sequence[Numbered]:
        if key is None:
            return ()
        changes = self.changes
        found = [pair for pair in self._base.by_equal(columns, key) if pair[0] not in changes]
        if not changes:
            return found
        key_of = self._keys.get(columns)
        if key_of is None:
            key_of = self._keys[columns] = self._catalog.key(self.info.table, columns)
        return found + [(number, row) for number, row in changes.items() if row is not None and key_of(row) == key]

    def between(self, column: int, low: Any, high: Any) -> Sequence[Numbered]:
        changes = self.changes
        found = [pair for pair in self._base.between(column, low, high) if pair[0] not in changes]
        return found + [(number, row) for number, row in changes.items() if row is not None]

    def shared_row(self, number: int) -> Row | None:
        """The row as the shared table has it."""
        return self._base.rows.get(number)

    def put(self, number: int | None, row: Row | None, same_keys: bool = False) -> int:  # noqa: ARG002
        if number is None:
            assert row is not None
            number = self._numbering(self.info.position, row)
        self._log.append((self, number, self.changes.get(number, _MISSING)))
        self.changes[number] = row
        return number

    def restore(self, number: int, before: Any) -> None:
        if before is _MISSING:
            del self.changes[number]
        else:
            self.changes[number] = before


class Few:
    """A ``TableView`` of the rows that a statement of one table matched: all that it can find."""

    __slots__ = ("_log", "ids", "info", "rows")

    def __init__(self, info: TableInfo, rows: Sequence[Numbered], log: Undo) -> None:
        self.info, self._log = info, log
        self.ids = IdCounter()
        self.rows: dict[int, Row | None] = dict(rows)

    def all(self) -> list[Numbered]:
        return [(number, row) for number, row in self.rows.items() if row is not None]

    def by_key(self, unique: int, key: Any) -> Sequence[Numbered]:
        key_of = self.info.unique_keys[unique]
        return [pair for pair in self.all() if key_of(pair[1]) == key]

    def by_equal(self, columns: tuple[int, ...], key: Any) -> Sequence[Numbered]:  # noqa: ARG002
        return self.all()

    def put(self, number: int | None, row: Row | None, same_keys: bool = False) -> int:  # noqa: ARG002
        assert number is not None, "nothing is inserted into what a statement matched"
        self._log.append((self, number, self.rows.get(number, _MISSING)))
        self.rows[number] = row
        return number

    def restore(self, number: int, before: Any) -> None:
        if before is _MISSING:
            del self.rows[number]
        else:
            self.rows[number] = before


class WithNumbers:
    """A ``TableView`` whose rows carry their number behind their last column; it is only looked at."""

    __slots__ = ("_view", "ids", "info")

    def __init__(self, view: Any) -> None:
        self._view, self.info, self.ids = view, view.info, view.ids

    def all(self) -> list[Numbered]:
        return [(number, (*row, number)) for number, row in self._view.all()]

    def by_key(self, unique: int, key: Any) -> Sequence[Numbered]:
        return [(number, (*row, number)) for number, row in self._view.by_key(unique, key)]

    def by_equal(self, columns: tuple[int, ...], key: Any) -> Sequence[Numbered]:
        return [(number, (*row, number)) for number, row in self._view.by_equal(columns, key)]

    def between(self, column: int, low: Any, high: Any) -> Sequence[Numbered]:
        return [(number, (*row, number)) for number, row in self._view.between(column, low, high)]

    def put(self, number: int | None, row: Row | None, same_keys: bool = False) -> int:  # noqa: ARG002
        raise AssertionError("a view that is only looked at is written to")

    def restore(self, number: int, before: Any) -> None:  # noqa: ARG002
        raise AssertionError("a view that is only looked at is written to")
