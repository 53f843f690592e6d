"""PostgreSQL's values: conversions, functions of them, aggregates."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from isolde.errors import ExecutionError
from isolde.semantics.core.types import outside
from isolde.semantics.core.values import numbers, texts
from isolde.semantics.core.values.ties import extreme


def conversion_error(text: str, type_: object) -> ExecutionError:
    return ExecutionError("conversion", f"{text!r} is no {type_}")


# Conversions of values

_INTEGER = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_NO_NUMBER = re.compile(r"\s*(nan|[+-]?inf(inity)?)\s*", re.ASCII | re.IGNORECASE)
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def text_integer(text: str, bits: int) -> int:
    if not _INTEGER.fullmatch(text):
        raise conversion_error(text, "integer")
    return numbers.within(bits, False)(int(text))


def text_decimal(text: str) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise _no_number(text, "numeric")
    return numbers.positive_zero(Decimal(text.strip()))


def _no_number(text: str, type_: str) -> Exception:
    if _NO_NUMBER.fullmatch(text):
        return outside(f"{text.strip()!r} as a number", "use null, or a number that is large enough")
    return conversion_error(text, type_)


def text_float(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise _no_number(text, "double precision")
    return numbers.finite(float(text))


def text_boolean(text: str) -> bool:
    word = text.strip().lower()
    if word and word != "o":
        if any(known.startswith(word) for known in _TRUE):
            return True
        if any(known.startswith(word) for known in _FALSE):
            return False
    raise conversion_error(text, "boolean")


def text_timestamp(text: str) -> datetime:
    """A zone that is written is not looked at."""
    return _time(text, rounding=True)[0]


def text_date(text: str) -> date:
    return _time(text, rounding=False)[0].date()


def text_zoned(text: str) -> datetime:
    time, east = _time(text, rounding=True)
    return time.replace(tzinfo=UTC) - east


_ZONE = re.compile(r"(.*:\d+(?:\.\d*)?) *(?:Z|UTC|([+-])(\d{1,2})(?::?(\d\d))?)\s*", re.IGNORECASE | re.ASCII)


def _time(text: str, rounding: bool) -> tuple[datetime, timedelta]:
    """A time, and how far east of UTC its zone is; without one that of the session, which is UTC."""
    found = _ZONE.fullmatch(text)
    value = texts.timestamp(text if found is None else found[1], rounding)
    if value is None:
        raise conversion_error(text, "timestamp")
    if found is None or found[2] is None:
        return value, timedelta(0)
    if int(found[3]) > 14 or int(found[4] or 0) > 59:
        raise outside(f"the time {text!r}", "write a zone that there is")
    east = timedelta(hours=int(found[3]), minutes=int(found[4] or 0))
    return value, -east if found[2] == "-" else east


def float_text(number: float) -> str:
    return texts.float_text(number, "-0" if math.copysign(1, number) < 0 else "0", "numeric")


def float_decimal(number: float) -> Decimal:
    """Fifteen significant digits, as ``float8_numeric`` has it."""
    return numbers.positive_zero(Decimal(f"{number:.15g}"))


def timestamp_text(value: datetime) -> str:
    shown = value.isoformat(sep=" ")
    return shown.rstrip("0") if value.microsecond else shown


def zoned_text(value: datetime) -> str:
    return timestamp_text(value.astimezone(UTC).replace(tzinfo=None)) + "+00"


def decimal_float(number: Decimal) -> float:
    return numbers.finite(float(number))


def fixed_text(text: str, length: int) -> str:
    """A text of CHAR(n). Spaces at its end are shown, and not compared: one that has any is refused."""
    text = texts.fitted_text(text, length)
    if len(text) < length or text.endswith(" "):
        raise outside("a CHAR(n) that is filled with spaces", "use VARCHAR")
    return text


def fixed_cut(text: str, length: int) -> str:
    return fixed_text(text[:length], length)


# Functions


def float_quotient(left: float, right: float) -> float:
    if right == 0:
        raise numbers.zero_divisor()
    return numbers.finite(left / right)


def quotient(left: int, right: int) -> int:
    if right == 0:
        raise numbers.zero_divisor()
    return numbers.integer_quotient(left, right)


def modulo(left: int, right: int) -> int:
    if right == 0:
        raise numbers.zero_divisor()
    return numbers.integer_remainder(left, right)


def shifted_left(number: int, count: int, bits: int) -> int:
    size = 1 << bits
    shifted = (number << (count % max(bits, 32))) % size
    return shifted - size if shifted >= size // 2 else shifted


def like(text: str, pattern: str) -> bool:
    return texts.like_pattern(pattern, ignore_case=False, escapes=True)(text)


# A float that is rounded to zero keeps its sign, which shows in its text.


def float_ceiling(number: float) -> float:
    return math.copysign(math.ceil(number), number)


def float_round(number: float) -> float:
    return math.copysign(numbers.nearest_even(number), number)


def decimal_round(number: Decimal, scale: int) -> Decimal:
    return numbers.rounded(number, max(min(scale, 2000), -2000))


def substring(text: str, start: int, length: int | None = None) -> str:
    if length is None:
        return text[max(start - 1, 0) :]
    if length < 0:
        raise ExecutionError("out-of-range", "negative substring length not allowed")
    return text[max(start - 1, 0) : max(start - 1 + length, 0)]


# Aggregates


def sum_integers(values: list[int]) -> int | None:
    return numbers.within(64, False)(sum(values)) if values else None


def sum_floats(values: list[float]) -> float | None:
    return numbers.finite(numbers.float_total(values)) if values else None


def average_decimals(values: list[Decimal | int]) -> Decimal | None:
    total = numbers.decimal_total(values)
    return None if total is None else numbers.postgresql_quotient(total, Decimal(len(values)))


def average_floats(values: list[float]) -> float | None:
    return numbers.finite(numbers.float_total(values) / len(values)) if values else None


def minimum(values: list[Any]) -> Any:
    return extreme(values, min(values)) if values else None


def maximum(values: list[Any]) -> Any:
    return extreme(values, max(values)) if values else None


def greatest(*values: Any) -> Any:
    """The greatest of those that are not null."""
    return max((value for value in values if value is not None), default=None)


def least(*values: Any) -> Any:
    return min((value for value in values if value is not None), default=None)
