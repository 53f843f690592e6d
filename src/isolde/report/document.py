"""Findings as one JSON document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from isolde.findings import (
    Anomaly,
    ByOracle,
    Case,
    Circle,
    EvidenceUsed,
    Finding,
    Frontier,
    HistoryLevel,
    LevelReason,
    Link,
    Report,
    Verdict,
)


def document(report: Report) -> dict[str, Any]:
    """What ``isolde check --json`` prints for one history."""
    size = report.size
    return {
        "history": {
            "transactions": size.transactions,
            "committed": size.committed,
            "aborted": size.aborted,
            "unknown": size.unknown,
            "sessions": size.sessions,
            "operations": size.operations,
        },
        "results": [
            _result(finding, report.known) for finding in report.findings if isinstance(finding.question, HistoryLevel)
        ],
    } | ({} if report.frontier is None else _frontier(report.frontier))


def _frontier(frontier: Frontier) -> dict[str, Any]:
    def rows(levels: Iterable[LevelReason]) -> list[dict[str, str]]:
        return [{"level": entry.level.value, "reason": entry.reason} for entry in levels]

    return {
        "strongest_satisfied": rows(frontier.strongest_satisfied),
        "weakest_violated": rows(frontier.weakest_violated),
    }


def _result(finding: Finding, known: EvidenceUsed | None) -> dict[str, Any]:
    result: dict[str, Any] = {
        "level": finding.level.value,
        "verdict": finding.verdict.value,
        "method": finding.method,
        "seconds": round(finding.seconds, 6),
        "oracle": finding.judged_by.oracle,
        "anomalies": [anomaly_document(anomaly) for anomaly in finding.anomalies],
    }
    if finding.verdict is Verdict.UNDECIDED:
        result["reason"] = finding.reason
    if any(isinstance(shown, ByOracle) for shown in finding.evidence):
        result["explainable"] = finding.judged_by.explainable
        result |= {"remark": finding.judged_by.remark} if finding.judged_by.remark else {}
    if known is not None:
        result["evidence"] = {
            "so": known.so,
            "wr": known.wr,
            "ww": known.ww,
            "rw": known.rw,
            "told_ww": known.told_ww,
            "told_rw": known.told_rw,
            "open": known.open_pairs,
        } | ({"outside": dict(known.outside)} if known.outside else {})
    if finding.order is not None:
        result["order"] = list(finding.order.transactions)
        if finding.order.snapshots:
            result["snapshots"] = list(finding.order.snapshots)
    return result


def anomaly_document(anomaly: Anomaly) -> dict[str, Any]:
    """One anomaly."""
    content = {
        "name": anomaly.name,
        "transactions": list(anomaly.transactions),
        "cycle": _cycle(anomaly.cycle),
        "explanation": anomaly.explanation,
    }
    content |= {"adya": anomaly.adya} if anomaly.adya else {}
    return content | ({"cases": [_case(case) for case in anomaly.cases]} if anomaly.cases else {})


def _cycle(links: Iterable[Link]) -> list[dict[str, Any]]:
    return [
        {"from": link.source, "to": link.target, "kind": link.kind}
        | ({} if link.key is None else {"key": link.key})
        | ({"assumed": True} if link.assumed else {})
        | ({} if link.basis == "seen" else {link.basis: True})
        | ({} if link.through is None else {"through": link.through})
        | {"explanation": link.sentence}
        for link in links
    ]


def _case(case: Case) -> dict[str, Any]:
    supposed = case.supposition
    content: dict[str, Any] = {
        "if": {
            "kind": supposed.kind,
            "key": supposed.key,
            "first": supposed.first,
            "second": supposed.second,
            "explanation": supposed.sentence,
        }
    }
    if isinstance(case.outcome, Circle):
        return content | {"then": {"name": case.outcome.name, "cycle": _cycle(case.outcome.cycle)}}
    if isinstance(case.outcome, Anomaly):
        return content | {"then": anomaly_document(case.outcome)}
    return content | {"then": {"cases": [_case(below) for below in case.outcome]}}
