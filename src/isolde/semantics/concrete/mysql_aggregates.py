"""MySQL's and MariaDB's aggregates."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from isolde.semantics.concrete import mysql_digits as digits
from isolde.semantics.concrete import numbers
from isolde.semantics.concrete.mysql import MySQL
from isolde.semantics.concrete.mysql_values import (
    INCREMENT,
    SCALE_MAX,
    decimal_of,
    decimal_quotient,
    floating,
    integer_of,
    sort_text,
)
from isolde.semantics.concrete.postgresql_values import plain_sum
from isolde.semantics.concrete.rules import outside
from isolde.semantics.concrete.static import TEXT, Code, Sort, Static
from isolde.tx.expressions import Aggregation


def aggregated(
    rules: MySQL, aggregation: Aggregation, operand: Code
) -> tuple[Callable[[list[Any]], Any], Static, Code]:
    least = aggregation is Aggregation.MIN
    if aggregation is Aggregation.COUNT:
        return len, integer_of(False, digits.UNSIGNED_DIGITS), operand
    if aggregation in (Aggregation.MIN, Aggregation.MAX):
        if operand.type.sort is Sort.TEXT:
            return (minimum_text if least else maximum_text), operand.type, operand
        if operand.type.sort is Sort.NULL:
            return minimum, TEXT, operand
        return (minimum if least else maximum), operand.type, operand
    operand = rules.number(operand)
    adding = aggregation is Aggregation.SUM
    if operand.type.sort is Sort.FLOAT or operand.type.sort is Sort.NULL:
        float_ = floating([operand.type])
        if float_.odd and not adding:
            raise outside(f"AVG of {float_.odd}", "cast it to DOUBLE")
        return (sum_floats if adding else average_floats), float_, operand
    scale = operand.type.scale
    if adding:
        return sum_exact, decimal_of(scale, digits.summed(operand.type)), operand
    return _AVERAGES[scale if operand.column else 0], decimal_of(scale + INCREMENT, operand.type.digits), operand


def sum_exact(values: list[Any]) -> Decimal | None:
    total = Decimal(0)
    for value in values:
        total = numbers.EXACT.add(total, Decimal(value))
    return numbers.positive_zero(total) if values else None


def average_exact(scale: int) -> Callable[[list[Any]], Decimal | None]:
    def average(values: list[Any]) -> Decimal | None:
        total = sum_exact(values)
        return None if total is None else decimal_quotient(total, Decimal(len(values)), scale, 0)

    return average


_AVERAGES = {scale: average_exact(scale) for scale in range(SCALE_MAX + 1)}


def sum_floats(values: list[float]) -> float | None:
    return plain_sum(values) if values else None


def average_floats(values: list[float]) -> float | None:
    return plain_sum(values) / len(values) if values else None


def steady(function: Callable[[list[Any]], Any], scale: int, shown: int | None) -> Callable[[list[Any]], Any]:
    """The same, where it is the same for all plans: groups in a temporary table hold values that are rounded row by row, groups
    in the order of an index keep all digits of a quotient. ``shown``: the scale of the result if nothing is computed from it.
    """

    def grouped(values: list[Any]) -> Any:
        result, other = function(values), function([numbers.rounded(value, scale) for value in values])
        same = result == other
        if not same and shown is not None:
            same = numbers.rounded(result, shown) == numbers.rounded(other, shown)
        if not same:
            raise outside(
                "an aggregate of quotients in groups in MySQL",
                "cast them to DECIMAL: the plan says where they are rounded",
            )
        return result

    return grouped


def minimum(values: list[Any]) -> Any:
    return min(values) if values else None


def maximum(values: list[Any]) -> Any:
    return max(values) if values else None


def minimum_text(values: list[str]) -> str | None:
    return min(values, key=sort_text) if values else None


def maximum_text(values: list[str]) -> str | None:
    return max(values, key=sort_text) if values else None
