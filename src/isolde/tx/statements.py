"""Statements that a database executes: queries and changes of tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from isolde.tx.expressions import Expression
from isolde.tx.place import Place
from isolde.tx.queries import Item, Select, Star


class InsertMode(StrEnum):
    """What becomes of rows that cannot be inserted as they are."""

    PLAIN = "insert"
    REPLACE = "replace"
    """Rows that hold a key of the new one are deleted first: MySQL, SQLite."""
    IGNORE = "insert ignore"
    """MySQL's and SQLite's: a row in conflict is left out, and MySQL bends values to the column's type."""


@dataclass(frozen=True, slots=True)
class Default:
    """The column's own default, in place of a value."""


@dataclass(frozen=True, slots=True)
class Assignment:
    column: str
    value: Expression | Default


@dataclass(frozen=True, slots=True)
class OnConflict:
    """What an insert does where a key is taken.

    ``columns`` names the key (PostgreSQL, SQLite); empty means any (MySQL). With no assignments the row is left out. In
    assignments, ``excluded.c`` is the value that was to be inserted (MySQL's ``VALUES(c)`` is read as that), a plain ``c`` the
    row's own.
    """

    columns: tuple[str, ...]
    assignments: tuple[Assignment, ...]
    where: Expression | None = None


@dataclass(frozen=True, slots=True)
class Insert:
    """``columns`` empty means all, in the table's order.

    ``source`` is rows of values or a query; a row of no values is all defaults.
    """

    table: str
    columns: tuple[str, ...]
    source: tuple[tuple[Expression | Default, ...], ...] | Select
    on_conflict: OnConflict | None = None
    returning: tuple[Item | Star, ...] = ()
    mode: InsertMode = InsertMode.PLAIN
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Update:
    """All assignments see the old row, but in MySQL, where each sees what those before it assigned."""

    table: str
    assignments: tuple[Assignment, ...]
    where: Expression | None = None
    alias: str | None = None
    returning: tuple[Item | Star, ...] = ()
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Delete:
    table: str
    where: Expression | None = None
    alias: str | None = None
    returning: tuple[Item | Star, ...] = ()
    place: Place | None = field(default=None, compare=False)


Change = Insert | Update | Delete
Statement = Select | Insert | Update | Delete
