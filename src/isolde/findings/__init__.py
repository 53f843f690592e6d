"""What every engine returns: a verdict, the evidence for it, and an explanation that a person can follow."""

from isolde.findings.cases import Ending, circles_of, endings, how_the_others_end, leading
from isolde.findings.model import (
    Anomaly,
    Case,
    Circle,
    CommitOrder,
    EvidenceUsed,
    Finding,
    Frontier,
    HistorySize,
    LevelReason,
    Link,
    Report,
    Supposition,
    Verdict,
)

__all__ = [
    "Anomaly",
    "Case",
    "Circle",
    "CommitOrder",
    "Ending",
    "EvidenceUsed",
    "Finding",
    "Frontier",
    "HistorySize",
    "LevelReason",
    "Link",
    "Report",
    "Supposition",
    "Verdict",
    "circles_of",
    "endings",
    "how_the_others_end",
    "leading",
]
