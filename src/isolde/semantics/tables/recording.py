"""A view that notes what is asked of it: by what rows are looked for, which come back, which are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from isolde.semantics.tables.view import Numbered, Row, TableView


@dataclass(frozen=True, slots=True)
class Sought:
    """Rows of a table that were looked for: those with this key in these columns, or all (no columns)."""

    table: int
    columns: tuple[int, ...]
    key: Any


@dataclass(slots=True)
class Recorder:
    """What the views of one statement or transaction saw, in order."""

    sought: list[Sought] = field(default_factory=list)
    read: list[tuple[int, int, Row]] = field(default_factory=list)
    """Table, number of the row, and the row itself."""
    written: list[tuple[int, int, Row | None, Row | None]] = field(default_factory=list)
    """Table, number of the row, the row before and after."""
    known: dict[tuple[int, int], Row | None] = field(default_factory=dict)
    """Rows as they were last read or written: a row is read before it is changed."""


class RecordingView:
    """Another view, watched."""

    __slots__ = ("ids", "info", "recorder", "view")

    def __init__(self, view: TableView, recorder: Recorder) -> None:
        self.view, self.recorder = view, recorder
        self.info, self.ids = view.info, view.ids

    def all(self) -> list[Numbered]:
        return self._seen(Sought(self.info.position, (), None), list(self.view.all()))

    def by_key(self, unique: int, key: Any) -> Sequence[Numbered]:
        return self._seen(
            Sought(self.info.position, self.info.uniques[unique], key), list(self.view.by_key(unique, key))
        )

    def by_equal(self, columns: tuple[int, ...], key: Any) -> Sequence[Numbered]:
        return self._seen(Sought(self.info.position, columns, key), list(self.view.by_equal(columns, key)))

    def _seen(self, sought: Sought, rows: list[Numbered]) -> list[Numbered]:
        self.recorder.sought.append(sought)
        for number, row in rows:
            self.recorder.read.append((self.info.position, number, row))
            self.recorder.known[self.info.position, number] = row
        return rows

    def put(self, number: int | None, row: Row | None, same_keys: bool = False) -> int:
        given = self.view.put(number, row, same_keys)
        place = (self.info.position, given)
        self.recorder.written.append((*place, self.recorder.known.get(place), row))
        self.recorder.known[place] = row
        return given

    def restore(self, number: int, before: Any) -> None:
        self.view.restore(number, before)
