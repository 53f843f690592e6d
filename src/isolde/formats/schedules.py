"""Schedules on disk: the JSON of one, and the ``.spec`` files of PostgreSQL's isolation tester (``spec.py``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from isolde.errors import InputError, MalformedSchedule
from isolde.formats.placed_json import Placed, read_placed
from isolde.formats.spec import SCHEDULES_MAX, parse_spec
from isolde.history.json_text import NumberText, json_text
from isolde.history.schedule import Played, PlayedStep, Row, Schedule, ScheduleStep

_SIZE_MAX = 64 * 2**20
_SHAPE = 'a schedule: {"schema": […], "rows": {…}, "sessions": {…}, "steps": [["T1", "begin"], …]}'
_STEP = 'a step: ["session", "SQL"] or ["session", "SQL", "name"]'


@dataclass(frozen=True, slots=True)
class ReadSchedules:
    """The schedules of a file; ``left_out`` orders of a ``.spec`` file without permutations were not made."""

    schedules: tuple[Schedule, ...]
    left_out: int = 0


def read_schedules(path: str, schedules_max: int = SCHEDULES_MAX) -> ReadSchedules:
    """The schedules of a file: one of JSON, of a ``.spec`` file one a permutation."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(_SIZE_MAX + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise InputError(f"{path!r} cannot be the name of a file: {error}") from None
    if len(content) > _SIZE_MAX:
        raise InputError(f"{path}: larger than {_SIZE_MAX // 2**20} MiB; expected a schedule")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise MalformedSchedule(path, line, "bytes that are no UTF-8", "a text in UTF-8") from None
    return parse_schedules(text, path, schedules_max)


def parse_schedules(text: str, file: str = "schedule", schedules_max: int = SCHEDULES_MAX) -> ReadSchedules:
    """The schedules of a text; JSON is told by its first sign."""
    if text.lstrip()[:1] in ("{", "["):
        return ReadSchedules((_schedule(read_placed(text, file), file),))
    schedules, left_out = parse_spec(text, file, schedules_max)
    return ReadSchedules(schedules, left_out)


def schedule_of(content: Mapping[str, Any], source: str = "schedule") -> Schedule:
    """The schedule that an object says, as a finding carries it."""
    return _schedule(read_placed(json_text(content), source), source)


def _schedule(document: Placed, file: str) -> Schedule:
    reader = _Reader(file)
    content = reader.object(document, _SHAPE)
    if "steps" not in content:
        reader.fail(document, 'a schedule without "steps"', _SHAPE)
    steps = tuple(reader.step(step) for step in reader.list(content["steps"], f'"steps" as a list, each of it {_STEP}'))
    if not steps:
        reader.fail(content["steps"], '"steps" without a step', _STEP)
    sessions = reader.levels(content.get("sessions"))
    for step in steps:
        sessions.setdefault(step.session, None)
    return Schedule(
        schema=reader.texts(content.get("schema"), '"schema" as a list of SQL statements'),
        rows=reader.rows(content.get("rows")),
        sessions=sessions,
        steps=steps,
        name=reader.name(content.get("name"), steps),
        before=reader.by_session(content.get("before"), "before", sessions),
        after=reader.by_session(content.get("after"), "after", sessions),
    )


