"""Does a history satisfy isolation levels, and if not, why? From a file, or from transactions in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from isolde._core import AS_USUAL, BUDGET, Columns, Reading
from isolde.engines.check import check, cut_out, exhibited, frontier
from isolde.findings import Finding, HistorySubject, Report, Verdict
from isolde.formats import decode, encode, is_sql, read
from isolde.formats.certificates import CertificateFile, PlacedCertificate, open_certificate
from isolde.history import History
from isolde.history.certificate import Certificate
from isolde.levels import LEVELS, Level, level_named

if TYPE_CHECKING:
    from isolde.campaigns.certificate import Judging
    from isolde.engines.certify import Judge

ALL = "all"


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How a history is judged.

    ``names`` are levels by long or short name; ``all`` asks for every one that the history can decide. ``every`` asks for an
    anomaly of each strongly connected component, ``order`` for the order that explains a satisfied level; ``budget`` is the
    number of steps that a search may take for one level. ``serialization_order`` takes the order that the database itself gave as
    a claim, which is replayed. ``both`` asks the search by values beside a certificate, whatever that says.
    """

    names: tuple[str, ...] = (Level.SERIALIZABLE.value,)
    session_order: bool = True
    judge_aborted: bool = False
    every: bool = False
    order: bool = False
    budget: int = BUDGET
    serialization_order: bool = False
    both: bool = False
    judge: Judge | None = None
    """Who says what conditions match, if not the core."""

    def __post_init__(self) -> None:
        """Unknown names are refused before a file is read."""
        levels_named(self.names)


def levels_named(names: Iterable[str]) -> list[Level]:
    """The levels asked for, in that order; ``all`` stands for every level of the table, weakest first."""
    wanted: list[Level] = []
    for name in names:
        found = [entry.level for entry in LEVELS] if name == ALL else [level_named(name)]
        wanted += [level for level in found if level not in wanted]
    return wanted


@dataclass(frozen=True, slots=True)
class Witness:
    """The transactions of an anomaly as a history of their own, with their part of the certificate if there is one."""

    history: History
    certificate: Certificate | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """A report, and the history that it is about."""

    report: Report
    columns: Columns
    options: CheckOptions
    certificate: PlacedCertificate | CertificateFile | None = None

    def witness(self) -> Witness | None:
        """The transactions of the first anomaly, violated in the same way by themselves; ``None`` if there is none."""
        for finding in self.report.findings:
            if finding.anomalies and self.certificate is not None:
                return self._certified(finding, self.certificate)
            if finding.anomalies:
                history = cut_out(
                    self.columns,
                    finding.level,
                    finding.anomalies[0],
                    session_order=self.options.session_order,
                    judge_aborted=self.options.judge_aborted,
                )
                return Witness(history)
        return None

    def _certified(self, finding: Finding, certificate: PlacedCertificate | CertificateFile) -> Witness:
        from isolde.engines.certify import parts

        placed = certificate.read() if isinstance(certificate, CertificateFile) else certificate
        anomaly = finding.anomalies[0]
        options = replace(self.options, names=(finding.level.value,), every=False, order=False, both=False)
        for history, told in parts(self.columns, placed, sorted({*anomaly.positions, *anomaly.also_needed})):
            again = check_columns(encode(history), options, certificate=PlacedCertificate(told)).report.findings[0]
            if again.anomalies and again.anomalies[0].name == anomaly.name:
                return Witness(history, told)
        return Witness(decode(self.columns), placed.certificate)


def check_file(
    path: str,
    options: CheckOptions,
    *,
    format: str | None = None,
    reading: Reading = AS_USUAL,
    certificate: str | None = None,
) -> Checked:
    """Reads the history at ``path`` (``-`` is standard input) and decides its levels, by the certificate if one is named."""
    columns = read(path, format, reading)
    placed = None if certificate is None else open_certificate(certificate)
    return check_columns(columns, options, path, placed)


def check_columns(
    columns: Columns,
    options: CheckOptions,
    name: str = "history",
    certificate: PlacedCertificate | CertificateFile | None = None,
) -> Checked:
    """Decides the levels of a history that is in memory; ``name`` is what the report calls it."""
    if certificate is None and options.serialization_order and is_sql(columns):
        # Statements are replayed by what they mean: the history's own serial order is all that is told.
        certificate = PlacedCertificate(Certificate(), name)
    report = exhibited(decided_levels(columns, options, certificate), columns)
    return finished(report, columns, options, name, certificate)


def decided_levels(
    columns: Columns, options: CheckOptions, certificate: PlacedCertificate | CertificateFile | None = None
) -> Report:
    """A finding for each level asked about, in that order, be it decided or not."""
    levels = levels_named(options.names)
    judging: Judging = {
        "session_order": options.session_order,
        "judge_aborted": options.judge_aborted,
        "every": options.every,
        "order": options.order,
        "budget": options.budget,
    }
    if certificate is None:
        return check(columns, levels, **judging, serialization_order=options.serialization_order)
    from isolde.campaigns.certificate import check_certified

    return check_certified(columns, certificate, levels, judging, both=options.both, judge=options.judge)


def finished(
    report: Report,
    columns: Columns,
    options: CheckOptions,
    name: str,
    certificate: PlacedCertificate | CertificateFile | None = None,
) -> Checked:
    """The report as people get it: with the line between the levels if all were asked about, and with what to type."""
    if ALL in options.names:
        line = frontier(report.findings)
        report = _decided(report, {level_named(name) for name in options.names if name != ALL})
        report = replace(report, facts=(*report.facts, line))
    by = "" if certificate is None or certificate.file == name else f"--certificate {certificate.file} "
    findings = [
        replace(finding, reproduce=f"isolde check --level {finding.level.value} {by}{name}")
        for finding in report.findings
    ]
    report = replace(report, subject=HistorySubject(name, report.size), findings=tuple(findings))
    return Checked(report, columns, options, certificate)


def _decided(report: Report, by_name: set[Level]) -> Report:
    """Without what ``all`` asked for in vain; if nothing was decided, everything stays, with its reasons."""
    kept = [f for f in report.findings if f.verdict is not Verdict.UNDECIDED or f.level in by_name]
    return replace(report, findings=tuple(kept) or report.findings)
