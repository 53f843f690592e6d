"""Equal values that are not the same, as 1 and 1.0, or 'a' and 'A' in MySQL: the order of rows says which of them is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from isolde.errors import OutsideFragment
from isolde.semantics.core.types import outside


def is_first(seen: dict[Any, Any], key: Any, shown: Any) -> bool:
    """Whether the key is new; if it is not, what is shown for it must be the same."""
    if key not in seen:
        seen[key] = shown
        return True
    if repr(seen[key]) != repr(shown):
        raise _equal("DISTINCT or GROUP BY", seen[key], shown)
    return False


def extreme(values: list[Any], chosen: Any, key: Callable[[Any], Any] = lambda value: value) -> Any:
    """What MIN or MAX has chosen by the key, if nothing else is equal to it."""
    for value in values:
        if key(value) == key(chosen) and repr(value) != repr(chosen):
            raise _equal("MIN or MAX", value, chosen)
    return chosen


def _equal(what: str, one: Any, other: Any) -> OutsideFragment:
    return outside(
        f"{what} of {one!r} and {other!r}, which are equal and not the same,",
        "cast them, or spell them alike: the order of rows says which is shown",
    )
