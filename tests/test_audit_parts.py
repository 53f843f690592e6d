"""Parts of logs whose rows refer to each other: they refute long logs, and never one that some order explains."""

from __future__ import annotations

import random
from typing import Any

import pytest

import isolde
from audit_logs import failing, log, txn, verdict
from isolde.engines.audit import decide
from isolde.engines.audit.log import log_of
from isolde.engines.audit.parts import parts_of
from isolde.engines.audit.readings import READINGS
from isolde.engines.audit.replay import Replay
from isolde.engines.audit.search import Allowance, End, Search
from isolde.formats.tables import sql_history
from isolde.levels import Level

SCHEMA = (
    "CREATE TABLE parents (id INT PRIMARY KEY, a INT)",
    "CREATE TABLE children (id INT PRIMARY KEY, parent INT REFERENCES parents (id), b INT)",
)
ROWS: dict[str, Any] = {"parents": [[1, 0], [2, 0], [3, 0]], "children": [[1, 1, 0]]}


def family(*transactions: isolde.Transaction) -> isolde.History:
    return log(*transactions, schema=SCHEMA, rows=ROWS)


def test_a_long_log_with_references_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "SEARCH_MAX", 20)
    transactions = [
        txn(
            f"t{number}",
            ("INSERT INTO children (id, parent, b) VALUES ($1, $2, 0)", [number + 10, 1 + number % 3], None, 1),
            ("UPDATE parents SET a = a + 1 WHERE id = $1", [1 + number % 3], None, 1),
            start=10 * number,
            end=10 * number + 15,
        )
        for number in range(40)
    ]
    read = ("SELECT b FROM children WHERE id = $1", [20], [[7]])
    transactions.insert(25, txn("wrong", read, start=245, end=262))
    shown = failing(family(*transactions), "si")
    assert (shown.transaction, shown.observed) == ("wrong", ((7,),))
    transactions[25] = txn("right", (*read[:2], [[0]]), start=245, end=262)
    assert verdict(family(*transactions), "si") == "satisfied"


def statement(chance: random.Random) -> tuple[Any, ...]:
    one, other = chance.randrange(1, 4), chance.randrange(1, 4)
    fails = chance.random() < 0.3
    return chance.choice(
        [
            ("SELECT a FROM parents WHERE id = $1", [one], [[chance.randrange(2)]] if chance.random() < 0.8 else []),
            ("SELECT parent, b FROM children WHERE id = $1", [one], [[other, 0]] if chance.random() < 0.5 else []),
            ("UPDATE parents SET a = 1 WHERE id = $1", [one], None, chance.randrange(2)),
            ("UPDATE children SET parent = $1 WHERE id = $2", [other, one], None, chance.randrange(2)),
            ("DELETE FROM children WHERE id = $1", [one], None, chance.randrange(2)),
            ("DELETE FROM parents WHERE id = $1", [one], None, None if fails else 1),
            ("INSERT INTO children (id, parent, b) VALUES ($1, $2, 0)", [one, other], None, None if fails else 1),
        ]
    )


def sent(chance: random.Random, number: int) -> isolde.Transaction:
    ops = []
    for _ in range(chance.randrange(1, 3)):
        text, params, rows, *count = statement(chance)
        content: dict[str, Any] = {"sql": text, "params": params, "rows": rows}
        if count == [None]:
            content["error"] = chance.choice(["foreign-key", "unique"])
        elif count:
            content["count"] = count[0]
        ops.append(isolde.Sql(content))
        if "error" in content:
            break
    return isolde.Transaction(f"t{number}", number % 3, tuple(ops))


@pytest.mark.parametrize("level", [Level.SERIALIZABLE, Level.SNAPSHOT_ISOLATION, Level.READ_COMMITTED])
def test_a_part_that_nothing_explains_is_of_a_log_that_nothing_explains(level: Level) -> None:
    chance = random.Random(level.value)
    refuted = 0
    for _ in range(150):
        log = log_of(sql_history(family(*(sent(chance, number) for number in range(chance.randrange(2, 5))))))
        length, parts = len(log.entries), parts_of(log)
        ends = [
            parts.searched([(entry, place)], length, READINGS[level], Allowance(10_000)).end
            for entry in log.entries
            for place in range(len(entry.asks))
        ]
        if End.NONE in ends:
            refuted += 1
            assert Search(Replay(log), READINGS[level], log.entries, Allowance(50_000)).run() is End.NONE
    assert refuted > 20
