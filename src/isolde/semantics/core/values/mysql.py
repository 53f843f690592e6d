"""MySQL's and MariaDB's values: conversions, what is stored, functions of them, aggregates."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from isolde.errors import ExecutionError
from isolde.semantics.core.types import outside
from isolde.semantics.core.values import numbers, texts
from isolde.semantics.core.values.ties import extreme

# Values


def fold(text: str) -> str:
    """Equal for texts that utf8mb4_general_ci holds equal: neither case nor spaces at the end count."""
    if not text.isascii():
        raise outside(f"comparing {text!r}", "letters beyond ASCII compare by the collation's own tables")
    return text.rstrip(" ").upper()


def sort_text(text: str) -> str:
    """Orders as PAD SPACE does: the shorter text goes on with spaces, which come after control characters."""
    folded = fold(text)
    if any(character < " " for character in folded):
        raise outside(f"ordering {text!r}", "control characters come before the spaces that pad a text")
    return folded


def text_number(text: str) -> float:
    found = texts.NUMBER_PREFIX.match(text)
    return float(found[1]) if found else 0.0


def strict_text_number(text: str) -> float:
    found = texts.whole_number(text)
    if found is None:
        raise no_number(text)
    return float(found)


def no_number(text: str) -> Exception:
    """It is an error, or it is not, as the plan has it: constants are converted before errors count."""
    return outside(
        f"a text that is no number, taken as one in a statement that changes tables ({text!r}),", "use a number"
    )


def text_integer(text: str) -> int:
    found = texts.INTEGER_PREFIX.match(text)
    return int(found[1]) if found else 0


def strict_text_integer(text: str) -> int:
    found = texts.whole_number(text, texts.INTEGER_PREFIX)
    if found is None:
        raise no_number(text)
    return int(found)


def text_nearest(text: str) -> int:
    found = texts.NUMBER_PREFIX.match(text)
    return numbers.nearest_integer(Decimal(found[1])) if found else 0


def strict_text_nearest(text: str) -> int:
    strict_text_number(text)
    return text_nearest(text)


def timestamp_text(value: datetime, digits: int) -> str:
    shown = value.isoformat(sep=" ", timespec="microseconds")
    return shown[: 20 + digits] if digits else shown[:19]


def wrap_unsigned(number: int) -> int:
    """As a cast to UNSIGNED reads the 64 bits."""
    return number & (2**64 - 1)


def wrap_signed(number: int) -> int:
    low = number & (2**64 - 1)
    return low - 2**64 if low >> 63 else low


def clamp(number: int, unsigned: bool) -> int:
    low, high = numbers.BOUNDS[64, unsigned]
    return min(max(number, low), high)


def like(text: str, pattern: str) -> bool:
    fold(text), fold(pattern)
    return texts.like_pattern(pattern, ignore_case=True, escapes=True)(text)


def float_quotient(left: float, right: float) -> float | None:
    return None if right == 0 else numbers.finite(left / right)


def decimal_quotient(left: Decimal, right: Decimal, left_scale: int, right_scale: int) -> Decimal | None:
    """The scales are at least those of columns; what was computed has as many digits as it has, seen or not."""
    if not right:
        return None
    scales = max(numbers.scale_of(left), left_scale), max(numbers.scale_of(right), right_scale)
    return numbers.mysql_quotient(left, right, *scales)


def integer_part(left: Decimal | int, right: Decimal | int) -> int | None:
    if not right:
        return None
    return numbers.truncated_quotient(Decimal(left), Decimal(right))


def remainder(left: Any, right: Any) -> Any:
    if not right:
        return None
    if isinstance(left, float) or isinstance(right, float):
        return math.fmod(left, right)
    if isinstance(left, int) and isinstance(right, int):
        return numbers.integer_remainder(left, right)
    result = numbers.remainder(Decimal(left), Decimal(right))
    if not result and left < 0:
        # MariaDB's keeps the sign of the dividend, until it passes through a temporary table: -4.0 % 2 = 0 is false.
        raise outside("a remainder of zero, of a negative decimal, in MySQL", "take the remainder of its ABS")
    return result


def checked_divisor(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same, with an error in place of null for a divisor of zero: strict mode, in statements that change tables."""

    def checked(left: Any, right: Any, *scales: int) -> Any:
        if right == 0:
            raise numbers.zero_divisor()
        return function(left, right, *scales)

    return checked


def from_timestamp(text: str) -> datetime:
    value = texts.timestamp(text, rounding=False)
    if value is None:
        raise outside(f"comparing a time with {text!r}", "write it as 'YYYY-MM-DD hh:mm:ss'")
    return value


# Storing


def stored_integer(value: Any, bits: int, unsigned: bool) -> int:
    if isinstance(value, float):
        value = numbers.nearest_even(value)
    elif isinstance(value, Decimal):
        value = numbers.nearest_integer(value)
    elif isinstance(value, str):
        value = numbers.nearest_integer(_exact(value, "integer"))
    return numbers.within(bits, unsigned)(int(value))


