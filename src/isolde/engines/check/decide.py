"""Asks the core one question a level, and gives the answers their meaning."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from isolde._core import BUDGET, Analysis, Columns, Decision, Explanation, NoOrder, Satisfied, Undecided, Violated
from isolde.engines.check.by_cases import by_cases
from isolde.engines.check.explain import Explainer
from isolde.engines.check.frontier import frontier
from isolde.engines.check.reasons import why_undecided
from isolde.errors import IsoldeError
from isolde.findings import (
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
from isolde.levels import LEVELS, Level, implies

# Which question of the core decides a level. Repeatable read (PL-2.99) is serializability of the item operations, and
# histories with predicates are not answered yet, so the two coincide.
QUESTIONS: dict[Level, str] = {
    Level.READ_UNCOMMITTED: "overwrites",
    Level.PL_2: "information-flow",
    Level.READ_COMMITTED: "read-committed",
    Level.READ_ATOMIC: "read-atomic",
    Level.CAUSAL: "causal",
    Level.PREFIX: "prefix",
    Level.REPEATABLE_READ: "serializable",
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
) -> Report:
    """Decides each level in turn; the evidence is read once for all of them.

    ``surveyed`` also finds out where the line between the levels runs, asking no more than it takes. ``every`` asks for an
    anomaly of each strongly connected component, ``order`` for the order that explains a satisfied level; ``budget`` is the
    number of steps that a search may take for one level.
    """
    counts = columns.counts()
    size = HistorySize(
        counts.transactions, counts.committed, counts.aborted, counts.unknown, counts.sessions, counts.operations
    )
    subject = HistorySubject(columns.name, size)
    began = time.perf_counter()
    analysis = Analysis(columns, session_order=session_order, judge_aborted=judge_aborted, budget=budget)
    known = analysis.evidence()
    used = EvidenceUsed(known.so, known.wr, known.ww, known.rw, known.open_pairs, known.told_ww, known.told_rw)
    evidence_seconds = time.perf_counter() - began
    asked: dict[str, Decision] = {}

    def violated(level: Level) -> bool:
        return isinstance(_decide(analysis, QUESTIONS[level], asked, every=every), Violated)

    def decided(level: Level) -> Finding:
        began = time.perf_counter()
        answer = _answer(analysis, level, asked, every=every)
        decision = answer.decision
        found = _finding(analysis, columns, answer, violated, keep_order=order)
        finding = replace(found, question=HistoryLevel(level))
        if isinstance(decision, Undecided) and decision.code == "ambiguous-read" and budget > counts.operations:

            def ask(assumed: Columns, share: int) -> Finding:
                options = {"session_order": session_order, "judge_aborted": judge_aborted, "order": order}
                return check(assumed, [level], budget=share, **options).findings[0]

            def broken(weaker: Level) -> bool:
                return decided(weaker).verdict is Verdict.VIOLATED

            finding = by_cases(columns, finding, ask, broken, budget=budget, judge_aborted=judge_aborted)
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


def _answer(analysis: Analysis, level: Level, asked: dict[str, Decision], *, every: bool) -> _Answer:
    """The answer to a level, if need be by one that implies it and holds, or one that it implies and that does not."""
    question = QUESTIONS[level]
    decision = _decide(analysis, question, asked, every=every)
    if not isinstance(decision, Undecided) or decision.code not in _TOO_MUCH:
        return _Answer(decision, level)
    for other in _BY_EASE_OF_FAILING:
        if other != question and implies(level, _LEVEL_OF[other]):
            found = _decide(analysis, other, asked, every=every)
            if isinstance(found, Violated):
                return _Answer(found, _LEVEL_OF[other])
    for other in _BY_EASE_OF_HOLDING:
        # Where times are missing, nothing is known to keep real time.
        if other != question and implies(_LEVEL_OF[other], level) and (analysis.timed or "strict" not in other):
            found = _decide(analysis, other, asked, every=every)
            if isinstance(found, Satisfied):
                return _Answer(found, _LEVEL_OF[other])
    return _Answer(decision, level)


def _decide(analysis: Analysis, question: str, asked: dict[str, Decision], *, every: bool) -> Decision:
    """The answer to a question, which is asked once only."""
    if question in asked:
        return asked[question]
    decision = analysis.decide(question, every=every)
    if isinstance(decision, Violated) and any(isinstance(found, NoOrder) for found in decision.violations):
        # Where the level is violated without the clock already, that is shown: real time would only hide it.
        plain = _decide(analysis, _PLAIN[question], asked, every=every) if question in _PLAIN else decision
        decision = plain if isinstance(plain, Violated) else decision
    asked[question] = decision
    return decision


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
_REPLAYED = frozenset({"prefix", "snapshot", "serializable", "strict-snapshot", "strict-serializable"})
# Of the orders of these it is seen that they account for everything that was read, where that is not plain: with outcomes that
# are unknown, after a search, and if somebody looks at them.
_ACCOUNTED_FOR = frozenset({"information-flow", "read-committed", "read-atomic", "causal"})


def _finding(
    analysis: Analysis,
    columns: Columns,
    answer: _Answer,
    violated: Callable[[Level], bool],
    *,
    keep_order: bool,
) -> Finding:
    """What an answer says about the level that it was found for."""
    level, method = answer.level, answer.decision.method
    asked = HistoryLevel(level)
    match answer.decision:
        case Satisfied(_, found):
            in_doubt = keep_order or method == "search" or columns.counts().unknown > 0
            question = QUESTIONS[level]
            if found is not None and (question in _REPLAYED or (question in _ACCOUNTED_FOR and in_doubt)):
                _check_again(analysis, columns, level, found)
            order = _named(columns, found) if keep_order and found is not None else None
            return Finding(asked, Verdict.SATISFIED, method, evidence=() if order is None else (order,))
        case Violated(_, violations):
            anomalies = tuple(Explainer(columns, level, violation, violated).anomaly() for violation in violations)
            return Finding(asked, Verdict.VIOLATED, method, evidence=anomalies)
        case Undecided() as decision:
            reason = why_undecided(columns, level, decision)
            return Finding(asked, Verdict.UNDECIDED, method, evidence=(NotProved(reason),))
        case _:
            assert_never(answer.decision)


def _check_again(analysis: Analysis, columns: Columns, level: Level, found: Explanation) -> None:
    """An order is only believed after the transactions were run in it, those of unknown outcome included."""
    if not analysis.replays(QUESTIONS[level], found):
        raise IsoldeError(
            f"{columns.name}: the order that was found for {level.value} does not explain the history; please report this with"
            " the file"
        )


def _named(columns: Columns, found: Explanation) -> CommitOrder:
    names = columns.ids(found.commits)
    return CommitOrder(tuple(names), found.snapshots)
