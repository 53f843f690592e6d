"""The workload ``sql`` on a database: random rounds, each played, recorded, and judged before the next one begins."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from isolde.campaigns.audit import AuditQuestion, audit_history
from isolde.campaigns.keyvalue import new_directory
from isolde.campaigns.options import Listener, RunInterrupted, RunOptions
from isolde.campaigns.target import Target
from isolde.databases import Offer, offer_named
from isolde.databases.waiting import ASIDE_S, aside
from isolde.engines.audit.readings import READINGS, reading_of
from isolde.engines.play import Player, history_of
from isolde.engines.record import Progress, Tally, refuse_place
from isolde.engines.record.journal import write_private
from isolde.errors import InputError, OutsideError, UsageError
from isolde.findings import Finding, LogSubject, NotProved, Ran, Remark, Report, Spent, SqlRunFacts, Verdict
from isolde.formats.jsonl import encode_history
from isolde.formats.recording import HEADER, HISTORY
from isolde.formats.schedules import schedule_text
from isolde.history import History, Status, Transaction
from isolde.history.schedule import Schedule
from isolde.levels import Level, implies
from isolde.levels.stores import STORE_LEVELS
from isolde.workloads.sql import NAME, OPERATIONS, TABLES, Sizes, round_of, transactions_of

ROUNDS = "rounds"
_BUDGET = 20_000
_SECONDS = 20.0
"""What one round may cost at one level."""
_KEPT = 200
"""Rounds that hold are kept so long; the others stay."""


def run_sql(target: Target, options: RunOptions, listener: Listener) -> Report:
    """Plays random rounds until the bounds are met, and judges each by what the database promises."""
    offer = offer_named(target.database, target.isolation) if target.isolation else _strongest(target.database.offers())
    _refuse(target, options)
    directory = options.output or new_directory(target.adapter.name, NAME)
    refuse_place(directory)
    player = aside(lambda: Player(target.adapter, target.database, leave_lost=True))
    try:
        return _Run(target, options, listener, offer, directory, player).whole()
    finally:
        listener.over()
        try:
            aside(player.close, ASIDE_S)
        except OutsideError as error:
            listener.left(str(error))


def _strongest(offers: tuple[Offer, ...]) -> Offer:
    """What the strongest claims, by the level that leaves most to interleave: SQLite's IMMEDIATE is one after the other."""
    return next(offer for offer in offers if offer.claims is offers[-1].claims)


def _refuse(target: Target, options: RunOptions) -> None:
    if target.adapter.dialect is None:
        raise UsageError(f"{target.adapter.name} speaks no SQL that Isolde can write, so it cannot run {NAME}")
    if options.certify or options.faults:
        raise UsageError(f"{NAME} is judged by 'isolde audit', round by round: --certify and --nemesis are for others")
    for level in options.levels:
        reading_of(level)


@dataclass(slots=True)
class _Asked:
    """One question that every round is asked: a level, or a model with the definition that helps where it passes."""

    name: str
    instead: str = ""
    counts: dict[Verdict, int] = field(default_factory=lambda: dict.fromkeys(Verdict, 0))
    shown: Finding | None = None
    report: Report | None = None
    where: str = ""
    seconds: float = 0.0

    def judge(self, history: History, name: str) -> Verdict:
        found = self._found(history, name)
        (finding,) = found.findings
        self.seconds += finding.seconds
        self.counts[finding.verdict] += 1
        worse = self.shown is None or _RANK[finding.verdict] > _RANK[self.shown.verdict]
        if worse:
            self.shown, self.report, self.where = finding, found, name
        return finding.verdict

    def _found(self, history: History, name: str) -> Report:
        question = AuditQuestion((self.name,), budget=_BUDGET, seconds=_SECONDS)
        report = audit_history(history, question, name)
        if report.verdict is not Verdict.UNDECIDED or not self.instead:
            return report
        other = audit_history(history, replace(question, names=(self.instead,)), name)
        if other.verdict is not Verdict.SATISFIED:
            return report
        return replace(report, findings=(replace(report.findings[0], verdict=Verdict.SATISFIED, evidence=()),))

    def finding(self, rounds: int) -> Finding:
        """What all rounds together say; the first that does not hold is shown."""
        assert self.shown is not None
        counts = [("rounds", rounds)]
        counts += [(verdict.value, count) for verdict, count in self.counts.items() if verdict is not Verdict.SATISFIED]
        evidence = self.shown.evidence
        if self.shown.verdict is Verdict.UNDECIDED:
            left = self.counts[Verdict.UNDECIDED]
            reason = f"{left:,} of {rounds:,} rounds stayed undecided; the first of them: {self.shown.reason}"
            evidence = (NotProved(reason),)
        again = "" if self.shown.verdict is Verdict.SATISFIED else f"isolde audit --level {self.name} {self.where}"
        return replace(self.shown, spent=Spent(self.seconds, tuple(counts)), evidence=evidence, reproduce=again)


_RANK = {Verdict.SATISFIED: 0, Verdict.UNDECIDED: 1, Verdict.VIOLATED: 2}


