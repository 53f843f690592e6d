"""Expressions: from sqlglot's nodes to ours."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, cast

from sqlglot import exp

from isolde.tx.dialects import Dialect
from isolde.tx.expressions import (
    Aggregate,
    Aggregation,
    Between,
    Binary,
    BinaryOperation,
    Call,
    Case,
    Cast,
    Exists,
    Expression,
    Function,
    InList,
    InQuery,
    Is,
    Literal,
    Name,
    Parameter,
    ScalarQuery,
    Truth,
    Unary,
    UnaryOperation,
    When,
)
from isolde.tx.sql.functions import FUNCTIONS, OUTSIDE, instead_of
from isolde.tx.sql.misread import VALUES
from isolde.tx.sql.text import Kind
from isolde.tx.sql.trees import Plus, Reading
from isolde.tx.sql.types import column_type, time_written

_BINARY: dict[type[exp.Expr], Binary] = {
    exp.Add: Binary.ADD,
    exp.Sub: Binary.SUBTRACT,
    exp.Mul: Binary.MULTIPLY,
    exp.Div: Binary.DIVIDE,
    exp.IntDiv: Binary.INTEGER_DIVIDE,
    exp.Mod: Binary.MODULO,
    exp.DPipe: Binary.CONCATENATE,
    exp.EQ: Binary.EQUAL,
    exp.NEQ: Binary.NOT_EQUAL,
    exp.LT: Binary.LESS,
    exp.LTE: Binary.LESS_EQUAL,
    exp.GT: Binary.GREATER,
    exp.GTE: Binary.GREATER_EQUAL,
    exp.NullSafeEQ: Binary.SAME,
    exp.And: Binary.AND,
    exp.Or: Binary.OR,
    exp.Xor: Binary.XOR,
    exp.BitwiseAnd: Binary.BIT_AND,
    exp.BitwiseOr: Binary.BIT_OR,
    exp.BitwiseXor: Binary.BIT_XOR,
    exp.BitwiseLeftShift: Binary.SHIFT_LEFT,
    exp.BitwiseRightShift: Binary.SHIFT_RIGHT,
}

# What else sqlglot notes on these nodes is about other dialects' meaning of the same text.
_NOTES = ("safe", "typed", "big_int", "coalesce", "ignore_nulls", "_type", "requires_string")

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is, exp.Like)
_PREDICATES = (*_COMPARISONS, exp.In, exp.Between)

_AGGREGATES: dict[type[exp.Expr], Aggregation] = {
    exp.Count: Aggregation.COUNT,
    exp.Sum: Aggregation.SUM,
    exp.Min: Aggregation.MIN,
    exp.Max: Aggregation.MAX,
    exp.Avg: Aggregation.AVG,
}


def expression(node: Any, reading: Reading) -> Expression:
    """The expression that ``node`` says; everything else is refused by name, with its place."""
    kind = type(node)
    if reader := _READERS.get(kind):
        return reader(node, reading)
    if operator := _BINARY.get(kind):
        return _binary(node, operator, reading)
    if kind in _AGGREGATES:
        return _aggregate(node, _AGGREGATES[kind], reading)
    if not isinstance(node, exp.Expr):
        raise reading.prepared.text.malformed(0, "an expression without an operand", "an expression")
    return reading.outside(node)


def _binary(node: exp.Expr, operator: Binary, reading: Reading) -> Expression:
    reading.only(node, "this", "expression", *_NOTES)
    for side in (node.args.get("this"), node.args.get("expression")):
        if side is None:
            raise reading.malformed(node, f"'{operator}' without an operand", "an expression")
    _grouped(node, reading)
    if operator is Binary.BIT_XOR and reading.dialect is Dialect.SQLITE:
        raise reading.malformed(node, "'^'", "an operator of SQLite")
    if operator is Binary.INTEGER_DIVIDE and reading.dialect is not Dialect.MYSQL:
        raise reading.malformed(node, "DIV", f"an operator of {reading.dialect}")
    if operator is Binary.CONCATENATE and reading.dialect is Dialect.MYSQL:
        raise reading.refuse(node, "'||' for strings", "use CONCAT; '||' is OR in MySQL")
    left, right = expression(node.this, reading), expression(node.expression, reading)
    return BinaryOperation(operator, left, right, reading.place(node))


def _grouped(node: exp.Expr, reading: Reading) -> None:
    """Refuses a predicate inside of a predicate without parentheses: dialects group them differently, and sqlglot not as they do.

    sqlglot puts parentheses of its own around some; right for PostgreSQL and SQLite, but MySQL reads from left to right.
    """
    if not isinstance(node, exp.And | exp.Or | exp.Xor):
        for child in (node.args.get("this"), node.args.get("expression")):
            # How far a NOT reaches to the right, and what an operator after a predicate takes for its left side, every
            # dialect answers in its own way.
            if isinstance(child, exp.Not) or (isinstance(child, _PREDICATES) and not isinstance(node, _PREDICATES)):
                raise reading.refuse(child, "a condition as an operand without parentheses", "write parentheses")
    for child in (node.args.get("this"), node.args.get("expression")):
        inner = child.this if isinstance(child, exp.Not) else child
        if isinstance(inner, exp.Paren) and reading.dialect is Dialect.MYSQL:
            content = inner.unnest()
            bare = content.this if isinstance(content, exp.Not) else content
            leaf: exp.Expr = content
            while isinstance(leaf.args.get("this"), exp.Expr) and not isinstance(
                leaf, exp.Column | exp.Func | exp.Case
            ):
                leaf = leaf.this
            # NULL and TRUE have no position in sqlglot: where a content begins with one, its parenthesis is taken as written.
            known = not isinstance(leaf, exp.Null | exp.Boolean | exp.Case | exp.Exists | exp.Subquery | exp.Cast)
            inner = bare if known and not reading.prepared.opens(reading.start(inner)) else inner
        if isinstance(node, _PREDICATES) and isinstance(inner, _PREDICATES):
            raise reading.refuse(inner, "a comparison inside of a comparison without parentheses", "write parentheses")


def _paren(node: exp.Expr, reading: Reading) -> Expression:
    reading.only(node, "this")
    return expression(node.this, reading)


def _literal(node: exp.Expr, reading: Reading) -> Literal:
    reading.only(node, "this", "is_string")
    place = reading.place(node)
    if node.is_string:
        token = reading.prepared.strings.get(reading.start(node))
        return Literal(token.value if token else str(node.this), place)
    return Literal(_number(str(node.this), node, reading), place)


def _number(text: str, node: exp.Expr, reading: Reading) -> int | Decimal | float:
    if re.fullmatch(r"\d+", text):
        if len(text) > 1000:
            raise reading.refuse(node, "a number of more than 1000 digits")
        return int(text)
    if re.fullmatch(r"\d*\.\d*|\d+", text) and text != ".":
        return Decimal(text)
    if re.fullmatch(r"(\d+\.?\d*|\.\d+)[eE][+-]?\d{1,3}", text):
        # PostgreSQL's 1e3 is exact, the others' is not.
        return _written_out(Decimal(text)) if reading.dialect is Dialect.POSTGRESQL else float(text)
    raise reading.malformed(node, f"'{text}'", "a number")


def _written_out(number: Decimal) -> Decimal:
    """PostgreSQL's 1e3 is 1000, with no digits after the point, and not a number of thousands."""
    return Decimal(format(number, "f"))


