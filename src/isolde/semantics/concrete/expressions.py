"""Expressions of the core to Python text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import assert_never

from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.concrete.code import Unit
from isolde.semantics.core import primitives
from isolde.semantics.core.evaluate import combined, constant_value
from isolde.semantics.core.nodes import (
    Aggregated,
    Apply,
    Bind,
    Bound,
    Choose,
    Clock,
    Coalesce,
    Column,
    Constant,
    Exists,
    Expression,
    Fail,
    Field,
    Logic,
    Member,
    NextId,
    Scalar,
    Variable,
    converts_parameter,
)
from isolde.semantics.core.relations import Query
from isolde.semantics.core.values.rows import any_true

QueryFunction = Callable[[Unit, Query, bool], str]
"""Writes the function of a query (the last argument: of whether it has a row) and gives its name."""


class Body:
    """The body of one generated function. ``repeated``: it may run several times while tables change, so that a query in it is
    not remembered.
    """

    def __init__(self, unit: Unit, query_function: QueryFunction, repeated: bool = False) -> None:
        self.unit = unit
        self.query_function = query_function
        self.repeated = repeated
        self.hoists = not repeated
        """Whether parameters are converted at the beginning of the function, before any row is looked at."""
        self.memos: list[str] = []
        self.bound: dict[int, str] = {}

    def text(self, node: Expression) -> str:
        """Python text that computes the value."""
        match node:
            case Column():
                return f"r{node.source}[{node.place}]"
            case Constant():
                return self.unit.constant(node.value)
            case Variable():
                return f"v{node.slot}"
            case Apply():
                return self._apply(node)
            case Bound():
                return self.bound.get(node.slot) or f"b{node.slot}"
            case Field():
                return f"(None if v{node.variable.slot} is None else v{node.variable.slot}[{node.place}])"
            case Logic():
                return self._logic(node)
            case Choose():
                text = self.text(node.otherwise)
                for condition, result in reversed(node.cases):
                    text = f"({self.text(result)} if {self.condition(condition)} else {text})"
                return text
            case Coalesce():
                text = self.text(node.arguments[-1])
                for argument in reversed(node.arguments[:-1]):
                    name = self.unit.fresh("t")
                    text = f"({name} if ({name} := {self.text(argument)}) is not None else {text})"
                return text
            case Bind():
                return f"((b{node.slot} := {self.text(node.value)}), {self.text(node.body)})[1]"
            case Exists():
                return self._remembered(node.query, exists=True)
            case Scalar():
                return self._scalar(node)
            case Member():
                return self._member(node)
            case Aggregated():
                return f"a{node.place}"
            case Clock():
                shown = node.shown
                return (
                    shown.template.format("S.now()") if shown.template else f"{self.unit.ref(shown.function)}(S.now())"
                )
            case NextId():
                return f"S.next_id({node.table})"
            case Fail():
                return f"{self.unit.ref(fail)}({node.kind!r}, {node.reason!r}, {node.place!r})"
            case _:
                assert_never(node)

    def condition(self, node: Expression) -> str:
        """Python text that is true, or truthy, exactly where the condition is."""
        if isinstance(node, Logic):
            operator = "or" if node.decides else "and"
            return f"({self.condition(node.left)} {operator} {self.condition(node.right)})"
        if isinstance(node, Apply) and node.primitive is primitives.EQUAL:
            left, right = node.arguments
            if left.nonnull or right.nonnull:
                # A null is not equal to what is no null: there is no need to ask for it.
                return f"{self.text(left)} == {self.text(right)}"
        return self.text(node)

    def conditions(self, nodes: Iterable[Expression]) -> str:
        return " and ".join(self.condition(node) for node in nodes)

    # Primitives

    def _apply(self, node: Apply) -> str:
        """The primitive's text, null where an operand is. All operands are computed: a null hides no error of a later one."""
        primitive, arguments = node.primitive, node.arguments
        if self.hoists and converts_parameter(node):
            name = self.unit.fresh("m")
            self.memos.append(f"{name} = {self._lifted(node)}")
            return name
        if all(isinstance(argument, Constant) for argument in arguments):
            # What fails, fails when it is its turn.
            with suppress(ExecutionError, OutsideFragment):
                return self.unit.constant(constant_value(node))
        if not primitive.strict:
            return self._called(node, [self.text(argument) for argument in arguments])
        return self._lifted(node)

    def _lifted(self, node: Apply) -> str:
        tests, called = self._tested(node)
        if not tests:
            return called
        # Joined by | and not by or: an error in a later operand is not hidden by a null before it.
        test = tests[0] if len(tests) == 1 else " | ".join(f"({test})" for test in tests)
        return f"(None if {test} else {called})"

    def _tested(self, node: Apply) -> tuple[list[str], str]:
        """Python texts of the tests for nulls, and of the primitive where none of them is true."""
        arguments = node.arguments
        certain = all(argument.nonnull for argument in arguments)
        texts: list[str] = []
        tests: list[str] = []
        inner = arguments[0]
        if (
            isinstance(inner, Apply)
            and inner.primitive.strict
            and not inner.primitive.nullable
            and not (self.hoists and converts_parameter(inner))
            and all(isinstance(argument, Constant) and argument.nonnull for argument in arguments[1:])
        ):
            # A conversion of what is computed is null exactly where that is: one test does for both.
            tests, text = self._tested(inner)
            return tests, self._called(node, [text, *map(self.text, arguments[1:])])
        for argument in arguments:
            text = self.text(argument)
            if argument.nonnull and (certain or isinstance(argument, (Column, Constant, Variable, Bound))):
                texts.append(text)
            elif text.isidentifier():
                texts.append(text)
                tests.append(f"{text} is None")
            else:
                name = self.unit.fresh("t")
                texts.append(name)
                tests.append(f"({name} := {text}) is None")
        return tests, self._called(node, texts)

    def _called(self, node: Apply, texts: list[str]) -> str:
        primitive = node.primitive
        if primitive.template:
            helper = self.unit.ref(primitive.helper) if primitive.helper is not None else ""
            return primitive.template.format(*texts, f=helper)
        return f"{self.unit.ref(primitive.function)}({', '.join(texts)})"

    def _logic(self, node: Logic) -> str:
        if node.nonnull:
            operator = "or" if node.decides else "and"
            return f"({self.text(node.left)} {operator} {self.text(node.right)})"
        name = self.unit.fresh("t")
        helper = self.unit.ref(combined)
        left, right = self.text(node.left), self.text(node.right)
        return (
            f"({node.decides} if ({name} := {left}) is {node.decides} else {helper}({node.decides}, {name}, {right}))"
        )

    # Queries inside

    def call(self, query: Query, exists: bool = False) -> str:
        name = self.query_function(self.unit, query, exists)
        return f"{name}({', '.join(['S', *arguments_of(query)])})"

    def _remembered(self, query: Query, exists: bool = False) -> str:
        """A query that depends on no row is run once a statement, and only if it is needed."""
        call = self.call(query, exists)
        if query.correlated or self.repeated:
            return call
        name = self.unit.fresh("m")
        self.memos.append(f"{name} = None")
        return f"({name} if {name} is not None else ({name} := {call}))"

    def _scalar(self, node: Scalar) -> str:
        pick = self.unit.ref(node.pick.function)
        if not node.ahead or self.repeated:
            return f"{pick}({self._remembered(node.query)})"
        name = self.unit.fresh("m")
        self.memos.append(f"{name} = {pick}({self.call(node.query)})")
        return name

    def _member(self, node: Member) -> str:
        item, rows = self.unit.fresh("t"), self.unit.fresh("t")
        self.bound[node.item] = f"{item}[0]"
        call = self._remembered(node.query)
        operand = self.text(node.operand)
        answer = f"{self.unit.ref(any_true)}([{self.text(node.equal)} for {item} in {rows}])"
        # The rows are named first: Python allows no := where a comprehension takes its items from.
        if isinstance(node.operand, (Constant, Column, Variable, Bound)):
            return f"(({rows} := {call}), {answer})[1]"
        bind = f"(b{node.slot} := {operand})"
        if node.lazy:
            return f"(({rows} := {call}), ({bind}, {answer})[1] if {rows} else False)[1]"
        return f"({bind}, ({rows} := {call}), {answer})[2]"


def arguments_of(query: Query) -> list[str]:
    """What the function of a query needs of those around it."""
    return [*(f"r{row}" for row in query.reads_rows), *(f"v{slot}" for slot in query.reads_variables)]


def fail(kind: str, reason: str, place: str) -> None:
    raise ExecutionError(kind, reason, place)
