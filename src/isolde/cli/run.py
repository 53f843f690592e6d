"""``isolde run``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from isolde.campaigns.options import (
    BUDGET,
    KEYS,
    RUNS,
    SESSIONS,
    TRANSACTIONS,
    ApplicationOptions,
    Bounds,
    KeyOptions,
    Listener,
    RunInterrupted,
    RunOptions,
    sessions_of,
)
from isolde.campaigns.run import matrix
from isolde.campaigns.run import run as run_and_judge
from isolde.campaigns.target import Wanted
from isolde.campaigns.trials import run_trials
from isolde.cli import completing
from isolde.cli.keeping import Keeping, report_option
from isolde.cli.main import Exit, leave_at_once, paint, say, status_of
from isolde.cli.progress import ProgressLine
from isolde.cli.scaling import Scaling, scaling_options
from isolde.cli.schedule import play_file
from isolde.databases.pep249 import Style
from isolde.databases.pep249_connection import MARKS
from isolde.databases.servers import KINDS
from isolde.databases.shapes import PLAIN, Shape, WriteForm
from isolde.engines.record import Fault
from isolde.errors import UsageError
from isolde.findings import Report
from isolde.levels import level_named
from isolde.report.any import as_document, as_text
from isolde.scale.trying import run_trials_apart
from isolde.visible import dumped
from isolde.workloads import DISTRIBUTIONS
from isolde.workloads.applications import is_application
from isolde.workloads.sql import NAME as SQL
from isolde.workloads.sql import SESSIONS as SQL_SESSIONS


@click.command()
@click.argument("url", required=False, metavar="[DATABASE-URL]")
@click.option("--start", "kind", type=click.Choice(KINDS), help="Start a private throw-away server of this kind.")
@click.option(
    "--server-version", metavar="VERSION", help="With --start: of this version ('isolde databases' lists them)."
)
@click.option("--setting", multiple=True, metavar="NAME=VALUE", help="With --start: a setting of the server's own.")
@click.option("--driver", metavar="MODULE", help="Any SQL database, by the Python module of its PEP 249 driver.")
@click.option(
    "--connect", metavar="TEXT", help="What the driver's connect() takes: a text, or a JSON object of arguments."
)
@click.option("--begin", multiple=True, metavar="SQL", help="With --driver: what begins a transaction.")
@click.option("--setup", multiple=True, metavar="SQL", help="With --driver: what is run on every new connection.")
@click.option(
    "--paramstyle", type=click.Choice(list(MARKS)), help="With --driver: how it marks parameters. [default: it says]"
)
@click.option("--threadsafety", type=click.IntRange(0, 3), help="With --driver: as PEP 249 has it. [default: it says]")
@click.option("--only-level", is_flag=True, help="With --driver: the database has one level, the one that is meant.")
@click.option(
    "--isolation",
    shell_complete=completing.isolations,
    metavar="NAME",
    help="The level to run at, as the database calls it. [default: its strongest]",
)
@click.option(
    "--check",
    "levels",
    shell_complete=completing.levels,
    multiple=True,
    metavar="LEVEL",
    help="Level to decide. [default: what it claims]",
)
@click.option(
    "--workload",
    shell_complete=completing.workloads,
    default="mini",
    show_default=True,
    metavar="NAME",
    help="'isolde workloads' lists them; or a Python file with an application.",
)
@click.option(
    "--sessions", type=click.IntRange(1, 1000), help=f"At once. [default: {SESSIONS}; of sql, {SQL_SESSIONS} a round]"
)
@click.option(
    "--concurrent-sessions",
    "concurrent",
    type=float,
    metavar="SHARE",
    help="Of the sessions: how many may have a transaction in flight at one time. [default: 1]",
)
@click.option("--transactions", type=click.IntRange(1), help=f"How many. [default: {TRANSACTIONS}]")
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
@click.option(
    "--trials",
    type=click.IntRange(1),
    metavar="N",
    help="N seeds, each until its first violation: how soon one is found.",
)
@click.option("--matrix", "as_matrix", is_flag=True, help="Every level and every anomaly of this database, as a table.")
@click.option("--keys", type=click.IntRange(1), help=f"How many. [default: {KEYS}, or the mix's]")
@click.option("--tables", type=click.IntRange(1, 2), help="Of sql: how many a round has at most. [default: 2]")
@click.option("--operations", type=click.IntRange(1), help="Operations a transaction. [default: the workload's]")
@click.option("--distribution", type=click.Choice(DISTRIBUTIONS), default="uniform", show_default=True)
@click.option("--exponent", type=float, metavar="N", help="Of zipfian: how steep. [default: 0.99]")
@click.option("--hot-keys", type=float, metavar="SHARE", help="Of hotspot: of the keys. [default: 0.2]")
@click.option("--hot-accesses", type=float, metavar="SHARE", help="Of hotspot: that go to them. [default: 0.8]")
@click.option("--blind-writes", type=click.FloatRange(0, 1), metavar="SHARE", help="Of the workload read-write.")
@click.option(
    "--deletes",
    type=click.FloatRange(0, 1),
    default=0.0,
    metavar="SHARE",
    help="Writes that remove the key instead; it is inserted again by whoever finds it gone. [default: 0]",
)
@click.option(
    "--columns", type=click.IntRange(1, 8), default=1, help="Value columns a row; each is a key. [default: 1]"
)
@click.option("--index", is_flag=True, help="An index on every value column.")
@click.option("--unique", is_flag=True, help="A unique index on the key and each value column.")
@click.option("--list-column", is_flag=True, help="Values in lists of one element, or as text.")
@click.option("--key-updates", is_flag=True, help="Each write changes the row's primary key.")
@click.option("--foreign-key", is_flag=True, help="Rows of another table refer to the rows that are written.")
@click.option(
    "--write-form",
    type=click.Choice([form.value for form in WriteForm]),
    default=WriteForm.UPDATE.value,
    show_default=True,
    help="The statement that writes a value.",
)
@click.option(
    "--shapes", type=click.Choice(["all"]), help="All shapes of tables and forms of writes, key after key the next."
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
    help="How often one kind of its transactions comes; 0: never. Of predicates: a mix by its name, or OPERATION=WEIGHT.",
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
@click.option("--output", "-o", metavar="DIRECTORY", help=f"Where to record. [default: a new one in {RUNS}]")
@click.option(
    "--nemesis",
    metavar="FAULTS",
    default="",
    help="With --start: kill, pause, restart or cut (the network), several by commas, again and again during the run.",
)
@click.option(
    "--certify",
    is_flag=True,
    help="Ask the database for its own order of versions and what each statement could see, and judge by that.",
)
@click.option(
    "--predicates-by",
    type=click.Choice(["core", "database"]),
    default="core",
    show_default=True,
    help="Of a certified run of tables: who evaluates conditions on versions of rows.",
)
@click.option(
    "--budget",
    type=click.IntRange(min=0, max=2**63 - 1),
    default=BUDGET,
    show_default=True,
    metavar="N",
    help="Steps that a search may take for one level, where the order of writes is open.",
)
@click.option("--keep", is_flag=True, help="Leave the table in the database.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@scaling_options
@report_option
def run(
    url: str | None,
    kind: str | None,
    setting: tuple[str, ...],
    driver: str | None,
    connect: str | None,
    begin: tuple[str, ...],
    setup: tuple[str, ...],
    only_level: bool,
    paramstyle: str | None,
    threadsafety: int | None,
    server_version: str | None,
    isolation: str | None,
    nemesis: str,
    schedule: str | None,
    trials: int | None,
    as_json: bool,
    report: Keeping,
    scaling: Scaling,
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
        return play_file(schedule, url, kind, setting, isolation, options["output"], report, as_json=as_json)
    faults = _faults(nemesis)
    if trials is None and scaling.wanted:
        raise UsageError("--workers and --engine are for --trials, each of which is a run of its own")
    if trials is not None and options["as_matrix"]:
        raise UsageError("--trials repeats one run; it does not go with --matrix")
    if options["as_matrix"]:
        _refuse_beside_matrix(options | {"nemesis": nemesis, "isolation": None if driver else isolation})
    if options["workload"] == SQL:
        _refuse_beside_sql()
    elif is_application(options["workload"]):
        _refuse_beside_application(options["workload"])
    style = Style(paramstyle, threadsafety)
    wanted = Wanted(
        url, kind, driver, connect, begin, setup, isolation, faults, setting, only_level, style, server_version
    )
    if driver is not None:
        # A driver may leave threads behind that never end: those of a JVM, say.
        leave_at_once()

    def found(result: Report) -> None:
        click.echo(dumped(as_document(result)) if as_json else as_text(result, paint))
        report.add(result)

    line = ProgressLine()
    listener = Listener(line.show, line.note_checked, line.say, line.clear, found, say)
    try:
        chosen = _options(faults, options)
        if trials is not None:
            return status_of(_trials(wanted, chosen, trials, listener, scaling))
        asked = matrix if options["as_matrix"] else run_and_judge
        return status_of(asked(wanted, chosen, listener))
    except RunInterrupted as interrupted:
        say(str(interrupted))
        return Exit.INTERRUPTED


def _trials(wanted: Wanted, options: RunOptions, count: int, listener: Listener, scaling: Scaling) -> Report:
    with scaling.workers() as workers:
        if workers is None:
            return run_trials(wanted, options, count, listener)
        return run_trials_apart(wanted, options, count, listener, workers)


def _options(faults: tuple[Fault, ...], options: dict[str, Any]) -> RunOptions:
    """What the command line says beside the database."""
    return RunOptions(
        workload=options["workload"],
        levels=tuple(level_named(name) for name in options["levels"]),
        bounds=Bounds(
            options["sessions"] or sessions_of(options["workload"]),
            options["transactions"],
            options["seconds"],
            options["until_violation"],
            options["timeout"],
            options["concurrent"],
        ),
        of_keys=KeyOptions(
            options["keys"],
            options["operations"],
            options["distribution"],
            options["blind_writes"],
            options["deletes"],
            _shapes(options),
            options["exponent"],
            options["hot_keys"],
            options["hot_accesses"],
        ),
        of_application=ApplicationOptions(options["sizes"], options["mix"], options["by_kind"]),
        seed=options["seed"],
        faults=faults,
        output=Path(options["output"]) if options["output"] else None,
        keep=options["keep"],
        certify=options["certify"],
        predicates_by=options["predicates_by"],
        budget=options["budget"],
        tables=options["tables"],
    )


def _shapes(options: dict[str, Any]) -> tuple[Shape, ...]:
    """The shapes of tables that are asked for; none stands for all that the database has."""
    shape = Shape(
        options["columns"],
        options["index"],
        options["unique"],
        options["list_column"],
        options["key_updates"],
        options["foreign_key"],
        WriteForm(options["write_form"]),
    )
    if options["shapes"] is None:
        return (shape,)
    if shape != PLAIN:
        raise UsageError(
            f"--shapes {options['shapes']} goes through all of them; it does not go with one of them ({shape})"
        )
    return ()


_BESIDE_MATRIX = {
    "isolation": "--isolation",
    "levels": "--check",
    "until_violation": "--until-violation",
    "nemesis": "--nemesis",
    "seconds": "--time",
    "output": "--output",
    "keep": "--keep",
    "certify": "--certify",
    "concurrent": "--concurrent-sessions",
}


def _refuse_beside_matrix(options: dict[str, Any]) -> None:
    for name, option in _BESIDE_MATRIX.items():
        if options[name]:
            raise UsageError(f"--matrix runs every level by itself and records nothing; it does not go with {option}")


_OF_KEYS = (
    "keys",
    "operations",
    "distribution",
    "exponent",
    "hot_keys",
    "hot_accesses",
    "blind_writes",
    "deletes",
    "columns",
    "index",
    "unique",
    "list_column",
    "key_updates",
    "foreign_key",
    "write_form",
    "shapes",
)


def _refuse_beside_application(workload: str) -> None:
    context = click.get_current_context()
    for name in _OF_KEYS:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            option = "--" + name.replace("_", "-")
            raise UsageError(f"{option} is for workloads of keys; {workload} has tables, and --scale for their sizes")


_NOT_OF_SQL = (
    "distribution",
    "exponent",
    "hot_keys",
    "hot_accesses",
    "concurrent",
    "blind_writes",
    "deletes",
    "sizes",
    "mix",
    "by_kind",
    "keep",
    "predicates_by",
    "timeout",
)


def _refuse_beside_sql() -> None:
    context = click.get_current_context()
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE
        if given and parameter.name in _NOT_OF_SQL:
            raise UsageError(f"{parameter.opts[0]} is not for {SQL}, which draws its tables and statements by itself")


def _faults(text: str) -> tuple[Fault, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = [fault.value for fault in Fault]
    for name in names:
        if name not in known:
            raise UsageError(f"no fault '{name}'; there are {', '.join(known)}")
    return tuple(Fault(name) for name in names)
