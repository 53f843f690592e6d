"""Could a correct database have given the answers of a log? From a file, or from a history in memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from isolde._core import AS_USUAL, Reading
from isolde.engines.audit.audit import BUDGET, AuditOptions, audit
from isolde.engines.audit.encoded import ENCODINGS, encoding_named
from isolde.engines.audit.heuristics import heuristics_named
from isolde.errors import UsageError
from isolde.findings import Report
from isolde.formats import decode, read
from isolde.formats.lines import places_in
from isolde.formats.tables import sql_history
from isolde.history import History, TxnId
from isolde.levels import Level

PAPER = "paper"
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
    with _no_collections():
        history = decode(read(path, format, reading))
        return audit_history(history, question, path, places_in(path, history, reading))


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
