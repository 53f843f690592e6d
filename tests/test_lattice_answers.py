"""Answers go along the lattice: a level that holds answers for those that it implies, one that fails for those that imply it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from isolde._core import Decision, Satisfied, Undecided, Violated
from isolde.engines.check import Evidence
from isolde.engines.check.decide import _Asking, _carried
from isolde.findings import Finding, HistoryLevel, Verdict
from isolde.levels import Level

OPEN = Undecided("search", "choices", None, (3, 4))
NO_TIMES = Undecided("search", "no-times", None, (0, 0))
HOLDS = Satisfied("search", None)
FAILS = Violated("search", ())


@dataclass
class Answers:
    """An analysis with ready answers; what it has none for is open."""

    given: Mapping[str, Decision]
    timed: bool = True
    asked: list[str] = field(default_factory=list)

    def decide(self, question: str, *, every: bool) -> Decision:
        assert not every
        self.asked.append(question)
        return self.given.get(question, OPEN)


def answer(level: Level, given: Mapping[str, Decision], *, timed: bool = True) -> tuple[Decision, Level]:
    analysis: Any = Answers(given, timed)
    nothing: Any = None
    asking = _Asking(nothing, analysis, Evidence(), every=False, judge_aborted=False, keep_order=False)
    found = asking.answer(level)
    assert len(analysis.asked) == len(set(analysis.asked)), "each question is asked once"
    return found.decision, found.level


@pytest.mark.parametrize(
    ("level", "given", "found"),
    [
        (Level.SNAPSHOT_ISOLATION, {"strict-snapshot": HOLDS}, (HOLDS, Level.STRICT_SNAPSHOT_ISOLATION)),
        (Level.SNAPSHOT_ISOLATION, {"serializable": HOLDS}, (HOLDS, Level.SERIALIZABLE)),
        (Level.CAUSAL, {"strict-serializable": HOLDS}, (HOLDS, Level.STRICT_SERIALIZABLE)),
        (Level.SERIALIZABLE, {"causal": FAILS}, (FAILS, Level.CAUSAL)),
        (Level.STRICT_SERIALIZABLE, {"snapshot": FAILS}, (FAILS, Level.SNAPSHOT_ISOLATION)),
        # The wrong way round nothing follows.
        (Level.SERIALIZABLE, {"snapshot": HOLDS}, (OPEN, Level.SERIALIZABLE)),
        (Level.SNAPSHOT_ISOLATION, {"serializable": FAILS}, (OPEN, Level.SNAPSHOT_ISOLATION)),
        # Levels that are not comparable tell nothing of each other.
        (Level.REPEATABLE_READ, {"serializable": OPEN, "snapshot": FAILS}, (OPEN, Level.REPEATABLE_READ)),
    ],
)
def test_an_open_level_is_decided_by_its_neighbours(
    level: Level, given: dict[str, Decision], found: tuple[Decision, Level]
) -> None:
    assert answer(level, given) == found


def test_without_times_nobody_is_asked_about_real_time() -> None:
    given = {"strict-snapshot": HOLDS}
    assert answer(Level.SNAPSHOT_ISOLATION, given, timed=False) == (OPEN, Level.SNAPSHOT_ISOLATION)


def test_a_level_that_lacks_something_else_is_not_answered_for() -> None:
    assert answer(Level.STRICT_SERIALIZABLE, {"strict-serializable": NO_TIMES}) == (NO_TIMES, Level.STRICT_SERIALIZABLE)


def test_findings_of_one_report_answer_for_each_other() -> None:
    def finding(level: Level, verdict: Verdict) -> Finding:
        return Finding(HistoryLevel(level), verdict, "search")

    found = _carried(
        [
            finding(Level.SNAPSHOT_ISOLATION, Verdict.UNDECIDED),
            finding(Level.STRICT_SNAPSHOT_ISOLATION, Verdict.SATISFIED),
            finding(Level.SERIALIZABLE, Verdict.UNDECIDED),
        ]
    )
    assert [f.verdict for f in found] == [Verdict.SATISFIED, Verdict.SATISFIED, Verdict.UNDECIDED]
    assert [f.level for f in found] == [Level.SNAPSHOT_ISOLATION, Level.STRICT_SNAPSHOT_ISOLATION, Level.SERIALIZABLE]
