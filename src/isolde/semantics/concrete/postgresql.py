"""PostgreSQL: static types, no silent conversions but those of literals; exact decimals that carry their scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from isolde.semantics.concrete import numbers
from isolde.semantics.concrete.postgresql_values import (
    _FROM_TEXT,
    _TO_TEXT,
    _UNTYPED,
    FIXED,
    _average_decimals,
    _average_floats,
    _sum_decimals,
    _sum_floats,
    _sum_integers,
    cut_text,
    decimal_float,
    fitted_decimal,
    fitted_text,
    fitted_timestamp,
    float_decimal,
    float_quotient,
    like,
    maximum,
    minimum,
    modulo,
    quotient,
    shifted_left,
    shifted_right,
    text_integer,
)
from isolde.semantics.concrete.rules import COMPARISONS, Rules, outside
from isolde.semantics.concrete.static import (
    BIGINT,
    BOOLEAN,
    DECIMAL,
    FLOAT,
    INTEGER,
    NUMBERS,
    TEXT,
    TIMESTAMP,
    UNKNOWN,
    Code,
    Constness,
    Sort,
    Static,
    type_error,
)
from isolde.tx.expressions import Aggregation, Binary, Constant, Function, Unary
from isolde.tx.schema import Column, Kind, Type


class PostgreSQL(Rules):
    nulls_last_ascending = True
    folds_nulls = True

    def column(self, type_: Type) -> Static:
        match type_.kind:
            case Kind.INTEGER:
                if type_.unsigned:
                    raise outside("an unsigned integer in PostgreSQL", "use a wider type and a check")
                # It has no integers of 8 or 24 bits; they are made as the next wider ones.
                return Static(Sort.INTEGER, bits=next(bits for bits in (16, 32, 64) if bits >= (type_.bits or 32)))
            case Kind.FLOAT:
                return replace(FLOAT, bits=type_.bits or 64)
            case kind:
                return Static(Sort(kind.value))

    def given(self, value: Constant) -> Static:
        return UNKNOWN if isinstance(value, str) else self.literal(value).type

    def literal(self, value: Constant) -> Code:
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
                type_ = TIMESTAMP
            case _:
                pass
        return Code(self.namespace.constant(value), type_, Constness(value), solid=True)

    # Conversions

    def to(self, code: Code, type_: Static) -> Code:
        """An implicit conversion that is known to exist, or of a literal without a type."""
        have = code.type
        if have.sort is Sort.NULL:
            return code.typed(type_)
        if have.sort is Sort.UNKNOWN:
            return self.from_text(code, type_)
        if have.sort is type_.sort:
            return self.in_bits(code.typed(type_)) if have.bits > type_.bits else code.typed(type_)
        if have.sort is Sort.INTEGER and type_.sort is Sort.DECIMAL:
            return self.lifted(Decimal, [code], type_)
        if type_.sort is Sort.FLOAT and have.sort is Sort.INTEGER:
            return self.in_bits(self.lifted(float, [code], type_))
        if type_.sort is Sort.FLOAT and have.sort is Sort.DECIMAL:
            return self.in_bits(self.lifted(decimal_float, [code], type_))
        raise type_error(f"no implicit conversion from {have} to {type_}")

    def from_text(self, code: Code, type_: Static) -> Code:
        if type_.sort in (Sort.TEXT, Sort.UNKNOWN):
            return code.typed(type_)
        if type_.sort is Sort.INTEGER:
            if code.constant is not None and isinstance(code.constant.value, str):
                value = text_integer(code.constant.value, type_.bits)
                return Code(self.namespace.constant(value), type_, Constness(value), solid=True)
            return self.lift(f"{self.namespace.ref(text_integer)}({{0}}, {type_.bits})", [code], type_)
        convert = _FROM_TEXT[type_.sort]
        if code.constant is not None and isinstance(code.constant.value, str):
            value = convert(code.constant.value)
            return self.in_bits(Code(self.namespace.constant(value), type_, Constness(value), solid=True))
        return self.in_bits(self.lifted(convert, [code], type_))

    def to_text(self, code: Code) -> Code:
        if code.type.sort in (Sort.TEXT, Sort.UNKNOWN, Sort.NULL):
            return code.typed(TEXT)
        if code.type.odd:
            raise outside(code.type.odd, "cast it to TIMESTAMP first")
        return self.lifted(_TO_TEXT[code.type.sort], [code], TEXT)

    def common(self, codes: Sequence[Code], what: str) -> tuple[list[Code], Static]:
        found: Static | None = None
        for code in codes:
            if code.type.sort in _UNTYPED:
                continue
            found = code.type if found is None else self.wider(found, code.type, what)
        type_ = found or TEXT
        return [self.to(code, type_) for code in codes], type_

    def wider(self, left: Static, right: Static, what: str) -> Static:
        if left.sort is right.sort:
            if left.sort is Sort.TIMESTAMP:
                return right if right.odd else left
            return left if left.bits >= right.bits else right
        if left.sort in NUMBERS and right.sort in NUMBERS:
            order = (Sort.INTEGER, Sort.DECIMAL, Sort.FLOAT)
            wider = max(left, right, key=lambda type_: order.index(type_.sort))
            # A single float meets other numbers as a double.
            return FLOAT if wider.sort is Sort.FLOAT and what in _OPERATORS else wider
        raise type_error(f"{what}: types {left} and {right} cannot be matched")

    # Operations

    def unary(self, operator: Unary, operand: Code) -> Code:
        if operator is Unary.NOT:
            return self.negation(operand)
        if operand.type.sort in _UNTYPED and operator is Unary.PLUS:
            # Of all that it may be, PostgreSQL prefers a float; with a minus it might be an interval.
            return self.to(operand, FLOAT)
        if operand.type.sort in _UNTYPED:
            raise type_error(f"operator is not unique: {operator.value} unknown")
        if operand.type.sort not in NUMBERS or (operator is Unary.BIT_NOT and operand.type.sort is not Sort.INTEGER):
            raise type_error(f"operator does not exist: {operator.value} {operand.type}")
        if operator is Unary.PLUS:
            return operand
        if operator is Unary.BIT_NOT:
            return self.lift("~{0}", [operand], operand.type)
        if operand.constant is not None and isinstance(operand.constant.value, (int, Decimal, float)):
            return self._negated(operand)
        if operand.type.sort is Sort.INTEGER:
            return self.lift(f"{self.fit(operand.type)}(-{{0}})", [operand], operand.type)
        if operand.type.sort is Sort.DECIMAL:
            return self.lift(f"{self.namespace.ref(numbers.positive_zero)}(-{{0}})", [operand], operand.type)
        return self.lift("-{0}", [operand], operand.type)

    def _negated(self, operand: Code) -> Code:
        assert operand.constant is not None
        value = operand.constant.value
        assert isinstance(value, (int, Decimal, float))
        negated = numbers.positive_zero(-value) if isinstance(value, Decimal) else -value
        # The type stays that of the positive literal: -2147483648 is a bigint.
        return self.literal(negated).typed(operand.type)

    def fit(self, type_: Static) -> str:
        return self.namespace.ref(numbers.within(type_.bits, False))

    def binary(self, operator: Binary, left: Code, right: Code) -> Code:
        match operator:
            case Binary.CONCATENATE:
                return self.concatenated(left, right)
            case Binary.LIKE:
                if any(side.type.sort not in (*_UNTYPED, Sort.TEXT) for side in (left, right)):
                    raise type_error(f"operator does not exist: {left.type} ~~ {right.type}")
                return self.lifted(like, [self.to_text(left), self.to_text(right)], BOOLEAN)
            case Binary.ADD | Binary.SUBTRACT | Binary.MULTIPLY | Binary.DIVIDE | Binary.MODULO:
                return self.arithmetic(operator, left, right)
            case Binary.BIT_AND | Binary.BIT_OR | Binary.BIT_XOR | Binary.SHIFT_LEFT | Binary.SHIFT_RIGHT:
                return self.bits(operator, left, right)
            case _:
                raise type_error(f"operator does not exist: {left.type} {operator.value} {right.type}")

    def matched(self, operator: Binary, left: Code, right: Code) -> tuple[Code, Code, Static]:
        """Both operands of one numeric type: a literal without a type takes the other side's."""
        if left.type.sort in _UNTYPED and right.type.sort in _UNTYPED:
            raise type_error(f"operator is not unique: unknown {operator.value} unknown")
        sorts = {left.type.sort, right.type.sort}
        adding = (Binary.ADD, Binary.SUBTRACT) if sorts & _UNTYPED else (Binary.SUBTRACT,)
        if operator in adding and Sort.TIMESTAMP in sorts and sorts <= {Sort.TIMESTAMP, *_UNTYPED}:
            raise outside("a difference of times, or a time with an interval", "use parameters")
        if left.type.sort in _UNTYPED:
            left = self.to(left, right.type)
        if right.type.sort in _UNTYPED:
            right = self.to(right, left.type)
        if left.type.sort not in NUMBERS or right.type.sort not in NUMBERS:
            raise type_error(f"operator does not exist: {left.type} {operator.value} {right.type}")
        type_ = self.wider(left.type, right.type, operator.value)
        return self.to(left, type_), self.to(right, type_), type_

    def arithmetic(self, operator: Binary, left: Code, right: Code) -> Code:
        left, right, type_ = self.matched(operator, left, right)
        sides = [left, right]
        if type_.sort is Sort.INTEGER:
            if operator is Binary.DIVIDE:
                return self.lift(f"{self.fit(type_)}({self.namespace.ref(quotient)}({{0}}, {{1}}))", sides, type_)
            if operator is Binary.MODULO:
                return self.lifted(modulo, sides, type_)
            return self.lift(f"{self.fit(type_)}({{0}} {operator.value} {{1}})", sides, type_)
        if type_.sort is Sort.DECIMAL:
            return self.lifted(_DECIMAL_OPERATIONS[operator], sides, type_)
        if operator is Binary.MODULO:
            raise type_error("operator does not exist: double precision % double precision")
        if operator is Binary.DIVIDE:
            return self.in_bits(self.lifted(float_quotient, sides, type_))
        text = f"{self.namespace.ref(numbers.finite)}({{0}} {operator.value} {{1}})"
        return self.in_bits(self.lift(text, sides, type_))

    def in_bits(self, code: Code) -> Code:
        """A float as wide as its type."""
        return (
            self.lifted(numbers.single, [code], code.type)
            if code.type.sort is Sort.FLOAT and code.type.bits == 32
            else code
        )

    def bits(self, operator: Binary, left: Code, right: Code) -> Code:
        if operator in (Binary.SHIFT_LEFT, Binary.SHIFT_RIGHT):
            if left.type.sort in _UNTYPED and right.type == INTEGER:
                left = self.to(left, INTEGER)
            elif right.type.sort in _UNTYPED:
                right = self.to(right, INTEGER)
            if left.type.sort in _UNTYPED or right.type.sort is not Sort.INTEGER or right.type.bits > 32:
                raise type_error(f"operator does not exist: {left.type} {operator.value} {right.type}")
            if left.type.sort is not Sort.INTEGER:
                raise type_error(f"operator does not exist: {left.type} {operator.value} {right.type}")
            function = shifted_left if operator is Binary.SHIFT_LEFT else shifted_right
            name = self.namespace.ref(function)
            return self.lift(f"{name}({{0}}, {{1}}, {left.type.bits})", [left, right], left.type)
        left, right, type_ = self.matched(operator, left, right)
        if type_.sort is not Sort.INTEGER:
            raise type_error(f"operator does not exist: {left.type} {operator.value} {right.type}")
        return self.lift(f"({{0}} {operator.value} {{1}})", [left, right], type_)

    def concatenated(self, left: Code, right: Code) -> Code:
        sorts = {left.type.sort, right.type.sort}
        if not sorts & {Sort.TEXT, *_UNTYPED}:
            raise type_error(f"operator does not exist: {left.type} || {right.type}")
        return self.lift("({0} + {1})", [self.to_text(left), self.to_text(right)], TEXT)

    def compared(self, operator: Binary, left: Code, right: Code) -> Code:
        (left, right), _ = self.common([left, right], operator.value)
        if operator is Binary.SAME:
            return Code(f"({left.text} == {right.text})", BOOLEAN, solid=True)
        return self.lift(f"({{0}} {COMPARISONS[operator]} {{1}})", [left, right], BOOLEAN)

    def truth(self, code: Code, what: str = "condition") -> Code:
        if code.type.sort in _UNTYPED:
            return self.to(code, BOOLEAN)
        if code.type.sort is not Sort.BOOLEAN:
            raise type_error(f"argument of {what} must be boolean, not {code.type}")
        return code

    def call(self, function: Function, arguments: Sequence[Code]) -> Code:
        from isolde.semantics.concrete.postgresql_functions import called

        return called(self, function, list(arguments))

    def cast(self, code: Code, type_: Type) -> Code:
        target, have = self.column(type_), code.type
        if have.sort in _UNTYPED:
            result = self.to(code, target)
        elif have.sort is Sort.TEXT:
            result = self.from_text(code, target)
        elif target.sort is Sort.TEXT:
            result = self.to_text(code)
        elif have.sort is target.sort is not Sort.INTEGER:
            result = self.to(code, target)
        elif have.sort in NUMBERS and target.sort in NUMBERS:
            result = self.number(code, target)
        elif have.sort is Sort.BOOLEAN and target == INTEGER:
            result = self.lifted(int, [code], target)
        elif have == INTEGER and target.sort is Sort.BOOLEAN:
            result = self.lifted(bool, [code], target)
        else:
            raise type_error(f"cannot cast type {have} to {target}")
        return self.sized(result, type_, cut_text)

    def number(self, code: Code, target: Static) -> Code:
        have = code.type.sort
        if target.sort is Sort.INTEGER:
            how = {Sort.INTEGER: "{0}", Sort.DECIMAL: self.namespace.ref(numbers.nearest_integer) + "({0})"}.get(
                have, self.namespace.ref(numbers.nearest_even) + "({0})"
            )
            if have is Sort.INTEGER and code.type.bits <= target.bits:
                return code.typed(target)
            return self.lift(f"{self.fit(target)}({how})", [code], target)
        if target.sort is Sort.DECIMAL and have is Sort.FLOAT:
            return self.lifted(float_decimal, [code], target)
        return self.to(code, target)

    def sized(self, code: Code, type_: Type, fit_text: Any) -> Code:
        if type_.kind is Kind.DECIMAL and type_.precision is not None:
            name = self.namespace.ref(fitted_decimal)
            return self.lift(f"{name}({{0}}, {type_.precision}, {type_.scale or 0})", [code], code.type)
        if type_.kind is Kind.TIMESTAMP and type_.precision is not None:
            name = self.namespace.ref(fitted_timestamp)
            return self.lift(f"{name}({{0}}, {type_.precision})", [code], code.type)
        if type_.fixed:
            fit_text = FIXED[fit_text]
        if type_.kind is Kind.TEXT and type_.length is not None:
            return self.lift(f"{self.namespace.ref(fit_text)}({{0}}, {type_.length})", [code], code.type)
        return code

    def stored(self, code: Code, column: Column) -> str:
        target, have = self.column(column.type), code.type
        if have.sort in _UNTYPED:
            result = self.to(code, target)
        elif target.sort is Sort.TEXT:
            result = self.to_text(code)
        elif have.sort in NUMBERS and target.sort in NUMBERS:
            result = self.number(code, target)
        elif have.sort is target.sort:
            result = code
        else:
            raise type_error(f"column {column.name} is of type {target}, but the expression is of type {have}")
        return self.sized(result, column.type, fitted_text).text

    def aggregate(self, aggregation: Aggregation, operand: Code) -> tuple[Callable[[list[Any]], Any], Static, Code]:
        if aggregation is Aggregation.COUNT:
            return len, BIGINT, operand
        if aggregation in (Aggregation.MIN, Aggregation.MAX):
            if operand.type.sort in _UNTYPED:
                operand = operand.typed(TEXT)
            if operand.type.sort is Sort.BOOLEAN:
                raise type_error(f"function {aggregation.value}(boolean) does not exist")
            return (minimum if aggregation is Aggregation.MIN else maximum), operand.type, operand
        if operand.type.sort not in NUMBERS:
            raise type_error(f"function {aggregation.value}({operand.type}) does not exist or is not unique")
        adding = aggregation is Aggregation.SUM
        if operand.type.sort is Sort.FLOAT:
            if operand.type.bits == 32:
                raise outside("SUM or AVG of a float of 32 bits", "cast it to double precision")
            return (_sum_floats if adding else _average_floats), FLOAT, operand
        if operand.type.sort is Sort.INTEGER and operand.type.bits < 64 and adding:
            return _sum_integers, BIGINT, operand
        return (_sum_decimals if adding else _average_decimals), DECIMAL, operand

    def key(self, code: Code) -> str:
        return code.text

    def probe(self, column: Static, code: Code) -> str | None:
        if code.type.sort in _UNTYPED:
            return self.to(code, column).text
        exact = {Sort.INTEGER, Sort.DECIMAL}
        if column.sort is code.type.sort or (column.sort in exact and code.type.sort in exact):
            return code.text
        return None

    def output(self, code: Code) -> str:
        return code.text


_OPERATORS = frozenset(operator.value for operator in Binary)
_DECIMAL_OPERATIONS = {
    Binary.ADD: numbers.decimal_sum,
    Binary.SUBTRACT: numbers.decimal_difference,
    Binary.MULTIPLY: numbers.decimal_product,
    Binary.DIVIDE: numbers.postgresql_quotient,
    Binary.MODULO: numbers.remainder,
}
