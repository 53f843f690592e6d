"""What every engine returns: a verdict, the evidence for it, and an explanation that a person can follow."""

from isolde.findings.model import Anomaly, EvidenceUsed, Finding, HistorySize, Link, Report, Verdict

__all__ = ["Anomaly", "EvidenceUsed", "Finding", "HistorySize", "Link", "Report", "Verdict"]
