"""Reports for build servers: JUnit XML, where each question is a test, and SARIF, where each violation is a result."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any
from xml.etree import ElementTree

from isolde.findings import (
    Anomaly,
    BrokenInvariant,
    Evidence,
    FailingPrefix,
    Finding,
    HistorySubject,
    LostWrite,
    Miscounted,
    Refused,
    Report,
    Verdict,
)
from isolde.report.any import as_text
from isolde.report.general import asked
from isolde.visible import visible

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def junit(reports: Sequence[Report]) -> str:
    """A suite for each report. What is undecided is an error: nobody may take it for a pass."""
    suites = ElementTree.Element("testsuites", name="isolde")
    for report in reports:
        counts = {verdict: sum(1 for one in report.findings if one.verdict is verdict) for verdict in Verdict}
        suite = ElementTree.SubElement(
            suites,
            "testsuite",
            name=visible(report.subject.name),
            tests=str(len(report.findings)),
            failures=str(counts[Verdict.VIOLATED]),
            errors=str(counts[Verdict.UNDECIDED]),
            skipped=str(counts[Verdict.SATISFIED] if _empty(report) else 0),
            time=f"{sum(one.seconds for one in report.findings):.3f}",
        )
        for finding in report.findings:
            _case(suite, report, finding)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ElementTree.Element, report: Report, finding: Finding) -> None:
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=visible(report.subject.name),
        name=visible(asked(finding.question)),
        time=f"{finding.seconds:.3f}",
    )
    if finding.verdict is Verdict.SATISFIED:
        if _empty(report):
            ElementTree.SubElement(case, "skipped", message="the history has no transactions: nothing was checked")
        return
    told = [f"{name}: {sentence}" for name, sentence in violations(finding)]
    violated = finding.verdict is Verdict.VIOLATED
    message = (told or [finding.reason or "violated"])[0] if violated else f"undecided: {finding.reason}"
    kind, word = ("failure", "violated") if violated else ("error", "undecided")
    part = ElementTree.SubElement(case, kind, message=visible(message), type=word)
    part.text = "\n".join(map(visible, as_text(report).splitlines()))


def _empty(report: Report) -> bool:
    """Whether there was nothing to check, which is no pass either."""
    return isinstance(report.subject, HistorySubject) and not report.size.transactions


def violations(finding: Finding) -> Iterator[tuple[str, str]]:
    """The name and the sentence of everything that a finding shows to be wrong."""
    for shown in finding.evidence:
        if (one := _violation(shown)) is not None:
            yield one


def _violation(shown: Evidence) -> tuple[str, str] | None:
    match shown:
        case Anomaly(name=name, explanation=explanation):
            return name, explanation
        case FailingPrefix(kind=kind, explanation=explanation):
            return f"{kind}-failure", explanation
        case BrokenInvariant(check=check, explanation=explanation):
            return check, explanation
        case Refused(level, broken):
            return broken.check, f"at {level}: {broken.explanation}"
        case LostWrite(sentence=sentence):
            return "lost-write", sentence
        case Miscounted(sentence=sentence):
            return "miscounted", sentence
        case _:
            return None


def sarif(reports: Sequence[Report]) -> str:
    """One run with a result for each violation, and one of kind ``open`` for each question that stayed undecided."""
    results, rules = [], {}
    for report in reports:
        for finding in report.findings:
            for rule, text, kind in _results(finding):
                rules[rule] = {"id": rule}
                results.append(_result(report, finding, rule, text, kind))
    driver = {"name": "Isolde", "version": version("isolde"), "rules": list(rules.values())}
    return (
        json.dumps(
            {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]},
            indent=1,
        )
        + "\n"
    )


def _results(finding: Finding) -> Iterator[tuple[str, str, str]]:
    if finding.verdict is Verdict.UNDECIDED:
        yield "undecided", finding.reason or "undecided", "open"
    # A level that is refused below a safe one is the answer that was asked for, and nothing that is wrong.
    if finding.verdict is Verdict.VIOLATED:
        found = list(violations(finding)) or [("violated", "violated")]
        yield from ((name, sentence, "fail") for name, sentence in found)


def _result(report: Report, finding: Finding, rule: str, text: str, kind: str) -> dict[str, Any]:
    place = {"physicalLocation": {"artifactLocation": {"uri": _uri(report.subject.name)}}}
    return {
        "ruleId": rule,
        "kind": kind,
        "level": "error" if kind == "fail" else "none",
        "message": {"text": visible(f"{asked(finding.question)}: {text}")},
        "locations": [place],
    }


def _uri(name: str) -> str:
    """The file; a test of pytest is a name in one."""
    from urllib.parse import quote

    return quote(name.partition("::")[0])
