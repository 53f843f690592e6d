"""Expressions, with SQL's three-valued logic: frozen nodes in one closed union.

Names are resolved where an expression is read, not here: ``Name("x")`` may be a column of the query it stands in, of a query
around it, or a variable of the procedure. A column wins over a variable, the innermost query over those around it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING

from isolde.tx.place import Place

if TYPE_CHECKING:
    from isolde.tx.queries import Select
    from isolde.tx.schema import Type

Constant = None | bool | int | Decimal | float | str | date | datetime
"""A value of SQL; ``None`` is NULL. ``Decimal`` is exact, ``float`` is not; a ``datetime`` with a zone is a moment."""


class Unary(StrEnum):
    NEGATE = "-"
    PLUS = "+"
    NOT = "not"
    BIT_NOT = "~"


class Binary(StrEnum):
    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    INTEGER_DIVIDE = "div"
    """MySQL's ``DIV``: the integer part of the quotient."""
    MODULO = "%"
    CONCATENATE = "||"
    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="
    SAME = "is not distinct from"
    """Equal, or both null; never unknown. MySQL's ``<=>``, SQLite's ``IS``."""
    AND = "and"
    OR = "or"
    XOR = "xor"
    BIT_AND = "&"
    BIT_OR = "|"
    BIT_XOR = "^"
    SHIFT_LEFT = "<<"
    SHIFT_RIGHT = ">>"
    LIKE = "like"


class Truth(StrEnum):
    """What ``IS`` asks for."""

    NULL = "null"
    TRUE = "true"
    FALSE = "false"


class Function(StrEnum):
    """Functions of rows. What is not listed is refused by name."""

    ABS = "abs"
    CEILING = "ceiling"
    CHARACTER_LENGTH = "char_length"
    COALESCE = "coalesce"
    CONCAT = "concat"
    FLOOR = "floor"
    GREATEST = "greatest"
    IF = "if"
    LEAST = "least"
    LOWER = "lower"
    NOW = "now"
    """The time at which the transaction began, as PostgreSQL has it."""
    NULLIF = "nullif"
    ROUND = "round"
    SIGN = "sign"
    SUBSTRING = "substring"
    TRIM = "trim"
    UPPER = "upper"


class Aggregation(StrEnum):
    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    AVG = "avg"


@dataclass(frozen=True, slots=True)
class Literal:
    value: Constant
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Name:
    """A column or a variable; ``table`` is a table's name or alias, or a row variable of a procedure.

    ``contested``: the name as it was written, where a variable of PL/pgSQL has it: a column of that name makes it ambiguous.
    """

    name: str
    table: str | None = None
    place: Place | None = field(default=None, compare=False)
    contested: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value that the caller gives: ``:name``. Never a column; in a procedure, its parameter or variable of that name."""

    name: str
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class UnaryOperation:
    operator: Unary
    operand: Expression
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class BinaryOperation:
    operator: Binary
    left: Expression
    right: Expression
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Is:
    """``operand IS [NOT] NULL | TRUE | FALSE``: never unknown."""

    operand: Expression
    truth: Truth
    negated: bool = False
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Between:
    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class InList:
    operand: Expression
    items: tuple[Expression, ...]
    negated: bool = False
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class InQuery:
    """The query has one column."""

    operand: Expression
    query: Select
    negated: bool = False
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Exists:
    query: Select
    negated: bool = False
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ScalarQuery:
    """The one column of the one row; null if there is no row, an error if there are several."""

    query: Select
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class When:
    condition: Expression
    result: Expression


@dataclass(frozen=True, slots=True)
class Case:
    """``CASE [operand] WHEN … THEN … ELSE … END``; with an operand the conditions are compared to it."""

    operand: Expression | None
    whens: tuple[When, ...]
    otherwise: Expression | None = None
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    function: Function
    arguments: tuple[Expression, ...]
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Cast:
    operand: Expression
    type: Type
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``operand`` is ``None`` for ``COUNT(*)``."""

    aggregation: Aggregation
    operand: Expression | None
    distinct: bool = False
    place: Place | None = field(default=None, compare=False)


Expression = (
    Literal
    | Name
    | Parameter
    | UnaryOperation
    | BinaryOperation
    | Is
    | Between
    | InList
    | InQuery
    | Exists
    | ScalarQuery
    | Case
    | Call
    | Cast
    | Aggregate
)
