"""The engine of ``isolde audit`` and the definitions by brute force say the same of small random logs, at every level."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from definition.audits import satisfies, satisfies_paper
from definition.random_logs import random_log
from isolde.engines.audit.decide import decide
from isolde.engines.audit.log import log_of
from isolde.engines.audit.readings import READINGS
from isolde.engines.audit.search import Allowance, End
from isolde.errors import OutsideFragment
from isolde.formats.tables import SqlHistory

LOGS = 250
STEPS = 1_000_000


def logs(start: int, end: int) -> list[tuple[int, SqlHistory]]:
    found = []
    for seed in range(start, end):
        try:
            found.append((seed, random_log(seed)))
        except OutsideFragment:
            # Two rows that exchange their keys, say.
            continue
    return found


def disagreements(start: int, end: int) -> tuple[list[object], Counter[object]]:
    wrong: list[object] = []
    seen: Counter[object] = Counter()
    for seed, history in logs(start, end):
        for level, reading in READINGS.items():
            for session_order in (True, False):
                defined = satisfies(history, level.value, session_order=session_order)
                log = log_of(history, session_order=session_order)
                for follow in (True, False):
                    found = decide(log, reading, Allowance(STEPS), follow=follow)
                    if found.end is not (End.FOUND if defined else End.NONE):
                        wrong.append((seed, level, session_order, follow, found))
                seen[level, defined] += 1
            defined = satisfies_paper(history, level.value)
            found = decide(log_of(history, session_order=False), replace(reading, paper=True), Allowance(STEPS))
            if found.end is not (End.FOUND if defined else End.NONE):
                wrong.append((seed, level, "paper", found))
            seen["paper", level, defined] += 1
    return wrong, seen


def test_engine_and_definition_agree_on_random_logs() -> None:
    wrong, seen = disagreements(0, LOGS)
    assert wrong == []
    # The logs are no good if one verdict is rare.
    assert min(seen.values()) > LOGS // 10


@pytest.mark.long
def test_engine_and_definition_agree_on_thousands_of_random_logs() -> None:
    wrong, _ = disagreements(LOGS, 6_000)
    assert wrong == []