def _exact(text: str, type_: str) -> Decimal:
    found = texts.whole_number(text)
    if found is None:
        raise ExecutionError("conversion", f"incorrect {type_} value {text!r}")
    return Decimal(found)


def stored_decimal(value: Any, precision: int, scale: int) -> Decimal:
    if isinstance(value, float):
        value = Decimal(repr(value))
    elif isinstance(value, str):
        value = _exact(value, "decimal")
    return numbers.fitted_decimal(Decimal(value), precision, scale)


def clamped_decimal(value: Any, precision: int, scale: int) -> Decimal:
    """A cast in a query: the largest number that fits where the value does not."""
    try:
        return stored_decimal(value, precision, scale)
    except ExecutionError:
        largest = Decimal(10**precision - 1).scaleb(-scale)
        return largest if value > 0 else -largest


def stored_float(value: Any) -> float:
    return numbers.finite(float(_exact(value, "double") if isinstance(value, str) else value)) + 0.0


def stored_fixed(text: str, length: int) -> str:
    text = texts.fitted_text(text, length)
    if text.endswith(" "):
        raise outside("a text in a CHAR(n) that ends with a space", "use VARCHAR: it would be taken away")
    return text


def stored_timestamp(value: Any, digits: int) -> datetime:
    if isinstance(value, str):
        parsed = texts.timestamp(value, rounding=False)
        if parsed is None:
            raise ExecutionError("conversion", f"incorrect datetime value {value!r}")
        value = parsed
    return texts.in_precision(value, digits, rounding=False)


# MySQL's TIMESTAMP holds the seconds after the first of 1970 that fit into 31 bits, in UTC.
_FIRST, _LAST = datetime(1970, 1, 1), datetime(2038, 1, 19, 3, 14, 7, 999999)
_WEST, _EAST = timedelta(hours=13), timedelta(hours=14)
"""How far a session's time zone may be from UTC."""


def stored_moment(value: Any, digits: int) -> datetime:
    moment = stored_timestamp(value, digits)
    if moment <= _FIRST - _WEST or moment > _LAST + _EAST:
        raise ExecutionError("conversion", f"incorrect datetime value {str(moment)!r} for a TIMESTAMP")
    if moment <= _FIRST + _EAST or moment > _LAST - _WEST:
        raise outside(
            f"the TIMESTAMP {str(moment)!r}, which some time zones have and others do not,",
            "use DATETIME, or times from 1970-01-02 15:00 to 2038-01-18 14:00",
        )
    return moment


# Functions


def substring(text: str, start: int, length: int | None = None) -> str:
    if start == 0 or (length is not None and length <= 0) or abs(start) > len(text):
        return ""
    first = start - 1 if start > 0 else len(text) + start
    return text[first:] if length is None else text[first : first + length]


def uncut(text: str, length: int) -> str:
    """A number as a text, where a statement changes tables: texts alone are cut off there."""
    if len(text) > length:
        raise ExecutionError("conversion", f"incorrect CHAR({length}) value {text!r}")
    return text


# Aggregates


def average_exact(scale: int) -> Callable[[list[Any]], Decimal | None]:
    def average(values: list[Any]) -> Decimal | None:
        total = numbers.decimal_total(values)
        return None if total is None else decimal_quotient(total, Decimal(len(values)), scale, 0)

    return average


def sum_floats(values: list[float]) -> float | None:
    return numbers.float_total(values) if values else None


def average_floats(values: list[float]) -> float | None:
    return numbers.float_total(values) / len(values) if values else None


def same_for_all_plans(function: Callable[[list[Any]], Any], scale: int) -> Callable[[list[Any]], Any]:
    """The same, where it is the same for all plans: groups in a temporary table, and DISTINCT, hold values that are rounded;
    groups in the order of an index, or of one row, keep all digits of a quotient.
    """

    def grouped(values: list[Any]) -> Any:
        result = function(values)
        if result != function([numbers.rounded(value, scale) for value in values]):
            raise outside(
                "an aggregate of quotients, in groups or DISTINCT, in MySQL",
                "cast them to DECIMAL: the plan says where they are rounded",
            )
        return result

    return grouped


def minimum(values: list[Any]) -> Any:
    return min(values) if values else None


def maximum(values: list[Any]) -> Any:
    return max(values) if values else None


def minimum_text(values: list[str]) -> str | None:
    return extreme(values, min(values, key=sort_text), sort_text) if values else None


def maximum_text(values: list[str]) -> str | None:
    return extreme(values, max(values, key=sort_text), sort_text) if values else None


def bound(value: int | None) -> int:
    if value is None:
        raise outside("a LIMIT or OFFSET that is null in MySQL", "give a number")
    return numbers.row_count(value)
