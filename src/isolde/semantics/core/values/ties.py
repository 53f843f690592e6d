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


def extreme(choose: Callable[..., Any], key: Callable[[Any], Any] | None = None) -> Callable[[list[Any]], Any]:
    """MIN or MAX, as Python's ``min`` or ``max`` chooses by the key, where nothing else is equal to what is chosen."""

    def chosen(values: list[Any]) -> Any:
        if not values:
            return None
        found = choose(values, key=key)
        same = found if key is None else key(found)
        for value in values:
            if (value if key is None else key(value)) == same and repr(value) != repr(found):
                raise _equal("MIN or MAX", value, found)
        return found

    return chosen


def _equal(what: str, one: Any, other: Any) -> OutsideFragment:
    return outside(
        f"{what} of {one!r} and {other!r}, which are equal and not the same,",
        "cast them, or spell them alike: the order of rows says which is shown",
    )
