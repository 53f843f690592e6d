"""Bars as SVG: groups along the axis, a bar a series, parts of a bar stacked."""

from __future__ import annotations

from dataclasses import dataclass

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 320, 220, 44, 34, 40
# A series each, and a lighter tint for what is stacked on top.
COLOURS = (("#2b6cb0", "#90cdf4"), ("#c05621", "#fbd38d"))


@dataclass(frozen=True, slots=True)
class Panel:
    """One diagram: for each series, for each label, the parts of its bar."""

    title: str
    unit: str
    labels: list[str]
    series: dict[str, list[tuple[float, ...]]]


def drawn(panels: list[Panel], columns: int) -> str:
    rows = -(-len(panels) // columns)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{columns * WIDTH}" height="{rows * HEIGHT}"'
        ' font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
    )
    parts = [head]
    for place, panel in enumerate(panels):
        parts.append(f'<g transform="translate({place % columns * WIDTH},{place // columns * HEIGHT})">')
        parts += [*_panel(panel), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(panel: Panel) -> list[str]:
    top = max(sum(bar) for bars in panel.series.values() for bar in bars) or 1.0
    height, width = HEIGHT - TOP - BOTTOM, WIDTH - LEFT - 12
    group = width / len(panel.labels)
    bar_width = group * 0.8 / len(panel.series)
    base = TOP + height
    parts = [f'<text x="{LEFT}" y="16" font-weight="bold">{panel.title} ({panel.unit})</text>']
    for share in (0.0, 0.5, 1.0):
        y = base - share * height
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + width}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 4}" y="{y + 4:.1f}" text-anchor="end">{share * top:.3g}</text>')
    for place, label in enumerate(panel.labels):
        x = LEFT + place * group
        parts.append(f'<text x="{x + group / 2:.1f}" y="{base + 14}" text-anchor="middle">{label}</text>')
        for number, bars in enumerate(panel.series.values()):
            y = float(base)
            for part, value in enumerate(bars[place]):
                tall = value / top * height
                y -= tall
                left = x + group * 0.1 + number * bar_width
                parts.append(
                    f'<rect x="{left:.1f}" y="{y:.1f}" width="{bar_width:.1f}" height="{tall:.1f}"'
                    f' fill="{COLOURS[number][part]}"/>'
                )
    names = list(panel.series)
    stacked = max(len(bar) for bars in panel.series.values() for bar in bars) > 1
    for number, name in enumerate(names):
        x = LEFT + number * 120
        parts.append(f'<rect x="{x}" y="{base + 22}" width="9" height="9" fill="{COLOURS[number][0]}"/>')
        if stacked:
            parts.append(f'<rect x="{x + 9}" y="{base + 22}" width="9" height="9" fill="{COLOURS[number][1]}"/>')
        parts.append(f'<text x="{x + 22}" y="{base + 30}">{name}{", + checking" if stacked else ""}</text>')
    return parts


@dataclass(frozen=True, slots=True)
class Curves:
    """One diagram of lines: for each name, points from the left to the right."""

    title: str
    across: str
    up: str
    lines: dict[str, list[tuple[float, float]]]


_SHADES = ("#2b6cb0", "#c05621", "#2f855a", "#6b46c1", "#b83280", "#4a5568")


def drawn_curves(diagrams: list[Curves]) -> str:
    """The diagrams side by side, each with an axis from zero."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{len(diagrams) * WIDTH}" height="{HEIGHT + 60}"'
        ' font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
    ]
    for place, diagram in enumerate(diagrams):
        parts += [f'<g transform="translate({place * WIDTH},0)">', *_curves(diagram), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _curves(diagram: Curves) -> list[str]:
    points = [point for line in diagram.lines.values() for point in line]
    right, top = max(x for x, _ in points) or 1.0, max(y for _, y in points) or 1.0
    height, width = HEIGHT - TOP - BOTTOM, WIDTH - LEFT - 20
    base = TOP + height
    parts = [f'<text x="{LEFT}" y="16" font-weight="bold">{diagram.title}</text>']
    for share in (0.0, 0.5, 1.0):
        y, x = base - share * height, LEFT + share * width
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + width}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 4}" y="{y + 4:.1f}" text-anchor="end">{share * top:.3g}</text>')
        parts.append(f'<text x="{x:.1f}" y="{base + 14}" text-anchor="middle">{share * right:,.0f}</text>')
    parts.append(
        f'<text x="{LEFT + width / 2}" y="{base + 28}" text-anchor="middle">{diagram.across}; {diagram.up}</text>'
    )
    for number, (name, line) in enumerate(diagram.lines.items()):
        shade = _SHADES[number % len(_SHADES)]
        where = " ".join(f"{LEFT + x / right * width:.1f},{base - y / top * height:.1f}" for x, y in line)
        parts.append(f'<polyline points="{where}" fill="none" stroke="{shade}" stroke-width="2"/>')
        y = base + 46 + 14 * (number // 2)
        x = LEFT + 130 * (number % 2)
        parts.append(f'<rect x="{x}" y="{y - 8}" width="9" height="9" fill="{shade}"/>')
        parts.append(f'<text x="{x + 14}" y="{y}">{name}</text>')
    return parts