def _boolean(node: exp.Expr, reading: Reading) -> Literal:
    reading.only(node, "this")
    return Literal(bool(node.this), reading.place(node))


def _null(node: exp.Expr, reading: Reading) -> Literal:
    reading.only(node)
    return Literal(None, reading.place(node))


def _column(node: exp.Expr, reading: Reading) -> Expression:
    reading.only(node, "this", "table", "join_mark")
    identifier = node.this
    if isinstance(identifier, exp.Star):
        raise reading.malformed(node, "'*'", "a column")
    if not isinstance(identifier, exp.Identifier):
        reading.outside(identifier)
    if not identifier.args.get("quoted") and str(identifier.this).upper() in {"DEFAULT", "BINARY", "UNKNOWN"}:
        raise reading.refuse(node, f"the word {str(identifier.this).upper()} here")
    bare = not identifier.args.get("quoted") and not node.args.get("table")
    if bare and str(identifier.this).lower() in VALUES[reading.dialect]:
        raise reading.refuse(node, f"the function {str(identifier.this).upper()}", "give its value as a parameter")
    name = reading.name(identifier)
    table = reading.name(node.args["table"]) if node.args.get("table") else None
    if table == "excluded" and reading.dialect is Dialect.MYSQL and node.find_ancestor(exp.OnConflict):
        raise reading.malformed(node, f"excluded.{name}", f"VALUES({name})")
    if table is None and name in reading.variables:
        return Parameter(name, reading.place(node))
    return Name(name, table or reading.merged[-1].get(name), reading.place(node))


