"""``isolde run --schedule``: one given interleaving on a real database, its table of steps and its history."""

from __future__ import annotations

import secrets
import shutil
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import click

from isolde.campaigns.steps import played_finding
from isolde.campaigns.target import Wanted, opened
from isolde.cli.keeping import Keeping
from isolde.cli.main import Exit, paint, say
from isolde.databases.waiting import ASIDE_S, aside
from isolde.engines.play import Player, Recorded, history_of
from isolde.errors import InputError, OutsideError, StatementFailed, UsageError, not_written
from isolde.findings import DatabaseSubject, Report
from isolde.formats.jsonl import encode_history
from isolde.formats.schedules import read_schedules
from isolde.history.json_text import json_text
from isolde.history.schedule import Schedule
from isolde.report.schedule import PlayedSchedule, render_schedule, schedules_document
from isolde.visible import printable_json

_RUNS = "isolde-runs"
_HISTORY = "history.jsonl"
_WIDTH = 100
_ALLOWED = {"url", "kind", "setting", "schedule", "isolation", "output", "as_json", "reports", "graphs"}
# Of a server that is started for a schedule nothing is to last; it need not wait for its disk.
_FAST = {
    "postgresql": ("fsync=off",),
    "mariadb": ("innodb_flush_log_at_trx_commit=0", "innodb_flush_method=nosync"),
}


def play_file(
    file: str,
    url: str | None,
    kind: str | None,
    settings: tuple[str, ...],
    isolation: str | None,
    output: str | None,
    report: Keeping,
    *,
    as_json: bool,
) -> int:
    """Plays the schedules of a file one after another and prints what became of each."""
    _refuse_others()
    read = read_schedules(file)
    if read.left_out:
        say(
            f"{file}: names no permutation; the first {len(read.schedules):,} orders are played, {read.left_out:,} are not"
        )
    with ExitStack() as stack:
        fast = _FAST.get(kind or "", ())
        target = opened(
            Wanted(url, kind, None, None, (), (), None, (), (*fast, *settings) if kind else settings), stack
        )
        place = Path(output) if output else _new_directory(target.adapter.name)
        _refuse_place(place)
        player = aside(lambda: Player(target.adapter, target.database, whom=True))
        stack.callback(_closed, player)
        results = []
        for number, schedule in enumerate(read.schedules, 1):
            begun = time.monotonic()
            recorded = _recorded(player, _at_level(schedule, isolation), file)
            seconds = time.monotonic() - begun
            path = place / (_HISTORY if len(read.schedules) == 1 else f"history-{number:04}.jsonl")
            _write(path, recorded)
            name = schedule.name or Path(file).stem
            results.append(
                PlayedSchedule(name, recorded.schedule, recorded.played, recorded.levels, seconds, str(path))
            )
            if not as_json:
                width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDTH
                click.echo(render_schedule(player.store, results[-1], width, paint))
        if report.wanted:
            findings = tuple(played_finding(one.name, one.schedule, one.played, one.seconds) for one in results)
            report.add(Report(DatabaseSubject(player.store, len(results)), findings))
        if as_json:
            click.echo(printable_json(json_text(schedules_document(player.store, results, read.left_out))))
    return Exit.HOLDS


def _refuse_others() -> None:
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if given and name not in _ALLOWED:
            raise UsageError(f"--schedule plays one given interleaving; it does not go with {parameter.opts[0]}")


def _at_level(schedule: Schedule, isolation: str | None) -> Schedule:
    """``--isolation`` is the level of sessions for which the schedule names none."""
    return replace(schedule, sessions={name: level or isolation for name, level in schedule.sessions.items()})


def _recorded(player: Player, schedule: Schedule, file: str) -> Recorded:
    try:
        return aside(lambda: player.record(schedule), free=player.stop)
    except StatementFailed as error:
        raise UsageError(f"{file}: the tables cannot be made: {error}") from None
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from None


def _closed(player: Player) -> None:
    try:
        aside(player.close, ASIDE_S)
    except OutsideError as error:
        say(str(error))


def _new_directory(adapter: str) -> Path:
    moment = datetime.now().strftime("%Y%m%d-%H%M%S")
    return Path(_RUNS) / f"{adapter}-schedule-{moment}-{secrets.token_hex(2)}"


def _refuse_place(place: Path) -> None:
    try:
        place.mkdir(parents=True, exist_ok=True)
        taken = any(place.glob("history*.jsonl"))
    except OSError as error:
        raise not_written(f"{error.filename}: {error.strerror}; choose another place with --output", error) from None
    if taken:
        raise InputError(f"{place}: a run is recorded there already; choose another place with --output")


def _write(path: Path, recorded: Recorded) -> None:
    try:
        path.write_bytes(encode_history(history_of(recorded)))
    except OSError as error:
        raise not_written(f"{path}: {error.strerror}; choose another place with --output", error) from None
