"""The workloads on registers and lists, one row each: what they send, what they are good for, what they need."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from isolde._core.plans import Plans
from isolde.databases import Feature, Kind
from isolde.databases.shapes import PLAIN, Shape
from isolde.errors import UsageError

DISTRIBUTIONS = ("uniform", "zipfian", "hotspot", "exponential")


@dataclass(frozen=True, slots=True)
class Workload:
    """A kind of transactions. ``needs`` is what the database must be able to do for it."""

    name: str
    kind: Kind
    operations: int
    meaning: str
    source: str
    needs: tuple[Feature, ...] = (Feature.TRANSACTIONS,)


WORKLOADS = (
    Workload(
        "mini",
        Kind.REGISTERS,
        4,
        "mini-transactions: one or two reads, at most two writes, each after a read of its key; checked in linear time",
        "Boosting End-to-End Database Isolation Checking via Mini-Transactions, definition 8",
    ),
    Workload(
        "general",
        Kind.REGISTERS,
        8,
        "20 % read-only, 40 % write-only, 40 % read-modify-write; blind writes, so that checking may need a search",
        "Cobra (OSDI 2020), section 6",
    ),
    Workload(
        "registers",
        Kind.REGISTERS,
        1,
        "one read or one blind write of one key: for linearizability",
        "Jepsen's register test",
        needs=(),
    ),
    Workload("append", Kind.LISTS, 4, "appends to lists, and reads of them, which tell the order", "Elle (VLDB 2021)"),
    Workload(
        "cas",
        Kind.REGISTERS,
        1,
        "single reads, writes and compare-and-sets of one key: for linearizability",
        "Jepsen's compare-and-set register",
        needs=(Feature.COMPARE_AND_SET,),
    ),
    Workload(
        "rmw",
        Kind.REGISTERS,
        8,
        "operations of 25 % reads, 25 % blind writes, 50 % read-modify-writes",
        "Bringing Order to Practical Validation of Database Isolation Levels, section 8.4",
    ),
    Workload(
        "read-write",
        Kind.REGISTERS,
        8,
        "reads and blind writes, half and half unless --blind-writes says otherwise",
        "the same",
    ),
    Workload("heavy-write", Kind.REGISTERS, 8, "10 % reads, 80 % blind writes, 10 % read-modify-writes", "the same"),
)


def workload_named(name: str) -> Workload:
    """The row of this name."""
    for workload in WORKLOADS:
        if workload.name == name:
            return workload
    close = difflib.get_close_matches(name, [workload.name for workload in WORKLOADS], 1)
    hint = f"; did you mean '{close[0]}'?" if close else ""
    raise UsageError(f"no workload '{name}'{hint} ('isolde workloads' lists them)")


@dataclass(frozen=True, slots=True)
class Skew:
    """How strong a distribution's preference is; ``None`` is the usual strength.

    ``exponent`` is zipfian's, ``hot_keys`` and ``hot_accesses`` are hotspot's shares of the keys and of the accesses to them.
    """

    exponent: float | None = None
    hot_keys: float | None = None
    hot_accesses: float | None = None

    def __str__(self) -> str:
        parts = []
        if self.exponent is not None:
            parts.append(f"exponent {self.exponent:g}")
        if self.hot_keys is not None:
            parts.append(f"{self.hot_keys:.3g} of the keys are hot")
        if self.hot_accesses is not None:
            parts.append(f"hot keys get {self.hot_accesses:.3g} of the accesses")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Settings:
    """A workload with its sizes. ``deletes`` is the share of writes that remove the key instead, ``shapes`` the tables."""

    workload: Workload
    keys: int = 100
    operations: int | None = None
    distribution: str = "uniform"
    blind_writes: float | None = None
    deletes: float = 0.0
    seed: int = 0
    shapes: tuple[Shape, ...] = (PLAIN,)
    skew: Skew = Skew()

    @property
    def preference(self) -> str:
        """The distribution and how strong it is, in words."""
        return f"{self.distribution} ({self.skew})" if str(self.skew) else self.distribution

    def plans(self, session: int) -> Plans:
        """What one session means to do; ``UsageError`` if the settings contradict each other."""
        return Plans(
            workload=self.workload.name,
            session=session,
            keys=self.keys,
            operations=self.operations or self.workload.operations,
            distribution=self.distribution,
            blind_writes=self.blind_writes,
            deletes=self.deletes,
            seed=self.seed,
            exponent=self.skew.exponent,
            hot_keys=self.skew.hot_keys,
            hot_accesses=self.skew.hot_accesses,
        )
