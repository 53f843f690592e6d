"""``isolde explore``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import click

from isolde.campaigns.explore import DEFAULT_LEVEL, ExploreListener, ExploreOptions
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
from isolde.report.any import as_document, as_text
from isolde.visible import dumped, visible

_SERIOUS = (Exit.VIOLATED, Exit.INTERRUPTED, Exit.UNDECIDED, Exit.HOLDS)
_EVERY_S = 0.2


@click.command()
@click.argument("program")
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
    "--list", "listing", metavar="FILE", help="Write every history to FILE, a JSON document each ('-': here)."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (of several programs, one a line).")
@report_option
def explore(
    program: str,
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
    listing: str | None,
    as_json: bool,
    report: str | None,
) -> int:
    """Explore everything that a few sessions of transactions can do under an isolation level, no behaviour twice.

    PROGRAM is a Python file; every isolde.Program at its top level is a program. Or it is an application ('isolde workloads', or
    a file of your own) with --sessions.

    A failed check or invariant is shown with its shortest history, and with an interleaving that can be typed into terminals.
    """
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
    with _listing(listing) as listed:
        for one in programs:
            line = _Line()
            found = explore_program(one, options, ExploreListener(line.show, listed))
            line.clear()
            keep_report(report, found)
            click.echo(dumped(as_document(found)) if as_json else as_text(found, paint))
            status.append(status_of(found))
            if _interrupted(found):
                say("interrupted; what was explored so far is shown")
                status.append(Exit.INTERRUPTED)
                break
    return next(one for one in _SERIOUS if one in status)


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


@contextmanager
def _listing(path: str | None) -> Iterator[Callable[[Question, History], None] | None]:
    if path is None:
        yield None
        return
    stream = sys.stdout if path == "-" else Path(path).open("w", encoding="utf-8")  # noqa: SIM115

    def listed(question: Question, history: History) -> None:
        content: dict[str, Any] = {"level": question.level}
        if history.initial:
            content["initial"] = dict(history.initial)
        content["history"] = [transaction_line(transaction) for transaction in history.transactions]
        stream.write(dumped(content) + "\n")

    try:
        yield listed
    finally:
        if stream is not sys.stdout:
            stream.close()


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
        # No percentage: `counts.done` is near 1 long before large programs end (docs/design/explore.md, known limits).
        sys.stderr.write(
            f"\r\x1b[K{question.level}  {progress.seconds:,.0f} s  {counts.explored:,} explored"
            f"  {counts.histories:,} histories"
        )
        sys.stderr.flush()

    def clear(self) -> None:
        self._next = 0.0
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
