"""The table of anomalies and levels, for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from isolde.databases import Offer
from isolde.engines.matrix import Cell, Tried
from isolde.findings import Frontier
from isolde.visible import Paint, safe_lines

_WORDS = {Cell.SEEN: "seen", Cell.BROKEN: "SEEN", Cell.PREVENTED: "-", Cell.UNTRIED: "n/a"}


@dataclass(frozen=True, slots=True)
class LevelSample:
    """What a random workload showed at one level, beside the schedules."""

    offer: Offer
    transactions: int
    frontier: Frontier
    anomalies: tuple[str, ...]


def render_matrix(
    database: str, tried: Sequence[Tried], samples: Sequence[LevelSample], paint: Paint = lambda text, _: text
) -> str:
    """Anomalies down, levels across. An anomaly that also the workload met is marked by a plus."""
    return safe_lines(lambda safely: _matrix(database, tried, samples, safely), paint)


def _matrix(database: str, tried: Sequence[Tried], samples: Sequence[LevelSample], paint: Paint) -> list[str]:
    offers = [sample.offer for sample in samples]
    met = {sample.offer.name: set(sample.anomalies) for sample in samples}
    cells = {(result.schedule.anomaly, result.offer.name): result.cell for result in tried}
    schedules = list(dict.fromkeys(result.schedule for result in tried))
    names = max(len(schedule.anomaly) for schedule in schedules)
    widths = [max(len(offer.name), len(offer.claims.value)) + 2 for offer in offers]
    head = "".join(offer.name.ljust(width) for offer, width in zip(offers, widths, strict=True))
    claims = "".join(offer.claims.value.ljust(width) for offer, width in zip(offers, widths, strict=True))
    lines = [database, f"  {'':{names}}  {'':16}{head}".rstrip(), f"  {'':{names}}  {'claims':16}{claims}".rstrip(), ""]
    for schedule in schedules:
        row = f"  {schedule.anomaly:{names}}  {schedule.hermitage:16}"
        for offer, width in zip(offers, widths, strict=True):
            cell = cells[schedule.anomaly, offer.name]
            word = _WORDS[cell] + ("+" if schedule.anomaly in met[offer.name] else "")
            row += (paint(word, "red") if cell is Cell.BROKEN else word) + " " * (width - len(word))
        lines.append(row.rstrip())
    lines += [
        "",
        "  seen: it happened, as the level allows; SEEN: it happened, and the level claims that it cannot; -: prevented;",
    ]
    lines += ["  +: transactions sent at random met it, too. Names in the second column are Hermitage's.", ""]
    for sample in samples:
        strongest = ", ".join(entry.level.value for entry in sample.frontier.strongest_satisfied) or "none"
        seen = f"; anomalies: {', '.join(sample.anomalies)}" if sample.anomalies else ""
        lines.append(
            f"  {sample.offer.name}: of {sample.transactions:,} transactions sent at random, {strongest} holds{seen}"
        )
    return lines


def matrix_document(database: str, tried: Sequence[Tried], samples: Sequence[LevelSample]) -> dict[str, Any]:
    """The same for programs."""
    return {
        "database": database,
        "levels": [
            {
                "name": sample.offer.name,
                "called": sample.offer.called,
                "claims": sample.offer.claims.value,
                "anomalies": {
                    result.schedule.anomaly: {
                        "hermitage": result.schedule.hermitage or None,
                        "result": result.cell.value,
                        "why": result.why or None,
                    }
                    for result in tried
                    if result.offer.name == sample.offer.name
                },
                "workload": {
                    "transactions": sample.transactions,
                    "anomalies": list(sample.anomalies),
                    "strongest_satisfied": [entry.level.value for entry in sample.frontier.strongest_satisfied],
                },
            }
            for sample in samples
        ],
    }
