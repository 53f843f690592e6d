"""Many kept reports on one page: a table of databases and levels by workloads, and every report below it.

A cell has its runs in the order of time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from isolde.findings import (
    ApplicationFacts,
    ApplicationSubject,
    MatrixFacts,
    Report,
    RunFacts,
    SqlRunFacts,
    TrialsFacts,
    Verdict,
)
from isolde.report.html.markup import Markup, joined, tag
from isolde.report.html.page import SIGNS, WORDS, body, called, document


@dataclass(frozen=True, slots=True)
class KeptReport:
    """A report and the file that it is in; ``kept_at`` is when that was written, in seconds of Unix time."""

    name: str
    kept_at: float
    report: Report


def many(kept: Sequence[KeptReport]) -> str:
    """The page; ``kept`` are in the order of time."""
    cells: dict[tuple[tuple[str, str], str], list[int]] = {}
    for number, one in enumerate(kept):
        database, level, workload = _place(one.report)
        cells.setdefault(((database, level), workload), []).append(number)
    rows = sorted({row for row, _ in cells})
    columns = sorted({column for _, column in cells})
    head = tag(
        "tr",
        tag("th", "database", scope="col"),
        tag("th", "level", scope="col"),
        [tag("th", name, scope="col") for name in columns],
    )
    lines = [
        tag(
            "tr",
            tag("th", row[0], scope="row"),
            tag("th", row[1] or "–", scope="row"),
            [tag("td", [_mark(number, kept[number]) for number in cells.get((row, name), [])]) for name in columns],
        )
        for row in rows
    ]
    counts = {verdict: sum(1 for one in kept if one.report.verdict is verdict) for verdict in Verdict}
    told = ", ".join(f"{count:,} {WORDS[verdict]}" for verdict, count in counts.items() if count)
    opening = tag(
        "main",
        tag("h1", f"{len(kept):,} results"),
        tag("p", f"{told}. Oldest first in each cell; a mark leads to its result.", cls="about"),
        tag("table", tag("thead", head), tag("tbody", lines), cls="rows many"),
    )
    shown = [
        tag(
            "details",
            tag("summary", f"{SIGNS[one.report.verdict]} {one.name}: {called(one.report)}"),
            body(one.report, f"{number}-"),
            id=f"report-{number}",
        )
        for number, one in enumerate(kept)
    ]
    return document(f"{len(kept)} results", joined([opening, tag("main", shown)]))


def _mark(number: int, kept: KeptReport) -> Markup:
    verdict = kept.report.verdict
    day = datetime.fromtimestamp(kept.kept_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return tag(
        "a",
        SIGNS[verdict],
        href=f"#report-{number}",
        cls=f"chip {verdict.value}",
        title=f"{kept.name}, {day}: {WORDS[verdict]}",
        aria_label=f"{kept.name}, {day}: {WORDS[verdict]}",
    )


def _place(report: Report) -> tuple[str, str, str]:
    """The database, the level and the workload of a report; of what is no run, what it is about."""
    for fact in report.facts:
        match fact:
            case RunFacts() | SqlRunFacts():
                return fact.database, fact.isolation, fact.workload if isinstance(fact, RunFacts) else "sql"
            case ApplicationFacts():
                return fact.database, ", ".join(sorted({name for _, name in fact.levels})), fact.application
            case TrialsFacts():
                return fact.database, fact.isolation, f"{fact.workload} (trials)"
            case MatrixFacts():
                return fact.database, "", "matrix"
            case _:
                pass
    subject = report.subject
    if isinstance(subject, ApplicationSubject):
        return subject.database, "", f"infer {subject.name}"
    return subject.name, "", "other"
