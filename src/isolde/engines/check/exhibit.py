"""The transactions that a report names, put into it, so that it can be drawn without its history."""

from __future__ import annotations

from dataclasses import replace

from isolde._core import Columns
from isolde.findings import Report
from isolde.formats import decode


def exhibited(report: Report, columns: Columns) -> Report:
    """The report with every transaction that an anomaly of it is about, and those that wrote what these read."""
    anomalies = [anomaly for finding in report.findings for anomaly in finding.anomalies]
    positions = {place for anomaly in anomalies for place in (*anomaly.positions, *anomaly.also_needed)}
    if not positions:
        return report
    return replace(report, exhibit=decode(columns, sorted(positions)).transactions)
