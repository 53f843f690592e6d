"""``isolde run --matrix``: every level of a database, every anomaly, by schedules and by chance."""

from __future__ import annotations

import secrets
import sys
from dataclasses import replace

import click

from isolde._core import Columns
from isolde.cli.main import Exit, paint, say
from isolde.databases import Adapter, Database, Offer, Table
from isolde.databases.servers.directory import HeldDirectory
from isolde.databases.waiting import ASIDE_S, aside
from isolde.engines.check import check as decide
from isolde.engines.check import frontier
from isolde.engines.matrix import Cell, Tried, play_all
from isolde.engines.record import Run, Watcher, keyvalue_job
from isolde.errors import IsoldeError
from isolde.findings import Frontier, Verdict
from isolde.formats import merged
from isolde.levels import LEVELS, implies
from isolde.report.matrix import LevelSample, matrix_document, render_matrix
from isolde.visible import dumped
from isolde.workloads import Settings


def matrix(
    adapter: Adapter, database: Database, settings: Settings, sessions: int, transactions: int, *, as_json: bool
) -> int:
    """Measures and prints the table; the status is 1 if a level allowed what it claims to forbid."""
    line = _Line()
    database = _Tidied(database)
    tried = play_all(adapter, database, line.show)
    samples = []
    for offer in database.offers():
        line.say(f"{offer.name}: {transactions:,} transactions at random")
        samples.append(_sample(database, offer, settings, sessions, transactions))
    line.clear()
    broken = any(result.cell is Cell.BROKEN for result in tried)
    for sample in samples:
        broken |= any(
            implies(sample.offer.of(settings.workload.kind).claims, entry.level)
            for entry in sample.frontier.weakest_violated
        )
    if as_json:
        click.echo(dumped(matrix_document(database.version(), tried, samples)))
    else:
        click.echo(render_matrix(database.version(), tried, samples, paint))
    for table, error in database.left:
        say(f"the table {table} could not be dropped: {error}; drop it with: {adapter.removal.format(table=table)}")
    return Exit.VIOLATED if broken else Exit.HOLDS


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


def _sample(database: Database, offer: Offer, settings: Settings, sessions: int, transactions: int) -> LevelSample:
    """What a run at random shows. Its history is not kept: 'isolde run' records one."""
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
    report = decide(columns, [entry.level for entry in LEVELS], every=True)
    names = [a.name for f in report.findings if f.verdict is Verdict.VIOLATED for a in f.anomalies]
    # Where nothing was committed, every level holds, and that says nothing.
    known = frontier(report.findings) if report.size.committed else Frontier((), ())
    return LevelSample(offer, report.size.transactions, known, tuple(dict.fromkeys(names)))


class _Line:
    """What is tried now, on a terminal."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()

    def show(self, tried: Tried) -> None:
        self.say(f"{tried.offer.name}: {tried.schedule.anomaly}: {tried.cell}")

    def say(self, text: str) -> None:
        if self._shown:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    def clear(self) -> None:
        self.say("")
