"""Asks the core one question a level, and gives the answers their meaning."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, assert_never, get_args

from isolde._core import BUDGET, Analysis, Columns, Decision, Explanation, NoOrder, Satisfied, Undecided, Violated
from isolde.engines.check.by_cases import by_cases
from isolde.engines.check.evidence import NOTHING, Evidence
from isolde.engines.check.explain import Explainer
from isolde.engines.check.frontier import frontier
from isolde.engines.check.naming import txn_name
from isolde.engines.check.reasons import why_undecided
from isolde.engines.check.verify import verified
from isolde.errors import InputError, MistakeError
from isolde.findings import (
    Anomaly,
    CommitOrder,
    EvidenceUsed,
    Finding,
    HistoryLevel,
    HistorySize,
    HistorySubject,
    NotProved,
    Report,
    Spent,
    Verdict,
)
from isolde.findings.model import Kind
from isolde.levels import LEVELS, Level, implies, rules_out

# Which question of the core decides a level.
QUESTIONS: dict[Level, str] = {
    Level.READ_UNCOMMITTED: "overwrites",
    Level.PL_2: "information-flow",
    Level.READ_COMMITTED: "read-committed",
    Level.READ_ATOMIC: "read-atomic",
    Level.CAUSAL: "causal",
    Level.PREFIX: "prefix",
    Level.REPEATABLE_READ: "repeatable-read",
    Level.SNAPSHOT_ISOLATION: "snapshot",
    Level.SERIALIZABLE: "serializable",
    Level.STRICT_SNAPSHOT_ISOLATION: "strict-snapshot",
    Level.STRICT_SERIALIZABLE: "strict-serializable",
    Level.LINEARIZABLE: "linearizable",
}


def check(
    columns: Columns,
    levels: Sequence[Level],
    *,
    session_order: bool = True,
    judge_aborted: bool = False,
    every: bool = False,
    order: bool = False,
    budget: int = BUDGET,
    surveyed: bool = False,
    evidence: Evidence = NOTHING,
    serialization_order: bool = False,
) -> Report:
    """Decides each level in turn; the evidence is read once for all of them. Every violation is checked a second time, from its
    own evidence.

    ``evidence`` is what is known besides the history. ``serialization_order`` takes the serial order that it, or the history,
    tells as a claim: serializable and what is stronger hold if it replays, and not if only another order does; weaker levels hold
    if it replays, and are decided as always if not.

    ``surveyed`` also finds out where the line between the levels runs, asking no more than it takes. ``every`` asks for an
    anomaly of each strongly connected component, ``order`` for the order that explains a satisfied level; ``budget`` is the
    number of steps that a search may take for one level.
    """
    counts = columns.counts()
    subject = HistorySubject(columns.name, size_of(columns))
    began = time.perf_counter()
    asking = _Asking(
        columns,
        Analysis(
            columns, session_order=session_order, judge_aborted=judge_aborted, budget=budget, outside=evidence.core()
        ),
        evidence,
        every=every,
        judge_aborted=judge_aborted,
        keep_order=order,
        predicates="predicate-rw" in evidence.kinds,
    )
    if serialization_order:
        asking.expect_places()
    used = asking.used()
    evidence_seconds = time.perf_counter() - began

    def decided(level: Level) -> Finding:
        began = time.perf_counter()
        told = asking.told(level)
        if told is not None and (told.verdict is Verdict.UNDECIDED or not every):
            return replace(told, spent=Spent(time.perf_counter() - began))
        answer = asking.claimed(level) if serialization_order else None
        answer = answer or asking.answer(level)
        decision = answer.decision
        finding = replace(asking.finding(answer), question=HistoryLevel(level))
        # Orders of versions that were told name transactions that a way to tell elements apart may leave out.
        by_elements = isinstance(decision, Undecided) and decision.code == "ambiguous-read" and not evidence.versions
        if by_elements and budget > counts.operations:

            def ask(assumed: Columns, share: int) -> Finding:
                options: dict[str, Any] = {
                    "session_order": session_order,
                    "judge_aborted": judge_aborted,
                    "order": order,
                }
                return check(assumed, [level], budget=share, evidence=evidence, **options).findings[0]

            def broken(weaker: Level) -> bool:
                return decided(weaker).verdict is Verdict.VIOLATED

            finding = by_cases(columns, finding, ask, broken, budget=budget, judge_aborted=judge_aborted)
            shown = tuple(asking.verified(level, one) if isinstance(one, Anomaly) else one for one in finding.evidence)
            finding = replace(finding, evidence=shown)
        if told is not None:
            finding = replace(told, evidence=(*told.evidence, *finding.anomalies))
        return replace(finding, spent=Spent(time.perf_counter() - began))

    # Reading the evidence belongs to the first level.
    findings = _carried([decided(level) for level in levels])
    if findings:
        findings[0] = replace(findings[0], spent=Spent(findings[0].seconds + evidence_seconds))
    if not surveyed:
        return Report(subject, tuple(findings), facts=(used,))
    everything = list(findings)
    for entry in reversed(LEVELS):
        if not _follows(entry.level, everything):
            everything.append(decided(entry.level))
    return Report(subject, tuple(findings), facts=(used, frontier(everything)))


def size_of(columns: Columns) -> HistorySize:
    """How large a history is."""
    counts = columns.counts()
    return HistorySize(
        counts.transactions, counts.committed, counts.aborted, counts.unknown, counts.sessions, counts.operations
    )


def _follows(level: Level, known: Sequence[Finding]) -> bool:
    """Whether what is known of other levels, or of this one, leaves nothing to ask."""
    return any(
        finding.level is level
        or (finding.verdict is Verdict.SATISFIED and implies(finding.level, level))
        or (finding.verdict is Verdict.VIOLATED and implies(level, finding.level))
        for finding in known
    )


# Levels by the question that decides them; what implies what is the lattice's to say.
_LEVEL_OF: dict[str, Level] = {question: level for level, question in QUESTIONS.items()}
# The order in which others are asked: an order of all is sooner guessed than whom every read saw, since it brings the reads
# along, and a serial one sooner than one with snapshots; a weak level's contradiction is sooner found.
_BY_EASE_OF_HOLDING = ("serializable", "strict-serializable", "snapshot", "strict-snapshot", "prefix")
_BY_EASE_OF_FAILING = (
    "information-flow",
    "read-committed",
    "read-atomic",
    "causal",
    "prefix",
    "snapshot",
    "repeatable-read",
    "serializable",
)
_PLAIN = {"strict-snapshot": "snapshot", "strict-serializable": "serializable"}
# Too much was open, and another level may be easier to decide.
_TOO_MUCH = frozenset({"choices", "memory"})


@dataclass(frozen=True, slots=True)
class _Answer:
    """A decision, and the level that it was found for: one that implies, or is implied by, the level asked about."""

    decision: Decision
    level: Level


@dataclass(slots=True)
class _Asking:
    """The questions about one history, each asked once, and what their answers mean."""

    columns: Columns
    analysis: Analysis
    evidence: Evidence
    _: KW_ONLY
    every: bool
    judge_aborted: bool
    keep_order: bool
    predicates: bool = False
    asked: dict[str, Decision] = field(default_factory=dict)

    def question(self, level: Level) -> str:
        """Which question decides a level. Without predicates, repeatable read (PL-2.99) and serializable coincide."""
        if level is Level.REPEATABLE_READ and not self.predicates:
            return QUESTIONS[Level.SERIALIZABLE]
        return QUESTIONS[level]

    def expect_places(self) -> None:
        """A claimed serial order has a place for every committed transaction."""
        missing = self.analysis.without_place()
        if missing is not None:
            (line,), (name,) = self.columns.lines([missing]), self.columns.ids([missing])
            place = f"{self.columns.name}:{line}" if line else self.columns.name
            raise InputError(
                f'{place}: {txn_name(name)} has no "serial"; a serialization order has a place for every committed transaction'
            )

    def told(self, level: Level) -> Finding | None:
        """What was shown besides the history already, if that decides a level or leaves it open."""
        shown = [one for one in self.evidence.shown if rules_out(level, one.name)]
        if shown:
            anomalies = tuple(
                Anomaly(one.name, tuple(self.columns.ids(one.positions)), (), one.sentence, one.positions)
                for one in (shown if self.every else shown[:1])
            )
            return Finding(HistoryLevel(level), Verdict.VIOLATED, "told", evidence=anomalies)
        if self.evidence.undecided and level is not Level.READ_UNCOMMITTED:
            reason = NotProved(self.evidence.undecided)
            return Finding(HistoryLevel(level), Verdict.UNDECIDED, "told", evidence=(reason,))
        return None

    def claimed(self, level: Level) -> _Answer | None:
        """What the replay of the serial order that was told says about a level, if it says something."""
        if level is Level.LINEARIZABLE:
            return None
        real_time = level in (Level.STRICT_SERIALIZABLE, Level.STRICT_SNAPSHOT_ISOLATION)
        if real_time and not self.analysis.timed:
            return None
        decides = level in (Level.REPEATABLE_READ, Level.SERIALIZABLE, Level.STRICT_SERIALIZABLE)
        question = self.question(level) if decides else QUESTIONS[Level.SERIALIZABLE]
        question = QUESTIONS[Level.STRICT_SERIALIZABLE] if real_time else question
        answer = self.analysis.claim(question)
        return _Answer(answer, level) if decides or isinstance(answer, Satisfied) else None

    def answer(self, level: Level) -> _Answer:
        """The answer to a level, if need be by one that implies it and holds, or one that it implies and that does not."""
        question = self.question(level)
        decision = self.decide(question)
        if not isinstance(decision, Undecided) or decision.code not in _TOO_MUCH:
            return _Answer(decision, level)
        for other in _BY_EASE_OF_FAILING:
            asked_alone = other != "repeatable-read" or self.predicates
            if other != question and asked_alone and implies(level, _LEVEL_OF[other]):
                found = self.decide(other)
                if isinstance(found, Violated):
                    return _Answer(found, _LEVEL_OF[other])
        for other in _BY_EASE_OF_HOLDING:
            # Where times are missing, nothing is known to keep real time.
            if (
                other != question
                and implies(_LEVEL_OF[other], level)
                and (self.analysis.timed or "strict" not in other)
            ):
                found = self.decide(other)
                if isinstance(found, Satisfied):
                    return _Answer(found, _LEVEL_OF[other])
        return _Answer(decision, level)

    def decide(self, question: str) -> Decision:
        """The answer to a question, which is asked once only."""
        if question in self.asked:
            return self.asked[question]
        decision = self.analysis.decide(question, every=self.every)
        if isinstance(decision, Violated) and any(isinstance(found, NoOrder) for found in decision.violations):
            # Where the level is violated without the clock already, that is shown: real time would only hide it.
            plain = self.decide(_PLAIN[question]) if question in _PLAIN else decision
            decision = plain if isinstance(plain, Violated) else decision
        self.asked[question] = decision
        return decision

    def violated(self, level: Level) -> bool:
        """Whether a level is violated."""
        return isinstance(self.decide(self.question(level)), Violated)

    def used(self) -> EvidenceUsed:
        """How much was known."""
        known = self.analysis.evidence()
        counted = self.analysis.outside_counts() if self.evidence.kinds else {}
        outside = tuple((kind, counted[kind]) for kind in get_args(Kind) if kind in counted)
        numbers = known.so, known.wr, known.ww, known.rw, known.open_pairs, known.told_ww, known.told_rw
        return EvidenceUsed(*numbers, outside)

    def finding(self, answer: _Answer) -> Finding:
        """What an answer says about the level that it was found for."""
        level, method = answer.level, answer.decision.method
        asked = HistoryLevel(level)
        match answer.decision:
            case Satisfied(_, found):
                in_doubt = self.keep_order or method == "search" or self.columns.counts().unknown > 0
                question = self.question(level)
                # A claim was believed because it replayed.
                replayed = question in _REPLAYED or (question in _ACCOUNTED_FOR and in_doubt)
                if found is not None and replayed and method != "serialization-order":
                    self.check_again(level, found)
                order = _named(self.columns, found) if self.keep_order and found is not None else None
                return Finding(asked, Verdict.SATISFIED, method, evidence=() if order is None else (order,))
            case Violated(_, violations):
                anomalies = (
                    Explainer(self.columns, level, violation, self.violated, self.evidence).anomaly()
                    for violation in violations
                )
                shown = tuple(self.verified(level, anomaly) for anomaly in anomalies)
                return Finding(asked, Verdict.VIOLATED, method, evidence=shown)
            case Undecided() as decision:
                reason = why_undecided(self.columns, level, decision)
                return Finding(asked, Verdict.UNDECIDED, method, evidence=(NotProved(reason),))
            case _:
                assert_never(answer.decision)

    def verified(self, level: Level, anomaly: Anomaly) -> Anomaly:
        """An anomaly that was looked at a second time."""
        return verified(self.analysis, self.columns, level, anomaly, self.evidence, judge_aborted=self.judge_aborted)

    def check_again(self, level: Level, found: Explanation) -> None:
        """An order is only believed after the transactions were run in it, those of unknown outcome included."""
        if not self.analysis.replays(self.question(level), found):
            raise MistakeError(
                f"{self.columns.name}: the order that was found for {level.value} does not explain the history; please report"
                " this with the file"
            )


def _carried(findings: Sequence[Finding]) -> list[Finding]:
    """What is undecided, decided by what was found for levels that imply it or that it implies."""

    def carried(finding: Finding) -> Finding:
        if finding.verdict is not Verdict.UNDECIDED:
            return finding
        for other in findings:
            holds = other.verdict is Verdict.SATISFIED and implies(other.level, finding.level)
            fails = other.verdict is Verdict.VIOLATED and implies(finding.level, other.level)
            if holds or fails:
                return replace(other, question=finding.question, spent=finding.spent)
        return finding

    return [carried(finding) for finding in findings]


# Questions whose satisfied answers are explained by running the transactions in an order.
_REPLAYED = frozenset(
    {"prefix", "repeatable-read", "snapshot", "serializable", "strict-snapshot", "strict-serializable"}
)
# Of the orders of these it is seen that they account for everything that was read, where that is not plain: with outcomes that
# are unknown, after a search, and if somebody looks at them.
_ACCOUNTED_FOR = frozenset({"information-flow", "read-committed", "read-atomic", "causal"})


def _named(columns: Columns, found: Explanation) -> CommitOrder:
    names = columns.ids(found.commits)
    return CommitOrder(tuple(names), found.snapshots)
