"""What became of each step of a schedule: of a counterexample, as the store model has it, and of what was played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from isolde.campaigns.confirming import playable
from isolde.errors import IsoldeError
from isolde.findings import (
    ApplicationSubject,
    BrokenInvariant,
    Evidence,
    Finding,
    NotProved,
    OnStore,
    Refused,
    Report,
    Schedule,
    SchedulePlayed,
    Spent,
    Step,
    StepOutcome,
    TableRows,
    Verdict,
)
from isolde.history import schedule as played_schedules
from isolde.history.json_text import json_text
from isolde.history.schedule import Ended, Played, PlayedStep, Row
from isolde.semantics.stores.play import Trace, traced

COMMITTED, ROLLED_BACK = "→ committed", "→ rolled back"
_ROWS_SHOWN = 8


def with_outcomes(report: Report) -> Report:
    """The report with an outcome for each step of its counterexamples over SQL, as the model of their database has it.

    A counterexample of a level of the literature has no database, and stays as it is: its history has the answers.
    """
    return replace(report, findings=tuple(_finding(report, one) for one in report.findings))


def _finding(report: Report, finding: Finding) -> Finding:
    under = getattr(finding.question, "under", None)
    if isinstance(under, OnStore):
        store, settings = under.store, dict(under.settings)
    elif isinstance(report.subject, ApplicationSubject):
        store, settings = report.subject.database, dict(report.subject.settings)
    else:
        return finding
    return replace(finding, evidence=tuple(_evidence(one, store, settings) for one in finding.evidence))


def _evidence(one: Evidence, store: str, settings: Mapping[str, str]) -> Evidence:
    if isinstance(one, Refused):
        return replace(one, broken=_broken(one.broken, store, settings))
    return _broken(one, store, settings) if isinstance(one, BrokenInvariant) else one


def _broken(broken: BrokenInvariant, store: str, settings: Mapping[str, str]) -> BrokenInvariant:
    if broken.schedule is None or not broken.schedule.schema or broken.schedule.outcomes:
        return broken
    try:
        trace = traced(playable(broken), store, settings)
    except IsoldeError:
        # A paper's specification is no database, and not every statement of an application can be typed by itself.
        return broken
    return replace(broken, schedule=replace(broken.schedule, outcomes=_outcomes(trace, broken.schedule.rows)))


def _outcomes(trace: Trace, first: Sequence[TableRows]) -> tuple[StepOutcome, ...]:
    before: Mapping[str, tuple[Row, ...]] = {
        one.table: played_schedules.sorted_rows(list(one.rows))  # type: ignore[arg-type]
        for one in first
    }
    found = []
    for step, after in zip(trace.played.steps, trace.after, strict=True):
        changed = {name: rows for name, rows in after.items() if rows != before.get(name, ())}
        tables = _tables(after) if changed else ()
        found.append(replace(outcome_of(step), tables=tables))
        before = after
    return tuple(found)


def _tables(rows: Mapping[str, tuple[Row, ...]]) -> tuple[TableRows, ...]:
    return tuple(TableRows(name, found) for name, found in rows.items())


def outcome_of(step: PlayedStep) -> StepOutcome:
    """What became of a step, in words: ``→ (1, 10) (2, 20)``, ``→ 1 row``, ``✗ deadlock``."""
    said = answer_text(step.rows, step.count, step.error or "", step.message or "")
    if step.ended is not None:
        said = f"{said} {COMMITTED if step.ended is Ended.COMMITTED else ROLLED_BACK}".lstrip()
    failed = step.error is not None or step.ended is Ended.ROLLED_BACK
    return StepOutcome(said, step.returned_after, failed, step.waited_for)


def answer_text(rows: Sequence[Row] | None, count: int | None, error: str, message: str) -> str:
    """The answer of one statement: the rows that it returned or how many it changed, or why it failed."""
    said = []
    if rows is not None:
        shown = " ".join("(" + ", ".join(map(json_text, row)) + ")" for row in rows[:_ROWS_SHOWN])
        more = f" … {len(rows) - _ROWS_SHOWN:,} more" if len(rows) > _ROWS_SHOWN else ""
        said.append(f"→ {shown or 'no rows'}{more}")
    if count is not None:
        said.append(f"→ {count} row{'' if count == 1 else 's'}")
    if error:
        said.append(f"✗ {error}: {message}" if message else f"✗ {error}")
    return " ".join(said)


def played_finding(name: str, schedule: played_schedules.Schedule, played: Played, seconds: float) -> Finding:
    """A schedule that was played, with what became of it."""
    *outcomes, last = [outcome_of(step) for step in played.steps]
    shown = Schedule(
        steps=tuple(Step(step.session, step.sql, step.name) for step in played.steps),
        schema=schedule.schema,
        rows=_tables(schedule.rows),
        levels=tuple((session, level or "") for session, level in schedule.sessions.items()),
        # Only the rows at the end are known.
        outcomes=(*outcomes, replace(last, tables=_tables(played.rows))),
    )
    return Finding(SchedulePlayed(name), Verdict.SATISFIED, "played", Spent(seconds), (shown,))


def undecided_schedule(name: str, reason: str, seconds: float) -> Finding:
    """A schedule that cannot be played, and why."""
    return Finding(SchedulePlayed(name), Verdict.UNDECIDED, "store-model", Spent(seconds), (NotProved(reason),))
