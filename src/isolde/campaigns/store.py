"""What a real database would do: programs explored on its store model, schedules played on the model, on a server, or on both."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from isolde.engines.explore.on_store import Explored, Sent, StoreExploration, Violation
from isolde.engines.explore.program import Program, first_rows
from isolde.engines.explore.search import INTERRUPTED
from isolde.engines.explore.shown import literal_text, plain
from isolde.engines.play import Player
from isolde.errors import IsoldeError, MalformedProgram, OutsideFragment, UsageError
from isolde.findings import (
    BrokenInvariant,
    Finding,
    HowMany,
    InvariantKept,
    NotProved,
    OnStore,
    Spent,
    Step,
    TableRows,
    Verdict,
)
from isolde.findings import Schedule as ShownSchedule
from isolde.history.schedule import Played, PlayedStep, Schedule, ScheduleStep, sorted_rows
from isolde.semantics.stores import Ended, Failed
from isolde.semantics.stores.play import Ways, play
from isolde.tx.dialects import Dialect
from isolde.tx.render import render_schema

_DIALECTS = {"postgresql": Dialect.POSTGRESQL, "sqlite": Dialect.SQLITE}


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """A database, by the name of its model; the isolation level of all transactions, and of those by name; its settings.

    ``states_max`` and ``seconds`` bound the exploration; ``retries``: how often a transaction that was aborted runs again.
    """

    store: str
    isolation: str = ""
    own: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    each_commit: bool = False
    states_max: int | None = None
    seconds: float | None = None
    retries: int = 0


def explore_on_store(program: Program, options: StoreOptions) -> tuple[Finding, tuple[Schedule, ...]]:
    """What the invariants of a program come to on a model, and the schedules of its violations, as they can be played."""
    began = time.monotonic()
    exploration = StoreExploration(
        program, options.store, options.isolation, options.own, options.settings, retries=options.retries
    )
    bounds: dict[str, Any] = {} if options.states_max is None else {"states_max": options.states_max}
    found = exploration.explore(invariant_after_each_commit=options.each_commit, time_s=options.seconds, **bounds)
    spent = Spent(
        time.monotonic() - began,
        (("outcomes", len(found.outcomes)), ("schedules", found.schedules), ("states", found.states)),
    )
    under = OnStore(
        options.store, options.isolation or "default", tuple(options.own.items()), tuple(options.settings.items())
    )
    question = InvariantKept("", under) if program.invariants() or found.violations else HowMany(under)
    schedules = tuple(_playable(program, options, violation) for violation in found.violations.values())
    broken = tuple(
        _broken(program, violation, schedule)
        for violation, schedule in zip(found.violations.values(), schedules, strict=True)
    )
    finding = Finding(question, *_verdict(found, broken, options), spent, broken or _left(found, options))
    return finding, schedules


def shown_violation(program: Program, options: StoreOptions, violation: Violation) -> tuple[BrokenInvariant, Schedule]:
    """A violation with the schedule that leads to it, as it can be played."""
    schedule = _playable(program, options, violation)
    return _broken(program, violation, schedule), schedule


def _verdict(found: Explored, broken: Sequence[BrokenInvariant], options: StoreOptions) -> tuple[Verdict, str]:
    method = f"store-model({options.store})"
    if broken:
        return Verdict.VIOLATED, method
    return (Verdict.SATISFIED if found.complete else Verdict.UNDECIDED), method


def _left(found: Explored, options: StoreOptions) -> tuple[NotProved, ...]:
    if found.complete:
        return ()
    if found.interrupted:
        return (NotProved(INTERRUPTED),)
    over = f"{options.seconds:g} s" if options.seconds is not None else f"{found.states:,} states"
    return (NotProved(f"not all interleavings were visited within {over}; give more with --time or --budget"),)


def _broken(program: Program, violation: Violation, schedule: Schedule) -> BrokenInvariant:
    moment = "after a commit on the way" if violation.after_commit else "at the end"
    errors = [result for sent in violation.schedule for _, result in sent.results if isinstance(result, Failed)]
    calls = ", ".join(f"T{call.session + 1} runs {call}" for call in program.calls)
    failed = f"; the database refused {', '.join(sorted({error.word for error in errors}))}" if errors else ""
    name = "the invariant" if violation.name == "invariant" else violation.name
    return BrokenInvariant(
        check=violation.name,
        explanation=f"{name} does not hold {moment} of this interleaving, which the database lets happen{failed} ({calls}).",
        schedule=ShownSchedule(
            steps=tuple(Step(step.session, step.sql) for step in schedule.steps),
            schema=schedule.schema,
            rows=tuple(TableRows(table, rows) for table, rows in schedule.rows.items()),
            levels=tuple((session, level or "") for session, level in schedule.sessions.items()),
        ),
        tables=tuple(
            TableRows(table, tuple(tuple(plain(value) for value in row) for row in rows))
            for table, rows in violation.state.items()
        ),
        confirmed="explored",
    )


def _playable(program: Program, options: StoreOptions, violation: Violation) -> Schedule:
    """The schedule as a person types it: each session's BEGIN comes with its first statement."""
    dialect = _DIALECTS.get(options.store, Dialect.MYSQL)
    steps: list[ScheduleStep] = []
    begun: set[int] = set()
    for sent in violation.schedule:
        name = f"T{sent.session + 1}"
        if sent.session not in begun:
            steps.append(ScheduleStep(name, "begin"))
            begun.add(sent.session)
        steps.append(ScheduleStep(name, _text(sent, program.dialect, dialect)))
        for session, result in sent.results:
            if isinstance(result, Ended) or (isinstance(result, Failed) and result.ended):
                begun.discard(session)
    levels = {f"T{call.session + 1}": options.own.get(call.name, options.isolation) or None for call in program.calls}
    return Schedule(
        schema=tuple(render_schema(program.schema, dialect)),
        rows={
            table: tuple(tuple(plain(value) for value in row) for row in rows)
            for table, rows in first_rows(program).items()
        },
        sessions=levels,
        steps=tuple(steps),
        name=violation.name,
    )


