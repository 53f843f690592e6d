"""PostgreSQL's functions of rows."""

from __future__ import annotations

from dataclasses import replace

from isolde.semantics.concrete import numbers
from isolde.semantics.concrete import postgresql_values as pg
from isolde.semantics.concrete.calls import greatest, least
from isolde.semantics.concrete.postgresql import PostgreSQL
from isolde.semantics.concrete.rules import outside
from isolde.semantics.concrete.static import (
    DECIMAL,
    FLOAT,
    INTEGER,
    NUMBERS,
    TEXT,
    TIMESTAMP,
    Code,
    Sort,
    type_error,
)
from isolde.tx.expressions import Binary, Function

_UNTYPED = frozenset({Sort.NULL, Sort.UNKNOWN})
_ROUNDING = {
    (Function.FLOOR, Sort.DECIMAL): pg.decimal_floor,
    (Function.FLOOR, Sort.FLOAT): pg.float_floor,
    (Function.CEILING, Sort.DECIMAL): pg.decimal_ceiling,
    (Function.CEILING, Sort.FLOAT): pg.float_ceiling,
    (Function.SIGN, Sort.DECIMAL): pg.decimal_sign,
    (Function.SIGN, Sort.FLOAT): pg.float_sign,
    (Function.ROUND, Sort.FLOAT): pg.float_round,
}


def called(rules: PostgreSQL, function: Function, arguments: list[Code]) -> Code:
    ref = rules.namespace.ref
    match function:
        case Function.COALESCE | Function.GREATEST | Function.LEAST:
            codes, type_ = rules.common(arguments, function.value.upper())
            if function is Function.COALESCE:
                return coalesced(rules, codes)
            extreme = greatest if function is Function.GREATEST else least
            return Code(f"{ref(extreme)}({', '.join(code.text for code in codes)})", type_)
        case Function.NULLIF:
            left, right = arguments
            (left_same, right_same), _ = rules.common([left, right], "NULLIF")
            value = left if left.type.sort is left_same.type.sort else left_same
            return nullif(rules.compared(Binary.EQUAL, left_same, right_same), value)
        case Function.CONCAT:
            parts = [_shown(rules, argument) for argument in arguments]
            return Code(f"({' + '.join(parts)})", TEXT, solid=True)
        case Function.LOWER | Function.UPPER | Function.TRIM | Function.CHARACTER_LENGTH:
            text = _text(rules, function, arguments[0])
            helper = {Function.LOWER: pg.lower, Function.UPPER: pg.upper, Function.TRIM: pg.trim}.get(function, len)
            return rules.lifted(helper, [text], INTEGER if helper is len else TEXT)
        case Function.SUBSTRING:
            text = _text(rules, function, arguments[0])
            bounds = [_integer(rules, function, bound) for bound in arguments[1:]]
            return rules.lifted(pg.substring, [text, *bounds], TEXT)
        case Function.ABS | Function.CEILING | Function.FLOOR | Function.ROUND | Function.SIGN:
            return _numeric(rules, function, arguments)
        case Function.NOW:
            return Code(
                "S.now()", replace(TIMESTAMP, odd="a time with a zone, as NOW() is, taken as a text"), solid=True
            )
        case Function.IF:
            raise type_error("function if does not exist")


def coalesced(rules: PostgreSQL, codes: list[Code]) -> Code:
    text, type_ = codes[-1].text, codes[-1].type
    for code in reversed(codes[:-1]):
        name = rules.namespace.fresh("t")
        text = f"({name} if ({name} := {code.text}) is not None else {text})"
    return Code(text, type_, solid=codes[-1].solid)


def nullif(equal: Code, value: Code) -> Code:
    return Code(f"(None if {equal.text} else {value.text})", value.type)


def _shown(rules: PostgreSQL, code: Code) -> str:
    """As ``concat`` shows a value: a null is nothing, true is ``t``."""
    truth = code.type.sort is Sort.BOOLEAN
    shown = rules.lift("'t' if {0} else 'f'", [code], TEXT) if truth else rules.to_text(code)
    return shown.text if shown.solid else f"({shown.text} or '')"


def _text(rules: PostgreSQL, function: Function, code: Code) -> Code:
    if code.type.sort not in (*_UNTYPED, Sort.TEXT):
        raise type_error(f"function {function.value}({code.type}) does not exist")
    return rules.to_text(code)


def _integer(rules: PostgreSQL, function: Function, code: Code) -> Code:
    if code.type.sort in _UNTYPED:
        return rules.to(code, INTEGER)
    if code.type.sort is not Sort.INTEGER or code.type.bits > 32:
        raise type_error(f"function {function.value}(…, {code.type}) does not exist")
    return code


def _numeric(rules: PostgreSQL, function: Function, arguments: list[Code]) -> Code:
    operand = arguments[0]
    if operand.type.sort in _UNTYPED:
        operand = rules.to(operand, DECIMAL if len(arguments) == 2 else FLOAT)
    if operand.type.sort not in NUMBERS:
        raise type_error(f"function {function.value}({operand.type}) does not exist")
    if function is Function.ROUND and len(arguments) == 2:
        if operand.type.sort is Sort.FLOAT:
            raise type_error("function round(double precision, integer) does not exist")
        return rules.lifted(
            pg.decimal_round, [rules.to(operand, DECIMAL), _integer(rules, function, arguments[1])], DECIMAL
        )
    if len(arguments) != 1:
        raise outside(f"{function.value} with {len(arguments)} arguments")
    if function is Function.ABS:
        if operand.type.sort is Sort.INTEGER:
            return rules.lift(f"{rules.fit(operand.type)}(abs({{0}}))", [operand], operand.type)
        return rules.lifted(abs, [operand], operand.type)
    if operand.type.sort is Sort.INTEGER:
        # An integer becomes double precision for these, the preferred type among those that have them.
        operand = rules.to(operand, FLOAT)
    if function is Function.ROUND and operand.type.sort is Sort.DECIMAL:
        return rules.lift(f"{rules.namespace.ref(numbers.rounded)}({{0}}, 0)", [operand], DECIMAL)
    # A single float gives a double.
    return rules.lifted(_ROUNDING[function, operand.type.sort], [operand], replace(operand.type, bits=64))
