"""What a run of an application showed: for a terminal and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isolde.databases import Offer
from isolde.engines.record import Outcome
from isolde.engines.record.application import Broken
from isolde.visible import Paint, safe_lines
from isolde.workloads.application import Application, Scale

_FAILURES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class ApplicationFacts:
    """A run that is over. ``quiet_points`` is how often the invariants were looked at; tables that stay begin with ``kept``."""

    database: str
    application: Application
    scale: Scale
    offers: Mapping[str, Offer]
    sessions: int
    seed: int
    outcome: Outcome
    quiet_points: int
    broken: tuple[Broken, ...]
    failed: Counter[str]
    history: Path
    kept: str | None = None

    @property
    def ended_well(self) -> bool:
        """Whether the run came to its end, so that the invariants were looked at there too."""
        return self.outcome.failure is None and not self.outcome.interrupted

    @property
    def tested(self) -> bool:
        """Whether anything was done that could have broken an invariant, and looked at."""
        return (
            bool(self.application.invariants)
            and self.quiet_points > 0
            and self.outcome.tally.committed + self.outcome.tally.unknown > 0
        )


def render_application(facts: ApplicationFacts, paint: Paint = lambda text, _: text) -> str:
    """The whole report."""
    return safe_lines(lambda safely: _report(facts, safely), paint)


def _report(facts: ApplicationFacts, paint: Paint) -> list[str]:
    tally, application = facts.outcome.tally, facts.application
    ended = tally.committed + tally.aborted + tally.unknown
    rate = ended / facts.outcome.seconds if facts.outcome.seconds else 0.0
    lines = [
        f"{facts.database} runs {application.name}{_levels(facts.offers)}",
        f"  sizes      {', '.join(f'{name} {size:,}' for name, size in facts.scale.items()) or 'none'}",
        f"  mix        {', '.join(f'{name} {weight:g}' for name, weight in application.mix.items())}",
        f"  ran        {facts.outcome.seconds:.1f} s, {facts.sessions} sessions, seed {facts.seed}, {rate:,.0f} transactions a"
        f" second: {tally.committed:,} committed, {tally.aborted:,} aborted, {tally.unknown:,} unknown",
        f"  history    {facts.history}",
    ]
    if tally.reconnected:
        lines.append(f"  lost       {tally.reconnected:,} connections; each one that followed is a session of its own")
    if facts.kept is not None:
        lines.append(f"  kept       the tables {facts.kept}…")
    for text, count in facts.failed.most_common(_FAILURES_SHOWN):
        lines.append(f"  gave up    {count:,} x {text}")
    lines.append(f"  invariants {_held(facts)}")
    for entry in facts.broken:
        lines.append(f"  {paint('BROKEN', 'red')} {entry.name} after {entry.after:,} transactions: {entry.meaning}")
        for row in entry.rows:
            lines.append("    " + ", ".join(f"{name} {value}" for name, value in zip(entry.columns, row, strict=True)))
    return lines


def application_document(facts: ApplicationFacts) -> dict[str, Any]:
    """The same for programs."""
    tally = facts.outcome.tally
    return {
        "run": {
            "database": facts.database,
            "workload": facts.application.name,
            "scale": dict(facts.scale),
            "mix": facts.application.mix,
            "levels": {name: offer.called for name, offer in facts.offers.items()},
            "sessions": facts.sessions,
            "seed": facts.seed,
            "seconds": round(facts.outcome.seconds, 6),
            "committed": tally.committed,
            "aborted": tally.aborted,
            "unknown": tally.unknown,
            "reconnected": tally.reconnected,
            "gave_up": dict(facts.failed),
            "history": str(facts.history),
            "kept": facts.kept,
            "interrupted": facts.outcome.interrupted,
            "failure": None if facts.outcome.failure is None else str(facts.outcome.failure),
        },
        "quiet_points": facts.quiet_points,
        "invariants": [
            {
                "name": invariant.name,
                "meaning": invariant.meaning,
                "broken": [
                    {
                        "after": entry.after,
                        "columns": list(entry.columns),
                        "rows": [[None if value is None else str(value) for value in row] for row in entry.rows],
                    }
                    for entry in facts.broken
                    if entry.name == invariant.name
                ],
            }
            for invariant in facts.application.invariants
        ],
    }


def _held(facts: ApplicationFacts) -> str:
    total, points = len(facts.application.invariants), facts.quiet_points
    if not total:
        return "none: nothing was checked"
    if not points:
        return "were not looked at: the run ended before its first quiet point"
    held = f"{total - len(facts.broken)} of {total} held at {points:,} quiet point{'' if points == 1 else 's'}"
    end = "the end included" if facts.ended_well else "the end not included"
    nothing = "" if facts.tested else ", but no transaction was committed: nothing was tested"
    return f"{held}, {end}{nothing}"


def _levels(offers: Mapping[str, Offer]) -> str:
    kinds: dict[str, list[str]] = {}
    for name, offer in offers.items():
        kinds.setdefault(offer.called, []).append(name)
    if len(kinds) == 1:
        return f" at {next(iter(kinds))}"
    return ": " + "; ".join(f"{', '.join(names)} at {called}" for called, names in kinds.items())
