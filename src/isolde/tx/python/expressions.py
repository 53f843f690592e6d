"""Python expressions of the subset as expressions of the language."""

from __future__ import annotations

import ast
from typing import Any, Protocol

from isolde.errors import OutsideFragment
from isolde.tx.expressions import (
    Binary,
    BinaryOperation,
    Call,
    Case,
    Expression,
    Function,
    Is,
    Literal,
    Name,
    Truth,
    Unary,
    UnaryOperation,
    When,
)
from isolde.tx.place import Place
from isolde.tx.python.hints import outside_expression
from isolde.tx.python.names import Known, seen

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
    lists: dict[str, int | None]
    known: Known | None

    def place(self, node: ast.AST) -> Place: ...
    def refusal(self, node: ast.AST, what: str, instead: str) -> OutsideFragment: ...
    def fetched(self, node: ast.expr) -> Name: ...
    def counted(self, variable: str, place: Place) -> Name: ...
    def usable(self, node: ast.Name) -> None: ...
    def builtin(self, node: ast.expr, name: str) -> None: ...
    def there(self, node: ast.expr, row: str, guarded: bool) -> None: ...
    def see(self, rows: frozenset[str]) -> None: ...


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
                self._around.usable(node)
                if name in self._around.lists:
                    raise self._around.refusal(
                        node, f"the list '{name}' as a value", f"loop over it, or use len({name})"
                    )
                if name in self._around.rows | self._around.tables:
                    raise self._around.refusal(
                        node, f"the row or rows '{name}' as a value", f"name a column: {name}.column"
                    )
                return Name(name, place=place)
            case ast.Attribute(ast.Name(name)) | ast.Subscript(ast.Name(name)) if name in self._around.lists:
                hint = f"loop over it: for element in {name}, or for first, second in {name}"
                raise self._around.refusal(node, f"'{ast.unparse(node)}', a part of a list", hint)
            case ast.Attribute(ast.Name(row), column) | ast.Subscript(ast.Name(row), ast.Constant(str() as column)):
                return self._column(node, row, column, place)
            case ast.UnaryOp(ast.USub(), operand):
                return UnaryOperation(Unary.NEGATE, self._number(operand), place)
            case ast.BinOp(left, operator, right) if type(operator) in _ARITHMETIC:
                return BinaryOperation(_ARITHMETIC[type(operator)], self._number(left), self._number(right), place)
            case ast.IfExp(test, body, orelse):
                return self._choice(test, body, orelse, place)
            case ast.Call(ast.Name("len"), [ast.Name(name) as counted], []) if name in self._around.tables:
                self._around.builtin(node, "len")
                self._around.usable(counted)
                self._not_guarded(node)
                return self._around.counted(name, place)
            case ast.Call(ast.Name(name), arguments, []) if name in _FUNCTIONS and self._counts(name, arguments):
                self._around.builtin(node, name)
                return Call(_FUNCTIONS[name], tuple(self._number(argument) for argument in arguments), place)
            case ast.Call(ast.Attribute()):
                self._not_guarded(node)
                return self._around.fetched(node)
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(ast.Not()):
                return self.condition(node)
        raise self._around.refusal(node, *outside_expression(node))

    def _column(self, node: ast.expr, row: str, column: str, place: Place) -> Expression:
        if row not in self._around.rows:
            raise self._around.refusal(
                node, f"'{ast.unparse(node)}'", "only rows that tx.one or a loop over tx.all gives have columns"
            )
        assert isinstance(node, ast.Attribute | ast.Subscript)
        assert isinstance(node.value, ast.Name)
        self._around.usable(node.value)
        self._around.there(node, row, self._guarded)
        return Name(column, row, place)

    def _counts(self, name: str, arguments: list[ast.expr]) -> bool:
        starred = any(isinstance(argument, ast.Starred) for argument in arguments)
        return not starred and (len(arguments) == 1 if name == "abs" else len(arguments) > 1)

    def _number(self, node: ast.expr) -> Expression:
        """An operand of arithmetic. What else Python allows there, databases do not, or mean something else by it."""
        match node:
            case ast.Constant(str() | bool() | None):
                hint = "put texts together in a statement, with CONCAT; arithmetic is of numbers"
                raise self._around.refusal(node, f"{ast.unparse(node)} as a number", hint)
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(ast.Not()):
                what = f"the condition '{ast.unparse(node)}' as a number"
                raise self._around.refusal(node, what, "write: 1 if … else 0")
        return self.value(node)

    def _choice(self, test: ast.expr, body: ast.expr, orelse: ast.expr, place: Place) -> Expression:
        condition = self.condition(test)
        before, (true, false) = self._around.known, seen(test, self._around.rows)
        self._around.see(true)
        first = self._unless_skipped(body)
        self._around.known = before
        self._around.see(false)
        second = self._unless_skipped(orelse)
        self._around.known = before
        return Case(None, (When(condition, first),), second, place)

    def condition(self, node: ast.expr) -> Expression:
        """A truth value. Numbers and texts are not: what is true of them differs between Python and databases."""
        place = self._around.place(node)
        match node:
            case ast.Constant(bool() as value):
                return Literal(value, place)
            case ast.UnaryOp(ast.Not(), operand):
                return UnaryOperation(Unary.NOT, self.condition(operand), place)
            case ast.BoolOp(operator, operands):
                return self._logic(isinstance(operator, ast.And), operands, place)
            case ast.Compare(left, operators, rights):
                return self._comparisons(left, operators, rights, place)
            case ast.Name(name) if name in self._around.rows:
                self._around.usable(node)
                return Is(Name(name, place=place), Truth.NULL, negated=True, place=place)
            case ast.Name(name) if name in self._around.tables:
                self._around.usable(node)
                self._not_guarded(node)
                return BinaryOperation(Binary.GREATER, self._around.counted(name, place), Literal(0), place)
        raise self._around.refusal(
            node, f"'{ast.unparse(node)}' as a condition", "compare it: with None, 0, '' or True"
        )

    def _logic(self, every: bool, operands: list[ast.expr], place: Place) -> Expression:
        """Python's ``and`` and ``or``: what comes later is looked at only if what came before leaves it open."""
        first, *others = operands
        result = self.condition(first)
        before, outer = self._around.known, self._guarded
        self._guarded = True
        for previous, other in zip(operands, others, strict=False):
            self._around.see(seen(previous, self._around.rows)[0 if every else 1])
            result = BinaryOperation(Binary.AND if every else Binary.OR, result, self.condition(other), place)
        self._around.known, self._guarded = before, outer
        return result

    def _comparisons(
        self, left: ast.expr, operators: list[ast.cmpop], rights: list[ast.expr], place: Place
    ) -> Expression:
        """A chain looks at each operand once, and at a later one only if the comparison before holds."""
        outer = self._guarded
        results: list[Expression] = []
        compiled = None if self._is_row(left) else self.value(left)
        for operator, right in zip(operators, rights, strict=True):
            result, compiled = self._comparison(left, compiled, operator, right, place)
            results.append(result)
            left, self._guarded = right, True
        self._guarded = outer
        joined = results[0]
        for result in results[1:]:
            joined = BinaryOperation(Binary.AND, joined, result, place)
        return joined

    def _is_row(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self._around.rows

    def _comparison(
        self, left: ast.expr, compiled: Expression | None, operator: ast.cmpop, right: ast.expr, place: Place
    ) -> tuple[Expression, Expression | None]:
        """One comparison, and its right side for the next; ``compiled`` is the left side, ``None`` if that is a row."""
        match operator, right:
            case ((ast.Is() | ast.IsNot() | ast.Eq() | ast.NotEq()), ast.Constant(None)):
                negated = isinstance(operator, ast.IsNot | ast.NotEq)
                if compiled is None and isinstance(left, ast.Name):
                    self._around.usable(left)
                    compiled = Name(left.id, place=place)
                assert compiled is not None
                return Is(compiled, Truth.NULL, negated, place), Literal(None, place)
        if compiled is None:
            compiled = self.value(left)
        match operator, right:
            case ((ast.Eq() | ast.NotEq()), _):
                other = self.value(right)
                same: Expression = BinaryOperation(Binary.SAME, compiled, other, place)
                return (same if isinstance(operator, ast.Eq) else UnaryOperation(Unary.NOT, same, place)), other
            case ((ast.In() | ast.NotIn()), (ast.Tuple(elements) | ast.List(elements))) if elements:
                return self._membership(compiled, operator, elements, place), None
        if type(operator) not in _COMPARISONS:
            text = f"'{ast.unparse(left)} … {ast.unparse(right)}'"
            raise self._around.refusal(right, text, "compare by == != < <= > >=, is None, or in (a, b)")
        other = self.value(right)
        return BinaryOperation(_COMPARISONS[type(operator)], compiled, other, place), other

    def _membership(
        self, operand: Expression, operator: ast.cmpop, elements: list[ast.expr], place: Place
    ) -> Expression:
        """Not SQL's IN, which is unknown where a null is among the values; to Python, ``None`` is in ``(1, None)``."""
        items = [self.value(element) for element in elements]
        found: Expression = BinaryOperation(Binary.SAME, operand, items[0], place)
        for item in items[1:]:
            found = BinaryOperation(Binary.OR, found, BinaryOperation(Binary.SAME, operand, item, place), place)
        return UnaryOperation(Unary.NOT, found, place) if isinstance(operator, ast.NotIn) else found

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
            hint = "Python's is not exact and SQL's is; give it as a parameter, or write it in a statement"
            raise self._around.refusal(node, f"the number {value!r}", hint)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 2**63:
            raise self._around.refusal(node, f"the number {value}", "integers have 64 bits in databases")
        if value is None or isinstance(value, bool | int | str):
            return Literal(value, place)
        raise self._around.refusal(node, f"the constant {value!r}", "use integers, texts, True, False and None")
