"""The table of anomalies and levels, for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from isolde.findings import MatrixFacts, MatrixLevel
from isolde.visible import FIT, Paint, safe_lines

_WORDS = {"seen": "seen", "broken": "SEEN", "prevented": "-", "untried": "n/a"}
_NARROW = 7


def render_matrix(facts: MatrixFacts, paint: Paint = lambda text, _: text) -> str:
    """Anomalies down, levels across. What also the workload met is marked: ``+``, or ``!`` against the claim."""
    return safe_lines(lambda safely: _matrix(facts, safely), paint)


def _matrix(facts: MatrixFacts, paint: Paint) -> list[str]:
    levels = facts.levels
    rows = dict.fromkeys((cell.anomaly, cell.hermitage) for level in levels for cell in level.cells)
    results = {(cell.anomaly, level.name): cell.result for level in levels for cell in level.cells}
    names = max((len(anomaly) for anomaly, _ in rows), default=0)
    widths = [max(len(level.name), len(level.claims.value)) + 2 for level in levels]
    lines = [facts.database]
    if names + 20 + sum(widths) <= FIT:
        head = "".join(level.name.ljust(width) for level, width in zip(levels, widths, strict=True))
        claims = "".join(level.claims.value.ljust(width) for level, width in zip(levels, widths, strict=True))
        lines += [f"  {'':{names}}  {'':16}{head}".rstrip(), f"  {'':{names}}  {'claims':16}{claims}".rstrip()]
    else:
        # Levels have numbers where their names have no room beside each other.
        lines += [f"  {number}: {level.name}, claims {level.claims.value}" for number, level in enumerate(levels, 1)]
        widths = [_NARROW] * len(levels)
        numbers = "".join(str(number).ljust(_NARROW) for number in range(1, len(levels) + 1))
        lines += ["", f"  {'':{names}}  {'':16}{numbers}".rstrip()]
    lines.append("")
    for anomaly, hermitage in rows:
        row = f"  {anomaly:{names}}  {hermitage:16}"
        for level, width in zip(levels, widths, strict=True):
            result = results[anomaly, level.name]
            against = anomaly in level.against
            word = _WORDS[result] + ("!" if against else "+" if anomaly in level.anomalies else "")
            row += (paint(word, "red") if result == "broken" or against else word) + " " * (width - len(word))
        lines.append(row.rstrip())
    lines += [
        "",
        "  seen: it happened, as the level allows; SEEN: it happened, and the level claims that it cannot; -: prevented;",
        "  +: transactions sent at random met it, too; !: they met it, and the level claims that it cannot happen.",
        "  Names in the second column are Hermitage's.",
        "",
    ]
    for level in levels:
        lines += [f"  {level.name}: {sentence}" for sentence in _about(level, paint)]
    return [*lines, *_untried(levels)]


def _about(level: MatrixLevel, paint: Paint) -> Iterator[str]:
    """What the workload at random showed, and what of it the level claims to forbid."""
    held = " and ".join(entry.level.value for entry in level.frontier.strongest_satisfied) or "no level"
    failed = [f"{entry.level.value} ({entry.reason})" for entry in level.frontier.weakest_violated]
    broken = f", and breaks {', '.join(failed)}" if failed else ""
    yield f"a random run of {level.transactions:,} transactions keeps {held}{broken}"
    if level.against:
        yield paint(f"it claims {level.claims.value}, and the run met {', '.join(level.against)}", "red")


def _untried(levels: Sequence[MatrixLevel]) -> Iterator[str]:
    """Why cells are empty: each reason once, with the levels that it is about unless it is about all."""
    reasons: dict[str, dict[str, None]] = {}
    for level in levels:
        for cell in level.cells:
            if cell.result == "untried":
                reasons.setdefault(cell.why, {})[level.name] = None
    for why, names in reasons.items():
        where = "" if len(names) == len(levels) else f" at {', '.join(names)}"
        yield f"  n/a{where}: {why}"


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
                    "against_the_claim": list(level.against),
                    "strongest_satisfied": [entry.level.value for entry in level.frontier.strongest_satisfied],
                },
            }
            for level in facts.levels
        ],
    }
