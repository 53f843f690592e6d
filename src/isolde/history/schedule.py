"""One given interleaving of statements, and what a database did with it: plain data for real databases and store models alike.

A *schedule* says in which order the statements of several sessions are sent. While a step of a session waits for a lock, the
session's later steps queue behind it, and the other sessions go on. *Played*, each step has what it returned and when.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any

from isolde.history.model import Scalar

Row = tuple[Scalar, ...]


class Failure(StrEnum):
    """Why a statement failed, in the words of the history format."""

    SERIALIZATION_FAILURE = "serialization-failure"
    DEADLOCK = "deadlock"
    LOCK_TIMEOUT = "lock-timeout"
    """A lock was not to be had in time, or at once where the statement says NOWAIT."""
    UNIQUE = "unique"
    FOREIGN_KEY = "foreign-key"
    CHECK = "check"
    NOT_NULL = "not-null"
    ARITHMETIC = "arithmetic"
    TRANSACTION_FAILED = "transaction-failed"
    """An earlier statement of the transaction failed, and only its end is accepted now (PostgreSQL)."""
    OTHER = "other"


class Ended(StrEnum):
    """How a transaction ended."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled-back"


@dataclass(frozen=True, slots=True)
class ScheduleStep:
    """What a session sends: one SQL statement or several, as one text. ``name`` is empty where the schedule gives none."""

    session: str
    sql: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Schedule:
    """An interleaving: ``schema`` are statements that run before it, one after another, and ``rows`` are then inserted.

    ``sessions`` has every session in the order of its columns, with the level of its transactions as the database calls it;
    ``None`` is the database's default. ``before`` and ``after`` are statements that a session sends before the first step and
    after the last one; they are no steps (in a ``.spec`` file: the session's setup and teardown).
    """

    schema: tuple[str, ...]
    rows: Mapping[str, tuple[Row, ...]]
    sessions: Mapping[str, str | None]
    steps: tuple[ScheduleStep, ...]
    name: str = ""
    before: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    after: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlayedStep:
    """A step and what came of it.

    ``rows`` are the rows that it returned, of several statements all in order, and ``None`` if it returned none; ``count`` is how
    many rows its changes affected, ``None`` if it changed nothing. ``returned_after`` is the number (from 0) of the last step
    that had been sent when it returned: its own number if it returned at once, ``None`` if it never did. ``ended`` says how the
    transaction ended, of a step that ended one: a COMMIT of a failed transaction has no error and is ``rolled-back``.
    ``waited_for`` are the sessions for which it waited while other steps were sent, as far as the database tells.
    """

    session: str
    name: str
    sql: str
    rows: tuple[Row, ...] | None
    count: int | None
    error: Failure | None
    sqlstate: str | None
    returned_after: int | None
    ended: Ended | None = None
    waited_for: tuple[str, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True)
class Played:
    """The steps in the order in which they were sent, and the rows of every table at the end, sorted by their columns."""

    steps: tuple[PlayedStep, ...]
    rows: Mapping[str, tuple[Row, ...]]


def sorted_rows(rows: tuple[Row, ...] | list[Row]) -> tuple[Row, ...]:
    """The rows in an order that depends on their values alone; nulls are last, as PostgreSQL has them.

    >>> sorted_rows([(2, None), (1, "b"), (2, "a")])
    ((1, 'b'), (2, 'a'), (2, None))
    """
    return tuple(sorted(rows, key=lambda row: tuple(map(_rank, row))))


def _rank(value: Scalar) -> tuple[int, Scalar]:
    if value is None:
        return 3, 0
    if isinstance(value, bool):
        return 0, value
    return (2, value) if isinstance(value, str) else (1, value)


def values_of(rows: Iterable[Sequence[Any]]) -> tuple[Row, ...]:
    """Rows of a driver, or of a store model, as a history can hold them."""
    return tuple(tuple(map(_scalar, row)) for row in rows)


def _scalar(value: object) -> Scalar:
    """Times and bytes as text, a float as its shortest decimal.

    >>> _scalar(0.1), _scalar(b"ab"), _scalar(float("nan"))
    (Decimal('0.1'), '\\\\x6162', 'nan')
    """
    match value:
        case None | bool() | int() | str():
            return value
        case Decimal():
            return value if value.is_finite() else str(value)
        case float():
            number = Decimal(repr(value))
            return number if number.is_finite() else str(value)
        case bytes() | bytearray() | memoryview():
            return "\\x" + bytes(value).hex()
        case _:
            return str(value)
