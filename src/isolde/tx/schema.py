"""Tables: what can be stored, and what the database itself sees to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from isolde.tx.expressions import Expression
from isolde.tx.place import Place


class Kind(StrEnum):
    """What a column holds. Sizes do not change what a statement means, except for decimals, which are rounded to their scale."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    TEXT = "text"
    DATE = "date"
    TIMESTAMP = "timestamp"
    ZONED = "timestamp with time zone"


@dataclass(frozen=True, slots=True)
class Type:
    """A type. ``bits`` bounds integers (8 to 64; ``unsigned`` ones from 0), ``length`` texts; a float of 32 is single.

    ``fixed``: a text that is padded to its length, CHAR(n).
    ``precision`` and ``scale`` are a decimal's digits; the ``precision`` of a timestamp is digits of a second, ``None`` six.
    ``moment``: MySQL's TIMESTAMP, which is kept as seconds since 1970, in 32 bits.
    """

    kind: Kind
    bits: int | None = None
    unsigned: bool = False
    precision: int | None = None
    scale: int | None = None
    length: int | None = None
    fixed: bool = False
    moment: bool = False


BOOLEAN = Type(Kind.BOOLEAN)
INTEGER = Type(Kind.INTEGER, bits=32)
BIGINT = Type(Kind.INTEGER, bits=64)
FLOAT = Type(Kind.FLOAT)
TEXT = Type(Kind.TEXT)
DATE = Type(Kind.DATE)
TIMESTAMP = Type(Kind.TIMESTAMP)


def decimal(precision: int, scale: int) -> Type:
    return Type(Kind.DECIMAL, precision=precision, scale=scale)


@dataclass(frozen=True, slots=True)
class Column:
    """A column. A ``generated`` one gets a fresh integer where an insert names none."""

    name: str
    type: Type
    nullable: bool = True
    default: Expression | None = None
    generated: bool = False
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Every combination of ``columns`` without a null is there as ``references`` of ``table``. Nothing cascades."""

    columns: tuple[str, ...]
    table: str
    references: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """No row makes the condition false; unknown passes."""

    condition: Expression
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Index:
    """A plain index. It changes no answer; which rows a database locks for a predicate may depend on it."""

    columns: tuple[str, ...]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table; ``primary_key`` is empty if it has none. ``uniques`` come on top of it."""

    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    uniques: tuple[tuple[str, ...], ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    checks: tuple[Check, ...] = ()
    indexes: tuple[Index, ...] = ()
    place: Place | None = field(default=None, compare=False)

    def column(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)


@dataclass(frozen=True, slots=True)
class Schema:
    """Tables by name."""

    tables: Mapping[str, Table] = field(default_factory=lambda: MappingProxyType({}))

    @staticmethod
    def of(*tables: Table) -> Schema:
        return Schema(MappingProxyType({table.name: table for table in tables}))
