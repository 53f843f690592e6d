"""What a dialect decides: types of results, conversions, comparison, truth. One class a dialect implements it.

Rules write Python text (``Code``), they compute nothing themselves but constants; what is wrong by type is an ``ExecutionError``
when the statement is compiled, as it is in a database that has types.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, ClassVar

from isolde.errors import OutsideFragment
from isolde.semantics.concrete.static import BOOLEAN, NULL, Code, Constness, Namespace, Sort, Static
from isolde.tx.expressions import Aggregation, Binary, Constant, Function, Unary
from isolde.tx.schema import Column, Type

COMPARISONS = {
    Binary.EQUAL: "==",
    Binary.NOT_EQUAL: "!=",
    Binary.LESS: "<",
    Binary.LESS_EQUAL: "<=",
    Binary.GREATER: ">",
    Binary.GREATER_EQUAL: ">=",
}


class Rules(ABC):
    """Rules that write into one namespace. ``changing``: the statement changes tables, where MySQL is stricter."""

    sent: ClassVar[Mapping[type, Callable[[Any], Any]]] = MappingProxyType({})
    """What becomes of values that are given from outside, by their type, as the database has no such values."""

    def __init__(self, namespace: Namespace, changing: bool = False) -> None:
        self.namespace = namespace
        self.changing = changing

    # Types

    @abstractmethod
    def column(self, type_: Type) -> Static: ...

    @abstractmethod
    def given(self, value: Constant) -> Static:
        """The type of a parameter that has this value."""

    def variable(self, type_: Static) -> Static:
        """The type of a variable that nobody declared and that a value of this type is assigned to."""
        return type_

    @abstractmethod
    def literal(self, value: Constant) -> Code: ...

    @abstractmethod
    def common(self, codes: Sequence[Code], what: str) -> tuple[list[Code], Static]:
        """The operands of ``what`` (a CASE, a COALESCE) converted to the type that they have in common."""

    # Operations

    @abstractmethod
    def unary(self, operator: Unary, operand: Code) -> Code: ...

    @abstractmethod
    def binary(self, operator: Binary, left: Code, right: Code) -> Code:
        """Arithmetic, bits, concatenation, LIKE: all but logic and comparison."""

    @abstractmethod
    def compared(self, operator: Binary, left: Code, right: Code) -> Code: ...

    def matching(self, operator: Binary, left: Code, right: Code) -> Code:
        """The comparisons inside of BETWEEN, CASE and a list of several items."""
        return self.compared(operator, left, right)

    @abstractmethod
    def truth(self, code: Code, what: str = "condition") -> Code:
        """As a boolean of Python, or ``None`` where it is unknown."""

    @abstractmethod
    def call(self, function: Function, arguments: Sequence[Code]) -> Code: ...

    @abstractmethod
    def cast(self, code: Code, type_: Type) -> Code: ...

    @abstractmethod
    def stored(self, code: Code, column: Column) -> str:
        """What is stored where this is assigned to a column; a null passes."""

    @abstractmethod
    def aggregate(self, aggregation: Aggregation, operand: Code) -> tuple[Callable[[list[Any]], Any], Static, Code]:
        """A function of the values that are not null, what it gives, and the operand as it wants it."""

    def in_groups(
        self,
        function: Callable[[list[Any]], Any],
        type_: Static,  # noqa: ARG002
        operand: Code,  # noqa: ARG002
        alone: bool,  # noqa: ARG002
    ) -> Callable[[list[Any]], Any]:
        """An aggregate's function with GROUP BY or DISTINCT. ``alone``: what it gives is shown, nothing is computed from it."""
        return function

    # Keys

    @abstractmethod
    def key(self, code: Code) -> str:
        """Equal for values that the dialect holds equal."""

    @abstractmethod
    def probe(self, column: Static, code: Code) -> str | None:
        """The key by which rows whose column equals the value are found, or ``None`` if no key can tell."""

    def sort_key(self, code: Code) -> str:
        return self.key(code)

    nulls_last_ascending = False
    folds_nulls = False
    """Whether an operation with a NULL that is written there is null before anything else of it is computed."""
    existing = BOOLEAN
    """The type of EXISTS."""

    def output(self, code: Code) -> str:
        """What a client sees."""
        return code.text

    def value(self, code: Code) -> Code:
        """A truth value where a value is asked for: a number, in dialects that have no booleans."""
        return code

    # Shared by dialects

    def null(self) -> Code:
        return Code("None", NULL, Constness(None))

    def lift(self, template: str, codes: Sequence[Code], type_: Static, solid: bool = True) -> Code:
        """The template with the values in it, null where one of them is. ``solid``: not null if no operand is."""
        texts, tests = [], []
        null = any(code.constant is not None and code.constant.value is None for code in codes)
        if null and (self.folds_nulls or all(map(_plain, codes))):
            return Code("None", type_)
        surely = null or not all(code.solid for code in codes)
        for code in codes:
            if code.solid and (_plain(code) or not surely):
                texts.append(code.text)
                continue
            if code.text.isidentifier():
                texts.append(code.text)
                tests.append(f"{code.text} is None")
            else:
                name = self.namespace.fresh("t")
                texts.append(name)
                tests.append(f"({name} := {code.text}) is None")
        text = template.format(*texts)
        if not tests:
            return Code(f"({text})", type_, solid=solid)
        # Joined by | and not by or: all operands are evaluated, an error in a later one is not hidden by a null before it.
        test = tests[0] if len(tests) == 1 else " | ".join(f"({test})" for test in tests)
        return Code(f"(None if {test} else {text})", type_)

    def lifted(self, function: Any, codes: Sequence[Code], type_: Static, solid: bool = True) -> Code:
        holes = ", ".join(f"{{{position}}}" for position in range(len(codes)))
        return self.lift(f"{self.namespace.ref(function)}({holes})", codes, type_, solid)

    def all_null(self, codes: Sequence[Code]) -> bool:
        return all(code.type.sort is Sort.NULL for code in codes)

    def logic(self, operator: Binary, left: Code, right: Code) -> Code:
        """Three-valued; the right side is not looked at where the left decides."""
        left, right = self.truth(left, operator.value.upper()), self.truth(right, operator.value.upper())
        if operator is Binary.XOR:
            return self.lift("{0} != {1}", [left, right], BOOLEAN)
        name = self.namespace.fresh("t")
        decided = operator is Binary.OR
        helper = self.namespace.ref(either if decided else both)
        text = f"({decided} if ({name} := {left.text}) is {decided} else {helper}({name}, {right.text}))"
        return Code(text, BOOLEAN, solid=left.solid and right.solid)

    def negation(self, code: Code) -> Code:
        return self.lift("not {0}", [self.truth(code, "NOT")], BOOLEAN)


