"""Tables and charts for what is more than one verdict: levels of transactions, anomalies by level, a run over time, trials."""

from __future__ import annotations

from collections.abc import Sequence

from isolde.findings import (
    ApplicationFacts,
    Assignments,
    BrokenInvariant,
    Finding,
    Interval,
    MatrixFacts,
    NotProved,
    Pace,
    Refused,
    Report,
    RunFacts,
    SafeAt,
    SqlRunFacts,
    TrialsFacts,
    Verdict,
    WeakestLevel,
)
from isolde.report.html.markup import Markup, tag

_WORDS = {"seen": "seen", "broken": "SEEN", "prevented": "–", "untried": "n/a"}
_WIDE, _HIGH, _LEFT = 720.0, 130.0, 84


def facts(report: Report) -> list[Markup]:
    """What is known beside the findings."""
    parts: list[Markup | None] = []
    for fact in report.facts:
        match fact:
            case RunFacts():
                parts.append(_run(fact))
            case SqlRunFacts():
                ran = f"{fact.rounds:,} rounds, {fact.ran.committed:,} transactions committed, {fact.ran.aborted:,} aborted"
                parts.append(
                    _listed(
                        [("database", f"{fact.database} at {fact.isolation}"), ("ran", ran), ("seed", str(fact.seed))]
                    )
                )
            case ApplicationFacts():
                parts.append(_application(fact))
            case MatrixFacts():
                parts.append(_matrix(fact))
            case TrialsFacts():
                parts.append(_trials(fact))
            case Pace():
                parts.append(_pace(fact))
            case Assignments():
                parts.append(_assignments(report, fact))
            case _:
                pass
    return [part for part in parts if part is not None]


def _listed(entries: Sequence[tuple[str, str]]) -> Markup:
    return tag("dl", [[tag("dt", name), tag("dd", value)] for name, value in entries if value], cls="facts")


def _run(run: RunFacts) -> Markup:
    ran = run.ran
    ended = f"{ran.committed:,} committed, {ran.aborted:,} aborted, {ran.unknown:,} unknown in {ran.seconds:.1f} s"
    counts = _listed(
        [
            ("database", f"{run.database} at {run.isolation}, which claims {run.claims.value}"),
            (
                "workload",
                f"{run.workload}: {run.sessions} sessions, {run.keys:,} keys, {run.distribution}, seed {run.seed}",
            ),
            ("tables", "; ".join(run.shapes)),
            ("ran", ended),
            ("faults", ", ".join(f"{one.fault} at {one.begun:.1f} s" for one in run.faults)),
            ("lost", ", ".join(one.sentence for one in run.lost or ())),
            ("history", run.history),
            ("again", run.again),
        ]
    )
    return tag("section", counts)


def _application(run: ApplicationFacts) -> Markup:
    ran = run.ran
    levels = sorted({called for _, called in run.levels})
    ended = f"{ran.committed:,} committed, {ran.aborted:,} aborted, {ran.unknown:,} unknown in {ran.seconds:.1f} s"
    return tag(
        "section",
        _listed(
            [
                ("database", f"{run.database} at {', '.join(levels)}"),
                ("application", f"{run.application}: {run.sessions} sessions, seed {run.seed}"),
                ("ran", ended),
                ("looked at", f"{len(run.invariants)} invariants at {run.quiet_points:,} quiet points"),
                ("history", run.history),
            ]
        ),
        tag("ul", [tag("li", tag("strong", one.name), ": ", one.meaning) for one in run.invariants]),
    )


def _matrix(matrix: MatrixFacts) -> Markup:
    names = dict.fromkeys((cell.anomaly, cell.hermitage) for level in matrix.levels for cell in level.cells)
    cells = {(cell.anomaly, level.name): cell for level in matrix.levels for cell in level.cells}
    head = [tag("th", level.name, tag("small", f"claims {level.claims.value}"), scope="col") for level in matrix.levels]
    rows = []
    for anomaly, hermitage in names:
        row = [tag("th", anomaly, tag("small", hermitage) if hermitage else None, scope="row")]
        for level in matrix.levels:
            cell = cells[anomaly, level.name]
            against = cell.result == "broken" or anomaly in level.against
            word = _WORDS[cell.result] + (
                "!" if anomaly in level.against else "+" if anomaly in level.anomalies else ""
            )
            row.append(tag("td", word, cls="against" if against else cell.result, title=cell.why or None))
        rows.append(tag("tr", row))
    told = (
        "seen: it happened, as the level allows; SEEN: it happened although the level claims that it cannot; –: prevented; "
        "+: transactions sent at random met it, too; !: they met it against the claim."
    )
    return tag(
        "section",
        tag("table", tag("thead", tag("tr", tag("td"), head)), tag("tbody", rows), cls="matrix"),
        tag("p", told, cls="small"),
    )


def _trials(facts: TrialsFacts) -> Markup:
    head = tag(
        "tr", [tag("th", name, scope="col") for name in ("seed", "verdict", "anomaly", "seconds", "place", "committed")]
    )
    rows = [
        tag(
            "tr",
            [
                tag("td", value)
                for value in (
                    str(one.seed),
                    one.verdict,
                    one.anomaly or "–",
                    f"{one.seconds:.2f}",
                    "–" if one.place is None else f"{one.place:,}",
                    f"{one.committed:,}",
                )
            ],
            cls="against" if one.anomaly else None,
        )
        for one in facts.trials
    ]
    found = sum(1 for one in facts.trials if one.anomaly)
    text = (
        f"{facts.database} at {facts.isolation}, {facts.workload}: an anomaly in {found} of {len(facts.trials)} trials"
    )
    return tag("section", tag("p", text), tag("table", tag("thead", head), tag("tbody", rows), cls="rows"))


