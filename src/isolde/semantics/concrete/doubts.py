"""Conditions that fail on some rows (``1 / x > 0``): whether that ends a statement may be the plan's to decide.

A plan tests the parts of a condition in an order of its own, and on rows that other parts, or other tables, make irrelevant.
A failure is certain where a row passes all other parts; elsewhere some plan meets it and another does not, and the statement is
refused. What cannot fail on the rows that are there is never in doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.concrete.cells import FAILURES, Failure
from isolde.semantics.concrete.rules import outside
from isolde.semantics.concrete.sources import conjuncts, has_aggregate, parts
from isolde.semantics.concrete.static import Sort
from isolde.tx import expressions as ex
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Binary, Expression, Function
from isolde.tx.queries import Item, Select
from isolde.tx.schema import Kind

if TYPE_CHECKING:
    from isolde.semantics.concrete.expressions import Frame

_ARITHMETIC = {
    Binary.ADD,
    Binary.SUBTRACT,
    Binary.MULTIPLY,
    Binary.DIVIDE,
    Binary.INTEGER_DIVIDE,
    Binary.MODULO,
}
_FUNCTIONS = {Function.ABS, Function.ROUND, Function.SUBSTRING}
_OPPOSITES = {
    Binary.EQUAL: Binary.NOT_EQUAL,
    Binary.NOT_EQUAL: Binary.EQUAL,
    Binary.LESS: Binary.GREATER_EQUAL,
    Binary.LESS_EQUAL: Binary.GREATER,
    Binary.GREATER: Binary.LESS_EQUAL,
    Binary.GREATER_EQUAL: Binary.LESS,
}
_WIDTH = {Sort.INTEGER: 0, Sort.DECIMAL: 1, Sort.FLOAT: 2}


# What may fail


def may_fail(node: object, dialect: Dialect) -> bool:
    """Whether it can end in an error of computing on some rows. What is made of literals does so when it is planned, or never."""
    return any(_may_fail(part, dialect) for part in parts(node)) and any(
        isinstance(part, ex.Name | ex.Parameter | Select) for part in parts(node)
    )


def _may_fail(part: object, dialect: Dialect) -> bool:
    if dialect is Dialect.SQLITE:
        total = isinstance(part, ex.Aggregate) and part.aggregation is ex.Aggregation.SUM
        return total or (isinstance(part, ex.Call) and part.function is Function.ABS)
    match part:
        case ex.BinaryOperation(Binary.LIKE, _, pattern):
            return not isinstance(pattern, ex.Literal)
        case ex.BinaryOperation():
            return part.operator in _ARITHMETIC
        case ex.UnaryOperation():
            return part.operator is ex.Unary.NEGATE and not isinstance(part.operand, ex.Literal)
        case ex.Cast():
            return part.type.kind is not Kind.TEXT and not isinstance(part.operand, ex.Literal)
        case ex.Call():
            return part.function in _FUNCTIONS
        case ex.Aggregate():
            return part.aggregation in (ex.Aggregation.SUM, ex.Aggregation.AVG)
        case ex.ScalarQuery():
            return not _one_row(part.query)
        case _:
            return False


def _one_row(query: Select) -> bool:
    if isinstance(query.limit, ex.Literal) and query.limit.value in (0, 1):
        return True
    items = [item.expression for item in query.items if isinstance(item, Item)]
    return not query.group_by and (query.source is None or any(map(has_aggregate, items)))


# How PostgreSQL splits a condition, and what it surely tests before


def split(condition: Expression | None, dialect: Dialect) -> list[Expression]:
    """The parts of a condition that are tested in any order. PostgreSQL moves NOT inside, and makes two of BETWEEN."""
    if not may_fail(condition, dialect):
        return conjuncts(condition)
    return _split(condition, dialect)


def _split(condition: Expression | None, dialect: Dialect) -> list[Expression]:
    match condition:
        case None:
            return []
        case ex.BinaryOperation(Binary.AND, left, right):
            return _split(left, dialect) + _split(right, dialect)
        case _ if dialect is not Dialect.POSTGRESQL:
            return [condition]
        case ex.UnaryOperation(ex.Unary.NOT, ex.BinaryOperation(Binary.OR, left, right)):
            return _split(ex.UnaryOperation(ex.Unary.NOT, left), dialect) + _split(
                ex.UnaryOperation(ex.Unary.NOT, right), dialect
            )
        case ex.UnaryOperation(ex.Unary.NOT, ex.UnaryOperation(ex.Unary.NOT, inner)):
            return _split(inner, dialect)
        case ex.UnaryOperation(ex.Unary.NOT, ex.Is() as inner):
            return [replace(inner, negated=not inner.negated)]
        case ex.UnaryOperation(ex.Unary.NOT, ex.BinaryOperation() as inner) if inner.operator in _OPPOSITES:
            return [replace(inner, operator=_OPPOSITES[inner.operator])]
        case ex.Between(operand, low, high, False):
            return [
                ex.BinaryOperation(Binary.GREATER_EQUAL, operand, low),
                ex.BinaryOperation(Binary.LESS_EQUAL, operand, high),
            ]
        case _:
            return [condition]


def comes_first(condition: Expression, frame: Frame) -> bool:
    """Whether PostgreSQL tests it before any other one of the same rows that may fail: it tests the cheapest first.

    A test for null costs nothing and a comparison of two columns, or of a column and a value, is one operation if neither has to
    be converted; what can fail is an operation inside of another one.
    """
    if isinstance(condition, ex.Is):
        return condition.truth is ex.Truth.NULL and isinstance(condition.operand, ex.Name)
    if not isinstance(condition, ex.BinaryOperation) or condition.operator not in _OPPOSITES:
        return False
    sides = (condition.left, condition.right)
    if not all(isinstance(side, ex.Name | ex.Literal | ex.Parameter) for side in sides):
        return False
    left, right = (frame.compile(side).type.sort for side in sides)
    columns = [sort for side, sort in zip(sides, (left, right), strict=True) if isinstance(side, ex.Name)]
    if left is right or (len(columns) == 1 and {left, right} & {Sort.UNKNOWN, Sort.NULL}):
        return True
    return (
        len(columns) == 1
        and left in _WIDTH
        and right in _WIDTH
        and _WIDTH[columns[0]] == max(_WIDTH[left], _WIDTH[right])
    )


def cheap(condition: Expression) -> bool:
    """Whether it may be tested before those that come first: LIKE is one operation, and so may be a column that hides one."""
    return not any(
        (isinstance(part, ex.BinaryOperation) and part.operator in _ARITHMETIC)
        or isinstance(part, ex.Cast | ex.Call | ex.UnaryOperation)
        for part in parts(condition)
    )


def asks_ahead(condition: Expression) -> bool:
    """Whether something in it may be computed before any row is there: a query, or what is made of values only."""
    return any(
        isinstance(part, Select)
        or (
            isinstance(part, Expression.__args__)
            and may_fail(part, Dialect.POSTGRESQL)
            and not any(isinstance(inner, ex.Name) for inner in parts(part))
        )
        for part in parts(condition)
    )


# Run beside the generated code


def plan_decides(error: ExecutionError) -> OutsideFragment:
    return outside(
        f"a condition that cannot be computed ({error}) on rows that the plan may leave out",
        "guard it with CASE, or select those rows first",
    )


def settled(answers: Sequence[Any], doubts: list[Any] | None) -> bool:
    """Whether all answers are true. A failure among none that is false is certain: raised, or put to the doubts."""
    failed = [answer.error for answer in answers if isinstance(answer, Failure)]
    if not failed:
        return all(answers)
    if not all(answer for answer in answers if not isinstance(answer, Failure)):
        return False
    # What is refused may be false, and the others irrelevant.
    error = next((error for error in failed if isinstance(error, OutsideFragment)), failed[0])
    if doubts is None:
        raise error
    doubts.append(error)
    return False


def settled_at_once(answers: Sequence[Any], doubts: list[Any] | None) -> bool:
    """The same where all of them are asked of each row: a failure beside a false one is the plan's to meet."""
    result = settled(answers, doubts)
    for answer in answers:
        if isinstance(answer, Failure) and not result and not doubts:
            raise plan_decides(answer.error) if isinstance(answer.error, ExecutionError) else answer.error
    return result


