"""The page of a report: a head, the verdicts at a glance, and a section for each finding."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from isolde.findings import (
    ApplicationSubject,
    Command,
    DatabaseSubject,
    Finding,
    Frontier,
    HistoryLevel,
    HistorySubject,
    LogSubject,
    Met,
    ProgramSubject,
    Remark,
    Report,
    RunFacts,
    Subject,
    Verdict,
)
from isolde.report.general import asked, counted
from isolde.report.html.evidence import Shown
from isolde.report.html.markup import Markup, joined, tag
from isolde.report.html.overview import facts
from isolde.visible import number_of, visible

WORDS = {Verdict.SATISFIED: "satisfied", Verdict.VIOLATED: "violated", Verdict.UNDECIDED: "undecided"}
SIGNS = {Verdict.SATISFIED: "✓", Verdict.VIOLATED: "✗", Verdict.UNDECIDED: "?"}


def page(report: Report) -> str:
    """The whole page as one text, which needs no other file and no network."""
    return document(f"{called(report)}: {_said(report)}", body(report))


def pages(reports: Sequence[Report]) -> str:
    """Several reports on one page, with a table of them at its head."""
    rows = [
        tag(
            "tr",
            tag("td", tag("a", report.subject.name, href=f"#report-{number}")),
            tag("td", _badge(report)),
            tag("td", ", ".join(f"{asked(one.question)} {WORDS[one.verdict]}" for one in report.findings)),
        )
        for number, report in enumerate(reports, 1)
    ]
    index = tag("main", tag("table", tag("tbody", rows), cls="rows"))
    shown = [tag("div", body(report, f"{number}-"), id=f"report-{number}") for number, report in enumerate(reports, 1)]
    return document(f"{len(reports)} reports", joined([index, shown]))


def document(title: str, content: Markup) -> str:
    """A page of this look with ``content`` in it."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        # Nothing on the page may be fetched, or run but what is in it.
        tag(
            "meta",
            http_equiv="Content-Security-Policy",
            content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:",
        ),
        tag("title", visible(title)),
        tag("link", rel="icon", href="data:,"),
        tag("style", Markup(style("page.css") + style("graph.css"))),
    )
    script = tag("script", Markup(style("page.js")))
    return "<!doctype html>\n" + tag("html", head, tag("body", content, script), lang="en") + "\n"


