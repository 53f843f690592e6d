"""What compiled expressions and procedures call while they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from isolde.errors import ExecutionError
from isolde.semantics.concrete.rules import outside


def in_python(function: Callable[..., object], *operands: object) -> object:
    try:
        return function(*operands)
    except TypeError as error:
        raise _wrong_operand(operands, str(error)) from None


def python_result(*values: object) -> object:
    """The last of the values, what the dialect's arithmetic made of the others, where Python would have made it."""
    *operands, result = values
    if any(operand is None or isinstance(operand, str) for operand in operands):
        raise _wrong_operand(operands, "arithmetic is of numbers")
    if isinstance(result, float | Decimal) and all(isinstance(operand, int) for operand in operands):
        # SQLite makes an inexact number of integers that are too large, MySQL a decimal of some that it negates.
        if not -(2**63) <= result < 2**63:
            raise ExecutionError("out-of-range", f"{result!r} is out of range")
        return int(result)
    return result


def _wrong_operand(operands: Sequence[object], reason: str) -> ExecutionError:
    if None in operands:
        return ExecutionError("not-null", "a null where Python needs a value")
    return ExecutionError("type", reason)


def any_true(answers: list[bool | None]) -> bool | None:
    """IN over a query: true if one is, else unknown if one is, else false."""
    if True in answers:
        return True
    return None if None in answers else False


def single(rows: list[tuple[object, ...]]) -> object:
    if len(rows) > 1:
        raise ExecutionError("cardinality", "a scalar query gives more than one row")
    return rows[0][0] if rows else None


def checked(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    single(rows)
    return rows


def first(rows: list[tuple[object, ...]]) -> object:
    """SQLite's: the first of several rows, if it does not matter which that is."""
    if len(rows) > 1 and any(repr(row) != repr(rows[0]) for row in rows):
        raise outside(
            "a scalar query of several rows without an order", "SQLite takes the row that its plan finds first"
        )
    return rows[0][0] if rows else None


def first_ordered(rows: list[tuple[object, ...]]) -> object:
    return rows[0][0] if rows else None


def fitting(value: object) -> None:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ExecutionError("out-of-range", f"{value} is out of range")


def span(first: int | None, last: int | None) -> range:
    if first is None or last is None:
        raise ExecutionError("not-null", "the bounds of a loop must not be null")
    return range(first, last + 1)


def element(rows: Sequence[tuple[object]], index: object) -> object:
    """The one at the index, from 1, in a list that is held as rows of one column."""
    if index is not None and not isinstance(index, int):
        raise ExecutionError("type", f"the index of a list is an integer, not {index!r}")
    return rows[index - 1][0] if index is not None and 1 <= index <= len(rows) else None