def _parameter(node: exp.Expr, reading: Reading) -> Expression:
    token, name = reading.mark(cast(exp.Placeholder, node))
    place = reading.at(token.start)
    return Literal(token.value, place) if token.kind is Kind.STRING else Parameter(name, place)


def _negation(node: exp.Expr, reading: Reading) -> Expression:
    reading.only(node, "this")
    inner = node.this
    place = reading.place(node)
    if isinstance(inner, exp.Literal) and not inner.is_string:
        value = _number(str(inner.this), inner, reading)
        if value != 0 or isinstance(value, int):
            return Literal(-value, place)
    return UnaryOperation(Unary.NEGATE, expression(inner, reading), place)


def _plus(node: exp.Expr, reading: Reading) -> Expression:
    reading.only(node, "this")
    inner = expression(node.this, reading)
    if (
        reading.dialect is Dialect.SQLITE
        and isinstance(inner, Literal)
        and isinstance(inner.value, int | Decimal | float)
    ):
        # Still a number to SQLite, as in ORDER BY +1.
        return inner
    return UnaryOperation(Unary.PLUS, inner, reading.place(node))


def _bit_not(node: exp.Expr, reading: Reading) -> Expression:
    reading.only(node, "this")
    return UnaryOperation(Unary.BIT_NOT, expression(node.this, reading), reading.place(node))


def _not(node: exp.Expr, reading: Reading) -> Expression:
    reading.only(node, "this")
    place = reading.place(node)
    inner = expression(node.this, reading)
    if isinstance(node.this, exp.In | exp.Between | exp.Exists | exp.Is) and not getattr(inner, "negated", True):
        match inner:
            case InList(operand, items):
                return InList(operand, items, True, place)
            case InQuery(operand, query):
                return InQuery(operand, query, True, place)
            case Between(operand, low, high):
                return Between(operand, low, high, True, place)
            case Exists(query):
                return Exists(query, True, place)
            case Is(operand, truth):
                return Is(operand, truth, True, place)
    return UnaryOperation(Unary.NOT, inner, place)


def _is(node: exp.Expr, reading: Reading) -> Expression:
    reading.only(node, "this", "expression", "negate")
    _grouped(node, reading)
    asked = node.expression
    negated = bool(node.args.get("negate"))
    if isinstance(asked, exp.Null):
        truth = Truth.NULL
    elif isinstance(asked, exp.Boolean):
        truth = Truth.TRUE if asked.this else Truth.FALSE
    else:
        raise reading.malformed(asked, "IS and an expression", "NULL, TRUE or FALSE after IS")
    return Is(expression(node.this, reading), truth, negated, reading.place(node))


def _different(node: exp.Expr, reading: Reading) -> Expression:
    same = _binary(node, Binary.SAME, reading)
    return UnaryOperation(Unary.NOT, same, reading.place(node))


def _like(node: exp.Expr, reading: Reading) -> Expression:
    reading.only(node, "this", "expression", "negate")
    _grouped(node, reading)
    place = reading.place(node)
    like = BinaryOperation(Binary.LIKE, expression(node.this, reading), expression(node.expression, reading), place)
    return UnaryOperation(Unary.NOT, like, place) if node.args.get("negate") else like


def _between(node: exp.Expr, reading: Reading) -> Expression:
    reading.only(node, "this", "low", "high")
    _grouped(node, reading)
    low, high = expression(node.args.get("low"), reading), expression(node.args.get("high"), reading)
    return Between(expression(node.this, reading), low, high, False, reading.place(node))


def _in(node: exp.Expr, reading: Reading) -> Expression:
    reading.only(node, "this", "expressions", "query")
    _grouped(node, reading)
    place = reading.place(node)
    operand = expression(node.this, reading)
    if query := node.args.get("query"):
        if reading.dialect is Dialect.SQLITE and isinstance(query.this, exp.Subquery):
            # A second pair of parentheses makes it one value in SQLite, not a set of rows.
            return InList(operand, (_scalar(query.this, reading),), False, place)
        return InQuery(operand, reading.subquery(query), False, place)
    if not node.expressions and reading.dialect is not Dialect.SQLITE:
        raise reading.malformed(node, "an empty list after IN", "a value")
    return InList(operand, tuple(expression(item, reading) for item in node.expressions), False, place)


