"""Trials of a run over seeds: which of them found an anomaly, after how long, and where; for a terminal and as JSON."""

from __future__ import annotations

from statistics import median
from typing import Any

from isolde.findings import Trial, TrialsFacts
from isolde.visible import fitted, number_of, visible


def render_trials(facts: TrialsFacts) -> str:
    """A line a seed, and what they are together."""
    found = [one for one in facts.trials if one.anomaly]
    seeds = number_of(len(facts.trials), "seed")
    lines = [
        f"{facts.database} at {facts.isolation}, which claims {facts.claims.value}",
        f"  workload   {facts.workload}: {facts.sessions} sessions, {seeds}, each until its first violation",
        f"  {'seed':>6}  {'seconds':>8}  {'committed':>9}  {'seen at':>9}  anomaly",
        *map(_line, facts.trials),
        f"  {len(found)} of {len(facts.trials)} seeds found an anomaly" + _middle(found),
    ]
    return "\n".join(fitted(visible(line)) for line in lines)


def _line(trial: Trial) -> str:
    place = "" if trial.place is None else f"{trial.place:,}"
    what = trial.anomaly or ("none" if trial.verdict == "satisfied" else "undecided")
    return f"  {trial.seed:>6}  {trial.seconds:>8.2f}  {trial.committed:>9,}  {place:>9}  {what}"


def _middle(found: list[Trial]) -> str:
    if not found:
        return ""
    places = [one.place for one in found if one.place is not None]
    seconds = median(one.seconds for one in found)
    return f"; half of them within {seconds:.2f} s and {median(places):,.0f} transactions"


def trials_document(facts: TrialsFacts) -> dict[str, Any]:
    """The same for programs."""
    found = [one for one in facts.trials if one.anomaly]
    return {
        "database": facts.database,
        "isolation": facts.isolation,
        "claims": facts.claims.value,
        "workload": facts.workload,
        "sessions": facts.sessions,
        "found": len(found),
        "median_seconds": round(median(one.seconds for one in found), 6) if found else None,
        "trials": [
            {
                "seed": one.seed,
                "verdict": one.verdict,
                "anomaly": one.anomaly or None,
                "seconds": round(one.seconds, 6),
                "place": one.place,
                "committed": one.committed,
                "history": one.history,
            }
            for one in facts.trials
        ],
    }
