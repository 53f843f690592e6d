"""Parameters that are lists: the function's own text tells which they are, and what their elements are.

A list holds values (``for x in items``) or tuples of values (``for item, quantity in items``). It is told by a loop over it, by
its length, by its annotation, or by a call that gives it to another transaction as a list.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from isolde.tx.python.functions import TransactionFunction
from isolde.tx.python.names import assigned_in, outer
from isolde.tx.python.source import source_of

_LISTS = {"list", "List", "Sequence", "Iterable", "Collection"}
_TUPLES = {"tuple", "Tuple"}


def list_uses(
    function: Callable[..., Any], definition: ast.FunctionDef, inside: frozenset[Callable[..., Any]] = frozenset()
) -> Iterator[tuple[ast.AST, str, int | None]]:
    """Each place that tells a parameter to be a list: the node, its name, and how many values an element has there.

    A plain value counts as one; ``None`` where the place does not tell. ``inside``: the functions whose calls led here.
    """
    parameters = {argument.arg for argument in definition.args.args[1:]}
    for argument in definition.args.args[1:]:
        if (annotated := _annotated(argument.annotation)) is not _NO_LIST:
            yield argument, argument.arg, annotated
    own = parameters | assigned_in(definition.body)
    for node in ast.walk(definition):
        match node:
            case ast.For(target, ast.Name(name) as iterated) if name in parameters:
                yield iterated, name, len(target.elts) if isinstance(target, ast.Tuple) else 1
            case ast.Call(ast.Name("len"), [ast.Name(name) as counted], []) if name in parameters:
                yield counted, name, None
            case ast.Call(ast.Name(called), [_, *arguments], []) if called not in own:
                taken = lists_of(outer(function, called), inside | {function})
                for place, given in enumerate(arguments):
                    if isinstance(given, ast.Name) and given.id in parameters and place in taken:
                        yield given, given.id, taken[place]


def lists_of(called: Any, inside: frozenset[Callable[..., Any]] = frozenset()) -> dict[int, int | None]:
    """The lists among the parameters of a transaction by their places, and how many values an element of each has."""
    if not isinstance(called, TransactionFunction) or called.function in inside:
        return {}
    definition = source_of(called.function).definition
    widths: dict[str, int | None] = {}
    for _, name, width in list_uses(called.function, definition, inside):
        widths[name] = widths.get(name) or width
    names = [argument.arg for argument in definition.args.args[1:]]
    return {place: widths[name] for place, name in enumerate(names) if name in widths}


_NO_LIST = -1


def _annotated(annotation: ast.expr | None) -> int | None:
    """How many values an element of the annotated list has; ``_NO_LIST`` if it is annotated as something else."""
    match annotation:
        case ast.Constant(str() as text):
            try:
                return _annotated(ast.parse(text, mode="eval").body)
            except SyntaxError:
                return _NO_LIST
        case ast.Name(name) | ast.Attribute(_, name) if name in _LISTS:
            return None
        case ast.Subscript(ast.Name(name) | ast.Attribute(_, name), element) if name in _LISTS:
            return _width(element)
    return _NO_LIST


def _width(element: ast.expr) -> int | None:
    match element:
        case ast.Subscript(ast.Name(name) | ast.Attribute(_, name), parts) if name in _TUPLES:
            fixed = isinstance(parts, ast.Tuple) and not any(isinstance(part, ast.Constant) for part in parts.elts)
            return len(parts.elts) if fixed and isinstance(parts, ast.Tuple) else None
        case ast.Name(name) | ast.Attribute(_, name) if name in _TUPLES | {"Any", "object"}:
            return None
    return 1
