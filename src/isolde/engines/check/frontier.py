"""Where the line runs: the strongest levels that hold, the weakest that do not.

Levels are no ladder, so both are sets. A level that a stronger satisfied one implies is not listed, nor one that implies a weaker
violated one.
"""

from __future__ import annotations

from collections.abc import Sequence

from isolde.findings import Finding, Frontier, LevelReason, Verdict
from isolde.levels import implies

_HELD = {
    "dependency-graph": "what is known of the order has no forbidden cycle",
    "saturation": "all that follows from the reads fits into one order",
    "search": "an order was found that explains every answer",
    "zones": "every key has an order that keeps real time",
}


def frontier(findings: Sequence[Finding]) -> Frontier:
    """The strongest satisfied and the weakest violated levels among the findings, each with its reason."""
    held = [f for f in findings if f.verdict is Verdict.SATISFIED]
    failed = [f for f in findings if f.verdict is Verdict.VIOLATED]
    strongest = [f for f in held if not any(g is not f and implies(g.level, f.level) for g in held)]
    weakest = [f for f in failed if not any(g is not f and implies(f.level, g.level) for g in failed)]
    return Frontier(
        tuple(LevelReason(f.level, _HELD.get(f.method, f.method)) for f in strongest),
        tuple(LevelReason(f.level, ", ".join(dict.fromkeys(a.name for a in f.anomalies))) for f in weakest),
    )
