"""What a run was, before its verdict: for a terminal and as JSON."""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import Any

from isolde.findings import CertificateFacts, LostWrite, Met, Ran, RunFacts, SqlRunFacts
from isolde.visible import WIDTH, fitted, visible

_LOST_SHOWN = 5
_COUNTERS = "counter"


def render_run(facts: RunFacts, met: Met | None = None) -> str:
    """The head of the report: what ran where, how it went, where it is; and which command shows what was met."""
    ran = facts.ran
    note = f" ({facts.note})" if facts.note else ""
    lines = [
        f"{facts.database} at {facts.isolation}, which claims {facts.claims.value}{note}",
        f"  workload   {facts.workload}: {facts.sessions} sessions{at_most(facts.at_once)}, {facts.keys:,} keys,"
        + f" {facts.distribution}"
        + (f", {facts.deletes:.0%} of the writes are deletes" if facts.deletes else "")
        + f", seed {facts.seed}",
        f"  ran        {ran.seconds:.1f} s, {_rate(ran.ended, ran.seconds):,.0f} transactions a second:"
        f" {ran.committed:,} committed, {ran.aborted:,} aborted ({_share(ran.aborted, ran.ended):.1%}),"
        f" {ran.unknown:,} unknown" + given_up(ran),
        f"  checked    in {facts.check_seconds:.2f} s{_how(facts)}",
        f"  again      {facts.again}",
    ]
    if ran.reconnected:
        lines.insert(3, f"  lost       {ran.reconnected:,} connections; each one that followed is a session of its own")
    if facts.certificate is not None:
        told = facts.certificate
        lines.insert(-2, f"  certified  in {told.seconds:.2f} s by {told.source}: {told.file}")
    if facts.shapes:
        lines.insert(2, f"  tables     {'; '.join(facts.shapes)}")
    if facts.faults:
        counts = Counter(event.fault for event in facts.faults)
        lines.append("  faults     " + ", ".join(f"{count} x {name}" for name, count in counts.items()))
        lines.append(f"  durable    {_durable(facts.lost)}")
        lines += [f"    {lost.sentence}" for lost in (facts.lost or ())[:_LOST_SHOWN]]
    if met is not None:
        file = facts.history if facts.windows is None else facts.windows.last
        lines.append(f"  again      isolde check --level {met.level.value} {file}    # shows the {met.anomaly.name}")
    if facts.table is not None:
        lines.append(f"  kept       the table {facts.table}")
    shown = textwrap.wrap(visible(facts.lead), WIDTH) if facts.lead else []
    for line in map(visible, lines):
        # Commands stay in one piece.
        shown += [line] if line.startswith("  again") else _wrapped(line)
    return "\n".join(shown)


def _wrapped(line: str) -> list[str]:
    later = " " * 13 if line.startswith("  ") else "  "
    return textwrap.wrap(line, WIDTH, subsequent_indent=later, break_on_hyphens=False, break_long_words=False)


def run_document(facts: RunFacts) -> dict[str, Any]:
    """What ``isolde run --json`` says beside the verdicts."""
    ran = facts.ran
    return {
        "run": {
            **({"lead": facts.lead} if facts.lead else {}),
            "database": facts.database,
            "isolation": facts.isolation,
            "claims": facts.claims.value,
            "workload": facts.workload,
            "sessions": facts.sessions,
            **({} if facts.at_once is None else {"at_once": facts.at_once}),
            "keys": facts.keys,
            "distribution": facts.distribution,
            **({"shapes": list(facts.shapes)} if facts.shapes else {}),
            "seed": facts.seed,
            "seconds": round(ran.seconds, 6),
            "check_seconds": round(facts.check_seconds, 6),
            "committed": ran.committed,
            "aborted": ran.aborted,
            "unknown": ran.unknown,
            "given_up": ran.given_up,
            "reconnected": ran.reconnected,
            "faults": [
                {"fault": event.fault, "begun": round(event.begun, 3), "healed": round(event.healed, 3)}
                for event in facts.faults
            ],
            "lost": None
            if facts.lost is None
            else [
                {"key": lost.key, "transaction": lost.transaction, "value": lost.value, "found": lost.found}
                for lost in facts.lost
            ],
            "history": facts.history,
            "windows": None
            if facts.windows is None
            else {
                "count": facts.windows.count,
                "undecided": facts.windows.undecided,
                "last": facts.windows.last,
            },
            "certificate": certificate_document(facts.certificate),
            "check": facts.again,
        }
    }


def render_sql_run(facts: SqlRunFacts) -> str:
    """The head of the report of random SQL."""
    ran = facts.ran
    note = f" ({facts.note})" if facts.note else ""
    lines = [
        f"{facts.database} at {facts.isolation}, which claims {facts.claims.value}{note}",
        f"  workload   sql: {facts.rounds:,} rounds of up to {facts.sessions} sessions and {facts.tables} tables,"
        f" seed {facts.seed}",
        f"  ran        {ran.seconds:.1f} s: {ran.committed:,} transactions committed, {ran.aborted:,} aborted",
        f"  judged     in {facts.check_seconds:.2f} s, every answer",
    ]
    return "\n".join(fitted(visible(line)) for line in lines)


def sql_run_document(facts: SqlRunFacts) -> dict[str, Any]:
    """What ``isolde run --workload sql --json`` says beside the verdicts."""
    ran = facts.ran
    return {
        "run": {
            "database": facts.database,
            "isolation": facts.isolation,
            "claims": facts.claims.value,
            "workload": "sql",
            "sessions": facts.sessions,
            "tables": facts.tables,
            "seed": facts.seed,
            "seconds": round(ran.seconds, 6),
            "check_seconds": round(facts.check_seconds, 6),
            "rounds": facts.rounds,
            "committed": ran.committed,
            "aborted": ran.aborted,
            "history": facts.history,
        }
    }


def at_most(at_once: int | None) -> str:
    """How many sessions might be busy at one time, for the middle of a sentence."""
    return "" if at_once is None else f" (at most {at_once} at once)"


def given_up(ran: Ran) -> str:
    """What was tried again and again in vain, for the end of a sentence."""
    if not ran.given_up:
        return ""
    plans = "plan was" if ran.given_up == 1 else "plans were"
    return f"; {ran.given_up:,} {plans} given up, aborted each time"


def certificate_document(told: CertificateFacts | None) -> dict[str, Any] | None:
    """The certificate of a run, if there is one."""
    if told is None:
        return None
    return {"file": told.file, "source": told.source, "seconds": round(told.seconds, 6)}


def _how(facts: RunFacts) -> str:
    """How it was checked, if not whole; what follows is about the last window."""
    if facts.workload == _COUNTERS:
        return ", every read and the final values"
    windows = facts.windows
    if windows is None:
        return ", at every level"
    undecided = f", {windows.undecided:,} of them undecided" if windows.undecided else ""
    return (
        f", at every level; in {windows.count:,} windows, each by itself from a point at which all sessions read all"
        f" keys{undecided}; below is the last one"
    )


def _durable(lost: tuple[LostWrite, ...] | None) -> str:
    if lost is None:
        return "not known: the database could not be read after the last fault"
    if not lost:
        return "everything that was committed could be read after the last fault"
    return f"LOST: {len(lost)} keys went back behind what was committed"


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
