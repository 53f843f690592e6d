"""Types of values, as the dialects tell them apart."""

from __future__ import annotations

from enum import StrEnum

from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.core.immutable import node


class Sort(StrEnum):
    """What a value is. ``NULL`` and ``UNKNOWN`` (a text of PostgreSQL that has no type yet) take the type of what they meet."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    TEXT = "text"
    DATE = "date"
    TIMESTAMP = "timestamp"
    ZONED = "timestamp with time zone"
    NULL = "null"
    UNKNOWN = "unknown"
    ANY = "any"
    """SQLite: the value itself says what it is."""
    ROW = "row"
    ROWS = "rows"


class Affinity(StrEnum):
    """The conversion that a column of SQLite prefers for what it stores and is compared with."""

    INTEGER = "integer"
    REAL = "real"
    NUMERIC = "numeric"
    TEXT = "text"


@node(frozen=True, slots=True)
class ValueType:
    """A type of values; ``bits``, ``unsigned`` and ``scale`` as the dialect tracks them, ``columns`` those of a row.

    ``digits``: how many digits before the point MySQL keeps room for, where a column, a cast or a literal tells.
    ``unconvertible``: a value that the database converts to a text or a number by rules of its own; the conversion is refused
    under this name.
    """

    sort: Sort
    bits: int = 64
    unsigned: bool = False
    scale: int = 0
    affinity: Affinity | None = None
    columns: tuple[tuple[str, ValueType], ...] = ()
    unconvertible: str = ""
    digits: int | None = None

    def __str__(self) -> str:
        if self.sort is Sort.INTEGER:
            return {16: "smallint", 32: "integer", 64: "bigint"}.get(self.bits, "integer")
        return self.sort.value


BOOLEAN = ValueType(Sort.BOOLEAN)
INTEGER = ValueType(Sort.INTEGER, bits=32)
BIGINT = ValueType(Sort.INTEGER, bits=64)
UNSIGNED = ValueType(Sort.INTEGER, bits=64, unsigned=True)
DECIMAL = ValueType(Sort.DECIMAL)
FLOAT = ValueType(Sort.FLOAT)
TEXT = ValueType(Sort.TEXT)
DATE = ValueType(Sort.DATE)
TIMESTAMP = ValueType(Sort.TIMESTAMP)
ZONED = ValueType(Sort.ZONED)
NULL = ValueType(Sort.NULL)
UNKNOWN = ValueType(Sort.UNKNOWN)
ANY = ValueType(Sort.ANY)

NUMBERS = frozenset({Sort.INTEGER, Sort.DECIMAL, Sort.FLOAT})
TIMES = (Sort.DATE, Sort.TIMESTAMP, Sort.ZONED)
"""Each can be taken for the next."""
UNTYPED = frozenset({Sort.NULL, Sort.UNKNOWN})


def row_of(columns: tuple[tuple[str, ValueType], ...]) -> ValueType:
    return ValueType(Sort.ROW, columns=columns)


def rows_of(columns: tuple[tuple[str, ValueType], ...]) -> ValueType:
    return ValueType(Sort.ROWS, columns=columns)


def type_error(reason: str) -> ExecutionError:
    """The statement is wrong by its types: a database refuses it before it looks at rows."""
    return ExecutionError("type", reason)


def outside(what: str, instead: str = "") -> OutsideFragment:
    return OutsideFragment("statement", what, instead)