def _assignments(report: Report, assignments: Assignments) -> Markup:
    rows = [_weakest(finding) for finding in report.findings if isinstance(finding.question, WeakestLevel)]
    head = tag(
        "tr",
        [
            tag("th", name, scope="col")
            for name in ("transaction", "weakest safe level", "", "what rules out weaker ones")
        ],
    )
    others = [", ".join(f"{name} {level}" for name, level in one) for one in assignments.listed[1:]]
    more = None
    if others:
        more = tag(
            "details", tag("summary", "Other minimal safe assignments"), tag("ul", [tag("li", one) for one in others])
        )
    complete = None
    if assignments.listed and not assignments.complete:
        complete = tag("p", "There may be others: some assignments were neither proved nor refused.", cls="small")
    return tag("section", tag("table", tag("thead", head), tag("tbody", rows), cls="rows infer"), more, complete)


def _weakest(finding: Finding) -> Markup:
    safe = next((one for one in finding.evidence if isinstance(one, SafeAt)), None)
    why: list[Markup] = []
    for one in reversed(finding.evidence):
        match one:
            case Refused(level, broken):
                why.append(tag("p", tag("strong", level), f": {broken.explanation}"))
            case NotProved(reason, level):
                why.append(
                    tag("p", tag("strong", level), f" not proved: {reason}" if level else f"not proved: {reason}")
                )
            case BrokenInvariant():
                why.append(tag("p", one.explanation))
            case _:
                pass
    words = {Verdict.SATISFIED: "proved", Verdict.VIOLATED: "refused", Verdict.UNDECIDED: "not proved"}
    name = finding.question.transaction if isinstance(finding.question, WeakestLevel) else ""
    return tag(
        "tr",
        tag("th", name, scope="row"),
        tag(
            "td",
            "–" if safe is None else safe.level,
            tag("small", safe.means) if safe is not None and safe.means else None,
        ),
        tag("td", tag("span", words[finding.verdict], cls=f"badge {finding.verdict.value}")),
        tag("td", why),
    )


def _pace(pace: Pace) -> Markup | None:
    """Throughput with aborts, and how long transactions took, over the time of the run."""
    parts = pace.intervals
    if not parts:
        return None
    rates = [(one.committed + one.aborted + one.unknown) / pace.seconds for one in parts]
    return tag(
        "section",
        tag("h3", "The run over time"),
        tag(
            "figure",
            _bars(parts, max(rates) or 1.0, pace.seconds),
            tag("figcaption", "transactions a second: committed, and on top of them aborted"),
        ),
        tag(
            "figure",
            _curves(parts),
            tag(
                "figcaption",
                "milliseconds from the beginning to the end of committed transactions: median, and the slowest",
            ),
        ),
    )


def _bars(parts: Sequence[Interval], most: float, seconds: float) -> Markup:
    wide = _WIDE / len(parts)
    drawn = []
    for place, one in enumerate(parts):
        y = _HIGH
        for count, cls in ((one.committed, "committed"), (one.aborted, "aborted"), (one.unknown, "unknown")):
            high = count / seconds / most * (_HIGH - 20)
            y -= high
            drawn.append(
                tag(
                    "rect",
                    cls=cls,
                    x=f"{_LEFT + place * wide:.1f}",
                    y=f"{y:.1f}",
                    width=f"{max(wide - 1, 0.5):.1f}",
                    height=f"{high:.1f}",
                )
            )
    return _chart(drawn, f"{most:,.0f}", parts, "throughput over time")


def _curves(parts: Sequence[Interval]) -> Markup:
    most = max((one.slowest_ms or 0.0 for one in parts), default=0.0) or 1.0
    drawn = []
    for cls, values in (("median", [one.median_ms for one in parts]), ("slowest", [one.slowest_ms for one in parts])):
        points = [
            f"{_LEFT + (place + 0.5) * _WIDE / len(parts):.1f},{_HIGH - value / most * (_HIGH - 20):.1f}"
            for place, value in enumerate(values)
            if value is not None
        ]
        drawn.append(tag("polyline", cls=cls, points=" ".join(points)))
    return _chart(drawn, f"{most:,.1f} ms", parts, "latency over time")


def _chart(drawn: Sequence[Markup], top: str, parts: Sequence[Interval], label: str) -> Markup:
    axis = tag("path", cls="axis", d=f"M{_LEFT},20 L{_LEFT},{_HIGH:.0f} L{_LEFT + _WIDE:.0f},{_HIGH:.0f}")
    texts = [
        tag("text", top, x=_LEFT - 6, y=24, text_anchor="end"),
        tag("text", "0", x=_LEFT - 6, y=f"{_HIGH:.0f}", text_anchor="end"),
        tag("text", f"{parts[-1].begun:.1f} s", x=f"{_LEFT + _WIDE:.0f}", y=f"{_HIGH + 16:.0f}", text_anchor="end"),
    ]
    return tag(
        "svg",
        drawn,
        axis,
        texts,
        cls="chart",
        viewBox=f"0 0 {_LEFT + _WIDE + 10:.0f} {_HIGH + 24:.0f}",
        role="img",
        aria_label=label,
    )
