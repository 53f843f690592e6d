"""First rows with unknown values: values that the log suggests are tried. One that explains the log is enough.

That none does is known where finitely many values stand for all (``regions.py``) and each of them was refuted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import Any

from isolde.formats.tables import SqlHistory, Unknown
from isolde.history import Sql

TRIES_MAX = 400
"""Choices of values for all unknowns together."""
REASON = "the first rows have unknown values, and none of those that the log suggests explains it"


def has_unknowns(history: SqlHistory) -> bool:
    return any(isinstance(cell, Unknown) for rows in history.rows.values() for row in rows for cell in row)


def guesses(history: SqlHistory, known: Mapping[str, Sequence[Any]] | None = None) -> Iterator[SqlHistory]:
    """The history with values in place of unknowns, the likeliest first. ``known``: the values to try for each, instead."""
    kinds: dict[str, str] = {}
    for table, rows in history.rows.items():
        columns = history.schema.tables[table].columns
        for row in rows:
            kinds |= {
                cell.name: column.type.kind.value
                for cell, column in zip(row, columns, strict=True)
                if isinstance(cell, Unknown)
            }
    values = _values(history)
    choices = [[value for value in values if _fits(value, kind)] or [None] for kind in kinds.values()]
    if known is not None:
        choices = [list(known[name]) for name in kinds]
    for chosen in islice(product(*choices), TRIES_MAX):
        cells = dict(zip(kinds, chosen, strict=True))
        guessed = {
            table: tuple(
                tuple(cells[cell.name] if isinstance(cell, Unknown) else cell for cell in row) for row in found
            )
            for table, found in history.rows.items()
        }
        yield replace(history, rows=guessed)


def _values(history: SqlHistory) -> list[Any]:
    """What answers show, and the same less and more by what statements were given."""
    shown: dict[Any, None] = {}
    given: dict[Any, None] = {}
    for transaction in history.transactions:
        for op in transaction.ops:
            if isinstance(op, Sql):
                shown |= {value: None for row in op.content.get("rows") or () for value in row}
                given |= dict.fromkeys(op.content.get("params") or ())
    numbers = [value for value in shown if isinstance(value, int) and not isinstance(value, bool)]
    steps = [value for value in given if isinstance(value, int) and not isinstance(value, bool)]
    near = {number + sign * step: None for number in numbers for step in steps for sign in (-1, 1)}
    return [*shown, *near, 0]


def _fits(value: Any, kind: str) -> bool:
    if value is None:
        return True
    if kind in ("text", "date", "timestamp"):
        return isinstance(value, str)
    return not isinstance(value, str)
