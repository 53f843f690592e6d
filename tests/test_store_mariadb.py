"""MariaDB's own ways, with the values that its server (10.11) gave; and what is refused because its plan decides."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.concrete import Store
from isolde.tx.dialects import Dialect
from isolde.tx.sql import schema, statement

Rows = list[tuple[Any, ...]]
TABLES = """
CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a INT UNIQUE, c INT, CHECK (c < 5));
CREATE TABLE h (g INT, a INT, b INT);
CREATE TABLE n (i INT, n BIGINT, d DECIMAL(8, 2), u VARCHAR(8));
CREATE TABLE q (f DOUBLE, e DECIMAL(12, 9), d DECIMAL(5, 2));
CREATE TABLE r (k INT NOT NULL, s VARCHAR(10), PRIMARY KEY (k));
"""


def store(*texts: str) -> Store:
    made = Store(schema(TABLES, Dialect.MYSQL), Dialect.MYSQL)
    for text in texts:
        run(made, text)
    return made


def run(on: Store, text: str) -> Rows:
    with on.transaction() as transaction:
        return transaction.run(statement(text, Dialect.MYSQL)).rows


def typed(rows: Rows) -> list[list[str]]:
    return [[repr(value) for value in row] for row in rows]


def test_floor_and_ceiling_are_decimals_where_nineteen_digits_may_stand_before_the_point() -> None:
    made = store("INSERT INTO n VALUES (1, 2, 1.5, '3')")
    for expression, value in (
        ("FLOOR(d)", 1),
        ("CEILING(n)", 2),
        ("CEILING(1.5)", 2),
        ("FLOOR(CAST(i / 2 AS DECIMAL(17, 1)))", 0),
        ("FLOOR(CAST(n / 2 AS DECIMAL(20, 2)))", Decimal(1)),
    ):
        assert typed(run(made, f"SELECT {expression} FROM n")) == [[repr(value)]], expression
    for computed in ("FLOOR(i / 2)", "CEILING(d + n)", "FLOOR((SELECT AVG(i) FROM n))", "CEILING(ROUND(d, 1))"):
        with pytest.raises(OutsideFragment, match="of a computed decimal in MySQL"):
            run(made, f"SELECT {computed} FROM n")


def test_a_null_that_is_written_out_makes_a_decimal_of_an_unsigned_number() -> None:
    row = run(
        store(),
        "SELECT COALESCE(3 | 4, NULL), CASE WHEN 1 THEN 3 | 4 ELSE NULL END, CASE WHEN 1 THEN 3 | 4 END, IF(1, 3 | 4, NULL)",
    )
    assert typed(row) == [["Decimal('7')", "Decimal('7')", "7", "7"]]


def test_the_negative_of_a_negative_constant_is_a_decimal_unless_it_is_written_out() -> None:
    row = run(store(), "SELECT -(-4), -CEILING(-4), -(-COALESCE(4)), -CEILING(4)")
    assert typed(row) == [["4", "Decimal('4')", "Decimal('4')", "-4"]]


def test_a_greatest_of_texts_is_no_number() -> None:
    assert run(store(), "SELECT GREATEST('9', '10'), IF(1, GREATEST('9', '10'), 'a') + 0") == [("9", 9.0)]
    # 10 on the server, which compares numbers here.
    for number in ("GREATEST('9', '10') + 0", "GREATEST('9', '10') | 0", "z.g + 0"):
        with pytest.raises(OutsideFragment, match="GREATEST of texts taken as a number"):
            run(store(), f"SELECT {number} FROM (SELECT GREATEST('9', '10') AS g) AS z")


def test_an_exists_is_no_text_but_by_a_cast() -> None:
    made = store("INSERT INTO h VALUES (1, 1, 1)")
    found = run(made, "SELECT CAST(EXISTS (SELECT 1 FROM h) AS CHAR), CONCAT(NOT EXISTS (SELECT 1 FROM h))")
    assert found == [("1", "0")]
    # b'a1' on the server, which differs from 'A1'.
    with pytest.raises(OutsideFragment, match="EXISTS taken as a text"):
        run(made, "SELECT CONCAT('a', EXISTS (SELECT 1 FROM h))")


def test_a_negative_decimal_without_remainder_is_refused() -> None:
    assert run(store(), "SELECT 4.0 % 2, -3 % 2.000, -4 % 2") == [(Decimal("0.0"), Decimal("-1.000"), 0)]
    # -0.000 on the server, which is less than 0 and does not equal it.
    with pytest.raises(OutsideFragment, match="a remainder of zero, of a negative decimal"):
        run(store(), "SELECT -2 % 2.000 = 0")


QUOTIENTS = "INSERT INTO h VALUES (1, 6, 5), (1, 6, 1), (1, 6, 11), (1, 6, 11), (1, 6, 11), (2, 2, 4)"


def test_quotients_are_summed_with_all_their_digits_or_rounded_in_groups() -> None:
    made = store(QUOTIENTS)
    # A temporary table gives 8.8365, an index on g 8.8364.
    with pytest.raises(OutsideFragment, match="an aggregate of quotients, in groups or DISTINCT"):
        run(made, "SELECT g, SUM(a / b) FROM h GROUP BY g")
    assert run(made, "SELECT SUM(a / b) FROM h WHERE g = 1") == [(Decimal("8.8364"),)]
    assert run(made, "SELECT g, SUM(a / b) FROM h WHERE g = 2 GROUP BY g") == [(2, Decimal("0.5000"))]
    with pytest.raises(OutsideFragment, match="an aggregate of quotients, in groups or DISTINCT"):
        run(made, "SELECT g, MIN(a / b) FROM h GROUP BY g")


def test_distinct_quotients_are_rounded_unless_a_group_has_one_row() -> None:
    made = store(QUOTIENTS)
    # 2.58183333; but a group of one row, known by its key, would give an AVG with all digits.
    with pytest.raises(OutsideFragment, match="an aggregate of quotients, in groups or DISTINCT"):
        run(made, "SELECT AVG(DISTINCT a / b) FROM h WHERE g = 1")


def test_quotients_are_ordered_as_they_are_shown() -> None:
    made = store("INSERT INTO h VALUES (1, 2, 600001), (2, 1, 300001), (3, 1, 300000)")
    assert run(made, "SELECT g FROM h ORDER BY a / b, g") == [(1,), (2,), (3,)]


def test_a_scalar_query_keeps_the_digits_of_a_quotient() -> None:
    made = store("INSERT INTO h VALUES (1, 39, 7)")
    assert run(made, "SELECT 25 % (SELECT a / b FROM h), (SELECT a / b FROM h) * 1000000") == [
        (Decimal("2.7143"), Decimal("5571428.5710"))
    ]


def test_a_quotient_keeps_its_unseen_digits_until_it_is_compared() -> None:
    made = store("INSERT INTO h VALUES (1, 1, 3)")
    for expression, value in (
        ("COALESCE(a / b, 1) * 1000000000000", Decimal("333333333000.0000")),
        ("(CASE WHEN 1 THEN a / b ELSE 5 END) / 7 * 1000000000000000000", Decimal("47619047571428571.00000000")),
        ("(1 / 3 / 3) / 7 * 1000000000000000000", Decimal("15873015857142857.142857142000")),
        ("COALESCE(4, 1.23456789012) / 3 * 1000000000000", Decimal("1333333333000.000000000000000")),
        ("25 % COALESCE(39 / 7, 1)", Decimal("2.7143")),
        ("a / b = 0.3333", 1),
        ("a / b = 0.333333333", 0),
        ("a / b = b / 9", 1),
        ("NULLIF(a / b, 0.3333)", None),
        ("a / b IN (0.3333)", 1),
        ("a / b IN (0.3333, 7)", 0),
        ("a / b IN (0.333333333, 7)", 1),
        ("a / b BETWEEN 0.3333 AND 0.3333", 0),
        ("CASE a / b WHEN 0.3333 THEN 1 ELSE 0 END", 0),
    ):
        assert typed(run(made, f"SELECT {expression} FROM h")) == [[repr(value)]], expression


def test_a_selected_quotient_is_stored_with_its_unseen_digits() -> None:
    made = store("INSERT INTO h VALUES (1, 1, 3)")
    run(made, "INSERT INTO q SELECT a / b, a / b, a / b FROM h")
    assert made.state()["q"] == [(0.333333333, Decimal("0.333333333"), Decimal("0.33"))]


def test_round_to_more_digits_than_there_are_shows_them() -> None:
    row = run(store(), "SELECT ROUND(0.5, 2), ABS(ROUND(0.5, 2)) + 0, ROUND(1 / 3, 6), ROUND(5, 2), ROUND(99.99, -1)")
    assert typed(row) == [["Decimal('0.50')", "Decimal('0.50')", "Decimal('0.333333')", "5", "Decimal('100')"]]


def test_a_null_of_if_is_a_text_and_one_of_case_is_not() -> None:
    row = run(
        store(),
        "SELECT COALESCE(IF(1, NULL, NULL), 5), COALESCE(CASE WHEN 1 THEN NULL END, 5), COALESCE(GREATEST(NULL, NULL), 5)",
    )
    assert typed(row) == [["'5'", "5", "5"]]
    assert run(store(), "SELECT COALESCE(MAX(NULL), 5), COALESCE(SUM(NULL), 5)") == [("5", 5.0)]


def test_a_double_that_is_shown_with_a_number_of_digits_is_not_divided() -> None:
    assert run(store(), "SELECT FLOOR(1.5e0) * 1.5, COALESCE(42 * NULL, 1), COALESCE(1.5e0 * NULL, 1) / 8") == [
        (1.5, 1.0, 0.125)
    ]
    # 0.1429, 0.1429, 0.440702, 2.285714 and -0.16 on the server.
    for expression in (
        "FLOOR(1.5e0) / 7",
        "COALESCE(42 * NULL, 1) / 7",
        "COALESCE(3.14 / 7.125, NULL / 1)",
        "FLOOR(2.5e0) + 2.00 / 7",
        "-3.14 * COALESCE(0.05, NULL % 2)",
    ):
        with pytest.raises(OutsideFragment, match="a rounded floating-point number, or a NULL"):
            run(store(), f"SELECT {expression}")


def test_a_cast_to_char_is_no_number() -> None:
    assert run(store(), "SELECT CAST(0.5 AS CHAR), IF(1, CAST(0.5 AS CHAR), 'a') + 0") == [("0.5", 0.5)]
    # 0 on the server, and then again 1: CAST(0.5 AS CHAR) + 0 is 0, CAST(0.5 AS CHAR) = 1 is true.
    for expression in ("CAST(0.5 AS CHAR) + 0", "CAST(0.5 AS CHAR) = 1", "MAX(CAST(0.5 AS CHAR)) + 0"):
        with pytest.raises(OutsideFragment, match="a CAST to CHAR taken as a number"):
            run(store(), f"SELECT {expression}")


def test_a_query_over_a_column_that_was_assigned_before_is_refused() -> None:
    made = store("INSERT INTO n (i, n) VALUES (1, 10)", "INSERT INTO h VALUES (1, 5, 6), (2, 7, 8)")
    query = "(SELECT a FROM h WHERE g = n.i)"
    with pytest.raises(OutsideFragment, match="a query over i, which the same UPDATE has assigned before"):
        run(made, f"UPDATE n SET i = 2, n = {query}")
    run(made, f"UPDATE n SET n = {query}, i = 2")
    assert run(made, "SELECT i, n FROM n") == [(2, 5)]


def test_which_of_two_equal_texts_is_shown_depends_on_the_plan() -> None:
    made = store("INSERT INTO n (i, u) VALUES (1, 'ab'), (1, 'Ab'), (2, 'b')")
    assert run(made, "SELECT DISTINCT LOWER(u) FROM n") == [("ab",), ("b",)]
    assert run(made, "SELECT COUNT(DISTINCT u), MAX(u) FROM n") == [(2, "b")]
    assert run(made, "SELECT COUNT(*) FROM n GROUP BY u") == [(2,), (1,)]
    for query in ("SELECT DISTINCT u FROM n", "SELECT u FROM n GROUP BY u", "SELECT MIN(u) FROM n"):
        with pytest.raises(OutsideFragment, match="which are equal and not the same"):
            run(made, query)


def test_distinct_texts_are_not_summed() -> None:
    # 1 on the server for '1' and '01'; 2 where the column is a key.
    with pytest.raises(OutsideFragment, match="SUM of DISTINCT texts"):
        run(store(), "SELECT SUM(DISTINCT u) FROM n")


def test_the_text_of_a_double_that_has_a_scale_is_refused() -> None:
    assert run(store(), "SELECT CONCAT(FLOOR(1.5e0)), CONCAT(1.5e0 + 1)") == [("1", "2.5")]
    # '7.125000' and '1.0000' on the server.
    for expression in ("IF(1, 7.125, 0.00 / NULL)", "COALESCE(NULL / 2, 1)"):
        with pytest.raises(OutsideFragment, match="the text of a rounded floating-point number"):
            run(store(), f"SELECT CONCAT({expression})")


def test_a_null_that_was_cast_has_the_type() -> None:
    row = run(
        store(),
        "SELECT COALESCE(CAST(NULL AS DOUBLE), 5), COALESCE(CAST(NULL AS CHAR), 5), COALESCE(CAST(NULL AS SIGNED), 5)",
    )
    assert typed(row) == [["5.0", "'5'", "5"]]


# Generated ids


def test_an_id_of_a_row_that_was_not_inserted_goes_to_the_next_row() -> None:
    made = store(
        "INSERT INTO t (a) VALUES (1), (2)", "INSERT INTO t (a) VALUES (1), (7), (8) ON DUPLICATE KEY UPDATE c = 1"
    )
    assert made.state()["t"] == [(1, 1, 1), (2, 2, None), (3, 7, None), (4, 8, None)]
    run(made, "INSERT INTO t (id, a) VALUES (NULL, 1), (20, 9), (NULL, 10) ON DUPLICATE KEY UPDATE c = 2")
    assert made.state()["t"][4:] == [(20, 9, None), (21, 10, None)]
    # The first reserved three ids, of which it used two.
    run(made, "INSERT IGNORE INTO t (a, c) VALUES (1, 1), (50, 9), (51, 1), (1, 1), (52, 1)")
    assert [row[:2] for row in made.state()["t"][6:]] == [(22, 51), (23, 52)]
    run(made, "INSERT INTO t (a) VALUES (60)")
    assert made.state()["t"][-1] == (27, 60, None)


@pytest.mark.parametrize(
    ("failing", "next_id"),
    [
        ("INSERT INTO t (a, c) VALUES (8, 9)", 2),
        ("INSERT INTO t (a, c) VALUES (8, 9), (9, 1)", 2),
        ("INSERT INTO t (a, c) VALUES (8, 1), (9, 9)", 4),
        ("INSERT INTO t (id, a, c) VALUES (20, 8, 1), (NULL, 9, 9)", 21),
        ("INSERT IGNORE INTO t (a, c) VALUES (8, 9)", 2),
        ("REPLACE INTO t (a, c) VALUES (8, 9)", 2),
        ("INSERT INTO t (a, c) VALUES (1, 1)", 3),
    ],
)
def test_an_id_is_drawn_for_a_row_that_passed_its_checks(failing: str, next_id: int) -> None:
    made = store("INSERT INTO t (a) VALUES (1)")
    with pytest.raises(ExecutionError):
        run(made, failing)
    run(made, "INSERT INTO t (a) VALUES (2)")
    assert made.state()["t"][-1] == (next_id, 2, None)


def test_the_counter_of_ids_follows_an_update_of_one() -> None:
    made = store(
        "INSERT INTO t (a) VALUES (1)", "INSERT INTO t (id, a) VALUES (NULL, 1) ON DUPLICATE KEY UPDATE id = 300"
    )
    run(made, "INSERT INTO t (a) VALUES (80)")
    assert made.state()["t"] == [(300, 1, None), (301, 80, None)]


@pytest.mark.parametrize(
    "failing",
    [
        "UPDATE t SET id = id + 30, c = c + 1",
        "INSERT INTO t (id, a) SELECT x.id + 30, 7 FROM t AS x",
        "INSERT INTO t (id, a) VALUES (60, 30), (61, (SELECT g FROM h))",
    ],
)
def test_after_a_failure_half_way_no_id_is_generated(failing: str) -> None:
    made = store("INSERT INTO t (a, c) VALUES (1, 1), (2, 4)", "INSERT INTO h VALUES (1, 1, 1), (2, 2, 2)")
    with pytest.raises(ExecutionError):
        run(made, failing)
    with pytest.raises(OutsideFragment, match="a generated id of t after a statement that failed half-way"):
        run(made, "INSERT INTO t (a) VALUES (9)")
    run(made, "INSERT INTO t (id, a) VALUES (100, 9)")


def test_a_failure_of_rows_that_are_written_out_leaves_the_ids_certain() -> None:
    made = store("INSERT INTO t (a) VALUES (1), (2)")
    with pytest.raises(ExecutionError):
        run(made, "INSERT INTO t (a) VALUES (3), (1)")
    run(made, "INSERT INTO t (a) VALUES (4)")
    assert made.state()["t"][-1] == (5, 4, None)


# Left open


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SELECT y.c * 3 FROM (SELECT x.a / 7 AS c FROM h AS x) AS y", "a quotient out of a query in FROM"),
        ("SELECT -(SELECT -4)", "a minus before a query without FROM"),
    ],
)
def test_what_depends_on_the_plan_is_refused(text: str, what: str) -> None:
    with pytest.raises(OutsideFragment, match=what):
        run(store(), text)


# Nodes of another dialect


def test_what_another_dialect_concatenates_is_concatenated() -> None:
    """MySQL's own ``||`` is read as OR; a program that was written for PostgreSQL keeps its meaning."""
    made = store("INSERT INTO r VALUES (1, 'a')")
    with made.transaction() as transaction:
        found = transaction.run(statement("SELECT s || k || 'b', s || NULL FROM r", Dialect.POSTGRESQL))
    assert found.rows == [("a1b", None)]
    assert run(made, "SELECT k || 0 FROM r") == [(1,)]


