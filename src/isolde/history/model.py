"""Sessions, transactions, operations and values, as frozen data.

This is the form that people write and read. Large histories live in columns (``isolde._core``) and are
turned into these nouns only where somebody looks at them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any

Key = int | str
Scalar = None | bool | int | str | Decimal
Value = Scalar | tuple[Scalar, ...]
TxnId = int | str
"""The name of a transaction, unique in its history."""


class Status(StrEnum):
    """What the client learned about a transaction's end."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Read:
    """A transaction observed ``value`` of ``key``; ``None`` is absent, a tuple is a list."""

    key: Key
    value: Value


@dataclass(frozen=True, slots=True)
class Write:
    """The whole value of ``key`` was replaced; ``None`` deletes it."""

    key: Key
    value: Scalar


@dataclass(frozen=True, slots=True)
class Append:
    """One element was added to the end of the list at ``key``."""

    key: Key
    element: Scalar


@dataclass(frozen=True, slots=True)
class CompareAndSet:
    """``key`` became ``new`` if it held ``expected`` (``None``: insert if absent).

    ``current`` is a 1-tuple of the value that a failed one was shown, or empty when it was shown none.
    """

    key: Key
    expected: Scalar
    new: Scalar
    applied: bool
    current: tuple[()] | tuple[Scalar] = ()


@dataclass(frozen=True, slots=True)
class Scan:
    """A predicate read: the JSON object of the line, with what was asked and the rows that came back."""

    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sql:
    """One SQL statement, or a call of a procedure: the JSON object of the line, with text or name, parameters, rows and count."""

    content: Mapping[str, Any]


Operation = Read | Write | Append | CompareAndSet | Scan | Sql


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction as its client saw it; ``start`` and ``end`` are on one clock for the whole history.

    ``level`` is the one that it ran at, as the database calls it.
    """

    id: TxnId
    session: Key
    ops: tuple[Operation, ...]
    status: Status = Status.COMMITTED
    start: int | None = None
    end: int | None = None
    serial: int | Decimal | None = None
    level: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VersionChain:
    """Values of ``key`` in the order in which the database installed them; some may be missing."""

    key: Key
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class History:
    """Transactions in file order; those of one session are in session order."""

    transactions: tuple[Transaction, ...]
    initial: Mapping[Key, Value] = field(default_factory=dict)
    meta: Any = None
    versions: tuple[VersionChain, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


def token(value: Value) -> Hashable:
    """Something that is equal exactly for equal values: Python alone says that ``True == 1``.

    >>> token(True) == token(1), token(1) == token(Decimal("1.0"))
    (False, True)
    """
    if isinstance(value, tuple):
        return tuple(token(element) for element in value)
    return (isinstance(value, bool), value)


def observed(op: Operation) -> tuple[Key, Value] | None:
    """What a register operation read: the key and the value; ``None`` if it read nothing that it tells."""
    match op:
        case Read(key, value) | CompareAndSet(key, value, _, True, _):
            return key, value
        case CompareAndSet(key, _, _, False, (current,)):
            return key, current
        case _:
            return None


def written(op: Operation) -> tuple[Key, Scalar] | None:
    """What a register operation wrote: the key and the value; ``None`` if it wrote nothing."""
    match op:
        case Write(key, value) | CompareAndSet(key, _, value, True, _):
            return key, value
        case _:
            return None


def txn_name(name: TxnId) -> str:
    """How a transaction is called in sentences: T7 for the integer 7."""
    return f"T{name}" if isinstance(name, int) else name
