"""PostgreSQL: static types, no silent conversions but those of literals; exact decimals that carry their scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from isolde.errors import ExecutionError
from isolde.semantics.core.dialects.base import (
    COMPARISONS,
    DECIMAL_ARITHMETIC,
    FLOAT_ARITHMETIC,
    NEGATED_DECIMAL,
    NEGATED_FLOAT,
    TEXT_FUNCTIONS,
    AggregateForm,
    IdSource,
    Rules,
    integer_operations,
    typed,
    untyped,
)
from isolde.semantics.core.dialects.times import as_time
from isolde.semantics.core.nodes import Apply, Choose, Clock, Coalesce, Constant, Expression, is_stored
from isolde.semantics.core.primitives import SAME, Primitive, primitive
from isolde.semantics.core.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL,
    FLOAT,
    INTEGER,
    NUMBERS,
    TEXT,
    TIMES,
    TIMESTAMP,
    UNKNOWN,
    UNTYPED,
    ZONED,
    Sort,
    ValueType,
    outside,
    type_error,
)
from isolde.semantics.core.values import numbers, texts
from isolde.semantics.core.values import postgresql as pg
from isolde.tx import expressions as tx
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Aggregation, Binary, Function, Unary
from isolde.tx.schema import Column as TableColumn
from isolde.tx.schema import Kind, Type

# Primitives


_INTEGERS = (16, 32, 64)
_ON_INTEGERS = {bits: integer_operations("postgresql", bits) for bits in _INTEGERS}


def _fitting(name: str, bits: int, compute: Callable[..., int], errors: str = "out-of-range") -> Primitive:
    """What may not fit into the bits of an integer, and is no such operation on integers."""
    fit = numbers.within(bits, False)
    return primitive(
        f"postgresql {name} int{bits}", lambda *values: fit(compute(*values)), errors=errors, partial=True, smt=name
    )


_DIVIDED = {bits: _fitting("/", bits, pg.quotient, "out-of-range division-by-zero") for bits in _INTEGERS}
_INTEGER_MODULO = primitive("postgresql % integer", pg.modulo, errors="division-by-zero", partial=True, smt="mod")
_NARROWED = {
    sort: {bits: _fitting(f"{sort.value} to", bits, convert) for bits in _INTEGERS}
    for sort, convert in (
        (Sort.INTEGER, int),
        (Sort.DECIMAL, numbers.nearest_integer),
        (Sort.FLOAT, numbers.nearest_even),
    )
}
_DECIMAL_ARITHMETIC = DECIMAL_ARITHMETIC | {
    Binary.DIVIDE: primitive(
        "postgresql / decimal", numbers.postgresql_quotient, errors="division-by-zero", partial=True
    ),
    Binary.MODULO: primitive("postgresql % decimal", numbers.remainder, errors="division-by-zero", partial=True),
}
_FLOAT_DIVIDED = primitive(
    "postgresql / float", pg.float_quotient, errors="division-by-zero out-of-range", partial=True
)
_SINGLE = primitive("postgresql float of 32 bits", numbers.single)
_BIT_NOT = primitive("postgresql ~", lambda value: ~value, "(~{0})")
_BITS = {
    Binary.BIT_AND: primitive("postgresql &", lambda left, right: left & right, "({0} & {1})"),
    Binary.BIT_OR: primitive("postgresql |", lambda left, right: left | right, "({0} | {1})"),
    Binary.BIT_XOR: primitive("postgresql #", lambda left, right: left ^ right, "({0} ^ {1})"),
}
_SHIFTED = {
    Binary.SHIFT_LEFT: primitive("postgresql <<", pg.shifted_left),
    # A small integer is shifted as one of 32 bits.
    Binary.SHIFT_RIGHT: primitive("postgresql >>", lambda number, count, bits: number >> count % max(bits, 32)),
}
_CONCATENATED = primitive("postgresql ||", lambda left, right: left + right, "({0} + {1})", smt="str.++")
_LIKE = primitive("postgresql like", pg.like)
_INTEGER_TO_DECIMAL = primitive("postgresql integer to decimal", Decimal)
_INTEGER_TO_FLOAT = primitive("postgresql integer to float", float)
_DECIMAL_TO_FLOAT = primitive("postgresql decimal to float", pg.decimal_float, errors="out-of-range", partial=True)
_FLOAT_TO_DECIMAL = primitive("postgresql float to decimal", pg.float_decimal)
_BOOLEAN_TO_INTEGER = primitive("postgresql boolean to integer", int)
_INTEGER_TO_BOOLEAN = primitive("postgresql integer to boolean", bool)
_FROM_TEXT = {
    Sort.INTEGER: primitive(
        "postgresql text to integer", pg.text_integer, errors="conversion out-of-range", partial=True
    ),
    Sort.BOOLEAN: primitive("postgresql text to boolean", pg.text_boolean, errors="conversion", partial=True),
    Sort.DECIMAL: primitive("postgresql text to decimal", pg.text_decimal, errors="conversion", partial=True),
    Sort.FLOAT: primitive("postgresql text to float", pg.text_float, errors="conversion out-of-range", partial=True),
    Sort.DATE: primitive("postgresql text to date", pg.text_date, errors="conversion", partial=True),
    Sort.TIMESTAMP: primitive("postgresql text to timestamp", pg.text_timestamp, errors="conversion", partial=True),
    Sort.ZONED: primitive("postgresql text to time with zone", pg.text_zoned, errors="conversion", partial=True),
}
_TO_TEXT = {
    Sort.INTEGER: primitive("postgresql integer to text", str),
    Sort.DECIMAL: primitive("postgresql decimal to text", texts.decimal_text),
    Sort.FLOAT: primitive("postgresql float to text", pg.float_text),
    Sort.BOOLEAN: primitive("postgresql boolean to text", lambda value: "true" if value else "false"),
    Sort.DATE: primitive("postgresql date to text", date.isoformat),
    Sort.TIMESTAMP: primitive("postgresql timestamp to text", pg.timestamp_text),
    Sort.ZONED: primitive("postgresql time with zone to text", pg.zoned_text),
}
_FITTED_DECIMAL = primitive("postgresql numeric(p, s)", numbers.fitted_decimal, errors="out-of-range")
_FITTED_TIMESTAMP = primitive(
    "postgresql timestamp(p)", lambda value, digits: texts.in_precision(value, digits, rounding=True)
)
_FITTED_TEXT = primitive("postgresql varchar(n), stored", texts.fitted_text, errors="out-of-range")
_CUT_TEXT = primitive("postgresql varchar(n), cast", lambda text, length: text[:length])
_FIXED = {
    _FITTED_TEXT: primitive("postgresql char(n), stored", pg.fixed_text, errors="out-of-range"),
    _CUT_TEXT: primitive("postgresql char(n), cast", pg.fixed_cut, errors="out-of-range"),
}
# A float that is rounded to zero keeps its sign, which shows in its text.
_ROUNDING = {
    (Function.FLOOR, Sort.DECIMAL): primitive("postgresql floor decimal", lambda number: Decimal(math.floor(number))),
    (Function.FLOOR, Sort.FLOAT): primitive(
        "postgresql floor float", lambda number: math.copysign(math.floor(number), number)
    ),
    (Function.CEILING, Sort.DECIMAL): primitive(
        "postgresql ceiling decimal", lambda number: Decimal(math.ceil(number))
    ),
    (Function.CEILING, Sort.FLOAT): primitive("postgresql ceiling float", pg.float_ceiling),
    (Function.SIGN, Sort.DECIMAL): primitive(
        "postgresql sign decimal", lambda number: Decimal((number > 0) - (number < 0))
    ),
    (Function.SIGN, Sort.FLOAT): primitive("postgresql sign float", lambda number: float((number > 0) - (number < 0))),
    (Function.ROUND, Sort.FLOAT): primitive("postgresql round float", pg.float_round),
}
_ROUND_DECIMAL = primitive("postgresql round decimal", pg.decimal_round)
_ABSOLUTE_REAL = primitive("postgresql abs decimal or float", abs)
_SUBSTRING = primitive("postgresql substring", pg.substring, errors="out-of-range")
_EXTREMES = {
    Function.GREATEST: primitive("postgresql greatest", pg.greatest, strict=False, nullable=True),
    Function.LEAST: primitive("postgresql least", pg.least, strict=False, nullable=True),
}
_CONCAT = primitive("postgresql concat", lambda *texts: "".join(text or "" for text in texts), strict=False)
_TRUTH_LETTER = primitive("postgresql boolean in concat", lambda value: "t" if value else "f", "('t' if {0} else 'f')")
_NOW = primitive("postgresql now", lambda time: time.replace(tzinfo=UTC))
_BOUND = primitive("postgresql limit", numbers.row_count, errors="out-of-range")

_OPERATORS = frozenset(operator.value for operator in Binary)


class PostgreSQL(Rules):
    dialect = Dialect.POSTGRESQL
    nulls_last_ascending = True
    folds_nulls = True
    fails_when_planned = True
    inner_table_hides_outer = True
    member_lazy = True
    assigns_through_text = True
    ids = IdSource.SEQUENCE
    updates_row_once = True
    has_insert_modes = False
    conflict_update_needs_key = True
    fills_last_columns = True
    results_are_determined = True
    row_is_null_by_columns = True
    errors_end_transactions = True
    shares_cursors = True
    conditions_are_boolean = True
    missing_row_clears = True
    pads_variables = True
    integer_type = BIGINT

    # Types

    def column(self, type_: Type) -> ValueType:
        match type_.kind:
            case Kind.INTEGER:
                if type_.unsigned:
                    raise outside("an unsigned integer in PostgreSQL", "use a wider type and a check")
                # It has no integers of 8 or 24 bits; they are made as the next wider ones.
                return ValueType(Sort.INTEGER, bits=next(bits for bits in _INTEGERS if bits >= (type_.bits or 32)))
            case Kind.FLOAT:
                return replace(FLOAT, bits=type_.bits or 64)
            case kind:
                return ValueType(Sort(kind.value))

    def given(self, value: Any) -> ValueType:
        return UNKNOWN if isinstance(value, str) else self.literal(value).type

    def derived(self, type_: ValueType) -> ValueType:
        return TEXT if type_.sort in UNTYPED else type_

    def literal(self, value: Any) -> Constant:
        type_ = UNKNOWN
        match value:
            case None:
                return self.null()
            case bool():
                type_ = BOOLEAN
            case int():
                type_ = INTEGER if -(2**31) <= value < 2**31 else BIGINT
                if not -(2**63) <= value < 2**63:
                    value, type_ = Decimal(value), DECIMAL
            case Decimal():
                type_ = DECIMAL
            case float():
                type_ = FLOAT
            case datetime():
                type_ = TIMESTAMP if value.tzinfo is None else ZONED
            case date():
                type_ = DATE
            case _:
                pass
        return Constant(value, type_)

    # Conversions

    def to(self, node: Expression, type_: ValueType) -> Expression:
        """An implicit conversion that is known to exist, or of a literal without a type."""
        have = node.type
        if have.sort is Sort.NULL:
            return typed(node, type_)
        if have.sort is Sort.UNKNOWN:
            return self.from_text(node, type_)
        if have.sort is type_.sort:
            if have == type_:
                return node
            return self.in_bits(typed(node, type_)) if have.bits > type_.bits else typed(node, type_)
        if have.sort is Sort.INTEGER and type_.sort is Sort.DECIMAL:
            return self.apply(_INTEGER_TO_DECIMAL, (node,), type_)
        if type_.sort is Sort.FLOAT and have.sort is Sort.INTEGER:
            return self.in_bits(self.apply(_INTEGER_TO_FLOAT, (node,), type_))
        if type_.sort is Sort.FLOAT and have.sort is Sort.DECIMAL:
            return self.in_bits(self.apply(_DECIMAL_TO_FLOAT, (node,), type_))
        if have.sort in TIMES and type_.sort in TIMES:
            return as_time(self, node, type_)
        raise type_error(f"no implicit conversion from {have} to {type_}")

    def from_text(self, node: Expression, type_: ValueType) -> Expression:
        if type_.sort in (Sort.TEXT, Sort.UNKNOWN):
            return typed(node, type_)
        convert = _FROM_TEXT[type_.sort]
        bits = (type_.bits,) if type_.sort is Sort.INTEGER else ()
        if isinstance(node, Constant) and isinstance(node.value, str):
            return self.in_bits(Constant(convert.function(node.value, *bits), type_))
        more = [Constant(size, INTEGER) for size in bits]
        return self.in_bits(self.apply(convert, (node, *more), type_))

    def to_text(self, node: Expression) -> Expression:
        if node.type.sort in (Sort.TEXT, Sort.UNKNOWN, Sort.NULL):
            return typed(node, TEXT)
        return self.apply(_TO_TEXT[node.type.sort], (node,), TEXT)

    def common(self, nodes: Sequence[Expression], what: str) -> tuple[list[Expression], ValueType]:
        found: ValueType | None = None
        for node in nodes:
            if not untyped(node):
                found = node.type if found is None else self.wider(found, node.type, what)
        type_ = found or TEXT
        return [self.to(node, type_) for node in nodes], type_

    def wider(self, left: ValueType, right: ValueType, what: str) -> ValueType:
        if left.sort is right.sort:
            return left if left.bits >= right.bits else right
        if left.sort in NUMBERS and right.sort in NUMBERS:
            order = (Sort.INTEGER, Sort.DECIMAL, Sort.FLOAT)
            wider = max(left, right, key=lambda type_: order.index(type_.sort))
            # A single float meets other numbers as a double.
            return FLOAT if wider.sort is Sort.FLOAT and what in _OPERATORS else wider
        if left.sort in TIMES and right.sort in TIMES:
            return max(left, right, key=lambda type_: TIMES.index(type_.sort))
        raise type_error(f"{what}: types {left} and {right} cannot be matched")

    def in_bits(self, node: Expression) -> Expression:
        """A float as wide as its type."""
        single = node.type.sort is Sort.FLOAT and node.type.bits == 32
        return self.apply(_SINGLE, (node,), node.type) if single else node

    # Operations

    def unary(self, operator: Unary, operand: Expression) -> Expression:
        if operator is Unary.NOT:
            return self.negation(operand)
        if untyped(operand) and operator is Unary.PLUS:
            # Of all that it may be, PostgreSQL prefers a float; with a minus it might be an interval.
            return self.to(operand, FLOAT)
        if untyped(operand):
            raise type_error(f"operator is not unique: {operator.value} unknown")
        sort = operand.type.sort
        if sort not in NUMBERS or (operator is Unary.BIT_NOT and sort is not Sort.INTEGER):
            raise type_error(f"operator does not exist: {operator.value} {operand.type}")
        if operator is Unary.PLUS:
            return operand
        if operator is Unary.BIT_NOT:
            return self.apply(_BIT_NOT, (operand,), operand.type)
        if isinstance(operand, Constant) and operand.value is not None:
            value = operand.value
            negated = numbers.positive_zero(-value) if isinstance(value, Decimal) else -value
            # The type stays that of the positive literal: -2147483648 is a bigint.
            return Constant(self.literal(negated).value, operand.type)
        if sort is Sort.INTEGER:
            return self.apply(_ON_INTEGERS[operand.type.bits]["negate"], (operand,), operand.type)
        return self.apply(NEGATED_DECIMAL if sort is Sort.DECIMAL else NEGATED_FLOAT, (operand,), operand.type)

    def binary(self, operator: Binary, left: Expression, right: Expression) -> Expression:
        match operator:
            case Binary.CONCATENATE:
                if not {left.type.sort, right.type.sort} & {Sort.TEXT, *UNTYPED}:
                    raise self.no_operator(operator, left, right)
                return self.apply(_CONCATENATED, (self.to_text(left), self.to_text(right)), TEXT)
            case Binary.LIKE:
                if any(side.type.sort not in (*UNTYPED, Sort.TEXT) for side in (left, right)):
                    raise type_error(f"operator does not exist: {left.type} ~~ {right.type}")
                return self.apply(_LIKE, (self.to_text(left), self.to_text(right)), BOOLEAN)
            case Binary.ADD | Binary.SUBTRACT | Binary.MULTIPLY | Binary.DIVIDE | Binary.MODULO:
                return self.arithmetic(operator, left, right)
            case Binary.SHIFT_LEFT | Binary.SHIFT_RIGHT:
                return self.shifted(operator, left, right)
            case Binary.BIT_AND | Binary.BIT_OR | Binary.BIT_XOR:
                left, right, type_ = self.matched(operator, left, right)
                if type_.sort is not Sort.INTEGER:
                    raise self.no_operator(operator, left, right)
                return self.apply(_BITS[operator], (left, right), type_)
            case _:
                raise self.no_operator(operator, left, right)

    @staticmethod
    def no_operator(operator: Binary, left: Expression, right: Expression) -> ExecutionError:
        return type_error(f"operator does not exist: {left.type} {operator.value} {right.type}")

    def matched(
        self, operator: Binary, left: Expression, right: Expression
    ) -> tuple[Expression, Expression, ValueType]:
        """Both operands of one numeric type: a literal without a type takes the other side's."""
        if untyped(left) and untyped(right):
            raise type_error(f"operator is not unique: unknown {operator.value} unknown")
        sorts = {left.type.sort, right.type.sort}
        days = sorts == {Sort.DATE, Sort.INTEGER}
        adding = (Binary.ADD, Binary.SUBTRACT) if sorts & UNTYPED or days else (Binary.SUBTRACT,)
        if operator in adding and sorts & {*TIMES} and (days or sorts <= {*TIMES, *UNTYPED}):
            raise outside("a difference of times, a time with an interval, or a date with days", "use parameters")
        if untyped(left):
            left = self.to(left, right.type)
        if untyped(right):
            right = self.to(right, left.type)
        if left.type.sort not in NUMBERS or right.type.sort not in NUMBERS:
            raise self.no_operator(operator, left, right)
        type_ = self.wider(left.type, right.type, operator.value)
        return self.to(left, type_), self.to(right, type_), type_

    def arithmetic(self, operator: Binary, left: Expression, right: Expression) -> Expression:
        left, right, type_ = self.matched(operator, left, right)
        sides = (left, right)
        if type_.sort is Sort.INTEGER:
            if operator is Binary.DIVIDE:
                return self.apply(_DIVIDED[type_.bits], sides, type_)
            if operator is Binary.MODULO:
                return self.apply(_INTEGER_MODULO, sides, type_)
            return self.apply(_ON_INTEGERS[type_.bits][operator.value], sides, type_)
        if type_.sort is Sort.DECIMAL:
            return self.apply(_DECIMAL_ARITHMETIC[operator], sides, type_)
        if operator is Binary.MODULO:
            raise type_error("operator does not exist: double precision % double precision")
        return self.in_bits(
            self.apply(_FLOAT_DIVIDED if operator is Binary.DIVIDE else FLOAT_ARITHMETIC[operator], sides, type_)
        )

    def shifted(self, operator: Binary, left: Expression, right: Expression) -> Expression:
        if untyped(left) and right.type == INTEGER:
            left = self.to(left, INTEGER)
        elif untyped(right):
            right = self.to(right, INTEGER)
        if left.type.sort is not Sort.INTEGER or right.type.sort is not Sort.INTEGER or right.type.bits > 32:
            raise self.no_operator(operator, left, right)
        return self.apply(_SHIFTED[operator], (left, right, Constant(left.type.bits, INTEGER)), left.type)

    def compared(self, operator: Binary, left: Expression, right: Expression) -> Expression:
        (one, other), _ = self.common([left, right], operator.value)
        if operator is Binary.SAME:
            return self.apply(SAME, (one, other), BOOLEAN)
        return self.equation(COMPARISONS[operator], one, other, (left, right))

    def list_items(self, operand: Expression, items: list[Expression], plain: list[bool]) -> list[Expression]:
        """Items without columns become an array if they have a type in common; the others are compared one by one."""
        together = [item for item, alone in zip(items, plain, strict=True) if alone]
        if len(together) < 2:
            return items
        try:
            _, type_ = self.common([operand, *together], "IN")
        except ExecutionError as error:
            if error.kind != "type":
                raise
            return items
        like = Constant(None, type_)
        return [
            self.common([item, like], "IN")[0][0] if alone else item for item, alone in zip(items, plain, strict=True)
        ]

    def case_operand(self, operand: Expression) -> Expression:
        return typed(operand, TEXT) if untyped(operand) else operand

    def truth(self, node: Expression, what: str = "condition") -> Expression:
        if untyped(node):
            return self.to(node, BOOLEAN)
        if node.type.sort is not Sort.BOOLEAN:
            raise type_error(f"argument of {what} must be boolean, not {node.type}")
        return node

    def bound(self, node: Expression, what: str) -> Expression:
        if node.type.sort not in (Sort.INTEGER, Sort.NULL):
            raise outside(f"{what} that is no integer")
        return self.apply(_BOUND, (node,), BIGINT)

    # Casts and storing

    def cast(self, node: Expression, type_: Type) -> Expression:
        target, have = self.column(type_), node.type
        if have.sort in UNTYPED:
            result = self.to(node, target)
        elif have.sort is Sort.TEXT:
            result = self.from_text(node, target)
        elif target.sort is Sort.TEXT:
            result = self.to_text(node)
        elif have.sort is target.sort is not Sort.INTEGER or (have.sort in TIMES and target.sort in TIMES):
            result = self.to(node, target)
        elif have.sort in NUMBERS and target.sort in NUMBERS:
            result = self.number(node, target)
        elif have.sort is Sort.BOOLEAN and target == INTEGER:
            result = self.apply(_BOOLEAN_TO_INTEGER, (node,), target)
        elif have == INTEGER and target.sort is Sort.BOOLEAN:
            result = self.apply(_INTEGER_TO_BOOLEAN, (node,), target)
        else:
            raise type_error(f"cannot cast type {have} to {target}")
        return self.sized(result, type_, _CUT_TEXT)

    def number(self, node: Expression, target: ValueType) -> Expression:
        have = node.type.sort
        if target.sort is Sort.INTEGER:
            if have is Sort.INTEGER and node.type.bits <= target.bits:
                return typed(node, target)
            return self.apply(_NARROWED[have][target.bits], (node,), target)
        if target.sort is Sort.DECIMAL and have is Sort.FLOAT:
            return self.apply(_FLOAT_TO_DECIMAL, (node,), target)
        return self.to(node, target)

    def sized(self, node: Expression, type_: Type, fit_text: Primitive) -> Expression:
        if type_.kind is Kind.DECIMAL and type_.precision is not None:
            sizes = (Constant(type_.precision, INTEGER), Constant(type_.scale or 0, INTEGER))
            return self.apply(_FITTED_DECIMAL, (node, *sizes), node.type)
        if type_.kind in (Kind.TIMESTAMP, Kind.ZONED) and type_.precision is not None:
            return self.apply(_FITTED_TIMESTAMP, (node, Constant(type_.precision, INTEGER)), node.type)
        if type_.kind is Kind.TEXT and type_.length is not None:
            fit = _FIXED[fit_text] if type_.fixed else fit_text
            return self.apply(fit, (node, Constant(type_.length, INTEGER)), node.type)
        return node

    def stored(self, node: Expression, column: TableColumn) -> Expression:
        target, have = self.column(column.type), node.type
        if have.sort in UNTYPED:
            result = self.to(node, target)
        elif target.sort is Sort.TEXT:
            result = self.to_text(node)
        elif have.sort in NUMBERS and target.sort in NUMBERS:
            result = self.number(node, target)
        elif have.sort in TIMES and target.sort in TIMES:
            result = as_time(self, node, target)
        elif have.sort is target.sort:
            result = node
        else:
            raise type_error(f"column {column.name} is of type {target}, but the expression is of type {have}")
        return self.sized(result, column.type, _FITTED_TEXT)

    # Functions

    def call(self, function: Function, arguments: list[Expression]) -> Expression:
        match function:
            case Function.COALESCE | Function.GREATEST | Function.LEAST:
                nodes, type_ = self.common(arguments, function.value.upper())
                if function is Function.COALESCE:
                    return Coalesce(tuple(nodes), nodes[-1].type)
                return Apply(_EXTREMES[function], tuple(nodes), type_)
            case Function.NULLIF:
                left, right = arguments
                (left_same, right_same), _ = self.common([left, right], "NULLIF")
                # It has operators for two kinds of times, and none for two kinds of numbers.
                value = left if left.type.sort in (left_same.type.sort, *TIMES) else left_same
                equal = self.compared(Binary.EQUAL, left_same, right_same)
                return Choose(((equal, Constant(None, value.type)),), value, value.type)
            case Function.CONCAT:
                return self.apply(_CONCAT, [self._concatenated(argument) for argument in arguments], TEXT)
            case Function.LOWER | Function.UPPER | Function.TRIM | Function.CHARACTER_LENGTH:
                length = function is Function.CHARACTER_LENGTH
                text = self._text(function, arguments[0])
                return self.apply(TEXT_FUNCTIONS[function], (text,), INTEGER if length else TEXT)
            case Function.SUBSTRING:
                bounds = [self._integer(function, bound) for bound in arguments[1:]]
                return self.apply(_SUBSTRING, [self._text(function, arguments[0]), *bounds], TEXT)
            case Function.ABS | Function.CEILING | Function.FLOOR | Function.ROUND | Function.SIGN:
                return self._numeric(function, arguments)
            case Function.NOW:
                return Clock(_NOW, ZONED)
            case Function.IF:
                raise type_error("function if does not exist")

    def _concatenated(self, node: Expression) -> Expression:
        """As ``concat`` shows a value: a null is nothing, true is ``t``."""
        if node.type.sort is Sort.BOOLEAN:
            return self.apply(_TRUTH_LETTER, (node,), TEXT)
        return self.to_text(node)

    def _text(self, function: Function, node: Expression) -> Expression:
        if node.type.sort not in (*UNTYPED, Sort.TEXT):
            raise type_error(f"function {function.value}({node.type}) does not exist")
        return self.to_text(node)

    def _integer(self, function: Function, node: Expression) -> Expression:
        if untyped(node):
            return self.to(node, INTEGER)
        if node.type.sort is not Sort.INTEGER or node.type.bits > 32:
            raise type_error(f"function {function.value}(…, {node.type}) does not exist")
        return node

    def _numeric(self, function: Function, arguments: list[Expression]) -> Expression:
        operand = arguments[0]
        if untyped(operand):
            operand = self.to(operand, DECIMAL if len(arguments) == 2 else FLOAT)
        if operand.type.sort not in NUMBERS:
            raise type_error(f"function {function.value}({operand.type}) does not exist")
        if function is Function.ROUND and len(arguments) == 2:
            if operand.type.sort is Sort.FLOAT:
                raise type_error("function round(double precision, integer) does not exist")
            places = self._integer(function, arguments[1])
            return self.apply(_ROUND_DECIMAL, (self.to(operand, DECIMAL), places), DECIMAL)
        if len(arguments) != 1:
            raise outside(f"{function.value} with {len(arguments)} arguments")
        if function is Function.ABS:
            integer = operand.type.sort is Sort.INTEGER
            return self.apply(
                _ON_INTEGERS[operand.type.bits]["abs"] if integer else _ABSOLUTE_REAL, (operand,), operand.type
            )
        if operand.type.sort is Sort.INTEGER:
            # An integer becomes double precision for these, the preferred type among those that have them.
            operand = self.to(operand, FLOAT)
        if function is Function.ROUND and operand.type.sort is Sort.DECIMAL:
            return self.apply(_ROUND_DECIMAL, (operand, Constant(0, INTEGER)), DECIMAL)
        # A single float gives a double.
        return self.apply(_ROUNDING[function, operand.type.sort], (operand,), replace(operand.type, bits=64))

    # Aggregates, keys

    def aggregate(self, aggregation: Aggregation, operand: Expression) -> AggregateForm:
        if aggregation is Aggregation.COUNT:
            return AggregateForm(len, BIGINT, operand, nonnull=True)
        if aggregation in (Aggregation.MIN, Aggregation.MAX):
            if untyped(operand):
                operand = typed(operand, TEXT)
            if operand.type.sort is Sort.BOOLEAN:
                raise type_error(f"function {aggregation.value}(boolean) does not exist")
            return AggregateForm(pg.minimum if aggregation is Aggregation.MIN else pg.maximum, operand.type, operand)
        if operand.type.sort not in NUMBERS:
            raise type_error(f"function {aggregation.value}({operand.type}) does not exist or is not unique")
        adding = aggregation is Aggregation.SUM
        if operand.type.sort is Sort.FLOAT:
            if operand.type.bits == 32:
                raise outside("SUM or AVG of a float of 32 bits", "cast it to double precision")
            return AggregateForm(pg.sum_floats if adding else pg.average_floats, FLOAT, operand)
        if operand.type.sort is Sort.INTEGER and operand.type.bits < 64 and adding:
            return AggregateForm(pg.sum_integers, BIGINT, operand)
        return AggregateForm(numbers.decimal_total if adding else pg.average_decimals, DECIMAL, operand)

    def key(self, node: Expression) -> Expression:
        return node

    def probe(self, column: ValueType, node: Expression) -> Expression | None:
        if untyped(node):
            return self.to(node, column)
        exact = {Sort.INTEGER, Sort.DECIMAL}
        if column.sort is node.type.sort or (column.sort in exact and node.type.sort in exact):
            return node
        return None

    def equals_differ(self, node: Expression) -> bool:
        return node.type.sort is Sort.FLOAT or (node.type.sort is Sort.DECIMAL and not is_stored(node))

    def check_arranging(self, node: tx.Expression) -> None:
        negative = isinstance(node, tx.UnaryOperation) and node.operator is Unary.NEGATE
        inner = node.operand if isinstance(node, tx.UnaryOperation) and negative else node
        if isinstance(inner, tx.Literal) and (
            isinstance(inner.value, (Decimal, float)) or (negative and type(inner.value) is int)
        ):
            raise type_error("a number in ORDER BY or GROUP BY must be that of a column")
