"""Is what a database answered what the semantics gives? Rows are bags, and their order counts as far as it was asked for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from isolde.errors import ExecutionError

Rows = Sequence[Sequence[Any]]
ERRORS = (
    "serialization-failure",
    "deadlock",
    "lock-timeout",
    "unique",
    "foreign-key",
    "check",
    "not-null",
    "arithmetic",
    "transaction-failed",
    "other",
)
"""The history format's words for what a statement failed of."""
CONCURRENCY = frozenset({"serialization-failure", "deadlock", "lock-timeout", "transaction-failed"})
"""Errors that speak of other transactions: no definition of a level says when a database may give up."""


def same_value(expected: Any, observed: Any) -> bool:
    """Whether a value of the semantics and one of a log are the same. Sums of floats depend on the order of rows.

    >>> same_value(Decimal("1.50"), Decimal("1.5")), same_value(1, "1"), same_value(0.1 + 0.2, Decimal("0.3"))
    (True, False, True)
    """
    if expected is None or observed is None:
        return expected is observed
    if isinstance(expected, datetime):
        return _same_time(expected, observed)
    if isinstance(expected, date):
        return expected.isoformat() == str(observed)
    if isinstance(expected, str) or isinstance(observed, str):
        return type(expected) is type(observed) and bool(expected == observed)
    if isinstance(expected, float) or isinstance(observed, float):
        return math.isclose(float(expected), float(observed), rel_tol=1e-9, abs_tol=1e-12)
    return bool(expected == observed)


def _same_time(expected: datetime, observed: Any) -> bool:
    if not isinstance(observed, str):
        return bool(expected == observed)
    try:
        return datetime.fromisoformat(observed) == expected
    except ValueError:
        return False


def same_row(expected: Sequence[Any], observed: Sequence[Any]) -> bool:
    return len(expected) == len(observed) and all(map(same_value, expected, observed))


def same_list(expected: Rows, observed: Rows) -> bool:
    """The same rows in the same order."""
    return len(expected) == len(observed) and all(map(same_row, expected, observed))


def same_bag(expected: Rows, observed: Rows) -> bool:
    """The same rows in any order."""
    if len(expected) != len(observed):
        return False
    if same_list(expected, observed):
        return True
    if any(isinstance(value, float) for row in expected for value in row):
        return _matched(expected, observed)
    return Counter(map(_told, expected)) == Counter(map(_told, observed))


def _told(row: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(_text_of_time(value) for value in row)


def _text_of_time(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | dict):
        return repr(value)
    if isinstance(value, str) and "T" in value:
        try:
            return datetime.fromisoformat(value).isoformat(sep=" ")
        except ValueError:
            return value
    return value


def _matched(expected: Rows, observed: Rows) -> bool:
    """One by one: close floats are equal, and have no common form."""
    left = list(observed)
    for row in expected:
        place = next((place for place, other in enumerate(left) if same_row(row, other)), None)
        if place is None:
            return False
        del left[place]
    return True


def same_order(expected: Rows, keys: Rows, observed: Rows) -> bool:
    """Whether ``observed`` is ``expected`` up to the order of rows with the same key; ``keys`` are those of ``expected``."""
    start = 0
    while start < len(expected):
        end = start + 1
        while end < len(expected) and keys[end] == keys[start]:
            end += 1
        if not same_bag(expected[start:end], observed[start:end]):
            return False
        start = end
    return len(expected) == len(observed)


def same_cut(every: Rows, keys: Rows, offset: int, limit: int | None, observed: Rows) -> bool:
    """Whether ``observed`` are rows that OFFSET and LIMIT may leave of ``every``; rows of one key come in any order."""
    first, last = min(offset, len(every)), len(every) if limit is None else min(offset + limit, len(every))
    if len(observed) != last - first:
        return False
    start = 0
    while start < len(every):
        end = start + 1
        while end < len(every) and keys[end] == keys[start]:
            end += 1
        shown = observed[max(start, first) - first : max(min(end, last), first) - first] if end > first else ()
        if not _part_of(shown, every[start:end]):
            return False
        start = end
    return True


def _part_of(part: Rows, whole: Rows) -> bool:
    left = list(whole)
    for row in part:
        place = next((place for place, other in enumerate(left) if same_row(other, row)), None)
        if place is None:
            return False
        del left[place]
    return True


def same_error(expected: ExecutionError, observed: str) -> bool:
    """Whether a statement that had to fail for this reason may be told to have failed in that word."""
    return observed in (expected.word, "other")


def shown(value: Any) -> Any:
    """A value as a report has it."""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        return Decimal(repr(value)) if math.isfinite(value) else str(value)
    return value


def shown_rows(rows: Rows | None) -> tuple[tuple[Any, ...], ...] | None:
    return None if rows is None else tuple(tuple(map(shown, row)) for row in rows)
