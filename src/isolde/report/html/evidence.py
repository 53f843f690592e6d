"""What supports a verdict, as parts of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from isolde.findings import (
    Anomaly,
    BrokenInvariant,
    ByOracle,
    CommitOrder,
    Evidence,
    FailingPrefix,
    LeftOut,
    LogOrder,
    LostWrite,
    Met,
    Miscounted,
    NotProved,
    Proof,
    Refused,
    SafeAt,
    Schedule,
    TableRows,
    circles_of,
)
from isolde.history import Sql, Transaction, TxnId, txn_name
from isolde.report.application import written_last
from isolde.report.drawing import Drawing, drawing, drawing_of, filled, operation_text
from isolde.report.html.graph import graph, timeline
from isolde.report.html.markup import Markup, tag
from isolde.report.html.stepper import rows_table, stepper, value_text
from isolde.report.terminal import pictures

_ORDER_SHOWN = 400
_CASES_SHOWN = 400


class Shown:
    """Draws the evidence of one report; figures get numbers, so that each answers only to itself."""

    def __init__(self, exhibit: Mapping[TxnId, Transaction], prefix: str = "") -> None:
        self._exhibit, self._figure_prefix = exhibit, prefix
        self._figures = 0
        self._finding = ("", "")
        self._anomalies: dict[Anomaly, tuple[str, str]] = {}

    def begin(self, name: str, link: str) -> None:
        """What follows is the evidence of this finding; ``link`` leads to it."""
        self._finding = (name, link)

    def met(self, met: Met) -> Markup:
        """What a run met although what it claims holds."""
        summary = f"{met.anomaly.name}, which {met.level.value} forbids"
        return _folded(summary, self._anomaly(met.anomaly), folded=False)

    def part(self, shown: Evidence) -> Markup | None:
        """One piece of evidence; ``None`` for what is told elsewhere on the page."""
        match shown:
            case Anomaly():
                return self._anomaly(shown)
            case FailingPrefix():
                return self._prefix(shown)
            case BrokenInvariant():
                return self._broken(shown)
            case Refused(level, broken, above):
                where = "Refused above a safe level, at" if above else "Refused at"
                return _folded(f"{where} {level}", self._broken(broken), folded=False)
            case Schedule():
                return stepper(shown)
            case Proof(text, assumed):
                listed = tag("ul", [tag("li", one) for one in assumed])
                return tag("div", tag("p", text), _folded("What the proof assumes", listed) if assumed else None)
            case SafeAt(level, means):
                return tag("p", "Safe at ", tag("strong", level), f" ({means})" if means else "")
            case NotProved(reason, level):
                return tag("p", f"{level}: {reason}" if level else reason, cls="open")
            case CommitOrder(transactions, snapshots):
                return _order(transactions, [str(one) for one in snapshots])
            case LogOrder(transactions, states):
                return _order(transactions, [", ".join(map(str, one)) for one in states])
            case LeftOut(statements):
                return _folded("Not judged", tag("ul", [tag("li", one) for one in statements]))
            case LostWrite() | Miscounted():
                return tag("p", shown.sentence)
            case ByOracle():
                return tag("p", shown.remark) if shown.remark else None
            case _:
                assert_never(shown)

    def _anomaly(self, anomaly: Anomaly) -> Markup:
        """An anomaly; one that rules out a weaker level, too, is drawn only there."""
        name, link = self._anomalies.setdefault(anomaly, self._finding)
        if (name, link) != self._finding:
            return tag("p", f"{anomaly.name}: the one shown at ", tag("a", name, href=link))
        adya = f" ({anomaly.adya})" if anomaly.adya not in ("", anomaly.name) else ""
        figure = self._figure(drawing_of(anomaly, self._exhibit))
        cases = None
        if anomaly.cases and figure is not None and _whole(anomaly, self._exhibit):
            lines = pictures(anomaly, self._exhibit, all_cases=True)
            cases = _folded("All cases", tag("pre", "\n".join(lines[:_CASES_SHOWN])))
        return tag(
            "article", tag("h4", anomaly.name, adya), tag("p", anomaly.explanation), figure, cases, cls="anomaly"
        )

    def _figure(self, shown: Drawing, *, over_time: bool = True) -> Markup | None:
        """The graph, and the sessions over time beside it unless an interleaving shows them already."""
        if not shown.boxes:
            return None
        self._figures += 1
        name = f"f{self._figure_prefix}{self._figures}"
        hint = _HINT if shown.arrows else ""
        return tag(
            "figure",
            tag("figcaption", hint, cls="says", aria_live="polite", data_hint=hint),
            tag(
                "div",
                tag("div", graph(shown, name), cls="scrolls"),
                tag("div", timeline(shown, name), cls="scrolls") if over_time else None,
                cls="side",
            ),
            data_figure=name,
        )

    def _prefix(self, shown: FailingPrefix) -> Markup:
        culprit = self._exhibit.get(shown.transaction)
        statement = None
        if culprit is not None and shown.statement < len(culprit.ops):
            op = culprit.ops[shown.statement]
            text = (
                filled(str(op.content.get("sql") or op.content.get("call") or ""), op.content.get("params"))
                if isinstance(op, Sql)
                else operation_text(op)
            )
            statement = tag("pre", text, cls="sql")
        kind = "A wrong answer: no level explains it." if shown.kind == "semantic" else "An isolation failure"
        by = f"; explained by {', '.join(shown.explained_by)}." if shown.explained_by else ""
        beside = tag(
            "div",
            _answer("Expected", shown.expected, "right"),
            _answer("Observed", shown.observed, "wrong"),
            cls="answers",
        )
        named = [self._exhibit[name] for name in shown.core if name in self._exhibit]
        core = self._figure(drawing(named)) if named else None
        return tag(
            "article",
            tag("p", shown.explanation),
            tag("p", kind + by),
            statement,
            beside,
            tag(
                "p",
                f"The first {shown.length:,} transactions suffice; {txn_name(shown.transaction)} is the last of them.",
                cls="small",
            ),
            tag("h4", "These transactions contradict each other, whatever the others did") if core else None,
            core,
        )

    def _broken(self, broken: BrokenInvariant) -> Markup:
        parts: list[Markup | None] = [tag("p", tag("strong", broken.check), ": ", broken.explanation)]
        if broken.confirmed:
            how = {"explored": "confirmed on the model of the database", "executed": "executed on the server"}
            parts.append(tag("p", f"This is {how[broken.confirmed]}.", cls="small"))
        if broken.rows:
            parts.append(_rows(broken.columns, broken.rows))
        if broken.last:
            rows = zip(broken.rows, range(len(broken.rows)), strict=True)
            said = [f"{', '.join(map(str, row))}{written_last(broken, place)}" for row, place in rows]
            parts.append(tag("ul", [tag("li", text) for text in said]))
            writers = dict.fromkeys(name for row in broken.last for name, _ in row)
            parts.append(self._figure(drawing([self._exhibit[name] for name in writers if name in self._exhibit])))
        if broken.schedule is not None:
            parts.append(stepper(broken.schedule))
        if broken.history is not None:
            named = {one.id: one for one in broken.history.transactions}
            links = broken.anomaly.cycle if broken.anomaly is not None else ()
            figure = self._figure(drawing(list(named.values()), links), over_time=broken.schedule is None)
            parts.append(_folded("As a history", figure, folded=False))
        if broken.state is not None:
            state = [(str(key), value_text(value)) for key, value in broken.state]
            parts.append(_rows(("key", "value in the end"), state))
        # The last state of an interleaving that is gone through step by step is on the page already.
        if broken.schedule is None or not broken.schedule.outcomes:
            parts += [rows_table(one) for one in broken.tables]
        return tag("article", parts)


def _whole(anomaly: Anomaly, exhibit: Mapping[TxnId, Transaction]) -> bool:
    """Whether all transactions that the cases name are there to be drawn."""
    circles = [link for circle in circles_of(anomaly.cases) for link in circle.cycle]
    return all(name in exhibit for name in (*anomaly.transactions, *(link.source for link in circles)))


_HINT = "Hover over an arrow, or go to it with the tab key, to see the two operations that made it."


def _folded(summary: str, content: object, *, folded: bool = True) -> Markup:
    return tag("details", tag("summary", summary), content, open=not folded)


def _answer(head: str, rows: Sequence[Sequence[object]] | None, cls: str) -> Markup:
    if rows is None:
        content = tag("p", "nothing could have been answered" if head == "Expected" else "no rows were recorded")
    else:
        content = rows_table(TableRows("", tuple(map(tuple, rows))))  # type: ignore[arg-type]
    return tag("section", tag("h5", head), content, cls=cls)


def _rows(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Markup:
    head = tag("thead", tag("tr", [tag("th", name, scope="col") for name in columns])) if columns else None
    body = tag("tbody", [tag("tr", [tag("td", value_text(value)) for value in row]) for row in rows])
    return tag("table", head, body, cls="rows")


def _order(transactions: Sequence[TxnId], states: Sequence[str]) -> Markup:
    named = [txn_name(name) for name in transactions[:_ORDER_SHOWN]]
    items = [
        tag("li", name, tag("small", f" read state {states[place]}") if place < len(states) and states[place] else None)
        for place, name in enumerate(named)
    ]
    more = len(transactions) - len(named)
    rest = tag("p", f"… and {more:,} more") if more > 0 else None
    return _folded("An order that explains it", [tag("ol", items, cls="order"), rest])
