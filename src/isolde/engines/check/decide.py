"""Asks the core one question a level, and gives the answers their meaning."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import assert_never

from isolde._core import BUDGET, Analysis, Columns, Decision, Explanation, NoOrder, Satisfied, Undecided, Violated
from isolde.engines.check.by_cases import by_cases
from isolde.engines.check.explain import Explainer
from isolde.engines.check.frontier import frontier
from isolde.engines.check.reasons import why_undecided
from isolde.errors import IsoldeError
from isolde.findings import CommitOrder, EvidenceUsed, Finding, HistorySize, Report, Verdict
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


_WEAK = frozenset({"information-flow", "read-committed", "read-atomic", "causal"})


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
        decision = _decide(analysis, QUESTIONS[level], asked, every=every)
        finding = _finding(analysis, columns, level, decision, used, violated, keep_order=order)
        if isinstance(decision, Undecided) and decision.code == "ambiguous-read" and budget > counts.operations:

            def ask(assumed: Columns, share: int) -> Finding:
                options = {"session_order": session_order, "judge_aborted": judge_aborted, "order": order}
                return check(assumed, [level], budget=share, **options).findings[0]

            def broken(weaker: Level) -> bool:
                return decided(weaker).verdict is Verdict.VIOLATED

            finding = by_cases(columns, finding, ask, broken, budget=budget, judge_aborted=judge_aborted)
        return replace(finding, seconds=time.perf_counter() - began)

    # Reading the evidence belongs to the first level.
    findings = [decided(level) for level in levels]
    if findings:
        findings[0] = replace(findings[0], seconds=findings[0].seconds + evidence_seconds)
    if not surveyed:
        return Report(size, tuple(findings))
    everything = list(findings)
    for entry in reversed(LEVELS):
        if not _follows(entry.level, everything):
            everything.append(decided(entry.level))
    return Report(size, tuple(findings), frontier(everything))


def _follows(level: Level, known: Sequence[Finding]) -> bool:
    """Whether what is known of other levels, or of this one, leaves nothing to ask."""
    return any(
        finding.level is level
        or (finding.verdict is Verdict.SATISFIED and implies(finding.level, level))
        or (finding.verdict is Verdict.VIOLATED and implies(level, finding.level))
        for finding in known
    )


# Where a question has too many choices, a stronger one may still hold: an order of all is sooner guessed than whom every read
# saw, since it brings the reads along, and a serial one sooner than one with snapshots.
_STRONGER = dict.fromkeys(_WEAK, ("serializable", "snapshot", "prefix")) | {
    "prefix": ("serializable", "snapshot"),
    "snapshot": ("serializable",),
    "strict-snapshot": ("strict-serializable",),
}
_PLAIN = {"strict-snapshot": "snapshot", "strict-serializable": "serializable"}


def _decide(analysis: Analysis, question: str, asked: dict[str, Decision], *, every: bool) -> Decision:
    """The answer to a question, which is asked once only."""
    if question in asked:
        return asked[question]
    decision = analysis.decide(question, every=every)
    if isinstance(decision, Undecided) and decision.code == "choices":
        answers = (_decide(analysis, stronger, asked, every=every) for stronger in _STRONGER.get(question, ()))
        decision = next((answer for answer in answers if isinstance(answer, Satisfied)), decision)
    if isinstance(decision, Violated) and any(isinstance(found, NoOrder) for found in decision.violations):
        # Where the level is violated without the clock already, that is shown: real time would only hide it.
        plain = _decide(analysis, _PLAIN[question], asked, every=every) if question in _PLAIN else decision
        decision = plain if isinstance(plain, Violated) else decision
    asked[question] = decision
    return decision


# Questions whose satisfied answers are explained by running the transactions in an order.
_REPLAYED = frozenset({"prefix", "snapshot", "serializable", "strict-snapshot", "strict-serializable"})


def _finding(
    analysis: Analysis,
    columns: Columns,
    level: Level,
    decision: Decision,
    used: EvidenceUsed,
    violated: Callable[[Level], bool],
    *,
    keep_order: bool,
) -> Finding:
    method = decision.method
    match decision:
        case Satisfied(_, found):
            if found is not None and method == "search" and QUESTIONS[level] in _REPLAYED:
                _check_again(analysis, columns, level, found)
            order = _named(columns, found) if keep_order and found is not None else None
            return Finding(level, Verdict.SATISFIED, method, 0.0, evidence=used, order=order)
        case Violated(_, violations):
            anomalies = tuple(Explainer(columns, level, violation, violated).anomaly() for violation in violations)
            return Finding(level, Verdict.VIOLATED, method, 0.0, anomalies, evidence=used)
        case Undecided():
            reason = why_undecided(columns, level, decision)
            return Finding(level, Verdict.UNDECIDED, method, 0.0, reason=reason, evidence=used)
        case _:
            assert_never(decision)


def _check_again(analysis: Analysis, columns: Columns, level: Level, found: Explanation) -> None:
    """What a search found is only believed after the transactions were run in that order."""
    if not analysis.replays(QUESTIONS[level], found):
        raise IsoldeError(
            f"{columns.name}: the order that was found for {level.value} does not explain the history; please report this with"
            " the file"
        )


def _named(columns: Columns, found: Explanation) -> CommitOrder:
    names = columns.ids(found.commits)
    return CommitOrder(tuple(names), found.snapshots)
