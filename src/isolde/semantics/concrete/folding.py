"""What PostgreSQL computes when it plans: an expression of constants fails before any row is looked at, and where none would be.

Followed is its ``eval_const_expressions``: operands from the left; a constant condition takes away what it hides, so that
``false AND 1 / 0 = 1`` is false and ``CASE WHEN a > 0 THEN 1 ELSE 1 / 0 END`` an error. A query inside is planned if it is still
there after that. What a plan may or may not make a constant (variables) or leave out is left to running.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, assert_never

from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.concrete.compiler import Compiler
from isolde.semantics.concrete.expressions import Frame
from isolde.semantics.concrete.sources import has_aggregate, parts
from isolde.semantics.concrete.static import Constness
from isolde.tx import expressions as ex
from isolde.tx.expressions import Binary, Expression, Function
from isolde.tx.queries import Item, Join, QuerySource, Select, Source, Star, TableSource
from isolde.tx.schema import Column, Kind
from isolde.tx.statements import Default, Delete, Insert, Statement, Update

if TYPE_CHECKING:
    from isolde.semantics.concrete.catalog import Catalog

_STABLE = {Function.NOW, Function.CONCAT}
_NOT_STRICT = {Function.NULLIF, Function.GREATEST, Function.LEAST}


@dataclass(frozen=True, slots=True)
class Folded:
    """``known``: it is the constant ``value``; else ``sure`` says that no plan makes it one. ``queries`` are still in it."""

    known: bool = False
    value: Any = None
    sure: bool = True
    queries: tuple[ex.Exists | Select, ...] = ()

    @property
    def condition(self) -> Folded:
        """As a truth value: a text that is read as one is not followed."""
        return UNSURE if self.known and not isinstance(self.value, bool | None) else self


UNSURE = Folded(sure=False)


def planning_failure(catalog: Catalog, statement: Statement, variables: set[str]) -> ExecutionError | None:
    """The error with which planning the statement fails, whatever the tables hold."""
    try:
        _Folding(catalog, variables).statement(statement)
    except ExecutionError as error:
        return error
    return None


def constant_of(expression: Expression, frame: Frame) -> Constness | None:
    """The null or truth value that is left of an expression after planning, if it is one."""
    variables: set[str] = set()
    around: Frame | None = frame
    while around is not None:
        variables |= set(around.variables)
        around = around.parent
    try:
        folded = _Folding(frame.compiler.catalog, variables).fold(expression)
    except ExecutionError:
        return None
    return Constness(folded.value) if folded.known and isinstance(folded.value, bool | None) else None


class _Folding:
    def __init__(self, catalog: Catalog, variables: set[str]) -> None:
        self.catalog = catalog
        self.variables = variables

    # Statements

    def statement(self, statement: Statement) -> None:
        match statement:
            case Select():
                self.query(statement)
                return
            case Insert():
                self.insert(statement)
            case Update():
                columns = self.catalog.table(statement.table).table.columns
                for assignment in statement.assignments:
                    self.cell(assignment.value, next(c for c in columns if c.name == assignment.column))
                self.clause(statement.where)
            case Delete():
                self.clause(statement.where)
            case _:
                assert_never(statement)
        for item in statement.returning:
            self.clause(item.expression if isinstance(item, Item) else None)

    def insert(self, insert: Insert) -> None:
        columns = {column.name: column for column in self.catalog.table(insert.table).table.columns}
        names = insert.columns or tuple(columns)
        if isinstance(insert.source, Select):
            self.query(insert.source)
            for name, item in zip(names, insert.source.items, strict=False):
                if isinstance(item, Star):
                    break
                if _simple(insert.source):
                    self.cell(item.expression, columns[name])
        else:
            for row in insert.source:
                for name, value in zip(names, row, strict=False):
                    self.cell(value, columns[name])
        if insert.on_conflict is not None:
            for assignment in insert.on_conflict.assignments:
                self.cell(assignment.value, columns[assignment.column])
            self.clause(insert.on_conflict.where)

    def cell(self, value: Expression | Default, column: Column) -> None:
        if isinstance(value, Default):
            return
        self.clause(value)
        if isinstance(value, ex.Call) and value.function is Function.COALESCE and _whole(value.arguments[0]):
            value = value.arguments[0]
        if isinstance(value, ex.Literal):
            # It is read with the text of the statement, whether there are rows or not: what is refused is refused.
            own = Compiler(self.catalog)
            own.rules.stored(Frame(own).compile(value), column)
        if self.fold(value).known and _pure(value):
            self.computed(lambda own: own.rules.stored(Frame(own).compile(value), column))

    def query(self, select: Select, exists: bool = False) -> None:
        self.source(select.source)
        self.clause(select.where)
        if exists:
            # It is asked for rows, not for what they show.
            return
        for expression in _shown(select):
            self.clause(expression)

    def source(self, source: Source | None) -> None:
        match source:
            case Join():
                self.source(source.left)
                self.source(source.right)
                self.clause(source.on)
            case QuerySource():
                # It becomes a part of the query around it, without the columns that nobody asks for.
                if _simple(source.query):
                    self.query(source.query, exists=True)
            case TableSource() | None:
                pass
            case _:
                assert_never(source)

    def clause(self, expression: Expression | None) -> None:
        if expression is None:
            return
        for query in self.fold(expression).queries:
            if isinstance(query, Select):
                self.query(query)
            elif _simple(query.query):
                self.query(query.query, exists=True)

    # Expressions

    def fold(self, node: Expression) -> Folded:
        match node:
            case ex.Literal():
                return Folded(True, node.value)
            case ex.Name():
                return UNSURE if (node.table or node.name) in self.variables else Folded()
            case ex.Parameter():
                return UNSURE
            case ex.UnaryOperation() if node.operator is ex.Unary.NOT:
                inner = self.fold(node.operand).condition
                return Folded(True, None if inner.value is None else not inner.value) if inner.known else inner
            case ex.UnaryOperation():
                return self.together(node, (node.operand,))
            case ex.BinaryOperation():
                return self.binary(node)
            case ex.Is():
                return self.test(node)
            case ex.Between():
                low, high = (Binary.LESS, Binary.GREATER) if node.negated else (Binary.GREATER_EQUAL, Binary.LESS_EQUAL)
                sides = (
                    ex.BinaryOperation(low, node.operand, node.low),
                    ex.BinaryOperation(high, node.operand, node.high),
                )
                return self.joined(sides, node.negated)
            case ex.InList():
                return self.in_list(node)
            case ex.InQuery():
                inner = self.fold(node.operand)
                return Folded(queries=(*inner.queries, node.query))
            case ex.Exists():
                return Folded(queries=(node,))
            case ex.ScalarQuery():
                return Folded(queries=(node.query,))
            case ex.Case():
                return self.case(node)
            case ex.Call():
                return self.call(node)
            case ex.Cast():
                times = node.type.kind is Kind.TIMESTAMP
                inner = self.together(node, (node.operand,))
                return Folded(queries=inner.queries) if times and inner.known and inner.value is not None else inner
            case ex.Aggregate():
                inner = Folded() if node.operand is None else self.fold(node.operand)
                return Folded(queries=inner.queries)
            case _:
                assert_never(node)

    def together(self, node: Expression, operands: tuple[Expression, ...], strict: bool = True) -> Folded:
        """An operator or a function of its operands; ``strict``: null if one of them is."""
        folded = [self.fold(operand) for operand in operands]
        if strict and any(inner.known and inner.value is None for inner in folded):
            return Folded(True, None)
        if all(inner.known for inner in folded):
            return self.computed(lambda own: own.rules.output(Frame(own).compile(node))) if _pure(node) else UNSURE
        if not all(inner.known or inner.sure for inner in folded):
            return UNSURE
        return Folded(queries=tuple(query for inner in folded for query in inner.queries))

    def computed(self, compiled: Callable[[Compiler], str]) -> Folded:
        own = Compiler(self.catalog)
        try:
            text = compiled(own)
        except OutsideFragment:
            return UNSURE
        except ExecutionError as error:
            if error.kind == "conversion":
                raise
            # An error of types, which comes when the statement itself is compiled.
            return UNSURE
        own.functions.append(f"def constant(S):\n    return {text}")
        try:
            return Folded(True, own.finish("constant")(None))
        except OutsideFragment:
            return UNSURE

    def binary(self, node: ex.BinaryOperation) -> Folded:
        if node.operator in (Binary.AND, Binary.OR):
            return self.joined((node.left, node.right), node.operator is Binary.OR)
        return self.together(node, (node.left, node.right), strict=node.operator is not Binary.SAME)

    def joined(self, conditions: tuple[Expression, ...], decides: bool, before: Folded | None = None) -> Folded:
        """AND or OR; ``decides`` is the value of one that is the value of all, and hides what comes later."""
        found = [] if before is None else [before.condition]
        for condition in conditions:
            if found and (found[-1].known and found[-1].value is decides):
                break
            if found and not found[-1].known and not found[-1].sure:
                return UNSURE
            found.append(self.fold(condition).condition)
        if any(inner.known and inner.value is decides for inner in found):
            return Folded(True, decides)
        if all(inner.known for inner in found):
            return Folded(True, None if any(inner.value is None for inner in found) else not decides)
        if not all(inner.known or inner.sure for inner in found):
            return UNSURE
        return Folded(queries=tuple(query for inner in found for query in inner.queries))

    def test(self, node: ex.Is) -> Folded:
        inner = self.fold(node.operand)
        if not inner.known:
            return inner
        if node.truth is ex.Truth.NULL:
            return Folded(True, (inner.value is None) is not node.negated)
        if not isinstance(inner.value, bool | None):
            return UNSURE
        return Folded(True, (inner.value is (node.truth is ex.Truth.TRUE)) is not node.negated)

    def in_list(self, node: ex.InList) -> Folded:
        """Two items or more without columns become an array, which comes first; the others are compared one by one."""
        plain = tuple(item for item in node.items if not any(isinstance(part, ex.Name) for part in parts(item)))
        others, before = node.items, None
        if len(plain) > 1:
            before = self.together(replace(node, items=plain), (node.operand, *plain), strict=False)
            others = tuple(item for item in node.items if item not in plain)
        operator = Binary.NOT_EQUAL if node.negated else Binary.EQUAL
        comparisons = tuple(ex.BinaryOperation(operator, node.operand, item) for item in others)
        return self.joined(comparisons, not node.negated, before)

    def case(self, node: ex.Case) -> Folded:
        queries: tuple[ex.Exists | Select, ...] = ()
        is_open = False
        chosen = node.otherwise
        for when in node.whens:
            asked = when.condition
            if node.operand is not None:
                asked = ex.BinaryOperation(Binary.EQUAL, node.operand, asked)
            condition = self.fold(asked).condition
            if condition.known:
                if condition.value is True:
                    chosen = when.result
                    break
                continue
            if not condition.sure:
                return UNSURE
            is_open = True
            queries += condition.queries + self.fold(when.result).queries
        last = Folded(True, None) if chosen is None else self.fold(chosen)
        if is_open:
            return Folded(queries=queries + last.queries)
        if not last.known or last.value is None:
            return last
        return self.computed(lambda own: own.rules.output(Frame(own).compile(node))) if _pure(node) else UNSURE

    def call(self, node: ex.Call) -> Folded:
        if node.function is Function.COALESCE:
            return self.coalesce(node)
        folded = self.together(node, node.arguments, strict=node.function not in _NOT_STRICT | _STABLE)
        if node.function in _STABLE:
            return Folded(queries=folded.queries)
        return folded

    def coalesce(self, node: ex.Call) -> Folded:
        queries: tuple[ex.Exists | Select, ...] = ()
        is_open = False
        for argument in node.arguments:
            inner = self.fold(argument)
            if inner.known and inner.value is None:
                continue
            if not inner.known and not inner.sure:
                return UNSURE
            if inner.known:
                if is_open:
                    break
                return self.computed(lambda own: own.rules.output(Frame(own).compile(node))) if _pure(node) else UNSURE
            is_open = True
            queries += inner.queries
        return Folded(queries=queries) if is_open else Folded(True, None)


def _pure(node: Expression) -> bool:
    """Whether it is made of literals and of functions that have the same value always."""
    return not any(
        isinstance(part, ex.Name | ex.Parameter | ex.Aggregate | Select)
        or (isinstance(part, ex.Call) and part.function in _STABLE)
        or (isinstance(part, ex.Cast) and part.type.kind is Kind.TIMESTAMP)
        for part in parts(node)
    )


def _whole(node: Expression) -> bool:
    return isinstance(node, ex.Literal) and type(node.value) is int


def _simple(select: Select) -> bool:
    """Whether it can become a part of the query around it."""
    parts_of_its_own = (select.group_by, select.having, select.order_by, select.limit, select.offset, select.distinct)
    items = [item.expression for item in select.items if isinstance(item, Item)]
    return not any(parts_of_its_own) and select.lock is None and not any(map(has_aggregate, items))


def _shown(select: Select) -> Iterator[Expression]:
    yield from (item.expression for item in select.items if isinstance(item, Item))
    yield from select.group_by
    yield from (order.expression for order in select.order_by)
    yield from (part for part in (select.having, select.limit, select.offset) if part is not None)