def _text(sent: Sent, written: Dialect, spoken: Dialect) -> str:
    return literal_text(sent.sql, dict(sent.parameters), written, spoken) if sent.sql not in _ENDS else sent.sql


_ENDS = frozenset({"commit", "rollback", "abort"})


# Schedules


@dataclass(frozen=True, slots=True)
class OnModel:
    """What a schedule may come to on a model, or why that cannot be said; ``seconds`` that it took."""

    schedule: Schedule
    ways: Ways | None
    reason: str
    seconds: float


def play_on_model(
    schedule: Schedule, store: str, isolation: str | None, settings: Mapping[str, str] | None = None
) -> OnModel:
    """Plays a schedule on a model; ``isolation`` is the level of sessions for which it names none."""
    began = time.monotonic()
    named = replace(schedule, sessions={name: level or isolation for name, level in schedule.sessions.items()})
    try:
        return OnModel(named, play(named, store, settings), "", time.monotonic() - began)
    except (OutsideFragment, MalformedProgram, UsageError) as error:
        return OnModel(named, None, str(error), time.monotonic() - began)


def differing(real: Played, ways: Ways) -> list[int]:
    """The steps in which a server and its model differ, of the way in which they differ least; a step too many: the rows."""
    return min(([*_differing(real, way)] for way in ways.played), key=len, default=[])


def _differing(real: Played, model: Played) -> Iterator[int]:
    for number, (one, other) in enumerate(zip(real.steps, model.steps, strict=True)):
        if _told(one) != _told(other):
            yield number
    if {table: sorted_rows(rows) for table, rows in real.rows.items()} != dict(model.rows):
        yield len(real.steps)


def _told(step: PlayedStep) -> tuple[Any, ...]:
    rows = None if step.rows is None else sorted_rows(step.rows)
    return rows, step.count, step.error, step.returned_after, step.ended


def reproduced(player: Player, schedule: Schedule, finding: BrokenInvariant) -> str:
    """What became of a violation's schedule on a real database, in a sentence."""
    try:
        played = player.record(schedule).played
    except IsoldeError as error:
        return f"it could not be played there: {error}"
    refused = [step for step in played.steps if step.error is not None]
    waited = [n for n, step in enumerate(played.steps) if step.returned_after != n]
    expected: dict[str, Any] = {one.table: sorted_rows(cast(Any, one.rows)) for one in finding.tables}
    rows = {table: sorted_rows(found) for table, found in played.rows.items() if table in expected}
    if rows == expected:
        return "the same happened there: the tables hold the same rows at the end"
    if refused:
        step = refused[0]
        return f"it was refused there: '{step.sql}' of {step.session} failed ({step.error})"
    if waited:
        return f"it went on differently there: step {waited[0]} ('{played.steps[waited[0]].sql}') had to wait"
    return f"it differs there: the tables hold {rows} at the end"
