"""A part of a history, as lines of JSON: some of its transactions, without the reads whose writers are not among them.

Whatever explains a history explains such a part, so that what no order explains of it, no order explains of the whole. It must be
sure who wrote what is read: keys of which two writes may have the same value are to be left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from isolde.history.json_text import json_text


def writes(line: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """The keys and values; that a key was removed is not asked for, since reads of nothing are left out."""
    for op in line.get("ops", ()):
        match op:
            case ["w" | "a", key, value] | ["cas", key, _, value, True, *_] if value is not None:
                yield key, value
            case _:
                pass


def kept(line: dict[str, Any], written: set[str], doubtful: set[str]) -> list[Any]:
    """Its operations, without reads of what nobody in the part wrote, and of nothing: who deleted may be still to come."""
    ops: list[Any] = []
    for op in line.get("ops", ()):
        if doubtful and json_text(op[1]) in doubtful:
            continue
        match op:
            case ["r", key, list(elements)]:
                # Without the transactions that appended them, these elements would not be there.
                seen = [one for one in elements if spelled(key, one) in written]
                if seen:
                    ops.append(["r", key, seen])
            case ["r", key, value]:
                if value is not None and spelled(key, value) in written:
                    ops.append(op)
            case ["cas", key, expected, new, applied, *_]:
                if applied and expected is not None and spelled(key, expected) in written:
                    ops.append(op)
                elif applied:
                    ops.append(["w", key, new])
            case _:
                ops.append(op)
    return ops


def keys(name: Any) -> tuple[Any, ...]:
    """An object of JSON has texts as keys: "1" may be the number, which only the operations tell."""
    return (name, int(name)) if isinstance(name, str) and re.fullmatch(r"0|-?[1-9]\d*", name) else (name,)


def elements(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def spelled(key: Any, value: Any) -> str:
    return json_text([key, value])
