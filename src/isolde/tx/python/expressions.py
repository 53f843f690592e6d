"""Python expressions of the subset as expressions of the language."""

from __future__ import annotations

import ast
from decimal import Decimal
from typing import Any, Protocol

from isolde.errors import OutsideFragment
from isolde.tx.expressions import (
    Binary,
    BinaryOperation,
    Call,
    Case,
    Expression,
    Function,
    InList,
    Is,
    Literal,
    Name,
    Truth,
    Unary,
    UnaryOperation,
    When,
)
from isolde.tx.place import Place

_ARITHMETIC: dict[type[ast.operator], Binary] = {
    ast.Add: Binary.ADD,
    ast.Sub: Binary.SUBTRACT,
    ast.Mult: Binary.MULTIPLY,
}
_COMPARISONS: dict[type[ast.cmpop], Binary] = {
    ast.Lt: Binary.LESS,
    ast.LtE: Binary.LESS_EQUAL,
    ast.Gt: Binary.GREATER,
    ast.GtE: Binary.GREATER_EQUAL,
}
_FUNCTIONS = {"abs": Function.ABS, "max": Function.GREATEST, "min": Function.LEAST}


class Surroundings(Protocol):
    """What an expression needs of the function that it stands in."""

    rows: set[str]
    tables: set[str]

    def place(self, node: ast.AST) -> Place: ...
    def refusal(self, node: ast.AST, what: str, instead: str) -> OutsideFragment: ...
    def fetched(self, node: ast.expr) -> Name: ...
    def counted(self, variable: str, place: Place) -> Name: ...


class Expressions:
    """Compiles expressions. ``guarded``: inside ``and``, ``or`` and ``if … else``, where not everything is evaluated."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._guarded = False

    def value(self, node: ast.expr) -> Expression:
        place = self._around.place(node)
        match node:
            case ast.Constant(value):
                return self._constant(node, value, place)
            case ast.Name(name):
                if name in self._around.rows | self._around.tables:
                    raise self._around.refusal(
                        node, f"the row or rows '{name}' as a value", f"name a column: {name}.column"
                    )
                return Name(name, place=place)
            case ast.Attribute(ast.Name(row), column) | ast.Subscript(ast.Name(row), ast.Constant(str() as column)):
                return Name(column, row, place)
            case ast.UnaryOp(ast.USub(), operand):
                return UnaryOperation(Unary.NEGATE, self.value(operand), place)
            case ast.BinOp(left, operator, right) if type(operator) in _ARITHMETIC:
                return BinaryOperation(_ARITHMETIC[type(operator)], self.value(left), self.value(right), place)
            case ast.BinOp(_, operator, _):
                raise self._around.refusal(
                    node,
                    f"'{ast.unparse(node)}'",
                    "Python and SQL disagree about division and remainders; compute it in a statement",
                )
            case ast.IfExp(test, body, orelse):
                condition = self.condition(test)
                return Case(None, (When(condition, self._unless_skipped(body)),), self._unless_skipped(orelse), place)
            case ast.Call(ast.Name("len"), [ast.Name(name)], []) if name in self._around.tables:
                self._not_guarded(node)
                return self._around.counted(name, place)
            case ast.Call(ast.Name("round"), arguments, []) if 1 <= len(arguments) <= 2:
                return Call(Function.ROUND, tuple(self.value(argument) for argument in arguments), place)
            case ast.Call(ast.Name(name), arguments, []) if name in _FUNCTIONS and arguments:
                return Call(_FUNCTIONS[name], tuple(self.value(argument) for argument in arguments), place)
            case ast.Call(ast.Attribute()):
                self._not_guarded(node)
                return self._around.fetched(node)
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(ast.Not()):
                return self.condition(node)
        raise self._around.refusal(
            node, f"'{ast.unparse(node)}'", "use names, columns of rows, numbers, texts, + - * and comparisons"
        )

    def condition(self, node: ast.expr) -> Expression:
        """A truth value. Numbers and texts are not: what is true of them differs between Python and databases."""
        place = self._around.place(node)
        match node:
            case ast.Constant(bool() as value):
                return Literal(value, place)
            case ast.UnaryOp(ast.Not(), operand):
                return UnaryOperation(Unary.NOT, self.condition(operand), place)
            case ast.BoolOp(operator, [first, *others]):
                result, joined = self.condition(first), Binary.AND if isinstance(operator, ast.And) else Binary.OR
                outer, self._guarded = self._guarded, True
                for other in others:
                    result = BinaryOperation(joined, result, self.condition(other), place)
                self._guarded = outer
                return result
            case ast.Compare(left, operators, rights):
                return self._comparisons(left, operators, rights, place)
            case ast.Name(name) if name in self._around.rows:
                return Is(Name(name, place=place), Truth.NULL, negated=True, place=place)
            case ast.Name(name) if name in self._around.tables:
                self._not_guarded(node)
                return BinaryOperation(Binary.GREATER, self._around.counted(name, place), Literal(0), place)
        raise self._around.refusal(
            node, f"'{ast.unparse(node)}' as a condition", "compare it: with None, 0, '' or True"
        )

    def _comparisons(
        self, left: ast.expr, operators: list[ast.cmpop], rights: list[ast.expr], place: Place
    ) -> Expression:
        result: Expression | None = None
        for operator, right in zip(operators, rights, strict=True):
            one = self._comparison(left, operator, right, place)
            result = one if result is None else BinaryOperation(Binary.AND, result, one, place)
            left = right
        assert result is not None
        return result

    def _comparison(self, left: ast.expr, operator: ast.cmpop, right: ast.expr, place: Place) -> Expression:
        match operator, right:
            case ((ast.Is() | ast.IsNot() | ast.Eq() | ast.NotEq()), ast.Constant(None)):
                negated = isinstance(operator, ast.IsNot | ast.NotEq)
                if isinstance(left, ast.Name):
                    return Is(Name(left.id, place=place), Truth.NULL, negated, place)
                return Is(self.value(left), Truth.NULL, negated, place)
            case ((ast.Eq() | ast.NotEq()), _):
                same = BinaryOperation(Binary.SAME, self.value(left), self.value(right), place)
                return same if isinstance(operator, ast.Eq) else UnaryOperation(Unary.NOT, same, place)
            case ((ast.In() | ast.NotIn()), (ast.Tuple(elements) | ast.List(elements))) if elements:
                items = tuple(self.value(element) for element in elements)
                return InList(self.value(left), items, isinstance(operator, ast.NotIn), place)
        if type(operator) not in _COMPARISONS:
            text = f"'{ast.unparse(left)} … {ast.unparse(right)}'"
            raise self._around.refusal(right, text, "compare by == != < <= > >=, is None, or in (a, b)")
        return BinaryOperation(_COMPARISONS[type(operator)], self.value(left), self.value(right), place)

    def _unless_skipped(self, node: ast.expr) -> Expression:
        outer, self._guarded = self._guarded, True
        result = self.value(node)
        self._guarded = outer
        return result

    def _not_guarded(self, node: ast.expr) -> None:
        if self._guarded:
            raise self._around.refusal(
                node, f"'{ast.unparse(node)}' where it may be skipped", "assign it to a variable before this statement"
            )

    def _constant(self, node: ast.expr, value: Any, place: Place) -> Literal:
        if isinstance(value, float):
            # What a person writes as 0.1 is a tenth, as it is in SQL.
            return Literal(Decimal(repr(value)), place)
        if value is None or isinstance(value, bool | int | str):
            return Literal(value, place)
        raise self._around.refusal(node, f"the constant {value!r}", "use numbers, texts, True, False and None")
