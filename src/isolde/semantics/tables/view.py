"""What a statement can ask of a table, and do to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from isolde.semantics.core.catalog import TableInfo

Row = tuple[Any, ...]
Numbered = tuple[int, Row]
"""A row and its number. The number stays the row's as long as the row is there, whatever becomes of its columns."""


@dataclass(slots=True)
class IdCounter:
    """Where generated ids come from. No rollback gives one back, and all views of a table share it.

    ``uncertain``: how many ids a failed statement took depends on the database's plan, so that the next id is unknown.
    """

    next: int = 1
    uncertain: bool = False


class TableView(Protocol):
    """A table in some state. Rows never change: a changed row is another tuple under the same number.

    Rows come in the order of their numbers. Constraints are not the view's matter.
    """

    info: TableInfo
    ids: IdCounter

    def all(self) -> Iterable[Numbered]:
        """Every row."""

    def by_key(self, unique: int, key: Any) -> Sequence[Numbered]:
        """The row whose unique key (by its place in ``info.uniques``) this is; none for a null."""

    def by_equal(self, columns: tuple[int, ...], key: Any) -> Sequence[Numbered]:
        """The rows whose columns have this key; none for a null."""

    def put(self, number: int | None, row: Row | None, same_keys: bool = False) -> int:
        """Adds a row (no number), replaces one, or deletes it (no row); its number.

        ``same_keys``: the new row has the unique keys of the one that it replaces.
        """

    def restore(self, number: int, before: Any) -> None:
        """Takes one change back; ``before`` is what the view itself put into the log for it."""


Undo = list[tuple[TableView, int, Any]]
"""The changes of a transaction, the newest last: view, number of the row, and what the view needs to take it back."""


def take_back(log: Undo, mark: int) -> None:
    """All changes after the mark, the newest first. Numbers of rows and generated ids are not given back."""
    while len(log) > mark:
        table, number, before = log.pop()
        table.restore(number, before)
