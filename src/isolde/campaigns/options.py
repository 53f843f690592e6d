"""What a run is asked for, and who looks on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from isolde.databases.shapes import PLAIN, Shape
from isolde.engines.record import Fault, Job, Progress
from isolde.errors import UsageError
from isolde.findings import Report
from isolde.levels import Level
from isolde.workloads import Skew, sql

RUNS = "isolde-runs"
TRANSACTIONS = 2_000
SESSIONS = 10
KEYS = 50
BUDGET = 1_000_000
_TRANSACTIONS_MAX = 1_000_000


def sessions_of(workload: str) -> int:
    """How many sessions a run of a workload has unless somebody says so."""
    return sql.SESSIONS if workload == sql.NAME else SESSIONS


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is run: sessions at once, and how many transactions, or for how long, or both.

    ``concurrent`` is the share of the sessions that may have a transaction in flight at one time, at least one; the others wait.
    ``timeout_s`` bounds one transaction. With ``until_violation`` it is checked while running, and a violation ends it.
    """

    sessions: int = SESSIONS
    transactions: int | None = None
    seconds: float | None = None
    until_violation: bool = False
    timeout_s: float = 10.0
    concurrent: float | None = None

    @property
    def at_once(self) -> int | None:
        """How many sessions may have a transaction in flight at one time; ``None``: all."""
        if self.concurrent is None:
            return None
        if not 0 < self.concurrent <= 1:
            raise UsageError(
                f"the share of concurrent sessions is {self.concurrent:g}; it must be above 0 and at most 1"
            )
        return max(1, round(self.concurrent * self.sessions))

    def of(self, job: Job) -> Job:
        """The job within these bounds."""
        return replace(
            job, transactions=self.planned, seconds=self.seconds, timeout_s=self.timeout_s, at_once=self.at_once
        )

    @property
    def planned(self) -> int | None:
        """How many transactions are to come to their end; ``None`` if only the time bounds them."""
        if self.transactions is not None or self.seconds is not None:
            return self.transactions
        return _TRANSACTIONS_MAX if self.until_violation else TRANSACTIONS


@dataclass(frozen=True, slots=True)
class KeyOptions:
    """How a key-value workload is made; ``None`` is the workload's own. No ``shapes`` are all that the database has."""

    keys: int | None = None
    operations: int | None = None
    distribution: str = "uniform"
    blind_writes: float | None = None
    deletes: float = 0.0
    shapes: tuple[Shape, ...] = (PLAIN,)
    exponent: float | None = None
    hot_keys: float | None = None
    hot_accesses: float | None = None

    @property
    def skew(self) -> Skew:
        """How strong the distribution's preference is."""
        return Skew(self.exponent, self.hot_keys, self.hot_accesses)


@dataclass(frozen=True, slots=True)
class ApplicationOptions:
    """How an application is run, each as ``NAME=VALUE``: sizes, weights and levels of its transactions."""

    sizes: tuple[str, ...] = ()
    mix: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Everything that a run is asked for beside its database. ``levels`` are those to decide; none: what the database claims.

    ``output`` is the directory to record in; ``None`` is a new one. ``keep`` leaves the tables in the database.
    ``certify`` asks the database for its own order, and judges by that; ``predicates_by`` says who evaluates conditions then.
    """

    workload: str = "mini"
    levels: tuple[Level, ...] = ()
    bounds: Bounds = Bounds()
    of_keys: KeyOptions = KeyOptions()
    of_application: ApplicationOptions = ApplicationOptions()
    seed: int = 0
    faults: tuple[Fault, ...] = ()
    output: Path | None = None
    keep: bool = False
    certify: bool = False
    predicates_by: Literal["core", "database"] = "core"
    budget: int = BUDGET
    """Steps that a search may take for one level: a run is not to wait for minutes."""
    tables: int | None = None
    """Of random SQL: how many at most; ``None`` is the workload's own."""


def _ignore(*_: object) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Listener:
    """Who is told about a run while it goes on, on the caller's thread.

    ``progress``: how far it is. ``checked``: how many transactions were checked so far. ``trying``: what is tried now, in words.
    ``over``: nothing is sent any more. ``found``: the report, before tables are removed, since that may have to wait for
    somebody's lock. ``left``: what could not be removed, and how to do that.
    """

    progress: Callable[[Progress], None] = _ignore
    checked: Callable[[int], None] = _ignore
    trying: Callable[[str], None] = _ignore
    over: Callable[[], None] = _ignore
    found: Callable[[Report], None] = _ignore
    left: Callable[[str], None] = _ignore


class RunInterrupted(KeyboardInterrupt):
    """Somebody ended a run; what was observed until then is recorded."""

    def __init__(self, history: Path, left: str = "") -> None:
        super().__init__(f"interrupted; what was recorded is in {history}{left}")
        self.history = history
