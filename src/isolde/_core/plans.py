"""What the clients of a real database mean to do, transaction by transaction."""

from __future__ import annotations

from enum import IntEnum

from isolde._core import _native
from isolde.errors import UsageError


class Intent(IntEnum):
    """What a client means to do to a key; what it writes is its own business."""

    READ = 0
    WRITE = 1
    APPEND = 2
    DELETE = 3
    COMPARE_AND_SET = 4


Plan = list[tuple[int, int]]
"""Intents (as plain integers, for speed) and keys, in order."""


class Plans:
    """One session's transactions, without end; the same arguments give the same ones."""

    __slots__ = ("_native",)

    def __init__(
        self,
        *,
        workload: str,
        session: int,
        keys: int,
        operations: int,
        distribution: str,
        blind_writes: float | None,
        deletes: float,
        seed: int,
        exponent: float | None = None,
        hot_keys: float | None = None,
        hot_accesses: float | None = None,
    ) -> None:
        try:
            self._native = _native.Plans(
                workload=workload,
                session=session,
                keys=keys,
                operations=operations,
                distribution=distribution,
                blind_writes=blind_writes,
                deletes=deletes,
                seed=seed,
                exponent=exponent,
                hot_keys=hot_keys,
                hot_accesses=hot_accesses,
            )
        except (ValueError, OverflowError) as error:
            raise UsageError(str(error)) from None

    def next(self) -> Plan:
        """The next transaction."""
        return self._native.next()
