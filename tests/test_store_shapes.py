"""Statements that differ only in their literals are read and compiled once, and mean what they mean as they are written."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

from differential.generation import Generator
from differential.generation_wide import WideGenerator
from differential.rendering import Text
from isolde.errors import ExecutionError, IsoldeError, OutsideFragment
from isolde.semantics.concrete import Store
from isolde.tx import sql
from isolde.tx.dialects import Dialect
from isolde.tx.sql.literals import Shape, shape

PG, MY, LITE = Dialect.POSTGRESQL, Dialect.MYSQL, Dialect.SQLITE


def taken(text: str, dialect: Dialect = PG) -> Shape | None:
    return shape(text, dialect, type)


@pytest.mark.parametrize(
    ("text", "bare", "values"),
    [
        ("SELECT a FROM t WHERE id = 7", "SELECT a FROM t WHERE id = :isolde_1", [7]),
        ("UPDATE t SET a = 5, b = 'it''s' WHERE id <> 7;", "UPDATE t SET a = :isolde_1, b = :isolde_2 WHERE id <> :isolde_3;", [5, "it's", 7]),
        ("DELETE FROM t WHERE a < 1.50 AND b = 'x'", "DELETE FROM t WHERE a < :isolde_1 AND b = :isolde_2", [Decimal("1.50"), "x"]),
        ("INSERT INTO t VALUES (1, 'a', NULL)", "INSERT INTO t VALUES (:isolde_0_0, :isolde_0_1, NULL)", [1, "a"]),
    ],
)  # fmt: skip
def test_whole_values_are_taken_out(text: str, bare: str, values: list[Any]) -> None:
    found = taken(text)
    assert found is not None
    assert (found.text, list(found.values.values())) == (bare, values)


def test_rows_that_look_alike_are_one_row() -> None:
    found = taken(
        "INSERT INTO t (a, b) VALUES (1, 'x'), (2, NULL), (3, 'y'), (4, f(5)) ON CONFLICT (a) DO UPDATE SET b = 'z'"
    )
    assert found is not None
    assert len(found.templates) == 3
    assert found.rows == ((0, (1, "x")), (1, (2,)), (0, (3, "y")), (2, (4,)))
    assert list(found.values.values()) == ["z"]


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        ("SELECT a FROM t -- x = 5", PG),
        ("SELECT E'a\\n' FROM t WHERE a = 5", PG),
        ("SELECT a = 5 FROM t GROUP BY a = 5", PG),
        ("SELECT DISTINCT a = 5 FROM t ORDER BY a = 5", PG),
        ('SELECT "a" FROM t WHERE a = 5', MY),
        ("SELECT a FROM t WHERE b = 'a\\'b'", MY),
        ("SELECT a FROM t WHERE b = $1", PG),
        ("SELECT a FROM t LIMIT 5", PG),
        ("INSERT INTO t VALUES (1, 2", PG),
    ],
)
def test_what_the_scan_does_not_know_stays_as_it_is(text: str, dialect: Dialect) -> None:
    assert taken(text, dialect) is None


def test_a_shape_is_compiled_once() -> None:
    store = Store(sql.schema("CREATE TABLE t (id INT PRIMARY KEY, a INT);", PG), PG)
    transaction = store.transaction()
    transaction.run_text("INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)")
    transaction.run_text("INSERT INTO t VALUES (4, 40), (5, 50)")
    for key in range(1, 6):
        assert transaction.run_text(f"SELECT a FROM t WHERE id = {key}").rows == [(key * 10,)]
    assert len(store.compiled.shapes) == 2
    assert not store.compiled.statements


def test_a_parameter_that_cannot_be_converted_fails_before_any_row_is_looked_at() -> None:
    store = Store(sql.schema("CREATE TABLE t (id INT PRIMARY KEY, a INT);", PG), PG)
    for text in ("SELECT a FROM t WHERE a = 'x'", "SELECT a FROM t WHERE id = 1 AND a = 'x'"):
        with pytest.raises(ExecutionError) as caught:
            store.copy().transaction().run_text(text)
        assert caught.value.kind == "conversion"


def outcome(run: Any) -> Any:
    try:
        result = run()
    except ExecutionError as error:
        return error.kind
    except OutsideFragment as refusal:
        return f"refused: {refusal.what}"
    return result.columns, result.rows, result.count


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("made_by", [Generator, WideGenerator])
def test_the_shape_with_its_values_means_what_the_text_means(dialect: Dialect, made_by: type[Generator]) -> None:
    tally: Counter[str] = Counter()
    for seed in range(2000, 2012):
        generator = made_by(seed, dialect)
        store, text = Store(generator.schema, dialect), Text(dialect)
        for place in range(40):
            written = text.statement(generator.insert() if place < 12 else generator.statement())
            try:
                node = sql.statement(written, dialect)
            except IsoldeError:
                continue
            other = store.copy()
            own, others = store.transaction(), other.transaction()
            expected, found = (
                outcome(lambda t=own, n=node: t.run(n)),
                outcome(lambda t=others, w=written: t.run_text(w)),
            )
            assert repr(found) == repr(expected), written
            tally["taken" if other.compiled.shapes else "as it is"] += 1
            if isinstance(expected, str):
                own.rollback()
            else:
                own.commit()
                others.commit()
                assert other == store
    assert tally["taken"] > 100
