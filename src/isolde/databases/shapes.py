"""Shapes of the private table: what else it has beside one key and one value, and how its values are written.

Databases treat an update of an indexed column, of one column among several, of a list, of a primary key, or of a row that others
refer to in other ways than a plain one, and each way has had bugs of its own. A *shape* says what the table is like. Keys of a
history stay integers: ``Places`` says in which table, row and column each of them lives. With several shapes, key after key goes
to the next of them, so that one transaction touches tables of different shapes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import NamedTuple

from isolde.errors import UsageError


class WriteForm(StrEnum):
    """How a value is written: by the statement of this name."""

    UPDATE = "update"
    UPSERT = "upsert"
    """``INSERT … ON CONFLICT DO UPDATE``, or what the database has instead."""
    DELETE_INSERT = "delete-insert"
    """The row is deleted and inserted again by one transaction."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A table of so many value columns. The other fields each add something that databases treat in a way of their own."""

    columns: int = 1
    index: bool = False
    """An index on every value column."""
    unique: bool = False
    """A unique index on the key together with each value column."""
    list_column: bool = False
    """Values are kept in lists of one element, or as text where the database has no lists."""
    key_updates: bool = False
    """Each write gives the row another primary key; it is found by a second, unique key."""
    foreign_key: bool = False
    """Every second write adds a row to another table that refers to the one written."""
    writes: WriteForm = WriteForm.UPDATE

    def __post_init__(self) -> None:
        if self.columns > 1 and self.writes is WriteForm.DELETE_INSERT:
            raise UsageError("--write-form delete-insert would write every column of a row; it goes with one column")

    def __str__(self) -> str:
        """In the words of the command line: ``columns 3, index``."""
        parts = [f"columns {self.columns}"] if self.columns > 1 else []
        for field in fields(self):
            if getattr(self, field.name) is True:
                parts.append(field.name.replace("_", "-"))
        if self.writes is not WriteForm.UPDATE:
            parts.append(self.writes.value)
        return ", ".join(parts) or "plain"


PLAIN = Shape()
SHAPES = (
    PLAIN,
    Shape(columns=3),
    Shape(index=True),
    Shape(columns=2, index=True),
    Shape(unique=True),
    Shape(list_column=True),
    Shape(columns=2, list_column=True),
    Shape(key_updates=True),
    Shape(foreign_key=True),
    Shape(writes=WriteForm.UPSERT),
    Shape(index=True, writes=WriteForm.UPSERT),
    Shape(writes=WriteForm.DELETE_INSERT),
    Shape(unique=True, writes=WriteForm.DELETE_INSERT),
)
"""What ``--shapes all`` goes through."""


class Place(NamedTuple):
    """Where a key lives: the number of its table, its row and its column there."""

    table: int
    row: int
    column: int


@dataclass(frozen=True, slots=True)
class Places:
    """Which key lives where: with two shapes, one of them of three columns, the keys 0, 2 and 4 share a row of the first table.

    >>> places = Places((Shape(columns=3), PLAIN))
    >>> [tuple(places.of(key)) for key in (0, 1, 2, 3, 4, 6)]
    [(0, 0, 0), (1, 0, 0), (0, 0, 1), (1, 1, 0), (0, 0, 2), (0, 1, 0)]
    >>> places.row_mates(2)
    [0, 4]
    """

    shapes: tuple[Shape, ...]

    def of(self, key: int) -> Place:
        number, table = divmod(key, len(self.shapes))
        row, column = divmod(number, self.shapes[table].columns)
        return Place(table, row, column)

    def row_mates(self, key: int) -> list[int]:
        """The keys that are other columns of the same row."""
        place = self.of(key)
        columns = self.shapes[place.table].columns
        first = place.row * columns
        return [
            (first + column) * len(self.shapes) + place.table for column in range(columns) if column != place.column
        ]

    def rows(self, table: int, keys: int) -> int:
        """How many rows of a table the first so many keys need."""
        here = len(range(table, keys, len(self.shapes)))
        return -(-here // self.shapes[table].columns)
