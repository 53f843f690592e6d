"""The first counterexample of a report as a picture of its own: SVG for documents, DOT for Graphviz."""

from __future__ import annotations

import re

from isolde.findings import Anomaly, BrokenInvariant, FailingPrefix, Refused, Report
from isolde.report.drawing import Drawing, drawing, drawing_of
from isolde.report.html.graph import graph
from isolde.report.html.markup import Markup, tag
from isolde.report.html.page import style

_COLOURS = {"wr": "#1f77b4", "ww": "#8e44ad", "rw": "#c8501e", "so": "#6b7280", "rt": "#0f8b8d"}


def first_drawing(report: Report) -> Drawing | None:
    """The transactions of the first violation that has some, with the dependencies between them, if there is one."""
    exhibit = {transaction.id: transaction for transaction in report.exhibit}
    for finding in report.findings:
        for shown in finding.evidence:
            match shown:
                case Anomaly():
                    return drawing_of(shown, exhibit)
                case FailingPrefix():
                    return drawing([exhibit[name] for name in shown.core if name in exhibit])
                case (
                    BrokenInvariant(history=history, anomaly=anomaly)
                    | Refused(broken=BrokenInvariant(history=history, anomaly=anomaly))
                ) if history is not None:
                    return drawing(history.transactions, () if anomaly is None else anomaly.cycle)
                case _:
                    pass
    return None


def svg(shown: Drawing) -> str:
    """The picture as a file; colours are written out, as not every program knows CSS variables."""
    colours = dict(re.findall(r"--([\w-]+): (#\w+)", style("page.css").partition("}")[0]))
    # An arrow's kind is a variable of its own.
    rules = style("graph.css")
    for kind in ("wr", "ww", "rw", "so", "rt", "predicate-wr", "predicate-rw"):
        colour = colours[kind.removeprefix("predicate-")]
        rules += f".arrow.{kind} .line, .arrow.{kind} .plate {{ stroke: {colour}; }} .arrow.{kind} text {{ fill: {colour}; }}\n"
    rules = re.sub(r"[^{};\n]*\{[^{}]*var\(--kind\)[^{}]*\}|\.arrow[^{}]*\{ --kind[^{}]*\}", "", rules)
    rules = re.sub(r"var\(--([\w-]+)\)", lambda found: colours[found[1]], rules)
    drawn = graph(shown, "picture")
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        + drawn.replace("</title>", "</title>" + tag("style", Markup(rules)), 1)
        + "\n"
    )


def dot(shown: Drawing) -> str:
    """The same for Graphviz."""
    lines = ["digraph counterexample {", '  node [shape=box, fontname="monospace"];', '  edge [fontname="monospace"];']
    for place, box in enumerate(shown.boxes):
        text = "".join(f"{_quoted(line)}\\l" for line in (box.head, *(line.text for line in box.lines)))
        lines.append(f'  t{place} [label="{text}"];')
    for arrow in shown.arrows:
        colour = _COLOURS.get(arrow.kind.removeprefix("predicate-"), "#1d2430")
        looks = f'label="{_quoted(arrow.label)}", tooltip="{_quoted(arrow.sentence)}", color="{colour}"'
        lines.append(f"  t{arrow.source} -> t{arrow.target} [{looks}];")
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
