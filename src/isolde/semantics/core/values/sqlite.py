"""SQLite's values: a value has a type of its own, numbers come before texts."""

from __future__ import annotations

import math
from typing import Any

from isolde.errors import ExecutionError
from isolde.semantics.core.types import outside
from isolde.semantics.core.values import numbers, texts
from isolde.semantics.core.values.ties import extreme

_LOW, _HIGH = -(2**63), 2**63 - 1


def integer_or_float(text: str) -> int | float:
    if text.lstrip("+-").isdigit() and _LOW <= int(text) <= _HIGH:
        return int(text)
    return float(text)


def number(value: Any) -> int | float:
    """As arithmetic takes it: the longest numeric prefix of a text, or 0."""
    if isinstance(value, str):
        found = texts.NUMBER_PREFIX.match(value)
        return integer_or_float(found[1]) if found else 0
    return value  # type: ignore[no-any-return]


def integer(value: str | int | float) -> int:
    """As CAST AS INTEGER takes it: towards zero, at most 64 bits."""
    if isinstance(value, str):
        found = texts.INTEGER_PREFIX.match(value)
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
        found = texts.whole_number(value)
        return value if found is None else collapsed(integer_or_float(found))
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


def rank(value: Any) -> Any:
    """Orders values: numbers before texts; a null has no rank."""
    if value is None:
        return None
    return (1, value) if isinstance(value, str) else (0, value)


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


def shifted(value: int, count: int) -> int:
    """To the left; a negative count shifts to the right, keeping the sign."""
    if count < 0:
        return value >> min(-count, 64)
    low = (value << count) & (2**64 - 1) if count < 64 else 0
    return low - 2**64 if low >> 63 else low


def shifted_right(value: int, count: int) -> int:
    return shifted(value, -count)


def like(value: str, pattern: str) -> bool:
    return texts.like_pattern(pattern, ignore_case=True, escapes=False)(value)


# Aggregates


def total(values: list[Any]) -> Any:
    if not values:
        return None
    plain = [number(value) for value in values]
    if any(isinstance(value, str) and not isinstance(numeric_affinity(value), int) for value in values):
        return numbers.float_total([float(value) for value in plain])
    if all(isinstance(value, int) for value in plain):
        result = sum(plain)
        if not _LOW <= result <= _HIGH:
            raise numbers.out_of_range("a sum of integers")
        return result
    return real(numbers.float_total([float(value) for value in plain]))


def average(values: list[Any]) -> float | None:
    return real(numbers.float_total([float(number(value)) for value in values]) / len(values)) if values else None


def minimum(values: list[Any]) -> Any:
    return extreme(values, min(values, key=rank)) if values else None


def maximum(values: list[Any]) -> Any:
    return extreme(values, max(values, key=rank)) if values else None


def cast_numeric(value: Any) -> Any:
    """A text becomes an integer only where every integer nearby is a float too; a float stays one."""
    if not isinstance(value, str):
        return value
    value = number(value)
    return collapsed(value) if -(2**51) <= value < 2**51 else value


# Functions


def least(*values: Any) -> Any:
    """Of equal ones the last, where max gives the first: 0 and 0.0 are equal."""
    return min(reversed(values), key=rank)


def absolute(value: Any) -> Any:
    if isinstance(value, str):
        return abs(float(number(value)))
    if value == -(2**63):
        raise ExecutionError("out-of-range", "integer overflow")
    return abs(value)


def sign(value: Any) -> int | None:
    if isinstance(value, str):
        value = numeric_affinity(value)
        if isinstance(value, str):
            return None
    return int(value > 0) - int(value < 0)


def rounded(value: Any, places: Any = 0) -> float:
    whole = float(number(value))
    if integer(places) > 0:
        raise outside("round of a floating-point number to digits", "round an integer number of the smallest unit")
    return float(int(whole + (0.5 if whole >= 0 else -0.5)))


def substring(value: Any, start: Any, length: Any = None) -> str:
    shown, first = text(value), integer(start)
    count = len(shown) + abs(first) + 1 if length is None else integer(length)
    if first > 0:
        first -= 1
    elif first < 0:
        first += len(shown)
        if first < 0 and length is None:
            first = 0
    elif count > 0:
        count -= 1
    if count < 0:
        first, count = first + count, -count
    if first < 0:
        count, first = count + first, 0
    return shown[first : first + max(count, 0)]


def bound(value: Any) -> int | None:
    """LIMIT and OFFSET: a negative limit is none."""
    if isinstance(value, str):
        raise outside("a LIMIT or OFFSET that is a text in SQLite", "give a number")
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        value = int(value)
    if not isinstance(value, int):
        raise ExecutionError("conversion", "datatype mismatch")
    return None if value < 0 else value
