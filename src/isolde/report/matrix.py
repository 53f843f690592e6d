"""The table of anomalies and levels, for a terminal and as JSON."""

from __future__ import annotations

from typing import Any

from isolde.findings import MatrixFacts
from isolde.visible import Paint, safe_lines

_WORDS = {"seen": "seen", "broken": "SEEN", "prevented": "-", "untried": "n/a"}


def render_matrix(facts: MatrixFacts, paint: Paint = lambda text, _: text) -> str:
    """Anomalies down, levels across. An anomaly that also the workload met is marked by a plus."""
    return safe_lines(lambda safely: _matrix(facts, safely), paint)


def _matrix(facts: MatrixFacts, paint: Paint) -> list[str]:
    levels = facts.levels
    rows = dict.fromkeys((cell.anomaly, cell.hermitage) for level in levels for cell in level.cells)
    results = {(cell.anomaly, level.name): cell.result for level in levels for cell in level.cells}
    names = max((len(anomaly) for anomaly, _ in rows), default=0)
    widths = [max(len(level.name), len(level.claims.value)) + 2 for level in levels]
    head = "".join(level.name.ljust(width) for level, width in zip(levels, widths, strict=True))
    claims = "".join(level.claims.value.ljust(width) for level, width in zip(levels, widths, strict=True))
    lines = [
        facts.database,
        f"  {'':{names}}  {'':16}{head}".rstrip(),
        f"  {'':{names}}  {'claims':16}{claims}".rstrip(),
        "",
    ]
    for anomaly, hermitage in rows:
        row = f"  {anomaly:{names}}  {hermitage:16}"
        for level, width in zip(levels, widths, strict=True):
            result = results[anomaly, level.name]
            word = _WORDS[result] + ("+" if anomaly in level.anomalies else "")
            row += (paint(word, "red") if result == "broken" else word) + " " * (width - len(word))
        lines.append(row.rstrip())
    lines += [
        "",
        "  seen: it happened, as the level allows; SEEN: it happened, and the level claims that it cannot; -: prevented;",
    ]
    lines += ["  +: transactions sent at random met it, too. Names in the second column are Hermitage's.", ""]
    for level in levels:
        strongest = ", ".join(entry.level.value for entry in level.frontier.strongest_satisfied) or "none"
        seen = f"; anomalies: {', '.join(level.anomalies)}" if level.anomalies else ""
        lines.append(f"  {level.name}: of {level.transactions:,} transactions sent at random, {strongest} holds{seen}")
    return lines


def matrix_document(facts: MatrixFacts) -> dict[str, Any]:
    """The same for programs."""
    return {
        "database": facts.database,
        "levels": [
            {
                "name": level.name,
                "called": level.called,
                "claims": level.claims.value,
                "anomalies": {
                    cell.anomaly: {
                        "hermitage": cell.hermitage or None,
                        "result": cell.result,
                        "why": cell.why or None,
                    }
                    for cell in level.cells
                },
                "workload": {
                    "transactions": level.transactions,
                    "anomalies": list(level.anomalies),
                    "strongest_satisfied": [entry.level.value for entry in level.frontier.strongest_satisfied],
                },
            }
            for level in facts.levels
        ],
    }
