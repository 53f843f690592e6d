"""What running something gave: a statement's rows, a procedure's end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from isolde.tx.expressions import Constant


@dataclass(frozen=True, slots=True)
class Result:
    """Rows of a statement, and how many it found or changed, as the database tells its client."""

    columns: tuple[str, ...]
    rows: list[tuple[Constant, ...]]
    count: int


class Ending(StrEnum):
    RETURNED = "returned"
    ABORTED = "aborted"
    """The program wanted it so."""
    ASSERTION_FAILED = "assertion-failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a procedure ended. Only one that returned has an effect; ``reason`` is that of an abort or an assertion."""

    ending: Ending
    values: tuple[Constant, ...] = ()
    reason: str | None = None


class AbortSignal(Exception):
    """Raised in generated code where a program aborts; never seen outside."""

    def __init__(self, reason: Constant = None) -> None:
        self.reason = None if reason is None else str(reason)


class AssertionSignal(Exception):
    """Raised in generated code where an assertion fails; never seen outside."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
