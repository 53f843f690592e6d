"""SQLite's functions of rows."""

from __future__ import annotations

from typing import Any

from isolde.errors import ExecutionError
from isolde.semantics.concrete import sqlite
from isolde.semantics.concrete.rules import outside
from isolde.semantics.concrete.sqlite import SQLite
from isolde.semantics.concrete.static import ANY, Code
from isolde.tx.expressions import Binary, Function


def called(rules: SQLite, function: Function, arguments: list[Code]) -> Code:
    match function:
        case Function.COALESCE:
            text = arguments[-1].text
            for code in reversed(arguments[:-1]):
                name = rules.namespace.fresh("t")
                text = f"({name} if ({name} := {code.text}) is not None else {text})"
            return Code(text, ANY, solid=arguments[-1].solid)
        case Function.IF:
            condition = rules.truth(arguments[0])
            return Code(f"({arguments[1].text} if {condition.text} else {arguments[2].text})", ANY)
        case Function.NULLIF:
            # Arguments of a function have no affinity any more.
            equal = rules.compared(Binary.EQUAL, *(argument.typed(ANY) for argument in arguments))
            return Code(f"(None if {equal.text} else {arguments[0].text})", ANY)
        case Function.GREATEST:
            return rules.lifted(greatest, arguments, ANY)
        case Function.LEAST:
            return rules.lifted(least, arguments, ANY)
        case Function.NOW:
            return Code("S.now().isoformat(sep=' ', timespec='seconds')", ANY, solid=True)
        case Function.CONCAT | Function.CEILING | Function.FLOOR:
            raise ExecutionError("name", f"no such function: {function.value}")
        case _:
            return rules.lifted(_FUNCTIONS[function], arguments, ANY, solid=function is not Function.SIGN)


def greatest(*values: Any) -> Any:
    return max(values, key=sqlite.rank)


def least(*values: Any) -> Any:
    """Of equal ones the last, where max gives the first: 0 and 0.0 are equal."""
    return min(reversed(values), key=sqlite.rank)


def absolute(value: Any) -> Any:
    if isinstance(value, str):
        return abs(float(sqlite.number(value)))
    if value == -(2**63):
        raise ExecutionError("out-of-range", "integer overflow")
    return abs(value)


def length(value: Any) -> int:
    return len(sqlite.text(value))


def lower(value: Any) -> str:
    return _ascii(value).lower()


def upper(value: Any) -> str:
    return _ascii(value).upper()


def _ascii(value: Any) -> str:
    """SQLite leaves letters beyond ASCII alone; a text that has some is refused rather than guessed at."""
    shown = sqlite.text(value)
    if not shown.isascii():
        raise outside(f"the case of {shown!r}")
    return shown


def trim(value: Any) -> str:
    return sqlite.text(value).strip(" ")


def sign(value: Any) -> int | None:
    if isinstance(value, str):
        value = sqlite.numeric_affinity(value)
        if isinstance(value, str):
            return None
    return int(value > 0) - int(value < 0)


def rounded(value: Any, places: Any = 0) -> float:
    number = float(sqlite.number(value))
    digits = sqlite.integer(places)
    if digits > 0:
        raise outside("round of a floating-point number to digits", "round an integer number of the smallest unit")
    return float(int(number + (0.5 if number >= 0 else -0.5)))


def substring(value: Any, start: Any, length: Any = None) -> str:
    text, first = sqlite.text(value), sqlite.integer(start)
    count = len(text) + abs(first) + 1 if length is None else sqlite.integer(length)
    if first > 0:
        first -= 1
    elif first < 0:
        first += len(text)
        if first < 0 and length is None:
            first = 0
    elif count > 0:
        count -= 1
    if count < 0:
        first, count = first + count, -count
    if first < 0:
        count, first = count + first, 0
    return text[first : first + max(count, 0)]


_FUNCTIONS = {
    Function.ABS: absolute,
    Function.CHARACTER_LENGTH: length,
    Function.LOWER: lower,
    Function.UPPER: upper,
    Function.TRIM: trim,
    Function.SIGN: sign,
    Function.ROUND: rounded,
    Function.SUBSTRING: substring,
}
