"""A report: everything that was found about one subject, self-contained, so that it can be kept and drawn again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from isolde.findings.evidence import ByOracle, Evidence, NotProved
from isolde.findings.facts import Fact
from isolde.findings.model import Anomaly, CommitOrder, EvidenceUsed, Frontier, HistorySize
from isolde.findings.questions import HistoryLevel, Question
from isolde.history import Transaction
from isolde.levels import Level

_F = TypeVar("_F", bound=Fact)


class Verdict(Enum):
    """Three-valued: a time-out or a missing fact is never a pass."""

    SATISFIED = "satisfied"
    VIOLATED = "violated"
    UNDECIDED = "unknown"


@dataclass(frozen=True, slots=True)
class HistorySubject:
    """A recorded history, by the name of its file."""

    name: str
    size: HistorySize


@dataclass(frozen=True, slots=True)
class ProgramSubject:
    """A program whose behaviours were explored."""

    name: str
    sessions: int
    transactions: int


@dataclass(frozen=True, slots=True)
class LogSubject:
    """A log of SQL transactions."""

    name: str
    transactions: int
    committed: int
    statements: int


@dataclass(frozen=True, slots=True)
class ApplicationSubject:
    """An application and the database that it is meant for; ``assumptions`` are what a proof takes for granted."""

    name: str
    database: str
    settings: tuple[tuple[str, str], ...] = ()
    invariants: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DatabaseSubject:
    """A database, by its name and version; ``schedules`` counts those that were played."""

    name: str
    schedules: int = 0


Subject = HistorySubject | ProgramSubject | LogSubject | ApplicationSubject | DatabaseSubject


@dataclass(frozen=True, slots=True)
class Spent:
    """What an answer cost, and what was gone through for it: ``counts`` are by the engine's own words (``explored``, say)."""

    seconds: float = 0.0
    counts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """The answer to one question. ``reproduce`` is a command that shows it again; empty if there is none."""

    question: Question
    verdict: Verdict
    method: str
    spent: Spent = Spent()
    evidence: tuple[Evidence, ...] = ()
    reproduce: str = ""

    @property
    def level(self) -> Level:
        """The level that a history was asked about."""
        assert isinstance(self.question, HistoryLevel), (
            f"{type(self.question).__name__} asks about no level of a history"
        )
        return self.question.level

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.spent.seconds

    @property
    def anomalies(self) -> tuple[Anomaly, ...]:
        """What the level forbids and the history shows."""
        return tuple(shown for shown in self.evidence if isinstance(shown, Anomaly))

    @property
    def order(self) -> CommitOrder | None:
        """An order that explains the history, where it was asked for."""
        return next((shown for shown in self.evidence if isinstance(shown, CommitOrder)), None)

    @property
    def judged_by(self) -> ByOracle:
        """By what a history was judged; a search by values, unless the database told something."""
        told = next((shown for shown in self.evidence if isinstance(shown, ByOracle)), None)
        if told is not None:
            return told
        return ByOracle("serialization-order" if self.method == "serialization-order" else "search")

    @property
    def reason(self) -> str:
        """Why it is undecided; empty otherwise."""
        return next((shown.reason for shown in self.evidence if isinstance(shown, NotProved)), "")


@dataclass(frozen=True, slots=True)
class Report:
    """Everything about one subject. ``exhibit`` holds the transactions of it that the findings name."""

    subject: Subject
    findings: tuple[Finding, ...]
    exhibit: tuple[Transaction, ...] = ()
    facts: tuple[Fact, ...] = ()

    def fact(self, kind: type[_F]) -> _F | None:
        """The fact of this kind, if there is one."""
        return next((fact for fact in self.facts if isinstance(fact, kind)), None)

    @property
    def size(self) -> HistorySize:
        """How large the history was that the report is about."""
        assert isinstance(self.subject, HistorySubject), f"a {type(self.subject).__name__} has no size"
        return self.subject.size

    @property
    def frontier(self) -> Frontier | None:
        """The strongest levels that hold and the weakest that do not, where that was asked for."""
        return self.fact(Frontier)

    @property
    def known(self) -> EvidenceUsed | None:
        """What was known of the order of a history's transactions."""
        return self.fact(EvidenceUsed)

    @property
    def verdict(self) -> Verdict:
        """The most serious one of all findings; without any, nothing was decided."""
        verdicts = {finding.verdict for finding in self.findings}
        serious = (Verdict.VIOLATED, Verdict.UNDECIDED, Verdict.SATISFIED)
        return next((verdict for verdict in serious if verdict in verdicts), Verdict.UNDECIDED)

    @property
    def satisfied(self) -> bool:
        """Whether everything that was asked holds."""
        return self.verdict is Verdict.SATISFIED
