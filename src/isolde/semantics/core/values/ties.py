"""Equal values that are not the same, as 1 and 1.0: which of them is shown depends on the order in which rows are found."""

from __future__ import annotations

from typing import Any

from isolde.errors import OutsideFragment
from isolde.semantics.core.types import outside


def is_first(seen: dict[Any, str], key: Any, row: Any) -> bool:
    """Whether the key is new; if it is not, what is shown for it must be the same."""
    shown = repr(row)
    if key not in seen:
        seen[key] = shown
        return True
    if seen[key] != shown:
        raise _equal("rows of DISTINCT or GROUP BY")
    return False


def extreme(values: list[Any], chosen: Any) -> Any:
    """What MIN or MAX has chosen, if nothing else is equal to it."""
    if any(value == chosen and repr(value) != repr(chosen) for value in values):
        raise _equal("values of MIN or MAX")
    return chosen


def _equal(what: str) -> OutsideFragment:
    return outside(
        f"{what} that are equal and not the same, as 1 and 1.0,", "cast them: the order of rows says which is shown"
    )
