"""Generated ids of an INSERT, as each dialect draws them."""

from __future__ import annotations

from isolde.errors import ExecutionError
from isolde.semantics.core.dialects import IdSource
from isolde.semantics.core.types import outside
from isolde.semantics.tables.view import Row, TableView


class Ids:
    """Generated ids of one INSERT. Those that are reserved (MySQL) are as many as there are rows, or 1, 2, 4, … if it does not
    know. ``known`` is the number of rows, if the statement tells.
    """

    def __init__(self, source: IdSource, table: TableView, known: int | None) -> None:
        self.table, self.source, self.known = table, source, known
        self.place = table.info.generated
        self.left = 0
        self.size = 1
        self.row = -1
        self.first: int | None = None
        self.next = 0
        self.took = False

    def filled(self, row: Row) -> Row:
        if self.place is None or self.source is IdSource.SEQUENCE:
            return row
        self.took = False
        self.row += 1
        if self.draws(row):
            value = self._largest() + 1 if self.source is IdSource.LARGEST else self._reserved()
            return (*row[: self.place], value, *row[self.place + 1 :])
        if self.source is IdSource.LARGEST and not isinstance(row[self.place], int):
            raise ExecutionError("conversion", "datatype mismatch")
        return row

    def draws(self, row: Row) -> bool:
        """Whether the row is to get an id: its column has a null, or in MySQL a zero."""
        value = row[self.place] if self.place is not None else 1
        return value is None or (value == 0 and self.source is IdSource.RESERVED)

    def imagined(self, row: Row) -> Row:
        """The row with some id, if it is to get one: nothing is drawn for it."""
        return row if self.place is None or row[self.place] else (*row[: self.place], 1, *row[self.place + 1 :])

    def _largest(self) -> int:
        assert self.place is not None
        return max((row[self.place] for _, row in self.table.all()), default=0)

    def _reserved(self) -> int:
        if self.table.ids.uncertain:
            raise outside(
                f"a generated id of {self.table.info.table.name} after a statement that failed half-way in MySQL",
                "how far it came, and how many ids it took, depends on the order in which it went through the rows",
            )
        if self.left == 0:
            self.first = self.row if self.first is None else self.first
            self.left = max(self.known - (self.row - self.first), 1) if self.known else self.size
            self.size *= 2
            self.next = self.table.ids.next
            self.table.ids.next += self.left
        self.left -= 1
        value = self.next
        self.next += 1
        self.took = True
        return value

    def unused(self) -> None:
        """The row was not inserted: MySQL gives its id to the next one."""
        if self.took:
            self.left += 1
            self.next -= 1
            self.took = False

    def seen(self, row: Row) -> None:
        """MySQL's counter follows ids that were given, and so do those that are still reserved."""
        if self.place is None or self.source is not IdSource.RESERVED:
            return
        value = row[self.place]
        if value >= self.table.ids.next:
            self.table.ids.next = value + 1
        if self.left and value >= self.next:
            self.left = max(0, self.left - (value + 1 - self.next))
            self.next = value + 1
