"""Values as the databases store and show them, where types are converted or equal values differ."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.concrete import Store
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Binary, BinaryOperation, Literal
from isolde.tx.queries import Item, Select
from isolde.tx.sql import schema, statement

PG, MY, LITE = Dialect


def rows(store: Store, *texts: str) -> list[tuple[Any, ...]]:
    """What the last of the statements gives."""
    with store.transaction() as transaction:
        return [transaction.run(statement(text, store.dialect)).rows for text in texts][-1]


STORED = [
    ("4611686018427387904e0", 2**62, float(2**62)),
    ("9223372036854774784e0", 2**63 - 1024, float(2**63 - 1024)),
    ("9223372036854775808e0", float(2**63), float(2**63)),
    ("-9223372036854775808e0", -float(2**63), -float(2**63)),
    ("'2251799813685248.0'", 2**51, float(2**51)),
    ("140737488355327e0", 2**47 - 1, 2**47 - 1),
    ("140737488355328e0", 2**47, float(2**47)),
    ("-140737488355328e0", -(2**47), -(2**47)),
    ("-140737488355329e0", -(2**47) - 1, -float(2**47 + 1)),
]


@pytest.mark.parametrize(("value", "numeric", "returned"), STORED)
def test_sqlite_stores_a_whole_float_as_an_integer_and_returns_a_short_one(
    value: str, numeric: int | float, returned: int | float
) -> None:
    store = Store(schema("CREATE TABLE t (n DECIMAL(30, 2), i INTEGER, r REAL)", LITE), LITE)
    found = rows(store, f"INSERT INTO t VALUES ({value}, {value}, {value}) RETURNING n, i, r")
    assert repr(found) == repr([(numeric, numeric, returned)])
    assert repr(rows(store, "SELECT n, r FROM t")) == repr([(numeric, float(returned))])


def test_sqlite_casts_a_text_to_an_integer_below_two_to_the_51() -> None:
    texts = ("'2251799813685247.0'", "'2251799813685248.0'", "'-2251799813685248.0'", "2251799813685247e0")
    cast = f"SELECT {', '.join(f'CAST({text} AS NUMERIC)' for text in texts)}"
    right = [(2**51 - 1, float(2**51), -(2**51), float(2**51 - 1))]
    assert repr(rows(Store(schema("", LITE), LITE), cast)) == repr(right)


MIXED = "CASE WHEN i = 1 THEN 1.0 ELSE {} END"
ONE = {PG: (Decimal("1.0"), "1.00"), LITE: (1.0, "1")}
TAKEN_TOGETHER = [
    "SELECT min({}) FROM t",
    "SELECT max({}) FROM t",
    "SELECT DISTINCT {} FROM t",
    "SELECT sum(DISTINCT {}) FROM t",
    "SELECT {} FROM t GROUP BY {}",
]


@pytest.mark.parametrize("text", TAKEN_TOGETHER)
@pytest.mark.parametrize("dialect", [PG, LITE])
def test_of_equal_values_that_differ_the_order_says_which_is_shown(dialect: Dialect, text: str) -> None:
    store = Store(schema("CREATE TABLE t (i INT PRIMARY KEY)", dialect), dialect)
    store.load("t", [(1,), (2,)])
    one, other = ONE[dialect]
    with pytest.raises(OutsideFragment, match="equal and not the same"):
        rows(store, text.replace("{}", MIXED.replace("{}", other)))
    same = rows(store.copy(), text.replace("{}", MIXED.replace("{}", "1.0")))
    assert repr(same) == repr([(one,)])
    count = rows(store.copy(), f"SELECT count(DISTINCT {MIXED.replace('{}', other)}) FROM t")
    assert count == [(1,)]


def test_sqlite_takes_an_and_with_zero_for_the_number_of_a_column() -> None:
    store = Store(schema("CREATE TABLE t (i INT PRIMARY KEY)", LITE), LITE)
    for order in ("i AND 0", "i > 1 AND (0 AND i > 2)"):
        with pytest.raises(OutsideFragment, match="AND with 0"):
            rows(store.copy(), f"SELECT i FROM t ORDER BY {order}")
    assert rows(store.copy(), "SELECT i FROM t ORDER BY i AND 1, i OR 0") == []


@pytest.mark.parametrize("dialect", [PG, Dialect.MYSQL])
def test_a_pattern_that_ends_with_an_unfinished_escape_is_refused(dialect: Dialect) -> None:
    store = Store(schema("", dialect), dialect)
    for pattern in ("\\", "a%\\", "a\\\\\\"):
        with pytest.raises(OutsideFragment, match="unfinished escape"):
            store.copy().transaction().run(like("a", pattern))
    for text, pattern, right in (
        ("a\\", "a\\\\", True),
        ("a%", "a\\%", True),
        ("ab", "a\\%", False),
        ("ab", "a_", True),
    ):
        assert bool(store.copy().transaction().run(like(text, pattern)).rows[0][0]) is right


def like(text: str, pattern: str) -> Select:
    """SELECT 'text' LIKE 'pattern', whatever a dialect makes of backslashes in a literal."""
    return Select((Item(BinaryOperation(Binary.LIKE, Literal(text), Literal(pattern))),))


def test_a_float_that_postgresql_rounds_to_zero_keeps_its_sign() -> None:
    calls = ("ceil(-0.5)", "ceil(0.0)", "floor(0.5)", "floor(-0.0)", "round(-0.4)", "floor(-0.5)")
    floats = [call.replace("(", "(CAST(").replace(")", " AS DOUBLE PRECISION))") for call in calls]
    query = f"SELECT {', '.join(f'CAST({call} AS TEXT)' for call in floats)}, CAST(floor(-{floats[1]}) AS TEXT)"
    assert rows(Store(schema("", PG), PG), query) == [("-0", "0", "0", "0", "-0", "-1", "-0")]


@pytest.mark.parametrize("text", ["NaN", " inf ", "-Infinity"])
def test_infinite_numbers_are_refused_and_no_errors(text: str) -> None:
    for kind in ("DOUBLE PRECISION", "NUMERIC"):
        with pytest.raises(OutsideFragment, match="as a number"):
            rows(Store(schema("", PG), PG), f"SELECT CAST('{text}' AS {kind})")


def test_mysqls_mediumint_holds_24_bits() -> None:
    store = Store(schema("CREATE TABLE t (m MEDIUMINT, u MEDIUMINT UNSIGNED)", MY), MY)
    assert rows(store, "INSERT INTO t VALUES (-8388608, 16777215)", "SELECT m, u FROM t") == [(-(2**23), 2**24 - 1)]
    for value in ("8388608, 0", "0, 16777216", "0, -1"):
        with pytest.raises(ExecutionError, match="out of range"):
            rows(store, f"INSERT INTO t VALUES ({value})")


def test_postgresql_shifts_a_null_and_by_a_text() -> None:
    assert rows(Store(schema("", PG), PG), "SELECT NULL >> 1, 5 >> NULL, 5 >> '1', '5' >> 1") == [(None, None, 2, 2)]


@pytest.mark.parametrize(("dialect", "type_"), [(PG, "REAL"), (MY, "FLOAT")])
def test_a_number_that_32_bits_would_round_is_refused(dialect: Dialect, type_: str) -> None:
    store = Store(schema(f"CREATE TABLE t (f {type_})", dialect), dialect)
    compared = rows(store, "INSERT INTO t VALUES (2.25)", "SELECT f, f = 2.25, f + 0.5 FROM t")
    assert compared == [(2.25, True, 2.75)]
    # 0.1 is shown as 0.1 and is not equal to it.
    for value in ("0.1", "16777217", "1234567"):
        with pytest.raises(OutsideFragment, match="in 32 bits"):
            rows(store, f"INSERT INTO t VALUES ({value})")


def test_postgresqls_single_floats_meet_in_single_and_other_numbers_in_double() -> None:
    store = Store(schema("CREATE TABLE t (f REAL)", PG), PG)
    rows(store, "INSERT INTO t VALUES (3)")
    assert rows(store, "SELECT f / 3, 1 / (f / 3 + f), FLOOR(f), COALESCE(f, 1) FROM t") == [(1.0, 0.25, 3.0, 3.0)]
    assert rows(store, "SELECT 1 / f FROM t") == [(1 / 3,)]
    for query in ("SELECT 1 / (f / f / f) FROM t", "SELECT SUM(f) FROM t", "SELECT COALESCE(NULLIF(f, 3), 0.1) FROM t"):
        with pytest.raises(OutsideFragment, match="32 bits"):
            rows(store, query)


def test_postgresqls_literals_are_texts_in_a_query_in_from() -> None:
    store = Store(schema("CREATE TABLE t (i INT)", PG), PG)
    for literal in ("'3'", "NULL"):
        with pytest.raises(ExecutionError) as failure:
            rows(store, f"SELECT i FROM t JOIN (SELECT {literal} AS y) AS z ON z.y = 3")
        assert failure.value.kind == "type"


def test_postgresqls_differences_of_times_are_refused() -> None:
    store = Store(schema("CREATE TABLE t (m TIMESTAMP)", PG), PG)
    for difference in ("m - m", "NULL + m", "m - '1 day'"):
        with pytest.raises(OutsideFragment, match="a difference of times"):
            rows(store, f"SELECT {difference} FROM t")


@pytest.mark.parametrize(("dialect", "short", "spaced"), [(PG, False, False), (MY, True, False), (LITE, True, True)])
def test_a_char_holds_what_no_spaces_are_added_to(dialect: Dialect, short: bool, spaced: bool) -> None:
    """PostgreSQL fills up with spaces and shows them, MySQL takes them away, SQLite does nothing."""
    tables = schema("CREATE TABLE t (c CHAR(2), d CHAR)", dialect)
    for text, held in (("GC", True), ("G", short), ("G ", spaced)):
        store = Store(tables, dialect)
        if held:
            assert rows(store, f"INSERT INTO t (c) VALUES ('{text}')", "SELECT c FROM t") == [(text,)]
        else:
            with pytest.raises(OutsideFragment, match="CHAR"):
                rows(store, f"INSERT INTO t (c) VALUES ('{text}')")
    if dialect is not LITE:
        with pytest.raises(ExecutionError, match="longer than 1"):
            rows(Store(tables, dialect), "INSERT INTO t (d) VALUES ('ab')")


NOON = datetime(2024, 1, 2, 12, 0, 0, 500_000)


@pytest.mark.parametrize(
    ("dialect", "text", "given", "expected"),
    [
        (PG, "SELECT :x", True, True),
        (MY, "SELECT :x", True, 1),
        (MY, "SELECT CONCAT(:x, 'x')", True, "1x"),
        (MY, "SELECT CONCAT(:x, 'x')", NOON, "2024-01-02 12:00:00.500000x"),
        (MY, "SELECT CONCAT(:x, 'x')", NOON.replace(microsecond=0), "2024-01-02 12:00:00x"),
        (LITE, "SELECT :x", True, 1),
        (LITE, "SELECT CAST(:x AS TEXT)", True, "1"),
        (LITE, "SELECT :x * 2", Decimal("1.50"), 3.0),
        (LITE, "SELECT :x || 'x'", NOON, "2024-01-02 12:00:00.500000x"),
    ],
)
def test_a_parameter_is_what_the_database_makes_of_it(dialect: Dialect, text: str, given: Any, expected: Any) -> None:
    """MySQL has no booleans, SQLite neither booleans nor decimals nor times."""
    with Store(schema("CREATE TABLE t (i INT)", dialect), dialect).transaction() as transaction:
        ((found,),) = transaction.run(statement(text, dialect), {"x": given}).rows
    assert repr(found) == repr(expected)


def test_a_limit_is_a_number() -> None:
    limited = "SELECT i FROM t ORDER BY i LIMIT :n"
    for dialect, given, expected in (
        (PG, None, [(1,), (2,)]),
        (LITE, 1.0, [(1,)]),
        (LITE, -1, [(1,), (2,)]),
        (MY, 1, [(1,)]),
    ):
        store = Store(schema("CREATE TABLE t (i INT)", dialect), dialect)
        rows(store, "INSERT INTO t VALUES (1), (2)")
        assert store.transaction().run(statement(limited, dialect), {"n": given}).rows == expected
    refused: tuple[tuple[Dialect, Any], ...] = ((MY, None), (LITE, "1"))
    for dialect, wrong in refused:
        store = Store(schema("CREATE TABLE t (i INT)", dialect), dialect)
        with pytest.raises(OutsideFragment, match="LIMIT"):
            store.transaction().run(statement(limited, dialect), {"n": wrong})