@dataclass(slots=True)
class _Run:
    """A run that goes on."""

    target: Target
    options: RunOptions
    listener: Listener
    offer: Offer
    directory: Path
    player: Player
    asked: list[_Asked] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    statements: int = 0
    rounds: int = 0
    held: list[Path] = field(default_factory=list)

    def whole(self) -> Report:
        bounds, began = self.options.bounds, time.monotonic()
        names = [level.value for level in dict.fromkeys(self.options.levels)]
        self.asked = [_Asked(name) for name in names] or [_promised(self.player.store, self.offer)]
        history = self.directory / HISTORY
        while not self._over(began):
            schedule = self._schedule()
            with self._interruptible(history):
                recorded = aside(partial(self.player.record, schedule), free=self.player.stop)
                violated = self._judged(self._kept(history_of(recorded)), schedule)
            self.rounds += 1
            self.listener.progress(Progress(self.tally, time.monotonic() - began))
            self.listener.checked(self.tally.planned)
            if violated and bounds.until_violation:
                break
        self.listener.over()
        report = self._report(time.monotonic() - began)
        self.listener.found(report)
        return report

    def _over(self, began: float) -> bool:
        bounds = self.options.bounds
        if not self.rounds:
            return False
        if bounds.planned is not None and self.tally.planned >= bounds.planned:
            return True
        return bounds.seconds is not None and time.monotonic() - began >= bounds.seconds

    def _sizes(self) -> Sizes:
        of_keys = self.options.of_keys
        return Sizes(
            self.options.bounds.sessions,
            of_keys.operations or OPERATIONS,
            self.options.tables or TABLES,
            of_keys.keys or Sizes().keys,
        )

    def _schedule(self) -> Schedule:
        adapter = self.target.adapter
        assert adapter.dialect is not None
        return round_of(
            self.options.seed,
            self.rounds,
            self._sizes(),
            adapter.dialect,
            self.offer.name,
            # Its dialect is PostgreSQL's, but for the order of nulls and the type of averages.
            to_the_letter=adapter.name != "duckdb",
        )

    def _kept(self, history: History) -> History:
        """What is known of the round goes into its header."""
        meta = {
            "database": self.target.database.version(),
            "url": self.target.url,
            "isolation": self.offer.called,
            "workload": NAME,
            "seed": self.options.seed,
            "round": self.rounds,
        }
        return replace(history, meta=meta)

    def _judged(self, history: History, schedule: Schedule) -> bool:
        """Writes the round down and asks everything of it; whether it is wrong somewhere."""
        path = self.directory / ROUNDS / f"{self.rounds:06}.jsonl"
        self._write(path, encode_history(history))
        self._count(history.transactions, transactions_of(schedule))
        first = self._worst()
        verdicts = [one.judge(history, str(path)) for one in self.asked]
        if not self.rounds or self._worst() > first:
            self._write(self.directory / HISTORY, encode_history(history))
            self._write(self.directory / HEADER, encode_history(history).split(b"\n", 1)[0] + b"\n")
        if all(verdict is Verdict.SATISFIED for verdict in verdicts):
            self.held.append(path)
            if len(self.held) > _KEPT:
                self.held.pop(0).unlink(missing_ok=True)
        else:
            self._write(path.with_suffix(".schedule.json"), schedule_text(schedule).encode())
        return Verdict.VIOLATED in verdicts

    def _worst(self) -> int:
        return max((_RANK[one.shown.verdict] for one in self.asked if one.shown is not None), default=-1)

    def _count(self, transactions: tuple[Transaction, ...], begun: int) -> None:
        tally = self.tally
        tally.planned += begun
        tally.committed += sum(one.status is Status.COMMITTED for one in transactions)
        tally.aborted += sum(one.status is Status.ABORTED for one in transactions)
        self.statements += sum(len(one.ops) for one in transactions)

    def _write(self, path: Path, content: bytes) -> None:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(path, content)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}; choose another place with --output") from None

    @contextmanager
    def _interruptible(self, history: Path) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt:
            raise RunInterrupted(history if self.rounds else self.directory) from None

    def _report(self, seconds: float) -> Report:
        findings = [one.finding(self.rounds) for one in self.asked]
        exhibit = next((one.report.exhibit for one in self.asked if one.report is not None and one.report.exhibit), ())
        tally, bounds = self.tally, self.options.bounds
        facts = SqlRunFacts(
            database=self.target.database.version(),
            isolation=self.offer.called,
            claims=self.offer.claims,
            note=self.offer.note,
            sessions=bounds.sessions,
            tables=self.options.tables or TABLES,
            seed=self.options.seed,
            ran=Ran(seconds, tally.committed, tally.aborted, 0, 0),
            rounds=self.rounds,
            check_seconds=sum(one.seconds for one in self.asked),
            history=str(self.directory / HISTORY),
        )
        remarks: tuple[Remark, ...] = ()
        worst = max(self.asked, key=lambda one: 0 if one.shown is None else _RANK[one.shown.verdict])
        if worst.shown is not None and worst.shown.verdict is not Verdict.SATISFIED:
            played = Path(worst.where).with_suffix(".schedule.json")
            remarks = (Remark(f"isolde run --schedule {played} {self._database()} plays that round again"),)
        subject = LogSubject(str(self.directory), tally.committed + tally.aborted, tally.committed, self.statements)
        return Report(subject, tuple(findings), exhibit=exhibit, facts=(facts, *remarks))

    def _database(self) -> str:
        return f"--start {self.target.adapter.name}" if self.target.server is not None else self.target.url


def _promised(store: str, offer: Offer) -> _Asked:
    """The model of the database at the level that it runs at, or else what the level claims."""
    weakest = next(level for level in reversed(READINGS) if level is offer.claims or implies(level, offer.claims))
    name = store.split()[0].lower()
    # Galera's SERIALIZABLE is not that of InnoDB.
    its_own = not (offer.name == "serializable" and offer.claims is Level.SNAPSHOT_ISOLATION)
    if its_own and any(row.store.value == name and row.level == offer.name for row in STORE_LEVELS):
        return _Asked(f"{name}:{offer.name}", weakest.value)
    return _Asked(weakest.value)
