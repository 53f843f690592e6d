"""Rows as values: what scalar queries, IN and variables make of them."""

from __future__ import annotations

from collections.abc import Sequence

from isolde.errors import ExecutionError
from isolde.semantics.core.types import outside


def any_true(answers: list[bool | None]) -> bool | None:
    """IN over a query: true if one is, else unknown if one is, else false."""
    if True in answers:
        return True
    return None if None in answers else False


def single(rows: Sequence[Sequence[object]]) -> object:
    if len(rows) > 1:
        raise ExecutionError("cardinality", "a scalar query gives more than one row")
    return rows[0][0] if rows else None


def single_ahead(rows: Sequence[Sequence[object]]) -> object:
    """MariaDB runs the query before it looks at rows, unless it sees that there are none."""
    if len(rows) > 1:
        raise outside("a scalar query of several rows in MySQL", "whether it fails depends on the plan; use LIMIT 1")
    return rows[0][0] if rows else None


def first(rows: Sequence[Sequence[object]]) -> object:
    """SQLite's: the first of several rows, if it does not matter which that is."""
    if len(rows) > 1 and any(repr(row) != repr(rows[0]) for row in rows):
        raise outside(
            "a scalar query of several rows without an order", "SQLite takes the row that its plan finds first"
        )
    return rows[0][0] if rows else None


def first_ordered(rows: Sequence[Sequence[object]]) -> object:
    return rows[0][0] if rows else None


def one_at_most(rows: Sequence[object]) -> None:
    if len(rows) > 1:
        raise ExecutionError("cardinality", "more than one row for variables that take one")


def is_null(row: Sequence[object] | None) -> bool:
    """As PostgreSQL has it: whether all columns are null."""
    return row is None or all(column is None for column in row)


def is_not_null(row: Sequence[object] | None) -> bool:
    """Whether no column is null, which is not the opposite."""
    return row is not None and all(column is not None for column in row)
