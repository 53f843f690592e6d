"""``isolde run``."""

from __future__ import annotations

import secrets
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from isolde._core import Columns
from isolde.cli.application import run_application
from isolde.cli.main import Exit, paint, say
from isolde.cli.matrix import matrix
from isolde.cli.progress import ProgressLine
from isolde.cli.schedule import play_file
from isolde.cli.shown import named_transactions
from isolde.cli.target import Target, Wanted, opened
from isolde.cli.windows import WindowCheck
from isolde.databases import Adapter, Database, Feature, Kind, Offer, Table, offer_named
from isolde.databases.servers import KINDS
from isolde.databases.waiting import ASIDE_S, aside
from isolde.engines.check import check as decide
from isolde.engines.record import (
    Event,
    Fault,
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
from isolde.findings import Report, Verdict
from isolde.formats import decode, merged, read
from isolde.levels import Level, implies, level_named
from isolde.report import document, render_report
from isolde.report.run import RunFacts, render_run, run_document
from isolde.visible import dumped
from isolde.workloads import DISTRIBUTIONS, Settings, Workload, workload_named
from isolde.workloads.applications import APPLICATIONS, application_named, is_application

_RUNS = "isolde-runs"
_TRANSACTIONS = 2_000
_TRANSACTIONS_MAX = 1_000_000
_FIRST_ROUND = 500
# With windows that stand on their own: how many transactions each has, and up to how many keys all of them are read in between.
_WINDOW = 2_000
_WINDOW_KEYS_MAX = 500
_PATIENCE_S = 3.0
_PATIENCE_WITH_FAULTS_S = 60.0
# Steps of a search, where the order of writes is open: a run is not to wait for minutes. 'isolde check' takes more of them.
_BUDGET = 1_000_000
_STATUS = {Verdict.SATISFIED: Exit.HOLDS, Verdict.VIOLATED: Exit.VIOLATED, Verdict.UNDECIDED: Exit.UNDECIDED}


@click.command()
@click.argument("url", required=False, metavar="[DATABASE-URL]")
@click.option("--start", "kind", type=click.Choice(KINDS), help="Start a private throw-away server of this kind.")
@click.option("--setting", multiple=True, metavar="NAME=VALUE", help="With --start: a setting of the server's own.")
@click.option("--driver", metavar="MODULE", help="Any SQL database, by the Python module of its PEP 249 driver.")
@click.option(
    "--connect", metavar="TEXT", help="What the driver's connect() takes: a text, or a JSON object of arguments."
)
@click.option("--begin", multiple=True, metavar="SQL", help="With --driver: what begins a transaction.")
@click.option("--setup", multiple=True, metavar="SQL", help="With --driver: what is run on every new connection.")
@click.option("--only-level", is_flag=True, help="With --driver: the database has one level, the one that is meant.")
@click.option(
    "--isolation", metavar="NAME", help="The level to run at, as the database calls it. [default: its strongest]"
)
@click.option("--check", "levels", multiple=True, metavar="LEVEL", help="Level to decide. [default: what it claims]")
@click.option(
    "--workload",
    default="mini",
    show_default=True,
    metavar="NAME",
    help="'isolde workloads' lists them; or a Python file with an application.",
)
@click.option("--sessions", type=click.IntRange(1, 1000), default=10, show_default=True)
@click.option("--transactions", type=click.IntRange(1), help=f"How many. [default: {_TRANSACTIONS}]")
@click.option("--time", "seconds", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="For how long.")
@click.option(
    "--until-violation",
    is_flag=True,
    help="Check while running, in windows or growing rounds, and stop at a violation.",
)
@click.option(
    "--schedule",
    metavar="FILE",
    help="Play one given interleaving of statements: a JSON file, or a .spec file of PostgreSQL's isolation tester.",
)
@click.option("--matrix", "as_matrix", is_flag=True, help="Every level and every anomaly of this database, as a table.")
@click.option("--keys", type=click.IntRange(1), default=50, show_default=True)
@click.option("--operations", type=click.IntRange(1), help="Operations a transaction. [default: the workload's]")
@click.option("--distribution", type=click.Choice(DISTRIBUTIONS), default="uniform", show_default=True)
@click.option("--blind-writes", type=click.FloatRange(0, 1), metavar="SHARE", help="Of the workload read-write.")
@click.option(
    "--deletes",
    type=click.FloatRange(0, 1),
    default=0.0,
    metavar="SHARE",
    help="Writes that remove the key instead; it is inserted again by whoever finds it gone. [default: 0]",
)
@click.option(
    "--scale",
    "sizes",
    multiple=True,
    metavar="NAME=N",
    help="A size of an application, or the name of all of them ('isolde workloads tpcc'). [default: its own]",
)
@click.option(
    "--mix",
    multiple=True,
    metavar="TRANSACTION=WEIGHT",
    help="How often one kind of its transactions comes; 0: never. [default: its own]",
)
@click.option(
    "--level",
    "by_kind",
    multiple=True,
    metavar="TRANSACTION=LEVEL",
    help="The level of one kind of its transactions.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="The same seed, the same plans.")
@click.option(
    "--timeout",
    type=click.FloatRange(0.1),
    default=10.0,
    show_default=True,
    help="Seconds that one transaction may take.",
)
@click.option("--output", "-o", metavar="DIRECTORY", help=f"Where to record. [default: a new one in {_RUNS}]")
@click.option(
    "--nemesis",
    metavar="FAULTS",
    default="",
    help="With --start: kill, pause, restart or cut (the network), several by commas, again and again during the run.",
)
@click.option("--keep", is_flag=True, help="Leave the table in the database.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def run(
    url: str | None,
    kind: str | None,
    setting: tuple[str, ...],
    driver: str | None,
    connect: str | None,
    begin: tuple[str, ...],
    setup: tuple[str, ...],
    only_level: bool,
    isolation: str | None,
    nemesis: str,
    schedule: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Find out whether a database keeps the isolation level that it promises.

    Sends transactions of many sessions at once to the database at DATABASE-URL, records what each saw, and decides whether
    any order of them explains it. Without a URL it runs on an embedded SQLite.

    \b
    isolde run
    isolde run postgresql://postgres@localhost/test --isolation serializable --transactions 20000
    isolde run mariadb://root@localhost/test --isolation repeatable-read --check si
    isolde run --start postgresql
    isolde run --schedule two_terminals.json --start postgresql

    A private table is made for the run and dropped again. 'isolde databases' lists the databases and their levels.
    """
    if schedule is not None:
        with _ended_like_ctrl_c():
            return play_file(schedule, url, kind, setting, isolation, options["output"], as_json=as_json)
    faults = _faults(nemesis)
    if options["as_matrix"]:
        _refuse_beside_matrix(options | {"nemesis": nemesis, "isolation": None if driver else isolation})
    with ExitStack() as stack:
        stack.enter_context(_ended_like_ctrl_c())
        wanted = Wanted(url, kind, driver, connect, begin, setup, isolation, faults, setting, only_level)
        target = opened(wanted, stack)
        return _run(target, faults, as_json, **options)


@contextmanager
def _ended_like_ctrl_c() -> Iterator[None]:
    """A polite request to end leaves no server, table or directory behind either."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # What whoever started us had ignored (nohup) stays ignored.
    heard = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_BESIDE_MATRIX = {
    "isolation": "--isolation",
    "levels": "--check",
    "until_violation": "--until-violation",
    "nemesis": "--nemesis",
    "seconds": "--time",
    "output": "--output",
    "keep": "--keep",
}


def _refuse_beside_matrix(options: dict[str, Any]) -> None:
    for name, option in _BESIDE_MATRIX.items():
        if options[name]:
            raise UsageError(f"--matrix runs every level by itself and records nothing; it does not go with {option}")


_OF_KEYS = ("keys", "operations", "distribution", "blind_writes", "deletes")


def _refuse_beside_application(workload: str) -> None:
    context = click.get_current_context()
    for name in _OF_KEYS:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            option = "--" + name.replace("_", "-")
            raise UsageError(f"{option} is for workloads of keys; {workload} has tables, and --scale for their sizes")


def _faults(text: str) -> tuple[Fault, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = [fault.value for fault in Fault]
    for name in names:
        if name not in known:
            raise UsageError(f"no fault '{name}'; there are {', '.join(known)}")
    return tuple(Fault(name) for name in names)


def _run(
    target: Target,
    faults: tuple[Fault, ...],
    as_json: bool,
    *,
    levels: tuple[str, ...],
    workload: str,
    sessions: int,
    transactions: int | None,
    seconds: float | None,
    until_violation: bool,
    as_matrix: bool,
    sizes: tuple[str, ...],
    mix: tuple[str, ...],
    by_kind: tuple[str, ...],
    keys: int,
    operations: int | None,
    distribution: str,
    blind_writes: float | None,
    deletes: float,
    seed: int,
    timeout: float,
    output: str | None,
    keep: bool,
) -> int:
    adapter, database = target.adapter, target.database
    if transactions is None and seconds is None:
        transactions = _TRANSACTIONS_MAX if until_violation else _TRANSACTIONS
    if is_application(workload):
        _refuse_beside_application(workload)
        if levels or faults or as_matrix:
            raise UsageError(
                f"{workload} is judged by its invariants: --check, --nemesis and --matrix are for other workloads"
            )
        application = application_named(workload)
        return run_application(
            target,
            application,
            directory=Path(output) if output else _new_directory(adapter, application.name),
            sizes=sizes,
            mix=mix,
            levels=by_kind,
            sessions=sessions,
            transactions=transactions,
            seconds=seconds,
            until_violation=until_violation,
            timeout_s=timeout,
            seed=seed,
            keep=keep,
            as_json=as_json,
        )
    if sizes or mix or by_kind:
        known = ", ".join(APPLICATIONS)
        raise UsageError(
            f"--scale, --mix and --level are for applications ({known}, or a file of yours); {workload} is none"
        )
    row = workload_named(workload)
    _refuse_what_it_cannot(adapter, row, deletes)
    offer = (offer_named(database, target.isolation) if target.isolation else database.offers()[-1]).of(row.kind)
    asked = list(dict.fromkeys(level_named(name) for name in levels)) or [offer.claims]
    settings = Settings(row, keys, operations, distribution, blind_writes, deletes, seed)
    settings.plans(0)
    if as_matrix:
        return matrix(adapter, database, settings, sessions, transactions or _TRANSACTIONS, as_json=as_json)
    directory = Path(output) if output else _new_directory(adapter, offer.name)
    table = Table(f"isolde_{secrets.token_hex(6)}", row.kind, keys)
    job = replace(
        keyvalue_job(
            database,
            table,
            offer,
            settings,
            sessions=sessions,
            directory=directory,
            meta=_meta(database, target.url, offer, settings, sessions),
        ),
        transactions=transactions,
        seconds=seconds,
        timeout_s=timeout,
        patience_s=_PATIENCE_WITH_FAULTS_S if faults else _PATIENCE_S,
    )
    private = _PrivateTable(target, table, keep=keep or target.server is not None)
    try:
        private.create()
        windows = None
        if until_violation and not faults and _stands_alone(row, keys, asked):
            windows = WindowCheck(directory, sessions, asked, _BUDGET)
        outcome, checked, events = _record(job, asked, until_violation, target, faults, windows)
        last = windows.keep_last() if windows is not None else None
        history = finish(directory)
        if outcome.interrupted:
            say(f"interrupted; what was recorded is in {history}")
            return Exit.INTERRUPTED
        lost = _what_was_lost(job, history, outcome) if faults else ()
        begun = time.monotonic()
        judged = last or history
        columns = read(str(judged))
        report = decide(columns, asked, budget=_BUDGET, surveyed=True)
        if windows is not None:
            report = windows.with_earlier(report)
        report = _tested(report)
        facts = RunFacts(
            database=database.version(),
            offer=offer,
            settings=settings,
            sessions=sessions,
            outcome=outcome,
            check_seconds=checked + time.monotonic() - begun,
            history=history,
            windows=windows.facts(last) if windows is not None else None,
            levels=tuple(asked),
            table=table.name if keep else None,
            faults=events,
            lost=lost,
        )
        # Told before the clean-up: that may have to wait for somebody's lock.
        if as_json:
            click.echo(dumped(run_document(facts) | document(report)))
        else:
            click.echo(render_run(facts))
            click.echo(render_report(str(judged), report, named_transactions(columns, report), paint))
        if outcome.failure is not None:
            raise OutsideError(f"the run ended early: {outcome.failure}{private.done()}")
    finally:
        left = private.done()
        if left:
            say(left.removeprefix("; "))
    if lost:
        return Exit.VIOLATED
    verdicts = {finding.verdict for finding in report.findings}
    serious = (Verdict.VIOLATED, Verdict.UNDECIDED, Verdict.SATISFIED)
    return _STATUS[next(verdict for verdict in serious if verdict in verdicts)]


def _tested(report: Report) -> Report:
    """A history in which nothing was committed breaks no level, and says nothing about any either."""
    if report.size.committed:
        return report
    findings = [
        replace(finding, verdict=Verdict.UNDECIDED, reason="no transaction was committed, so that nothing was tested")
        if finding.verdict is Verdict.SATISFIED
        else finding
        for finding in report.findings
    ]
    return replace(report, findings=tuple(findings), frontier=None)


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
        command = self._target.adapter.removal.format(table=name)
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
    until_violation: bool,
    target: Target,
    faults: tuple[Fault, ...],
    windows: WindowCheck | None,
) -> tuple[Outcome, float, tuple[Event, ...]]:
    """Runs the job; also how many seconds were spent on checking meanwhile, and the faults that were brought."""
    line = ProgressLine()
    spent = 0.0

    def violated(at: Round) -> bool:
        nonlocal spent
        begun = time.monotonic()
        if windows is not None:
            found = windows.violated(at)
        else:
            columns = Columns.from_jsonl(merged(job.directory, at.sizes), str(job.directory))
            report = decide(columns, asked, budget=_BUDGET)
            found = any(finding.verdict is Verdict.VIOLATED for finding in report.findings)
        spent += time.monotonic() - begun
        line.checked = at.planned
        return found

    in_windows = windows is not None
    first = (_WINDOW if in_windows else _FIRST_ROUND) if until_violation else None
    watcher = Watcher(line.show, first, growing=not in_windows, looking=in_windows, quiet=violated)
    nodes = target.server.nodes if target.server is not None else ()
    nemesis = Nemesis(nodes, target.wires, faults, job.seed) if faults else None
    try:
        outcome = Run(job, watcher).wait()
    finally:
        line.clear()
        if nemesis is not None:
            nemesis.stop()
    if nemesis is None:
        return outcome, spent, ()
    if nemesis.failure is not None:
        outcome.failure = nemesis.failure
    return outcome, spent, tuple(nemesis.events)


def _stands_alone(workload: Workload, keys: int, asked: list[Level]) -> bool:
    """Whether a window can be checked by itself: registers, few enough to be read whole, and levels that keep to a prefix."""
    return (
        workload.kind is Kind.REGISTERS
        and keys <= _WINDOW_KEYS_MAX
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


def _refuse_what_it_cannot(adapter: Adapter, workload: Workload, deletes: float) -> None:
    needs = [*workload.needs, *([Feature.DELETES] if deletes else [])]
    for feature in needs:
        ability = adapter.able(feature)
        if not ability.able:
            raise UsageError(f"the workload {workload.name} needs {feature}, which {adapter.name} lacks: {ability.how}")


def _new_directory(adapter: Adapter, what: str) -> Path:
    moment = datetime.now().strftime("%Y%m%d-%H%M%S")
    return Path(_RUNS) / f"{adapter.name}-{what}-{moment}-{secrets.token_hex(2)}"


def _meta(database: Database, url: str, offer: Offer, settings: Settings, sessions: int) -> dict[str, Any]:
    return {
        "database": database.version(),
        "url": url,
        "isolation": offer.called,
        "claims": offer.claims.value,
        "workload": settings.workload.name,
        "sessions": sessions,
        "keys": settings.keys,
        "distribution": settings.distribution,
        "deletes": settings.deletes,
        "seed": settings.seed,
    }
