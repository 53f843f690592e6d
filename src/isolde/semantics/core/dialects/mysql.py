"""MySQL and MariaDB, strict mode: numbers and texts convert into each other; decimals carry a static scale.

In a statement that changes tables (``changing``) a text that is no number, and a divisor of zero, are errors; in a query they
are 0 and null.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from isolde.errors import ExecutionError, OutsideFragment
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
)
from isolde.semantics.core.dialects.times import as_time
from isolde.semantics.core.evaluate import constant_value
from isolde.semantics.core.nodes import (
    Apply,
    Choose,
    Clock,
    Coalesce,
    Constant,
    Expression,
    Scalar,
    below,
    is_constant,
    is_null,
    is_stored,
)
from isolde.semantics.core.primitives import SAME, TRUTH_TO_NUMBER, Primitive, primitive
from isolde.semantics.core.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    FLOAT,
    INTEGER,
    TEXT,
    TIMES,
    TIMESTAMP,
    UNSIGNED,
    Sort,
    ValueType,
    outside,
    type_error,
)
from isolde.semantics.core.values import mysql as my
from isolde.semantics.core.values import numbers, texts
from isolde.tx import expressions as tx
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Aggregation, Binary, Function, Unary
from isolde.tx.queries import Item, Select
from isolde.tx.schema import Column as TableColumn
from isolde.tx.schema import Kind, Type
from isolde.tx.walk import has_aggregate, parts

SCALE_MAX = 38
INCREMENT = 4
"""``div_precision_increment``."""

ROUNDED_FLOAT = ValueType(
    Sort.FLOAT, unconvertible="a rounded floating-point number, or a NULL that was computed with, in MySQL"
)
"""Such a double has a scale, and so has what is computed from it: 4 more for a quotient, else the greater of both."""


INTEGER_DIGITS_MAX = 18
"""FLOOR and CEILING of a decimal are an integer, unless it has room for more digits than these before the point."""


def decimal_of(scale: int, digits: int | None = None) -> ValueType:
    return ValueType(Sort.DECIMAL, scale=min(scale, SCALE_MAX), digits=digits)


def integer_of(unsigned: bool) -> ValueType:
    return UNSIGNED if unsigned else BIGINT


def floating(types: Sequence[ValueType]) -> ValueType:
    """The type of a double that comes of numbers of these types."""
    free = any(type_.sort is Sort.FLOAT and not type_.unconvertible for type_ in types)
    return FLOAT if free else replace(ROUNDED_FLOAT, scale=max(type_.scale for type_ in types))


# Primitives

_ON_INTEGERS = {unsigned: integer_operations("mysql", 64, unsigned) for unsigned in (False, True)}


def _dividing(name: str, function: Callable[..., Any]) -> dict[bool, Primitive]:
    """By ``changing``: null for a divisor of zero in a query, an error in a statement that changes tables."""
    return {
        False: primitive(f"mysql {name}", function, nullable=True, errors="out-of-range"),
        True: primitive(
            f"mysql {name}, changing",
            my.checked_divisor(function),
            errors="division-by-zero out-of-range",
            partial=True,
        ),
    }


_FLOAT_QUOTIENT = _dividing("/ float", my.float_quotient)
_DECIMAL_QUOTIENT = _dividing("/ decimal", my.decimal_quotient)
_INTEGER_PART = _dividing("div", my.integer_part)
_REMAINDER = _dividing("%", my.remainder)


def _reading(name: str, lenient: Callable[[str], Any], strict: Callable[[str], Any]) -> dict[bool, Primitive]:
    """By ``changing``: what does not belong to a number is left out in a query, refused in a statement that changes tables."""
    return {False: primitive(f"mysql {name}", lenient), True: primitive(f"mysql {name}, changing", strict)}


_TEXT_TO_NUMBER = _reading("text to number", my.text_number, my.strict_text_number)
_TEXT_TO_INTEGER = _reading("text to integer", my.text_integer, my.strict_text_integer)
_TEXT_TO_NEAREST = _reading("text to nearest integer", my.text_nearest, my.strict_text_nearest)
_TO_FLOAT = primitive("mysql number to float", float)
_TO_DECIMAL = primitive("mysql integer to decimal", Decimal)
_DECIMAL_TO_INTEGER = primitive("mysql decimal to integer", numbers.nearest_integer)
_FLOAT_TO_INTEGER = primitive("mysql float to integer", numbers.nearest_even, errors="out-of-range")
_FLOAT_TO_BITS = primitive("mysql float to bits", lambda number: numbers.nearest_integer(Decimal(number)))
_WRAP_UNSIGNED = primitive("mysql to unsigned", my.wrap_unsigned)
_WRAP_SIGNED = primitive("mysql to signed", my.wrap_signed)
_CLAMPED = primitive("mysql clamp", my.clamp)
_INTEGER_TO_TEXT = primitive("mysql integer to text", str)
_DECIMAL_TO_TEXT = primitive(
    "mysql decimal to text", lambda number, scale: texts.decimal_text(numbers.rounded(number, scale))
)
_FLOAT_TO_TEXT = primitive("mysql float to text", lambda number: texts.float_text(number, "0", "DECIMAL"))
_TIMESTAMP_TO_TEXT = primitive("mysql timestamp to text", my.timestamp_text)
_DATE_TO_TEXT = primitive("mysql date to text", date.isoformat)
_TEXT_TO_TIMESTAMP = primitive("mysql text to timestamp", my.from_timestamp)
_ROUNDED = primitive("mysql decimal as it is shown", numbers.rounded)
_BIT_NOT = primitive("mysql ~", lambda value: value ^ 0xFFFFFFFFFFFFFFFF, "({0} ^ 0xFFFFFFFFFFFFFFFF)")
_BITS = {
    Binary.BIT_AND: primitive("mysql &", lambda left, right: left & right, "({0} & {1})"),
    Binary.BIT_OR: primitive("mysql |", lambda left, right: left | right, "({0} | {1})"),
    Binary.BIT_XOR: primitive("mysql ^", lambda left, right: left ^ right, "({0} ^ {1})"),
    Binary.SHIFT_LEFT: primitive(
        "mysql <<", lambda number, count: (number << count) & (2**64 - 1) if 0 <= count < 64 else 0
    ),
    Binary.SHIFT_RIGHT: primitive("mysql >>", lambda number, count: number >> count if 0 <= count < 64 else 0),
}
_LIKE = primitive("mysql like", my.like)
_FOLD = primitive("mysql text compared", my.fold)
_SORT_TEXT = primitive("mysql text ordered", my.sort_text)
_NOT_ZERO = primitive("mysql truth of a number", lambda value: value != 0, "({0} != 0)")
_UNKNOWN_NUMBER = primitive("mysql arithmetic with null", lambda *_: None, nullable=True)
_STORED_INTEGER = primitive("mysql stored integer", my.stored_integer, errors="conversion out-of-range")
_WITHIN = {
    (bits, unsigned): primitive(
        f"mysql stored {'unsigned' if unsigned else 'signed'} integer of {bits} bits",
        numbers.within(bits, unsigned),
        errors="out-of-range",
    )
    for bits, unsigned in numbers.BOUNDS
}
_STORED_DECIMAL = primitive("mysql stored decimal", my.stored_decimal, errors="conversion out-of-range")
_CAST_DECIMAL = primitive(
    "mysql cast to decimal, changing", my.stored_decimal, errors="conversion out-of-range", partial=True
)
_CLAMPED_DECIMAL = primitive("mysql cast to decimal", my.clamped_decimal)
_STORED_FLOAT = primitive("mysql stored float", my.stored_float, errors="conversion out-of-range")
_SINGLE = primitive("mysql float of 32 bits", numbers.single)
_STORED_TEXT = primitive("mysql stored varchar(n)", texts.fitted_text, errors="out-of-range")
_STORED_FIXED = primitive("mysql stored char(n)", my.stored_fixed, errors="out-of-range")
_STORED_TIMESTAMP = primitive("mysql stored datetime", my.stored_timestamp, errors="conversion")
_STORED_MOMENT = primitive("mysql stored timestamp", my.stored_moment, errors="conversion")
_CUT = primitive("mysql cast to char(n)", lambda text, length: text[:length], "{0}[:{1}]")
_UNCUT = primitive("mysql cast to char(n), changing", my.uncut, errors="conversion", partial=True)
_CONCAT = primitive("mysql concat", lambda *texts: "".join(texts))
_SUBSTRING = primitive("mysql substring", my.substring)
_EXTREMES = {
    Function.GREATEST: (
        primitive("mysql greatest", lambda *values: max(values)),
        primitive("mysql greatest text", lambda *values: max(values, key=my.sort_text)),
    ),
    Function.LEAST: (
        primitive("mysql least", lambda *values: min(values)),
        primitive("mysql least text", lambda *values: min(values, key=my.sort_text)),
    ),
}
_ABSOLUTE_REAL = primitive("mysql abs decimal or float", abs)
_SIGN = primitive("mysql sign", lambda number: int(number > 0) - int(number < 0))
_STEP_FLOAT = {
    Function.FLOOR: primitive("mysql floor float", lambda number: float(math.floor(number))),
    Function.CEILING: primitive("mysql ceiling float", lambda number: float(math.ceil(number))),
}
_STEP_INTEGER = {
    Function.FLOOR: primitive("mysql floor to integer", math.floor),
    Function.CEILING: primitive("mysql ceiling to integer", math.ceil),
}
_STEP_DECIMAL = {
    Function.FLOOR: primitive("mysql floor to decimal", lambda value: Decimal(math.floor(value))),
    Function.CEILING: primitive("mysql ceiling to decimal", lambda value: Decimal(math.ceil(value))),
}
_ROUND_INTEGER = primitive("mysql round integer", lambda number, places: int(numbers.rounded(Decimal(number), places)))
_ROUND_FLOAT = primitive("mysql round float", lambda number: float(numbers.nearest_even(number)))
_NOW = primitive("mysql now", lambda time: time.replace(microsecond=0), "{0}.replace(microsecond=0)")
_BOUND = primitive("mysql limit", my.bound, strict=False, errors="out-of-range")
_AVERAGES = {scale: my.average_exact(scale) for scale in range(SCALE_MAX + 1)}


class MySQL(Rules):
    dialect = Dialect.MYSQL
    sent = MappingProxyType({bool: int})
    correlates_derived_tables = False
    scalar_ahead = True
    computes_both_bounds = True
    assigns_one_by_one = True
    calls_answer_queries = True
    counts_changed = True
    needs_defaults = True
    shows_rows_before = True
    ids = IdSource.RESERVED
    checks_references_by_row = True
    counts_replaced = True
    ignore_bends_values = True
    orders_nulls = False
    in_takes_limit = False
    returns_updated = False
    has_on_duplicate_key = True
    folds_texts = True
    rounds_distinct_floats = True
    # MariaDB's text of an EXISTS is a binary one, which compares by its bytes.
    exists_type = ValueType(Sort.BOOLEAN, unconvertible="EXISTS taken as a text in MySQL")
    integer_type = BIGINT

    # Types

    def column(self, type_: Type) -> ValueType:
        match type_.kind:
            case Kind.BOOLEAN:
                return ValueType(Sort.INTEGER, bits=8)
            case Kind.INTEGER:
                return ValueType(Sort.INTEGER, bits=type_.bits or 32, unsigned=type_.unsigned)
            case Kind.DECIMAL:
                return decimal_of(type_.scale or 0, (type_.precision or 10) - (type_.scale or 0))
            case Kind.TIMESTAMP:
                return replace(TIMESTAMP, scale=6 if type_.precision is None else type_.precision)
            case Kind.ZONED:
                raise outside("a column of times with a zone in MySQL", "use TIMESTAMP or DATETIME")
            case kind:
                return ValueType(Sort(kind.value))

    def given(self, value: Any) -> ValueType:
        type_ = self.literal(value).type
        # The same for all values that run the same code: what differs is told by the shape that the store finds code by.
        return replace(type_, digits=None) if type_.digits is not None else type_

    def variable(self, type_: ValueType) -> ValueType:
        return replace(type_, digits=None, unconvertible="")

    def literal(self, value: Any) -> Constant:
        match value:
            case None:
                return self.null()
            case bool():
                value, type_ = int(value), BIGINT
            case int():
                type_ = integer_of(value >= 2**63)
                if not -(2**63) <= value < 2**64:
                    value, type_ = Decimal(value), decimal_of(0, len(str(abs(value))))
            case Decimal():
                type_ = decimal_of(numbers.scale_of(value), len(str(abs(numbers.truncated(value)))))
            case float():
                type_ = FLOAT
            case str():
                type_ = TEXT
            case datetime():
                if value.tzinfo is not None:
                    raise outside("a time with a zone in MySQL", "give it without its zone")
                type_ = replace(TIMESTAMP, scale=6 if value.microsecond else 0)
            case date():
                type_ = DATE
        return Constant(value, type_)

    # Conversions

    def value(self, node: Expression) -> Expression:
        if node.type.sort is not Sort.BOOLEAN:
            return node
        type_ = replace(BIGINT, unconvertible=node.type.unconvertible)
        return self.apply(TRUTH_TO_NUMBER, (node,), type_)

    def number(self, node: Expression) -> Expression:
        """A number of some kind: a text becomes a double."""
        node = self.value(node)
        if node.type.sort is Sort.TEXT:
            self.refuse_unconvertible(node, "make numbers of what it is computed from")
            if self.changing and isinstance(node, Constant) and isinstance(node.value, str):
                my.strict_text_number(node.value)
            return self.apply(_TEXT_TO_NUMBER[self.changing], (node,), FLOAT)
        if node.type.sort in TIMES:
            raise outside("a time as a number", "compare it to a time")
        return node

    def refuse_unconvertible(self, node: Expression, instead: str) -> None:
        if node.type.unconvertible:
            raise outside(node.type.unconvertible, instead)

    def double(self, node: Expression) -> Expression:
        node = self.number(node)
        return node if node.type.sort in (Sort.FLOAT, Sort.NULL) else self.apply(_TO_FLOAT, (node,), FLOAT)

    def exact(self, node: Expression) -> Expression:
        if node.type.sort is not Sort.INTEGER:
            return node
        return self.apply(_TO_DECIMAL, (node,), decimal_of(0))

    def integer(self, node: Expression) -> Expression:
        """As DIV and casts take it: 64 bits, signed or not."""
        node = self.value(node)
        match node.type.sort:
            case Sort.TEXT:
                self.refuse_unconvertible(node, "make numbers of what it is computed from")
                return self.apply(_TEXT_TO_INTEGER[self.changing], (node,), BIGINT)
            case Sort.DECIMAL:
                return self.apply(_DECIMAL_TO_INTEGER, (node,), BIGINT)
            case Sort.FLOAT:
                return self.apply(_FLOAT_TO_INTEGER, (node,), BIGINT)
            case Sort.DATE | Sort.TIMESTAMP:
                raise outside("a time as a number", "compare it to a time")
            case _:
                return node

    def to_text(self, node: Expression) -> Expression:
        node = self.value(node)
        match node.type.sort:
            case Sort.TEXT | Sort.NULL:
                return node
            case Sort.INTEGER:
                self.refuse_unconvertible(node, "cast it to CHAR")
                return self.apply(_INTEGER_TO_TEXT, (node,), TEXT)
            case Sort.DECIMAL:
                return self.apply(_DECIMAL_TO_TEXT, (node, Constant(node.type.scale, INTEGER)), TEXT)
            case Sort.FLOAT:
                if node.type.scale:
                    raise outside(
                        f"the text of {node.type.unconvertible}", "cast it to DOUBLE: it has zeros at its end"
                    )
                return self.apply(_FLOAT_TO_TEXT, (node,), TEXT)
            case Sort.DATE:
                return self.apply(_DATE_TO_TEXT, (node,), TEXT)
            case Sort.TIMESTAMP:
                return self.apply(_TIMESTAMP_TO_TEXT, (node, Constant(node.type.scale, INTEGER)), TEXT)
            case sort:
                raise type_error(f"{sort} as text")

    def common(self, nodes: Sequence[Expression], what: str) -> tuple[list[Expression], ValueType]:
        """The type of a CASE or COALESCE: a text if one is, else the widest number."""
        nodes = [self.value(node) for node in nodes]
        types = [node.type for node in nodes if node.type.sort is not Sort.NULL]
        sorts = {type_.sort for type_ in types}
        signs = {type_.unsigned for type_ in types}
        if len(types) < len(nodes) and what != "IF":
            # A NULL that is written out is a signed number; IF alone looks only at its other branch.
            signs.add(False)
        if not sorts:
            return list(nodes), self.null().type
        if sorts & {*TIMES} and sorts - {*TIMES, Sort.TEXT}:
            raise outside(f"{what} of times and other values")
        if Sort.TEXT in sorts:
            return [typed(self.to_text(node), TEXT) for node in nodes], TEXT
        if sorts <= {*TIMES}:
            time = DATE if len(sorts) == 1 and Sort.DATE in sorts else TIMESTAMP
            time = replace(time, scale=max(type_.scale for type_ in types))
            return [node if node.type.sort is Sort.NULL else as_time(self, node, time) for node in nodes], time
        if Sort.FLOAT in sorts:
            float_ = floating(types)
            if float_.unconvertible and any(map(has_hidden_digits, nodes)):
                raise outside(
                    f"{what} of computed decimals and {float_.unconvertible}", "write NULL, or cast it to DOUBLE"
                )
            return [self.double(node) for node in nodes], float_
        if Sort.DECIMAL in sorts or len(signs) > 1:
            scale = max(type_.scale for type_ in types)
            # Signed and unsigned integers meet in a decimal; marked, because a cast to UNSIGNED still reads their bits.
            whole = replace(decimal_of(scale), unsigned=Sort.DECIMAL not in sorts)
            return [self.exact(node) for node in nodes], whole
        bits = max(type_.bits for type_ in types)
        return list(nodes), replace(types[0], bits=bits, unconvertible="")

    def scaled(self, node: Expression, scale: int) -> Expression:
        if node.type.sort is Sort.NULL or (node.type.scale == scale and is_stored(node)):
            return node
        return self.apply(_ROUNDED, (node, Constant(scale, INTEGER)), decimal_of(scale, node.type.digits))

    # Operations

    def unary(self, operator: Unary, operand: Expression) -> Expression:
        if operator is Unary.NOT:
            return self.negation(operand)
        if operator is Unary.BIT_NOT:
            return self.apply(_BIT_NOT, (self.word(operand),), UNSIGNED)
        if operator is Unary.PLUS:
            return self.value(operand)
        operand = self.number(operand)
        if isinstance(operand, Constant) and operand.value is not None:
            value = operand.value
            return self.literal(numbers.positive_zero(-value) if isinstance(value, Decimal) else -value)
        match operand.type.sort:
            case Sort.INTEGER:
                return self.apply(_ON_INTEGERS[False]["negate"], (operand,), BIGINT)
            case Sort.DECIMAL:
                return self.apply(NEGATED_DECIMAL, (operand,), operand.type)
            case _:
                return self.apply(NEGATED_FLOAT, (operand,), floating([operand.type]))

    def negated_constant(self, node: tx.Expression, operand: Expression) -> Expression | None:
        """MariaDB makes a decimal of the negative of a negative constant, because the least integer has no opposite."""
        if operand.type.sort is not Sort.INTEGER or _written(node):
            return None
        inside = list(below(operand))
        if any(isinstance(part, Scalar) and part.query.source is None for part in inside):
            raise outside(
                "a minus before a query without FROM in MySQL", "write what it selects: a constant may become one"
            )
        if not is_constant(operand):
            return None
        try:
            value = constant_value(operand)
        except (ExecutionError, OutsideFragment):
            return None
        return None if value is None or value >= 0 else self.literal(Decimal(-value))

    def word(self, node: Expression) -> Expression:
        """As the bit operators take it: by way of a decimal, so that halves go away from zero."""
        node = self.value(node)
        if node.type.sort is Sort.FLOAT:
            node = self.apply(_FLOAT_TO_BITS, (node,), BIGINT)
        elif node.type.sort is Sort.TEXT:
            self.refuse_unconvertible(node, "make numbers of what it is computed from")
            node = self.apply(_TEXT_TO_NEAREST[self.changing], (node,), BIGINT)
        else:
            node = self.integer(node)
        return node if node.type.unsigned else self.apply(_WRAP_UNSIGNED, (node,), UNSIGNED)

    def binary(self, operator: Binary, left: Expression, right: Expression) -> Expression:
        match operator:
            case Binary.CONCATENATE:
                # Of another dialect: the front end reads MySQL's own || as OR.
                return self.call(Function.CONCAT, [left, right])
            case Binary.LIKE:
                return self.apply(_LIKE, (self.to_text(left), self.to_text(right)), BOOLEAN)
            case Binary.BIT_AND | Binary.BIT_OR | Binary.BIT_XOR | Binary.SHIFT_LEFT | Binary.SHIFT_RIGHT:
                return self.apply(_BITS[operator], (self.word(left), self.word(right)), UNSIGNED)
            case Binary.INTEGER_DIVIDE:
                left, right = self.number(left), self.number(right)
                unsigned = left.type.unsigned or right.type.unsigned
                if Sort.FLOAT in (left.type.sort, right.type.sort):
                    raise outside("DIV of floating-point numbers", "cast them to DECIMAL")
                result = self.apply(_INTEGER_PART[self.changing], (left, right), BIGINT)
                return self.apply(_ON_INTEGERS[unsigned]["fit"], (result,), integer_of(unsigned))
            case _:
                return self.arithmetic(operator, left, right)

    def arithmetic(self, operator: Binary, left: Expression, right: Expression) -> Expression:
        left, right = self.number(left), self.number(right)
        sorts, scales = {left.type.sort, right.type.sort}, (left.type.scale, right.type.scale)
        if Sort.NULL in sorts:
            # A null without a type makes the result a double.
            float_ = floating([left.type, right.type])
            type_ = replace(float_, scale=float_.scale + INCREMENT * (operator is Binary.DIVIDE))
            return self.apply(_UNKNOWN_NUMBER, (left, right), type_)
        if Sort.FLOAT in sorts:
            sides, float_ = (self.double(left), self.double(right)), floating([left.type, right.type])
            longer = operator is Binary.DIVIDE or (operator is Binary.MULTIPLY and min(scales) > 0)
            if float_.unconvertible and (longer or has_hidden_digits(left) or has_hidden_digits(right)):
                raise outside(f"more digits than there are in {float_.unconvertible}", "cast it to DOUBLE")
            if operator is Binary.DIVIDE:
                return self.apply(_FLOAT_QUOTIENT[self.changing], sides, float_)
            if operator is Binary.MODULO:
                return self.apply(_REMAINDER[self.changing], sides, float_)
            return self.apply(FLOAT_ARITHMETIC[operator], sides, float_)
        if operator is Binary.DIVIDE:
            scale = min(scales[0] + INCREMENT, SCALE_MAX)
            least = [Constant(node.type.scale if is_stored(node) else 0, INTEGER) for node in (left, right)]
            sides = (self.exact(left), self.exact(right))
            return self.apply(_DECIMAL_QUOTIENT[self.changing], (*sides, *least), decimal_of(scale))
        unsigned = left.type.unsigned or right.type.unsigned
        if Sort.DECIMAL in sorts:
            sides = (self.exact(left), self.exact(right))
            scale = min(sum(scales) if operator is Binary.MULTIPLY else max(scales), SCALE_MAX)
            type_ = decimal_of(scale)
            if operator is Binary.MODULO:
                return self.apply(_REMAINDER[self.changing], sides, type_)
            return self.apply(DECIMAL_ARITHMETIC[operator], sides, type_)
        if operator is Binary.MODULO:
            return self.apply(_REMAINDER[self.changing], (left, right), integer_of(left.type.unsigned))
        return self.apply(_ON_INTEGERS[unsigned][operator.value], (left, right), integer_of(unsigned))

    def compared(self, operator: Binary, left: Expression, right: Expression) -> Expression:
        """Decimals are compared as they would be shown: 1 / 3 = 0.3333."""
        return self.matching(operator, self.as_shown(left), self.as_shown(right))

    def as_shown(self, node: Expression) -> Expression:
        decimal = node.type.sort is Sort.DECIMAL and not isinstance(node, Constant)
        return self.scaled(node, node.type.scale) if decimal else node

    def matching(self, operator: Binary, left: Expression, right: Expression) -> Expression:
        one, other = self.comparable([left, right])
        if operator is Binary.SAME:
            return self.apply(SAME, (one, other), BOOLEAN)
        return self.equation(COMPARISONS[operator], one, other, (left, right))

    def comparable(self, nodes: Sequence[Expression]) -> list[Expression]:
        """Texts with texts, times with times, all else as numbers: as doubles if a text or a double is among them."""
        nodes = [self.value(node) for node in nodes]
        sorts = {node.type.sort for node in nodes} - {Sort.NULL}
        if sorts <= {Sort.TEXT}:
            return [self.apply(_FOLD, (node,), TEXT) for node in nodes]
        if sorts & {*TIMES}:
            if sorts - {*TIMES, Sort.TEXT}:
                raise outside("a time compared to a number")
            return self.same_times([self.time(node) for node in nodes])
        if sorts & {Sort.TEXT, Sort.FLOAT}:
            return [self.double(node) for node in nodes]
        return list(nodes)

    def between(self, operand: Expression, low: Expression, high: Expression) -> Expression:
        sorts = {self.value(node).type.sort for node in (operand, low, high)} - {Sort.NULL}
        if Sort.TEXT in sorts and not sorts <= {*TIMES, Sort.TEXT}:
            raise outside("BETWEEN of texts and numbers", "compare with >= and <=")
        return super().between(operand, low, high)

    def truth(self, node: Expression, what: str = "condition") -> Expression:  # noqa: ARG002
        if node.type.sort is Sort.BOOLEAN:
            return node
        return self.apply(_NOT_ZERO, (self.number(node),), BOOLEAN)

    def bound(self, node: Expression, what: str) -> Expression:
        node = self.value(node)
        if node.type.sort not in (Sort.INTEGER, Sort.NULL):
            raise outside(f"{what} that is no integer")
        return Apply(_BOUND, (node,), BIGINT)

    def time(self, node: Expression) -> Expression:
        """A text as a time; one that is written there and has no time of day is a date."""
        if node.type.sort is not Sort.TEXT:
            return node
        if not isinstance(node, Constant):
            return self.apply(_TEXT_TO_TIMESTAMP, (node,), TIMESTAMP)
        time = my.from_timestamp(str(node.value))
        return Constant(time.date(), DATE) if time == datetime(*time.timetuple()[:3]) else Constant(time, TIMESTAMP)

    def same_times(self, nodes: list[Expression]) -> list[Expression]:
        if all(node.type.sort in (Sort.DATE, Sort.NULL) for node in nodes):
            return nodes
        return [as_time(self, node, TIMESTAMP) if node.type.sort is Sort.DATE else node for node in nodes]

    # Casts and storing

    def cast(self, node: Expression, type_: Type) -> Expression:
        node = self.value(node)
        match type_.kind:
            case Kind.TEXT:
                return self._cast_text(node, type_.length)
            case Kind.INTEGER | Kind.BOOLEAN:
                sort, whole = node.type.sort, node.type.unsigned
                result = integer_of(type_.unsigned)
                node = self.integer(node)
                if sort is Sort.INTEGER or sort is Sort.NULL:
                    return self.apply(_WRAP_UNSIGNED if type_.unsigned else _WRAP_SIGNED, (node,), result)
                if (sort is Sort.TEXT or whole) and type_.unsigned:
                    return self.apply(_WRAP_UNSIGNED, (node,), result)
                return self.apply(_CLAMPED, (node, Constant(type_.unsigned, BOOLEAN)), result)
            case Kind.DECIMAL:
                how = _CAST_DECIMAL if self.changing else _CLAMPED_DECIMAL
                sizes = (Constant(type_.precision or 10, INTEGER), Constant(type_.scale or 0, INTEGER))
                return self.apply(how, (self.number(node), *sizes), self.column(type_))
            case Kind.FLOAT:
                double = typed(self.double(node), FLOAT)
                return double if type_.bits != 32 else self.apply(_SINGLE, (double,), FLOAT)
            case Kind.DATE | Kind.TIMESTAMP | Kind.ZONED:
                if node.type.sort not in (*TIMES, Sort.TEXT, Sort.NULL):
                    raise outside("a number as a time")
                if node.type.sort is Sort.TEXT:
                    node = self.apply(_TEXT_TO_TIMESTAMP, (node,), TIMESTAMP)
                return self.at_precision(node, type_)

    def _cast_text(self, node: Expression, length: int | None) -> Expression:
        text = self.to_text(typed(node, replace(node.type, unconvertible="")))
        # As a number it is read by rules of its own: CAST(0.5 AS CHAR) + 0 is 0, and equal to 1.
        type_ = replace(TEXT, unconvertible="a CAST to CHAR taken as a number in MySQL")
        if length is None:
            return typed(text, type_)
        number = self.changing and node.type.sort is not Sort.TEXT
        return self.apply(_UNCUT if number else _CUT, (text, Constant(length, INTEGER)), type_)

    def at_precision(self, node: Expression, type_: Type) -> Expression:
        target = self.column(type_)
        if is_null(node):
            return Constant(None, target)
        if node.type.sort is Sort.DATE:
            node = as_time(self, node, target)
        if type_.kind is Kind.DATE:
            if node.type.sort is Sort.TEXT:
                node = self.apply(_STORED_TIMESTAMP, (node, Constant(6, INTEGER)), TIMESTAMP)
            return as_time(self, node, DATE)
        how = _STORED_MOMENT if type_.moment else _STORED_TIMESTAMP
        return self.apply(how, (node, Constant(target.scale, INTEGER)), target)

    def stored(self, node: Expression, column: TableColumn) -> Expression:
        node, type_ = self.value(node), column.type
        have, target = node.type, self.column(type_)
        if have.sort in TIMES and type_.kind not in (Kind.DATE, Kind.TIMESTAMP, Kind.TEXT):
            raise outside("a time stored as a number", "store it as a time")
        match type_.kind:
            case Kind.INTEGER | Kind.BOOLEAN:
                sizes = (Constant(target.bits, INTEGER), Constant(target.unsigned, BOOLEAN))
                if have.sort is Sort.INTEGER:
                    if have.bits <= target.bits and have.unsigned == target.unsigned and is_stored(node):
                        return node
                    return self.apply(_WITHIN[target.bits, target.unsigned], (node,), target)
                return self.apply(_STORED_INTEGER, (node, *sizes), target)
            case Kind.DECIMAL:
                sizes = (Constant(type_.precision or 10, INTEGER), Constant(type_.scale or 0, INTEGER))
                return self.apply(_STORED_DECIMAL, (node, *sizes), target)
            case Kind.FLOAT:
                double = self.apply(_STORED_FLOAT, (node,), target)
                return double if type_.bits != 32 else self.apply(_SINGLE, (double,), target)
            case Kind.TEXT:
                if has_hidden_digits(node):
                    raise outside("a computed decimal stored as text", "cast it to CHAR")
                text = self.to_text(node)
                fit = _STORED_FIXED if type_.fixed else _STORED_TEXT
                return self.apply(fit, (text, Constant(type_.length, INTEGER)), target) if type_.length else text
            case Kind.DATE | Kind.TIMESTAMP | Kind.ZONED:
                if have.sort not in (*TIMES, Sort.TEXT, Sort.NULL):
                    raise outside("a number stored as a time")
                return self.at_precision(node, type_)

    # Functions

    def call(self, function: Function, arguments: list[Expression]) -> Expression:
        arguments = [self.value(argument) for argument in arguments]
        match function:
            case Function.COALESCE:
                nodes, type_ = self.common(arguments, "COALESCE")
                return Coalesce(tuple(nodes), type_)
            case Function.IF:
                condition = self.truth(arguments[0])
                (yes, no), type_ = self.common(arguments[1:], "IF")
                # A NULL of CASE or COALESCE has no type; one of IF is a text.
                return Choose(((condition, yes),), no, TEXT if type_.sort is Sort.NULL else type_)
            case Function.NULLIF:
                equal = self.compared(Binary.EQUAL, *arguments)
                return Choose(((equal, Constant(None, arguments[0].type)),), arguments[0], arguments[0].type)
            case Function.GREATEST | Function.LEAST:
                return self._extreme(function, arguments)
            case Function.CONCAT:
                texts = [self.to_text(argument) for argument in arguments]
                # What comes after a null is not computed.
                nulls = [place for place, text in enumerate(texts) if is_null(text)]
                return self.apply(_CONCAT, texts[: nulls[0] + 1] if nulls else texts, TEXT)
            case Function.LOWER | Function.UPPER | Function.TRIM | Function.CHARACTER_LENGTH:
                length = function is Function.CHARACTER_LENGTH
                return self.apply(TEXT_FUNCTIONS[function], (self.to_text(arguments[0]),), BIGINT if length else TEXT)
            case Function.SUBSTRING:
                bounds = [self.integer(bound) for bound in arguments[1:]]
                return self.apply(_SUBSTRING, [self.to_text(arguments[0]), *bounds], TEXT)
            case Function.ABS | Function.CEILING | Function.FLOOR | Function.ROUND | Function.SIGN:
                return self._numeric(function, arguments)
            case Function.NOW:
                return Clock(_NOW, TIMESTAMP)

    def _extreme(self, function: Function, arguments: list[Expression]) -> Expression:
        sorts = {argument.type.sort for argument in arguments} - {Sort.NULL}
        if len(sorts) > 1 and Sort.TEXT in sorts:
            raise outside(f"{function.value} of texts and numbers", "cast them to one type")
        if not sorts:
            return self.null()
        if any(argument.type.sort is Sort.NULL for argument in arguments) and Sort.TEXT not in sorts:
            return Constant(None, floating([argument.type for argument in arguments]))
        nodes, type_ = self.common(arguments, function.value)
        plain, texts = _EXTREMES[function]
        if type_.sort is Sort.TEXT:
            # Where a number is asked for, MariaDB compares numbers: GREATEST('9', '10') + 0 is 10.
            name = f"{function.value.upper()} of texts taken as a number in MySQL"
            return self.apply(texts, nodes, ValueType(Sort.TEXT, unconvertible=name))
        return self.apply(plain, nodes, type_)

    def _numeric(self, function: Function, arguments: list[Expression]) -> Expression:
        operand = self.number(arguments[0])
        if operand.type.sort is Sort.NULL:
            operand = typed(operand, BIGINT if function is Function.SIGN else ROUNDED_FLOAT)
        sort = operand.type.sort
        if function is Function.ABS:
            how = _ON_INTEGERS[operand.type.unsigned]["abs"] if sort is Sort.INTEGER else _ABSOLUTE_REAL
            return self.apply(how, (operand,), operand.type)
        if function is Function.SIGN:
            return self.apply(_SIGN, (operand,), BIGINT)
        if function is Function.ROUND:
            return self._rounded(operand, arguments)
        if sort is Sort.FLOAT:
            return self.apply(_STEP_FLOAT[function], (operand,), ROUNDED_FLOAT)
        if sort is Sort.INTEGER:
            return operand
        if operand.type.digits is None:
            raise outside(f"{function.value.upper()} of a computed decimal in MySQL", "cast it to DECIMAL first")
        # 99.9 becomes 100.
        digits = operand.type.digits + (operand.type.scale > 0)
        if digits > INTEGER_DIGITS_MAX:
            return self.apply(_STEP_DECIMAL[function], (operand,), decimal_of(0, digits))
        return self.apply(_STEP_INTEGER[function], (operand,), BIGINT)

    def _rounded(self, operand: Expression, arguments: list[Expression]) -> Expression:
        places = 0
        if len(arguments) == 2:
            constant = arguments[1]
            if not isinstance(constant, Constant) or not isinstance(constant.value, int):
                raise outside("ROUND to a computed number of digits", "write the number of digits")
            places = constant.value
        if operand.type.sort is Sort.FLOAT:
            if places:
                raise outside("ROUND of a floating-point number to digits", "cast it to DECIMAL")
            return self.apply(_ROUND_FLOAT, (operand,), ROUNDED_FLOAT)
        if operand.type.sort is Sort.INTEGER:
            if places >= 0:
                return operand
            return self.apply(_ROUND_INTEGER, (operand, Constant(places, INTEGER)), operand.type)
        places = min(places, SCALE_MAX)
        return self.apply(_ROUNDED, (operand, Constant(places, INTEGER)), decimal_of(max(places, 0)))

    # Aggregates, keys, what is seen

    def aggregate(self, aggregation: Aggregation, operand: Expression) -> AggregateForm:
        operand = self.value(operand)
        least = aggregation is Aggregation.MIN
        if aggregation is Aggregation.COUNT:
            return AggregateForm(len, BIGINT, operand, nonnull=True)
        if aggregation in (Aggregation.MIN, Aggregation.MAX):
            if operand.type.sort is Sort.TEXT:
                return AggregateForm(my.minimum_text if least else my.maximum_text, operand.type, operand)
            type_ = TEXT if operand.type.sort is Sort.NULL else operand.type
            return AggregateForm(my.minimum if least else my.maximum, type_, operand)
        operand = self.number(operand)
        adding = aggregation is Aggregation.SUM
        if operand.type.sort is Sort.FLOAT or operand.type.sort is Sort.NULL:
            float_ = floating([operand.type])
            if float_.unconvertible and not adding:
                raise outside(f"AVG of {float_.unconvertible}", "cast it to DOUBLE")
            return AggregateForm(my.sum_floats if adding else my.average_floats, float_, operand)
        scale = operand.type.scale
        if adding:
            return AggregateForm(numbers.decimal_total, decimal_of(scale), operand)
        average = _AVERAGES[scale if is_stored(operand) else 0]
        return AggregateForm(average, decimal_of(scale + INCREMENT), operand)

    def grouped_aggregate(self, form: AggregateForm) -> AggregateForm:
        if form.operand.type.sort is not Sort.DECIMAL or is_stored(form.operand) or form.function is len:
            return form
        return replace(form, function=my.same_for_all_plans(form.function, form.operand.type.scale))

    def key(self, node: Expression) -> Expression:
        node = self.value(node)
        return self.apply(_FOLD, (node,), TEXT) if node.type.sort is Sort.TEXT else self.output(node)

    def key_part(self, type_: Type) -> Callable[[Any], Any] | None:
        return my.fold if type_.kind is Kind.TEXT else None

    def sort_key(self, node: Expression) -> Expression:
        node = self.value(node)
        return self.apply(_SORT_TEXT, (node,), TEXT) if node.type.sort is Sort.TEXT else self.output(node)

    def probe(self, column: ValueType, node: Expression) -> Expression | None:
        node = self.value(node)
        if column.sort is node.type.sort is Sort.TEXT:
            return self.apply(_FOLD, (node,), TEXT)
        exact = {Sort.INTEGER, Sort.DECIMAL}
        if column.sort in exact and node.type.sort in exact:
            return node
        if column.sort not in TIMES:
            return None
        if isinstance(node, Constant) and node.type.sort is Sort.TEXT:
            node = self.time(node)
        if column.sort is Sort.TIMESTAMP and node.type.sort is Sort.DATE:
            return as_time(self, node, TIMESTAMP)
        return node if column.sort is node.type.sort else None

    def equals_differ(self, node: Expression) -> bool:
        return node.type.sort is Sort.TEXT

    def output(self, node: Expression) -> Expression:
        node = self.value(node)
        return self.scaled(node, node.type.scale) if node.type.sort is Sort.DECIMAL else node

    def check_derived_table(self, select: Select) -> None:
        """MariaDB keeps all digits of a quotient if it merges the query into the one around it, else those that are shown."""
        items = [item.expression for item in select.items if isinstance(item, Item)]
        if select.group_by or select.distinct or select.limit or any(map(has_aggregate, items)):
            return
        for expression in items:
            if not isinstance(expression, tx.Cast) and any(
                isinstance(part, tx.BinaryOperation) and part.operator is Binary.DIVIDE for part in parts(expression)
            ):
                raise outside("a quotient out of a query in FROM in MySQL", "cast it to DECIMAL")


def has_hidden_digits(node: Expression) -> bool:
    """Whether it may have more digits than it shows."""
    return node.type.sort is Sort.DECIMAL and not is_stored(node) and not isinstance(node, Constant)


def _written(node: tx.Expression) -> bool:
    """A number with its signs, which is one constant to a parser."""
    while isinstance(node, tx.UnaryOperation) and node.operator in (Unary.NEGATE, Unary.PLUS):
        node = node.operand
    return isinstance(node, tx.Literal)
