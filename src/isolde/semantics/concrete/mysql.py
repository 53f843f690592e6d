"""MySQL and MariaDB, strict mode: numbers and texts convert into each other; decimals carry a static scale.

In a statement that changes tables (``changing``) a text that is no number, and a divisor of zero, are errors; in a query they
are 0 and null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from isolde.semantics.concrete import mysql_digits as digits
from isolde.semantics.concrete import numbers
from isolde.semantics.concrete.mysql_values import (
    _CHECKED,
    INCREMENT,
    SCALE_MAX,
    clamp,
    clamped_decimal,
    decimal_of,
    decimal_quotient,
    float_quotient,
    float_text,
    floating,
    fold,
    from_timestamp,
    integer_of,
    integer_part,
    like,
    nearest_away,
    remainder,
    scaled_text,
    shifted_left,
    shifted_right,
    sort_text,
    stored_decimal,
    stored_fixed,
    stored_float,
    stored_integer,
    stored_moment,
    stored_text,
    stored_timestamp,
    strict_text_integer,
    strict_text_nearest,
    strict_text_number,
    text_integer,
    text_nearest,
    text_number,
    timestamp_text,
    wrap_signed,
    wrap_unsigned,
)
from isolde.semantics.concrete.rules import COMPARISONS, Rules, outside
from isolde.semantics.concrete.static import (
    BIGINT,
    BOOLEAN,
    FLOAT,
    NUMBERS,
    TEXT,
    TIMESTAMP,
    UNSIGNED,
    WIDE,
    Code,
    Constness,
    Sort,
    Static,
    type_error,
)
from isolde.tx.expressions import Aggregation, Binary, Constant, Function, Unary
from isolde.tx.schema import Column, Kind, Type


class MySQL(Rules):
    sent = MappingProxyType({bool: int})

    # MariaDB's text of an EXISTS is a binary one, which compares by its bytes.
    existing = Static(Sort.BOOLEAN, odd="EXISTS taken as a text in MySQL")

    def column(self, type_: Type) -> Static:
        match type_.kind:
            case Kind.BOOLEAN:
                return Static(Sort.INTEGER, bits=8, digits=digits.of_column(8, False))
            case Kind.INTEGER:
                bits = type_.bits or 32
                room = digits.of_column(bits, type_.unsigned)
                return Static(Sort.INTEGER, bits=bits, unsigned=type_.unsigned, digits=room)
            case Kind.DECIMAL:
                return decimal_of(type_.scale or 0, (type_.precision or 10) - (type_.scale or 0))
            case Kind.TIMESTAMP:
                return replace(TIMESTAMP, scale=6 if type_.precision is None else type_.precision)
            case kind:
                return Static(Sort(kind.value))

    def given(self, value: Constant) -> Static:
        type_ = self.literal(value).type
        # The same for all values that run the same code: what differs is told by the shape that the store finds code by.
        if isinstance(value, int):
            return replace(type_, digits=digits.of_column(32 if -(2**31) <= value < 2**31 else 64, type_.unsigned))
        if isinstance(value, Decimal):
            return replace(type_, digits=digits.of_column(64 if value.adjusted() >= WIDE else 32, False))
        return type_

    def variable(self, type_: Static) -> Static:
        # Its value comes to the server as a constant, which is rarely a long one.
        return replace(type_, digits=digits.of_column(32, False) if type_.sort in NUMBERS else None, odd="")

    def literal(self, value: Constant) -> Code:
        match value:
            case None:
                return self.null()
            case bool():
                value, type_ = int(value), integer_of(False, digits.of_constant(value))
            case int():
                type_ = integer_of(value >= 2**63, digits.of_constant(value))
                if not -(2**63) <= value < 2**64:
                    value, type_ = Decimal(value), decimal_of(0, digits.of_constant(value))
            case Decimal():
                type_ = decimal_of(numbers.scale_of(value), digits.of_constant(value))
            case float():
                type_ = FLOAT
            case str():
                type_ = TEXT
            case datetime():
                type_ = replace(TIMESTAMP, scale=6 if value.microsecond else 0)
        return Code(self.namespace.constant(value), type_, Constness(value), solid=True)

    # Conversions

    def value(self, code: Code) -> Code:
        if code.type.sort is not Sort.BOOLEAN:
            return code
        return self.lift("+{0}", [code], replace(BIGINT, digits=1, odd=code.type.odd))

    def number(self, code: Code) -> Code:
        """A number of some kind: a text becomes a double."""
        code = self.value(code)
        if code.type.sort is Sort.TEXT:
            self.plain(code, "make numbers of what it is computed from")
            if self.changing and code.constant is not None and isinstance(code.constant.value, str):
                strict_text_number(code.constant.value)
            return self.lifted(strict_text_number if self.changing else text_number, [code], FLOAT)
        if code.type.sort is Sort.TIMESTAMP:
            raise outside("a time as a number", "compare it to a time")
        return code

    def plain(self, code: Code, instead: str) -> None:
        """Refuses to convert what MySQL would convert in a way of its own."""
        if code.type.odd:
            raise outside(code.type.odd, instead)

    def double(self, code: Code) -> Code:
        code = self.number(code)
        return code if code.type.sort in (Sort.FLOAT, Sort.NULL) else self.lifted(float, [code], FLOAT)

    def exact(self, code: Code) -> Code:
        return (
            code
            if code.type.sort is not Sort.INTEGER
            else self.lifted(Decimal, [code], decimal_of(0, code.type.digits))
        )

    def integer(self, code: Code) -> Code:
        """As the bit operators and DIV take it: 64 bits, signed or not."""
        code = self.value(code)
        match code.type.sort:
            case Sort.TEXT:
                self.plain(code, "make numbers of what it is computed from")
                return self.lifted(strict_text_integer if self.changing else text_integer, [code], BIGINT)
            case Sort.DECIMAL:
                return self.lifted(numbers.nearest_integer, [code], BIGINT)
            case Sort.FLOAT:
                return self.lifted(numbers.nearest_even, [code], BIGINT)
            case Sort.TIMESTAMP:
                raise outside("a time as a number", "compare it to a time")
            case _:
                return code

    def to_text(self, code: Code) -> Code:
        code = self.value(code)
        match code.type.sort:
            case Sort.TEXT | Sort.NULL:
                return code
            case Sort.INTEGER:
                self.plain(code, "cast it to CHAR")
                return self.lifted(str, [code], TEXT)
            case Sort.DECIMAL:
                return self.lift(f"{self.namespace.ref(scaled_text)}({{0}}, {code.type.scale})", [code], TEXT)
            case Sort.FLOAT:
                if code.type.scale:
                    raise outside(f"the text of {code.type.odd}", "cast it to DOUBLE: it has zeros at its end")
                return self.lifted(float_text, [code], TEXT)
            case Sort.TIMESTAMP:
                return self.lift(f"{self.namespace.ref(timestamp_text)}({{0}}, {code.type.scale})", [code], TEXT)
            case sort:
                raise type_error(f"{sort} as text")

    def common(self, codes: Sequence[Code], what: str) -> tuple[list[Code], Static]:
        """The type of a CASE or COALESCE: a text if one is, else the widest number."""
        codes = [self.value(code) for code in codes]
        types = [code.type for code in codes if code.type.sort is not Sort.NULL]
        sorts = {type_.sort for type_ in types}
        signs = {type_.unsigned for type_ in types}
        if len(types) < len(codes) and what != "IF":
            # A NULL that is written out is a signed number; IF alone looks only at its other branch.
            signs.add(False)
        if not sorts:
            return list(codes), self.null().type
        if Sort.TIMESTAMP in sorts and sorts - {Sort.TIMESTAMP, Sort.TEXT}:
            raise outside(f"{what} of times and other values")
        if Sort.TEXT in sorts:
            return [self.to_text(code).typed(TEXT) for code in codes], TEXT
        if sorts == {Sort.TIMESTAMP}:
            return list(codes), replace(TIMESTAMP, scale=max(type_.scale for type_ in types))
        if Sort.FLOAT in sorts:
            float_ = floating(types)
            if float_.odd and any(map(unseen, codes)):
                raise outside(f"{what} of computed decimals and {float_.odd}", "write NULL, or cast it to DOUBLE")
            return [self.double(code) for code in codes], float_
        if Sort.DECIMAL in sorts or len(signs) > 1:
            scale = max(type_.scale for type_ in types)
            # Signed and unsigned integers meet in a decimal; marked, because a cast to UNSIGNED still reads their bits.
            whole = replace(decimal_of(scale, digits.widest(types)), unsigned=Sort.DECIMAL not in sorts)
            return [self.exact(code) for code in codes], whole
        bits = max(type_.bits for type_ in types)
        return list(codes), replace(types[0], bits=bits, digits=digits.widest(types), odd="")

    def scaled(self, code: Code, scale: int) -> Code:
        if code.type.sort is Sort.NULL or (code.type.scale == scale and code.column):
            return code
        return self.lift(
            f"{self.namespace.ref(numbers.rounded)}({{0}}, {scale})", [code], decimal_of(scale, code.type.digits)
        )

    # Operations

    def unary(self, operator: Unary, operand: Code) -> Code:
        if operator is Unary.NOT:
            return self.negation(operand)
        if operator is Unary.BIT_NOT:
            return self.lift("({0} ^ 0xFFFFFFFFFFFFFFFF)", [self.word(operand)], _BITS)
        if operator is Unary.PLUS:
            return self.value(operand)
        operand = self.number(operand)
        if operand.constant is not None and isinstance(operand.constant.value, (int, Decimal, float)):
            value = operand.constant.value
            return self.literal(numbers.positive_zero(-value) if isinstance(value, Decimal) else -value)
        match operand.type.sort:
            case Sort.INTEGER:
                return self.lift(f"{self.fit(False)}(-{{0}})", [operand], integer_of(False, operand.type.digits))
            case Sort.DECIMAL:
                return self.lift(f"{self.namespace.ref(numbers.positive_zero)}(-{{0}})", [operand], operand.type)
            case _:
                return self.lift("-{0}", [operand], floating([operand.type]))

    def fit(self, unsigned: bool) -> str:
        return self.namespace.ref(numbers.within(64, unsigned))

    def word(self, code: Code) -> Code:
        """As the bit operators take it: by way of a decimal, so that halves go away from zero."""
        code = self.value(code)
        if code.type.sort is Sort.FLOAT:
            code = self.lifted(nearest_away, [code], BIGINT)
        elif code.type.sort is Sort.TEXT:
            self.plain(code, "make numbers of what it is computed from")
            strict_text = strict_text_nearest if self.changing else text_nearest
            code = self.lifted(strict_text, [code], BIGINT)
        else:
            code = self.integer(code)
        return code if code.type.unsigned else self.lifted(wrap_unsigned, [code], UNSIGNED)

    def binary(self, operator: Binary, left: Code, right: Code) -> Code:
        match operator:
            case Binary.CONCATENATE:
                # Of another dialect: the front end reads MySQL's own || as OR.
                return self.call(Function.CONCAT, [left, right])
            case Binary.LIKE:
                return self.lifted(like, [self.to_text(left), self.to_text(right)], BOOLEAN)
            case Binary.BIT_AND | Binary.BIT_OR | Binary.BIT_XOR:
                return self.lift(f"({{0}} {operator.value} {{1}})", [self.word(left), self.word(right)], _BITS)
            case Binary.SHIFT_LEFT | Binary.SHIFT_RIGHT:
                function = shifted_left if operator is Binary.SHIFT_LEFT else shifted_right
                return self.lifted(function, [self.word(left), self.word(right)], _BITS)
            case Binary.INTEGER_DIVIDE:
                left, right = self.number(left), self.number(right)
                unsigned = left.type.unsigned or right.type.unsigned
                if Sort.FLOAT in (left.type.sort, right.type.sort):
                    raise outside("DIV of floating-point numbers", "cast them to DECIMAL")
                result = self.dividing(integer_part, [left, right], BIGINT)
                room = digits.computed(operator, left.type, right.type, 0)
                return self.lift(f"{self.fit(unsigned)}({{0}})", [result], integer_of(unsigned, room))
            case _:
                return self.arithmetic(operator, left, right)

    def dividing(self, function: Any, sides: list[Code], type_: Static, *scales: int) -> Code:
        name = self.namespace.ref(_CHECKED[function] if self.changing else function)
        more = "".join(f", {scale}" for scale in scales)
        return self.lift(f"{name}({{0}}, {{1}}{more})", sides, type_, solid=self.changing)

    def arithmetic(self, operator: Binary, left: Code, right: Code) -> Code:
        left, right = self.number(left), self.number(right)
        sorts, scales = {left.type.sort, right.type.sort}, (left.type.scale, right.type.scale)
        if Sort.NULL in sorts:
            # A null without a type makes the result a double.
            float_ = floating([left.type, right.type])
            type_ = replace(float_, scale=float_.scale + INCREMENT * (operator is Binary.DIVIDE))
            return self.lift("None", [left, right], type_)
        if Sort.FLOAT in sorts:
            sides, float_ = [self.double(left), self.double(right)], floating([left.type, right.type])
            longer = operator is Binary.DIVIDE or (operator is Binary.MULTIPLY and min(scales) > 0)
            if float_.odd and (longer or unseen(left) or unseen(right)):
                raise outside(f"more digits than there are in {float_.odd}", "cast it to DOUBLE")
            if operator is Binary.DIVIDE:
                return self.dividing(float_quotient, sides, float_)
            if operator is Binary.MODULO:
                return self.dividing(remainder, sides, float_)
            return self.lift(f"{self.namespace.ref(numbers.finite)}({{0}} {operator.value} {{1}})", sides, float_)
        if operator is Binary.DIVIDE:
            sides = [self.exact(left), self.exact(right)]
            scale = min(scales[0] + INCREMENT, SCALE_MAX)
            room = digits.computed(operator, left.type, right.type, scale)
            least = [code.type.scale if code.column else 0 for code in (left, right)]
            return self.dividing(decimal_quotient, sides, decimal_of(scale, room), *least)
        unsigned = left.type.unsigned or right.type.unsigned
        if Sort.DECIMAL in sorts:
            sides = [self.exact(left), self.exact(right)]
            scale = min(sum(scales) if operator is Binary.MULTIPLY else max(scales), SCALE_MAX)
            type_ = decimal_of(scale, digits.computed(operator, left.type, right.type, scale))
            if operator is Binary.MODULO:
                return self.dividing(remainder, sides, type_)
            return self.lifted(_DECIMAL_OPERATIONS[operator], sides, type_)
        room = digits.computed(operator, left.type, right.type, 0)
        if operator is Binary.MODULO:
            return self.dividing(remainder, [left, right], integer_of(left.type.unsigned, room))
        type_ = integer_of(unsigned, room)
        return self.lift(f"{self.fit(unsigned)}({{0}} {operator.value} {{1}})", [left, right], type_)

    def compared(self, operator: Binary, left: Code, right: Code) -> Code:
        """Decimals are compared as they would be shown: 1 / 3 = 0.3333."""
        return self.matching(operator, self.as_shown(left), self.as_shown(right))

    def as_shown(self, code: Code) -> Code:
        return self.scaled(code, code.type.scale) if code.type.sort is Sort.DECIMAL and not code.constant else code

    def matching(self, operator: Binary, left: Code, right: Code) -> Code:
        left, right = self.comparable([left, right])
        if operator is Binary.SAME:
            return Code(f"({left.text} == {right.text})", BOOLEAN, solid=True)
        return self.lift(f"({{0}} {COMPARISONS[operator]} {{1}})", [left, right], BOOLEAN)

    def comparable(self, codes: Sequence[Code]) -> list[Code]:
        """Texts with texts, times with times, all else as numbers: as doubles if a text or a double is among them."""
        codes = [self.value(code) for code in codes]
        sorts = {code.type.sort for code in codes} - {Sort.NULL}
        if sorts <= {Sort.TEXT}:
            return [self.lifted(fold, [code], TEXT) for code in codes]
        if Sort.TIMESTAMP in sorts:
            if sorts - {Sort.TIMESTAMP, Sort.TEXT}:
                raise outside("a time compared to a number")
            return [
                self.lifted(from_timestamp, [code], TIMESTAMP) if code.type.sort is Sort.TEXT else code
                for code in codes
            ]
        if sorts & {Sort.TEXT, Sort.FLOAT}:
            return [self.double(code) for code in codes]
        return codes

    def truth(self, code: Code, what: str = "condition") -> Code:  # noqa: ARG002
        if code.type.sort is Sort.BOOLEAN:
            return code
        return self.lift("({0} != 0)", [self.number(code)], BOOLEAN)

    def call(self, function: Function, arguments: Sequence[Code]) -> Code:
        from isolde.semantics.concrete.mysql_functions import called

        return called(self, function, list(arguments))

    def cast(self, code: Code, type_: Type) -> Code:
        code = self.value(code)
        match type_.kind:
            case Kind.TEXT:
                from isolde.semantics.concrete.mysql_functions import cast_text

                return cast_text(self, code, type_.length)
            case Kind.INTEGER | Kind.BOOLEAN:
                sort, whole = code.type.sort, code.type.unsigned
                result = integer_of(type_.unsigned, digits.cast(code, type_.unsigned))
                code = self.integer(code)
                if sort is Sort.INTEGER or sort is Sort.NULL:
                    return self.lifted(wrap_unsigned if type_.unsigned else wrap_signed, [code], result)
                if (sort is Sort.TEXT or whole) and type_.unsigned:
                    return self.lifted(wrap_unsigned, [code], result)
                return self.lift(f"{self.namespace.ref(clamp)}({{0}}, {type_.unsigned})", [code], result)
            case Kind.DECIMAL:
                precision, scale = type_.precision or 10, type_.scale or 0
                name = self.namespace.ref(stored_decimal if self.changing else clamped_decimal)
                return self.lift(f"{name}({{0}}, {precision}, {scale})", [self.number(code)], self.column(type_))
            case Kind.FLOAT:
                double = self.double(code).typed(FLOAT)
                return double if type_.bits != 32 else self.lifted(numbers.single, [double], FLOAT)
            case Kind.TIMESTAMP:
                if code.type.sort not in (Sort.TIMESTAMP, Sort.TEXT, Sort.NULL):
                    raise outside("a number as a time")
                if code.type.sort is Sort.TEXT:
                    code = self.lifted(from_timestamp, [code], TIMESTAMP)
                return self.lift(self.at_precision(type_), [code], self.column(type_))

    def stored(self, code: Code, column: Column) -> str:
        code, type_ = self.value(code), column.type
        ref = self.namespace.ref
        have, target = code.type, self.column(type_)
        if have.sort is Sort.TIMESTAMP and type_.kind not in (Kind.TIMESTAMP, Kind.TEXT):
            raise outside("a time stored as a number", "store it as a time")
        match type_.kind:
            case Kind.INTEGER | Kind.BOOLEAN:
                if have.sort is Sort.INTEGER:
                    if have.bits <= target.bits and have.unsigned == target.unsigned and code.column:
                        return code.text
                    return self.lift(f"{ref(numbers.within(target.bits, target.unsigned))}({{0}})", [code], target).text
                return self.lift(f"{ref(stored_integer)}({{0}}, {target.bits}, {target.unsigned})", [code], target).text
            case Kind.DECIMAL:
                return self.lift(
                    f"{ref(stored_decimal)}({{0}}, {type_.precision or 10}, {type_.scale or 0})", [code], target
                ).text
            case Kind.FLOAT:
                double = self.lifted(stored_float, [code], target)
                return double.text if type_.bits != 32 else self.lifted(numbers.single, [double], target).text
            case Kind.TEXT:
                if have.sort is Sort.DECIMAL and not code.column and code.constant is None:
                    raise outside("a computed decimal stored as text", "cast it to CHAR")
                text = self.to_text(code)
                fit = stored_fixed if type_.fixed else stored_text
                return (
                    self.lift(f"{ref(fit)}({{0}}, {type_.length})", [text], target).text if type_.length else text.text
                )
            case Kind.TIMESTAMP:
                if have.sort not in (Sort.TIMESTAMP, Sort.TEXT, Sort.NULL):
                    raise outside("a number stored as a time")
                return self.lift(self.at_precision(type_), [code], target).text

    def at_precision(self, type_: Type) -> str:
        stored = self.namespace.ref(stored_moment if type_.moment else stored_timestamp)
        return f"{stored}({{0}}, {self.column(type_).scale})"

    def aggregate(self, aggregation: Aggregation, operand: Code) -> tuple[Callable[[list[Any]], Any], Static, Code]:
        from isolde.semantics.concrete.mysql_aggregates import aggregated

        return aggregated(self, aggregation, self.value(operand))

    def in_groups(
        self, function: Callable[[list[Any]], Any], type_: Static, operand: Code, alone: bool
    ) -> Callable[[list[Any]], Any]:
        from isolde.semantics.concrete.mysql_aggregates import steady

        if operand.type.sort is not Sort.DECIMAL or operand.column or function is len:
            return function
        return steady(function, operand.type.scale, type_.scale if alone else None)

    def key(self, code: Code) -> str:
        code = self.value(code)
        if code.type.sort is Sort.TEXT:
            return self.lifted(fold, [code], TEXT).text
        return self.output(code)

    def sort_key(self, code: Code) -> str:
        code = self.value(code)
        if code.type.sort is Sort.TEXT:
            return self.lifted(sort_text, [code], TEXT).text
        return self.output(code)

    def probe(self, column: Static, code: Code) -> str | None:
        code = self.value(code)
        if column.sort is code.type.sort is Sort.TEXT:
            return self.lifted(fold, [code], TEXT).text
        exact = {Sort.INTEGER, Sort.DECIMAL}
        if column.sort in exact and code.type.sort in exact:
            return code.text
        return code.text if column.sort is Sort.TIMESTAMP is code.type.sort else None

    def output(self, code: Code) -> str:
        code = self.value(code)
        if code.type.sort is Sort.DECIMAL:
            return self.scaled(code, code.type.scale).text
        return code.text


def unseen(code: Code) -> bool:
    """Whether it may have more digits than it shows."""
    return code.type.sort is Sort.DECIMAL and not code.column and code.constant is None


_BITS = integer_of(True, digits.BITS_DIGITS)
_DECIMAL_OPERATIONS = {
    Binary.ADD: numbers.decimal_sum,
    Binary.SUBTRACT: numbers.decimal_difference,
    Binary.MULTIPLY: numbers.decimal_product,
}