# Rows


def test_which_of_two_selected_rows_with_one_key_stays_depends_on_the_plan() -> None:
    made = store("INSERT INTO t (id, a) VALUES (1, 10), (2, 20)")
    with pytest.raises(OutsideFragment, match="different rows have one key"):
        run(made, "REPLACE INTO r (k, s) SELECT 5, x.id FROM t AS x")
    run(made, "REPLACE INTO r (k, s) SELECT 5, x.id FROM t AS x ORDER BY x.id")
    assert made.state()["r"] == [(5, "2")]


def test_a_replaced_row_that_stays_as_it_is_counts_once_if_there_is_one_key() -> None:
    made = store("REPLACE INTO r VALUES (1, 'a')", "REPLACE INTO t (id, a) VALUES (1, 1)")
    with made.transaction() as transaction:
        assert transaction.run(statement("REPLACE INTO r VALUES (1, 'a')", Dialect.MYSQL)).count == 1
        assert transaction.run(statement("REPLACE INTO r VALUES (1, 'b')", Dialect.MYSQL)).count == 2
        assert transaction.run(statement("REPLACE INTO t (id, a) VALUES (1, 1)", Dialect.MYSQL)).count == 2


def test_an_update_that_reads_the_table_computes_all_values_first() -> None:
    made = store("INSERT INTO h VALUES (1, 10, 100), (2, 20, 200)", "UPDATE h SET a = 5, b = a")
    assert made.state()["h"] == [(1, 5, 5), (2, 5, 5)]
    run(made, "UPDATE h SET a = (SELECT MAX(q.g) FROM h AS q), b = a")
    assert made.state()["h"] == [(1, 2, 5), (2, 2, 5)]
    run(made, "UPDATE h SET a = 77, b = a WHERE EXISTS (SELECT 1 FROM h AS q WHERE q.g = h.g)")
    assert made.state()["h"] == [(1, 77, 2), (2, 77, 2)]


