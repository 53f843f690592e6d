"""Could a correct database have given the answers of a log? From a file, or from a history in memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from isolde._core import AS_USUAL, Columns, Reading
from isolde.engines.audit.audit import BUDGET, AuditOptions, audit, audit_stream
from isolde.engines.audit.encoded import ENCODINGS, encoding_named
from isolde.engines.audit.heuristics import heuristics_named
from isolde.errors import UsageError
from isolde.findings import LogSubject, Report
from isolde.formats import decode, read
from isolde.formats.jsonl import decode_history
from isolde.formats.lines import places_in
from isolde.formats.tables import sql_history
from isolde.history import History, TxnId
from isolde.history.json_text import DECODER
from isolde.levels import Level

PAPER = "paper"
STREAMED_MIN = 20_000
"""Of logs with so many transactions not all are held in memory at once, as long as they can be followed."""
CHUNK = 5_000
DEFINITIONS = ("default", PAPER)
__all__ = ["BUDGET", "DEFINITIONS", "ENCODINGS", "AuditQuestion", "audit_file", "audit_history"]


@dataclass(frozen=True, slots=True)
class AuditQuestion:
    """What is asked of a log. ``names`` are levels by long or short name, or ``STORE:LEVEL``; none: serializable."""

    names: tuple[str, ...] = ()
    definition: str = "default"
    settings: tuple[tuple[str, str], ...] = ()
    session_order: bool = True
    skip_unsupported: bool = False
    budget: int = BUDGET
    seconds: float | None = None
    order: bool = False
    heuristics: str = "all"
    encoding: str | None = None

    def __post_init__(self) -> None:
        """Unknown names are refused before a file is read."""
        self.options()

    def options(self) -> AuditOptions:
        if self.definition not in DEFINITIONS:
            raise UsageError(f"no definition {self.definition!r}; there are {' and '.join(DEFINITIONS)}")
        return AuditOptions(
            self.names or (Level.SERIALIZABLE.value,),
            self.definition == PAPER,
            self.settings,
            self.session_order,
            self.skip_unsupported,
            self.budget,
            self.seconds,
            self.order,
            heuristics_named(self.heuristics),
            encoding_named(self.encoding),
        )


def audit_file(path: str, question: AuditQuestion, *, format: str | None = None, reading: Reading = AS_USUAL) -> Report:
    """Reads the log at ``path`` (``-`` is standard input) and judges it."""
    return audit_columns(read(path, format, reading), question, path, reading)


def audit_columns(columns: Columns, question: AuditQuestion, name: str, reading: Reading = AS_USUAL) -> Report:
    """Judges a log that was read; ``name`` is its path."""
    with _no_collections():
        if columns.counts().transactions >= STREAMED_MIN:
            found = _streamed(columns, question, name)
            if found is not None:
                return found
        history = decode(columns)
        return audit_history(history, question, name, places_in(name, history, reading))


def _streamed(columns: Columns, question: AuditQuestion, name: str) -> Report | None:
    """The same for a long log, a few transactions at a time. ``None``: it has to be held in memory to be judged."""
    header = decode_history(columns.to_jsonl([]))
    if "rows" not in header.extra:
        return None
    return audit_stream(
        sql_history(header, name), lambda: _lines(columns), question.options(), log_subject(columns, name)
    )


def log_subject(columns: Columns, name: str) -> LogSubject:
    """What a report about the log calls it, and how large it is."""
    counts = columns.counts()
    return LogSubject(name, counts.transactions, counts.committed, counts.operations)


def _lines(columns: Columns) -> Iterator[Mapping[str, Any]]:
    total = columns.counts().transactions
    for first in range(0, total, CHUNK):
        text = columns.to_jsonl(range(first, min(first + CHUNK, total))).decode()
        # The first line is the header. In JSON, a line break inside of a text is spelled otherwise.
        yield from DECODER.decode(f"[{text.rstrip()[text.index(chr(10)) + 1 :].replace(chr(10), ',')}]")


@contextmanager
def _no_collections() -> Iterator[None]:
    """A log is millions of small objects without circles: looking for circles among them takes most of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def audit_history(
    history: History, question: AuditQuestion, name: str = "log", place: Callable[[TxnId], str] | None = None
) -> Report:
    """Judges a log that is in memory; ``name`` is what the report calls it, ``place`` says where a transaction stands."""
    tables = sql_history(history, name)
    report = audit(tables if place is None else replace(tables, place=place), question.options(), name)
    named = {transaction.id: transaction for transaction in history.transactions}
    shown = {one for finding in report.findings for shown in finding.evidence for one in getattr(shown, "core", ())}
    return replace(report, exhibit=tuple(named[one] for one in named if one in shown))
