"""Whether what a statement returned is what it gives on its version set."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from isolde.engines.certify.statements import Form
from isolde.semantics.tables.view import Row

_SHOWN_ROWS = 3
_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Answer:
    """What a statement gives: its rows (behind each the keys of its order), how many rows it found, and how many it changed."""

    rows: Sequence[Row]
    found: int
    changed: int


def difference(content: Mapping[str, Any], form: Form, answer: Answer, counts: str | None) -> str:
    """What the recorded answer has that this one has not; empty if they are the same. What was not recorded is not compared.

    ``counts`` is what an UPDATE counts: the rows ``found``, or those ``changed``; ``None``: either.
    """
    recorded = content.get("rows")
    if form.returns and recorded is not None:
        return _rows(recorded, form, answer.rows)
    count = content.get("count")
    if form.what == "query" or count is None or count == -1:
        return ""
    allowed = {"found": {answer.found}, "changed": {answer.changed}}.get(counts or "", {answer.found, answer.changed})
    if count in allowed:
        return ""
    expected = " or ".join(str(one) for one in sorted(allowed))
    return f"it counted {count}, and on the versions that it saw it counts {expected}"


def _rows(recorded: Any, form: Form, rows: Sequence[Row]) -> str:
    width = form.width
    shown = [list(row[:width]) for row in rows]
    if recorded == shown or (not form.ordered and len(recorded) == len(shown) and _same_bag(recorded, shown)):
        return ""
    given = [tuple(map(comparable, row)) for row in recorded]
    expected = [tuple(map(comparable, row[: form.width])) for row in rows]
    missing = Counter(expected) - Counter(given)
    extra = Counter(given) - Counter(expected)
    if missing or extra:
        parts = []
        if extra:
            parts.append(f"it returned {_shown(extra)}, which the versions that it saw do not give")
        if missing:
            parts.append(f"{_shown(missing)} of the versions that it saw is missing from its result")
        return ", and ".join(parts)
    if not form.ordered:
        return ""
    # Rows with equal keys may come in any order.
    at = 0
    while at < len(rows):
        key = rows[at][form.width :]
        end = at
        while end < len(rows) and rows[end][form.width :] == key:
            end += 1
        if Counter(expected[at:end]) != Counter(given[at:end]):
            return "its rows come in another order than the one that it asks for"
        at = end
    return ""


def _same_bag(recorded: Any, shown: list[list[Any]]) -> bool:
    """Whether rows are plainly the same in any order; what this does not see, cell by cell shows."""
    try:
        return bool(sorted(recorded) == sorted(shown))
    except TypeError:
        return False


def same_rows(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether a client cannot tell two rows apart."""
    return tuple(map(comparable, one)) == tuple(map(comparable, other))


def comparable(value: Any) -> Hashable:
    """The same for values that a client cannot tell apart: 1.50 and 1.5, true and 1, a time and its text."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else _number(Decimal(repr(value)))
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, datetime | date):
        return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    if isinstance(value, str) and len(value) > 10 and value[4:5] == "-" and value[10] == "T":
        return value.replace("T", " ", 1)
    if isinstance(value, list):
        return tuple(map(comparable, value))
    return value  # type: ignore[no-any-return]


def _number(value: Decimal) -> Hashable:
    if not value.is_finite():
        return str(value)
    if value == value.to_integral_value():
        return int(value)
    return round(value, _DIGITS - value.adjusted() - 1 if value.adjusted() < _DIGITS else 0).normalize()


def _shown(rows: Counter[tuple[Hashable, ...]]) -> str:
    texts = [shown_row(row) for row in rows.elements()]
    more = f" and {len(texts) - _SHOWN_ROWS} more rows" if len(texts) > _SHOWN_ROWS else ""
    return ", ".join(texts[:_SHOWN_ROWS]) + more


def shown_row(row: Sequence[Any]) -> str:
    """A row as a person reads it.

    >>> shown_row((1, None, "a"))
    "(1, null, 'a')"
    """
    return (
        "("
        + ", ".join("null" if cell is None else str(cell) if not isinstance(cell, str) else repr(cell) for cell in row)
        + ")"
    )