def test_a_null_assigned_to_a_key_is_seen_by_the_next_assignment() -> None:
    made = store("INSERT INTO r VALUES (1, 'a')")
    with pytest.raises(ExecutionError, match="must not be null"):
        run(made, "UPDATE r SET k = NULL, s = IF(k BETWEEN 1 AND k, 'a', 'b')")


# What the server answers wrongly: rounding for a lookup, or a plan that leaves something out

WRONG_ANSWERS = [
    ("SELECT k FROM p WHERE k = 1.5", [], "the row where k is 2"),
    ("SELECT 1.5 IN (SELECT k FROM u WHERE k > 0)", [(0,)], "1"),
    ("SELECT v + 3000000000 NOT IN (SELECT v FROM w) FROM w WHERE v = 5", [(None,)], "1"),
    (
        "SELECT (SELECT MAX(v) FROM w) IN (SELECT q.d FROM w AS q WHERE q.d < x.v) FROM w AS x",
        [(0,), (0,), (0,)],
        "1, 0, 1",
    ),
    ("SELECT DISTINCT d, NULLIF(v, 5) FROM w ORDER BY d, NULLIF(v, 5)", [(1, None), (1, 10)], "one row"),
    ("SELECT DISTINCT 5 FROM w LIMIT 1 OFFSET 1", [], "a row"),
    ("SELECT MIN(k) FROM u WHERE k > 1.5", [(2,)], "3"),
    ("SELECT COUNT(*) FROM u WHERE k <=> (2 % 0)", [(2,)], "1"),
    ("SELECT x.k FROM u AS x JOIN u AS y ON x.k = y.k WHERE x.k <=> y.k", [(1,), (2,), (3,)], "also a null"),
    ("SELECT MAX(-TRUE) FROM w", [(-1,)], "1"),
]


