"""How many digits MariaDB keeps room for before the point of a number, by its type alone.

Nothing is cut to them; they decide whether FLOOR and CEILING of a decimal are an integer or a decimal (``INTEGER_DIGITS_MAX``).
``None`` where they depend on the length of a text or on how a float is written, which types here do not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from isolde.semantics.core.nodes import Constant, Expression
from isolde.semantics.core.types import ValueType
from isolde.semantics.core.values import numbers
from isolde.tx.expressions import Binary

PRECISION_MAX = 65
INTEGER_DIGITS_MAX = 18
BITS_DIGITS = 21
"""Of the bit operators."""
UNSIGNED_DIGITS = 20
"""Of a cast to UNSIGNED, and of COUNT."""
LENGTH_DIGITS = 9
"""Of CHAR_LENGTH."""
_TRUTH_DIGITS = 5
"""Of TRUE and FALSE, which are as wide as the word."""
_SUM_DIGITS = 22


def of_column(bits: int, unsigned: bool) -> int:
    if unsigned and bits in (24, 64):
        return {24: 8, 64: UNSIGNED_DIGITS}[bits]
    return {8: 3, 16: 5, 24: 7, 32: 10, 64: 19}[bits]


def of_constant(value: bool | int | Decimal) -> int:
    if isinstance(value, bool):
        return _TRUTH_DIGITS
    return len(str(abs(value if isinstance(value, int) else numbers.truncated(value))))


def widest(types: Sequence[ValueType]) -> int | None:
    """Of CASE, COALESCE, GREATEST: room for each."""
    found = [type_.digits for type_ in types if type_.digits is not None]
    return max(found) if len(found) == len(types) else None


def computed(operator: Binary, left: ValueType, right: ValueType, scale: int) -> int | None:
    """Of arithmetic whose result has this scale."""
    if left.digits is None or right.digits is None:
        return None
    match operator:
        case Binary.MULTIPLY:
            digits = left.digits + right.digits
        case Binary.DIVIDE:
            digits = left.digits + right.scale
        case Binary.MODULO:
            digits = max(left.digits + left.scale, right.digits + right.scale) - scale
        case Binary.INTEGER_DIVIDE:
            digits = left.digits if left.unsigned or right.unsigned else max(left.digits - 1, 1)
        case _:
            digits = max(left.digits, right.digits) + 1
    return min(digits + scale, PRECISION_MAX) - scale


def summed(operand: ValueType) -> int | None:
    return None if operand.digits is None else min(operand.digits + _SUM_DIGITS, PRECISION_MAX - operand.scale)


def stepped(operand: ValueType) -> int | None:
    """Of FLOOR, CEILING and ROUND of a decimal that loses digits: 99.9 becomes 100."""
    return None if operand.digits is None else operand.digits + (operand.scale > 0)


def cast(operand: Expression, unsigned: bool) -> int | None:
    """Of a cast to SIGNED, which keeps room for the digits after the point as well, or to UNSIGNED."""
    if operand.type.digits is None:
        return UNSIGNED_DIGITS if unsigned else None
    constant = operand.value if isinstance(operand, Constant) else None
    if unsigned and not (isinstance(constant, int) and constant >= 0):
        return UNSIGNED_DIGITS
    return operand.type.digits + operand.type.scale
