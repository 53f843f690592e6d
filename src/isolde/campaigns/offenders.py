"""The transactions behind a broken invariant: who wrote last the rows that its query for violations shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from isolde.engines.audit.last_changes import KeyedRow, last_changes
from isolde.errors import IsoldeError
from isolde.findings import BrokenInvariant, Evidence, Report, Writers
from isolde.formats import decode, read
from isolde.formats.tables import SqlHistory, sql_history
from isolde.history import TxnId
from isolde.tx.queries import TableSource
from isolde.tx.walk import parts
from isolde.workloads.application import Application

# Running a log again takes a second for some thousand transactions; nobody is to wait for minutes.
_TRANSACTIONS_MAX = 50_000


def with_last_writers(report: Report, application: Application, path: Path, seen: Mapping[str, int]) -> Report:
    """The report with the transactions that wrote each offending row last, and these transactions themselves in its exhibit.

    A row is known by its primary key, where the invariant's query shows the whole of it. ``seen``: when each invariant was
    seen broken, by the clock of the log. Where the log cannot be read or run again, nobody is named.
    """
    broken = [part for finding in report.findings for part in finding.evidence if isinstance(part, BrokenInvariant)]
    rows = {one.check: _offending(application, one) for one in broken}
    if not any(keyed for shown in rows.values() for keyed in shown):
        return report
    try:
        history = decode(read(str(path), None))
        if len(history.transactions) > _TRANSACTIONS_MAX:
            return report
        tables = sql_history(history, str(path))
        found = {check: _by_row(tables, shown, seen.get(check)) for check, shown in rows.items()}
    except IsoldeError:
        return report
    wanted = {name for writers in found.values() for names in writers for name in names}
    exhibit = {one.id: one for one in history.transactions if one.id in wanted}
    called = {name: str(one.extra.get("name", "")) for name, one in exhibit.items()}
    last = {
        check: tuple(tuple((name, called[name]) for name in names) for names in writers)
        for check, writers in found.items()
        if any(writers)
    }
    findings = tuple(
        replace(finding, evidence=tuple(_told(part, last) for part in finding.evidence)) for finding in report.findings
    )
    return replace(report, findings=findings, exhibit=(*report.exhibit, *exhibit.values()))


def _by_row(history: SqlHistory, rows: Sequence[Sequence[KeyedRow]], seen: int | None) -> list[tuple[TxnId, ...]]:
    """For each row that is shown, who wrote last what it shows."""
    changes = last_changes(history, {row for keyed in rows for row in keyed}, seen)
    return [tuple(dict.fromkeys(name for row in keyed for name in changes.get(row, ()))) for keyed in rows]


def _offending(application: Application, broken: BrokenInvariant) -> list[list[KeyedRow]]:
    """For each row that is shown, the rows of tables that its query looks at and whose whole primary key it shows."""
    (invariant,) = (one for one in application.invariants if one.name == broken.check)
    queried = {part.table for part in parts(invariant.violations) if isinstance(part, TableSource)}
    places = {}
    for name in sorted(queried & set(application.schema.tables)):
        key = application.schema.tables[name].primary_key
        if key and set(key) <= set(broken.columns):
            places[name] = [broken.columns.index(column) for column in key]
    return [[(name, tuple(str(row[place]) for place in key)) for name, key in places.items()] for row in broken.rows]


def _told(part: Evidence, last: Mapping[str, tuple[Writers, ...]]) -> Evidence:
    return replace(part, last=last[part.check]) if isinstance(part, BrokenInvariant) and part.check in last else part
