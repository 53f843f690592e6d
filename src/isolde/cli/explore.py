"""``isolde explore``."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from isolde.campaigns.explore import DEFAULT_LEVEL, ExploreListener, ExploreOptions, empty_report
from isolde.campaigns.explore import explore as explore_program
from isolde.cli.keeping import keep_report, report_option
from isolde.cli.main import Exit, paint, say, status_of
from isolde.engines.explore.files import program_of, programs_in
from isolde.engines.explore.program import Origin, Program
from isolde.engines.explore.question import Question, explored_level
from isolde.engines.explore.search import INTERRUPTED, Progress
from isolde.errors import UsageError
from isolde.findings import Report
from isolde.formats.jsonl import transaction_line
from isolde.history import History
from isolde.history.json_text import json_text
from isolde.report.any import as_document, as_text
from isolde.visible import printable_json, visible

_SERIOUS = (Exit.VIOLATED, Exit.INTERRUPTED, Exit.UNDECIDED, Exit.HOLDS)
_EVERY_S = 0.2


@click.command()
@click.argument("program", required=False)
@click.option(
    "--level",
    "-l",
    "levels",
    multiple=True,
    metavar="LEVEL",
    help="rc, ra, cc, pc, si or ser; may be given several times, a question each. NAME=LEVEL gives the transaction NAME its"
    f" own level in all of them. [default: {DEFAULT_LEVEL}]",
)
@click.option(
    "--sessions",
    multiple=True,
    metavar="CALLS",
    help='Of an application: the calls of one session, such as "enroll(1, 1); leave(1)"; once for each session.',
)
@click.option(
    "--scale", multiple=True, metavar="NAME=N", help="Of an application: a size of its first rows, as in run."
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Of an application: of its first rows."
)
@click.option(
    "--against", metavar="LEVEL", help="Also list the behaviours that this level does not allow: is the program robust?"
)
@click.option(
    "--base",
    metavar="LEVEL",
    help="The level that every step keeps: trivial, rc, ra or cc. [default: cc, or the weakest level asked for]",
)
@click.option(
    "--method",
    type=click.Choice(["swapping", "dfs"]),
    default="swapping",
    show_default=True,
    help="swapping visits every history once; dfs is the plain search, for comparison.",
)
@click.option(
    "--tables",
    type=click.Choice(["rows", "set"]),
    default="rows",
    show_default=True,
    help="Over SQL: rows alone, or the literature's coarser model with a set of keys for each table.",
)
@click.option(
    "--invariant-after-each-commit", is_flag=True, help="Invariants must hold after each commit, not only at the end."
)
@click.option(
    "--budget", type=click.IntRange(1), metavar="N", help="Calls of EXPLORE for each level. [default: no limit]"
)
@click.option(
    "--time", "seconds", type=click.FloatRange(min=0, min_open=True), metavar="S", help="Seconds for each level."
)
@click.option("--threads", type=click.IntRange(1), help="[default: as many as there are cores]")
@click.option(
    "--checkpoint", metavar="FILE", help="Go on from FILE if it is there; write it if the exploration is not finished."
)
@click.option(
    "--store",
    type=click.Choice(["postgresql", "mariadb", "mysql", "sqlite"]),
    help="Run the transactions as this database does, on a model of it; without --level, only there.",
)
@click.option(
    "--isolation",
    "isolations",
    multiple=True,
    metavar="LEVEL",
    help="With --store: the database's level, such as read-committed; NAME=LEVEL for one transaction. [default: its own]",
)
@click.option(
    "--setting",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="With --store: a setting, as innodb_snapshot_isolation=ON.",
)
@click.option(
    "--retries", type=click.IntRange(0), default=0, help="With --store: run aborted transactions again. [default: 0]"
)
@click.option(
    "--schedule",
    metavar="FILE",
    help="Instead of a program: one interleaving (JSON, or a .spec file), played on --store.",
)
@click.option(
    "--both", metavar="URL", help="With --schedule: play it on this database too, and say where the two differ."
)
@click.option("--reproduce", metavar="URL", help="Replay the schedules of violations on this database.")
@click.option(
    "--start",
    "kind",
    metavar="DATABASE",
    help="For --reproduce or --both: a private server of this kind is started for it.",
)
@click.option(
    "--list", "listing", metavar="FILE", help="Write every history to FILE, a JSON document each ('-': here)."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (of several programs, one a line).")
@report_option
def explore(
    program: str | None,
    levels: tuple[str, ...],
    sessions: tuple[str, ...],
    scale: tuple[str, ...],
    seed: int,
    against: str | None,
    base: str | None,
    method: Literal["swapping", "dfs"],
    tables: Literal["rows", "set"],
    invariant_after_each_commit: bool,
    budget: int | None,
    seconds: float | None,
    threads: int | None,
    checkpoint: str | None,
    store: str | None,
    isolations: tuple[str, ...],
    settings: tuple[str, ...],
    retries: int,
    schedule: str | None,
    both: str | None,
    reproduce: str | None,
    kind: str | None,
    listing: str | None,
    as_json: bool,
    report: str | None,
) -> int:
    """Explore everything that a few sessions of transactions can do under an isolation level, no behaviour twice.

    PROGRAM is a Python file; every isolde.Program at its top level is a program. Or it is an application ('isolde workloads', or
    a file of your own) with --sessions.

    A failed check or invariant is shown with its shortest history, and with an interleaving that can be typed into terminals.
    """
    if schedule is not None:
        if program is not None or store is None:
            raise UsageError("--schedule is played instead of a program, on a --store")
        from isolde.cli.explore_store import play_schedules

        general_level, _ = isolations_named(isolations)
        return play_schedules(schedule, store, general_level, settings, both, kind, as_json=as_json)
    if program is None:
        raise UsageError("give a PROGRAM, a Python file or an application; or --schedule FILE with --store")
    if both is not None:
        raise UsageError("--both goes with --schedule; --reproduce URL replays what an exploration found")
    asked_store = None if store is None else _StoreAsked(store, isolations, settings, retries, reproduce, kind)
    if asked_store is None and (isolations or settings or retries):
        raise UsageError("--isolation, --setting and --retries go with --store; --level names levels of the literature")
    general, own = _levels(levels)
    options = ExploreOptions(
        levels=general,
        own=own,
        base=base,
        method=method,
        tables=tables,
        against=None if against is None else explored_level(against),
        each_commit=invariant_after_each_commit,
        calls_max=budget,
        seconds=seconds,
        threads=threads,
        checkpoint=checkpoint,
    )
    # What a program prints is no part of the answer.
    with contextlib.redirect_stdout(sys.stderr):
        programs = _programs(program, sessions, scale, seed)
    if checkpoint is not None and len(programs) > 1:
        raise UsageError(
            f"{program} holds {len(programs)} programs, and a checkpoint one exploration; use a file for each"
        )
    if report is not None and len(programs) > 1:
        raise UsageError(
            f"{program} holds {len(programs)} programs, and --report keeps one result; use a file for each"
        )
    status: list[Exit] = []
    with _listing(listing, resumed=checkpoint is not None and Path(checkpoint).exists()) as listed:
        for one in programs:
            line = _Line()
            # Without a level of the literature, only the store is asked.
            with contextlib.redirect_stdout(sys.stderr):
                found = (
                    explore_program(one, options, ExploreListener(line.show, listed))
                    if levels or asked_store is None
                    else empty_report(one)
                )
                line.clear()
                if asked_store is not None:
                    found = asked_store.joined(one, found, options)
            if asked_store is None and (reproduce is not None or kind is not None):
                from isolde.cli.explore_store import reproduced_report

                found = reproduced_report(found, reproduce, kind)
            keep_report(report, found)
            click.echo(printable_json(json_text(as_document(found))) if as_json else as_text(found, paint))
            status.append(status_of(found))
            if _interrupted(found):
                say("interrupted; what was explored so far is shown")
                status.append(Exit.INTERRUPTED)
                break
    return next(one for one in _SERIOUS if one in status)


@dataclass(frozen=True, slots=True)
class _StoreAsked:
    """What is asked of a store model beside, or instead of, the levels of the literature."""

    store: str
    isolations: tuple[str, ...]
    settings: tuple[str, ...]
    retries: int
    reproduce: str | None
    kind: str | None

    def joined(self, program: Program, found: Report, options: ExploreOptions) -> Report:
        from isolde.campaigns.store import StoreOptions
        from isolde.cli.explore_store import on_store, settings_named

        isolation, own = isolations_named(self.isolations)
        asked = StoreOptions(
            self.store,
            isolation or "",
            own,
            settings_named(self.settings),
            options.each_commit,
            options.calls_max,
            options.seconds,
            self.retries,
        )
        return on_store(program, asked, found, self.reproduce, self.kind)


def isolations_named(texts: tuple[str, ...]) -> tuple[str | None, dict[str, str]]:
    """The level of all transactions, as the database calls it, and those of transactions by name."""
    general: str | None = None
    own: dict[str, str] = {}
    for text in texts:
        name, equals, level = text.rpartition("=")
        spelled = " ".join(level.replace("-", " ").replace("_", " ").lower().split())
        if equals:
            own[name] = spelled
        elif general is not None:
            raise UsageError(f"--isolation {text}: {general} is given already; NAME=LEVEL is for one transaction")
        else:
            general = spelled
    return general, own


def _levels(texts: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Levels of questions, and levels of transactions by name."""
    general, own = [], {}
    for text in texts:
        name, equals, level = text.rpartition("=")
        long = explored_level(level)
        if not equals:
            general += [long] if long not in general else []
        elif name in own:
            raise UsageError(f"--level {text}: {name} is given twice")
        else:
            own[name] = long
    return tuple(general) or (DEFAULT_LEVEL,), own