class _Reader:
    """Parts of the JSON of a schedule; what is wrong is told with its line."""

    def __init__(self, file: str) -> None:
        self._file = file

    def fail(self, place: Placed, found: str, expected: str) -> None:
        raise MalformedSchedule(self._file, place.line, found, expected)

    def object(self, place: Placed, expected: str) -> dict[str, Placed]:
        if not isinstance(place.value, dict):
            self.fail(place, _shown(place), expected)
        content: dict[str, Placed] = place.value
        return content

    def list(self, place: Placed, expected: str) -> list[Placed]:
        if not isinstance(place.value, list):
            self.fail(place, _shown(place), expected)
        content: list[Placed] = place.value
        return content

    def text(self, place: Placed, expected: str) -> str:
        if not isinstance(place.value, str) or isinstance(place.value, NumberText) or not place.value.strip():
            self.fail(place, _shown(place), expected)
        if "\0" in place.value or _surrogates(place.value):
            self.fail(place, "a text that no database takes (a zero byte or half a sign)", expected)
        return str(place.value)

    def texts(self, place: Placed | None, expected: str) -> tuple[str, ...]:
        if place is None:
            return ()
        return tuple(self.text(part, expected) for part in self.list(place, expected))

    def step(self, place: Placed) -> ScheduleStep:
        parts = self.list(place, _STEP)
        if len(parts) not in (2, 3):
            self.fail(place, f"a step with {len(parts)} parts", _STEP)
        if len(parts) == 3 and parts[2].value is None:
            parts = parts[:2]
        return ScheduleStep(*(self.text(part, _STEP) for part in parts))

    def levels(self, place: Placed | None) -> dict[str, str | None]:
        expected = '"sessions" as names with their levels, as {"T1": "serializable", "T2": null}'
        if place is None:
            return {}
        found = {}
        for name, level in self.object(place, expected).items():
            found[name] = None if level.value is None or level.value == "" else self.text(level, expected)
        return found

    def rows(self, place: Placed | None) -> dict[str, tuple[Row, ...]]:
        expected = '"rows" as tables with their rows, as {"test": [[1, 10], [2, null]]}'
        if place is None:
            return {}
        return {
            table: tuple(self._row(row, table, expected) for row in self.list(rows, expected))
            for table, rows in self.object(place, expected).items()
        }

    def _row(self, place: Placed, table: str, expected: str) -> Row:
        values = self.list(place, expected)
        for value in values:
            if not isinstance(value.value, int | str | Decimal | None) or isinstance(value.value, NumberText):
                self.fail(value, f"{_shown(value)} in a row of {table}", "null, true, false, a number or a text")
            if isinstance(value.value, str):
                self._refuse_text(value)
        return tuple(value.value for value in values)

    def _refuse_text(self, place: Placed) -> None:
        if "\0" in place.value or _surrogates(place.value):
            self.fail(place, "a text that no database takes (a zero byte or half a sign)", "another text")

    def name(self, place: Placed | None, steps: tuple[ScheduleStep, ...]) -> str:
        if place is not None and isinstance(place.value, str):
            return place.value
        return " ".join(step.name for step in steps) if all(step.name for step in steps) else ""

    def by_session(
        self, place: Placed | None, field: str, sessions: dict[str, str | None]
    ) -> dict[str, tuple[str, ...]]:
        expected = f'"{field}" as sessions with their statements, as {{"T1": ["begin"]}}'
        if place is None:
            return {}
        found = {name: self.texts(part, expected) for name, part in self.object(place, expected).items()}
        for name in found:
            sessions.setdefault(name, None)
        return found


def _surrogates(text: str) -> bool:
    return any("\ud800" <= sign <= "\udfff" for sign in text)


def _shown(place: Placed) -> str:
    match place.value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case None:
            return "null"
        case value:
            text = json_text(value)
            return text if len(text) <= 40 else f"{text[:40]}…"


def schedule_document(schedule: Schedule) -> dict[str, Any]:
    """The object that ``--schedule`` reads; ``parse_schedules`` of its JSON gives the same schedule again."""
    document: dict[str, Any] = {
        "schema": list(schedule.schema),
        "rows": {table: [list(row) for row in rows] for table, rows in schedule.rows.items()},
        "sessions": dict(schedule.sessions),
        "steps": [[step.session, step.sql, *([step.name] if step.name else [])] for step in schedule.steps],
    }
    if schedule.name:
        document["name"] = schedule.name
    for field, texts in (("before", schedule.before), ("after", schedule.after)):
        if texts:
            document[field] = {session: list(statements) for session, statements in texts.items()}
    return document


def schedule_text(schedule: Schedule) -> str:
    """The JSON of a schedule, a step a line."""
    document = schedule_document(schedule)
    steps = ",\n  ".join(json_text(step) for step in document.pop("steps"))
    lines = [f'"{name}": {json_text(value)}' for name, value in document.items()]
    return "{" + ",\n ".join([*lines, f'"steps": [\n  {steps}]']) + "}\n"


def played_document(played: Played) -> dict[str, Any]:
    """What became of a schedule, as ``--json`` prints it: ``steps`` and ``rows``."""
    return {
        "steps": [_step_document(step) for step in played.steps],
        "rows": {table: [list(row) for row in rows] for table, rows in played.rows.items()},
    }


def _step_document(step: PlayedStep) -> dict[str, Any]:
    document: dict[str, Any] = {
        "session": step.session,
        "step": step.name or None,
        "sql": step.sql,
        "rows": None if step.rows is None else [list(row) for row in step.rows],
        "count": step.count,
        "error": step.error.value if step.error else None,
        "returned_after": step.returned_after,
    }
    if step.sqlstate:
        document["sqlstate"] = step.sqlstate
    if step.message:
        document["message"] = step.message
    if step.ended:
        document["ended"] = step.ended.value
    if step.waited_for:
        document["waited_for"] = list(step.waited_for)
    return document
