"""Expressions of the core on values: the small interpreter. Readings with other kinds of values extend it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

from isolde.errors import ExecutionError
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
)


@dataclass(slots=True)
class Environment:
    """What the nodes of an expression stand for: rows of sources, variables, bound values, aggregates of the group."""

    rows: dict[int, Sequence[Any]] = field(default_factory=dict)
    variables: dict[int, Any] = field(default_factory=dict)
    bound: dict[int, Any] = field(default_factory=dict)
    aggregates: Sequence[Any] = ()

    def copy(self) -> Environment:
        return Environment(dict(self.rows), dict(self.variables), dict(self.bound), self.aggregates)


class Evaluator:
    """Evaluates expressions that ask nothing of tables; what does is for those that extend it."""

    def value(self, node: Expression, env: Environment) -> Any:
        match node:
            case Constant():
                return node.value
            case Column():
                return env.rows[node.source][node.place]
            case Variable():
                return env.variables[node.slot]
            case Field():
                row = env.variables[node.variable.slot]
                return None if row is None else row[node.place]
            case Apply():
                return self.applied(node, env)
            case Logic():
                left = self.value(node.left, env)
                return left if left is node.decides else combined(node.decides, left, self.value(node.right, env))
            case Choose():
                for condition, result in node.cases:
                    if self.value(condition, env) is True:
                        return self.value(result, env)
                return self.value(node.otherwise, env)
            case Coalesce():
                for argument in node.arguments:
                    found = self.value(argument, env)
                    if found is not None:
                        return found
                return None
            case Bind():
                env.bound[node.slot] = self.value(node.value, env)
                return self.value(node.body, env)
            case Bound():
                return env.bound[node.slot]
            case Aggregated():
                return env.aggregates[node.place]
            case Fail():
                raise ExecutionError(node.kind, node.reason, node.place)
            case Exists() | Member() | Scalar() | Clock() | NextId():
                return self.asked(node, env)
            case _:
                assert_never(node)

    def applied(self, node: Apply, env: Environment) -> Any:
        values = [self.value(argument, env) for argument in node.arguments]
        if node.primitive.strict and None in values:
            return None
        return node.primitive.function(*values)

    def asked(self, node: Exists | Member | Scalar | Clock | NextId, env: Environment) -> Any:  # noqa: ARG002
        raise AssertionError(f"{type(node).__name__} asks for tables or a clock, and an expression alone has none")


def combined(decides: bool, left: bool | None, right: bool | None) -> bool | None:
    """AND or OR where the left side does not decide."""
    if right is decides:
        return decides
    return None if left is None or right is None else not decides


def constant_value(node: Expression) -> Any:
    """The value of an expression that is made of constants alone; errors as they come."""
    return Evaluator().value(node, Environment())
