"""A log of SQL that is judged in parts which have no table and no session in common, or level by level, by workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from isolde._core import AS_USUAL, Columns, Reading
from isolde.campaigns.audit import AuditQuestion, audit_columns, log_subject
from isolde.engines.audit.apart import parts_by_tables
from isolde.findings import Report, Spent, Verdict
from isolde.formats import decode, read
from isolde.formats.tables import sql_history
from isolde.scale.workers import Workers, spread

PARTS_A_WORKER = 2


@dataclass(frozen=True, slots=True)
class _Job:
    """A level of a part, or of the whole log (``None``)."""

    level: int
    part: int | None
    text: bytes
    question: AuditQuestion
    name: str
    reading: Reading


def audit_apart(
    path: str, question: AuditQuestion, workers: Workers, *, format: str | None = None, reading: Reading = AS_USUAL
) -> Report:
    """As ``audit_file``. A level that all parts explain is explained; of any other the whole log is judged."""
    columns = read(path, format, reading)
    names = question.options().levels
    parts = _parts(columns, question, path, PARTS_A_WORKER * workers.count)
    texts = [(None, columns.to_jsonl())] if parts is None else [*enumerate(map(columns.to_jsonl, parts))]
    jobs = [
        _Job(level, part, text, replace(question, names=(name,)), path, reading)
        for level, name in enumerate(names)
        for part, text in texts
    ]
    found: dict[int, list[Report]] = {}
    for job, report in spread(workers, _judged, jobs):
        found.setdefault(job.level, []).append(report)
    reports = [
        found[level][0]
        if parts is None
        else _joined(found[level]) or audit_columns(columns, replace(question, names=(name,)), path, reading)
        for level, name in enumerate(names)
    ]
    exhibit = {one.id: one for report in reports for one in report.exhibit}
    findings = tuple(finding for report in reports for finding in report.findings)
    return Report(log_subject(columns, path), findings, tuple(exhibit.values()))


def _judged(job: _Job) -> Report:
    """What a worker does."""
    return audit_columns(Columns.from_jsonl(job.text, job.name), job.question, job.name, job.reading)


def _parts(columns: Columns, question: AuditQuestion, name: str, most: int) -> list[list[int]] | None:
    return parts_by_tables(sql_history(decode(columns), name), question.options(), most)


def _joined(reports: Sequence[Report]) -> Report | None:
    """The report of a level that all parts explain; ``None`` if they do not: what is wrong is told of the whole log."""
    findings = [finding for report in reports for finding in report.findings]
    if any(finding.verdict is not Verdict.SATISFIED for finding in findings):
        return None
    counts: dict[str, int] = {}
    for finding in findings:
        for what, count in finding.spent.counts:
            counts[what] = counts.get(what, 0) + count
    spent = Spent(sum(finding.seconds for finding in findings), tuple(counts.items()))
    return replace(reports[0], findings=(replace(findings[0], spent=spent),))
