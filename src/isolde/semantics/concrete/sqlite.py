"""SQLite: values have types, columns have affinities; numbers come before texts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from isolde.errors import ExecutionError
from isolde.semantics.concrete import numbers
from isolde.semantics.concrete.postgresql_values import plain_sum
from isolde.semantics.concrete.rules import COMPARISONS, Rules, like_pattern, outside
from isolde.semantics.concrete.static import ANY, BOOLEAN, Affinity, Code, Constness, Sort, Static
from isolde.semantics.concrete.ties import extreme
from isolde.tx.expressions import Aggregation, Binary, Constant, Function, Unary
from isolde.tx.schema import Column, Kind, Type

_PREFIX = re.compile(r"[ \t\n\v\f\r]*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)", re.ASCII)
_INTEGER_PREFIX = re.compile(r"[ \t\n\v\f\r]*([+-]?\d+)", re.ASCII)
_LOW, _HIGH = -(2**63), 2**63 - 1

AFFINITIES = {
    Kind.BOOLEAN: Affinity.NUMERIC,
    Kind.INTEGER: Affinity.INTEGER,
    Kind.DECIMAL: Affinity.NUMERIC,
    Kind.FLOAT: Affinity.REAL,
    Kind.TEXT: Affinity.TEXT,
    Kind.TIMESTAMP: Affinity.NUMERIC,
}


# Values


def integer_or_float(text: str) -> int | float:
    if text.lstrip("+-").isdigit() and _LOW <= int(text) <= _HIGH:
        return int(text)
    return float(text)


def number(value: Any) -> int | float:
    """As arithmetic takes it: the longest numeric prefix of a text, or 0."""
    if isinstance(value, str):
        found = _PREFIX.match(value)
        return integer_or_float(found[1]) if found else 0
    return value  # type: ignore[no-any-return]


def integer(value: str | int | float) -> int:
    """As CAST AS INTEGER takes it: towards zero, at most 64 bits."""
    if isinstance(value, str):
        found = _INTEGER_PREFIX.match(value)
        value = int(found[1]) if found else 0
    elif isinstance(value, float):
        value = int(value) if math.isfinite(value) else (_HIGH if value > 0 else _LOW)
    return min(max(value, _LOW), _HIGH)


def bits(value: Any) -> int:
    return integer(number(value)) if isinstance(value, str) else integer(value)


def text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    if value == 0:
        return "0.0"
    if not 1e-4 <= abs(value) < 1e15:
        raise outside(f"the text of the floating-point number {value!r}")
    shown = f"{value:.15g}"
    return shown if "." in shown else shown + ".0"


def numeric_affinity(value: Any) -> Any:
    """A text that is a number becomes it; a float without a fraction becomes an integer where a column stores it."""
    if isinstance(value, str):
        found = _PREFIX.match(value)
        if not found or value[found.end() :].strip(" \t\n\v\f\r"):
            return value
        return collapsed(integer_or_float(found[1]))
    return value


def stored_numeric(value: Any) -> Any:
    return collapsed(numeric_affinity(value))


def collapsed(value: Any) -> Any:
    """The smallest and the largest integer stay floats: they may be what a larger number was cut to."""
    return int(value) if isinstance(value, float) and value.is_integer() and _LOW < value < _HIGH else value


def returned_real(value: Any) -> Any:
    """RETURNING shows a REAL as its record holds it: as an integer, if that takes at most six bytes."""
    return int(value) if isinstance(value, float) and value.is_integer() and -(2**47) <= value < 2**47 else value


def stored_real(value: Any) -> Any:
    value = numeric_affinity(value)
    return float(value) if isinstance(value, int) else value


def stored_rowid(value: Any) -> int:
    value = stored_numeric(value)
    if not isinstance(value, int):
        raise ExecutionError("conversion", "datatype mismatch")
    return value


def rank(value: Any) -> tuple[int, Any]:
    """Orders values: numbers before texts."""
    return (1, value) if isinstance(value, str) else (0, value)


def less(left: Any, right: Any) -> bool:
    return rank(left) < rank(right)


def less_equal(left: Any, right: Any) -> bool:
    return rank(left) <= rank(right)


def greater(left: Any, right: Any) -> bool:
    return rank(left) > rank(right)


def greater_equal(left: Any, right: Any) -> bool:
    return rank(left) >= rank(right)


_ORDERED = {
    Binary.LESS: less,
    Binary.LESS_EQUAL: less_equal,
    Binary.GREATER: greater,
    Binary.GREATER_EQUAL: greater_equal,
}


def real(value: float) -> float | None:
    return None if math.isnan(value) else value


# Operations


def added(left: Any, right: Any) -> Any:
    left, right = number(left), number(right)
    result = left + right
    return result if isinstance(result, float) or _LOW <= result <= _HIGH else float(left) + float(right)


def subtracted(left: Any, right: Any) -> Any:
    left, right = number(left), number(right)
    result = left - right
    return result if isinstance(result, float) or _LOW <= result <= _HIGH else float(left) - float(right)


def multiplied(left: Any, right: Any) -> Any:
    left, right = number(left), number(right)
    result = left * right
    return result if isinstance(result, float) or _LOW <= result <= _HIGH else float(left) * float(right)


def divided(left: Any, right: Any) -> Any:
    left, right = number(left), number(right)
    if right == 0:
        return None
    if isinstance(left, int) and isinstance(right, int):
        result = numbers.integer_quotient(left, right)
        return result if result <= _HIGH else float(left) / float(right)
    return left / right


def modulo(left: Any, right: Any) -> Any:
    """Of integers; it is shown as a float where an operand is one."""
    left, right = number(left), number(right)
    whole_left, whole_right = integer(left), integer(right)
    if whole_right == 0:
        return None
    result = numbers.integer_remainder(whole_left, whole_right)
    return result if isinstance(left, int) and isinstance(right, int) else float(result)


def negated(value: Any) -> Any:
    return subtracted(0, value)


def shifted(value: int, count: int) -> int:
    """To the left; a negative count shifts to the right, keeping the sign."""
    if count < 0:
        return value >> min(-count, 64)
    low = (value << count) & (2**64 - 1) if count < 64 else 0
    return low - 2**64 if low >> 63 else low


def shifted_right(value: int, count: int) -> int:
    return shifted(value, -count)


def truth(value: Any) -> bool:
    return float(number(value)) != 0


def like(value: str, pattern: str) -> bool:
    return like_pattern(pattern, ignore_case=True, trailing_escape=None)(value)


# Aggregates


def total(values: list[Any]) -> Any:
    if not values:
        return None
    plain = [number(value) for value in values]
    if any(isinstance(value, str) and not isinstance(numeric_affinity(value), int) for value in values):
        return plain_sum([float(value) for value in plain])
    if all(isinstance(value, int) for value in plain):
        result = sum(plain)
        if not _LOW <= result <= _HIGH:
            raise numbers.out_of_range("a sum of integers")
        return result
    return real(plain_sum([float(value) for value in plain]))


def average(values: list[Any]) -> float | None:
    return real(plain_sum([float(number(value)) for value in values]) / len(values)) if values else None


def minimum(values: list[Any]) -> Any:
    return extreme(values, min(values, key=rank)) if values else None


def maximum(values: list[Any]) -> Any:
    return extreme(values, max(values, key=rank)) if values else None


class SQLite(Rules):
    sent = MappingProxyType({bool: int, Decimal: float, datetime: lambda time: time.isoformat(sep=" ")})

    def column(self, type_: Type) -> Static:
        return Static(Sort.ANY, affinity=AFFINITIES[type_.kind])

    def given(self, value: Constant) -> Static:  # noqa: ARG002
        return ANY

    def literal(self, value: Constant) -> Code:
        match value:
            case None:
                return Code("None", ANY, Constness(None))
            case bool():
                value = int(value)
            case int():
                value = value if _LOW <= value <= _HIGH else float(value)
            case Decimal():
                value = float(value)
            case datetime():
                value = value.isoformat(sep=" ")
            case _:
                pass
        return Code(self.namespace.constant(value), ANY, Constness(value), solid=True)

    def common(self, codes: Sequence[Code], what: str) -> tuple[list[Code], Static]:  # noqa: ARG002
        return [self.value(code) for code in codes], ANY

    def value(self, code: Code) -> Code:
        return self.lift("+{0}", [code], ANY) if code.type.sort is Sort.BOOLEAN else code

    def unary(self, operator: Unary, operand: Code) -> Code:
        if operator is Unary.NOT:
            return self.negation(operand)
        operand = self.value(operand)
        match operator:
            case Unary.PLUS:
                # +column is a value without an affinity.
                return Code(operand.text, ANY, solid=operand.solid)
            case Unary.NEGATE:
                return self.lifted(negated, [operand], ANY)
            case _:
                return self.lift(f"(~{self.namespace.ref(bits)}({{0}}))", [operand], ANY)

    def binary(self, operator: Binary, left: Code, right: Code) -> Code:
        left, right = self.value(left), self.value(right)
        ref = self.namespace.ref
        if operator in _ARITHMETIC:
            solid = operator not in (Binary.DIVIDE, Binary.MODULO)
            return self.lifted(_ARITHMETIC[operator], [left, right], ANY, solid=solid)
        match operator:
            case Binary.CONCATENATE:
                return self.lift(f"({ref(text)}({{0}}) + {ref(text)}({{1}}))", [left, right], ANY)
            case Binary.LIKE:
                return self.lift(f"{ref(like)}({ref(text)}({{0}}), {ref(text)}({{1}}))", [left, right], BOOLEAN)
            case Binary.BIT_AND | Binary.BIT_OR:
                return self.lift(f"({ref(bits)}({{0}}) {operator.value} {ref(bits)}({{1}}))", [left, right], ANY)
            case Binary.SHIFT_LEFT | Binary.SHIFT_RIGHT:
                helper = ref(shifted if operator is Binary.SHIFT_LEFT else shifted_right)
                return self.lift(f"{helper}({ref(bits)}({{0}}), {ref(bits)}({{1}}))", [left, right], ANY)
            case _:
                raise ExecutionError("type", f"SQLite has no operator {operator.value}")

    def compared(self, operator: Binary, left: Code, right: Code) -> Code:
        left, right = self.matched(self.value(left), self.value(right))
        if operator is Binary.SAME:
            return Code(f"({left.text} == {right.text})", BOOLEAN, solid=True)
        if operator in _ORDERED:
            return self.lifted(_ORDERED[operator], [left, right], BOOLEAN)
        return self.lift(f"({{0}} {COMPARISONS[operator]} {{1}})", [left, right], BOOLEAN)

    def matched(self, left: Code, right: Code) -> tuple[Code, Code]:
        """A numeric column makes a number of a text on the other side, a text column a text of a value without affinity."""
        left_affinity, right_affinity = left.type.affinity, right.type.affinity
        numeric = {Affinity.INTEGER, Affinity.REAL, Affinity.NUMERIC}
        if left_affinity in numeric and right_affinity not in numeric:
            return left, self.with_affinity(right, Affinity.NUMERIC)
        if right_affinity in numeric and left_affinity not in numeric:
            return self.with_affinity(left, Affinity.NUMERIC), right
        if left_affinity is Affinity.TEXT and right_affinity is None:
            return left, self.with_affinity(right, Affinity.TEXT)
        if right_affinity is Affinity.TEXT and left_affinity is None:
            return self.with_affinity(left, Affinity.TEXT), right
        return left, right

    def with_affinity(self, code: Code, affinity: Affinity) -> Code:
        return self.lifted(text if affinity is Affinity.TEXT else numeric_affinity, [code], code.type)

    def truth(self, code: Code, what: str = "condition") -> Code:  # noqa: ARG002
        return code if code.type.sort is Sort.BOOLEAN else self.lifted(truth, [code], BOOLEAN)

    def call(self, function: Function, arguments: Sequence[Code]) -> Code:
        from isolde.semantics.concrete.sqlite_functions import called

        return called(self, function, [self.value(argument) for argument in arguments])

    def cast(self, code: Code, type_: Type) -> Code:
        code = self.value(code)
        target = self.column(type_)
        match target.affinity:
            case Affinity.TEXT:
                return self.lifted(text, [code], target)
            case Affinity.INTEGER:
                return self.lifted(integer, [code], target)
            case Affinity.REAL:
                return self.lift(f"float({self.namespace.ref(number)}({{0}}))", [code], target)
            case _:
                return self.lifted(cast_numeric, [code], target)

    def stored(self, code: Code, column: Column) -> str:
        code = self.value(code)
        match AFFINITIES[column.type.kind]:
            case Affinity.TEXT:
                return self.lifted(text, [code], ANY).text
            case Affinity.REAL:
                return self.lifted(stored_real, [code], ANY).text
            case _:
                return self.lifted(stored_numeric, [code], ANY).text

    def aggregate(self, aggregation: Aggregation, operand: Code) -> tuple[Callable[[list[Any]], Any], Static, Code]:
        operand = self.value(operand)
        function = {
            Aggregation.COUNT: len,
            Aggregation.SUM: total,
            Aggregation.AVG: average,
            Aggregation.MIN: minimum,
            Aggregation.MAX: maximum,
        }[aggregation]
        return function, ANY, operand

    def key(self, code: Code) -> str:
        return self.value(code).text

    def sort_key(self, code: Code) -> str:
        return self.lifted(rank, [self.value(code)], ANY).text

    def probe(self, column: Static, code: Code) -> str | None:
        code = self.value(code)
        if code.type.affinity is None:
            assert column.affinity is not None
            return self.with_affinity(code, column.affinity).text
        if code.type.affinity is column.affinity or Affinity.TEXT not in (code.type.affinity, column.affinity):
            return code.text
        return None

    def output(self, code: Code) -> str:
        return self.value(code).text


def cast_numeric(value: Any) -> Any:
    """A text becomes an integer only where every integer nearby is a float too; a float stays one."""
    if not isinstance(value, str):
        return value
    value = number(value)
    return collapsed(value) if -(2**51) <= value < 2**51 else value


_ARITHMETIC = {
    Binary.ADD: added,
    Binary.SUBTRACT: subtracted,
    Binary.MULTIPLY: multiplied,
    Binary.DIVIDE: divided,
    Binary.MODULO: modulo,
}
