"""Could a correct database have given these answers to these transactions? The door of the engine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from isolde.engines.audit.decide import Decision, decide
from isolde.engines.audit.log import Log, Refused, log_of
from isolde.engines.audit.readings import READINGS, WEAKER, Reading, reading_of
from isolde.engines.audit.search import Allowance, End
from isolde.engines.audit.violation import blame, core, failing_prefix, witness_order
from isolde.findings import (
    AtLevel,
    Evidence,
    FailingPrefix,
    Finding,
    LeftOut,
    LogExplained,
    LogOrder,
    LogSubject,
    NotProved,
    Report,
    Spent,
    Verdict,
)
from isolde.formats.tables import SqlHistory
from isolde.history import Status
from isolde.levels import Level

BUDGET = 200_000
"""Placements of transactions that a search may make for one level."""
_VERDICTS = {End.FOUND: Verdict.SATISFIED, End.NONE: Verdict.VIOLATED, End.SPENT: Verdict.UNDECIDED}


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """How a log is judged. ``levels`` are the levels of the literature that are asked for; ``paper``: as the paper defines them.

    ``order``: name the order that explains a satisfied level. ``budget`` bounds a search in placements, ``seconds`` each level.
    """

    levels: tuple[Level, ...] = (Level.SERIALIZABLE,)
    paper: bool = False
    session_order: bool = True
    skip_unsupported: bool = False
    budget: int = BUDGET
    seconds: float | None = None
    order: bool = False


def audit(history: SqlHistory, options: AuditOptions, name: str = "log") -> Report:
    """Judges a log at each level that is asked for."""
    readings = [replace(reading_of(level), paper=options.paper) for level in options.levels]
    subject = LogSubject(
        name,
        len(history.transactions),
        sum(one.status is Status.COMMITTED for one in history.transactions),
        sum(len(one.ops) for one in history.transactions),
    )
    try:
        log = log_of(
            history,
            skip_unsupported=options.skip_unsupported,
            session_order=options.session_order and not options.paper,
        )
    except Refused as refused:
        what = refused.what
        reason = f"statement {what.statement} of {what.transaction}: {what.reason}; --skip-unsupported leaves it out"
        findings = [
            Finding(LogExplained(AtLevel(reading.level)), Verdict.UNDECIDED, "replay", evidence=(NotProved(reason),))
            for reading in readings
        ]
        return Report(subject, tuple(findings))
    return Report(subject, tuple(_judged(log, reading, options) for reading in readings))


def _judged(log: Log, reading: Reading, options: AuditOptions) -> Finding:
    began = time.monotonic()
    deadline = None if options.seconds is None else began + options.seconds
    allowance = Allowance(options.budget, deadline)
    found = decide(log, reading, allowance)
    evidence = _evidence(log, reading, options, found, allowance)
    if log.left_out:
        texts = tuple(f"statement {one.statement} of {one.transaction}: {one.reason}" for one in log.left_out)
        evidence = (*evidence, LeftOut(texts))
    return Finding(
        LogExplained(AtLevel(reading.level)),
        _VERDICTS[found.end],
        found.method,
        Spent(time.monotonic() - began, (("explored", found.steps),)),
        evidence,
    )


def _evidence(
    log: Log, reading: Reading, options: AuditOptions, found: Decision, allowance: Allowance
) -> tuple[Evidence, ...]:
    if found.end is End.SPENT:
        return (NotProved(found.reason),)
    if found.end is End.FOUND:
        return (LogOrder(*witness_order(log, found.witness)),) if options.order else ()
    length = failing_prefix(log, reading, allowance) or len(log.entries)
    wrong = blame(log, reading, length, allowance)
    explained, open_levels = explaining(log, reading, allowance)
    sentence = wrong.sentence[0].upper() + wrong.sentence[1:]
    if explained:
        sentence += f" {_listed(explained)} explains the log."
    elif open_levels:
        sentence += f" Whether {_listed(open_levels)} explains the log was not decided."
    return (
        FailingPrefix(
            length,
            log.entries[length - 1].id,
            wrong.statement,
            wrong.expected,
            wrong.observed,
            "isolation" if explained or open_levels else "semantic",
            sentence,
            tuple(entry.id for entry in core(log, reading, length)),
            tuple(explained),
        ),
    )


def explaining(log: Log, reading: Reading, allowance: Allowance) -> tuple[list[str], list[str]]:
    """The strongest of the levels below this one that explain the log, and those that were not decided."""
    explained: list[Level] = []
    undecided: list[Level] = []
    asked: dict[Level, End] = {}
    todo: list[Level] = list(WEAKER[reading.level])
    while todo:
        one = todo.pop(0)
        if one in asked:
            continue
        asked[one] = decide(
            log, replace(READINGS[one], paper=reading.paper), Allowance(allowance.steps, allowance.deadline)
        ).end
        if asked[one] is End.FOUND:
            explained.append(one)
            continue
        if asked[one] is End.SPENT:
            undecided.append(one)
        todo += WEAKER[one]
    below = {lower for one in explained for lower in _below(one)}
    return [one.value for one in explained if one not in below], [one.value for one in undecided]


def _below(level: Level) -> set[Level]:
    found: set[Level] = set()
    for one in WEAKER[level]:
        found |= {one} | _below(one)
    return found


def _listed(names: Sequence[str]) -> str:
    return " or ".join(names)
