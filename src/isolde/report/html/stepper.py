"""An interleaving as a table with a column for each session, gone through step by step.

Where it is known what became of each step, its answer, whom it waited for and the rows after it are shown with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from isolde.errors import InputError
from isolde.findings import Schedule, StepOutcome, TableRows
from isolde.history.json_text import json_text
from isolde.report.html.markup import Markup, tag
from isolde.tx.dialects import Dialect
from isolde.tx.sql import schema as read_schema

_ROWS_SHOWN = 12


def stepper(schedule: Schedule) -> Markup:
    """The table, its buttons, and the tables of the database beside it."""
    levels = dict(schedule.levels)
    sessions = list(dict.fromkeys([*levels, *(step.session for step in schedule.steps)]))
    heads = [
        tag("th", name, tag("small", levels[name]) if levels.get(name) else None, scope="col") for name in sessions
    ]
    rows = []
    for number, step in enumerate(schedule.steps):
        outcome = schedule.outcomes[number] if number < len(schedule.outcomes) else None
        said = [tag("code", " ".join(step.does.split())), *_said(number, outcome)]
        returned = _returned_here(number, schedule)
        cells = []
        for name in sessions:
            own = said if name == step.session else []
            cells.append(tag("td", own, [tag("div", text, cls="answer late") for text in returned.get(name, [])]))
        rows.append(tag("tr", tag("th", str(number), scope="row"), cells, data_step=number, tabindex=-1))
    states = list(_states(schedule))
    return tag(
        "div",
        tag(
            "div",
            tag("button", "start", type="button", data_go="first"),
            tag("button", "‹ back", type="button", data_go="back"),
            tag("button", "next ›", type="button", data_go="next"),
            tag("button", "end", type="button", data_go="last"),
            tag("span", cls="where", aria_live="polite"),
            cls="buttons",
        ),
        tag(
            "div",
            tag(
                "table",
                tag("thead", tag("tr", tag("th", "step", scope="col"), heads)),
                tag("tbody", rows),
                cls="steps",
            ),
            tag("div", states, cls="states") if states else None,
            cls="beside",
        ),
        cls="stepper",
        tabindex=0,
        role="region",
        aria_label="an interleaving, step by step; arrow keys go back and forth",
    )


def _said(number: int, outcome: StepOutcome | None) -> list[Markup]:
    """What came of a step at once, or that it waits."""
    if outcome is None:
        return []
    if outcome.returned_after == number:
        return [_answer(outcome)] if outcome.answer else []
    whom = f" for {', '.join(outcome.waits_for)}" if outcome.waits_for else ""
    never = ", and never returns" if outcome.returned_after is None else ""
    return [tag("div", f"… waits{whom}{never}", cls="waits")]


def _answer(outcome: StepOutcome) -> Markup:
    return tag("div", outcome.answer, cls="answer wrong" if outcome.failed else "answer")


def _returned_here(number: int, schedule: Schedule) -> dict[str, list[str]]:
    """What earlier steps, which had to wait, returned after this one was sent."""
    found: dict[str, list[str]] = {}
    for earlier, outcome in enumerate(schedule.outcomes[:number]):
        if outcome.returned_after == number:
            text = f"step {earlier} returns: {outcome.answer or 'done'}"
            found.setdefault(schedule.steps[earlier].session, []).append(text)
    return found


def _states(schedule: Schedule) -> Iterator[Markup]:
    """The committed rows at the beginning and after each step that changed them.

    Where it was played, tables that never change are left out, and of long ones the rows that are the same throughout.
    """
    moments = [("first", schedule.rows)] if schedule.rows else []
    moments += [(str(number), outcome.tables) for number, outcome in enumerate(schedule.outcomes) if outcome.tables]
    # A table that a moment does not name has no rows then.
    rows = [{one.table: set(map(json_text, one.rows)) for one in tables} for _, tables in moments]
    names = dict.fromkeys(name for one in rows for name in one)
    seen = {name: [one.get(name, set()) for one in rows] for name in names}
    lasting = {name: set.intersection(*states) for name, states in seen.items()}
    changing = {name for name, states in seen.items() if any(state != states[0] for state in states)}
    columns = _columns(schedule.schema)
    before: dict[str, set[str]] = {}
    for moment, tables in moments:
        shown = []
        for one in tables:
            if changing and one.table not in changing:
                continue
            new = {json_text(row) for row in one.rows} - before.get(one.table, set()) if moment != "first" else set()
            dropped = lasting[one.table] if len(one.rows) > _ROWS_SHOWN else set()
            kept = tuple(row for row in one.rows if json_text(row) not in dropped)
            heads = columns.get(one.table, ())
            shown.append(rows_table(TableRows(one.table, kept), new, len(one.rows) - len(kept), heads))
        title = "At the beginning" if moment == "first" else f"Committed after step {moment}"
        yield tag("section", tag("h5", title), shown, data_after=moment)
        before = {one.table: set(map(json_text, one.rows)) for one in tables}


def _columns(schema: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The names of tables' columns, as far as the texts that made them can be read. What changes a table may rename them."""
    if any(text.lstrip().upper().startswith(("ALTER", "DROP")) for text in schema):
        return {}
    found: dict[str, tuple[str, ...]] = {}
    for text in schema:
        for dialect in Dialect:
            try:
                tables = read_schema(text, dialect, strict=False).tables.values()
            except InputError:
                continue
            found |= {one.name: tuple(column.name for column in one.columns) for one in tables}
            break
    return found


def rows_table(one: TableRows, new: Set[str] = frozenset(), others: int = 0, columns: Sequence[str] = ()) -> Markup:
    """One table's rows under its name; those in ``new`` are marked, ``others`` are not shown since they stay the same.

    ``columns`` are left out where rows have another number of values.
    """
    known = columns if all(len(row) == len(columns) for row in one.rows) else ()
    rows = [
        tag("tr", [tag("td", value_text(value)) for value in row], cls="new" if json_text(row) in new else None)
        for row in one.rows[:_ROWS_SHOWN]
    ]
    more = len(one.rows) - _ROWS_SHOWN
    left = f"… {more:,} more rows" if more > 0 else f"… {others:,} other rows, which stay as they are" if others else ""
    return tag(
        "table",
        tag("caption", one.table),
        tag("thead", tag("tr", [tag("th", name, scope="col") for name in known])) if known else None,
        tag("tbody", rows or tag("tr", tag("td", "no rows", cls="none", colspan=max(1, len(known))))),
        tag("tfoot", tag("tr", tag("td", left, colspan=max((len(row) for row in one.rows), default=1))))
        if left
        else None,
        cls="rows",
    )


def value_text(value: object) -> str:
    """A value of a row as people write it: ``NULL`` for none."""
    return "NULL" if value is None else value if isinstance(value, str) else json_text(value)
