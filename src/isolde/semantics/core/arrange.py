"""Rows in order, in groups, and cut: what all readings do to the rows of a query.

A database takes rows as its plan finds them. What comes out of any order is computed; where the order decides, it is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from isolde.semantics.core.types import outside
from isolde.semantics.core.values.ties import is_first

Keyed = tuple[tuple[Any, ...], tuple[Any, ...]]
"""What a row is ordered by, and the row."""


def ordered(
    rows: list[Keyed],
    specs: tuple[tuple[int, bool, bool], ...],
    offset: int | None = None,
    limit: int | None = None,
) -> list[tuple[Any, ...]]:
    """``specs``: the place of a key, whether it descends, whether nulls come first."""
    # By the last key first: sorting is stable.
    for place, descending, nulls_first in reversed(specs):
        null = (0, 0) if nulls_first is not descending else (2, 0)
        rows.sort(key=_sort_key(place, null), reverse=descending)
    refuse_open_cut(rows, offset, limit)
    return [row for _, row in rows]


def _sort_key(place: int, null: tuple[int, Any]) -> Callable[[Keyed], tuple[int, Any]]:
    return lambda entry: null if entry[0][place] is None else (1, entry[0][place])


def refuse_open_cut(rows: list[Keyed], offset: int | None, limit: int | None) -> None:
    """Of different rows that ORDER BY leaves in the same place, LIMIT and OFFSET may keep any."""
    first = offset or 0
    for cut in (first, None if limit is None else first + limit):
        if cut is None or not 0 < cut < len(rows) or rows[cut - 1][0] != rows[cut][0]:
            continue
        there = rows[cut][0]
        if len({repr(row) for key, row in rows if key == there}) > 1:
            raise outside("a LIMIT or OFFSET that cuts rows in an open order", "order by a key, too")


def distinct_values(pairs: list[tuple[Any, Any]]) -> list[Any]:
    """The first value of each key."""
    found: dict[Any, Any] = {}
    for key, value in pairs:
        found.setdefault(key, value)
    return list(found.values())


def distinct_same(pairs: list[tuple[Any, Any]]) -> list[Any]:
    """The same, where values with one key must not differ."""
    seen: dict[Any, str] = {}
    return [value for key, value in pairs if is_first(seen, key, value)]