def settled_outside(answers: Sequence[Any], _: None) -> bool:
    """The same for a LEFT JOIN, which is left out where nobody asks for its rows, or another condition takes them away."""
    found: list[Any] = []
    result = settled(answers, found)
    weigh(found, True)
    return result


def weigh(doubts: list[Any], enough: bool) -> None:
    """Raises the first doubt; if there was ``enough`` without those rows, a plan may have stopped before them."""
    if doubts:
        if enough and isinstance(doubts[0], ExecutionError):
            raise plan_decides(doubts[0])
        raise doubts[0]


def weigh_cut(rows: list[tuple[Any, ...]], offset: int | None, limit: int | None) -> None:
    """Of rows in order: one that is given fails for certain, one that is cut off if the plan computes it."""
    failed = [(place, row[0].error) for place, row in enumerate(rows) if isinstance(row[0], Failure)]
    given = range(offset or 0, len(rows) if limit is None else (offset or 0) + limit)
    weigh([error for place, error in failed if place in given], False)
    weigh([error for _, error in failed], True)


def reached(count: int, limit: int | None, offset: int | None) -> bool:
    return limit is not None and (limit == 0 or count >= limit + (offset or 0))


def ahead(query: Callable[[], list[Any]]) -> Any:
    """The rows of a query that MariaDB runs before it looks at others, or why there are none."""
    try:
        return query()
    except FAILURES as error:
        return Failure(error)


def refuse_unread(rows: Any) -> None:
    """MariaDB ran the query, unless it saw before that no row would ask."""
    if isinstance(rows, Failure):
        raise plan_decides(rows.error) if isinstance(rows.error, ExecutionError) else rows.error


def any_sure(answers: list[Any]) -> bool | None:
    """IN over a query with failures in it: a plan may stop where it finds the value."""
    sure = [answer for answer in answers if not isinstance(answer, Failure)]
    weigh([answer.error for answer in answers if isinstance(answer, Failure)], True in sure)
    return True if True in sure else None if None in sure else False