def _programs(program: str, sessions: tuple[str, ...], scale: tuple[str, ...], seed: int) -> list[Program]:
    if not sessions and not scale and program.endswith(".py"):
        return programs_in(program)
    from isolde.workloads.applications import application_named, is_application
    from isolde.workloads.scales import scale_of

    if sessions:
        application = application_named(program)
        origin = Origin(program, application.name, sessions, scale, seed)
        return [program_of(application, sessions, scale_of(application, scale), seed, origin)]
    if scale:
        raise UsageError("--scale goes with --sessions, for an application")
    if not program.endswith(".py"):
        if is_application(program):
            application = application_named(program)
            example = application.parts[0].name
            raise UsageError(f'which transactions of {program}? Give each session: --sessions "{example}(…)"')
        raise UsageError(
            f"{visible(program)} is no Python file and no application; 'isolde workloads' lists applications"
        )
    return programs_in(program)


def _interrupted(report: Report) -> bool:
    return any(INTERRUPTED in finding.reason for finding in report.findings)


@contextlib.contextmanager
def _listing(path: str | None, *, resumed: bool) -> Iterator[Callable[[Question, History], None] | None]:
    if path is None:
        yield None
        return
    out = sys.stdout
    stream = out if path == "-" else Path(path).open("a" if resumed else "w", encoding="utf-8")  # noqa: SIM115

    def listed(question: Question, history: History) -> None:
        content: dict[str, Any] = {"level": question.level}
        if history.initial:
            content["initial"] = dict(history.initial)
        content["history"] = [transaction_line(transaction) for transaction in history.transactions]
        stream.write(printable_json(json_text(content)) + "\n")

    try:
        yield listed
    finally:
        if stream is not out:
            stream.close()


