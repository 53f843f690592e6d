"""Texts: numbers at their beginning, letters, LIKE patterns, times. What the dialects share."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal

from isolde.errors import ExecutionError
from isolde.semantics.core.types import outside

NUMBER_PREFIX = re.compile(r"[ \t\n\v\f\r]*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)", re.ASCII)
INTEGER_PREFIX = re.compile(r"[ \t\n\v\f\r]*([+-]?\d+)", re.ASCII)


def whole_number(text: str, prefix: re.Pattern[str] = NUMBER_PREFIX) -> str | None:
    """The number that a text is, without the blanks around it; ``None`` if it is none, or something comes after it."""
    found = prefix.match(text)
    return found[1] if found and not text[found.end() :].strip(" \t\n\v\f\r") else None


def decimal_text(number: Decimal) -> str:
    return format(number, "f")


def float_text(number: float, zero: str, exact_type: str) -> str:
    """The shortest text of a float. Very large and small ones are shown differently by each database, and refused."""
    if number == 0:
        return zero
    if not 1e-4 <= abs(number) < 1e15:
        raise outside(f"the text of the floating-point number {number!r}", f"cast it to {exact_type} first")
    shown = repr(number)
    return shown[:-2] if shown.endswith(".0") else shown


def fitted_text(text: str, length: int) -> str:
    """As a column of VARCHAR(length) holds it: only spaces are cut off."""
    if text[length:].strip(" "):
        raise ExecutionError("out-of-range", f"{text!r} is longer than {length} characters")
    return text[:length]


def ascii_only(text: str) -> str:
    if not text.isascii():
        raise outside(f"the case of {text!r}", "letters beyond ASCII depend on the server's locale or collation")
    return text


def lower(text: str) -> str:
    return ascii_only(text).lower()


def upper(text: str) -> str:
    return ascii_only(text).upper()


def trim(text: str) -> str:
    return text.strip(" ")


def like_pattern(pattern: str, ignore_case: bool, escapes: bool) -> Callable[[str], bool]:
    """A test for LIKE. ``escapes``: a backslash takes the next character as it is."""
    if escapes and pattern.replace("\\\\", "").endswith("\\"):
        raise outside("a pattern of LIKE that ends with an unfinished escape", "write two backslashes for one")
    parts: list[str] = []
    escaped = False
    for character in pattern:
        if escaped or character not in "%_\\" or (character == "\\" and not escapes):
            parts.append(re.escape(character))
            escaped = False
        elif character == "\\":
            escaped = True
        else:
            parts.append(".*" if character == "%" else ".")
    compiled = re.compile("".join(parts), re.DOTALL | (re.IGNORECASE | re.ASCII if ignore_case else 0))
    return lambda text: compiled.fullmatch(text) is not None


_TIME = re.compile(
    r"[ \t\n]*(\d{4})-(\d{1,2})-(\d{1,2})(?:(?:T| +)(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?[ \t\n]*", re.ASCII
)


def timestamp(text: str, rounding: bool) -> datetime | None:
    """A date, or a date and a time; ``None`` if there is no such time. Of more than six digits some are rounded or cut off.

    Databases read many more forms, each its own: what has digits or words in another form is refused.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        if not text.strip():
            return None
        raise outside(f"the time {text!r}", "write it as 'YYYY-MM-DD hh:mm:ss'")
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    if not month or not day or hour == 24 or second == 60:
        raise outside(f"the time {text!r}", "write a time that the calendar and the clock have")
    fraction = found[7] or ""
    microseconds = int(fraction[:6].ljust(6, "0")) + (rounding and fraction[6:7] >= "5")
    try:
        return datetime(year, month, day, hour, minute, second) + timedelta(microseconds=microseconds)
    except (ValueError, OverflowError):
        return None


def in_precision(value: datetime, digits: int, rounding: bool) -> datetime:
    """With so many digits of a second: the others are rounded, or cut off."""
    step = 10 ** (6 - digits)
    more = step if rounding and value.microsecond % step * 2 >= step else 0
    whole = value - timedelta(microseconds=value.microsecond % step)
    return whole + timedelta(microseconds=more) if more else whole