@pytest.mark.parametrize(("query", "right", "wrong"), WRONG_ANSWERS)
def test_the_store_is_right_where_the_server_is_not(query: str, right: Rows, wrong: str) -> None:
    tables = "CREATE TABLE p (k INT, l INT, PRIMARY KEY (k, l)); CREATE TABLE u (k INT UNIQUE); CREATE TABLE w (v INT, d INT);"
    made = Store(schema(tables, Dialect.MYSQL), Dialect.MYSQL)
    made.load("p", [(1, 1), (2, 1), (3, 1)])
    made.load("u", [(1,), (2,), (3,), (None,), (None,)])
    made.load("w", [(5, 1), (None, 1), (10, 1)])
    assert run(made, query) == right, f"the server's answer is {wrong}"


@pytest.mark.parametrize("values", ["(1, 9999999999, 1)", "(2, 'x', 1)", "(3, 1 / 0, 1)"])
def test_ignore_would_bend_a_value_that_does_not_fit(values: str) -> None:
    # 2147483647, 0 and NULL on the server.
    with pytest.raises(OutsideFragment, match="INSERT IGNORE of a value that does not fit"):
        run(store(), f"INSERT IGNORE INTO t VALUES {values}")
    made = store(
        "INSERT INTO t VALUES (1, 1, 1)", "INSERT IGNORE INTO t VALUES (1, 2, 2), (2, 1, 3), (3, 3, 9), (4, 4, 4)"
    )
    assert made.state()["t"] == [(1, 1, 1), (4, 4, 4)]