def _plain(code: Code) -> bool:
    """Whether it is there without computing."""
    return code.constant is not None or code.column or code.text.isidentifier() or code.text == "None"


def both(left: bool | None, right: bool | None) -> bool | None:
    """AND, where the left side is true or unknown."""
    if right is False or right is None:
        return right
    return left


def either(left: bool | None, right: bool | None) -> bool | None:
    """OR, where the left side is false or unknown."""
    if right is True:
        return True
    return None if left is None or right is None else False


def like_pattern(pattern: str, ignore_case: bool, trailing_escape: Any) -> Callable[[str], bool]:
    """A test for LIKE; a backslash takes the next character as it is."""
    parts: list[str] = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if character == "\\" and trailing_escape is not None:
            position += 1
            if position == len(pattern):
                if isinstance(trailing_escape, Exception):
                    return _unfinished(parts, trailing_escape)
                parts.append(re.escape("\\"))
                break
            parts.append(re.escape(pattern[position]))
        elif character == "%":
            parts.append(".*")
        elif character == "_":
            parts.append(".")
        else:
            parts.append(re.escape(character))
        position += 1
    compiled = re.compile("".join(parts), re.DOTALL | (re.IGNORECASE | re.ASCII if ignore_case else 0))
    return lambda text: compiled.fullmatch(text) is not None


def _unfinished(parts: list[str], error: Exception) -> Callable[[str], bool]:
    """PostgreSQL's pattern that ends with an escape: it fails when it gets there and is not yet through with the text.

    What follows a ``%`` is looked at when the ``%`` is, with each ``_`` in between taking a character.
    """
    end = len(parts)
    while end and parts[end - 1] in (".*", "."):
        end -= 1
    while end < len(parts) and parts[end] != ".*":
        end += 1
    left = max(1, parts[end:].count("."))
    reached = re.compile("".join([*parts[:end], "." * left]), re.DOTALL)

    def test(text: str) -> bool:
        if reached.match(text) is not None:
            raise error
        return False

    return test


def outside(what: str, instead: str = "") -> OutsideFragment:
    return OutsideFragment("statement", what, instead)


_TIME = re.compile(
    r"[ \t\n]*(\d{4})-(\d{1,2})-(\d{1,2})(?:(?:T| +)(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?[ \t\n]*", re.ASCII
)


def timestamp(text: str, rounding: bool) -> datetime | None:
    """A date, or a date and a time; ``None`` if there is no such time. Of more than six digits some are rounded or cut off.

    Databases read many more forms, each its own: what has digits or words in another form is refused.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        if not text.strip():
            return None
        raise outside(f"the time {text!r}", "write it as 'YYYY-MM-DD hh:mm:ss'")
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    if not month or not day or hour == 24 or second == 60:
        raise outside(f"the time {text!r}", "write a time that the calendar and the clock have")
    fraction = found[7] or ""
    microseconds = int(fraction[:6].ljust(6, "0")) + (rounding and fraction[6:7] >= "5")
    try:
        return datetime(year, month, day, hour, minute, second) + timedelta(microseconds=microseconds)
    except (ValueError, OverflowError):
        return None


def in_precision(value: datetime, digits: int, rounding: bool) -> datetime:
    """With so many digits of a second: the others are rounded, or cut off."""
    step = 10 ** (6 - digits)
    more = step if rounding and value.microsecond % step * 2 >= step else 0
    whole = value - timedelta(microseconds=value.microsecond % step)
    return whole + timedelta(microseconds=more) if more else whole
