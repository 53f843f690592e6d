"""SQLite: values have types, columns have affinities; numbers come before texts."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from isolde.errors import ExecutionError
from isolde.semantics.core.dialects.base import COMPARISONS, AggregateForm, IdSource, Rules, typed
from isolde.semantics.core.nodes import Apply, Bound, Choose, Clock, Coalesce, Column, Constant, Expression, is_stored
from isolde.semantics.core.primitives import SAME, TRUTH_TO_NUMBER, Primitive, primitive
from isolde.semantics.core.types import ANY, BOOLEAN, Affinity, Sort, ValueType, outside
from isolde.semantics.core.values import sqlite as lite
from isolde.semantics.core.values import texts
from isolde.tx import expressions as tx
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Aggregation, Binary, Function, Unary
from isolde.tx.schema import Column as TableColumn
from isolde.tx.schema import Kind, Table, Type

AFFINITIES = {
    Kind.BOOLEAN: Affinity.NUMERIC,
    Kind.INTEGER: Affinity.INTEGER,
    Kind.DECIMAL: Affinity.NUMERIC,
    Kind.FLOAT: Affinity.REAL,
    Kind.TEXT: Affinity.TEXT,
    Kind.DATE: Affinity.NUMERIC,
    Kind.TIMESTAMP: Affinity.NUMERIC,
    Kind.ZONED: Affinity.NUMERIC,
}
_NUMERIC = frozenset({Affinity.INTEGER, Affinity.REAL, Affinity.NUMERIC})
_LOW, _HIGH = -(2**63), 2**63 - 1

# Primitives

_ARITHMETIC = {
    Binary.ADD: primitive("sqlite +", lite.added),
    Binary.SUBTRACT: primitive("sqlite -", lite.subtracted),
    Binary.MULTIPLY: primitive("sqlite *", lite.multiplied),
    Binary.DIVIDE: primitive("sqlite /", lite.divided, nullable=True),
    Binary.MODULO: primitive("sqlite %", lite.modulo, nullable=True),
}
_NEGATED = primitive("sqlite - (sign)", lambda value: lite.subtracted(0, value))
_BIT_NOT = primitive("sqlite ~", lambda value: ~lite.bits(value))
_BITS = {
    Binary.BIT_AND: primitive("sqlite &", lambda left, right: lite.bits(left) & lite.bits(right)),
    Binary.BIT_OR: primitive("sqlite |", lambda left, right: lite.bits(left) | lite.bits(right)),
    Binary.SHIFT_LEFT: primitive("sqlite <<", lambda left, right: lite.shifted(lite.bits(left), lite.bits(right))),
    Binary.SHIFT_RIGHT: primitive(
        "sqlite >>", lambda left, right: lite.shifted_right(lite.bits(left), lite.bits(right))
    ),
}
_CONCATENATED = primitive("sqlite ||", lambda left, right: lite.text(left) + lite.text(right))
_LIKE = primitive("sqlite like", lambda value, pattern: lite.like(lite.text(value), lite.text(pattern)))


def _ordering(symbol: str, compare: Callable[[Any, Any], bool]) -> Primitive:
    return primitive(
        f"sqlite {symbol}",
        lambda left, right: compare(lite.rank(left), lite.rank(right)),
        f"({{f}}({{0}}) {symbol} {{f}}({{1}}))",
        helper=lite.rank,
    )


_ORDERED = {
    Binary.LESS: _ordering("<", operator.lt),
    Binary.LESS_EQUAL: _ordering("<=", operator.le),
    Binary.GREATER: _ordering(">", operator.gt),
    Binary.GREATER_EQUAL: _ordering(">=", operator.ge),
}
_TO_TEXT = primitive("sqlite to text", lite.text)
_NUMERIC_AFFINITY = primitive("sqlite numeric affinity", lite.numeric_affinity)
_TRUTH = primitive("sqlite truth", lambda value: float(lite.number(value)) != 0)
_CASTS = {
    Affinity.TEXT: _TO_TEXT,
    Affinity.INTEGER: primitive("sqlite cast to integer", lite.integer),
    Affinity.REAL: primitive("sqlite cast to real", lambda value: float(lite.number(value))),
    Affinity.NUMERIC: primitive("sqlite cast to numeric", lite.cast_numeric),
}
_STORED = {
    Affinity.TEXT: _TO_TEXT,
    Affinity.REAL: primitive("sqlite stored real", lite.stored_real),
    Affinity.INTEGER: (_stored_numeric := primitive("sqlite stored number", lite.stored_numeric)),
    Affinity.NUMERIC: _stored_numeric,
}
_STORED_ROW_NUMBER = primitive("sqlite stored rowid", lite.stored_rowid, strict=False, errors="conversion")
_RANK = primitive("sqlite order", lite.rank, strict=False, nullable=True)
_RETURNED_REAL = primitive("sqlite returned real", lite.returned_real)
_BOUND = primitive("sqlite limit", lite.bound, strict=False, nullable=True, errors="conversion")
_NOW = primitive("sqlite now", lambda time: time.isoformat(sep=" ", timespec="seconds"))
_FUNCTIONS = {
    Function.ABS: primitive("sqlite abs", lite.absolute, errors="out-of-range"),
    Function.CHARACTER_LENGTH: primitive("sqlite length", lambda value: len(lite.text(value))),
    Function.LOWER: primitive("sqlite lower", lambda value: texts.lower(lite.text(value))),
    Function.UPPER: primitive("sqlite upper", lambda value: texts.upper(lite.text(value))),
    Function.TRIM: primitive("sqlite trim", lambda value: lite.text(value).strip(" ")),
    Function.SIGN: primitive("sqlite sign", lite.sign, nullable=True),
    Function.ROUND: primitive("sqlite round", lite.rounded),
    Function.SUBSTRING: primitive("sqlite substr", lite.substring),
    Function.GREATEST: primitive("sqlite max", lambda *values: max(values, key=lite.rank)),
    Function.LEAST: primitive("sqlite min", lite.least),
}
_AGGREGATES = {
    Aggregation.COUNT: len,
    Aggregation.SUM: lite.total,
    Aggregation.AVG: lite.average,
    Aggregation.MIN: lite.minimum,
    Aggregation.MAX: lite.maximum,
}


class SQLite(Rules):
    dialect = Dialect.SQLITE
    sent = MappingProxyType({bool: int, Decimal: float, date: str, datetime: lambda time: time.isoformat(sep=" ")})
    integer_type = ANY
    hides_errors = False
    changes_rows_as_found = True
    keys_are_not_null = False
    ids = IdSource.LARGEST
    scalar_takes_first = True
    replace_puts_defaults = True
    negative_limit_is_none = True

    def column(self, type_: Type) -> ValueType:
        return ValueType(Sort.ANY, affinity=AFFINITIES[type_.kind])

    def given(self, value: Any) -> ValueType:  # noqa: ARG002
        return ANY

    def literal(self, value: Any) -> Constant:
        match value:
            case bool():
                value = int(value)
            case int():
                value = value if _LOW <= value <= _HIGH else float(value)
            case Decimal():
                value = float(value)
            case datetime():
                value = value.isoformat(sep=" ")
            case date():
                value = value.isoformat()
            case _:
                pass
        return Constant(value, ANY)

    def common(self, nodes: Sequence[Expression], what: str) -> tuple[list[Expression], ValueType]:  # noqa: ARG002
        return [self.value(node) for node in nodes], ANY

    def value(self, node: Expression) -> Expression:
        return self.apply(TRUTH_TO_NUMBER, (node,), ANY) if node.type.sort is Sort.BOOLEAN else node

    # Operations

    def unary(self, operator: Unary, operand: Expression) -> Expression:
        if operator is Unary.NOT:
            return self.negation(operand)
        operand = self.value(operand)
        match operator:
            case Unary.PLUS:
                # +column is a value without an affinity.
                return _bare(operand)
            case Unary.NEGATE:
                return self.apply(_NEGATED, (operand,), ANY)
            case _:
                return self.apply(_BIT_NOT, (operand,), ANY)

    def binary(self, operator: Binary, left: Expression, right: Expression) -> Expression:
        sides = (self.value(left), self.value(right))
        if operator in _ARITHMETIC:
            return self.apply(_ARITHMETIC[operator], sides, ANY)
        if operator in _BITS:
            return self.apply(_BITS[operator], sides, ANY)
        match operator:
            case Binary.CONCATENATE:
                return self.apply(_CONCATENATED, sides, ANY)
            case Binary.LIKE:
                return self.apply(_LIKE, sides, BOOLEAN)
            case _:
                raise ExecutionError("type", f"SQLite has no operator {operator.value}")

    def compared(self, operator: Binary, left: Expression, right: Expression) -> Expression:
        left, right = self.value(left), self.value(right)
        one, other = self.matched(left, right)
        if operator is Binary.SAME:
            return self.apply(SAME, (one, other), BOOLEAN)
        if operator in _ORDERED:
            return self.apply(_ORDERED[operator], (one, other), BOOLEAN)
        return self.equation(COMPARISONS[operator], one, other, (left, right))

    def matched(self, left: Expression, right: Expression) -> tuple[Expression, Expression]:
        """A numeric column makes a number of a text on the other side, a text column a text of a value without affinity."""
        left_affinity, right_affinity = left.type.affinity, right.type.affinity
        if left_affinity in _NUMERIC and right_affinity not in _NUMERIC:
            return left, self.with_affinity(right, Affinity.NUMERIC)
        if right_affinity in _NUMERIC and left_affinity not in _NUMERIC:
            return self.with_affinity(left, Affinity.NUMERIC), right
        if left_affinity is Affinity.TEXT and right_affinity is None:
            return left, self.with_affinity(right, Affinity.TEXT)
        if right_affinity is Affinity.TEXT and left_affinity is None:
            return self.with_affinity(left, Affinity.TEXT), right
        return left, right

    def with_affinity(self, node: Expression, affinity: Affinity) -> Expression:
        return self.apply(_TO_TEXT if affinity is Affinity.TEXT else _NUMERIC_AFFINITY, (node,), node.type)

    def list_items(
        self,
        operand: Expression,  # noqa: ARG002
        items: list[Expression],
        plain: list[bool],  # noqa: ARG002
    ) -> list[Expression]:
        # The items have no affinity here, even columns: only the left side's counts.
        return [_bare(item) if item.type.sort is Sort.ANY else item for item in items]

    def truth(self, node: Expression, what: str = "condition") -> Expression:  # noqa: ARG002
        return node if node.type.sort is Sort.BOOLEAN else self.apply(_TRUTH, (node,), BOOLEAN)

    def bound(self, node: Expression, what: str) -> Expression:  # noqa: ARG002
        return self.apply(_BOUND, (self.value(node),), ANY)

    def cast(self, node: Expression, type_: Type) -> Expression:
        target = self.column(type_)
        assert target.affinity is not None
        return self.apply(_CASTS[target.affinity], (self.value(node),), target)

    def stored(self, node: Expression, column: TableColumn) -> Expression:
        return self.apply(_STORED[AFFINITIES[column.type.kind]], (self.value(node),), ANY)

    def call(self, function: Function, arguments: list[Expression]) -> Expression:
        arguments = [self.value(argument) for argument in arguments]
        match function:
            case Function.COALESCE:
                return Coalesce(tuple(arguments), ANY)
            case Function.IF:
                return Choose(((self.truth(arguments[0]), arguments[1]),), arguments[2], ANY)
            case Function.NULLIF:
                # Arguments of a function have no affinity any more.
                equal = self.compared(Binary.EQUAL, *map(_bare, arguments))
                return Choose(((equal, Constant(None, ANY)),), arguments[0], ANY)
            case Function.NOW:
                return Clock(_NOW, ANY)
            case Function.CONCAT | Function.CEILING | Function.FLOOR:
                raise ExecutionError("name", f"no such function: {function.value}")
            case _:
                return self.apply(_FUNCTIONS[function], arguments, ANY)

    # Aggregates, keys, what is seen

    def aggregate(self, aggregation: Aggregation, operand: Expression) -> AggregateForm:
        function: Any = _AGGREGATES[aggregation]
        return AggregateForm(function, ANY, self.value(operand), nonnull=aggregation is Aggregation.COUNT)

    def key(self, node: Expression) -> Expression:
        return self.value(node)

    def row_number(self, table: Table) -> int | None:
        if len(table.primary_key) != 1:
            return None
        names = [column.name for column in table.columns]
        place = names.index(table.primary_key[0])
        return place if table.columns[place].type.kind is Kind.INTEGER else None

    def stored_row_number(self, node: Expression) -> Expression:
        return Apply(_STORED_ROW_NUMBER, (node,), ANY)

    def sort_key(self, node: Expression) -> Expression:
        return self.apply(_RANK, (self.value(node),), ANY)

    def probe(self, column: ValueType, node: Expression) -> Expression | None:
        node = self.value(node)
        assert column.affinity is not None
        if node.type.affinity is None:
            return self.with_affinity(node, column.affinity)
        if node.type.affinity is column.affinity or Affinity.TEXT not in (node.type.affinity, column.affinity):
            return node
        return None

    def equals_differ(self, node: Expression) -> bool:
        return node.type.sort is Sort.ANY and not is_stored(node)

    def output(self, node: Expression) -> Expression:
        return self.value(node)

    def returned(self, node: Expression) -> Expression:
        """RETURNING shows what is stored: a whole number in a REAL column as an integer."""
        shown = self.value(node)
        if shown.type.affinity is Affinity.REAL and is_stored(shown):
            return Apply(_RETURNED_REAL, (shown,), ANY)
        return shown

    def check_arranging(self, node: tx.Expression) -> None:
        if _zero(node) and not isinstance(node, tx.Literal):
            raise outside(
                "ORDER BY or GROUP BY of an AND with 0 in SQLite", "leave it out: it is taken for column number 0"
            )


def _zero(node: tx.Expression) -> bool:
    """Whether SQLite makes it the literal 0 while it reads the text."""
    if isinstance(node, tx.Literal):
        return node.value is False or (type(node.value) is int and node.value == 0)
    if isinstance(node, tx.BinaryOperation) and node.operator is Binary.AND:
        return _zero(node.left) or _zero(node.right)
    return False


def _bare(node: Expression) -> Expression:
    """The value without the affinity, and the identity, of the column that it came from."""
    if isinstance(node, (Column, Bound)):
        return replace(node, type=ANY, stored=False)
    return typed(node, ANY)
