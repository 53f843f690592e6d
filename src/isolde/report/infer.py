"""Reports of ``infer``: the weakest safe level of each transaction, and what rules out the weaker ones."""

from __future__ import annotations

import textwrap
from typing import Any

from isolde.findings import (
    ApplicationSubject,
    Assignments,
    BrokenInvariant,
    Finding,
    NotProved,
    Proof,
    Refused,
    Remark,
    Report,
    SafeAt,
    Verdict,
    WeakestLevel,
)
from isolde.report.general import broken_document, general_document
from isolde.report.terminal import COLOURS
from isolde.visible import WIDTH, Paint, safe_lines, visible


def infer_document(report: Report) -> dict[str, Any]:
    """The report for programs."""
    facts = report.fact(Assignments)
    assert facts is not None
    content = general_document(report)
    return {
        "subject": content["subject"],
        "assignments": [dict(one) for one in facts.listed],
        "complete": facts.complete,
        "results": [_result(finding) for finding in report.findings],
    } | ({"remarks": content["remarks"]} if "remarks" in content else {})


def _result(finding: Finding) -> dict[str, Any]:
    assert isinstance(finding.question, WeakestLevel)
    safe = next((one for one in finding.evidence if isinstance(one, SafeAt)), None)
    proof = next((one for one in finding.evidence if isinstance(one, Proof)), None)
    alone = [one for one in finding.evidence if isinstance(one, BrokenInvariant)]
    status = {Verdict.SATISFIED: "proved", Verdict.VIOLATED: "refused", Verdict.UNDECIDED: "not-proved"}
    result: dict[str, Any] = {
        "question": "weakest level",
        "transaction": finding.question.transaction,
        "level": None if safe is None else safe.level,
        "means": None if safe is None else safe.means,
        "verdict": finding.verdict.value,
        "status": status[finding.verdict],
        "method": finding.method,
        "seconds": round(finding.seconds, 3),
    }
    if finding.verdict is Verdict.UNDECIDED:
        result["reason"] = finding.reason
    if alone:
        result |= {"serially": True} | _broken(alone[0])
        result["broken_serially"] = [one.check for one in alone]
    weaker: list[dict[str, Any]] = []
    for one in finding.evidence:
        if isinstance(one, Refused) and not one.above:
            weaker.append({"level": one.level, "status": "refused"} | _broken(one.broken))
        if isinstance(one, NotProved) and one.level:
            weaker.append({"level": one.level, "status": "not-proved", "reason": one.reason})
    result["weaker"] = weaker
    result["refused_above"] = [
        {"level": one.level} | _broken(one.broken) for one in finding.evidence if isinstance(one, Refused) and one.above
    ]
    if proof is not None:
        result |= {"proof": proof.text, "assumed": list(proof.assumed)}
    return result


def _broken(broken: BrokenInvariant) -> dict[str, Any]:
    content = broken_document(broken)
    return {"invariant": content.pop("check")} | content


def render_infer(report: Report, paint: Paint = lambda text, _: text) -> str:
    """The report for a terminal."""
    return safe_lines(lambda safely: _lines(report, safely), paint)


def _lines(report: Report, paint: Paint) -> list[str]:
    subject, facts = report.subject, report.fact(Assignments)
    assert isinstance(subject, ApplicationSubject)
    assert facts is not None
    lines = [f"{subject.name} on {subject.database}: {', '.join(subject.invariants)}"]
    width = max((len(_name(finding)) for finding in report.findings), default=0)
    for finding in report.findings:
        lines += _drawn(finding, width, paint)
    if len(facts.listed) > 1:
        lines.append("  other assignments that are safe and minimal:")
        lines += [f"    {', '.join(f'{name} {level}' for name, level in one)}" for one in facts.listed[1:]]
    if facts.listed and not facts.complete:
        lines.append("  There may be others: some assignments were neither proved nor refused.")
    for remark in report.facts:
        if isinstance(remark, Remark):
            lines += [f"  {line}" for line in textwrap.wrap(visible(remark.text), WIDTH - 2)]
    return lines


def _name(finding: Finding) -> str:
    assert isinstance(finding.question, WeakestLevel)
    return finding.question.transaction


def _drawn(finding: Finding, width: int, paint: Paint) -> list[str]:
    safe = next((one for one in finding.evidence if isinstance(one, SafeAt)), None)
    level = "-" if safe is None else safe.level.replace("-", " ").upper()
    said: list[str] = []
    for one in finding.evidence:
        match one:
            case Refused(name, broken, above):
                where = "though it is stronger, at" if above else "at"
                said.append(f"{where} {name.replace('-', ' ').upper()}: {broken.explanation} ({_means(broken)})")
            case NotProved(reason, name) if name:
                said.append(f"at {name.replace('-', ' ').upper()}: not proved; {reason}")
            case NotProved(reason):
                said.append(f"not proved: {reason}")
            case BrokenInvariant():
                said.append(
                    f"{one.explanation}: " + "; ".join(f"{t.table} {[list(r) for r in t.rows]}" for t in one.tables)
                )
            case _:
                pass
    word = {Verdict.SATISFIED: "proved", Verdict.VIOLATED: "refused", Verdict.UNDECIDED: "not proved"}[finding.verdict]
    head = f"  {visible(_name(finding)):{width}}  {level:16}  {paint(word, COLOURS[finding.verdict])}"
    # What rules out the next weaker level comes first.
    said.reverse()
    return [head, *(f"      {line}" for text in said for line in textwrap.wrap(visible(text), WIDTH - 6))]


def _means(broken: BrokenInvariant) -> str:
    return {"explored": "confirmed on the model", "executed": "confirmed on the server"}.get(broken.confirmed, "")
