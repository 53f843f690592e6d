"""What a run of an application showed: for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from isolde.findings import ApplicationFacts, BrokenInvariant, Report
from isolde.report.run import at_most, certificate_document, given_up
from isolde.visible import Paint, safe_lines

_FAILURES_SHOWN = 3


def render_application(report: Report, paint: Paint = lambda text, _: text) -> str:
    """The whole report."""
    facts = _facts(report)
    return safe_lines(lambda safely: _report(facts, _broken(report), safely), paint)


def _facts(report: Report) -> ApplicationFacts:
    facts = report.fact(ApplicationFacts)
    assert facts is not None, "a run of an application has its facts"
    return facts


def _broken(report: Report) -> list[BrokenInvariant]:
    """What was seen broken, first what was seen first."""
    shown = [part for finding in report.findings for part in finding.evidence if isinstance(part, BrokenInvariant)]
    return sorted(shown, key=lambda entry: entry.after or 0)


def written_last(broken: BrokenInvariant, place: int) -> str:
    """Which transactions are behind an offending row, for the end of its line."""
    writers = broken.last[place] if broken.last else ()
    named = [f"{name} ({kind})" if kind else str(name) for name, kind in writers]
    return f"; written last by {' and '.join(named)}, as far as the log tells" if named else ""


def _report(facts: ApplicationFacts, broken: list[BrokenInvariant], paint: Paint) -> list[str]:
    ran = facts.ran
    rate = ran.ended / ran.seconds if ran.seconds else 0.0
    lines = [
        f"{facts.database} runs {facts.application}{_levels(facts.levels)}",
        f"  sizes      {', '.join(f'{name} {size:,}' for name, size in facts.scale) or 'none'}",
        f"  mix        {', '.join(f'{name} {weight:g}' for name, weight in facts.mix)}",
        f"  ran        {ran.seconds:.1f} s, {facts.sessions} sessions{at_most(facts.at_once)}, seed {facts.seed},"
        f" {rate:,.0f} transactions a second: {ran.committed:,} committed, {ran.aborted:,} aborted, {ran.unknown:,} unknown"
        + given_up(ran),
        f"  history    {facts.history}",
    ]
    if facts.certificate is not None:
        told = facts.certificate
        lines.append(f"  certified  in {told.seconds:.2f} s by {told.source}: {told.file}")
    if ran.reconnected:
        lines.append(f"  lost       {ran.reconnected:,} connections; each one that followed is a session of its own")
    if facts.kept is not None:
        lines.append(f"  kept       the tables {facts.kept}…")
    for text, count in sorted(facts.gave_up, key=lambda entry: -entry[1])[:_FAILURES_SHOWN]:
        lines.append(f"  gave up    {count:,} x {text}")
    lines.append(f"  invariants {_held(facts, len(broken))}")
    for entry in broken:
        lines.append(
            f"  {paint('BROKEN', 'red')} {entry.check} after {entry.after:,} transactions: {entry.explanation}"
        )
        for place, row in enumerate(entry.rows):
            shown = ", ".join(f"{name} {value}" for name, value in zip(entry.columns, row, strict=True))
            lines.append(f"    {shown}{written_last(entry, place)}")
    return lines


def application_document(report: Report) -> dict[str, Any]:
    """The same for programs."""
    facts, broken = _facts(report), _broken(report)
    ran = facts.ran
    return {
        "run": {
            "database": facts.database,
            "workload": facts.application,
            "scale": dict(facts.scale),
            "mix": dict(facts.mix),
            "levels": dict(facts.levels),
            "sessions": facts.sessions,
            **({} if facts.at_once is None else {"at_once": facts.at_once}),
            "seed": facts.seed,
            "seconds": round(ran.seconds, 6),
            "committed": ran.committed,
            "aborted": ran.aborted,
            "unknown": ran.unknown,
            "reconnected": ran.reconnected,
            "gave_up": dict(facts.gave_up),
            "history": facts.history,
            "kept": facts.kept,
            "interrupted": ran.interrupted,
            "failure": ran.failure,
            "certificate": certificate_document(facts.certificate),
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
                        "rows": [list(row) for row in entry.rows],
                        "last": [[{"transaction": name, "name": kind} for name, kind in row] for row in entry.last],
                    }
                    for entry in broken
                    if entry.check == invariant.name
                ],
            }
            for invariant in facts.invariants
        ],
    }


def _held(facts: ApplicationFacts, broken: int) -> str:
    total, points = len(facts.invariants), facts.quiet_points
    if not total:
        return "none: nothing was checked"
    if not points:
        return "were not looked at: the run ended before its first quiet point"
    held = f"{total - broken} of {total} held at {points:,} quiet point{'' if points == 1 else 's'}"
    end = "the end included" if facts.ended_well else "the end not included"
    nothing = "" if facts.tested else ", but no transaction was committed: nothing was tested"
    return f"{held}, {end}{nothing}"


def _levels(levels: Iterable[tuple[str, str]]) -> str:
    kinds: dict[str, list[str]] = {}
    for name, called in levels:
        kinds.setdefault(called, []).append(name)
    if len(kinds) == 1:
        return f" at {next(iter(kinds))}"
    return ": " + "; ".join(f"{', '.join(names)} at {called}" for called, names in kinds.items())