def _exists(node: exp.Expr, reading: Reading) -> Expression:
    reading.only(node, "this")
    return Exists(reading.subquery(node.this), False, reading.place(node))


def _scalar(node: exp.Expr, reading: Reading) -> Expression:
    return ScalarQuery(reading.subquery(node), reading.place(node))


def _case(node: exp.Expr, reading: Reading) -> Expression:
    reading.only(node, "this", "ifs", "default")
    whens = []
    for branch in node.args.get("ifs") or ():
        reading.only(branch, "this", "true")
        whens.append(When(expression(branch.this, reading), expression(branch.args.get("true"), reading)))
    if not whens:
        raise reading.malformed(node, "CASE without WHEN", "WHEN … THEN …")
    operand = expression(node.this, reading) if node.args.get("this") else None
    default = expression(node.args["default"], reading) if node.args.get("default") else None
    return Case(operand, tuple(whens), default, reading.place(node))


def _cast(node: exp.Expr, reading: Reading) -> Expression:
    reading.only(node, "this", "to", "_type")
    type_ = time_written(node, reading)
    if type_ is None:
        type_ = column_type(node.args["to"], reading, cast=True)
        if reading.dialect is not Dialect.POSTGRESQL and isinstance(node.this, exp.Literal) and node.this.is_string:
            before = reading.before(node.this)
            if before.kind is Kind.WORD or before.symbol(")"):
                raise reading.malformed(node, f"{before.text} before a string", "CAST('…' AS type)")
    return Cast(expression(node.this, reading), type_, reading.place(node))


def _aggregate(node: exp.Expr, aggregation: Aggregation, reading: Reading) -> Expression:
    reading.only(node, "this", *_NOTES)
    operand, distinct = node.this, False
    if isinstance(operand, exp.Distinct):
        reading.only(operand, "expressions")
        if len(operand.expressions) != 1:
            raise reading.refuse(operand, "DISTINCT of several columns", "count the rows of a SELECT DISTINCT")
        operand, distinct = operand.expressions[0], True
    place = reading.place(node)
    if operand is None and aggregation is Aggregation.COUNT and reading.dialect is Dialect.SQLITE:
        raise reading.refuse(node, "COUNT()", "use COUNT(*)")
    if isinstance(operand, exp.Star):
        reading.only(operand)
        if aggregation is not Aggregation.COUNT or distinct:
            raise reading.malformed(operand, "'*'", "a column")
        return Aggregate(aggregation, None, False, place)
    return Aggregate(aggregation, expression(operand, reading), distinct, place)


def _call(node: exp.Expr, reading: Reading) -> Expression:
    """A function under the name that was written."""
    reading.only(node, "this", "expressions", *_NOTES)
    name = str(node.this).upper()
    if None in node.expressions:
        raise reading.malformed(node, f"{name} without an argument", "an expression")
    if name == "VALUES" and len(node.expressions) == 1 and reading.dialect is Dialect.MYSQL:
        if isinstance(node.parent, exp.In):
            raise reading.refuse(node, "VALUES as a query", "use a list of values")
        if node.find_ancestor(exp.OnConflict) is None:
            raise reading.malformed(node, "VALUES(column)", "VALUES(column) after ON DUPLICATE KEY UPDATE only")
        return Name(reading.name(node.expressions[0]), "excluded", reading.place(node))
    return _named_call(name, node, list(node.expressions), reading)


def _named_call(name: str, node: exp.Expr, arguments: list[Any], reading: Reading) -> Expression:
    _as_written(name, node, arguments, reading)
    found = FUNCTIONS[reading.dialect].get(name)
    least, most = (found.least, found.most) if found is not None else _ARGUMENTS[name]
    if len(arguments) < least or (most is not None and len(arguments) > most):
        wanted = str(least) if least == most else f"{least} or more" if most is None else f"{least} to {most}"
        raise reading.malformed(node, f"{name} with {len(arguments)} arguments", wanted)
    values = tuple(expression(argument, reading) for argument in arguments)
    place = reading.place(node)
    if found is not None:
        return Call(found.function, values, place)
    if name == "MOD":
        return BinaryOperation(Binary.MODULO, values[0], values[1], place)
    return Is(values[0], Truth.NULL, False, place)


