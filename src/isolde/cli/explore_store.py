"""``isolde explore --store`` and ``--schedule``: what a database would do, on its model and, if asked for, on a server."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from isolde.campaigns.confirming import playable
from isolde.campaigns.explore import ExploreOptions
from isolde.campaigns.steps import played_finding, undecided_schedule
from isolde.campaigns.store import (
    OnModel,
    StoreOptions,
    differing,
    explore_on_store,
    play_on_model,
    reproduced,
)
from isolde.campaigns.target import Wanted, opened
from isolde.cli.explore_options import Server, StoreAsked, isolations_named
from isolde.cli.keeping import Keeping
from isolde.cli.main import Exit, paint, say
from isolde.databases.waiting import aside
from isolde.engines.explore.program import Program
from isolde.engines.play import Player
from isolde.errors import UsageError
from isolde.findings import (
    AtLevel,
    BrokenInvariant,
    DatabaseSubject,
    Finding,
    InvariantKept,
    OnStore,
    Remark,
    Report,
    Verdict,
)
from isolde.formats.schedules import read_schedules
from isolde.history.json_text import json_text
from isolde.history.schedule import Played, Schedule
from isolde.levels.stores import store_level
from isolde.report.schedule import PlayedSchedule, render_schedule, schedules_document
from isolde.visible import printable_json, visible

_WIDTH = 100


def settings_named(texts: Sequence[str]) -> dict[str, str]:
    """``NAME=VALUE`` as names and values."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--setting {visible(text)}: write NAME=VALUE, as innodb_snapshot_isolation=ON")
        found[name] = value
    return found


def on_store(program: Program, options: ExploreOptions, store: StoreAsked, found: Report, server: Server) -> Report:
    """The report with what the store model says, how that compares with the levels, and whether a server does the same."""
    assert store.store is not None, "asked for"
    isolation, own = isolations_named(store.isolations)
    settings = settings_named(store.settings)
    asked = StoreOptions(
        store.store,
        _spelled(store.store, isolation, settings) if isolation else "",
        {name: _spelled(store.store, level, settings) for name, level in own.items()},
        settings,
        options.each_commit,
        options.calls_max,
        options.seconds,
        store.retries,
    )
    finding, schedules = explore_on_store(program, asked)
    remarks = [*_compared(found, finding)]
    if schedules and (server.reproduce is not None or server.kind is not None):
        broken = [one for one in finding.evidence if isinstance(one, BrokenInvariant)]
        remarks += _replayed(list(zip(broken, schedules, strict=True)), server.reproduce, server.kind, model=True)
    return replace(found, findings=(*found.findings, finding), facts=(*found.facts, *map(Remark, remarks)))


def reproduced_report(found: Report, url: str | None, kind: str | None) -> Report:
    """The report with what became, on a server, of the schedules of its violations."""
    pairs = [
        (one, playable(one))
        for finding in found.findings
        for one in finding.evidence
        if isinstance(one, BrokenInvariant) and one.schedule is not None and one.schedule.schema
    ]
    if not pairs:
        return found
    remarks = _replayed(pairs, url, kind, model=False)
    return replace(found, facts=(*found.facts, *map(Remark, remarks)))


def _replayed(
    pairs: Sequence[tuple[BrokenInvariant, Schedule]], url: str | None, kind: str | None, *, model: bool
) -> list[str]:
    remarks = []
    with ExitStack() as stack:
        player = _player(url, kind, stack)
        for broken, schedule in pairs:
            became = aside(partial(reproduced, player, schedule, broken), free=player.stop)
            odd = model and not became.startswith("the same")
            defect = " This is a defect of the model; please report it with the program." if odd else ""
            remarks.append(f"{broken.check} replayed on {player.store}: {became}.{defect}")
    return remarks


def _player(url: str | None, kind: str | None, stack: ExitStack) -> Player:
    target = opened(Wanted(url, kind), stack)
    player = aside(lambda: Player(target.adapter, target.database, whom=True))
    stack.callback(player.close)
    return player


def _compared(found: Report, finding: Finding) -> list[str]:
    """One sentence where the literature's level and the database's say something else."""
    on = getattr(finding.question, "under", None)
    if not isinstance(on, OnStore):
        return []
    there = f"{on.store} at {on.isolation}"
    remarks = []
    for other in found.findings:
        question = other.question
        if not isinstance(question, InvariantKept) or not isinstance(question.under, AtLevel):
            continue
        level = question.under.level.value
        if (other.verdict, finding.verdict) == (Verdict.VIOLATED, Verdict.SATISFIED):
            remarks.append(f"The program is safe on {there}, although {level} of the literature lets it break.")
        if (other.verdict, finding.verdict) == (Verdict.SATISFIED, Verdict.VIOLATED):
            remarks.append(f"The program breaks on {there}, although it is safe at {level} of the literature.")
    return remarks


