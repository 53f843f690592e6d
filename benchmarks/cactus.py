"""Cactus plots as SVG: what was finished, sorted from the least to the most; a line a series, on a logarithmic scale."""

from __future__ import annotations

import math
from dataclasses import dataclass

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 360, 260, 52, 30, 34
COLOURS = ("#2b6cb0", "#2f855a", "#805ad5", "#d69e2e", "#c05621", "#c53030", "#4a5568")


@dataclass(frozen=True, slots=True)
class Cactus:
    """One diagram: for each series, the values of what was finished."""

    title: str
    unit: str
    series: dict[str, list[float]]
    floor: float
    """Values below this are drawn as this."""


def drawn(panels: list[Cactus]) -> str:
    legend = 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{len(panels) * WIDTH}" height="{HEIGHT + legend}"'
        ' font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
    ]
    for place, panel in enumerate(panels):
        parts += [f'<g transform="translate({place * WIDTH},0)">', *_panel(panel), "</g>"]
    for number, name in enumerate(panels[0].series):
        x = LEFT + number * 110
        parts.append(f'<rect x="{x}" y="{HEIGHT + 2}" width="9" height="9" fill="{COLOURS[number]}"/>')
        parts.append(f'<text x="{x + 14}" y="{HEIGHT + 11}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(panel: Cactus) -> list[str]:
    values = [value for series in panel.series.values() for value in series]
    low = math.floor(math.log10(panel.floor))
    high = max(low + 1, math.ceil(math.log10(max([panel.floor, *values]))))
    most = max([1, *map(len, panel.series.values())])
    height, width = HEIGHT - TOP - BOTTOM, WIDTH - LEFT - 16

    def at(count: int, value: float) -> str:
        share = (math.log10(max(value, panel.floor)) - low) / (high - low)
        return f"{LEFT + count / most * width:.1f},{TOP + (1 - share) * height:.1f}"

    parts = [f'<text x="{LEFT}" y="16" font-weight="bold">{panel.title} ({panel.unit})</text>']
    for power in range(low, high + 1):
        y = TOP + (high - power) / (high - low) * height
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + width}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 4}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:,g}</text>')
    for count in range(0, most + 1, 5 if most > 5 else 1):
        x = LEFT + count / most * width
        parts.append(f'<text x="{x:.1f}" y="{TOP + height + 14}" text-anchor="middle">{count}</text>')
    parts.append(f'<text x="{LEFT + width}" y="{TOP + height + 28}" text-anchor="end">programs finished</text>')
    for number, series in enumerate(panel.series.values()):
        points = " ".join(at(count, value) for count, value in enumerate(sorted(series), start=1))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[number]}" stroke-width="1.5"/>')
    return parts
