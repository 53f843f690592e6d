"""The source of a function, and what can be told from it without compiling it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from isolde.errors import OutsideFragment, UsageError


@dataclass(frozen=True, slots=True)
class Source:
    """A definition; its lines are counted from ``offset``."""

    definition: ast.FunctionDef
    file: str
    offset: int


def source_of(function: Callable[..., Any]) -> Source:
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        raise UsageError(f"the source of {function.__name__} cannot be found; define it in a file") from None
    file = inspect.getsourcefile(function) or function.__name__
    if hasattr(function, "__wrapped__"):
        raise OutsideFragment(
            f"{file}:{first}", "a decorator below @transaction", "put @transaction right above the function"
        )
    # Lines that are indented stay so, inside of a block: to cut them would also cut the texts that go over several lines.
    indented = lines[0][:1].isspace()
    try:
        tree: Any = ast.parse("".join(["if True:\n", *lines] if indented else lines))
        definition = tree.body[0].body[0] if indented else tree.body[0]
    except SyntaxError:
        # The lines of a lambda need not be a statement.
        definition = None
    if not isinstance(definition, ast.FunctionDef):
        raise OutsideFragment(f"{file}:{first}", "this function", "define it with def, not as a lambda and not async")
    return Source(definition, file, first - 1 - indented)


def returned(function: Callable[..., Any]) -> set[int]:
    """How many values a transaction returns, at one place or another; none where it only ends."""
    definition = source_of(function).definition
    counts = {
        len(node.value.elts) if isinstance(node.value, ast.Tuple) else int(node.value is not None)
        for node in ast.walk(definition)
        if isinstance(node, ast.Return)
    }
    return counts | {0} if _goes_on(definition.body) else counts


def _goes_on(statements: list[ast.stmt]) -> bool:
    """Whether what comes after these statements can be reached, as far as their last one tells."""
    match statements[-1]:
        case ast.Return() | ast.Raise() | ast.Expr(ast.Call(ast.Attribute(_, "abort"))):
            return False
        case ast.If(_, body, [*orelse]) if orelse:
            return _goes_on(body) or _goes_on(orelse)
    return True
