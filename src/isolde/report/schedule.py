"""A schedule that was played: the table of its steps with a column for each session, and the same as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isolde.formats.schedules import played_document
from isolde.history.json_text import json_text
from isolde.history.schedule import Ended, Played, PlayedStep, Row, Schedule
from isolde.tx.script import level_in
from isolde.visible import Paint, safe_lines, visible

_ROWS_SHOWN = 12
_NUMBER = 5
# A column that is narrower tells nothing; the sessions then stand below each other.
_COLUMN_MIN = 24
_COLUMN_MAX = 60


@dataclass(frozen=True, slots=True)
class PlayedSchedule:
    """A schedule, what became of it, and where its history is; ``levels`` are those of the sessions, ``None`` the default."""

    name: str
    schedule: Schedule
    played: Played
    levels: Mapping[str, str | None]
    seconds: float
    history: str = ""


@dataclass(frozen=True, slots=True)
class _Entry:
    """Lines in the column of one session; ``number`` stands before the first."""

    number: int | None
    session: str
    lines: tuple[tuple[str, str], ...]
    """Texts with their colours, none if empty."""


def schedules_document(database: str, results: Sequence[PlayedSchedule], left_out: int = 0) -> dict[str, Any]:
    """All schedules of a file as ``--json`` prints them."""
    subject: dict[str, Any] = {"schedules": len(results), "database": database}
    if left_out:
        subject["left_out"] = left_out
    return {"subject": subject, "results": [_result(result) for result in results]}


def _result(result: PlayedSchedule) -> dict[str, Any]:
    document: dict[str, Any] = {
        "question": "schedule",
        "name": result.name,
        "verdict": "satisfied",
        "method": "played",
        "seconds": round(result.seconds, 3),
    } | played_document(result.played)
    if result.history:
        document["history"] = result.history
    return document


def render_schedule(
    database: str, result: PlayedSchedule, width: int = 100, paint: Paint = lambda text, _: text
) -> str:
    """The steps as terminals side by side, each with what it returned, and what waited with where it returned."""
    return safe_lines(lambda safely: _lines(database, result, width, safely), paint)


def _lines(database: str, result: PlayedSchedule, width: int, paint: Paint) -> Iterator[str]:
    yield f"{result.name or 'schedule'} on {database}"
    yield ""
    entries = list(_entries(result.played.steps))
    sessions = list(result.schedule.sessions)
    column = min((width - _NUMBER) // len(sessions) - 2, _COLUMN_MAX)
    heads = [f"{name} ({_level(result, name)})" for name in sessions]
    if column >= _COLUMN_MIN:
        yield from _beside(entries, sessions, heads, column, paint)
    else:
        yield from _below(entries, width, paint)
    yield ""
    for table, rows in result.played.rows.items():
        yield from _wrapped(f"{visible(table)} at the end: {_shown(rows)}", max(width, _COLUMN_MIN), "  ")
    if result.history:
        yield f"history: {result.history}"


def _level(result: PlayedSchedule, session: str) -> str:
    """The level of a session: that which it names itself, if it names one."""
    sent = [step.sql for step in result.schedule.steps if step.session == session]
    texts = (*result.schedule.before.get(session, ()), *sent)
    named = dict.fromkeys(level for text in texts if (level := level_in(text)) is not None)
    return ", ".join(named) or result.levels.get(session) or "default level"


def _beside(
    entries: Sequence[_Entry], sessions: Sequence[str], heads: Sequence[str], column: int, paint: Paint
) -> Iterator[str]:
    yield (" " * _NUMBER + "  ".join(visible(head)[:column].ljust(column) for head in heads)).rstrip()
    for entry in entries:
        place = sessions.index(entry.session)
        before = " " * (place * (column + 2))
        number = "" if entry.number is None else str(entry.number)
        for text, colour in entry.lines:
            for line in _wrapped(text, column):
                yield f"{number:>3}  {before}{paint(line, colour) if colour else line}"
                number = ""


def _below(entries: Sequence[_Entry], width: int, paint: Paint) -> Iterator[str]:
    for entry in entries:
        head = visible(entry.session) if entry.number is None else f"{entry.number} {visible(entry.session)}"
        yield f"{head}:"
        for text, colour in entry.lines:
            for line in _wrapped(text, max(width - 4, 16)):
                yield f"    {paint(line, colour) if colour else line}"


def _entries(steps: Sequence[PlayedStep]) -> Iterator[_Entry]:
    for number, step in enumerate(steps):
        name = f"{step.name}: " if step.name else ""
        text = f"{name}{' '.join(step.sql.split())}"
        if step.returned_after == number:
            yield _Entry(number, step.session, ((text, ""), *_outcome(step)))
        else:
            yield _Entry(number, step.session, ((text, ""), (_wait(steps, number), "yellow")))
        for earlier, other in enumerate(steps[:number]):
            if other.returned_after == number:
                first, *rest = _outcome(other) or (("done", ""),)
                head = f"(step {earlier} returned after step {number}) {first[0]}"
                yield _Entry(None, other.session, ((head, first[1]), *rest))
    for number, step in enumerate(steps):
        if step.returned_after is None:
            yield _Entry(None, step.session, ((f"(step {number} never returned)", "yellow"),))


def _wait(steps: Sequence[PlayedStep], number: int) -> str:
    step = steps[number]
    for earlier, other in enumerate(steps[:number]):
        if other.session == step.session and (other.returned_after is None or other.returned_after >= number):
            return f"… queued behind step {earlier}"
    return f"… waits for {', '.join(step.waited_for)}" if step.waited_for else "… waits"


def _outcome(step: PlayedStep) -> tuple[tuple[str, str], ...]:
    """What a step returned, in lines."""
    found: list[tuple[str, str]] = []
    if step.rows is not None:
        found.append((f"→ {_shown(step.rows)}", ""))
    if step.count is not None:
        found.append((f"→ {step.count} row{'' if step.count == 1 else 's'}", ""))
    if step.error is not None:
        state = f" ({step.sqlstate})" if step.sqlstate else ""
        found.append((f"✗ {step.error}{state}: {step.message}", "red"))
    if step.ended is Ended.ROLLED_BACK:
        found.append(("→ rolled back", "red"))
    elif step.ended is Ended.COMMITTED:
        found.append(("→ committed", ""))
    return tuple(found)


def _shown(rows: Sequence[Row]) -> str:
    if not rows:
        return "no rows"
    shown = " ".join("(" + ", ".join(map(json_text, row)) + ")" for row in rows[:_ROWS_SHOWN])
    return shown if len(rows) <= _ROWS_SHOWN else f"{shown} … {len(rows) - _ROWS_SHOWN} more rows"


def _wrapped(text: str, width: int, later: str = "  ") -> list[str]:
    return textwrap.wrap(visible(text), width, subsequent_indent=later, break_on_hyphens=False) or [""]
