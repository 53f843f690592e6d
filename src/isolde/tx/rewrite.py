"""Nodes made from other nodes: a function on leaves, applied everywhere below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

_Node = TypeVar("_Node")


def rewritten(node: _Node, change: Callable[[Any], Any]) -> _Node:
    """The node with every node in it replaced by what ``change`` makes of it, innermost first."""
    result: _Node = _rewritten(node, change)
    return result


def _rewritten(node: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(node, tuple):
        return tuple(_rewritten(part, change) for part in node)
    if not is_dataclass(node) or isinstance(node, type):
        return node
    parts = {field.name: getattr(node, field.name) for field in fields(node)}
    changed = {name: _rewritten(part, change) for name, part in parts.items()}
    if any(changed[name] is not part for name, part in parts.items()):
        node = replace(node, **changed)
    return change(node)
