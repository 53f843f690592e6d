"""What Python makes of values: a transaction function computes as it would if it were run as it stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from isolde.errors import ExecutionError


def checked(function: Callable[..., object]) -> Callable[..., object]:
    """The function, with our error where Python has a ``TypeError``."""

    def called(*operands: object) -> object:
        try:
            return function(*operands)
        except TypeError as error:
            raise _wrong_operand(operands, str(error)) from None

    return called


def binary_result(left: object, right: object, found: object) -> object:
    """What the dialect's arithmetic made of the operands, where Python would have made it."""
    if type(found) is int and type(left) is int and type(right) is int:
        return found
    return result(left, right, found)


def result(*values: object) -> object:
    """The same of any number of operands: the last of the values is what was made of the others."""
    *operands, found = values
    if any(operand is None or isinstance(operand, str) for operand in operands):
        raise _wrong_operand(operands, "arithmetic is of numbers")
    if isinstance(found, (float, Decimal)) and all(isinstance(operand, int) for operand in operands):
        # SQLite makes an inexact number of integers that are too large, MySQL a decimal of some that it negates.
        if not -(2**63) <= found < 2**63:
            raise ExecutionError("out-of-range", f"{found!r} is out of range")
        return int(found)
    return found


def _wrong_operand(operands: Sequence[object], reason: str) -> ExecutionError:
    if None in operands:
        return ExecutionError("not-null", "a null where Python needs a value")
    return ExecutionError("type", reason)


def fitting(value: object) -> None:
    """Refuses an integer that no database holds."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ExecutionError("out-of-range", f"{value} is out of range")
