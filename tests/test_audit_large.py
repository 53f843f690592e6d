"""Long logs, which are not searched whole: one wrong answer is found, and an order that is not that of the commits."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from audit_logs import failing, log, verdict
from isolde import History, Sql, Transaction
from isolde.engines.audit import decide

ACCOUNTS = 60
LENGTH = 400
READ = "SELECT a FROM t WHERE id = ?"
ADD = "UPDATE t SET a = a + ? WHERE id = ?"


@pytest.fixture(autouse=True)
def no_search_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """These logs are long enough not to be searched whole, as those of thousands."""
    monkeypatch.setattr(decide, "SEARCH_MAX", LENGTH // 2)


def large_log(seed: int) -> list[Transaction]:
    """Two sessions that read accounts and move money between them, one after the other; times overlap now and then."""
    chance = random.Random(seed)
    balance = dict.fromkeys(range(ACCOUNTS), 100)
    found = []
    for number in range(LENGTH):
        one, other = chance.sample(range(ACCOUNTS), 2)
        ops: list[dict[str, Any]] = [{"sql": READ, "params": [one], "rows": [[balance[one]]]}]
        if chance.random() < 0.7:
            amount = chance.randrange(1, 50)
            balance[one] -= amount
            balance[other] += amount
            ops.append({"sql": ADD, "params": [-amount, one], "rows": None, "count": 1})
            ops.append({"sql": ADD, "params": [amount, other], "rows": None, "count": 1})
        start = 10 * number - chance.choice((0, 0, 4))
        found.append(Transaction(number, number % 2, tuple(map(Sql, ops)), start=start, end=10 * number + 9))
    return found


def whole(transactions: list[Transaction]) -> History:
    return log(*transactions, rows={"t": [[account, 100, 0] for account in range(ACCOUNTS)]})


def with_answer(one: Transaction, change: int) -> Transaction:
    """The same with another balance that was read."""
    first = one.ops[0]
    assert isinstance(first, Sql)
    content: dict[str, Any] = dict(first.content)
    content["rows"] = [[content["rows"][0][0] + change]]
    return replace(one, ops=(Sql(content), *one.ops[1:]))


@pytest.mark.parametrize("level", ["strict-ser", "ser", "si", "rc"])
def test_one_wrong_answer_in_the_middle_is_found(level: str) -> None:
    transactions = large_log(7)
    place = LENGTH // 2
    transactions[place] = with_answer(transactions[place], 1_000)
    shown = failing(whole(transactions), level)
    assert (shown.length, shown.transaction, shown.statement, shown.kind) == (place + 1, place, 0, "semantic")
    assert place in shown.core


def test_a_long_log_without_mistakes_is_explained() -> None:
    history = whole(large_log(8))
    assert verdict(history, "strict-ser") == "satisfied"
    assert verdict(history, "postgresql:read-committed") == "satisfied"


def test_an_order_that_is_not_that_of_the_commits_is_found() -> None:
    """A reader that overlaps two writers saw the second, which committed later, and not the first."""
    transactions = large_log(9)
    end = transactions[-1].end or 0
    first = Sql({"sql": "UPDATE t SET b = 1 WHERE id = 1", "rows": None, "count": 1})
    second = Sql({"sql": "UPDATE t SET b = 1 WHERE id = 2", "rows": None, "count": 1})
    read = [
        Sql({"sql": "SELECT b FROM t WHERE id = ?", "params": [key], "rows": [[value]]})
        for key, value in ((2, 1), (1, 0))
    ]
    transactions += [
        Transaction("w1", "x", (first,), start=end + 1, end=end + 5),
        Transaction("w2", "y", (second,), start=end + 2, end=end + 6),
        Transaction("r", "z", tuple(read), start=end + 3, end=end + 8),
    ]
    history = whole(transactions)
    assert verdict(history, "strict-ser") == "satisfied"
    late = [*transactions[:-1], replace(transactions[-1], start=end + 7)]
    shown = failing(whole(late), "strict-ser")
    assert (shown.length, shown.transaction) == (len(late), "r")


def test_serial_numbers_are_a_hint_of_the_order() -> None:
    """Without times, the sessions one after the other: only the numbers tell how they were interleaved."""
    transactions = [replace(one, start=None, end=None, serial=10 * number) for number, one in enumerate(large_log(10))]
    transactions.sort(key=lambda one: str(one.session))
    assert verdict(whole(transactions), "ser") == verdict(whole(transactions), "rc") == "satisfied"
    # A hint that is wrong does no harm.
    short = [replace(one, serial=-(one.serial or 0)) for one in large_log(11)[:40]]
    assert verdict(whole(short), "strict-ser") == "satisfied"
