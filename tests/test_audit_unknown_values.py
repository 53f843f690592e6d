"""First values that nobody knows: a log holds if one value explains it, and not if none does; all small values are tried to compare."""

from __future__ import annotations

import random
from typing import Any

import pytest

from audit_logs import log, txn, verdict

UNKNOWN = {"t": [[1, {"unknown": "v"}, 0], [2, 0, 0]]}
READ = "SELECT a FROM t WHERE id = 1"


def test_two_answers_that_no_value_gives_are_violated() -> None:
    contradicting = log(txn("t1", (READ, [], [[7]])), txn("t2", (READ, [], [[8]])), rows=UNKNOWN)
    assert verdict(contradicting, "ser") == "violated"
    assert verdict(contradicting, "rc") == "violated"


def test_two_answers_that_an_increment_explains_are_satisfied() -> None:
    add = txn("t3", ("UPDATE t SET a = a + 1 WHERE id = 1", [], None, 1))
    assert (
        verdict(log(txn("t1", (READ, [], [[7]])), txn("t2", (READ, [], [[8]])), add, rows=UNKNOWN), "ser")
        == "satisfied"
    )


def test_what_is_done_otherwise_with_an_unknown_value_is_left_open() -> None:
    both: tuple[tuple[Any, ...], ...] = (("SELECT a * 2 FROM t WHERE id = 1", [], [[7]]), (READ, [], [[8]]))
    assert verdict(log(*(txn(f"t{place}", one) for place, one in enumerate(both)), rows=UNKNOWN), "ser") == "unknown"


def statement(chance: random.Random) -> tuple[Any, ...]:
    number = chance.randrange(-3, 4)
    return chance.choice(
        [
            (READ, [], [[number]]),
            (f"SELECT id FROM t WHERE a > {number}", [], [[1]] if chance.random() < 0.5 else []),
            (f"SELECT id FROM t WHERE NOT (a BETWEEN {number} AND {number + 2})", [], [[1]]),
            ("SELECT id FROM t WHERE a IS NULL", [], [] if chance.random() < 0.7 else [[1]]),
            ("UPDATE t SET a = a - $1 WHERE id = 1", [number], None, 1),
            (f"UPDATE t SET a = a + 2 WHERE a = {number}", [], None, chance.randrange(2)),
            (f"UPDATE t SET a = {number} WHERE a <> 0 AND id = 1", [], None, chance.randrange(2)),
        ]
    )


@pytest.mark.parametrize("seed", range(25))
def test_regions_agree_with_all_small_values(seed: int) -> None:
    chance = random.Random(seed)
    transactions = [
        txn(f"t{number}", *(statement(chance) for _ in range(chance.randrange(1, 3))), session=number % 2)
        for number in range(chance.randrange(2, 4))
    ]
    level = chance.choice(["ser", "si", "rc"])
    found = verdict(log(*transactions, rows={"t": [[1, {"unknown": "v"}, 0]]}), level)
    known = [{"t": [[1, value, 0]]} for value in (None, *range(-14, 15))]
    tried = {verdict(log(*transactions, rows=rows), level) for rows in known}
    assert found == ("satisfied" if "satisfied" in tried else "violated")
