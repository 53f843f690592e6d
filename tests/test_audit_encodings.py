"""The paper's encodings and heuristics say what the default way says, where they can say anything."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import isolde
from audit_logs import failing, log, txn, verdict
from isolde import History, Sql, Transaction
from isolde.errors import UsageError

ENCODINGS = ("baseline", "array", "guarded")
LEVELS = ("ser", "strict-si", "si", "rc")
LISTS = ("none", "h1", "h1,h2=2", "h1,h2=2,h3", "h1,h2=1,h3,h4", "all")


def transfers(many: int, read: int) -> History:
    """So many transfers of 10 from account 1 to account 2, and then a read of account 2: the example of figure 8."""
    moved = [
        txn(
            f"t{number}",
            ("UPDATE t SET a = a + 10 WHERE id = 2", [], None, 1),
            ("UPDATE t SET a = a - 10 WHERE id = 1", [], None, 1),
            start=10 * number,
            end=10 * number + 5,
        )
        for number in range(1, many + 1)
    ]
    last = txn("r", ("SELECT a FROM t WHERE id = 2", [], [[read]]), start=10 * many + 10, end=10 * many + 15)
    return log(*moved, last, rows={"t": [[1, 100, 0], [2, 300, 0]]})


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_example_of_figure_8_is_decided(encoding: str) -> None:
    assert verdict(transfers(4, 66), "rc", encoding=encoding) == "violated"
    assert verdict(transfers(4, 320), "rc", encoding=encoding) == "satisfied"
    assert failing(transfers(3, 66), "rc", encoding=encoding).length == 4


def small_log(seed: int) -> History:
    """Reads, additions and blind writes of two rows; answers are drawn from what may be read, now and then."""
    chance = random.Random(seed)
    values = {1: [0], 2: [5]}
    found = []
    clock = 0
    for number in range(chance.choice((2, 3, 4))):
        ops: list[dict[str, Any]] = []
        for _ in range(chance.choice((1, 2))):
            key = chance.choice((1, 2))
            match chance.randrange(3):
                case 0:
                    seen = chance.choice(values[key]) + chance.choice((0, 0, 0, 0, 1))
                    ops.append({"sql": "SELECT a FROM t WHERE id = ?", "params": [key], "rows": [[seen]]})
                case 1:
                    step = chance.choice((1, 2))
                    values[key] += [value + step for value in values[key]]
                    ops.append(
                        {"sql": "UPDATE t SET a = a + ? WHERE id = ?", "params": [step, key], "rows": None, "count": 1}
                    )
                case _:
                    values[key].append(chance.randrange(4))
                    ops.append(
                        {
                            "sql": "UPDATE t SET a = ? WHERE id = ?",
                            "params": [values[key][-1], key],
                            "rows": None,
                            "count": 1,
                        }
                    )
        start = max(0, clock - chance.choice((0, 3, 8)))
        clock += chance.choice((1, 4, 6))
        found.append(Transaction(number, number, tuple(map(Sql, ops)), start=start, end=max(clock, start + 1) + number))
    return log(*found, rows={"t": [[1, 0, 0], [2, 5, 0]]})


def disagreements(start: int, end: int) -> tuple[list[object], Counter[object]]:
    wrong: list[object] = []
    seen: Counter[object] = Counter()
    for seed in range(start, end):
        history = small_log(seed)
        for level in LEVELS:
            known = verdict(history, level, definition="paper")
            seen[level, known] += 1
            ways = [{"encoding": encoding} for encoding in ENCODINGS]
            ways.append({"encoding": "guarded", "heuristics": LISTS[seed % len(LISTS)]})
            wrong += [(seed, level, way) for way in ways if verdict(history, level, **way) != known]
            plain = verdict(history, level)
            if verdict(history, level, heuristics=LISTS[seed % len(LISTS)]) != plain:
                wrong.append((seed, level, "default"))
    return wrong, seen


def test_encodings_and_heuristics_agree_on_small_logs() -> None:
    wrong, seen = disagreements(0, 16)
    assert wrong == []
    assert len(seen) == 2 * len(LEVELS)


@pytest.mark.long
def test_encodings_and_heuristics_agree_on_a_thousand_small_logs() -> None:
    wrong, _ = disagreements(100, 1_100)
    assert wrong == []


def test_what_an_encoding_cannot_say_is_refused_by_name() -> None:
    ranged = log(txn("t1", ("SELECT SUM(a) FROM t", [], [[0]]), start=1, end=2))
    (finding,) = isolde.audit(ranged, "rc", encoding="guarded").findings
    assert finding.verdict.value == "unknown"
    assert "SELECT SUM(a) FROM t" in str(finding.evidence[0])


@pytest.mark.parametrize("wrong", ["h5", "h2=0", "h1=3", "h2=x"])
def test_unknown_heuristics_are_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match="h1, h2"):
        isolde.audit(transfers(1, 310), "rc", heuristics=wrong)
