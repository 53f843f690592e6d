"""What a report needs beside its findings."""

from __future__ import annotations

from isolde._core import Columns
from isolde.findings import Report
from isolde.formats import decode
from isolde.history import Transaction, TxnId


def named_transactions(columns: Columns, report: Report) -> dict[TxnId, Transaction]:
    """The transactions that the anomalies name."""
    positions = {p for finding in report.findings for anomaly in finding.anomalies for p in anomaly.positions}
    return {t.id: t for t in decode(columns, sorted(positions)).transactions} if positions else {}
