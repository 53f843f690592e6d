"""MySQL's and MariaDB's functions of rows."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

from isolde.errors import ExecutionError
from isolde.semantics.concrete import mysql_digits as digits
from isolde.semantics.concrete import numbers
from isolde.semantics.concrete.mysql import MySQL
from isolde.semantics.concrete.mysql_values import (
    ROUNDED_FLOAT,
    SCALE_MAX,
    decimal_of,
    floating,
    fold,
    integer_of,
    sort_text,
)
from isolde.semantics.concrete.rules import outside
from isolde.semantics.concrete.static import BIGINT, TEXT, TIMESTAMP, Code, Sort, Static
from isolde.tx.expressions import Binary, Function


def called(rules: MySQL, function: Function, arguments: list[Code]) -> Code:
    arguments = [rules.value(argument) for argument in arguments]
    match function:
        case Function.COALESCE:
            codes, type_ = rules.common(arguments, "COALESCE")
            text = codes[-1].text
            for code in reversed(codes[:-1]):
                name = rules.namespace.fresh("t")
                text = f"({name} if ({name} := {code.text}) is not None else {text})"
            return Code(text, type_, solid=codes[-1].solid)
        case Function.IF:
            condition = rules.truth(arguments[0])
            (yes, no), type_ = rules.common(arguments[1:], "IF")
            if type_.sort is Sort.NULL:
                # A NULL of CASE or COALESCE has no type; one of IF is a text.
                type_ = TEXT
            return Code(f"({yes.text} if {condition.text} else {no.text})", type_, solid=yes.solid and no.solid)
        case Function.NULLIF:
            equal = rules.compared(Binary.EQUAL, *arguments)
            return Code(f"(None if {equal.text} else {arguments[0].text})", arguments[0].type)
        case Function.GREATEST | Function.LEAST:
            return _extreme(rules, function, arguments)
        case Function.CONCAT:
            texts = [rules.to_text(argument) for argument in arguments]
            # What comes after a null is not computed.
            nulls = [
                place for place, text in enumerate(texts) if text.constant is not None and text.constant.value is None
            ]
            texts = texts[: nulls[0] + 1] if nulls else texts
            return rules.lift("(" + " + ".join(f"{{{place}}}" for place in range(len(texts))) + ")", texts, TEXT)
        case Function.LOWER | Function.UPPER:
            return rules.lifted(lower if function is Function.LOWER else upper, [rules.to_text(arguments[0])], TEXT)
        case Function.TRIM:
            return rules.lifted(trim, [rules.to_text(arguments[0])], TEXT)
        case Function.CHARACTER_LENGTH:
            return rules.lifted(len, [rules.to_text(arguments[0])], integer_of(False, digits.LENGTH_DIGITS))
        case Function.SUBSTRING:
            bounds = [rules.integer(bound) for bound in arguments[1:]]
            return rules.lifted(substring, [rules.to_text(arguments[0]), *bounds], TEXT)
        case Function.ABS | Function.CEILING | Function.FLOOR | Function.ROUND | Function.SIGN:
            return _numeric(rules, function, arguments)
        case Function.NOW:
            return Code("S.now().replace(microsecond=0)", TIMESTAMP, solid=True)


def _extreme(rules: MySQL, function: Function, arguments: list[Code]) -> Code:
    greatest = function is Function.GREATEST
    sorts = {argument.type.sort for argument in arguments} - {Sort.NULL}
    if len(sorts) > 1 and Sort.TEXT in sorts:
        raise outside(f"{function.value} of texts and numbers", "cast them to one type")
    if not sorts:
        return rules.null()
    if any(argument.type.sort is Sort.NULL for argument in arguments) and Sort.TEXT not in sorts:
        return Code("None", floating([argument.type for argument in arguments]))
    codes, type_ = rules.common(arguments, function.value)
    if type_.sort is Sort.TEXT:
        # Where a number is asked for, MariaDB compares numbers: GREATEST('9', '10') + 0 is 10.
        odd = Static(Sort.TEXT, odd=f"{function.value.upper()} of texts taken as a number in MySQL")
        return rules.lifted(greatest_text if greatest else least_text, codes, odd)
    return rules.lifted(max if greatest else min, codes, type_)


def _numeric(rules: MySQL, function: Function, arguments: list[Code]) -> Code:
    operand = rules.number(arguments[0])
    if operand.type.sort is Sort.NULL:
        operand = operand.typed(BIGINT if function is Function.SIGN else ROUNDED_FLOAT)
    sort = operand.type.sort
    ref = rules.namespace.ref
    if function is Function.ABS:
        if sort is Sort.INTEGER:
            return rules.lift(f"{rules.fit(operand.type.unsigned)}(abs({{0}}))", [operand], operand.type)
        return rules.lifted(abs, [operand], operand.type)
    if function is Function.SIGN:
        return rules.lifted(sign, [operand], integer_of(False, 1))
    if function is Function.ROUND:
        return _rounded(rules, operand, arguments)
    if sort is Sort.FLOAT or sort is Sort.NULL:
        return rules.lifted(float_floor if function is Function.FLOOR else float_ceiling, [operand], ROUNDED_FLOAT)
    step = math.floor if function is Function.FLOOR else math.ceil
    if sort is Sort.INTEGER:
        return operand
    room = digits.stepped(operand.type)
    if room is None:
        raise outside(f"{function.value.upper()} of a number made of a text or a float", "cast it to DECIMAL first")
    if room > digits.INTEGER_DIGITS_MAX:
        return rules.lift(f"{ref(Decimal)}({ref(step)}({{0}}))", [operand], decimal_of(0, room))
    return rules.lift(f"{ref(step)}({{0}})", [operand], integer_of(False, room))


def _rounded(rules: MySQL, operand: Code, arguments: list[Code]) -> Code:
    places = 0
    if len(arguments) == 2:
        constant = arguments[1].constant
        if constant is None or not isinstance(constant.value, int):
            raise outside("ROUND to a computed number of digits", "write the number of digits")
        places = constant.value
    ref = rules.namespace.ref
    if operand.type.sort is Sort.FLOAT:
        if places:
            raise outside("ROUND of a floating-point number to digits", "cast it to DECIMAL")
        return rules.lifted(float_round, [operand], ROUNDED_FLOAT)
    if operand.type.sort is Sort.NULL:
        return operand
    if operand.type.sort is Sort.INTEGER:
        if places >= 0:
            return operand
        return rules.lift(f"{ref(integer_round)}({{0}}, {places})", [operand], operand.type)
    places = min(places, SCALE_MAX)
    how = f"{ref(numbers.rounded)}({{0}}, {places})"
    room = operand.type.digits if places >= operand.type.scale else digits.stepped(operand.type)
    return rules.lift(how, [operand], decimal_of(max(places, 0), room))


def integer_round(number: int, places: int) -> int:
    return int(numbers.rounded(Decimal(number), places))


def float_round(number: float) -> float:
    return float(numbers.nearest_even(number))


def float_floor(number: float) -> float:
    return float(math.floor(number))


def float_ceiling(number: float) -> float:
    return float(math.ceil(number))


def sign(number: Any) -> int:
    return int(number > 0) - int(number < 0)


def greatest_text(*values: str) -> str:
    return max(values, key=sort_text)


def least_text(*values: str) -> str:
    return min(values, key=sort_text)


def lower(text: str) -> str:
    fold(text)
    return text.lower()


def upper(text: str) -> str:
    fold(text)
    return text.upper()


def trim(text: str) -> str:
    return text.strip(" ")


def substring(text: str, start: int, length: int | None = None) -> str:
    if start == 0 or (length is not None and length <= 0) or abs(start) > len(text):
        return ""
    first = start - 1 if start > 0 else len(text) + start
    return text[first:] if length is None else text[first : first + length]


def cast_text(rules: MySQL, code: Code, length: int | None) -> Code:
    text = rules.to_text(code.typed(replace(code.type, odd="")))
    # As a number it is read by rules of its own: CAST(0.5 AS CHAR) + 0 is 0, and equal to 1.
    odd = replace(TEXT, odd="a CAST to CHAR taken as a number in MySQL")
    if length is None:
        return text.typed(odd)
    if rules.changing and code.type.sort is not Sort.TEXT:
        return rules.lift(f"{rules.namespace.ref(uncut)}({{0}}, {length})", [text], odd)
    return rules.lift(f"{{0}}[:{length}]", [text], odd)


def uncut(text: str, length: int) -> str:
    """A number as a text, where a statement changes tables: texts alone are cut off there."""
    if len(text) > length:
        raise ExecutionError("conversion", f"incorrect CHAR({length}) value {text!r}")
    return text
