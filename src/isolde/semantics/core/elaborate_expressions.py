"""Expressions of the language to expressions of the core."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, assert_never

from isolde.errors import ExecutionError
from isolde.semantics.core import primitives
from isolde.semantics.core.dialects import Rules
from isolde.semantics.core.dialects.base import all_null, is_plain, typed
from isolde.semantics.core.evaluate import constant_value
from isolde.semantics.core.nodes import (
    Aggregated,
    Apply,
    Bind,
    Bound,
    Choose,
    Coalesce,
    Constant,
    Exists,
    Expression,
    Fail,
    Member,
    Scalar,
    below,
    is_constant,
    is_stored,
)
from isolde.semantics.core.primitives import Primitive, primitive
from isolde.semantics.core.relations import Aggregate
from isolde.semantics.core.scope import Aggregates, Scope
from isolde.semantics.core.types import BIGINT, BOOLEAN, NULL, TEXT, Sort, outside
from isolde.semantics.core.values import python, rows
from isolde.tx import expressions as tx
from isolde.tx.expressions import Binary, Function, Truth, Unary
from isolde.tx.walk import parts

if TYPE_CHECKING:
    from isolde.semantics.core.elaborate import Elaborator

LOGIC = frozenset({Binary.AND, Binary.OR, Binary.XOR})
COMPARING = frozenset(
    {
        Binary.EQUAL,
        Binary.NOT_EQUAL,
        Binary.LESS,
        Binary.LESS_EQUAL,
        Binary.GREATER,
        Binary.GREATER_EQUAL,
        Binary.SAME,
    }
)
_PYTHON: dict[Binary | Function, Primitive] = {
    key: primitive(f"python {key.value}", python.checked(function), strict=False, errors="not-null type")
    for key, function in (
        (Binary.LESS, operator.lt),
        (Binary.LESS_EQUAL, operator.le),
        (Binary.GREATER, operator.gt),
        (Binary.GREATER_EQUAL, operator.ge),
        (Function.ABS, abs),
        (Function.GREATEST, max),
        (Function.LEAST, min),
    )
}
"""What a strict procedure compares by; it has no other comparisons and functions."""
_PYTHON[Binary.SAME] = primitives.SAME
_PYTHON_ERRORS = "not-null type out-of-range"
_PYTHON_RESULT = {
    1: primitive("python unary arithmetic", python.result, strict=False, errors=_PYTHON_ERRORS),
    2: primitive("python binary arithmetic", python.binary_result, strict=False, errors=_PYTHON_ERRORS),
}
_NULLNESS = {False: primitives.IS_NULL, True: primitives.IS_NOT_NULL}
_ROW_NULLNESS = {
    False: primitive("row is null", rows.is_null, strict=False),
    True: primitive("row is not null", rows.is_not_null, strict=False),
}
_TRUTHS = {
    (Truth.TRUE, False): primitives.IS_TRUE,
    (Truth.TRUE, True): primitives.IS_NOT_TRUE,
    (Truth.FALSE, False): primitives.IS_FALSE,
    (Truth.FALSE, True): primitives.IS_NOT_FALSE,
}
SINGLE = primitive("the one row", rows.single, strict=False, nullable=True, errors="cardinality", partial=True)
SINGLE_AHEAD = primitive("the one row, read ahead", rows.single_ahead, strict=False, nullable=True)
FIRST = primitive("any row, if all are the same", rows.first, strict=False, nullable=True)
FIRST_ORDERED = primitive("the first row", rows.first_ordered, strict=False, nullable=True)


class ExpressionElaborator:
    """Expressions of one statement, by the rules of its dialect."""

    def __init__(self, elaborator: Elaborator, rules: Rules) -> None:
        self.elaborator = elaborator
        self.rules = rules

    def expression(self, node: tx.Expression, scope: Scope) -> Expression:
        match node:
            case tx.Literal():
                return self.rules.literal(node.value)
            case tx.Name():
                return scope.resolve(node)
            case tx.Parameter():
                return scope.parameter(node.name)
            case tx.UnaryOperation():
                return self._unary(node, scope)
            case tx.BinaryOperation():
                return self._binary(node, scope)
            case tx.Is():
                return self._is(node, scope)
            case tx.Between():
                return self._between(node, scope)
            case tx.InList():
                return self._in_list(node, scope)
            case tx.InQuery():
                return self._in_query(node, scope)
            case tx.Exists():
                query = self.elaborator.query(node.query, scope, self.rules, exists=True)
                if node.negated:
                    return Apply(primitives.NOT, (Exists(query, BOOLEAN),), BOOLEAN, True)
                return Exists(query, self.rules.exists_type)
            case tx.ScalarQuery():
                return self._scalar(node, scope)
            case tx.Case():
                return self._case(node, scope)
            case tx.Call():
                arguments = [self.expression(argument, scope) for argument in node.arguments]
                if scope.strict and node.function in _PYTHON:
                    operands, type_ = self.rules.common(_with_types(arguments), "a function")
                    return Apply(_PYTHON[node.function], tuple(operands), type_, True)
                return self.rules.call(node.function, arguments)
            case tx.Cast():
                return self.rules.cast(self.expression(node.operand, scope), node.type)
            case tx.Aggregate():
                return self._aggregate(node, scope)
            case _:
                assert_never(node)

    def condition(self, node: tx.Expression, scope: Scope, what: str = "WHERE") -> Expression:
        return self.rules.truth(self.expression(node, scope), what)

    def conjuncts(self, node: tx.Expression | None, scope: Scope, what: str = "WHERE") -> tuple[Expression, ...]:
        if node is None:
            return ()
        if isinstance(node, tx.BinaryOperation) and node.operator is Binary.AND:
            return self.conjuncts(node.left, scope, "AND") + self.conjuncts(node.right, scope, "AND")
        return (self.condition(node, scope, what),)

    # Operators

    def _unary(self, node: tx.UnaryOperation, scope: Scope) -> Expression:
        operand = self.expression(node.operand, scope)
        if node.operator is not Unary.NEGATE:
            return self.rules.unary(node.operator, operand)
        if scope.strict:
            return self._in_python([operand], lambda nodes: self.rules.unary(node.operator, nodes[0]))
        found = self.rules.negated_constant(node.operand, operand)
        return self.rules.unary(node.operator, operand) if found is None else found

    def _binary(self, node: tx.BinaryOperation, scope: Scope) -> Expression:
        left, right = self.expression(node.left, scope), self.expression(node.right, scope)
        if node.operator in LOGIC:
            return self.rules.logic(node.operator, left, right)
        if node.operator in COMPARING:
            if scope.strict:
                return Apply(_PYTHON[node.operator], (left, right), BOOLEAN, True)
            return self.rules.compared(node.operator, left, right)
        if scope.strict:
            return self._in_python([left, right], lambda nodes: self.rules.binary(node.operator, *nodes))
        return self.rules.binary(node.operator, left, right)

    def _in_python(self, operands: list[Expression], operation: Callable[[list[Expression]], Expression]) -> Expression:
        """The dialect's arithmetic in a strict procedure: an error where Python has one."""
        known = _with_types(operands)
        integers = all(operand.type.sort is Sort.INTEGER for operand in known)
        if integers:
            result = operation(known)
            if isinstance(result, Apply) and result.type.sort is Sort.INTEGER and not result.primitive.nullable:
                # It is null only where an operand is.
                return Coalesce(
                    (result, Fail("not-null", "a null where Python needs a value", result.type)), result.type
                )
        bound = [self._bound(operand) for operand in known]
        result = operation([again for _, again in bound])
        type_ = BIGINT if integers and result.type.sort is Sort.DECIMAL else result.type
        checked: Expression = Apply(_PYTHON_RESULT[len(known)], (*(again for _, again in bound), result), type_, True)
        return _binding(bound, checked)

    def _bound(self, node: Expression) -> tuple[Bind | None, Expression]:
        """A value that is used several times, and what binds it if it has to be computed."""
        if is_plain(node):
            return None, node
        slot = self.elaborator.fresh()
        again = Bound(slot, node.type, node.nonnull, is_stored(node))
        return Bind(slot, node, again), again

    def _is(self, node: tx.Is, scope: Scope) -> Expression:
        operand = self.expression(node.operand, scope)
        if node.truth is not Truth.NULL:
            return Apply(_TRUTHS[node.truth, node.negated], (self.rules.truth(operand, "IS"),), BOOLEAN, True)
        if is_constant(operand) and not any(
            isinstance(part, Apply) and part.primitive.errors for part in below(operand)
        ):
            return Constant((constant_value(operand) is None) is not node.negated, BOOLEAN)
        row = operand.type.sort is Sort.ROW and not scope.strict and self.rules.row_is_null_by_columns
        return Apply((_ROW_NULLNESS if row else _NULLNESS)[node.negated], (operand,), BOOLEAN, True)

    def _between(self, node: tx.Between, scope: Scope) -> Expression:
        rules = self.rules
        operand, low, high = (self.expression(part, scope) for part in (node.operand, node.low, node.high))
        bind, again = self._bound(operand)
        if not rules.computes_both_bounds:
            result = rules.between(again, low, high)
            return _binding([(bind, again)], rules.negation(result) if node.negated else result)
        bounds = [self._bound(low), self._bound(high)]
        result = rules.between(again, bounds[0][1], bounds[1][1])
        result = _binding(bounds, rules.negation(result) if node.negated else result)
        if any(bound is not None for bound, _ in bounds) and not again.nonnull:
            empty = Apply(primitives.IS_NULL, (again,), BOOLEAN, True)
            result = Choose(((empty, Constant(None, BOOLEAN)),), result, BOOLEAN)
        return _binding([(bind, again)], result)

    def _in_list(self, node: tx.InList, scope: Scope) -> Expression:
        rules = self.rules
        operand = self.expression(node.operand, scope)
        items = [self.expression(item, scope) for item in node.items]
        plain = [not any(isinstance(part, (tx.Name, tx.ScalarQuery)) for part in parts(item)) for item in node.items]
        items = rules.list_items(operand, items, plain)
        bind, again = self._bound(operand)
        result: Expression = Constant(False, BOOLEAN)
        for position, item in enumerate(items):
            equal = (rules.matching if len(items) > 1 else rules.compared)(Binary.EQUAL, again, item)
            result = equal if position == 0 else rules.logic(Binary.OR, result, equal)
        return _binding([(bind, again)], rules.negation(result) if node.negated else result)

    # Queries inside

    def _in_query(self, node: tx.InQuery, scope: Scope) -> Expression:
        rules = self.rules
        operand = self.expression(node.operand, scope)
        if not rules.in_takes_limit and (node.query.limit or node.query.offset):
            raise outside(
                "IN with a query that has a LIMIT in MySQL", "the server does not take it; join with the query"
            )
        query = self.elaborator.query(node.query, scope, rules)
        if len(query.outputs) != 1:
            raise ExecutionError("type", f"the query of IN has {len(query.outputs)} columns; expected one")
        slot, item = self.elaborator.fresh(), self.elaborator.fresh()
        again = operand if is_plain(operand) else Bound(slot, operand.type, operand.nonnull, is_stored(operand))
        equal = rules.compared(Binary.EQUAL, again, Bound(item, query.outputs[0].type))
        found = Member(slot, operand, item, equal, query, rules.member_lazy)
        return rules.negation(found) if node.negated else found

    def _scalar(self, node: tx.ScalarQuery, scope: Scope) -> Expression:
        query = self.elaborator.query(node.query, scope, self.rules, kept=True)
        if len(query.outputs) != 1:
            raise ExecutionError("type", f"a scalar query has {len(query.outputs)} columns; expected one")
        type_ = query.outputs[0].type
        if type_.sort is Sort.UNKNOWN:
            type_ = TEXT
        pick, ahead = SINGLE, False
        if self.rules.scalar_takes_first:
            pick = FIRST_ORDERED if node.query.order_by else FIRST
        elif self.rules.scalar_ahead and not query.correlated and scope.sources:
            pick, ahead = SINGLE_AHEAD, True
        return Scalar(query, pick, type_, ahead)

    def _case(self, node: tx.Case, scope: Scope) -> Expression:
        rules = self.rules
        bind: list[tuple[Bind | None, Expression]] = []
        again: Expression | None = None
        if node.operand is not None:
            operand = rules.case_operand(self.expression(node.operand, scope))
            bind.append(self._bound(operand))
            again = bind[0][1]
        tests: list[Expression] = []
        results: list[Expression] = []
        for when in node.whens:
            if again is None:
                tests.append(self.condition(when.condition, scope, "CASE"))
            else:
                tests.append(rules.matching(Binary.EQUAL, again, self.expression(when.condition, scope)))
            results.append(self.expression(when.result, scope))
        if node.otherwise is not None:
            results.append(self.expression(node.otherwise, scope))
        if scope.strict:
            texts = {
                result.type.sort in (Sort.TEXT, Sort.UNKNOWN) for result in results if result.type.sort is not Sort.NULL
            }
            if len(texts) > 1:
                raise outside("a choice between texts and other values", "use an if for each")
        type_ = NULL
        if not (scope.strict and all_null(results)):
            results, type_ = rules.common(results, "CASE")
        otherwise: Expression = results.pop() if node.otherwise is not None else Constant(None, type_)
        cases = list(zip(tests, results, strict=True))
        if rules.fails_when_planned:
            cases, otherwise = _decided(cases, otherwise)
        return _binding(bind, Choose(tuple(cases), otherwise, type_) if cases else otherwise)

    # Aggregates

    def _aggregate(self, node: tx.Aggregate, scope: Scope) -> Expression:
        aggregates = scope.aggregates
        if aggregates is None:
            raise ExecutionError("type", f"{node.aggregation.value} is not allowed here")
        # Of literals it is not enough that they are equal: 1 and 1.0 are.
        simple = node.operand is None or isinstance(node.operand, tx.Name)
        if simple and node in aggregates.known:
            return aggregates.known[node]
        scope.aggregates = None
        try:
            form, value = self._aggregate_form(node, scope, aggregates)
        finally:
            scope.aggregates = aggregates
        aggregates.found.append(form)
        if simple:
            aggregates.known[node] = value
        return value

    def _aggregate_form(self, node: tx.Aggregate, scope: Scope, aggregates: Aggregates) -> tuple[Aggregate, Aggregated]:
        rules, place = self.rules, len(aggregates.found)
        if node.operand is None:
            form = rules.aggregate(node.aggregation, rules.literal(1))
            return Aggregate(len, None), Aggregated(place, form.type, True)
        operand = self.expression(node.operand, scope)
        adding = node.aggregation in (tx.Aggregation.SUM, tx.Aggregation.AVG)
        if rules.folds_texts and node.distinct and adding and operand.type.sort is Sort.TEXT:
            # MariaDB adds up different numbers; but different texts where the column is a key.
            raise outside(f"{node.aggregation.value.upper()} of DISTINCT texts in MySQL", "add 0 to them")
        form = rules.aggregate(node.aggregation, operand)
        if aggregates.by_keys or node.distinct:
            form = rules.grouped_aggregate(form)
        value = Aggregated(place, form.type, form.nonnull)
        if not node.distinct:
            return Aggregate(form.function, form.operand), value
        slot = self.elaborator.fresh()
        key = rules.key(Bound(slot, form.operand.type))
        # A count is the same whichever of equal values are taken.
        equals_differ = node.aggregation is not tx.Aggregation.COUNT and rules.equals_differ(form.operand)
        return Aggregate(form.function, form.operand, slot, key, equals_differ), value


def _decided(
    cases: list[tuple[Expression, Expression]], otherwise: Expression
) -> tuple[list[tuple[Expression, Expression]], Expression]:
    """PostgreSQL leaves out the cases whose conditions are constants that do not hold, and all after one that does."""
    left: list[tuple[Expression, Expression]] = []
    for condition, result in cases:
        if not is_constant(condition):
            left.append((condition, result))
        elif constant_value(condition) is True:
            return left, result
    return left, otherwise


def _binding(bound: list[tuple[Bind | None, Expression]], body: Expression) -> Expression:
    for bind, _ in reversed(bound):
        if bind is not None:
            body = Bind(bind.slot, bind.value, body)
    return body


def _with_types(operands: list[Expression]) -> list[Expression]:
    """A null has no type, and a dialect may not know which operator it is for; to Python it is an error anyway."""
    return [typed(operand, BIGINT) if operand.type.sort is Sort.NULL else operand for operand in operands]