_ARGUMENTS = {"MOD": (2, 2), "ISNULL": (1, 1)}
_OPERATORS = {Dialect.POSTGRESQL: {"MOD"}, Dialect.MYSQL: {"MOD", "ISNULL"}, Dialect.SQLITE: frozenset[str]()}


def _as_written(name: str, node: exp.Expr, arguments: list[Any], reading: Reading) -> None:
    """Refuses a function that is not the language's, or not the dialect's, or means something else in it."""
    dialect = reading.dialect
    if name == "LENGTH" and dialect is Dialect.MYSQL:
        raise reading.refuse(node, "LENGTH in bytes", "use CHAR_LENGTH")
    if name == "MOD" and dialect is Dialect.SQLITE:
        raise reading.refuse(node, "MOD in SQLite, which is of floats,", "use %")
    if name in {"TRIM", "BTRIM"} and len(arguments) > 1:
        raise reading.refuse(node, "TRIM of one side or of other characters", "use TRIM(text)")
    if name in {"CURRENT_TIMESTAMP", "NOW"} and len(arguments) == 1 and dialect is not Dialect.SQLITE:
        raise reading.refuse(node, f"{name} with a precision", "leave the precision out")
    if name in FUNCTIONS[dialect] or name in _OPERATORS[dialect]:
        return
    if (other := instead_of(name, dialect)) is not None:
        raise reading.malformed(node, f"the function {name}, which {dialect} does not have", other)
    alone = "one of the program's own is called alone, and its value assigned to a variable"
    raise reading.refuse(node, *OUTSIDE.get(name, (f"the function {name}", alone)))


def _now(node: exp.Expr, reading: Reading) -> Expression:
    """CURRENT_TIMESTAMP without parentheses, which all of them have."""
    reading.only(node, *_NOTES)
    return Call(Function.NOW, (), reading.place(node))


def _if(node: exp.Expr, reading: Reading) -> Expression:
    reading.only(node, "this", "true", "false")
    arguments = [node.args[name] for name in ("this", "true", "false") if node.args.get(name) is not None]
    return _named_call("IF", node, arguments, reading)


def _substring(node: exp.Expr, reading: Reading) -> Expression:
    """SUBSTRING is parsed by sqlglot for its other form: ``SUBSTRING(a FROM 2 FOR 3)``."""
    reading.only(node, "this", "start", "length", *_NOTES)
    arguments = [node.args[name] for name in ("this", "start", "length") if node.args.get(name) is not None]
    return _named_call("SUBSTRING", node, arguments, reading)


def _trim(node: exp.Expr, reading: Reading) -> Expression:
    if node.args.get("position") or node.args.get("expression"):
        raise reading.refuse(node, "TRIM of one side or of other characters", "use TRIM(text)")
    reading.only(node, "this", *_NOTES)
    return _named_call("TRIM", node, [node.this] if node.this is not None else [], reading)


def _extreme(node: exp.Expr, reading: Reading) -> Expression:
    """SQLite's MAX and MIN of several values."""
    name = "MAX" if isinstance(node, exp.Greatest) else "MIN"
    reading.only(node, "this", "expressions", *_NOTES)
    return _named_call(name, node, [node.this, *node.expressions], reading)


_READERS: dict[type[exp.Expr], Callable[[exp.Expr, Reading], Expression]] = {
    exp.Paren: _paren,
    exp.Literal: _literal,
    exp.Boolean: _boolean,
    exp.Null: _null,
    exp.Column: _column,
    exp.Placeholder: _parameter,
    exp.Neg: _negation,
    Plus: _plus,
    exp.BitwiseNot: _bit_not,
    exp.Not: _not,
    exp.Is: _is,
    exp.NullSafeNEQ: _different,
    exp.Like: _like,
    exp.Between: _between,
    exp.In: _in,
    exp.Exists: _exists,
    exp.Subquery: _scalar,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.Anonymous: _call,
    exp.CurrentTimestamp: _now,
    exp.If: _if,
    exp.Substring: _substring,
    exp.Trim: _trim,
    exp.Greatest: _extreme,
    exp.Least: _extreme,
}
