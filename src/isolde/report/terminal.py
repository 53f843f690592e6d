"""Findings for a terminal.

A cycle is drawn as a loop down the left edge, the transactions on it with what they did::

    ┌─▶ T1  s1  r(x,0) r(y,0) w(x,1)
    │    │ rw y   T1 read y = 0, which T2 replaced by y = 2.
    │    ▼
    │   T2  s2  r(x,0) r(y,0) w(y,2)
    │    │ rw x   T2 read x = 0, which T1 replaced by x = 1.
    └────┘
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from isolde.findings import (
    Anomaly,
    ByOracle,
    Case,
    Circle,
    CommitOrder,
    EvidenceUsed,
    Finding,
    Frontier,
    HistoryLevel,
    Link,
    Report,
    Verdict,
    endings,
    leading,
)
from isolde.history import Sql, Transaction, TxnId, render_operation, txn_name
from isolde.history.json_text import json_text
from isolde.visible import WIDTH, Paint, number_of, safe_lines, visible

WORDS = {Verdict.SATISFIED: "satisfied", Verdict.VIOLATED: "VIOLATED", Verdict.UNDECIDED: "undecided"}
COLOURS = {Verdict.SATISFIED: "green", Verdict.VIOLATED: "red", Verdict.UNDECIDED: "yellow"}
_OPS_MAX = 12


def render_report(report: Report, paint: Paint = lambda text, _: text, *, all_cases: bool = False) -> str:
    """The report of a history. Of cases only the leading one is drawn, unless ``all_cases`` are wanted."""
    return safe_lines(lambda safely: _report(report, safely, all_cases), paint)


def _report(report: Report, paint: Paint, all_cases: bool) -> list[str]:
    size = report.size
    transactions = {transaction.id: transaction for transaction in report.exhibit}
    parts = [f"{number_of(size.transactions, 'transaction')} ({size.committed:,} committed"]
    parts += [f"{count:,} {word}" for count, word in ((size.aborted, "aborted"), (size.unknown, "unknown")) if count]
    head = f"{', '.join(parts)}), {number_of(size.sessions, 'session')}, {number_of(size.operations, 'operation')}"
    lines = [f"{report.subject.name}: {head}"]
    shown: dict[Anomaly, Finding] = {}
    for finding in report.findings:
        if not isinstance(finding.question, HistoryLevel):
            continue
        lines += _finding(finding, transactions, paint, shown, all_cases=all_cases)
    if report.frontier is not None:
        lines += _frontier(report.frontier)
    if report.known is not None:
        lines.append(f"  evidence: {_evidence(report.known)}")
    return lines


def _finding(
    finding: Finding,
    transactions: Mapping[TxnId, Transaction],
    paint: Paint,
    shown: dict[Anomaly, Finding],
    *,
    all_cases: bool,
) -> list[str]:
    """One level. An anomaly that an earlier level was violated by, too, is drawn only there."""
    word = paint(WORDS[finding.verdict], COLOURS[finding.verdict])
    line = f"  {finding.level.value}: {word}"
    if finding.anomalies:
        names = list(dict.fromkeys(anomaly.name for anomaly in finding.anomalies))
        line += f" by {', '.join(names)}"
    line += f"{_oracle(finding)}  ({finding.seconds:.2f} s)"
    lines = [line]
    remark = finding.judged_by.remark
    if remark:
        lines += textwrap.wrap(visible(remark), WIDTH, initial_indent="    ", subsequent_indent="    ")
    if finding.verdict is Verdict.UNDECIDED:
        lines += textwrap.wrap(visible(finding.reason), WIDTH, initial_indent="    ", subsequent_indent="    ")
    if finding.order is not None:
        lines += _order(finding.order)
    for number, anomaly in enumerate(finding.anomalies, 1):
        first = shown.setdefault(anomaly, finding)
        if first is not finding:
            lines.append(f"    {anomaly.name}: the one shown at {first.level.value}")
            continue
        prefix = f"{number}. " if len(finding.anomalies) > 1 else ""
        lines.append("")
        adya = f" ({anomaly.adya})" if anomaly.adya not in ("", anomaly.name) else ""
        text = f"{prefix}{anomaly.name}{adya}: {anomaly.explanation}"
        lines += textwrap.wrap(visible(text), WIDTH, initial_indent="    ", subsequent_indent="      ")
        lines.append("")
        rows = pictures(anomaly, transactions, all_cases=all_cases)
        lines += [f"    {row}".rstrip() for row in rows] + [""]
    return lines


def _oracle(finding: Finding) -> str:
    """Whether a history is right by design, or only some order explains it; nothing where the database told nothing."""
    told = next((shown for shown in finding.evidence if isinstance(shown, ByOracle)), None)
    if told is None or told.oracle == "search":
        return ""
    whose = "certificate" if told.oracle == "certificate" else "serialization order"
    match finding.verdict, told.explainable:
        case Verdict.SATISFIED, _:
            return f", valid by design (by the database's {whose})"
        case Verdict.VIOLATED, True:
            return f" by the database's {whose}: merely explainable"
        case Verdict.VIOLATED, False:
            return f" by the database's {whose}, and no other order explains it"
        case _:
            return f" by the database's {whose}"


def _frontier(frontier: Frontier) -> list[str]:
    lines = []
    for title, levels in (
        ("strongest that hold", frontier.strongest_satisfied),
        ("weakest ruled out", frontier.weakest_violated),
    ):
        lines += [
            f"  {title if number == 0 else '':<20} {entry.level.value}: {entry.reason}"
            for number, entry in enumerate(levels)
        ]
    return lines


def _order(order: CommitOrder) -> list[str]:
    """The transactions of an order, with what each saw if that is not all before it."""
    names = [txn_name(name) for name in order.transactions]
    if order.snapshots:
        names = [
            name if seen == place else f"{name} (saw the first {seen})"
            for place, (name, seen) in enumerate(zip(names, order.snapshots, strict=True))
        ]
    return textwrap.wrap(
        visible("order: " + ", ".join(names)), WIDTH, initial_indent="    ", subsequent_indent="      "
    )


def _evidence(known: EvidenceUsed) -> str:
    kinds = (
        (known.so, f"{known.so:,} session order"),
        (known.wr, number_of(known.wr, "read attributed")),
        (known.ww, number_of(known.ww, "overwrite known")),
        (known.rw, _anti(known.rw)),
        (known.told_ww, number_of(known.told_ww, "overwrite only told")),
        (known.told_rw, f"{_anti(known.told_rw)} by what was told"),
        (known.open_pairs, number_of(known.open_pairs, "pair of writes open")),
    )
    return ", ".join(text for count, text in kinds if count) or "none"


def _anti(count: int) -> str:
    return f"{count:,} anti-dependenc{'y' if count == 1 else 'ies'}"


def _cases(cases: Sequence[Case]) -> list[str]:
    """The cases as a tree."""
    rows: list[str] = []
    for number, case in enumerate(cases):
        last = number + 1 == len(cases)
        rows.append(f"{'└─' if last else '├─'} if {case.supposition.sentence}:")
        match case.outcome:
            case Circle():
                below = _circle(case.outcome)
            case Anomaly(name, _, cycle, explanation) if not case.outcome.cases:
                below = [*_circle(Circle(name, cycle)), *textwrap.wrap(visible(explanation), WIDTH)]
            case Anomaly():
                below = _cases(case.outcome.cases)
            case _:
                below = _cases(case.outcome)
        rows += [f"{' ' if last else '│'}    {row}" for row in below]
    return rows


def _circle(circle: Circle) -> list[str]:
    rows = [circle.name]
    for link in circle.cycle:
        kind = link.kind if link.key is None else f"{link.kind} {link.key}"
        rows.append(f"  {kind:<6} {link.sentence}" + ("  (in this case)" if link.assumed else ""))
    return rows


def label(transaction: Transaction) -> str:
    """A transaction on one line: its name, its session, and what it did."""
    ops = [_statement(op) if isinstance(op, Sql) else render_operation(op) for op in transaction.ops]
    if len(ops) > _OPS_MAX:
        ops = [*ops[:_OPS_MAX], f"… {len(transaction.ops) - _OPS_MAX} more"]
    status = "" if transaction.status.value == "committed" else f" ({transaction.status.value})"
    return f"{txn_name(transaction.id)}  session {transaction.session}{status}  {' '.join(ops)}"


def _statement(op: Sql) -> str:
    """A statement and what it gave, as people write it: ``SELECT v FROM t → [[1]];``."""
    content = op.content
    text = " ".join(str(content.get("sql", "")).split())
    if content.get("error"):
        return f"{text} → {content['error']};"
    given = json_text(content["rows"]) if content.get("rows") is not None else content.get("count")
    return f"{text};" if given is None else f"{text} → {given};"


def pictures(anomaly: Anomaly, transactions: Mapping[TxnId, Transaction], *, all_cases: bool) -> list[str]:
    """The transactions of an anomaly, as a loop where they are a cycle."""
    if not anomaly.cases:
        return _picture(anomaly.transactions, anomaly.cycle, transactions)
    _, ending = leading(anomaly.cases)
    names = ending.transactions if isinstance(ending, Anomaly) else [link.source for link in ending.cycle]
    rows = _picture(names, ending.cycle, transactions, in_case=True)
    if all_cases:
        return [*rows, "", *_cases(anomaly.cases)]
    others = sum(1 for _ in endings(anomaly.cases)) - 1
    further = "one further case" if others == 1 else f"{others:,} further cases"
    return [*rows, "", f"({further}: --all-cases)"] if others else rows


def _picture(
    names: Sequence[TxnId], cycle: Sequence[Link], transactions: Mapping[TxnId, Transaction], *, in_case: bool = False
) -> list[str]:
    closes = bool(cycle) and cycle[-1].target == cycle[0].source
    if not closes:
        rows = [_row(name, transactions) for name in names]
        return rows + [f"  {link.kind}: {link.sentence}" for link in cycle]
    rows = []
    for number, link in enumerate(cycle):
        rows.append(("┌─▶ " if number == 0 else "│   ") + _row(link.source, transactions))
        kind = link.kind if link.key is None else f"{link.kind} {link.key}"
        rows.append(f"│    │ {kind:<6} {link.sentence}" + ("  (in this case)" if in_case and link.assumed else ""))
        rows.append("│    ▼" if number + 1 < len(cycle) else "└────┘")
    return rows


def _row(name: TxnId, transactions: Mapping[TxnId, Transaction]) -> str:
    """A transaction as it is drawn; of one that a kept report lost, its name."""
    return label(transactions[name]) if name in transactions else visible(str(name))