# Schedules


def _spelled(store: str, level: str, settings: Mapping[str, str]) -> str:
    """A level as the database itself calls it: ``rc`` is its ``read committed``."""
    return store_level(store, level, settings).level.replace("-", " ")


def play_schedules(file: str, asked: StoreAsked, server: Server, report: Keeping, *, as_json: bool) -> int:
    """Plays the schedules of a file on a model, and on a server if one is given; prints what became of each."""
    read = read_schedules(file)
    if read.left_out:
        say(
            f"{file}: names no permutation; the first {len(read.schedules):,} orders are played, {read.left_out:,} are not"
        )
    assert asked.store is not None, "asked for"
    store, named = asked.store, settings_named(asked.settings)
    isolation, _ = isolations_named(asked.isolations)
    isolation = isolation and _spelled(store, isolation, named)
    results: list[dict[str, Any]] = []
    findings: list[Finding] = []
    undecided = False
    with ExitStack() as stack:
        player = _player(server.both, server.kind, stack) if server.both or server.kind else None
        for schedule in read.schedules:
            outcome = play_on_model(schedule, store, isolation, named)
            name = schedule.name or Path(file).stem
            undecided = undecided or outcome.ways is None
            real = None if player is None else _real(player, outcome.schedule)
            findings += _findings(name, outcome)
            if as_json:
                results += _documents(name, outcome, real)
            else:
                _print(name, store, outcome, real, player)
    if report.wanted:
        report.add(Report(DatabaseSubject(f"{store} (model)", len(read.schedules)), tuple(findings)))
    if as_json:
        subject = {"schedules": len(read.schedules), "database": f"{store} (model)"}
        click.echo(printable_json(json_text({"subject": subject, "results": results})))
    return Exit.UNDECIDED if undecided else Exit.HOLDS


def _findings(name: str, outcome: OnModel) -> list[Finding]:
    """What a report says of one schedule: a finding for each way in which it may go."""
    if outcome.ways is None:
        return [undecided_schedule(name, outcome.reason, outcome.seconds)]
    ways = outcome.ways.played
    names = [name if len(ways) == 1 else f"{name} (way {number} of {len(ways)})" for number in range(1, len(ways) + 1)]
    return [
        played_finding(shown, outcome.schedule, played, outcome.seconds)
        for shown, played in zip(names, ways, strict=True)
    ]


def _real(player: Player, schedule: Schedule) -> Played:
    return aside(lambda: player.record(schedule).played, free=player.stop)


def _documents(name: str, outcome: OnModel, real: Played | None) -> list[dict[str, Any]]:
    if outcome.ways is None:
        return [
            {
                "question": "schedule",
                "name": name,
                "verdict": "unknown",
                "method": "store-model",
                "seconds": round(outcome.seconds, 3),
                "reason": outcome.reason,
            }
        ]
    found = [
        PlayedSchedule(name, outcome.schedule, played, dict(outcome.schedule.sessions), outcome.seconds)
        for played in outcome.ways.played
    ]
    documents: list[dict[str, Any]] = schedules_document("", found)["results"]
    more: dict[str, Any] = {"more": True} if outcome.ways.more else {}
    differs = {} if real is None else {"differs": differing(real, outcome.ways)}
    return [document | {"method": "store-model"} | more | differs for document in documents]


def _print(name: str, store: str, outcome: OnModel, real: Played | None, player: Player | None) -> None:
    if outcome.ways is None:
        click.echo(f"{visible(name)}: {paint('undecided', 'yellow')}: {visible(outcome.reason)}")
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDTH
    several = len(outcome.ways.played) > 1
    for number, played in enumerate(outcome.ways.played, 1):
        shown = f"{name} (way {number} of {len(outcome.ways.played)})" if several else name
        levels = dict(outcome.schedule.sessions)
        result = PlayedSchedule(shown, outcome.schedule, played, levels, outcome.seconds)
        click.echo(render_schedule(f"the model of {store}", result, width, paint))
    if outcome.ways.more:
        click.echo("There are more ways than these.")
    if real is not None and player is not None:
        numbers = differing(real, outcome.ways)
        if not numbers:
            click.echo(f"{player.store} did the same.")
            return
        said = ", ".join("the final rows" if number == len(real.steps) else f"step {number}" for number in numbers)
        click.echo(f"{paint('It differs', 'red')} from {player.store} in {said}. There:")
        there = PlayedSchedule(name, outcome.schedule, real, dict(outcome.schedule.sessions), 0.0)
        click.echo(render_schedule(player.store, there, width, paint))
