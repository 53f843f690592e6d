"""A plain change runs as a closure first and as generated code when it has run often: both do the same."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from differential.generation import Generator
from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.concrete import Store
from isolde.semantics.concrete.plain_changes import plain_change
from isolde.semantics.concrete.store import PLAIN_RUNS, Code
from isolde.semantics.core.relations import Query
from isolde.tx.dialects import Dialect
from isolde.tx.sql import schema, statement

TABLES = """
CREATE TABLE t (id INT PRIMARY KEY, a SMALLINT NOT NULL, b VARCHAR(3), c DECIMAL(5, 2), CHECK (a < 100));
CREATE TABLE p (x INT, y VARCHAR(5), n INT DEFAULT 7, PRIMARY KEY (x, y));
"""
CHANGES = (
    "INSERT INTO t VALUES (:v, 1, 'ab', 2.5)",
    "INSERT INTO t (b, id, a) VALUES (:w, :v, :v)",
    "INSERT INTO t VALUES (5, 'no number', NULL, 1)",
    "INSERT INTO p (y, x) VALUES (:w, :v)",
    "INSERT INTO p (x, y) VALUES (1 + 1, 'k')",
    "UPDATE t SET a = a + :v, b = :w WHERE id = 1",
    "UPDATE t SET id = :v, a = 1 WHERE id = 2",
    "UPDATE p SET n = n * :v WHERE y = :w AND x = 1",
    "DELETE FROM t WHERE id = :v",
    "DELETE FROM p WHERE x = :v AND y = 'k'",
)
VALUES = tuple(product((None, 1, 2, 70_000, 3_000_000_000), (None, "k", "longer", 4)))


def filled(dialect: Dialect) -> Store:
    store = Store(schema(TABLES, dialect), dialect)
    for text in ("INSERT INTO t VALUES (1, 10, 'x', 1), (2, 20, NULL, NULL)", "INSERT INTO p VALUES (1, 'k', 3)"):
        with store.transaction() as transaction:
            transaction.run_text(text)
    return store


def outcome(function: Any, store: Store, values: Any) -> Any:
    """What the function gives or raises, and the rows that it leaves."""
    copy = store.copy()
    transaction = copy.transaction()
    try:
        found: Any = function(copy, *values)
    except (ExecutionError, OutsideFragment) as error:
        transaction.rollback()
        found = str(error)
    return found, copy.state(), copy.tables[0].ids.next


def generated(store: Store, code: Code) -> Any:
    return store.compiled._generated(code.core, list(code.arguments))


@pytest.mark.parametrize("dialect", list(Dialect))
def test_a_closure_does_what_generated_code_does(dialect: Dialect) -> None:
    plain = 0
    for text in CHANGES:
        for v, w in VALUES:
            store = filled(dialect)
            try:
                code, values = store.compiled.given(statement(text, dialect), {"v": v, "w": w})
            except (ExecutionError, OutsideFragment):
                continue
            assert not isinstance(code.core, Query)
            plain += plain_change(store.catalog, code.core, len(values)) is not None
            assert outcome(code.function, store, values) == outcome(generated(store, code), store, values), (text, v, w)
    assert plain > 70


@pytest.mark.parametrize("dialect", list(Dialect))
def test_closures_do_what_generated_code_does_on_generated_changes(dialect: Dialect) -> None:
    plain = 0
    for seed in range(12):
        generator = Generator(seed, dialect)
        store = Store(generator.schema, dialect)
        for place in range(40):
            node = generator.insert() if place < 20 else generator.statement()
            try:
                code, values = store.compiled.given(node, {})
            except (ExecutionError, OutsideFragment):
                continue
            if not isinstance(code.core, Query):
                plain += plain_change(store.catalog, code.core, 0) is not None
                assert outcome(code.function, store, values) == outcome(generated(store, code), store, values)
            transaction = store.transaction()
            try:
                transaction.run(node)
                transaction.commit()
            except (ExecutionError, OutsideFragment):
                transaction.rollback()
    assert plain > 30


def test_code_is_generated_for_a_change_that_runs_often() -> None:
    store = filled(Dialect.POSTGRESQL)
    node = statement("UPDATE t SET a = :v WHERE id = 1", Dialect.POSTGRESQL)
    code, _ = store.compiled.given(node, {"v": 1})
    closure = code.function
    with store.transaction() as transaction:
        for value in range(PLAIN_RUNS + 5):
            transaction.run(node, {"v": value})
            assert (code.function is closure) is (value + 1 < PLAIN_RUNS)
        assert closure(store, 99) == (1, [])
    assert store.state()["t"][0][1] == 99
