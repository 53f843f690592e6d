"""Walking through nodes of the language."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from isolde.tx.expressions import Aggregate, Name
from isolde.tx.queries import Select


def parts(node: Any) -> Iterator[Any]:
    """All nodes below, the node included."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, tuple):
            waiting.extend(reversed(node))
            continue
        yield node
        for name in _fields(node.__class__):
            value = getattr(node, name)
            if _is_node(value.__class__):
                waiting.append(value)


def shallow(node: Any) -> Iterator[Any]:
    """The same, but nothing of queries inside."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, tuple):
            waiting.extend(reversed(node))
            continue
        yield node
        if not isinstance(node, Select):
            for name in _fields(node.__class__):
                value = getattr(node, name)
                if _is_node(value.__class__):
                    waiting.append(value)


@cache
def _is_node(kind: type) -> bool:
    return kind is tuple or is_dataclass(kind)


@cache
def _fields(kind: type) -> tuple[str, ...]:
    """The fields that may hold nodes, the last one first."""
    return tuple(part.name for part in reversed(fields(kind)) if part.name != "place") if is_dataclass(kind) else ()


def has_aggregate(node: Any) -> bool:
    """An aggregate of this query, not of one inside."""
    return node.__class__ is not Name and any(isinstance(part, Aggregate) for part in shallow(node))
