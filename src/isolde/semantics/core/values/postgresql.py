"""PostgreSQL's values: conversions, functions of them, aggregates."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from isolde.errors import ExecutionError
from isolde.semantics.core.types import outside
from isolde.semantics.core.values import numbers, texts


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


def fixed_text(text: str, length: int) -> str:
    """A text of CHAR(n). Spaces at its end are shown, and not compared: one that has any is refused."""
    text = texts.fitted_text(text, length)
    if len(text) < length or text.endswith(" "):
        raise outside("a CHAR(n) that is filled with spaces", "use VARCHAR")
    return text


def fixed_cut(text: str, length: int) -> str:
    return fixed_text(text[:length], length)


# Functions


def shifted_left(number: int, count: int, bits: int) -> int:
    size = 1 << bits
    shifted = (number << (count % max(bits, 32))) % size
    return shifted - size if shifted >= size // 2 else shifted


def like(text: str, pattern: str) -> bool:
    return texts.like_pattern(pattern, ignore_case=False, escapes=True)(text)


def keeping_sign(compute: Callable[[float], int]) -> Callable[[float], float]:
    """A float that is rounded to zero keeps its sign, which shows in its text."""
    return lambda number: math.copysign(compute(number), number)


def decimal_round(number: Decimal, scale: int) -> Decimal:
    return numbers.rounded(number, max(min(scale, 2000), -2000))


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
