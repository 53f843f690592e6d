"""Histories that the core cannot decide as they are, decided case by case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from isolde._core import Columns
from isolde.engines.check.naming import Violated, common_name
from isolde.engines.check.shared_elements import alternatives
from isolde.engines.check.story import story
from isolde.findings import Anomaly, Case, Finding, Verdict
from isolde.formats import decode, encode
from isolde.levels import Level


def by_cases(
    columns: Columns,
    undecided: Finding,
    ask: Callable[[Columns, int], Finding],
    violated: Violated,
    *,
    budget: int,
    judge_aborted: bool,
) -> Finding:
    """The answer for a list history with elements that several transactions appended: satisfied if ``ask`` finds it so for some
    way to tell them apart, violated if for none. Each way gets an equal share of the budget. ``violated`` says of weaker levels
    whether the whole history violates them."""
    ways = list(alternatives(decode(columns), undecided.level, judge_aborted=judge_aborted))
    cases = []
    open_case: Finding | None = None
    for supposed, assumed in ways:
        finding = ask(encode(assumed), budget // len(ways))
        match finding.verdict:
            case Verdict.SATISFIED:
                return replace(finding, method="search")
            case Verdict.UNDECIDED:
                open_case = finding
            case Verdict.VIOLATED:
                cases.append(Case(supposed, finding.anomalies[0]))
    if open_case is not None or not cases:
        return undecided if open_case is None else replace(undecided, evidence=open_case.evidence)
    return replace(
        undecided,
        verdict=Verdict.VIOLATED,
        method="search",
        evidence=(_anomaly(cases, undecided.level, violated),),
    )


def _anomaly(cases: list[Case], level: Level, violated: Violated) -> Anomaly:
    found = [case.outcome for case in cases if isinstance(case.outcome, Anomaly)]
    names = [anomaly.name for anomaly in found]
    positions = dict.fromkeys(p for anomaly in found for p in anomaly.positions)
    also = dict.fromkeys(p for anomaly in found for p in anomaly.also_needed if p not in positions)
    transactions = dict.fromkeys(t for anomaly in found for t in anomaly.transactions)
    text = f"Whoever appended what several did, something forbidden is left. {story(cases)}"
    return Anomaly(
        common_name(names, level, violated),
        tuple(transactions),
        (),
        text,
        tuple(positions),
        tuple(also),
        tuple(cases),
        rechecked=all(anomaly.rechecked for anomaly in found),
    )
