"""What a run was, before its verdict: for a terminal and as JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isolde.databases import Offer
from isolde.engines.record import Event, Lost, Outcome
from isolde.levels import Level, row
from isolde.visible import visible
from isolde.workloads import Settings

_LOST_SHOWN = 5


@dataclass(frozen=True, slots=True)
class WindowFacts:
    """A run that was checked in windows that stand on their own: how many, how many stayed undecided, where the last one is."""

    count: int
    undecided: int
    last: Path


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run that is over; ``table`` is the one that was left in the database.

    ``lost`` is what was committed and is gone; ``None`` if the database could not be asked for it any more.
    """

    database: str
    offer: Offer
    settings: Settings
    sessions: int
    outcome: Outcome
    check_seconds: float
    history: Path
    levels: tuple[Level, ...]
    table: str | None = None
    faults: tuple[Event, ...] = ()
    lost: tuple[Lost, ...] | None = ()
    windows: WindowFacts | None = None

    @property
    def again(self) -> str:
        """The command that checks the history again."""
        levels = " ".join(f"--level {row(level).short or level.value}" for level in self.levels)
        return f"isolde check {levels} {self.windows.last if self.windows else self.history}"


def render_run(facts: RunFacts) -> str:
    """The head of the report: what ran where, how it went, where it is."""
    tally, settings = facts.outcome.tally, facts.settings
    ended = tally.committed + tally.aborted + tally.unknown
    note = f" ({facts.offer.note})" if facts.offer.note else ""
    lines = [
        f"{facts.database} at {facts.offer.called}, which claims {facts.offer.claims.value}{note}",
        f"  workload   {settings.workload.name}: {facts.sessions} sessions, {settings.keys:,} keys, {settings.distribution}"
        + (f", {settings.deletes:.0%} of the writes are deletes" if settings.deletes else "")
        + f", seed {settings.seed}",
        f"  ran        {facts.outcome.seconds:.1f} s, {_rate(ended, facts.outcome.seconds):,.0f} transactions a second:"
        f" {tally.committed:,} committed, {tally.aborted:,} aborted ({_share(tally.aborted, ended):.1%}),"
        f" {tally.unknown:,} unknown",
        f"  checked    in {facts.check_seconds:.2f} s, at every level" + _in_windows(facts.windows),
        f"  again      {facts.again}",
    ]
    if tally.reconnected:
        lines.insert(
            3, f"  lost       {tally.reconnected:,} connections; each one that followed is a session of its own"
        )
    if facts.faults:
        counts = Counter(event.fault.value for event in facts.faults)
        lines.append("  faults     " + ", ".join(f"{count} x {name}" for name, count in counts.items()))
        lines.append(f"  durable    {_durable(facts.lost)}")
        lines += [f"    {lost.sentence}" for lost in (facts.lost or ())[:_LOST_SHOWN]]
    if facts.table is not None:
        lines.append(f"  kept       the table {facts.table}")
    return "\n".join(map(visible, lines))


def run_document(facts: RunFacts) -> dict[str, Any]:
    """What ``isolde run --json`` says beside the verdicts."""
    tally, settings = facts.outcome.tally, facts.settings
    return {
        "run": {
            "database": facts.database,
            "isolation": facts.offer.called,
            "claims": facts.offer.claims.value,
            "workload": settings.workload.name,
            "sessions": facts.sessions,
            "keys": settings.keys,
            "seed": settings.seed,
            "seconds": round(facts.outcome.seconds, 6),
            "check_seconds": round(facts.check_seconds, 6),
            "committed": tally.committed,
            "aborted": tally.aborted,
            "unknown": tally.unknown,
            "reconnected": tally.reconnected,
            "faults": [
                {"fault": event.fault.value, "begun": round(event.begun, 3), "healed": round(event.healed, 3)}
                for event in facts.faults
            ],
            "lost": None
            if facts.lost is None
            else [
                {"key": lost.key, "transaction": lost.transaction, "value": lost.value, "found": lost.found}
                for lost in facts.lost
            ],
            "history": str(facts.history),
            "windows": None
            if facts.windows is None
            else {
                "count": facts.windows.count,
                "undecided": facts.windows.undecided,
                "last": str(facts.windows.last),
            },
            "check": facts.again,
        }
    }


def _in_windows(windows: WindowFacts | None) -> str:
    """How it was checked, if not whole; what follows is about the last window."""
    if windows is None:
        return ""
    undecided = f", {windows.undecided:,} of them undecided" if windows.undecided else ""
    return (
        f"; in {windows.count:,} windows, each by itself from a point at which all sessions read all keys{undecided};"
        " below is the last one"
    )


def _durable(lost: tuple[Lost, ...] | None) -> str:
    if lost is None:
        return "not known: the database could not be read after the last fault"
    if not lost:
        return "everything that was committed could be read after the last fault"
    return f"LOST: {len(lost)} keys went back behind what was committed"


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
