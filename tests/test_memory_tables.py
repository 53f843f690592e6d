"""Tables in memory: what is found by an index is what a look at every row finds, whatever was changed before."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from certifying import LEVELS, verdicts
from definition.predicate_histories import random_case
from isolde.engines.certify.at_hand import AtHand
from isolde.semantics.concrete import Store
from isolde.semantics.tables.memory import MemoryTable
from isolde.semantics.tables.view import Numbered, Undo, take_back
from isolde.tx.dialects import Dialect
from isolde.tx.sql import schema


def test_an_interval_of_a_column_gives_the_rows_that_a_scan_gives() -> None:
    rng = random.Random(1)
    catalog = Store(
        schema("CREATE TABLE t (id INT PRIMARY KEY, a INT)", Dialect.POSTGRESQL), Dialect.POSTGRESQL
    ).catalog
    log: Undo = []
    table = MemoryTable(catalog.tables[0], catalog, log)
    for key in range(20):
        table.put(None, (key, rng.choice([None, *range(8)])))
    for _ in range(400):
        number = rng.choice([number for number, _ in table.all()])
        act = rng.random()
        if act < 0.6:
            table.put(number, (table.rows[number][0], rng.choice([None, *range(8)])), same_keys=rng.random() < 0.5)
        elif act < 0.8 and len(table.rows) > 5:
            table.put(number, None)
        else:
            take_back(log, max(0, len(log) - 2))
        low, high = (rng.choice([None, *range(-1, 9)]) for _ in "ab")
        assert list(table.between(1, low, high)) == list(_scanned(table.all(), low, high))


def _scanned(rows: Iterable[Numbered], low: int | None, high: int | None) -> Iterable[Numbered]:
    for number, (key, a) in rows:
        if a is not None and (low is None or a >= low) and (high is None or a <= high):
            yield number, (key, a)


def test_plain_statements_do_on_the_shared_state_what_any_statement_does(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [random_case(seed) for seed in range(20_000, 20_040)]
    found = [verdicts(*case, LEVELS) for case in cases]
    monkeypatch.setattr(AtHand, "evaluated", lambda *_: None)
    assert found == [verdicts(*case, LEVELS) for case in cases]