def _part(progress: Progress) -> str:
    """Which part of the whole that is, by an estimate that gets better with time."""
    explored, about = progress.counts.explored, progress.calls_in_all
    if about is None:
        return ""
    if explored >= about:
        return " (more than was estimated)"
    left = progress.seconds * (about - explored) / explored
    return f" of about {about:.1e} ({100 * explored / about:.0f} %, {_duration(left)} left)"


def _duration(seconds: float) -> str:
    """A duration in its largest unit.

    >>> [_duration(seconds) for seconds in (40, 400, 40_000, 4e6, 4e9)]
    ['40 s', '7 min', '11 h', '46 days', '127 years']
    """
    for size, unit in ((365 * 86_400, "years"), (86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


class _Line:
    """How far an exploration is, rewritten in place on a terminal, absent elsewhere."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self._next = 0.0

    def show(self, question: Question, progress: Progress) -> None:
        if not self._shown or progress.seconds < self._next:
            return
        self._next = progress.seconds + _EVERY_S
        counts = progress.counts
        sys.stderr.write(
            f"\r\x1b[K{question.level}  {progress.seconds:,.0f} s  {counts.explored:,} explored{_part(progress)}"
            f"  {counts.histories:,} histories"
        )
        sys.stderr.flush()

    def clear(self) -> None:
        self._next = 0.0
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
