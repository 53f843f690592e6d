"""Single answers of correct logs are changed: the engine finds it, unless the definition by brute force explains that, too.

The shortest beginning that fails is the same in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from definition.audits import satisfies
from definition.random_logs import random_log
from isolde.engines.audit.decide import decide
from isolde.engines.audit.log import log_of
from isolde.engines.audit.readings import READINGS
from isolde.engines.audit.search import Allowance, End
from isolde.engines.audit.violation import failing_prefix
from isolde.errors import OutsideFragment
from isolde.formats.tables import SqlHistory
from isolde.history import Sql, Status
from isolde.levels import Level

STEPS = 100_000
LEVELS = (Level.SERIALIZABLE, Level.SNAPSHOT_ISOLATION, Level.READ_COMMITTED)


def mutations(history: SqlHistory) -> Iterator[SqlHistory]:
    """Each answer changed by itself: a value, a row that is missing or there twice, a count, an error that is none."""
    for place, transaction in enumerate(history.transactions):
        for at, op in enumerate(transaction.ops):
            assert isinstance(op, Sql)
            for content in _changed(dict(op.content)):
                ops = (*transaction.ops[:at], Sql(content), *transaction.ops[at + 1 :])
                changed = replace(transaction, ops=ops)
                rest = history.transactions
                yield replace(history, transactions=(*rest[:place], changed, *rest[place + 1 :]))


def _changed(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    rows = content.get("rows")
    if content.get("error"):
        yield {key: value for key, value in content.items() if key != "error"} | {"count": 1}
    elif rows is None:
        yield content | {"count": content["count"] + 1}
    elif rows:
        yield content | {"rows": rows[1:]}
        yield content | {"rows": [*rows, rows[0]]}
        yield content | {"rows": [[*rows[0][:-1], (rows[0][-1] or 0) + 1], *rows[1:]]}
    else:
        yield content | {"rows": [[1] * (content["sql"].split(" FROM ")[0].count(",") + 1)]}


def looked_at(seeds: range, wanted: int) -> tuple[int, list[object]]:
    """How many mutations of correct logs were judged, and where the two differ."""
    judged = 0
    wrong: list[object] = []
    for seed in seeds:
        try:
            history = random_log(seed)
        except OutsideFragment:
            continue
        if len(history.transactions) > 3 or not satisfies(history, "serializable"):
            continue
        for number, mutation in enumerate(mutations(history)):
            judged += 1
            level = LEVELS[number % len(LEVELS)]
            found = decide(log_of(mutation), READINGS[level], Allowance(STEPS)).end
            if found is not (End.FOUND if satisfies(mutation, level.value) else End.NONE):
                wrong.append((seed, number, level, found))
            if judged == wanted:
                return judged, wrong
    return judged, wrong


def test_changed_answers_are_found() -> None:
    judged, wrong = looked_at(range(10_000, 11_000), 400)
    assert (judged, wrong) == (400, [])


@pytest.mark.long
def test_thousands_of_changed_answers_are_found() -> None:
    judged, wrong = looked_at(range(20_000, 40_000), 3_000)
    assert (judged, wrong) == (3_000, [])


def test_the_shortest_failing_beginning_is_that_of_the_definition() -> None:
    compared = 0
    for seed in range(30_000, 30_400):
        try:
            history = random_log(seed)
        except OutsideFragment:
            continue
        log = log_of(history)
        for level in LEVELS:
            if decide(log, READINGS[level], Allowance(STEPS)).end is not End.NONE:
                continue
            numbered = [next(one for one in history.transactions if one.id == entry.id) for entry in log.entries]
            known = {one.id for one in history.transactions if one.status is not Status.ABORTED}
            expected = None
            for length in range(1, len(numbered) + 1):
                kept = {one.id for one in numbered[:length]}
                part = tuple(one for one in history.transactions if one.id in kept & known)
                if not satisfies(replace(history, transactions=part), level.value):
                    expected = length
                    break
            assert failing_prefix(log, READINGS[level], Allowance(STEPS)) == expected, (seed, level)
            compared += 1
    assert compared > 50
