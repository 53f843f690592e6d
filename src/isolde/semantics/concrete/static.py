"""What is known of a value before it is computed: its type in the dialect, and the Python text that computes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from isolde.errors import ExecutionError
from isolde.tx.expressions import Constant


class Sort(StrEnum):
    """What a value is. ``NULL`` and ``UNKNOWN`` (a text of PostgreSQL that has no type yet) take the type of what they meet."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    TEXT = "text"
    TIMESTAMP = "timestamp"
    NULL = "null"
    UNKNOWN = "unknown"
    ANY = "any"
    ROW = "row"
    ROWS = "rows"


class Affinity(StrEnum):
    """What a column of SQLite would like to hold."""

    INTEGER = "integer"
    REAL = "real"
    NUMERIC = "numeric"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Static:
    """A type of values; ``bits``, ``unsigned`` and ``scale`` as the dialect tracks them, ``columns`` those of a row.

    ``digits``: those before the point that MySQL keeps room for. ``odd``: what a database converts to a text, or to a
    number, in a way of its own; the conversion is refused by this name.
    """

    sort: Sort
    bits: int = 64
    unsigned: bool = False
    scale: int = 0
    affinity: Affinity | None = None
    columns: tuple[tuple[str, Static], ...] = ()
    odd: str = ""
    digits: int | None = None

    def __str__(self) -> str:
        return (
            {16: "smallint", 32: "integer", 64: "bigint"}[self.bits] if self.sort is Sort.INTEGER else self.sort.value
        )


BOOLEAN = Static(Sort.BOOLEAN)
INTEGER = Static(Sort.INTEGER, bits=32)
BIGINT = Static(Sort.INTEGER, bits=64)
UNSIGNED = Static(Sort.INTEGER, bits=64, unsigned=True)
DECIMAL = Static(Sort.DECIMAL)
FLOAT = Static(Sort.FLOAT)
TEXT = Static(Sort.TEXT)
TIMESTAMP = Static(Sort.TIMESTAMP)
NULL = Static(Sort.NULL)
UNKNOWN = Static(Sort.UNKNOWN)
ANY = Static(Sort.ANY)

WIDE = 16
"""From so many digits after its first one on, a decimal that is given has a type of its own."""
NUMBERS = frozenset({Sort.INTEGER, Sort.DECIMAL, Sort.FLOAT})


def row_of(columns: tuple[tuple[str, Static], ...]) -> Static:
    return Static(Sort.ROW, columns=columns)


def rows_of(columns: tuple[tuple[str, Static], ...]) -> Static:
    return Static(Sort.ROWS, columns=columns)


@dataclass(frozen=True, slots=True)
class Constness:
    """A value that is known when the statement is compiled."""

    value: Constant


@dataclass(frozen=True, slots=True)
class Code:
    """Python text that computes a value, and the value's type. ``column``: it is a column as stored, not null if ``solid``."""

    text: str
    type: Static
    constant: Constness | None = None
    column: bool = False
    solid: bool = False

    def typed(self, type_: Static) -> Code:
        return replace(self, type=type_)


class Namespace:
    """The names that generated code may use: helpers by their own name, everything else numbered.

    A variable's own name may be any text (``DECLARE "x = 0; …" INT``), so it never becomes part of the code.
    """

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self._variables: dict[str, str] = {}
        self._cursors: dict[str, str] = {}
        self._by_id: dict[int, str] = {}
        self._fresh = 0

    def fresh(self, stem: str) -> str:
        self._fresh += 1
        return f"{stem}{self._fresh}"

    def variable(self, name: str) -> str:
        """What the variable of this name is called in the code."""
        if name not in self._variables:
            self._variables[name] = self.fresh("v")
        return self._variables[name]

    def cursor(self, name: str) -> str:
        """What the cursor of this name is called in the code."""
        if name not in self._cursors:
            self._cursors[name] = self.fresh("c")
        return self._cursors[name]

    def ref(self, thing: Any) -> str:
        """A name for a function or an object; the same thing has one name."""
        name = self._by_id.get(id(thing))
        if name is None:
            stem = getattr(thing, "__name__", "constant")
            name = self.fresh(f"{stem if stem.isidentifier() else 'function'}_")
            self.names[name] = thing
            self._by_id[id(thing)] = name
        return name

    def call(self, function: Any, *arguments: str) -> str:
        return f"{self.ref(function)}({', '.join(arguments)})"

    def constant(self, value: Constant) -> str:
        if value is None or isinstance(value, bool):
            return repr(value)
        if isinstance(value, int) or (isinstance(value, str) and len(value) < 200):
            return repr(value) if not isinstance(value, int) or value >= 0 else f"({value!r})"
        name = self.fresh("constant_")
        self.names[name] = value
        return name


def type_error(reason: str) -> ExecutionError:
    return ExecutionError("type", reason)
