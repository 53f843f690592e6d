"""Reports of programs, logs and applications: one shape of document, one way to draw.

``{"subject": …, "results": [ … ]}``, a result for each question: verdict, method, seconds, and what the evidence says.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, assert_never

from isolde.findings import (
    Anomaly,
    ApplicationSubject,
    AtLevel,
    BrokenInvariant,
    ByOracle,
    ClaimKept,
    CommitOrder,
    DatabaseSubject,
    Evidence,
    FailingPrefix,
    Finding,
    HistoryLevel,
    HistorySubject,
    HowMany,
    InvariantKept,
    LeftOut,
    LogExplained,
    LogOrder,
    LogSubject,
    LostWrite,
    Miscounted,
    NotProved,
    ProgramSubject,
    Proof,
    Question,
    Refused,
    Remark,
    Report,
    Robust,
    RunHealth,
    SafeAt,
    Schedule,
    SchedulePlayed,
    Spent,
    Subject,
    Under,
    Verdict,
    WeakestLevel,
)
from isolde.formats.jsonl import transaction_line
from isolde.history import History, Key, txn_name
from isolde.report.document import anomaly_document
from isolde.report.terminal import COLOURS, WORDS, label, pictures
from isolde.visible import WIDTH, Paint, number_of, safe_lines, visible


def general_document(report: Report) -> dict[str, Any]:
    """The report for programs."""
    remarks = [fact.text for fact in report.facts if isinstance(fact, Remark)]
    return {"subject": _subject(report.subject), "results": [_result(finding) for finding in report.findings]} | (
        {"remarks": remarks} if remarks else {}
    )


def _subject(subject: Subject) -> dict[str, Any]:
    match subject:
        case HistorySubject(name, size):
            return {"name": name, "transactions": size.transactions, "committed": size.committed}
        case ProgramSubject(name, sessions, transactions):
            return {"name": name, "sessions": sessions, "transactions": transactions}
        case LogSubject(name, transactions, committed, statements):
            return {"name": name, "transactions": transactions, "committed": committed, "statements": statements}
        case ApplicationSubject(name, database, settings, invariants, assumptions):
            return {
                "application": name,
                "database": database,
                "settings": dict(settings),
                "invariants": list(invariants),
                "assumptions": list(assumptions),
            }
        case DatabaseSubject(name, schedules):
            return {"database": name, "schedules": schedules}
        case _:
            assert_never(subject)


def _result(finding: Finding) -> dict[str, Any]:
    result = _question(finding.question) | {"verdict": finding.verdict.value, "method": finding.method}
    result |= dict(finding.spent.counts) | {"seconds": round(finding.seconds, 6)}
    if finding.verdict is Verdict.UNDECIDED:
        result["reason"] = finding.reason
    miscounted = [one for one in finding.evidence if isinstance(one, Miscounted)]
    if miscounted:
        result["miscounted"] = [
            {
                "counter": one.key,
                "at_least": one.low,
                "at_most": one.high,
                "found": one.found,
                "transaction": one.transaction,
                "explanation": one.sentence,
            }
            for one in miscounted
        ]
    result["violations"] = [broken_document(one) for one in finding.evidence if isinstance(one, BrokenInvariant)]
    for shown in finding.evidence:
        result |= _evidence(shown)
    weaker = [one for one in finding.evidence if isinstance(one, Refused)]
    if weaker:
        result["weaker"] = [{"level": one.level, "status": "refused"} | broken_document(one.broken) for one in weaker]
    return result | ({"reproduce": finding.reproduce} if finding.reproduce else {})


def _question(question: Question) -> dict[str, Any]:
    match question:
        case HistoryLevel(level):
            return {"question": "level", "level": level.value}
        case ClaimKept(isolation, level):
            return {"question": "claim", "isolation": isolation, "level": level.value}
        case RunHealth(about):
            return {"question": "health", "about": about}
        case LogExplained(under):
            return {"question": "explanation"} | _under(under) | {"level": _words(under)}
        case InvariantKept(name, under):
            named = {"invariant": name} if name else {}
            return {"question": "invariant"} | named | ({} if under is None else _under(under))
        case Robust(under, against):
            return {"question": "robustness"} | _under(under) | {"against": _words(against)}
        case HowMany(under):
            return {"question": "count"} | _under(under)
        case SchedulePlayed(name, under):
            return {"question": "schedule", "name": name} | ({} if under is None else _under(under))
        case WeakestLevel(transaction):
            return {"question": "weakest level", "transaction": transaction}
        case _:
            assert_never(question)


def _under(under: Under) -> dict[str, Any]:
    if isinstance(under, AtLevel):
        own = {name: level.value for name, level in under.own}
        return {"level": under.level.value} | ({"levels": own} if own else {})
    return (
        {"store": under.store, "isolation": under.isolation}
        | ({"levels": dict(under.own)} if under.own else {})
        | ({"settings": dict(under.settings)} if under.settings else {})
    )


def _evidence(shown: Evidence) -> dict[str, Any]:
    """What evidence adds to a result; several violations are listed by themselves."""
    match shown:
        case FailingPrefix():
            return {
                "kind": shown.kind,
                "prefix": shown.length,
                "transaction": shown.transaction,
                "statement": shown.statement,
                "expected": _rows(shown.expected),
                "observed": _rows(shown.observed),
                "core": list(shown.core),
                "explained_by": list(shown.explained_by),
                "explanation": shown.explanation,
            }
        case CommitOrder(transactions, snapshots):
            return {"order": list(transactions)} | ({"snapshots": list(snapshots)} if snapshots else {})
        case LogOrder(transactions, states):
            return {"order": list(transactions), "snapshots": [list(one) for one in states]}
        case LeftOut(statements):
            return {"except": list(statements)}
        case Schedule():
            return {"schedule": schedule_document(shown)}
        case Proof(text, assumed):
            return {"status": "proved", "proof": text, "assumed": list(assumed)}
        case SafeAt(level, means):
            return {"level": level, "means": means}
        case Anomaly():
            return {"anomaly": anomaly_document(shown)}
        case LostWrite():
            return {"lost": shown.sentence}
        case ByOracle(oracle, explainable):
            return {"oracle": oracle, "explainable": explainable}
        case BrokenInvariant() | Refused() | NotProved() | Miscounted():
            return {}
        case _:
            assert_never(shown)


def _named(state: Sequence[tuple[Key, Any]]) -> Iterable[tuple[str, Any]]:
    """Keys as texts that tell them apart: next to the number 1, the text 1 is written in quotes.

    >>> dict(_named([("x", 5), (1, 6), ("1", 7)]))
    {'x': 5, '1': 6, "'1'": 7}
    """
    numbers = {str(key) for key, _ in state if not isinstance(key, str)}
    return [(repr(key) if isinstance(key, str) and key in numbers else str(key), value) for key, value in state]


def broken_document(broken: BrokenInvariant) -> dict[str, Any]:
    """What breaks, for programs."""
    content: dict[str, Any] = {"check": broken.check, "explanation": broken.explanation}
    if broken.history is not None:
        content["history"] = [transaction_line(transaction) for transaction in broken.history.transactions]
    if broken.schedule is not None:
        content["schedule"] = schedule_document(broken.schedule)
    if broken.state is not None:
        content["state"] = dict(_named(broken.state))
    elif broken.tables:
        content["state"] = {one.table: _rows(one.rows) for one in broken.tables}
    if broken.anomaly is not None:
        content["anomaly"] = broken.anomaly.name
    if broken.confirmed:
        content["confirmed"] = broken.confirmed
    return content


def schedule_document(schedule: Schedule) -> Any:
    """The steps alone; over SQL, the object that ``--schedule`` reads."""
    steps = [[step.session, step.does, *([step.name] if step.name else [])] for step in schedule.steps]
    if not schedule.schema:
        return steps
    return {
        "schema": list(schedule.schema),
        "rows": {one.table: _rows(one.rows) for one in schedule.rows},
        "sessions": dict(schedule.levels),
        "steps": steps,
    }


def _rows(rows: Iterable[Sequence[Any]] | None) -> list[list[Any]] | None:
    return None if rows is None else [list(row) for row in rows]


def _shown_rows(rows: Iterable[Sequence[Any]] | None) -> str:
    """Rows in one line, values as a person writes them."""
    return "nothing" if rows is None else "[" + ", ".join(f"[{', '.join(map(str, row))}]" for row in rows) + "]"


def render_general(report: Report, paint: Paint = lambda text, _: text) -> str:
    """The report for a terminal."""
    return safe_lines(lambda safely: _lines(report, safely), paint)


def _lines(report: Report, paint: Paint) -> list[str]:
    subject = _subject(report.subject)
    counts = [_count(name, value) for name, value in subject.items() if isinstance(value, int)]
    lines = [f"{report.subject.name}: {', '.join(counts)}" if counts else report.subject.name]
    exhibit = {transaction.id: transaction for transaction in report.exhibit}
    for finding in report.findings:
        word = paint(WORDS[finding.verdict], COLOURS[finding.verdict])
        lines.append(f"  {asked(finding.question)}: {word}  ({finding.seconds:.2f} s{counted(finding.spent)})")
        for shown in finding.evidence:
            lines += [f"    {line}".rstrip() for line in _drawn(shown)]
            if isinstance(shown, FailingPrefix):
                lines += [f"      {label(exhibit[name])}" for name in shown.core if name in exhibit]
        if finding.reproduce:
            lines.append(f"    again: {finding.reproduce}")
    for fact in report.facts:
        if isinstance(fact, Remark):
            lines += [f"  {line}" for line in _wrapped(fact.text)]
    return lines


def _count(name: str, value: int) -> str:
    return number_of(value, name.removesuffix("s")) if name.endswith("s") else f"{value:,} {name}"


def counted(spent: Spent) -> str:
    """What was gone through for an answer, to be put behind its seconds: ``, 18 explored, 71 MB``."""
    words = (f"{count:,} {'MB' if name == 'memory_mb' else name.replace('_', ' ')}" for name, count in spent.counts)
    return "".join(f", {text}" for text in words)


def asked(question: Question) -> str:
    """A question in few words: ``snapshot-isolation``, ``no-overdraft at postgresql:read-committed``."""
    match question:
        case HistoryLevel(level):
            return level.value
        case ClaimKept(isolation, level):
            return f"{isolation} as {level.value}"
        case RunHealth(about):
            return about
        case LogExplained(under) | HowMany(under):
            return _words(under)
        case InvariantKept(name, under):
            return " at ".join([name or "all checks", *([] if under is None else [_words(under)])])
        case Robust(under, against):
            return f"{_words(under)} as {_words(against)}"
        case SchedulePlayed(name, under):
            return " on ".join([name or "the schedule", *([] if under is None else [_words(under)])])
        case WeakestLevel(transaction):
            return f"the weakest level of {transaction}"
        case _:
            assert_never(question)


def _words(under: Under) -> str:
    if isinstance(under, AtLevel):
        return under.level.value + "".join(f", {name} at {level.value}" for name, level in under.own)
    own = "".join(f", {name} at {level}" for name, level in under.own)
    return f"{under.store}:{under.isolation}{own}"


def _drawn(shown: Evidence) -> list[str]:
    match shown:
        case BrokenInvariant():
            return _drawn_broken(shown)
        case Refused(level, broken):
            return [f"not at {level}:", *(f"  {line}" for line in _drawn_broken(broken))]
        case FailingPrefix():
            expected = "" if shown.expected is None else f"expected {_shown_rows(shown.expected)}, "
            return [
                *_wrapped(shown.explanation),
                *_wrapped(
                    f"{expected}observed {_shown_rows(shown.observed)}: statement {shown.statement} of"
                    f" {txn_name(shown.transaction)}, the last of the first {number_of(shown.length, 'transaction')}"
                ),
            ]
        case Schedule():
            return _drawn_schedule(shown)
        case LeftOut(statements):
            return [f"not judged: {one}" for one in statements]
        case LogOrder(transactions) | CommitOrder(transactions):
            return _wrapped("order: " + ", ".join(map(str, transactions)))
        case Proof(text, assumed):
            return [*_wrapped(text), *(f"assumed: {one}" for one in assumed)]
        case SafeAt(level, means):
            return [f"{level} ({means})" if means else level]
        case NotProved(reason, level):
            return _wrapped(f"{level}: {reason}" if level else reason)
        case Anomaly():
            return _wrapped(f"{shown.name}: {shown.explanation}")
        case LostWrite() | Miscounted():
            return _wrapped(shown.sentence)
        case ByOracle():
            return _wrapped(shown.remark) if shown.remark else []
        case _:
            assert_never(shown)


def _drawn_broken(broken: BrokenInvariant) -> list[str]:
    lines = _wrapped(f"{broken.check}: {broken.explanation}")
    lines += [
        ", ".join(f"{name} {value}" for name, value in zip(broken.columns, row, strict=False)) for row in broken.rows
    ]
    if broken.history is not None:
        lines += ["", *_pictured(broken.anomaly, broken.history), ""]
    if broken.schedule is not None:
        lines += ["schedule:", *(f"  {line}" for line in _drawn_schedule(broken.schedule))]
    if broken.state is not None:
        lines.append("state: " + ", ".join(f"{key} = {value}" for key, value in _named(broken.state)))
    if broken.tables:
        first = {} if broken.schedule is None else {one.table: one.rows for one in broken.schedule.rows}
        width = max(len(one.table) for one in broken.tables)
        lines.append("rows, beside the first ones:" if first else "rows:")
        for one in broken.tables:
            lines += _wrapped(f"  {one.table:{width}}  {_changed_rows(first.get(one.table, ()), one.rows)}")
    return lines


def _changed_rows(before: Iterable[Sequence[Any]], after: Iterable[Sequence[Any]]) -> str:
    """What came and what went: ``- [1, 'Ada'] + [1, 'Eve']``."""
    gone, came = list(before), []
    for row in after:
        if row in gone:
            gone.remove(row)
        else:
            came.append(row)
    said = [f"{sign} {list(row)}" for sign, rows in (("-", gone), ("+", came)) for row in rows]
    return " ".join(said) or "no change"


def _pictured(anomaly: Anomaly | None, history: History) -> list[str]:
    """The transactions, those of a cycle as ``check`` draws them."""
    named = {transaction.id: transaction for transaction in history.transactions}
    if anomaly is None or not named.keys() >= set(anomaly.transactions):
        return [f"    {label(one)}" for one in history.transactions]
    rows, drawn = pictures(anomaly, named, all_cases=False), set(anomaly.transactions)
    return rows + [f"    {label(one)}" for one in history.transactions if one.id not in drawn]


def _drawn_schedule(schedule: Schedule) -> list[str]:
    """A step a line, with its answer where that is known; that a commit committed goes without saying."""
    width = max((len(step.session) for step in schedule.steps), default=0)
    answers = [f"  {one.answer}" if one.answer != "→ committed" else "" for one in schedule.outcomes]
    # A schedule that somebody else kept may have fewer.
    answers += [""] * (len(schedule.steps) - len(answers))
    return [
        f"{step.session:{width}}  {step.does}{answer}".rstrip()
        for step, answer in zip(schedule.steps, answers, strict=False)
    ]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(visible(text), WIDTH, subsequent_indent="  ")
