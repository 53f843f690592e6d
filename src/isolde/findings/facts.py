"""What is known beside the answers: plain data about what was run, for reports alone. No verdict depends on them."""

from __future__ import annotations

from dataclasses import dataclass

from isolde.findings.evidence import LostWrite
from isolde.findings.model import Anomaly, EvidenceUsed, Frontier
from isolde.levels import Level


@dataclass(frozen=True, slots=True)
class WindowFacts:
    """A run that was checked in windows that stand on their own: how many, how many stayed undecided, where the last one is."""

    count: int
    undecided: int
    last: str


@dataclass(frozen=True, slots=True)
class FaultFacts:
    """One fault that was brought about, in seconds since the run began."""

    fault: str
    begun: float
    healed: float


@dataclass(frozen=True, slots=True)
class Ran:
    """How long a run took and how its transactions ended. ``failure`` is what ended it early."""

    seconds: float
    committed: int
    aborted: int
    unknown: int
    reconnected: int
    interrupted: bool = False
    failure: str | None = None
    given_up: int = 0
    """Plans that were aborted each time that they were tried, and left."""

    @property
    def ended(self) -> int:
        """How many transactions there were."""
        return self.committed + self.aborted + self.unknown


@dataclass(frozen=True, slots=True)
class Interval:
    """What ended in one part of a run: counts, and how long committed transactions took, in milliseconds.

    ``begun`` is in seconds since the run began; times are ``None`` where nothing was committed.
    """

    begun: float
    committed: int
    aborted: int
    unknown: int
    median_ms: float | None = None
    slowest_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Pace:
    """A run over time, in parts of ``seconds`` each."""

    seconds: float
    intervals: tuple[Interval, ...]


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """The certificate of a run: its file, who says so, and how long the database was asked for it after the run."""

    file: str
    source: str
    seconds: float


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run of a key-value workload; ``table`` is the one that was left in the database.

    ``isolation`` is the level as the database calls it, ``claims`` what that is to mean. ``lost`` is what was committed and is
    gone; ``None`` if the database could not be asked for it any more. ``again`` is the command that checks the history again.
    """

    database: str
    isolation: str
    claims: Level
    note: str
    workload: str
    sessions: int
    keys: int
    distribution: str
    deletes: float
    seed: int
    ran: Ran
    check_seconds: float
    history: str
    again: str
    table: str | None = None
    faults: tuple[FaultFacts, ...] = ()
    lost: tuple[LostWrite, ...] | None = ()
    windows: WindowFacts | None = None
    certificate: CertificateFacts | None = None
    shapes: tuple[str, ...] = ()
    """What the tables were like, if not plain."""
    lead: str = ""
    """What was met, in one sentence for a person."""
    at_once: int | None = None
    """How many of the sessions might have a transaction in flight at one time, if not all."""


@dataclass(frozen=True, slots=True)
class SqlRunFacts:
    """A run of random SQL in rounds, each judged by itself; ``history`` is the round that is shown, or the first one."""

    database: str
    isolation: str
    claims: Level
    note: str
    sessions: int
    tables: int
    seed: int
    ran: Ran
    rounds: int
    check_seconds: float
    history: str


@dataclass(frozen=True, slots=True)
class InvariantFacts:
    """An invariant of an application, and what it says."""

    name: str
    meaning: str


@dataclass(frozen=True, slots=True)
class ApplicationFacts:
    """A run of an application. ``quiet_points`` is how often the invariants were looked at; tables that stay begin with ``kept``.

    ``levels`` are those of the kinds of transactions, as the database calls them; ``gave_up`` counts programs that ended in an
    error of their own.
    """

    database: str
    application: str
    scale: tuple[tuple[str, int], ...]
    mix: tuple[tuple[str, float], ...]
    levels: tuple[tuple[str, str], ...]
    sessions: int
    seed: int
    ran: Ran
    quiet_points: int
    invariants: tuple[InvariantFacts, ...]
    gave_up: tuple[tuple[str, int], ...]
    history: str
    kept: str | None = None
    certificate: CertificateFacts | None = None
    at_once: int | None = None

    @property
    def ended_well(self) -> bool:
        """Whether the run came to its end, so that the invariants were looked at there too."""
        return self.ran.failure is None and not self.ran.interrupted

    @property
    def tested(self) -> bool:
        """Whether anything was done that could have broken an invariant, and looked at."""
        return bool(self.invariants) and self.quiet_points > 0 and self.ran.committed + self.ran.unknown > 0


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """What became of an anomaly at a level: ``seen``, ``broken``, ``prevented`` or ``untried``, and why."""

    anomaly: str
    hermitage: str
    result: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class MatrixLevel:
    """One level of a database: the schedules that were played at it, and what a random workload showed beside them.

    ``against`` are the anomalies, among those that the workload met, that the level claims to forbid.
    """

    name: str
    called: str
    claims: Level
    cells: tuple[MatrixCell, ...]
    transactions: int
    anomalies: tuple[str, ...]
    frontier: Frontier
    against: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MatrixFacts:
    """Every anomaly at every level of a database."""

    database: str
    levels: tuple[MatrixLevel, ...]


@dataclass(frozen=True, slots=True)
class Trial:
    """A run with one seed, until its first violation: after how many seconds, and at which transaction it could be seen.

    Without one, ``seconds`` is how long it all took.
    """

    seed: int
    verdict: str
    anomaly: str
    seconds: float
    place: int | None
    committed: int
    history: str


@dataclass(frozen=True, slots=True)
class TrialsFacts:
    """The same run with one seed after the other."""

    database: str
    isolation: str
    claims: Level
    workload: str
    sessions: int
    trials: tuple[Trial, ...]


@dataclass(frozen=True, slots=True)
class Met:
    """What a run met that its database does not claim to forbid, but ``level``, which its level is named after, does."""

    level: Level
    anomaly: Anomaly


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that is worth a sentence beside the findings."""

    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """The command line that was asked, without passwords: whoever types it again gets the result again."""

    text: str


@dataclass(frozen=True, slots=True)
class Assignments:
    """The minimal assignments of levels to transactions that are safe; ``complete``: there are no others."""

    listed: tuple[tuple[tuple[str, str], ...], ...]
    complete: bool


Fact = (
    EvidenceUsed
    | Frontier
    | RunFacts
    | SqlRunFacts
    | ApplicationFacts
    | MatrixFacts
    | TrialsFacts
    | Met
    | Remark
    | Assignments
    | Pace
    | Command
)
