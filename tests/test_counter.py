"""The workload ``counter``: increments are counted, and every way to lose or invent one is seen."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from isolde.databases.servers import Running
from isolde.engines.record.counting import miscounts
from isolde.history import History, Status, Transaction
from isolde.history.model import Sql
from running import isolde, ran

FEW = ("--transactions", "200", "--keys", "3")


def increment(key: int, at: int, count: int = 1) -> Sql:
    return Sql({"sql": "UPDATE", "params": [key], "rows": None, "count": count, "start": at, "end": at + 1})


def read(key: int, value: int | None, at: int) -> Sql:
    rows = [] if value is None else [[value]]
    return Sql({"sql": "SELECT", "params": [key], "rows": rows, "count": 1, "start": at, "end": at + 1})


def history(*transactions: tuple[int, Status, list[Sql]]) -> History:
    return History(
        tuple(
            Transaction(number, session, tuple(ops), status)
            for number, (session, status, ops) in enumerate(transactions)
        )
    )


C, A, U = Status.COMMITTED, Status.ABORTED, Status.UNKNOWN


@pytest.mark.parametrize(("final", "wrong"), [(1, 1), (2, 0), (3, 0), (4, 1), (None, 1)])
def test_final_values_lie_between_what_is_committed_and_what_may_be(final: int | None, wrong: int) -> None:
    recorded = history(
        (1, C, [increment(0, 10)]), (2, C, [increment(0, 20)]), (3, U, [increment(0, 30)]), (4, A, [increment(0, 40)])
    )
    assert len(miscounts(recorded, {0: final})) == wrong


def test_a_lost_increment_is_told_in_words() -> None:
    recorded = history((1, C, [increment(0, 10)]), (2, C, [increment(0, 20)]))
    (found,) = miscounts(recorded, {0: 1})
    assert found.sentence == "counter 0 ends at 1, but 2 increments were committed: 1 increment is lost"


@pytest.mark.parametrize(("value", "right"), [(0, False), (1, True), (2, True), (3, False), (None, False)])
def test_reads_lie_between_the_sessions_own_and_all_that_was_sent(value: int | None, right: bool) -> None:
    recorded = history(
        (1, C, [increment(0, 10)]),
        (2, C, [increment(0, 20)]),
        (1, C, [read(0, value, 30)]),
        (3, C, [increment(0, 40)]),
        (4, A, [increment(0, 5)]),
    )
    assert (miscounts(recorded, {0: 3}) == []) is right


def test_what_is_rolled_back_may_be_read_where_the_level_lets_it() -> None:
    recorded = history((1, A, [increment(0, 10)]), (2, C, [increment(0, 12)]), (3, C, [read(0, 2, 14)]))
    assert miscounts(recorded, {0: 1}, dirty_reads=True) == []
    assert [one.found for one in miscounts(recorded, {0: 1})] == [2]
    assert len(miscounts(recorded, {0: 2}, dirty_reads=True)) == 1


def test_mariadbs_dirty_reads_are_no_wrong_counts(tmp_path: Path, server: Callable[[str], Running]) -> None:
    words = ("--isolation", "read-uncommitted", "--workload", "counter", "--keys", "2", "--operations", "4")
    result = ran(tmp_path / "run", server("mariadb").url, *words, "--transactions", "400")
    assert (result.status, result.verdicts) == (0, ["satisfied"]), (result.out, result.error)


def test_executions_one_after_the_other_are_right() -> None:
    for seed in range(200):
        chance, counters, transactions = Random(seed), dict.fromkeys(range(3), 0), []
        for at in range(0, 400, 20):
            status = chance.choice((C, C, C, A, U))
            state, ops = dict(counters), list[Sql]()
            for place in range(chance.randint(1, 4)):
                key = chance.randrange(3)
                if chance.random() < 0.5:
                    state[key] += 1
                    ops.append(increment(key, at + place))
                else:
                    ops.append(read(key, state[key], at + place))
            if status is C or (status is U and chance.random() < 0.5):
                counters = state
            transactions.append((chance.randrange(4), status, ops))
        assert miscounts(history(*transactions), counters) == [], seed


@pytest.mark.parametrize("url", ["sqlite:", "duckdb:"])
def test_embedded_databases_count(tmp_path: Path, url: str) -> None:
    result = ran(tmp_path / "run", url, "--workload", "counter", *FEW)
    assert (result.status, result.verdicts) == (0, ["satisfied"]), result.error
    (answer,) = result.document["results"]
    assert (answer["question"], answer["about"]) == ("health", "counters")
    assert result.run["committed"] == 200
    assert re.search(r"kept all of \d+ committed increments", result.run["lead"])


def test_servers_count(tmp_path: Path, server: Callable[[str], Running]) -> None:
    for kind in ("postgresql", "mariadb"):
        for isolation in ("read-committed", "repeatable-read", "serializable"):
            words = (server(kind).url, "--isolation", isolation, "--workload", "counter", *FEW)
            result = ran(tmp_path / f"{kind}-{isolation}", *words)
            assert (result.status, result.verdicts) == (0, ["satisfied"]), (kind, isolation, result.out, result.error)


def test_audit_reads_what_was_recorded(tmp_path: Path) -> None:
    assert ran(tmp_path / "run", "sqlite:", "--workload", "counter", *FEW).status == 0
    status, out, error = isolde("audit", str(tmp_path / "run" / "history.jsonl"), "--level", "strict-serializable")
    assert status == 0, (out, error)


def test_what_it_is_not_for_is_refused() -> None:
    for words in (("--check", "ser"), ("--certify",), ("--index",), ("--until-violation",)):
        status, _, error = isolde("run", "sqlite:", "--workload", "counter", *words)
        assert (status, "counter" in error) == (2, True), error
