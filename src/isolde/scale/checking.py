"""A history that is checked in parts which have no key and no session in common, by workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from isolde._core import AS_USUAL, Columns, Reading
from isolde.campaigns.check import Checked, CheckOptions, check_columns, decided_levels, finished, levels_named
from isolde.engines.check import exhibited, size_of
from isolde.errors import UsageError
from isolde.findings import (
    Anomaly,
    Evidence,
    EvidenceUsed,
    Finding,
    HistorySubject,
    Report,
    Spent,
    Verdict,
)
from isolde.formats import read
from isolde.levels import Level
from isolde.scale.workers import Workers, spread

PARTS_A_WORKER = 4
"""Parts are of about equal size, and yet one may take much longer than another."""


@dataclass(frozen=True, slots=True)
class _Job:
    number: int
    text: bytes
    options: CheckOptions
    name: str


def check_apart(
    path: str, options: CheckOptions, workers: Workers, *, format: str | None = None, reading: Reading = AS_USUAL
) -> Checked:
    """As ``check_file``: the verdicts are the same; of several violations another one may be shown."""
    if options.serialization_order or options.order:
        raise UsageError(
            "--witness-order and --serialization-order are about one order of all transactions; leave --workers out"
        )
    columns = read(path, format, reading)
    # A linearization is one of each key, whatever the sessions.
    by_session = options.session_order and levels_named(options.names) != [Level.LINEARIZABLE]
    parts = columns.components(PARTS_A_WORKER * workers.count, session_order=by_session)
    if parts is None:
        return check_columns(columns, options, path)
    places = [rows for rows, _ in parts]
    jobs = [_Job(number, text, options, path) for number, (_, text) in enumerate(parts)]
    found = dict[int, Report]()
    for job, report in spread(workers, _checked, jobs):
        found[job.number] = _placed(report, places[job.number])
    joined = _joined(columns, [found[number] for number in range(len(parts))], every=options.every)
    return finished(joined, columns, options, path)


def _checked(job: _Job) -> Report:
    """What a worker does."""
    columns = Columns.from_jsonl(job.text, job.name)
    return exhibited(decided_levels(columns, job.options), columns)


def _placed(report: Report, rows: Sequence[int]) -> Report:
    """With the places that transactions have in the whole history."""

    def placed(shown: Evidence) -> Evidence:
        if not isinstance(shown, Anomaly):
            return shown
        positions = tuple(rows[place] for place in shown.positions)
        return replace(shown, positions=positions, also_needed=tuple(rows[place] for place in shown.also_needed))

    findings = [replace(one, evidence=tuple(map(placed, one.evidence))) for one in report.findings]
    return replace(report, findings=tuple(findings))


def _joined(columns: Columns, reports: Sequence[Report], *, every: bool) -> Report:
    """One report of all parts: a level is violated if it is in any, and satisfied if it is in all."""
    answers = zip(*(report.findings for report in reports), strict=True)
    findings = [_worst(of_level, every=every) for of_level in answers]
    known = [report.known for report in reports if report.known is not None]
    facts = (_summed(known),) if known else ()
    exhibit = tuple(transaction for report in reports for transaction in report.exhibit)
    return Report(HistorySubject(columns.name, size_of(columns)), tuple(findings), exhibit, facts)


def _worst(findings: Sequence[Finding], *, every: bool) -> Finding:
    """The answer for the whole, with the first anomaly, or with those of all parts."""
    worst = min((one.verdict for one in findings), key=_SERIOUS.index)
    shown = [one for one in findings if one.verdict is worst]
    told = shown if every and worst is Verdict.VIOLATED else shown[:1]
    evidence = tuple(part for one in told for part in one.evidence)
    return replace(shown[0], spent=Spent(sum(one.seconds for one in findings)), evidence=evidence)


_SERIOUS = (Verdict.VIOLATED, Verdict.UNDECIDED, Verdict.SATISFIED)


def _summed(known: Sequence[EvidenceUsed]) -> EvidenceUsed:
    counts = [sum(getattr(one, name) for one in known) for name in _COUNTED]
    return EvidenceUsed(**dict(zip(_COUNTED, counts, strict=True)))


_COUNTED = ("so", "wr", "ww", "rw", "open_pairs", "told_ww", "told_rw")