def style(name: str) -> str:
    """A file that goes into the page."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def body(report: Report, prefix: str = "") -> Markup:
    """The report without the frame of a page; ``prefix`` tells its names from those of others on the page."""
    shown = Shown({transaction.id: transaction for transaction in report.exhibit}, prefix)
    sections = [_section(finding, f"{prefix}{number}", shown) for number, finding in enumerate(report.findings, 1)]
    remarks = [fact.text for fact in report.facts if isinstance(fact, Remark)]
    return joined(
        [
            tag(
                "header",
                tag("h1", called(report), _badge(report)),
                tag("p", _about(report.subject), cls="about"),
                tag("button", "light / dark", type="button", cls="theme"),
            ),
            tag(
                "main",
                _lead(report),
                shown.met(met) if (met := report.fact(Met)) is not None else None,
                _glance(report.findings, prefix) if report.findings else None,
                _line(report.frontier),
                facts(report),
                sections,
                tag("section", [tag("p", text) for text in remarks], cls="remarks") if remarks else None,
            ),
            tag("footer", _made_by(report), "Status at the top is the most serious one of all findings."),
        ]
    )


def called(report: Report) -> str:
    """What a person calls it: of a run the database, else the subject."""
    run = report.fact(RunFacts)
    return report.subject.name if run is None else f"{run.database} at {run.isolation}"


def _made_by(report: Report) -> Markup:
    """The command line that the page answers, for whoever wants to see it again."""
    command = report.fact(Command)
    if command is None:
        return tag("p", "Made by Isolde.")
    return tag("p", "Made by Isolde, and again by ", tag("code", command.text))


def _said(report: Report) -> str:
    return WORDS[report.verdict] if report.findings else "no question was asked"


def _badge(report: Report) -> Markup | None:
    if not report.findings:
        return None
    verdict = report.verdict
    return tag("span", f"{SIGNS[verdict]} {WORDS[verdict]}", cls=f"badge {verdict.value}")


def _about(subject: Subject) -> str:
    match subject:
        case HistorySubject(_, size):
            return (
                f"A history of {number_of(size.transactions, 'transaction')} ({size.committed:,} committed, {size.aborted:,}"
                f" aborted, {size.unknown:,} unknown) in {number_of(size.sessions, 'session')},"
                f" {number_of(size.operations, 'operation')}"
            )
        case ProgramSubject(_, sessions, transactions):
            return f"A program of {number_of(transactions, 'transaction')} in {number_of(sessions, 'session')}"
        case LogSubject(_, transactions, committed, statements):
            said = f"{number_of(statements, 'SQL statement')} in {number_of(transactions, 'transaction')}"
            return f"A log of {said} ({committed:,} committed)"
        case ApplicationSubject(_, database, settings, invariants, _):
            named = ", ".join(f"{name}={value}" for name, value in settings)
            return f"An application on {database}{f' ({named})' if named else ''}: {', '.join(invariants)}"
        case DatabaseSubject(_, schedules):
            return f"A database; schedules played on it: {schedules:,}" if schedules else "A database"


def _glance(findings: Sequence[Finding], prefix: str) -> Markup:
    """One chip for each finding, which leads to its section."""
    chips = [
        tag(
            "li",
            tag(
                "a",
                tag("span", SIGNS[finding.verdict], cls="sign", aria_hidden="true"),
                asked(finding.question),
                tag("small", ", ".join(dict.fromkeys(one.name for one in finding.anomalies)) or WORDS[finding.verdict]),
                href=f"#finding-{prefix}{number}",
                cls=f"chip {finding.verdict.value}",
            ),
        )
        for number, finding in enumerate(findings, 1)
    ]
    return tag("nav", tag("ul", chips), cls="glance", aria_label="all verdicts")


def _lead(report: Report) -> Markup | None:
    run = report.fact(RunFacts)
    return None if run is None or not run.lead else tag("p", run.lead, cls="lead")


def _line(frontier: Frontier | None) -> Markup | None:
    """Where the line between the levels runs."""
    if frontier is None:
        return None
    entries = []
    for head, levels in (
        ("strongest that hold", frontier.strongest_satisfied),
        ("weakest ruled out", frontier.weakest_violated),
    ):
        for entry in levels:
            entries += [tag("dt", head), tag("dd", tag("strong", entry.level.value), f": {entry.reason}")]
    return tag("dl", entries, cls="facts")


def _section(finding: Finding, number: str, shown: Shown) -> Markup:
    method = f"{finding.method}, " if finding.method else ""
    reason = None
    if finding.verdict is Verdict.UNDECIDED and finding.reason and not isinstance(finding.question, HistoryLevel):
        reason = tag("p", f"Undecided: {finding.reason}", cls="open")
    shown.begin(asked(finding.question), f"#finding-{number}")
    parts = [part for one in finding.evidence if (part := shown.part(one)) is not None]
    return tag(
        "section",
        tag(
            "h2",
            tag("span", SIGNS[finding.verdict], cls=f"sign {finding.verdict.value}", aria_hidden="true"),
            asked(finding.question),
            tag("small", f"{WORDS[finding.verdict]} ({method}{finding.seconds:.2f} s{counted(finding.spent)})"),
        ),
        reason,
        parts,
        tag("p", "Again: ", tag("code", finding.reproduce)) if finding.reproduce else None,
        id=f"finding-{number}",
        cls=f"finding {finding.verdict.value}{'' if parts or reason else ' plain'}",
    )
