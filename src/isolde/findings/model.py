"""Verdicts and their evidence, as frozen data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

from isolde.history import Key, TxnId
from isolde.levels import Level

Kind = Literal["so", "rt", "wr", "ww", "rw", "predicate-wr", "predicate-rw"]


class Verdict(Enum):
    """Three-valued: a time-out or a missing fact is never a pass."""

    SATISFIED = "satisfied"
    VIOLATED = "violated"
    UNDECIDED = "unknown"


@dataclass(frozen=True, slots=True)
class Link:
    """One edge of a cycle and the sentence that says why it is there.

    ``through`` is the reader that shows an overwrite: it saw the source, and yet read what the target wrote.
    """

    source: TxnId
    target: TxnId
    kind: Kind
    key: Key | None
    sentence: str
    through: TxnId | None = None


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something that the level forbids. ``positions`` are the transactions' places in the history.

    ``also_needed`` are places of transactions that wrote what the others are about; a sub-history of ``positions`` and
    these shows the anomaly again.
    """

    name: str
    transactions: tuple[TxnId, ...]
    cycle: tuple[Link, ...]
    explanation: str
    positions: tuple[int, ...]
    also_needed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class EvidenceUsed:
    """How many edges of each kind were known, and how many pairs of writes were left open."""

    so: int
    wr: int
    ww: int
    rw: int
    open_pairs: int


@dataclass(frozen=True, slots=True)
class Finding:
    """The answer for one level. ``reason`` says why it is undecided, and is empty otherwise.

    ``order``, where asked for and satisfied, names the counted transactions in an order that explains the history.
    """

    level: Level
    verdict: Verdict
    method: str
    seconds: float
    anomalies: tuple[Anomaly, ...] = ()
    reason: str = ""
    evidence: EvidenceUsed | None = None
    order: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class HistorySize:
    """How large the history was."""

    transactions: int
    committed: int
    aborted: int
    unknown: int
    sessions: int
    operations: int


@dataclass(frozen=True, slots=True)
class Report:
    """Everything about one history."""

    size: HistorySize
    findings: tuple[Finding, ...]
