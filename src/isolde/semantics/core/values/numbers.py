"""Exact and inexact arithmetic: what the dialects share, with the rules that each has for scales, ranges and rounding.

A ``Decimal`` is exact; its exponent is the scale that the database would show. MySQL keeps more digits of a quotient than it
shows, in words of nine; see ``mysql_quotient``.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from math import inf, isinf, isnan
from struct import pack, unpack

from isolde.errors import ExecutionError, OutsideFragment

EXACT = Context(prec=2500, rounding=ROUND_HALF_UP, Emin=MIN_EMIN, Emax=MAX_EMAX)
"""Wide enough that nothing here is ever rounded by it; PostgreSQL's ``numeric`` shows at most 1,000 digits after the point."""

BOUNDS = {
    (bits, unsigned): (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for bits in (8, 16, 24, 32, 64)
    for unsigned in (False, True)
}
"""The least and the greatest integer of so many bits."""


def out_of_range(what: object) -> ExecutionError:
    return ExecutionError("out-of-range", f"{what} is out of range")


def zero_divisor() -> ExecutionError:
    return ExecutionError("division-by-zero", "division by zero")


def positive_zero(number: Decimal) -> Decimal:
    """Databases have no negative zero in decimals, and no positive exponent."""
    if not number:
        return abs(number) if number.as_tuple().exponent <= 0 else Decimal(0)  # type: ignore[operator]
    return number.quantize(Decimal(1), context=EXACT) if number.as_tuple().exponent > 0 else number  # type: ignore[operator]


def scale_of(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), "databases here have no infinite decimals"
    return max(-exponent, 0)


def rounded(number: Decimal, scale: int) -> Decimal:
    """Half away from zero; a negative scale rounds before the point, and shows nothing after it."""
    result = number.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP, context=EXACT)
    return positive_zero(result)


def truncated(number: Decimal) -> int:
    return int(number.to_integral_value(rounding=ROUND_DOWN, context=EXACT))


def nearest_integer(number: Decimal) -> int:
    return int(number.to_integral_value(rounding=ROUND_HALF_UP, context=EXACT))


def nearest_even(number: float) -> int:
    if isnan(number) or isinf(number):
        raise out_of_range(number)
    return int(Decimal(number).to_integral_value(rounding=ROUND_HALF_EVEN, context=EXACT))


def within(bits: int, unsigned: bool) -> Callable[[int], int]:
    """A check that an integer fits; the same function for the same bounds."""
    return _WITHIN[bits, unsigned]


def _within(low: int, high: int) -> Callable[[int], int]:
    def fitting(number: int) -> int:
        if low <= number <= high:
            return number
        raise out_of_range(number)

    return fitting


_WITHIN = {key: _within(*bounds) for key, bounds in BOUNDS.items()}


def finite(number: float) -> float:
    if number in (inf, -inf):
        raise out_of_range("a floating-point number")
    return number


def single(number: float) -> float:
    """A number that a float of 32 bits holds as it is, and shows in the six digits of MySQL; no other is rounded here."""
    kept = unpack("f", pack("f", number))[0] if abs(number) < 2.0**127 else None
    if kept != number or float(f"{number:.6g}") != number:
        raise OutsideFragment(
            "statement", f"{number!r} in 32 bits, which would be rounded,", "use DOUBLE, or a decimal"
        )
    return number


def decimal_sum(left: Decimal, right: Decimal) -> Decimal:
    return positive_zero(EXACT.add(left, right))


def decimal_difference(left: Decimal, right: Decimal) -> Decimal:
    return positive_zero(EXACT.subtract(left, right))


def decimal_product(left: Decimal, right: Decimal) -> Decimal:
    return positive_zero(EXACT.multiply(left, right))


def decimal_total(values: list[Decimal | int]) -> Decimal | None:
    """What SUM makes of exact numbers; null of none."""
    total = Decimal(0)
    for value in values:
        total = EXACT.add(total, Decimal(value))
    return positive_zero(total) if values else None


def float_total(values: list[float]) -> float:
    """One after the other: newer Pythons' ``sum`` compensates for lost digits, databases do not."""
    total = 0.0
    for value in values:
        total += value
    return total


def fitted_decimal(number: Decimal, precision: int, scale: int) -> Decimal:
    """As a column of DECIMAL(precision, scale) holds it."""
    result = rounded(number, scale)
    if abs(result) >= Decimal(10) ** (precision - scale):
        raise out_of_range(number)
    return result


def row_count(value: int) -> int:
    """What LIMIT or OFFSET is given."""
    if value < 0:
        raise ExecutionError("out-of-range", "LIMIT and OFFSET must not be negative")
    return value


def remainder(left: Decimal, right: Decimal) -> Decimal:
    """With the sign of the dividend."""
    if not right:
        raise zero_divisor()
    return positive_zero(EXACT.subtract(left, EXACT.multiply(right, Decimal(truncated_quotient(left, right)))))


def truncated_quotient(left: Decimal, right: Decimal) -> int:
    scale = max(scale_of(left), scale_of(right))
    numerator, denominator = int(left.scaleb(scale, EXACT)), int(right.scaleb(scale, EXACT))
    quotient = abs(numerator) // abs(denominator)
    return quotient if (numerator < 0) == (denominator < 0) else -quotient


def _leading(number: Decimal) -> tuple[int, int]:
    """The weight and the value of the first digit in base 10,000, as ``numeric`` stores numbers."""
    if not number:
        return 0, 0
    weight = number.adjusted() // 4
    return weight, int(abs(number).scaleb(-4 * weight, EXACT))


def postgresql_quotient(left: Decimal, right: Decimal) -> Decimal:
    """At least 16 significant digits, and no fewer decimals than either has (``select_div_scale``)."""
    if not right:
        raise zero_divisor()
    (weight_left, first_left), (weight_right, first_right) = _leading(left), _leading(right)
    weight = weight_left - weight_right - (1 if first_left <= first_right else 0)
    scale = min(max(16 - weight * 4, scale_of(left), scale_of(right), 0), 1000)
    return rounded(EXACT.divide(left, right), scale)


def mysql_quotient(left: Decimal, right: Decimal, left_scale: int, right_scale: int) -> Decimal:
    """Cut, not rounded, to words of nine digits (``do_div_mod``); rounding to the shown scale comes when it is shown."""
    words_left, words_right = -(-left_scale // 9) * 9, -(-right_scale // 9) * 9
    more = max(4 - (words_left - left_scale) - (words_right - right_scale), 0)
    scale = -(-(words_left + words_right + more) // 9) * 9
    quotient = EXACT.divide(left, right).quantize(Decimal(1).scaleb(-scale), rounding=ROUND_DOWN, context=EXACT)
    return positive_zero(quotient)


def integer_quotient(left: int, right: int) -> int:
    """Towards zero, where Python's goes down."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def integer_remainder(left: int, right: int) -> int:
    return left - right * integer_quotient(left, right)
