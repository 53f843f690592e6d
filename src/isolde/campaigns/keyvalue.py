"""A key-value workload on a database: recorded, checked, and its private table removed."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from isolde._core import Columns
from isolde.campaigns.certify import (
    Certified,
    CertifiedRounds,
    certificate_facts,
    certified,
    listening,
    promised,
    refuse_uncertain,
)
from isolde.campaigns.check import CheckOptions, check_file
from isolde.campaigns.lead import lead
from isolde.campaigns.options import RUNS, Bounds, Listener, RunInterrupted, RunOptions
from isolde.campaigns.pace import pace_of
from isolde.campaigns.target import Target
from isolde.campaigns.windows import WindowCheck
from isolde.databases import Adapter, Database, Feature, Kind, Offer, Table, offer_named
from isolde.databases.keyvalue import tables_to_drop
from isolde.databases.recovery import Scope
from isolde.databases.shapes import PLAIN
from isolde.databases.waiting import ASIDE_S, aside
from isolde.engines.check import check, exhibited
from isolde.engines.record import (
    Event,
    Job,
    Lost,
    Nemesis,
    Outcome,
    Round,
    Run,
    Watcher,
    final_state,
    finish,
    keyvalue_job,
    lost_writes,
)
from isolde.errors import IsoldeError, OutsideError, UsageError
from isolde.findings import (
    EvidenceUsed,
    FaultFacts,
    Finding,
    HistorySubject,
    LostWrite,
    NotProved,
    Ran,
    Report,
    RunFacts,
    RunHealth,
    Verdict,
)
from isolde.formats import decode, merged, read
from isolde.levels import Level, implies, row
from isolde.workloads import Settings, Workload

_FIRST_ROUND = 500
# With windows that stand on their own: how many transactions each has, and up to how many keys all of them are read in between.
_WINDOW = 2_000
_WINDOW_KEYS_MAX = 500
_PATIENCE_S = 3.0
_PATIENCE_WITH_FAULTS_S = 60.0


def run_keys(target: Target, settings: Settings, options: RunOptions, listener: Listener) -> Report:
    """Runs the workload on a private table, checks what was seen, and removes the table."""
    database, workload = target.database, settings.workload
    offer = offer_named(database, target.isolation) if target.isolation else database.offers()[-1]
    offer = offer.of(workload.kind, settings.shapes)
    asked = list(dict.fromkeys(options.levels)) or [_claimed(offer, options)]
    refuse_uncertain(target, options)
    directory = options.output or new_directory(target.adapter.name, offer.name)
    table = Table(f"isolde_{secrets.token_hex(6)}", workload.kind, settings.keys, settings.shapes)
    bounds = options.bounds
    job = keyvalue_job(
        database,
        table,
        offer,
        settings,
        sessions=bounds.sessions,
        directory=directory,
        meta=_meta(database, target.url, offer, settings, bounds),
    )
    job = replace(bounds.of(job), patience_s=_PATIENCE_WITH_FAULTS_S if options.faults else _PATIENCE_S)
    private = _PrivateTable(target, table, keep=options.keep or target.server is not None)
    try:
        private.create()
        scope = Scope.of_keys(table, faults=bool(options.faults))
        with listening(target, scope, [offer], options) as recovery:
            recorded = _recorded(replace(job, recovery=recovery), asked, target, options, listener)
            if recovery is not None and recorded.outcome.failure is None:
                recorded.certified = certified(recovery, recorded.outcome, recorded.history)
        report = _judged(recorded, asked, options)
        facts = _facts(recorded, asked, offer, settings, database.version())
        columns = _columns(recorded)
        led = lead(report, offer, database.version(), columns)
        facts = replace(facts, table=table.name if options.keep else None, lead=led.sentence)
        pace = None if columns is None else pace_of(columns)
        report = led.within(report)
        report = replace(report, facts=(*report.facts, facts, *([] if pace is None else [pace])))
        listener.found(report)
        if recorded.outcome.interrupted:
            raise RunInterrupted(recorded.history, private.done())
        if recorded.outcome.failure is not None:
            raise OutsideError(f"the run ended early: {recorded.outcome.failure}{private.done()}")
    finally:
        left = private.done()
        if left:
            listener.left(left.removeprefix("; "))
    return report


@dataclass(slots=True)
class _Recorded:
    """A run that is over and on disk; ``lost`` is ``None`` if the database could not be asked, ``begun`` when checking began."""

    job: Job
    outcome: Outcome
    checked_s: float
    events: tuple[Event, ...]
    history: Path
    windows: WindowCheck | None
    last: Path | None
    lost: tuple[Lost, ...] | None
    begun: float
    certified: Certified | None = None


def _claimed(offer: Offer, options: RunOptions) -> Level:
    return promised(offer.claims, tables=False) if options.certify else offer.claims


def _recorded(job: Job, asked: list[Level], target: Target, options: RunOptions, listener: Listener) -> _Recorded:
    windows = None
    faults, until_violation = options.faults, options.bounds.until_violation
    if until_violation and not faults and job.recovery is None and _stands_alone(job.table, asked):
        windows = WindowCheck(job.directory, job.sessions, asked, options.budget)
    outcome, checked, events = _record(job, asked, target, options, windows, listener)
    last = windows.keep_last() if windows is not None else None
    history = finish(job.directory)
    lost: tuple[Lost, ...] | None = ()
    if faults:
        lost = None if outcome.interrupted else _what_was_lost(job, history, outcome)
    return _Recorded(job, outcome, checked, events, history, windows, last, lost, time.monotonic())


def _judged(recorded: _Recorded, asked: list[Level], options: RunOptions) -> Report:
    judged = str(recorded.last or recorded.history)
    if recorded.certified is not None:
        names = tuple(level.value for level in asked)
        checked = CheckOptions(names, budget=options.budget)
        report = tested(check_file(judged, checked, certificate=str(recorded.certified.path)).report)
        durable = (_durable(recorded.lost),) if options.faults else ()
        return replace(report, findings=(*report.findings, *durable))
    columns = read(judged)
    report = exhibited(check(columns, asked, budget=options.budget, surveyed=True), columns)
    if recorded.windows is not None:
        report = recorded.windows.with_earlier(report)
    report = tested(replace(report, subject=HistorySubject(judged, report.size)))
    findings = [
        replace(finding, reproduce=f"isolde check --level {finding.level.value} {judged}")
        for finding in report.findings
    ]
    if options.faults:
        findings.append(_durable(recorded.lost))
    return replace(report, findings=tuple(findings))


def _columns(recorded: _Recorded) -> Columns | None:
    """The history, if it was judged whole and by its values."""
    if recorded.certified is not None or recorded.windows is not None:
        return None
    return read(str(recorded.history))


def _durable(lost: Sequence[Lost] | None) -> Finding:
    if lost is None:
        unknown = NotProved("the database was not read after the last fault")
        return Finding(RunHealth("durability"), Verdict.UNDECIDED, "final-state", evidence=(unknown,))
    verdict = Verdict.VIOLATED if lost else Verdict.SATISFIED
    return Finding(RunHealth("durability"), verdict, "final-state", evidence=_lost(lost))


def _lost(lost: Sequence[Lost]) -> tuple[LostWrite, ...]:
    return tuple(LostWrite(one.key, one.transaction, one.value, one.found, one.sentence) for one in lost)


def _facts(recorded: _Recorded, asked: list[Level], offer: Offer, settings: Settings, version: str) -> RunFacts:
    windows = recorded.windows.facts(recorded.last) if recorded.windows is not None else None
    levels = " ".join(f"--level {row(level).short or level.value}" for level in asked)
    return RunFacts(
        database=version,
        isolation=offer.called,
        claims=offer.claims,
        note=offer.note,
        workload=settings.workload.name,
        sessions=recorded.job.sessions,
        keys=settings.keys,
        distribution=settings.preference,
        at_once=recorded.job.at_once,
        deletes=settings.deletes,
        seed=settings.seed,
        ran=ran(recorded.outcome),
        check_seconds=recorded.checked_s + time.monotonic() - recorded.begun,
        history=str(recorded.history),
        shapes=_shapes(settings),
        again=f"isolde check {levels} {windows.last if windows else recorded.history}",
        faults=tuple(FaultFacts(event.fault.value, event.begun, event.healed) for event in recorded.events),
        lost=None if recorded.lost is None else _lost(recorded.lost),
        windows=windows,
        certificate=certificate_facts(recorded.certified),
    )


def _shapes(settings: Settings) -> tuple[str, ...]:
    return () if settings.shapes == (PLAIN,) else tuple(str(shape) for shape in settings.shapes)


def ran(outcome: Outcome) -> Ran:
    """What a report says of how a run went."""
    tally = outcome.tally
    failure = None if outcome.failure is None else str(outcome.failure)
    return Ran(
        outcome.seconds,
        tally.committed,
        tally.aborted,
        tally.unknown,
        tally.reconnected,
        outcome.interrupted,
        failure,
        tally.given_up,
    )


def tested(report: Report) -> Report:
    """A history in which nothing was committed breaks no level, and says nothing about any either."""
    if report.size.committed:
        return report
    nothing = NotProved("no transaction was committed, so that nothing was tested")
    findings = [
        replace(finding, verdict=Verdict.UNDECIDED, evidence=(nothing,))
        if finding.verdict is Verdict.SATISFIED
        else finding
        for finding in report.findings
    ]
    facts = tuple(fact for fact in report.facts if isinstance(fact, EvidenceUsed))
    return replace(report, findings=tuple(findings), facts=facts)


class _PrivateTable:
    """The private table: made, and removed once, unless it is to be kept."""

    def __init__(self, target: Target, table: Table, *, keep: bool) -> None:
        self._target, self._table, self._over = target, table, keep

    def create(self) -> None:
        """Makes the table; what the database refused to make is not removed either."""
        try:
            aside(lambda: self._target.database.create(self._table))
        except IsoldeError:
            self._over = True
            raise

    def done(self) -> str:
        """What is left, and how to remove it; nothing if nothing is, or if it was told before."""
        if self._over:
            return ""
        self._over = True
        name = self._table.name
        removal = self._target.adapter.removal
        command = "; ".join(removal.format(table=one) for one in tables_to_drop(self._table))
        try:
            aside(lambda: self._target.database.drop(self._table), ASIDE_S)
        except IsoldeError as error:
            return f"; the table {name} could not be dropped: {error}; drop it with: {command}"
        except KeyboardInterrupt:
            return f"; the table {name} may be left, since Ctrl-C came while it was dropped; drop it with: {command}"
        return ""


def _record(
    job: Job,
    asked: list[Level],
    target: Target,
    options: RunOptions,
    windows: WindowCheck | None,
    listener: Listener,
) -> tuple[Outcome, float, tuple[Event, ...]]:
    """Runs the job; also how many seconds were spent on checking meanwhile, and the faults that were brought."""
    spent = 0.0
    rounds = None
    if job.recovery is not None and options.bounds.until_violation:
        rounds = CertifiedRounds(job.recovery, job.directory, asked, options.budget, lambda: run.accounts())

    def violated(at: Round) -> bool:
        nonlocal spent
        begun = time.monotonic()
        if windows is not None:
            found = windows.violated(at)
        elif rounds is not None:
            found = rounds.violated(at)
        else:
            columns = Columns.from_jsonl(merged(job.directory, at.sizes), str(job.directory))
            report = check(columns, asked, budget=options.budget)
            found = any(finding.verdict is Verdict.VIOLATED for finding in report.findings)
        spent += time.monotonic() - begun
        listener.checked(at.planned)
        return found

    in_windows = windows is not None
    first = (_WINDOW if in_windows else _FIRST_ROUND) if options.bounds.until_violation else None
    watcher = Watcher(listener.progress, first, growing=not in_windows, looking=in_windows, quiet=violated)
    if rounds is not None:
        watcher.at_rest = rounds.at_rest
    nodes = target.server.nodes if target.server is not None else ()
    nemesis = Nemesis(nodes, target.wires, options.faults, job.seed) if options.faults else None
    try:
        run = Run(job, watcher)
        outcome = run.wait()
    finally:
        listener.over()
        if nemesis is not None:
            nemesis.stop()
    if nemesis is None:
        return outcome, spent, ()
    if nemesis.failure is not None:
        outcome.failure = nemesis.failure
    return outcome, spent, tuple(nemesis.events)


def _stands_alone(table: Table, asked: list[Level]) -> bool:
    """Whether a window can be checked by itself: registers, few enough to be read whole, and levels that keep to a prefix."""
    return (
        table.kind is Kind.REGISTERS
        and table.keys <= _WINDOW_KEYS_MAX
        and all(level is Level.PREFIX or implies(level, Level.PREFIX) for level in asked)
    )


def _what_was_lost(job: Job, history: Path, outcome: Outcome) -> tuple[Lost, ...] | None:
    """What was committed and cannot be read any more, now that every fault is over.

    A database that does not answer is the run's failure; the verdict on what was recorded is told all the same.
    """
    try:
        return aside(lambda: _compared(job, history))
    except OutsideError as error:
        outcome.failure = outcome.failure or error
        return None


def _compared(job: Job, history: Path) -> tuple[Lost, ...]:
    recorded = decode(read(str(history)))
    named = {getattr(op, "key", None) for t in recorded.transactions for op in t.ops}
    keys = sorted(key for key in named if isinstance(key, int))
    final = final_state(job.database, job.table, job.database.offers()[-1], keys, job.patience_s)
    return tuple(lost_writes(recorded, final))


def refuse_what_it_cannot(adapter: Adapter, workload: Workload, deletes: float) -> None:
    """Refuses a workload that needs what the database lacks."""
    needs = [*workload.needs, *([Feature.DELETES] if deletes else [])]
    for feature in needs:
        ability = adapter.able(feature)
        if not ability.able:
            raise UsageError(f"the workload {workload.name} needs {feature}, which {adapter.name} lacks: {ability.how}")


def refuse_shapes(adapter: Adapter, workload: Workload, options: RunOptions) -> None:
    """Refuses shapes of tables where there are no tables, or where nothing is known of them."""
    shapes = options.of_keys.shapes
    if shapes == (PLAIN,):
        return
    if not adapter.able(Feature.SQL).able:
        raise UsageError(f"{adapter.name} has no tables, and so no shapes of tables; leave --columns, --index, … out")
    if options.certify:
        raise UsageError(
            "--certify asks for the order of the plain table's versions; it does not go with shapes of tables"
        )
    if workload.kind is Kind.LISTS and len(shapes) == 1 and shapes[0].list_column:
        raise UsageError(f"--list-column is for registers; the lists of {workload.name} are text columns already")


def new_directory(name: str, what: str) -> Path:
    """A place of its own for a run."""
    moment = datetime.now().strftime("%Y%m%d-%H%M%S")
    return Path(RUNS) / f"{name}-{what}-{moment}-{secrets.token_hex(2)}"


def _meta(database: Database, url: str, offer: Offer, settings: Settings, bounds: Bounds) -> dict[str, Any]:
    return {
        "database": database.version(),
        "url": url,
        "isolation": offer.called,
        "claims": offer.claims.value,
        "workload": settings.workload.name,
        "sessions": bounds.sessions,
        "at_once": bounds.at_once,
        "keys": settings.keys,
        "distribution": settings.distribution,
        "skew": {name: value for name, value in asdict(settings.skew).items() if value is not None},
        "deletes": settings.deletes,
        "shapes": [str(shape) for shape in settings.shapes],
        "seed": settings.seed,
    }
