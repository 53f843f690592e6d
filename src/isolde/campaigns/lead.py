"""The sentence that a run begins with: what a person asks is whether the level does what its name says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from isolde._core import Columns
from isolde.databases import Offer
from isolde.engines.check import check, exhibited
from isolde.engines.record.counting import Miscount
from isolde.findings import Anomaly, Finding, Met, Report, Verdict
from isolde.history import Transaction
from isolde.levels import implies
from isolde.levels.promises import promise_of

# Steps of a search: the sentence is worth no waiting.
_BUDGET = 10_000
_DEEDS = {
    "lost-update": "lost an update",
    "write-skew": "let a write skew pass",
    "long-fork": "showed a long fork",
    "fractured-read": "showed a fractured read",
    "non-repeatable-read": "showed a non-repeatable read",
    "causality-violation": "showed an effect without its cause",
    "aborted-read": "showed what was rolled back",
    "intermediate-read": "showed what was overwritten before its commit",
    "thin-air-read": "showed a value that nobody wrote",
    "real-time-violation": "went back in time",
    "phantom": "let a phantom pass",
}


@dataclass(frozen=True, slots=True)
class Lead:
    """What was met, in one sentence; ``met`` is it where no finding tells it, with the transactions that it is about."""

    sentence: str
    met: Met | None = None
    exhibit: tuple[Transaction, ...] = ()

    def within(self, report: Report) -> Report:
        """The report with what was met."""
        if self.met is None:
            return report
        exhibit = {one.id: one for one in (*report.exhibit, *self.exhibit)}
        return replace(report, exhibit=tuple(exhibit.values()), facts=(*report.facts, self.met))


def lead(report: Report, offer: Offer, version: str, columns: Columns | None) -> Lead:
    """The first sentence. ``columns``: the history, to look at what the level's name promises beyond its claim."""
    database = version.split(maxsplit=1)[0] if version else "the database"
    if not report.size.committed:
        return Lead("")
    violated = (f for f in report.findings if f.verdict is Verdict.VIOLATED and f.anomalies)
    worst = min(violated, key=lambda finding: not _claimed(finding, offer), default=None)
    if worst is not None:
        claims = f"; it claims {offer.claims.value}"
        broken = f" That breaks {worst.level.value}{', which it claims' if _claimed(worst, offer) else claims}."
        return Lead(_sentence(worst.anomalies[0], offer, database) + broken)
    beyond = _beyond(report, offer, columns)
    if beyond is not None:
        met, exhibit, text = beyond
        return Lead(_sentence(met.anomaly, offer, database) + text, met, exhibit)
    if report.verdict is Verdict.SATISFIED:
        return Lead(f"{_level(offer, database)} kept its promise in {report.size.committed:,} transactions.")
    return Lead("")


def counters_lead(wrong: Sequence[Miscount], increments: int, offer: Offer, version: str) -> str:
    """The same of a run that counts: how many of the committed increments the final values do not have."""
    who = _level(offer, version.split(maxsplit=1)[0] if version else "the database")
    if not increments:
        return ""
    if not wrong:
        return f"{who} kept all of {increments:,} committed increments."
    ends = [one for one in wrong if one.transaction is None and one.found is not None]
    lost = sum(max(0, one.low - (one.found or 0)) for one in ends)
    if not lost:
        return f"{who} showed counts that no increments explain; it claims {offer.claims.value}."
    return f"{who} lost {lost:,} of {increments:,} committed increments; it claims {offer.claims.value}."


def _claimed(finding: Finding, offer: Offer) -> bool:
    return finding.level is offer.claims or implies(offer.claims, finding.level)


def _sentence(anomaly: Anomaly, offer: Offer, database: str) -> str:
    deed = _DEEDS.get(anomaly.name, f"showed {anomaly.name}")
    return f"{_level(offer, database)} {deed}: {anomaly.explanation}"


def _level(offer: Offer, database: str) -> str:
    """The level as the database calls it, or where that is a statement, as the command line does."""
    return f"{database} at '{offer.name}'" if offer.called.startswith("BEGIN") else f"{offer.called} of {database}"


def _beyond(report: Report, offer: Offer, columns: Columns | None) -> tuple[Met, tuple[Transaction, ...], str] | None:
    """What breaks the promise of the level's name, where its database claims less; and a sentence about that."""
    promise = promise_of(offer.name)
    if promise is None or columns is None or report.frontier is None:
        return None
    level = promise.literature
    violated = [
        entry.level for entry in report.frontier.weakest_violated if entry.level is level or implies(level, entry.level)
    ]
    if not violated:
        return None
    # What rules out a weaker level is found sooner, and rules out this one, too.
    found = exhibited(check(columns, [violated[0]], budget=_BUDGET), columns)
    anomalies = found.findings[0].anomalies
    if not anomalies:
        return None
    text = (
        f" The database claims no more than {offer.claims.value} of this level, and keeps to that; in the literature its name"
        f" means {level.value} ({promise.source}), in the standard {promise.standard}."
    )
    return Met(violated[0], anomalies[0]), found.exhibit, text
