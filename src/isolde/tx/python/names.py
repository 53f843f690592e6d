"""The names of a function: what each holds, which have a value at a point, which rows are there.

A name holds one kind of thing in the whole function. Which have a value, and which rows are known not to be missing, is followed
along the statements, because Python would raise an error where a database goes on with null.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Holds(StrEnum):
    VALUE = "a value"
    ROW = "a row"
    ROWS = "rows"
    LIST = "a list"


@dataclass(frozen=True, slots=True)
class Known:
    """What is known at a point that can be reached: names with a value, and rows that are there."""

    assigned: frozenset[str]
    present: frozenset[str]

    def having(self, *names: str) -> Known:
        """After an assignment: the names have values, and whether these are rows that are there is not known."""
        return Known(self.assigned | set(names), self.present - set(names))

    def seeing(self, rows: frozenset[str]) -> Known:
        return Known(self.assigned, self.present | rows)

    def forgetting(self, names: frozenset[str]) -> Known:
        return Known(self.assigned, self.present - names)


def joined(ways: list[Known | None]) -> Known | None:
    """What is known where several ways meet; ``None`` is a way that does not get there."""
    reaching = [way for way in ways if way is not None]
    if not reaching:
        return None
    assigned, present = reaching[0].assigned, reaching[0].present
    for way in reaching[1:]:
        assigned, present = assigned & way.assigned, present & way.present
    return Known(assigned, present)


def seen(test: ast.expr, rows: set[str]) -> tuple[frozenset[str], frozenset[str]]:
    """The rows that are there if the condition is true, and if it is false."""
    nothing: frozenset[str] = frozenset()
    match test:
        case ast.Name(name) if name in rows:
            return frozenset({name}), nothing
        case ast.Compare(ast.Name(name), [operator], [ast.Constant(None)]) if name in rows:
            here = frozenset({name})
            return (here, nothing) if isinstance(operator, ast.IsNot | ast.NotEq) else (nothing, here)
        case ast.UnaryOp(ast.Not(), operand):
            true, false = seen(operand, rows)
            return false, true
        case ast.BoolOp(operator, operands):
            true = frozenset().union(*(seen(operand, rows)[0] for operand in operands))
            false = frozenset().union(*(seen(operand, rows)[1] for operand in operands))
            return (true, nothing) if isinstance(operator, ast.And) else (nothing, false)
    return nothing, nothing


def assigned_in(statements: list[ast.stmt]) -> frozenset[str]:
    """All names that these statements assign to."""
    stored = (node for statement in statements for node in ast.walk(statement))
    return frozenset(node.id for node in stored if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))


def kinds(definition: ast.FunctionDef, handle: str, lists: Collection[str]) -> Iterator[tuple[ast.expr, str, Holds]]:
    """Each assignment to a name: the target, the name, and what it gets. ``None`` fits every kind, and is left out.

    ``lists``: the parameters that are lists, whose elements are values.
    """
    for node in ast.walk(definition):
        match node:
            case ast.Assign([ast.Name(name) as target], value) | ast.AnnAssign(ast.Name(name) as target, _, value):
                if value is not None and not (isinstance(value, ast.Constant) and value.value is None):
                    yield target, name, _kind(value, handle)
            case ast.AugAssign(ast.Name(name) as target):
                yield target, name, Holds.VALUE
            case ast.For(ast.Name(name) as target, iterated):
                listed = isinstance(iterated, ast.Name) and iterated.id in lists
                yield target, name, Holds.VALUE if listed or _is_range(iterated) else Holds.ROW
            case ast.Assign([ast.Tuple(elements)]) | ast.For(ast.Tuple(elements)):
                yield from ((one, one.id, Holds.VALUE) for one in elements if isinstance(one, ast.Name))


def _kind(value: ast.expr, handle: str) -> Holds:
    match value:
        case ast.Call(ast.Attribute(ast.Name(name), "one")) if name == handle:
            return Holds.ROW
        case ast.Call(ast.Attribute(ast.Name(name), "all")) if name == handle:
            return Holds.ROWS
    return Holds.VALUE


def _is_range(iterated: ast.expr) -> bool:
    return isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Name) and iterated.func.id == "range"


def outer(function: Callable[..., Any], name: str) -> Any:
    """What a name that the function does not assign to means to it; ``None`` if nothing."""
    around = inspect.getclosurevars(function)
    return around.nonlocals.get(name, around.globals.get(name, vars(builtins).get(name)))


def is_builtin(function: Callable[..., Any], name: str) -> bool:
    return outer(function, name) is vars(builtins).get(name)
