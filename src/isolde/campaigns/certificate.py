"""A history judged by the database's own account of its order, and beside it by the search by values."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TypedDict

from isolde._core import Columns
from isolde.engines.certify import Certified, Completions, Judge, SecondOpinion, Told, certify, duplicate_write
from isolde.engines.check import Evidence, Shown, check
from isolde.errors import MistakeError
from isolde.findings import (
    Anomaly,
    ByOracle,
    Finding,
    HistoryLevel,
    HistorySize,
    HistorySubject,
    NotProved,
    Report,
    Spent,
    Verdict,
)
from isolde.formats.certificates import CertificateFile, PlacedCertificate
from isolde.levels import Level


class Judging(TypedDict):
    """How ``check`` is asked."""

    session_order: bool
    judge_aborted: bool
    every: bool
    order: bool
    budget: int


_BY_REPLAY = (Level.REPEATABLE_READ, Level.SERIALIZABLE, Level.STRICT_SERIALIZABLE)
_STRICT = (Level.STRICT_SERIALIZABLE, Level.STRICT_SNAPSHOT_ISOLATION)


def check_certified(
    columns: Columns,
    placed: PlacedCertificate | CertificateFile,
    levels: Sequence[Level],
    judging: Judging,
    *,
    both: bool = False,
    judge: Judge | None = None,
) -> Report:
    """Decides the levels by the certificate. With ``both``, or where it says "violated", the search by values is asked, too.

    ``judge`` says what conditions match, if not the core.
    """
    session_order = judging["session_order"]
    began = time.perf_counter()
    certified = certify(columns, placed, levels, session_order=session_order, judge=judge)
    told_seconds = time.perf_counter() - began

    def searched(level: Level) -> bool | None:
        """What the search by values alone says."""
        found = check(columns, [level], **judging)
        return {Verdict.SATISFIED: True, Verdict.VIOLATED: False}.get(found.findings[0].verdict)

    if certified.replay is not None and certified.oracle == "serialization-order":
        report = _by_replay(columns, certified, levels)
    else:
        serial = certified.serial if certified.oracle == "serialization-order" else None
        report = _by_told(certified.told, levels, judging, serial)
    if certified.completions is not None:
        report = _completed(report, certified.completions, judging)
    opinion = _second_opinion(columns, certified, session_order=session_order)
    findings = []
    for found in report.findings:
        finding = _undecided(found, columns) if certified.told.complete and _guessed(found) else found
        asked = both or finding.verdict is Verdict.VIOLATED
        judged = _judged(certified, finding, searched(finding.level) if asked else None, opinion)
        findings.append(replace(finding, evidence=(*finding.evidence, judged)))
    if findings:
        # What the certificate says is found out once, for all levels: it belongs to the first.
        findings[0] = replace(findings[0], spent=Spent(findings[0].seconds + told_seconds))
    return replace(report, subject=HistorySubject(columns.name, _size(columns)), findings=tuple(findings))


def _by_told(told: Told, levels: Sequence[Level], judging: Judging, serial: Sequence[int] | None = None) -> Report:
    if told.by_reads:
        return _by_reads_too(told, levels, judging, serial)
    shown = tuple(Shown(one.name, one.positions, one.sentence) for one in told.faults)
    evidence = replace(
        Evidence.of_edges(told.edges), versions=told.versions, serial=serial, shown=shown, undecided=told.undecided
    )
    report = check(told.columns, levels, **judging, evidence=evidence, serialization_order=serial is not None)
    if told.readable is not None and any(one.anomalies and one.method != "told" for one in report.findings):
        report = check(told.readable(), levels, **judging, evidence=evidence)
    return report


def _by_reads_too(told: Told, levels: Sequence[Level], judging: Judging, serial: Sequence[int] | None) -> Report:
    """The same where some edges follow from reads: read uncommitted is decided without them."""
    weakest, stronger = [level for level in levels if level is Level.READ_UNCOMMITTED], list(levels)
    for level in weakest:
        stronger.remove(level)
    reports = [
        _by_told(replace(told, edges=edges, by_reads=()), some, judging, serial)
        for edges, some in ((told.edges, weakest), ((*told.edges, *told.by_reads), stronger))
        if some
    ]
    found = {one.level: one for report in reports for one in report.findings}
    return replace(reports[-1], findings=tuple(found[level] for level in levels))


def _completed(report: Report, completions: Completions, judging: Judging) -> Report:
    """The levels that partial orders of rows leave open, decided by the orders that complete them: one that keeps a level is
    enough."""
    found = {one.level: one for one in report.findings if one.verdict is not Verdict.UNDECIDED}
    asked = [one.level for one in report.findings if one.verdict is Verdict.UNDECIDED]
    violated: dict[Level, Finding] = {}
    open_: dict[Level, Finding] = {}
    for told in completions.told(asked, judging["budget"]):
        left = [level for level in asked if level not in found]
        for one in _by_told(told, left, judging).findings:
            kept = {Verdict.SATISFIED: found, Verdict.VIOLATED: violated, Verdict.UNDECIDED: open_}[one.verdict]
            # An order that explains every answer shows more than one that does not.
            if one.level not in kept or (kept[one.level].method == "told" and one.method != "told"):
                kept[one.level] = one
        if all(level in found for level in asked):
            break
    for level in asked:
        if level in found:
            continue
        if completions.exhausted and level in violated and level not in open_:
            found[level] = violated[level]
        elif level in open_:
            found[level] = open_[level]
        else:
            tried = f"{completions.tried:,} order{'s' * (completions.tried != 1)}"
            reason = NotProved(
                completions.reason
                or f"the order of some rows is only partial, and none of the {tried} tried that complete it keeps the level;"
                " there are more (--budget)"
            )
            found[level] = Finding(HistoryLevel(level), Verdict.UNDECIDED, "search", evidence=(reason,))
    return replace(report, findings=tuple(found[one.level] for one in report.findings))


def _guessed(finding: Finding) -> bool:
    """Whether a level holds only if a search may choose who wrote what was read, which a certificate would have told."""
    return (
        finding.verdict is Verdict.SATISFIED
        and finding.method == "search"
        and finding.level is not Level.READ_UNCOMMITTED
    )


def _undecided(finding: Finding, columns: Columns) -> Finding:
    return replace(finding, verdict=Verdict.UNDECIDED, evidence=(NotProved(duplicate_write(columns)),))


def _judged(certified: Certified, finding: Finding, explainable: bool | None, opinion: str) -> ByOracle:
    if certified.oracle == "serialization-order" and finding.method != "serialization-order":
        return ByOracle("search", explainable)
    remarks = []
    if finding.verdict is Verdict.VIOLATED and explainable:
        remarks.append(
            "Some order of the transactions explains the values that were read, but not the one that the database tells: what was"
            " read is right by accident."
        )
    if finding.verdict is Verdict.SATISFIED and explainable is False:
        remarks.append("The search by values alone finds no order that explains what was read.")
    if certified.completions is not None and finding.verdict is Verdict.VIOLATED:
        remarks.append(
            "The order of some rows is told only in part. Every order that completes it breaks the level; this is shown for one."
        )
    # What the graph's own order says is about a graph without a cycle.
    asked = certified.serial is not None or finding.verdict is Verdict.SATISFIED
    if opinion and asked and finding.level in _BY_REPLAY:
        remarks.append(opinion)
    return ByOracle(certified.oracle, explainable, " ".join(remarks))


def _second_opinion(columns: Columns, certified: Certified, *, session_order: bool) -> str:
    """What the replay of a serial order says beside an order of versions, which decides: of the one that was told, or else of one
    that the dependency graph allows."""
    if certified.oracle != "certificate":
        return ""
    if certified.serial is None:
        return "" if certified.told.second is None else _of_graph(columns, certified.told.second)
    if certified.replay is not None:
        fault, undecided = certified.replay.fault, certified.replay.undecided
        if undecided:
            return f"The serial order that the database told could not be replayed: {undecided}."
        if fault is not None:
            return f"A second opinion: {fault.sentence}"
    else:
        evidence = Evidence(serial=certified.serial)
        found = check(
            columns, [Level.SERIALIZABLE], session_order=session_order, evidence=evidence, serialization_order=True
        ).findings[0]
        if found.verdict is not Verdict.SATISFIED:
            return "A second opinion: the serial order that the database told does not replay."
    return "A second opinion: the serial order that the database told replays."


def _of_graph(columns: Columns, second: SecondOpinion) -> str:
    if not second.differs:
        return "A second opinion: the transactions replay one after the other in an order that the dependency graph allows."
    if second.exact:
        raise MistakeError(
            f"{columns.name}: the dependency graph has no cycle, but in its order {second.differs}; please report this with the"
            " file and its certificate"
        )
    return (
        f"A second opinion: run one after the other in an order that the dependency graph allows, {second.differs}. The graph"
        " does not show that: it exchanges one version at a time, and several together may change what a statement finds."
    )


def _by_replay(columns: Columns, certified: Certified, levels: Sequence[Level]) -> Report:
    """The levels of a history of SQL tables that was replayed in the serial order that the database told."""
    assert certified.replay is not None
    replay, method = certified.replay, "serialization-order"
    findings = []
    for level in levels:
        fault = replay.strict if level in _STRICT else replay.fault
        question = HistoryLevel(level)
        if level is Level.READ_UNCOMMITTED:
            # Writes that come one after the other are in no circle, and reads are not judged.
            findings.append(Finding(question, Verdict.SATISFIED, method))
        elif replay.undecided:
            findings.append(Finding(question, Verdict.UNDECIDED, method, evidence=(NotProved(replay.undecided),)))
        elif level is Level.LINEARIZABLE:
            reason = NotProved("linearizable is about single keys, and statements are about tables")
            findings.append(Finding(question, Verdict.UNDECIDED, "none", evidence=(reason,)))
        elif fault is None:
            findings.append(Finding(question, Verdict.SATISFIED, method))
        elif level in _BY_REPLAY:
            names = tuple(columns.ids(fault.positions))
            shown = Anomaly(fault.name, names, (), fault.sentence, fault.positions)
            findings.append(Finding(question, Verdict.VIOLATED, method, evidence=(shown,)))
        else:
            reason = NotProved(
                "the serial order that the database told does not replay, and it tells no order of versions that would decide a"
                " weaker level"
            )
            findings.append(Finding(question, Verdict.UNDECIDED, method, evidence=(reason,)))
    return Report(HistorySubject(columns.name, _size(columns)), tuple(findings))


def _size(columns: Columns) -> HistorySize:
    counts = columns.counts()
    return HistorySize(
        counts.transactions, counts.committed, counts.aborted, counts.unknown, counts.sessions, counts.operations
    )
