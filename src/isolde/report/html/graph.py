"""Transactions as boxes and their dependencies as arrows, in SVG.

Where boxes go is decided by a library of layered layouts in the core; what is left is to draw arrows between their edges: down to
a box below, around the right side to a box above.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from isolde._core import layered
from isolde.history import txn_name
from isolde.report.drawing import Arrow, Box, Drawing
from isolde.report.html.markup import Markup, joined, tag

SIGN, LINE, HEAD, PAD = 7.3, 18.0, 28.0, 12.0
"""Width of a sign and height of a line of the font of operations, height of a head, and room at the sides, in pixels."""
_GAP_X, _GAP_Y = 70.0, 64.0
_SIGNS_MAX = 64
_AROUND = 34.0
_BETWEEN = 22.0


@dataclass(frozen=True, slots=True)
class _Placed:
    box: Box
    x: float
    y: float
    width: float
    height: float

    @property
    def centre(self) -> float:
        return self.x + self.width / 2


def shortened(text: str, most: int = _SIGNS_MAX) -> str:
    """The text, or its beginning.

    >>> shortened("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def graph(drawing: Drawing, figure: str) -> Markup:
    """The picture; ``figure`` is a name of its own on the page, so that two pictures do not answer to each other."""
    placed, width, height = _placed(drawing)
    right = max((one.x + one.width for one in placed), default=0.0)
    used: Counter[tuple[int, int]] = Counter()
    arrows, reach = [], right
    for number, arrow in enumerate(drawing.arrows):
        between = (min(arrow.source, arrow.target), max(arrow.source, arrow.target))
        drawn, rightmost = _arrow(arrow, number, placed, used[between])
        used[between] += 1
        arrows.append(drawn)
        reach = max(reach, rightmost)
    width, height = max(width, reach) + 8, height + 8
    return tag(
        "svg",
        tag("title", "Transactions and the dependencies between them"),
        tag("defs", [_marker(kind) for kind in sorted({arrow.kind for arrow in drawing.arrows})]),
        [_box(one, place) for place, one in enumerate(placed)],
        arrows,
        cls="graph",
        viewBox=f"-4 -4 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        role="group",
        aria_label="dependency graph",
        data_figure=figure,
        xmlns="http://www.w3.org/2000/svg",
    )


def _placed(drawing: Drawing) -> tuple[list[_Placed], float, float]:
    sizes = []
    for box in drawing.boxes:
        signs = max([len(box.head) + 2, *(len(shortened(line.text)) for line in box.lines)])
        sizes.append((signs * SIGN + 2 * PAD, HEAD + LINE * max(len(box.lines), 1) + PAD))
    padded = [(width + _GAP_X, height + _GAP_Y) for width, height in sizes]
    centres, width, height = layered(padded, [(arrow.source, arrow.target) for arrow in drawing.arrows])
    placed = [
        _Placed(box, x - wide / 2 - _GAP_X / 2 + 2, y - high / 2 - _GAP_Y / 2 + 2, wide, high)
        for box, (x, y), (wide, high) in zip(drawing.boxes, centres, sizes, strict=True)
    ]
    return placed, width - _GAP_X + 4, height - _GAP_Y + 4


def _box(one: _Placed, place: int) -> Markup:
    box = one.box
    lines = []
    for number, line in enumerate(box.lines):
        text = tag(
            "text",
            tag("title", line.text) if len(line.text) > _SIGNS_MAX else None,
            shortened(line.text),
            x=f"{one.x + PAD:.1f}",
            y=f"{one.y + HEAD + LINE * number + 14:.1f}",
        )
        back = tag(
            "rect",
            x=f"{one.x + 4:.1f}",
            y=f"{one.y + HEAD + LINE * number + 1:.1f}",
            width=f"{one.width - 8:.1f}",
            height=f"{LINE:.1f}",
            rx=3,
        )
        lines.append(tag("g", back, text, cls="op", data_op=f"{place}:{line.place}"))
    return tag(
        "g",
        tag(
            "rect",
            cls="box",
            x=f"{one.x:.1f}",
            y=f"{one.y:.1f}",
            width=f"{one.width:.1f}",
            height=f"{one.height:.1f}",
            rx=7,
        ),
        tag("text", box.head, cls="head", x=f"{one.x + PAD:.1f}", y=f"{one.y + 19:.1f}"),
        lines,
        cls=f"txn {box.transaction.status.value}",
        data_t=place,
        tabindex=0,
        role="img",
        aria_label=f"{box.head}: {'; '.join(line.text for line in box.lines)}",
    )


def _arrow(arrow: Arrow, number: int, placed: list[_Placed], earlier: int) -> tuple[Markup, float]:
    """The arrow, and how far to the right it goes."""
    source, target = placed[arrow.source], placed[arrow.target]
    shift = earlier * _BETWEEN
    if target.y >= source.y + source.height:
        start = (source.centre + shift, source.y + source.height)
        end = (target.centre + shift, target.y - 2)
        middle = (start[1] + end[1]) / 2
        path = f"M{_at(*start)} C{_at(start[0], middle)} {_at(end[0], middle)} {_at(*end)}"
        label = ((start[0] + end[0]) / 2, middle)
    else:
        top, bottom = min(source.y, target.y), max(source.y + source.height, target.y + target.height)
        beside = [one.x + one.width for one in placed if one.y < bottom and one.y + one.height > top]
        around = max(beside) + _AROUND + shift
        start = (source.x + source.width, source.y + source.height / 2 + shift / 2)
        end = (target.x + target.width + 2, target.y + target.height / 2 + shift / 2)
        path = f"M{_at(*start)} C{_at(around + 12, start[1])} {_at(around + 12, end[1])} {_at(*end)}"
        label = (around - 4, (start[1] + end[1]) / 2)
    half = len(arrow.label) * SIGN / 2 + 6
    tagged = tag(
        "g",
        tag("path", cls="wide", d=path),
        tag("path", cls="line", d=path, marker_end=f"url(#to-{arrow.kind})"),
        tag(
            "rect",
            cls="plate",
            x=f"{label[0] - half:.1f}",
            y=f"{label[1] - 10:.1f}",
            width=f"{2 * half:.1f}",
            height=20,
            rx=10,
        ),
        tag("text", arrow.label, x=f"{label[0]:.1f}", y=f"{label[1] + 4:.1f}", text_anchor="middle"),
        cls=f"arrow {arrow.kind}",
        data_arrow=number,
        data_from=arrow.source,
        data_to=arrow.target,
        data_ops=" ".join(
            f"{box}:{line}"
            for box, line in ((arrow.source, arrow.source_line), (arrow.target, arrow.target_line))
            if line is not None
        ),
        data_says=arrow.sentence,
        tabindex=0,
        role="img",
        aria_label=f"{arrow.label}: {arrow.sentence}",
    )
    return tagged, max(label[0] + half, start[0], end[0])


def _at(x: float, y: float) -> str:
    return f"{x:.1f},{y:.1f}"


def _marker(kind: str) -> Markup:
    return tag(
        "marker",
        tag("path", d="M0,0 L9,4.5 L0,9 z", cls=f"tip {kind}"),
        id=f"to-{kind}",
        viewBox="0 0 9 9",
        refX=8,
        refY=4.5,
        markerWidth=8,
        markerHeight=8,
        orient="auto-start-reverse",
    )


def timeline(drawing: Drawing, figure: str) -> Markup:
    """The same transactions as bars, a row for each session: by their times if all have them, else in file order."""
    transactions = [box.transaction for box in drawing.boxes]
    times = [(one.start, one.end) for one in transactions if one.start is not None and one.end is not None]
    timed = len(times) == len(transactions)
    if timed:
        # Only which beginning and which end came first is drawn: a second without anything would hide the rest.
        moments = {
            moment: float(place) for place, moment in enumerate(sorted({moment for pair in times for moment in pair}))
        }
        spans = [(moments[start], max(moments[end], moments[start] + 0.5)) for start, end in times]
    else:
        spans = [(2.0 * place, 2.0 * place + 1.5) for place in range(len(transactions))]
    sessions = list(dict.fromkeys(str(one.session) for one in transactions))
    scale = max(60.0, max((len(box.head) for box in drawing.boxes), default=0) * 4.2)
    left = max((len(name) for name in sessions), default=0) * SIGN + 90
    last = max((end for _, end in spans), default=0)
    rows = []
    for number, name in enumerate(sessions):
        y = 16 + 46 * number
        rows.append(
            tag("line", cls="lane", x1=f"{left - 10:.0f}", x2=f"{left + last * scale + 10:.0f}", y1=y + 14, y2=y + 14)
        )
        rows.append(tag("text", f"session {name}", x=4, y=y + 18, cls="lane-name"))
    bars = []
    for place, (one, (start, end)) in enumerate(zip(transactions, spans, strict=True)):
        y = 16 + 46 * sessions.index(str(one.session))
        x, width = left + start * scale, (end - start) * scale
        name = txn_name(one.id)
        bars.append(
            tag(
                "g",
                tag("rect", cls="bar", x=f"{x:.1f}", y=y, width=f"{width:.1f}", height=28, rx=6),
                tag("text", shortened(name, max(3, int(width / SIGN) - 1)), x=f"{x + 8:.1f}", y=y + 19),
                tag("title", drawing.boxes[place].head),
                cls=f"txn {one.status.value}",
                data_t=place,
                tabindex=0,
                role="img",
                aria_label=f"{drawing.boxes[place].head} on the timeline",
            )
        )
    height = 24 + 46 * len(sessions)
    width = left + last * scale + 16
    return joined(
        [
            tag(
                "svg",
                tag("title", "The same transactions over time, a row for each session"),
                rows,
                bars,
                cls="timeline",
                viewBox=f"0 0 {width:.0f} {height}",
                width=f"{width:.0f}",
                height=height,
                role="group",
                aria_label="timeline of the sessions",
                data_figure=figure,
            ),
            tag(
                "p",
                "Beginnings and ends in their order, not to scale."
                if timed
                else "In the order of the file: not all have times.",
                cls="small",
            ),
        ]
    )
