"""Findings as one JSON document."""

from __future__ import annotations

from typing import Any

from isolde.findings import Anomaly, Finding, Report, Verdict


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
        "results": [_result(finding) for finding in report.findings],
    }


def _result(finding: Finding) -> dict[str, Any]:
    result: dict[str, Any] = {
        "level": finding.level.value,
        "verdict": finding.verdict.value,
        "method": finding.method,
        "seconds": round(finding.seconds, 6),
        "anomalies": [_anomaly(anomaly) for anomaly in finding.anomalies],
    }
    if finding.verdict is Verdict.UNDECIDED:
        result["reason"] = finding.reason
    if finding.evidence is not None:
        known = finding.evidence
        result["evidence"] = {
            "so": known.so,
            "wr": known.wr,
            "ww": known.ww,
            "rw": known.rw,
            "open": known.open_pairs,
        }
    return result


def _anomaly(anomaly: Anomaly) -> dict[str, Any]:
    return {
        "name": anomaly.name,
        "transactions": list(anomaly.transactions),
        "cycle": [
            {"from": link.source, "to": link.target, "kind": link.kind}
            | ({} if link.key is None else {"key": link.key})
            | {"explanation": link.sentence}
            for link in anomaly.cycle
        ],
        "explanation": anomaly.explanation,
    }
