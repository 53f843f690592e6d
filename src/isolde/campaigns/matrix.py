"""Every level of a database, every anomaly, by schedules and by chance."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

from isolde._core import Columns
from isolde.campaigns.options import TRANSACTIONS, Bounds, Listener
from isolde.campaigns.target import Target
from isolde.databases import Database, Offer, Table
from isolde.databases.servers.directory import HeldDirectory
from isolde.databases.waiting import ASIDE_S, aside
from isolde.engines.check import check, frontier
from isolde.engines.matrix import SCHEDULES, Cell, Tried, in_words, play_all
from isolde.engines.matrix.schedules import FIRST
from isolde.engines.record import Run, Watcher, keyvalue_job
from isolde.errors import IsoldeError
from isolde.findings import (
    BrokenInvariant,
    ClaimKept,
    DatabaseSubject,
    Finding,
    Frontier,
    MatrixCell,
    MatrixFacts,
    MatrixLevel,
    Report,
    Schedule,
    Step,
    Verdict,
)
from isolde.formats import merged
from isolde.levels import LEVELS, Level, implies
from isolde.workloads import Settings


def try_all_levels(target: Target, settings: Settings, bounds: Bounds, listener: Listener) -> Report:
    """Measures the table; a level is violated if it allowed what it claims to forbid."""
    database = _Tidied(target.database)
    transactions = bounds.planned or TRANSACTIONS

    def told(tried: Tried) -> None:
        listener.trying(f"{tried.offer.name}: {tried.schedule.anomaly}: {tried.cell}")

    tried = play_all(target.adapter, database, told)
    levels, findings = [], []
    for offer in database.offers():
        listener.trying(f"{offer.name}: {transactions:,} transactions at random")
        cells = [result for result in tried if result.offer.name == offer.name]
        claims = offer.of(settings.workload.kind).claims
        level = _level(cells, offer, claims, _sample(database, offer, settings, bounds.sessions, transactions))
        levels.append(level)
        findings.append(_finding(level, claims))
    listener.over()
    version = database.version()
    report = Report(DatabaseSubject(version), tuple(findings), facts=(MatrixFacts(version, tuple(levels)),))
    listener.found(report)
    for table, error in database.left:
        removal = target.adapter.removal.format(table=table)
        listener.left(f"the table {table} could not be dropped: {error}; drop it with: {removal}")
    return report


@dataclass(frozen=True, slots=True)
class _Sample:
    """What a run at random showed; ``anomalies`` by the level that each of them violated."""

    transactions: int
    frontier: Frontier
    anomalies: tuple[tuple[Level, str], ...]


def _level(tried: Sequence[Tried], offer: Offer, claims: Level, sample: _Sample) -> MatrixLevel:
    """``claims`` is what the level promises of the kind of keys that the workload at random has."""
    cells = tuple(
        MatrixCell(result.schedule.anomaly, result.schedule.hermitage, result.cell.value, result.why)
        for result in tried
    )
    met = tuple(dict.fromkeys(name for _, name in sample.anomalies))
    against = tuple(dict.fromkeys(name for level, name in sample.anomalies if implies(claims, level)))
    return MatrixLevel(
        offer.name, offer.called, offer.claims, cells, sample.transactions, met, sample.frontier, against
    )


def _finding(level: MatrixLevel, claims: Level) -> Finding:
    """Whether the level keeps what it claims; of the workload at random, what it claims for that kind of keys."""
    broken = [
        BrokenInvariant(
            cell.anomaly,
            cell.why
            or f"it happened, which {level.claims.value} forbids; keys hold {FIRST[0]} and {FIRST[1]} at first",
            schedule=_interleavings().get(cell.anomaly),
        )
        for cell in level.cells
        if cell.result == Cell.BROKEN.value
    ]
    broken += [
        BrokenInvariant(entry.level.value, f"transactions sent at random met {entry.reason}")
        for entry in level.frontier.weakest_violated
        if implies(claims, entry.level)
    ]
    verdict = Verdict.VIOLATED if broken else Verdict.SATISFIED
    return Finding(ClaimKept(level.called, level.claims), verdict, "schedules", evidence=tuple(broken))


def _interleavings() -> dict[str, Schedule]:
    """How each anomaly was asked for."""
    return {one.anomaly: Schedule(tuple(Step(name, does) for name, does in in_words(one))) for one in SCHEDULES}


class _Tidied:
    """A database that notes what it could not drop: the table of results is not to be lost for it."""

    def __init__(self, database: Database) -> None:
        self.left: list[tuple[str, IsoldeError]] = []
        self._database = database
        self.version, self.offers, self.connect = database.version, database.offers, database.connect
        self.close = database.close

    def create(self, table: Table) -> None:
        aside(lambda: self._database.create(table))

    def drop(self, table: Table) -> None:
        try:
            aside(lambda: self._database.drop(table), ASIDE_S)
        except IsoldeError as error:
            self.left.append((table.name, error))


def _sample(database: Database, offer: Offer, settings: Settings, sessions: int, transactions: int) -> _Sample:
    """What a run at random shows: its length, where the line between the levels runs, and the anomalies.

    Its history is not kept: 'isolde run' records one.
    """
    table = Table(f"isolde_{secrets.token_hex(6)}", settings.workload.kind, settings.keys)
    temporary = HeldDirectory("matrix")
    try:
        directory = temporary.path / "run"
        database.create(table)
        try:
            job = keyvalue_job(database, table, offer, settings, sessions=sessions, directory=directory, meta={})
            outcome = Run(replace(job, transactions=transactions), Watcher()).wait()
        finally:
            database.drop(table)
        if outcome.failure is not None:
            raise outcome.failure
        if outcome.interrupted:
            raise KeyboardInterrupt
        columns = Columns.from_jsonl(merged(directory), str(directory))
    finally:
        temporary.remove()
    report = check(columns, [entry.level for entry in LEVELS], every=True)
    met = tuple((f.level, a.name) for f in report.findings if f.verdict is Verdict.VIOLATED for a in f.anomalies)
    # Where nothing was committed, every level holds, and that says nothing.
    known = frontier(report.findings) if report.size.committed else Frontier((), ())
    return _Sample(report.size.transactions, known, met)
