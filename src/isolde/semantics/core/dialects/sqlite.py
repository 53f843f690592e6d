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
from isolde.semantics.core.dialects import shared
from isolde.semantics.core.dialects.base import AggregateForm, IdSource, Rules, typed
from isolde.semantics.core.nodes import Apply, Bound, Choose, Clock, Coalesce, Column, Constant, Expression, is_stored
from isolde.semantics.core.primitives import SAME, TRUTH_TO_NUMBER, Primitive
from isolde.semantics.core.types import ANY, BOOLEAN, Affinity, Sort, ValueType, outside
from isolde.semantics.core.values import sqlite as lite
from isolde.semantics.core.values.ties import extreme
from isolde.tx import expressions as tx
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Aggregation, Binary, Function, Unary
from isolde.tx.schema import Column as TableColumn
from isolde.tx.schema import Kind, Table, Type
from isolde.tx.walk import parts

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
    Binary.ADD: Primitive("sqlite +", lite.arithmetic(operator.add)),
    Binary.SUBTRACT: Primitive("sqlite -", lite.arithmetic(operator.sub)),
    Binary.MULTIPLY: Primitive("sqlite *", lite.arithmetic(operator.mul)),
    Binary.DIVIDE: Primitive("sqlite /", lite.divided, nullable=True),
    Binary.MODULO: Primitive("sqlite %", lite.modulo, nullable=True),
}
_TO_BITS = Primitive("sqlite number to bits", lite.bits)
_BITS = {
    Binary.BIT_AND: shared.BITS[Binary.BIT_AND],
    Binary.BIT_OR: shared.BITS[Binary.BIT_OR],
    Binary.SHIFT_LEFT: Primitive("sqlite <<", lite.shifted),
    Binary.SHIFT_RIGHT: Primitive("sqlite >>", lambda value, count: lite.shifted(value, -count)),
}
_LIKE = Primitive("sqlite like", lite.like)


def _ordering(symbol: str, compare: Callable[[Any, Any], bool]) -> Primitive:
    return Primitive(
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
_TO_TEXT = Primitive("sqlite to text", lite.text)
_NUMERIC_AFFINITY = Primitive("sqlite numeric affinity", lite.numeric_affinity)
_TRUTH = Primitive("sqlite truth", lambda value: float(lite.number(value)) != 0)
_CASTS = {
    Affinity.TEXT: _TO_TEXT,
    Affinity.INTEGER: Primitive("sqlite cast to integer", lite.integer),
    Affinity.REAL: Primitive("sqlite cast to real", lambda value: float(lite.number(value))),
    Affinity.NUMERIC: Primitive("sqlite cast to numeric", lite.cast_numeric),
}
_STORED = {
    Affinity.TEXT: _TO_TEXT,
    Affinity.REAL: Primitive("sqlite stored real", lite.stored_real),
    Affinity.INTEGER: (_stored_numeric := Primitive("sqlite stored number", lite.stored_numeric)),
    Affinity.NUMERIC: _stored_numeric,
}
_STORED_ROW_NUMBER = Primitive("sqlite stored rowid", lite.stored_rowid, strict=False, errors="conversion")
_RANK = Primitive("sqlite order", lite.rank, strict=False, nullable=True)
_RETURNED_REAL = Primitive("sqlite returned real", lite.returned_real)
_NOW = Primitive("sqlite now", lambda time: time.isoformat(sep=" ", timespec="seconds"))
_FUNCTIONS = {
    Function.ABS: Primitive("sqlite abs", lite.absolute, errors="out-of-range"),
    Function.SIGN: Primitive("sqlite sign", lite.sign, nullable=True),
    Function.ROUND: Primitive("sqlite round", lite.rounded),
    Function.GREATEST: Primitive("sqlite max", lambda *values: max(values, key=lite.rank)),
    Function.LEAST: Primitive("sqlite min", lite.least),
}
_AGGREGATES = {
    Aggregation.COUNT: len,
    Aggregation.SUM: lite.total,
    Aggregation.AVG: lite.average,
    Aggregation.MIN: extreme(min, lite.rank),
    Aggregation.MAX: extreme(max, lite.rank),
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

    def text(self, node: Expression) -> Expression:
        return self.apply(_TO_TEXT, (node,), ANY)

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
                return self.apply(_ARITHMETIC[Binary.SUBTRACT], (Constant(0, ANY), operand), ANY)
            case _:
                return self.apply(shared.BIT_NOT, (self.apply(_TO_BITS, (operand,), ANY),), ANY)

    def binary(self, operator: Binary, left: Expression, right: Expression) -> Expression:
        sides = (self.value(left), self.value(right))
        if operator in _ARITHMETIC:
            return self.apply(_ARITHMETIC[operator], sides, ANY)
        if operator in _BITS:
            return self.apply(_BITS[operator], [self.apply(_TO_BITS, (side,), ANY) for side in sides], ANY)
        match operator:
            case Binary.CONCATENATE:
                return self.apply(shared.CONCATENATED, list(map(self.text, sides)), ANY)
            case Binary.LIKE:
                return self.apply(_LIKE, list(map(self.text, sides)), BOOLEAN)
            case _:
                raise ExecutionError("type", f"SQLite has no operator {operator.value}")

    def compared(self, operator: Binary, left: Expression, right: Expression) -> Expression:
        left, right = self.value(left), self.value(right)
        one, other = self.matched(left, right)
        if operator is Binary.SAME:
            return self.apply(SAME, (one, other), BOOLEAN)
        if operator in _ORDERED:
            return self.apply(_ORDERED[operator], (one, other), BOOLEAN)
        return self.equation(shared.COMPARISONS[operator], one, other, (left, right))

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
            case Function.LOWER | Function.UPPER | Function.TRIM | Function.CHARACTER_LENGTH:
                return self.apply(shared.TEXT_FUNCTIONS[function], (self.text(arguments[0]),), ANY)
            case Function.SUBSTRING:
                bounds = [self.apply(_CASTS[Affinity.INTEGER], (bound,), ANY) for bound in arguments[1:]]
                return self.apply(shared.SUBSTRING, [self.text(arguments[0]), *bounds], ANY)
            case Function.CONCAT | Function.CEILING | Function.FLOOR:
                raise ExecutionError("name", f"no such function: {function.value}")
            case _:
                return self.apply(_FUNCTIONS[function], arguments, ANY)

    # Aggregates, keys, what is seen

    def aggregate(self, aggregation: Aggregation, operand: Expression) -> AggregateForm:
        function: Any = _AGGREGATES[aggregation]
        smt = "" if aggregation in (Aggregation.SUM, Aggregation.AVG) else aggregation.value
        return AggregateForm(function, ANY, self.value(operand), aggregation is Aggregation.COUNT, smt)

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
        super().check_arranging(node)
        conjunction = isinstance(node, tx.BinaryOperation) and node.operator is Binary.AND
        if conjunction and any(isinstance(part, tx.Literal) and part.value in (0, False) for part in parts(node)):
            raise outside("ORDER BY or GROUP BY of an AND with 0 in SQLite", "leave it out: it is taken for column 0")


def _bare(node: Expression) -> Expression:
    """The value without the affinity, and the identity, of the column that it came from."""
    if isinstance(node, (Column, Bound)):
        return replace(node, type=ANY, stored=False)
    return typed(node, ANY)
