"""Values that could not be computed, and may never be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.concrete.rules import outside

FAILURES = (ExecutionError, OutsideFragment)


@dataclass(frozen=True, slots=True)
class Failure:
    """In the place of a value: the error that it ended in."""

    error: ExecutionError | OutsideFragment


def read_cell(cell: Any) -> Any:
    if isinstance(cell, Failure):
        raise cell.error
    return cell


def left_open(error: ExecutionError) -> OutsideFragment:
    return outside(
        f"a column that the plan may leave out, and that cannot be computed ({error}),",
        "leave it out, or compute it outside",
    )
