"""Keys and values as numbers: equal numbers are the same thing to every transaction that reads it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields, is_dataclass
from datetime import datetime, time
from decimal import Decimal
from typing import Any


def identity(value: Any) -> Hashable:
    """Equal for values that no program can tell apart. Python alone says that ``1 == True == 1.0``.

    >>> from collections import namedtuple
    >>> point = namedtuple("point", "x")
    >>> len({identity(value) for value in (1, True, 1.0, "1", (1,), (True,), point(1), point(True))})
    8
    """
    kind = type(value)
    if isinstance(value, tuple):
        return kind, tuple(map(identity, value))
    if isinstance(value, frozenset):
        return kind, frozenset(map(identity, value))
    if is_dataclass(value) and not isinstance(value, type):
        # Equal ones may hold fields that are not, as 1 and True, or that are left out of a comparison.
        return kind, value, tuple(_field(value, entry.name) for entry in fields(value))
    # ``0.0 == -0.0`` and ``nan != nan``; equal decimals may have different digits, equal times different zones.
    return (kind, str(value)) if isinstance(value, float | complex | Decimal | datetime | time) else (kind, value)


def _field(value: Any, name: str) -> Hashable:
    held = getattr(value, name, None)
    try:
        hash(held)
    except TypeError:
        return type(held), repr(held)
    return identity(held)


def likeness(value: Any) -> str:
    """A text that is the same in every process for the same value; of objects without one of their own, the type."""
    if isinstance(value, tuple):
        return f"({', '.join(map(likeness, value))})"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(likeness, value)))}}}"
    try:
        text = repr(value)
    except Exception:
        return type(value).__qualname__
    return type(value).__qualname__ if " at 0x" in text else f"{type(value).__qualname__} {text}"


class Numbers:
    """Things in the order in which they were first met. ``told_apart``: by ``identity``, not by Python's ``==``."""

    def __init__(self, *, told_apart: bool) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._things: list[Any] = []
        self._told_apart = told_apart

    def number(self, thing: Any) -> int:
        """Its number; it gets the next one if it is new."""
        mark = identity(thing) if self._told_apart else thing
        number = self._numbers.get(mark)
        if number is None:
            number = self._numbers[mark] = len(self._things)
            self._things.append(thing)
        return number

    def __getitem__(self, number: int) -> Any:
        return self._things[number]

    def __len__(self) -> int:
        return len(self._things)
