"""``isolde explore``."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from isolde.campaigns.explore import ExploreListener, ExploreOptions, empty_report
from isolde.campaigns.explore import explore as explore_program
from isolde.campaigns.steps import with_outcomes
from isolde.cli import completing
from isolde.cli.explore_options import (
    Bounds,
    Questions,
    Server,
    Sessions,
    StoreAsked,
    explore_options,
    options_of_explore,
)
from isolde.cli.keeping import Keeping, report_option
from isolde.cli.main import Exit, paint, say, status_of
from isolde.cli.scaling import Scaling, scaling_options
from isolde.engines.explore.explore import Explorer
from isolde.engines.explore.files import program_of, programs_in
from isolde.engines.explore.program import Origin, Program
from isolde.engines.explore.question import Question
from isolde.engines.explore.search import INTERRUPTED, Progress
from isolde.errors import UsageError
from isolde.findings import Report
from isolde.formats.jsonl import transaction_line
from isolde.history import History
from isolde.history.json_text import json_text
from isolde.report.any import as_document, as_text
from isolde.scale.exploring import exploring
from isolde.visible import printable_json, visible

_SERIOUS = (Exit.VIOLATED, Exit.INTERRUPTED, Exit.UNDECIDED, Exit.HOLDS)
_EVERY_S = 0.2


@click.command()
@click.argument("program", required=False, shell_complete=completing.applications)
@options_of_explore
@click.option(
    "--schedule",
    metavar="FILE",
    help="Instead of a program: one interleaving (JSON, or a .spec file), played on --store.",
)
@click.option(
    "--list", "listing", metavar="FILE", help="Write every history to FILE, a JSON document each ('-': here)."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (of several programs, one a line).")
@scaling_options
@report_option
def explore(
    program: str | None,
    schedule: str | None,
    listing: str | None,
    as_json: bool,
    report: Keeping,
    scaling: Scaling,
    **given: Any,
) -> int:
    """Explore everything that a few sessions of transactions can do under an isolation level, no behaviour twice.

    PROGRAM is a Python file; every isolde.Program at its top level is a program. Or it is an application ('isolde workloads', or
    a file of your own) with --sessions.

    A failed check or invariant is shown with its shortest history, and with an interleaving that can be typed into terminals.
    """
    questions, bounds, sessions = Questions.of(given), Bounds.of(given), Sessions.of(given)
    store, server = StoreAsked.of(given), Server.of(given)
    if schedule is not None:
        if program is not None or store.store is None:
            raise UsageError("--schedule is played instead of a program, on a --store")
        from isolde.cli.explore_store import play_schedules

        _refuse_others()
        return play_schedules(schedule, store, server, report, as_json=as_json)
    if program is None:
        raise UsageError("give a PROGRAM, a Python file or an application; or --schedule FILE with --store")
    if server.both is not None:
        raise UsageError("--both goes with --schedule; --reproduce URL replays what an exploration found")
    if store.store is None and (store.isolations or store.settings or store.retries):
        raise UsageError("--isolation, --setting and --retries go with --store; --level names levels of the literature")
    if store.store is not None:
        scaling.refuse_with(("--store", True))
        if not questions.levels:
            _refuse_literature(questions, bounds, listing)
    options = explore_options(questions, bounds)
    # What a program prints is no part of the answer.
    with contextlib.redirect_stdout(sys.stderr):
        programs = _programs(program, sessions)
    if bounds.checkpoint is not None and len(programs) > 1:
        raise UsageError(
            f"{program} holds {len(programs)} programs, and a checkpoint one exploration; use a file for each"
        )
    report.check_count(len(programs), f"{program} holds {len(programs)} programs")
    status: list[Exit] = []
    resumed = bounds.checkpoint is not None and Path(bounds.checkpoint).exists()
    with _listing(listing, resumed=resumed) as listed, scaling.workers() as workers:
        ask = Explorer.ask if workers is None else exploring(workers)
        for one in programs:
            line = _Line()
            # Without a level of the literature, only the store is asked.
            with contextlib.redirect_stdout(sys.stderr):
                found = (
                    explore_program(one, options, ExploreListener(line.show, listed), ask)
                    if questions.levels or store.store is None
                    else empty_report(one)
                )
                line.clear()
                found = _beside(one, found, options, store, server)
            click.echo(printable_json(json_text(as_document(found))) if as_json else as_text(found, paint))
            if report.wanted:
                report.add(with_outcomes(found))
            status.append(status_of(found))
            if _interrupted(found):
                say("interrupted; what was explored so far is shown")
                status.append(Exit.INTERRUPTED)
                break
    return next(one for one in _SERIOUS if one in status)


_OF_SCHEDULES = {"schedule", "store", "isolations", "settings", "both", "kind", "as_json", "reports", "graphs"}


def _refuse_others() -> None:
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if given and name not in _OF_SCHEDULES:
            raise UsageError(f"--schedule plays one given interleaving; it does not go with {parameter.opts[0]}")


def _refuse_literature(questions: Questions, bounds: Bounds, listing: str | None) -> None:
    """What only an exploration at a level of the literature can do."""
    given = {
        "--against": questions.against,
        "--base": questions.base,
        "--checkpoint": bounds.checkpoint,
        "--list": listing,
    }
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"{name} is of levels of the literature; give a --level beside --store")


def _beside(program: Program, found: Report, options: ExploreOptions, store: StoreAsked, server: Server) -> Report:
    """The report with what a store model says, and with what became of its schedules on a server."""
    if store.store is not None:
        from isolde.cli.explore_store import on_store

        return on_store(program, options, store, found, server)
    if server.reproduce is not None or server.kind is not None:
        from isolde.cli.explore_store import reproduced_report

        return reproduced_report(found, server.reproduce, server.kind)
    return found


def _programs(program: str, asked: Sessions) -> list[Program]:
    sessions, scale = asked.sessions, asked.scale
    if not sessions and not scale and program.endswith(".py"):
        return programs_in(program)
    from isolde.workloads.applications import application_named, is_application
    from isolde.workloads.scales import scale_of

    if sessions:
        application = application_named(program)
        origin = Origin(program, application.name, sessions, scale, asked.seed)
        return [program_of(application, sessions, scale_of(application, scale), asked.seed, origin)]
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
