"""Expressions as text, with the parentheses that all three dialects need."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from enum import Enum, auto
from typing import ClassVar, assert_never

from isolde.errors import OutsideFragment
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import (
    Aggregate,
    Between,
    Binary,
    BinaryOperation,
    Call,
    Case,
    Cast,
    Constant,
    Exists,
    Expression,
    Function,
    InList,
    InQuery,
    Is,
    Literal,
    Name,
    Parameter,
    ScalarQuery,
    Unary,
    UnaryOperation,
)
from isolde.tx.queries import Select
from isolde.tx.render.types import cast_type
from isolde.tx.render.words import quoted


class Marks(Enum):
    """How parameters are written."""

    NAMES = auto()
    DRIVER = auto()


# Where the dialects order operators differently (bits, shifts, "||"), they share one level here and are always in parentheses.
_LEVELS = {
    Binary.OR: 1,
    Binary.XOR: 2,
    Binary.AND: 3,
    Binary.EQUAL: 5,
    Binary.NOT_EQUAL: 5,
    Binary.LESS: 5,
    Binary.LESS_EQUAL: 5,
    Binary.GREATER: 5,
    Binary.GREATER_EQUAL: 5,
    Binary.SAME: 5,
    Binary.LIKE: 5,
    Binary.CONCATENATE: 6,
    Binary.BIT_AND: 6,
    Binary.BIT_OR: 6,
    Binary.BIT_XOR: 6,
    Binary.SHIFT_LEFT: 6,
    Binary.SHIFT_RIGHT: 6,
    Binary.ADD: 7,
    Binary.SUBTRACT: 7,
    Binary.MULTIPLY: 8,
    Binary.DIVIDE: 8,
    Binary.INTEGER_DIVIDE: 8,
    Binary.MODULO: 8,
}
_NOT, _PREDICATE, _UNARY, _PRIMARY = 4, 5, 9, 10
_CHAINS = {1, 3, 7, 8}
"""Levels whose operators are read from left to right everywhere."""

_SAME = {Dialect.POSTGRESQL: "IS NOT DISTINCT FROM", Dialect.MYSQL: "<=>", Dialect.SQLITE: "IS"}

_FUNCTIONS: dict[tuple[Function, Dialect], str] = {
    (Function.CHARACTER_LENGTH, Dialect.SQLITE): "LENGTH",
    (Function.CEILING, Dialect.SQLITE): "CEIL",
    (Function.GREATEST, Dialect.SQLITE): "MAX",
    (Function.LEAST, Dialect.SQLITE): "MIN",
    (Function.SUBSTRING, Dialect.SQLITE): "SUBSTR",
    (Function.IF, Dialect.SQLITE): "IIF",
}


class Writer:
    """Text of one dialect, and the parameters in the order of their marks."""

    MYSQL_MARK: ClassVar[str] = "\ufdd0"
    """A character that no text holds, until percent signs are doubled."""

    def __init__(self, dialect: Dialect, marks: Marks, select: Callable[[Select, Writer], str]) -> None:
        self.dialect = dialect
        self.marks = marks
        self.names: list[str] = []
        self.conflict = False
        """Whether ``excluded`` means the row that was to be inserted."""
        self._select = select

    def refuse(self, node: object, what: str, instead: str = "") -> OutsideFragment:
        return OutsideFragment(str(getattr(node, "place", None) or self.dialect), f"in {self.dialect}, {what}", instead)

    def name(self, name: str) -> str:
        return quoted(name, self.dialect)

    def query(self, select: Select) -> str:
        return f"({self._select(select, self)})"

    def expression(self, node: Expression) -> str:
        return self.within(node, 0)

    def within(self, node: Expression, level: int) -> str:
        """The text of ``node``, in parentheses if it binds less tightly than ``level``."""
        node = self.translated(node)
        text = self.bare(node)
        return f"({text})" if self.level(node) < level else text

    def level(self, node: Expression) -> int:
        match node:
            case BinaryOperation(operator):
                concat = operator is Binary.CONCATENATE and self.dialect is Dialect.MYSQL
                return _PRIMARY if concat else _LEVELS[operator]
            case UnaryOperation(operator):
                return _NOT if operator is Unary.NOT else _UNARY
            case Literal(value) if not isinstance(value, bool | str) and isinstance(value, int | Decimal | float):
                return _UNARY if value < 0 or (isinstance(value, float) and math.copysign(1, value) < 0) else _PRIMARY
            case Is() | Between() | InList() | InQuery():
                return _PREDICATE
            case Exists(_, negated):
                return _NOT if negated else _PRIMARY
            case _:
                return _PRIMARY

    def translated(self, node: Expression) -> Expression:
        """What the dialect has no operator for, in terms of others."""
        match node:
            case BinaryOperation(Binary.XOR, left, right) if self.dialect is not Dialect.MYSQL:
                sides = (UnaryOperation(Unary.NOT, left), UnaryOperation(Unary.NOT, right))
                return BinaryOperation(Binary.NOT_EQUAL, *sides)
            case BinaryOperation(Binary.BIT_XOR, left, right) if self.dialect is Dialect.SQLITE:
                either, both = BinaryOperation(Binary.BIT_OR, left, right), BinaryOperation(Binary.BIT_AND, left, right)
                return BinaryOperation(Binary.SUBTRACT, either, both)
            case BinaryOperation(Binary.SAME, left, Literal(bool(value))) if self.dialect is Dialect.SQLITE:
                # "x IS TRUE" asks for truth in SQLite, not for equality.
                return BinaryOperation(Binary.SAME, left, Literal(int(value)))
            case InList(operand, (ScalarQuery() as only,), negated) if self.dialect is not Dialect.SQLITE:
                # "IN ((SELECT …))" would ask for all rows of the query.
                return BinaryOperation(Binary.NOT_EQUAL if negated else Binary.EQUAL, operand, only)
            case Call((Function.COALESCE | Function.GREATEST | Function.LEAST), (only,)) if (
                self.dialect is Dialect.SQLITE
            ):
                return self.translated(only)
            case _:
                return node

    def bare(self, node: Expression) -> str:
        match node:
            case Literal(value):
                return self.constant(value, node)
            case Name(name, table):
                return self.column(name, table)
            case Parameter(name):
                return self.parameter(name)
            case UnaryOperation(Unary.NOT, operand):
                return f"NOT {self.within(operand, _PREDICATE + 1)}"
            case UnaryOperation(Unary.NEGATE, Literal() as operand):
                # "-1" is a literal of its own.
                return f"-({self.expression(operand)})"
            case UnaryOperation(operator, operand):
                return f"{operator}{self.within(operand, _PRIMARY)}"
            case BinaryOperation():
                return self.binary(node)
            case Is(operand, truth, negated):
                return f"{self.within(operand, _PREDICATE + 1)} IS {'NOT ' if negated else ''}{truth.upper()}"
            case Between(operand, low, high, negated):
                parts = [self.within(part, _PREDICATE + 1) for part in (operand, low, high)]
                return f"{parts[0]} {'NOT ' if negated else ''}BETWEEN {parts[1]} AND {parts[2]}"
            case InList(operand, items, negated):
                if not items and self.dialect is not Dialect.SQLITE:
                    raise self.refuse(node, "an empty list after IN", "use FALSE")
                left = self.within(operand, _PREDICATE + 1)
                return f"{left} {'NOT ' if negated else ''}IN ({', '.join(map(self.expression, items))})"
            case InQuery(operand, query, negated):
                return f"{self.within(operand, _PREDICATE + 1)} {'NOT ' if negated else ''}IN {self.query(query)}"
            case Exists(query, negated):
                return f"{'NOT ' if negated else ''}EXISTS {self.query(query)}"
            case ScalarQuery(query):
                return self.query(query)
            case Case():
                return self.case(node)
            case Call():
                return self.call(node)
            case Cast(operand, type_):
                return f"CAST({self.expression(operand)} AS {cast_type(type_, self.dialect)})"
            case Aggregate(aggregation, operand, distinct):
                inner = "*" if operand is None else self.expression(operand)
                return f"{aggregation.upper()}({'DISTINCT ' if distinct else ''}{inner})"
            case _:
                assert_never(node)

    def column(self, name: str, table: str | None) -> str:
        if table == "excluded" and self.conflict and self.dialect is Dialect.MYSQL:
            return f"VALUES({self.name(name)})"
        return f"{self.name(table)}.{self.name(name)}" if table is not None else self.name(name)

    def parameter(self, name: str) -> str:
        self.names.append(name)
        if self.marks is Marks.NAMES:
            return f":{name}"
        match self.dialect:
            case Dialect.POSTGRESQL:
                return f"${len(self.names)}"
            case Dialect.MYSQL:
                return self.MYSQL_MARK
            case Dialect.SQLITE:
                return "?"
            case _:
                assert_never(self.dialect)

    def binary(self, node: BinaryOperation) -> str:
        operator, level = node.operator, _LEVELS[node.operator]
        if operator is Binary.CONCATENATE and self.dialect is Dialect.MYSQL:
            return f"CONCAT({self.expression(node.left)}, {self.expression(node.right)})"
        if operator is Binary.INTEGER_DIVIDE and self.dialect is not Dialect.MYSQL:
            raise self.refuse(node, "DIV", "use '/' of integers")
        left = self.within(node.left, level if level in _CHAINS else level + 1)
        right = self.within(node.right, level + 1)
        return f"{left} {self.operator(operator)} {right}"

    def operator(self, operator: Binary) -> str:
        if operator is Binary.SAME:
            return _SAME[self.dialect]
        if operator is Binary.BIT_XOR and self.dialect is Dialect.POSTGRESQL:
            return "#"
        return operator.upper()

    def case(self, node: Case) -> str:
        parts = ["CASE"]
        if node.operand is not None:
            parts.append(self.expression(node.operand))
        for when in node.whens:
            parts.append(f"WHEN {self.expression(when.condition)} THEN {self.expression(when.result)}")
        if node.otherwise is not None:
            parts.append(f"ELSE {self.expression(node.otherwise)}")
        return " ".join([*parts, "END"])

    def call(self, node: Call) -> str:
        # SUBSTRING and TRIM have words of their own inside, and take no comparison without parentheses.
        level = 6 if node.function in {Function.SUBSTRING, Function.TRIM} else 0
        arguments = [self.within(argument, level) for argument in node.arguments]
        if node.function is Function.NOW:
            return "CURRENT_TIMESTAMP"
        if node.function is Function.IF and self.dialect is Dialect.POSTGRESQL:
            return f"CASE WHEN {arguments[0]} THEN {arguments[1]} ELSE {arguments[2]} END"
        name = _FUNCTIONS.get((node.function, self.dialect), node.function.upper())
        return f"{name}({', '.join(arguments)})"

    def constant(self, value: Constant, node: Literal) -> str:
        match value:
            case None:
                return "NULL"
            case bool():
                return "TRUE" if value else "FALSE"
            case int():
                return str(value)
            case Decimal():
                if not value.is_finite():
                    raise self.refuse(node, f"the number {value}")
                text = f"{value:f}"
                # A point and no digit after it: 100.0 has one digit more than 1e2, which quotients and texts show.
                return text if "." in text else f"{text}."
            case float():
                return self.inexact(value, node)
            case str():
                return self.string(value, node)
            case datetime():
                if value.tzinfo is not None and self.dialect is Dialect.MYSQL:
                    raise self.refuse(node, "a time with a zone in MySQL")
                word = "TIMESTAMP" if value.tzinfo is None else "TIMESTAMP WITH TIME ZONE"
                return self.time(word, value.isoformat(" "))
            case date():
                return self.time("DATE", value.isoformat())
            case _:
                assert_never(value)

    def time(self, word: str, text: str) -> str:
        return f"'{text}'" if self.dialect is Dialect.SQLITE else f"{word} '{text}'"

    def inexact(self, value: float, node: Literal) -> str:
        if not math.isfinite(value):
            raise self.refuse(node, f"the number {value}")
        text = repr(value)
        if self.dialect is Dialect.POSTGRESQL:
            # A number with an exponent is exact in PostgreSQL.
            return f"CAST('{text}' AS DOUBLE PRECISION)"
        return text if "e" in text else f"{text}e0"

    def string(self, value: str, node: Literal) -> str:
        if "\0" in value and self.dialect is not Dialect.MYSQL:
            raise self.refuse(node, "a string with a null character")
        if self.dialect is Dialect.MYSQL:
            value = value.replace("\\", "\\\\").replace("\0", "\\0")
        return "'" + value.replace("'", "''") + "'"
