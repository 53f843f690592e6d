"""Primitives that several dialects have."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal

from isolde.semantics.core import primitives
from isolde.semantics.core.primitives import Primitive
from isolde.semantics.core.values import numbers, texts
from isolde.tx.expressions import Binary, Function

COMPARISONS: dict[Binary, Primitive] = {
    Binary.EQUAL: primitives.EQUAL,
    Binary.NOT_EQUAL: primitives.NOT_EQUAL,
    Binary.LESS: primitives.LESS,
    Binary.LESS_EQUAL: primitives.LESS_EQUAL,
    Binary.GREATER: primitives.GREATER,
    Binary.GREATER_EQUAL: primitives.GREATER_EQUAL,
    Binary.SAME: primitives.SAME,
}


DECIMAL_ARITHMETIC = {
    operator: Primitive(
        f"{operator.value} decimal",
        lambda left, right, compute=compute: numbers.positive_zero(compute(left, right)),
        smt=operator.value,
    )
    for operator, compute in (
        (Binary.ADD, numbers.EXACT.add),
        (Binary.SUBTRACT, numbers.EXACT.subtract),
        (Binary.MULTIPLY, numbers.EXACT.multiply),
    )
}
FLOAT_ARITHMETIC = {
    operator: Primitive(
        f"{operator.value} float",
        lambda left, right, compute=compute: numbers.finite(compute(left, right)),
        f"{{f}}({{0}} {operator.value} {{1}})",
        helper=numbers.finite,
        errors="out-of-range",
        smt=operator.value,
    )
    for operator, compute in (
        (Binary.ADD, lambda left, right: left + right),
        (Binary.SUBTRACT, lambda left, right: left - right),
        (Binary.MULTIPLY, lambda left, right: left * right),
    )
}
_INTEGER_OPERATIONS: tuple[tuple[str, Callable[..., int], str], ...] = (
    ("+", lambda left, right: left + right, "{0} + {1}"),
    ("-", lambda left, right: left - right, "{0} - {1}"),
    ("*", lambda left, right: left * right, "{0} * {1}"),
    ("negate", lambda value: -value, "-{0}"),
    ("abs", abs, "abs({0})"),
    ("fit", lambda value: value, "{0}"),
)


def integer_operations(dialect: str, bits: int, unsigned: bool = False) -> dict[str, Primitive]:
    """Arithmetic on integers, by its symbol: what it gives must fit into so many bits."""
    fit = numbers.within(bits, unsigned)
    return {
        symbol: Primitive(
            f"{dialect} {symbol} {'unsigned' if unsigned else 'int'}{bits}",
            lambda *values, compute=compute: fit(compute(*values)),
            f"{{f}}({text})",
            helper=fit,
            errors="out-of-range",
            smt=symbol,
        )
        for symbol, compute, text in _INTEGER_OPERATIONS
    }


NEGATED_DECIMAL = Primitive(
    "- decimal (sign)", lambda value: numbers.positive_zero(-value), "{f}(-{0})", helper=numbers.positive_zero
)
NEGATED_FLOAT = Primitive("- float (sign)", lambda value: -value, "(-{0})")
TEXT_FUNCTIONS = {
    Function.LOWER: Primitive("lower", texts.lower),
    Function.UPPER: Primitive("upper", texts.upper),
    Function.TRIM: Primitive("trim", lambda text: text.strip(" ")),
    Function.CHARACTER_LENGTH: Primitive("char_length", len),
}
SUBSTRING = Primitive("substring", texts.substring)
CONCATENATED = Primitive("||", lambda left, right: left + right, "({0} + {1})", smt="str.++")
BITS = {
    Binary.BIT_AND: Primitive("&", lambda left, right: left & right, "({0} & {1})"),
    Binary.BIT_OR: Primitive("|", lambda left, right: left | right, "({0} | {1})"),
    Binary.BIT_XOR: Primitive("bits that differ", lambda left, right: left ^ right, "({0} ^ {1})"),
}
BIT_NOT = Primitive("~", lambda value: ~value, "(~{0})")
INTEGER_TO_DECIMAL = Primitive("integer to decimal", Decimal)
TO_FLOAT = Primitive("number to float", float)
INTEGER_TO_TEXT = Primitive("integer to text", str)
DATE_TO_TEXT = Primitive("date to text", date.isoformat)
SINGLE_FLOAT = Primitive("float of 32 bits", numbers.single)
ABSOLUTE = Primitive("abs of a decimal or float", abs)
ROW_COUNT = Primitive("limit", numbers.row_count, strict=False)
