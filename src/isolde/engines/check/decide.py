"""Asks the core one question a level, and gives the answers their meaning."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import assert_never

from isolde._core import BUDGET, Analysis, Columns, Decision, Satisfied, Undecided, UnexplainedRead, Violated
from isolde.engines.check.explain import Explainer
from isolde.engines.check.reasons import why_undecided
from isolde.findings import EvidenceUsed, Finding, HistorySize, Report, Verdict
from isolde.levels import Level

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


_SATURATED = frozenset({Level.PL_2, Level.READ_COMMITTED, Level.READ_ATOMIC, Level.CAUSAL, Level.PREFIX})


def check(
    columns: Columns,
    levels: Sequence[Level],
    *,
    session_order: bool = True,
    judge_aborted: bool = False,
    every: bool = False,
    order: bool = False,
    budget: int = BUDGET,
) -> Report:
    """Decides each level in turn; the evidence is read once for all of them.

    ``every`` asks for an anomaly of each strongly connected component, ``order`` for the order that explains a satisfied
    serializable, snapshot or linearizable level. ``budget`` is how many steps a search may take for one level.
    """
    counts = columns.counts()
    size = HistorySize(
        counts.transactions, counts.committed, counts.aborted, counts.unknown, counts.sessions, counts.operations
    )
    began = time.perf_counter()
    analysis = Analysis(columns, session_order=session_order, judge_aborted=judge_aborted, budget=budget)
    known = analysis.evidence()
    used = EvidenceUsed(known.so, known.wr, known.ww, known.rw, known.open_pairs)
    findings = []
    for level in levels:
        decision = analysis.decide(QUESTIONS[level], every=every)
        seconds = time.perf_counter() - began
        findings.append(_finding(columns, level, decision, seconds, used, keep_order=order))
        began = time.perf_counter()
    return Report(size, tuple(findings))


def _method(level: Level, decision: Decision) -> str:
    if level is Level.LINEARIZABLE:
        return "zones-and-search"
    if isinstance(decision, Violated) and all(isinstance(v, UnexplainedRead) for v in decision.violations):
        return "attribution"
    return "saturation" if level in _SATURATED else "dependency-graph"


def _finding(
    columns: Columns, level: Level, decision: Decision, seconds: float, used: EvidenceUsed, *, keep_order: bool
) -> Finding:
    method = _method(level, decision)
    match decision:
        case Satisfied(order):
            kept = order if keep_order else None
            return Finding(level, Verdict.SATISFIED, method, seconds, evidence=used, order=kept)
        case Violated(violations):
            anomalies = tuple(Explainer(columns, level, violation).anomaly() for violation in violations)
            return Finding(level, Verdict.VIOLATED, method, seconds, anomalies, evidence=used)
        case Undecided():
            reason = why_undecided(columns, level, decision)
            return Finding(level, Verdict.UNDECIDED, method, seconds, reason=reason, evidence=used)
        case _:
            assert_never(decision)
