"""Changes of several rows: what each database did with them, and what is left to the order in which it finds rows."""

from __future__ import annotations

from typing import Any

import pytest

from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.concrete import Store
from isolde.tx.dialects import Dialect
from isolde.tx.sql import program, schema, statement

PG, MY, LITE = Dialect
TABLES = """
    CREATE TABLE s (i INT PRIMARY KEY, a INT, b INT);
    CREATE TABLE t (u INT PRIMARY KEY, v INT UNIQUE, w INT);
"""
SOURCE, TARGET = [(1, 1, 10), (2, 1, 20), (3, 2, 30)], [(1, 100, 1), (5, 500, 5)]


def filled(dialect: Dialect) -> Store:
    store = Store(schema(TABLES, dialect), dialect)
    store.load("s", SOURCE)
    store.load("t", TARGET)
    return store


def after(store: Store, *texts: str) -> Any:
    """The last table as it is after the statements, or the kind of the error."""
    transaction = store.transaction()
    try:
        for text in texts:
            transaction.run(statement(text, store.dialect))
    except ExecutionError as error:
        transaction.rollback()
        return error.kind
    transaction.commit()
    return sorted(list(store.state().values())[-1])


def refused(store: Store, text: str) -> str:
    with pytest.raises(OutsideFragment) as caught:
        store.transaction().run(statement(text, store.dialect))
    return caught.value.what


@pytest.mark.parametrize("dialect", [PG, LITE])
def test_of_different_rows_with_one_key_the_order_says_which_is_kept(dialect: Dialect) -> None:
    keep = "INSERT INTO t SELECT a + 5, b, 0 FROM s WHERE i < 3 {} ON CONFLICT DO NOTHING"
    assert "different rows have one key" in refused(filled(dialect), keep.format(""))
    assert "different rows have one key" in refused(filled(dialect), keep.format("ORDER BY a"))
    assert after(filled(dialect), keep.format("ORDER BY i")) == [*TARGET, (6, 10, 0)]
    assert after(filled(dialect), keep.format("ORDER BY i DESC")) == [*TARGET, (6, 20, 0)]
    by_all = "INSERT INTO t SELECT a + 5, b, 0 FROM s WHERE i < 3 ORDER BY a + 5, b ON CONFLICT DO NOTHING"
    assert after(filled(dialect), by_all) == [*TARGET, (6, 10, 0)]


@pytest.mark.parametrize("dialect", [PG, LITE])
def test_rows_that_are_alike_need_no_order(dialect: Dialect) -> None:
    alike = "INSERT INTO t SELECT a + 5, 7, 0 FROM s WHERE i < 3 ON CONFLICT (u) DO NOTHING"
    assert after(filled(dialect), alike) == [*TARGET, (6, 7, 0)]


def test_the_last_of_different_rows_with_one_key_replaces_the_others() -> None:
    replace = "REPLACE INTO t SELECT a, b, 0 FROM s WHERE i < 3 {}"
    assert "different rows have one key" in refused(filled(LITE), replace.format(""))
    assert after(filled(LITE), replace.format("ORDER BY i")) == [(1, 20, 0), (5, 500, 5)]


def test_a_row_that_is_changed_by_several_rows_needs_their_order() -> None:
    change = "INSERT INTO t SELECT a, b, b FROM s WHERE i < 3 {} ON CONFLICT (u) DO UPDATE SET w = excluded.w WHERE excluded.w > {}"
    assert "different rows have one key" in refused(filled(PG), change.format("", 15))
    assert after(filled(PG), change.format("ORDER BY i", 15)) == [(1, 100, 20), (5, 500, 5)]
    assert after(filled(PG), change.format("ORDER BY i DESC", 15)) == "cardinality"
    assert "different rows have one key" in refused(filled(LITE), change.format("", 5))
    assert after(filled(LITE), change.format("ORDER BY i", 5)) == [(1, 100, 20), (5, 500, 5)]
    assert after(filled(LITE), change.format("ORDER BY i DESC", 5)) == [(1, 100, 10), (5, 500, 5)]


@pytest.mark.parametrize("dialect", [PG, LITE])
def test_keys_changed_by_a_conflict_need_an_order_where_rows_share_them(dialect: Dialect) -> None:
    change = "INSERT INTO t SELECT a * 4 - 3, b * {}, b FROM s WHERE i > 1 {} ON CONFLICT (u) DO UPDATE SET v = excluded.v + {}"
    assert "ON CONFLICT changes the key" in refused(filled(dialect), change.format(10, "", 100))
    assert after(filled(dialect), change.format(10, "ORDER BY i", 100)) == [(1, 300, 1), (5, 400, 5)]


@pytest.mark.parametrize("dialect", [PG, LITE])
def test_generated_ids_follow_the_order_of_the_query(dialect: Dialect) -> None:
    kind = "SERIAL" if dialect is PG else "INTEGER"
    store = Store(schema(f"{TABLES} CREATE TABLE g (id {kind} PRIMARY KEY, a INT);", dialect), dialect)
    store.load("s", SOURCE)
    assert "generated ids" in refused(store.copy(), "INSERT INTO g (a) SELECT b FROM s")
    assert after(store, "INSERT INTO g (a) SELECT 7 FROM s WHERE i < 3") == [(1, 7), (2, 7)]
    found = after(store, "INSERT INTO g (a) SELECT b FROM s ORDER BY i DESC")
    assert found == [(1, 7), (2, 7), (3, 30), (4, 20), (5, 10)]


@pytest.mark.parametrize("text", ["INSERT INTO g (a) SELECT a FROM g", "UPDATE g SET id = DEFAULT"])
def test_a_change_that_is_refused_for_its_ids_uses_up_none(text: str) -> None:
    store = Store(schema("CREATE TABLE g (id SERIAL PRIMARY KEY, a INT);", PG), PG)
    store.load("g", [(1, 10), (2, 20)])
    transaction = store.transaction()
    with pytest.raises(OutsideFragment, match="generated ids"):
        transaction.run(statement(text, PG))
    transaction.rollback()
    assert after(store, "INSERT INTO g (a) VALUES (30)") == [(1, 10), (2, 20), (3, 30)]


@pytest.mark.parametrize("dialect", [PG, LITE])
def test_what_a_conflict_sees_of_a_table_that_changes_is_refused(dialect: Dialect) -> None:
    count = "INSERT INTO t VALUES {} ON CONFLICT (u) DO UPDATE SET w = (SELECT count(*) FROM t)"
    assert after(filled(dialect), count.format("(1, 0, 0)")) == [(1, 100, 2), (5, 500, 5)]
    assert "query over the table" in refused(filled(dialect), count.format("(7, 1, 1), (1, 2, 2)"))
    assert "changed table" in refused(filled(dialect), "DELETE FROM t RETURNING (SELECT sum(w) FROM t)")
    other = statement("UPDATE t SET w = 0 WHERE u = 1 RETURNING (SELECT count(*) FROM s)", dialect)
    assert filled(dialect).transaction().run(other).rows == [(3,)]


SEEN = [
    ("UPDATE t SET w = (SELECT max(q.w) FROM t AS q WHERE q.u <> t.u)", [(1, 100, 5), (5, 500, 1)]),
    ("UPDATE t SET w = CASE WHEN u > 1 THEN (SELECT max(q.w) FROM t AS q) ELSE 100 END", [(1, 100, 100), (5, 500, 5)]),
    ("UPDATE t SET w = 9 WHERE u = 1 OR w > (SELECT avg(q.w) FROM t AS q)", [(1, 100, 9), (5, 500, 9)]),
    ("UPDATE t SET w = 9 WHERE EXISTS (SELECT * FROM t AS q WHERE q.u > t.u)", [(1, 100, 9), (5, 500, 5)]),
    ("DELETE FROM t WHERE u = 1 OR w = (SELECT min(q.w) FROM t AS q)", [(5, 500, 5)]),
    ("DELETE FROM t WHERE w IN (SELECT q.u FROM t AS q WHERE q.u > 0)", []),
]


@pytest.mark.parametrize(("text", "in_postgresql"), SEEN)
def test_a_change_in_sqlite_that_may_see_the_rows_that_it_has_changed_is_refused(text: str, in_postgresql: Any) -> None:
    assert after(filled(PG), text) == in_postgresql
    assert "with a query over the table that it changes" in refused(filled(LITE), text)


REPLACING = [
    ("REPLACE INTO t SELECT 1, NULL, 3", [(1, 7, 3)]),
    ("REPLACE INTO t VALUES (1, NULL, 3)", [(1, 7, 3)]),
    ("REPLACE INTO t SELECT 1, 2, NULL", "not-null"),
    ("REPLACE INTO t SELECT NULL, 2, 3", [(1, 2, 3)]),
    ("REPLACE INTO t (n, m) SELECT 2, 3", [(1, 2, 3)]),
    ("INSERT INTO t SELECT 1, NULL, 3", "not-null"),
]


@pytest.mark.parametrize(("text", "right"), REPLACING)
def test_replace_takes_the_default_for_a_null_but_never_for_a_row_number(text: str, right: Any) -> None:
    tables = "CREATE TABLE t (k INTEGER NOT NULL DEFAULT 40 PRIMARY KEY, n INT NOT NULL DEFAULT 7, m INT NOT NULL)"
    assert after(Store(schema(tables, LITE), LITE), text) == right


def test_replace_with_on_conflict_is_refused() -> None:
    assert (
        refused(filled(LITE), "REPLACE INTO t VALUES (1, 1, 1) ON CONFLICT (u) DO NOTHING")
        == "REPLACE with ON CONFLICT"
    )


# INSERT without a list of columns

DEFAULTS = {PG: "INSERT INTO t DEFAULT VALUES", MY: "INSERT INTO t () VALUES ()", LITE: "INSERT INTO t DEFAULT VALUES"}


@pytest.mark.parametrize("dialect", Dialect)
def test_an_insert_of_no_values_is_a_row_of_defaults(dialect: Dialect) -> None:
    store = Store(schema("CREATE TABLE t (a INT, b INT DEFAULT 7)", dialect), dialect)
    assert after(store, DEFAULTS[dialect]) == [(None, 7)]


def test_postgresql_takes_values_for_the_first_columns_alone() -> None:
    assert after(filled(PG), "INSERT INTO t VALUES (7, 700)", "DELETE FROM t WHERE u < 7") == [(7, 700, None)]
    assert after(filled(LITE), "INSERT INTO t VALUES (7, 700)") == "type"
    assert after(filled(MY), "INSERT INTO t VALUES (7, 700)") == "type"


# Rows that refer to themselves

TREE = "CREATE TABLE t (i INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES t (i))"
TREES = [
    ("DELETE FROM t", [], "foreign-key"),
    ("UPDATE t SET i = 2, p = 2", [(2, 2)], "foreign-key"),
    ("UPDATE t SET p = NULL", [(1, None)], [(1, None)]),
]


@pytest.mark.parametrize(("text", "others", "mysql"), TREES)
def test_a_row_that_refers_to_itself_stays_in_mysql(text: str, others: Any, mysql: Any) -> None:
    for dialect in Dialect:
        store = Store(schema(TREE, dialect), dialect)
        assert after(store, "INSERT INTO t VALUES (1, 1)", text) == (mysql if dialect is MY else others)


def test_mysql_ignores_rows_without_a_parent_but_not_those_that_are_their_own() -> None:
    store = Store(schema(TREE, MY), MY)
    text = "INSERT IGNORE INTO t VALUES (1, 1), (2, 3), (3, 3), (4, 1)"
    assert after(store, text) == [(1, 1), (3, 3), (4, 1)]


def test_mysqls_counter_follows_a_replace_that_fails_but_no_row_that_a_foreign_key_forbids() -> None:
    table = "CREATE TABLE t (i INT AUTO_INCREMENT PRIMARY KEY, a INT UNIQUE, p INT, FOREIGN KEY (p) REFERENCES t (i))"
    store = Store(schema(table, MY), MY)
    assert after(store, "INSERT INTO t VALUES (8, 1, 4), (9, 2, 4)") == "foreign-key"
    assert after(store, "INSERT INTO t (a, p) VALUES (6, 1)") == [(1, 6, 1)]
    assert after(store, "REPLACE INTO t VALUES (9, 6, NULL)") == "foreign-key"
    assert after(store, "INSERT INTO t (a) VALUES (7)") == [(1, 6, 1), (10, 7, None)]


def test_mysqls_counter_follows_an_insert_select_that_finds_its_key_taken() -> None:
    table = "CREATE TABLE t (i INT AUTO_INCREMENT PRIMARY KEY, a INT UNIQUE)"
    store = Store(schema(table, MY), MY)
    assert after(store, "INSERT INTO t VALUES (4, 1)") == [(4, 1)]
    assert after(store, "INSERT INTO t SELECT i + 3, a FROM t") == "unique"
    assert after(store, "INSERT INTO t (a) VALUES (2)") == [(4, 1), (8, 2)]


def test_mysql_ignores_a_row_that_a_check_forbids_only_among_others() -> None:
    table = "CREATE TABLE t (i INT PRIMARY KEY, a INT, CHECK (a < 5))"
    for text, found in (("(1, 9)", "check"), ("(2, 9), (3, 1)", [(3, 1)])):
        assert after(Store(schema(table, MY), MY), f"INSERT IGNORE INTO t VALUES {text}") == found


@pytest.mark.parametrize("dialect", list(Dialect))
def test_a_cut_through_rows_in_an_open_order_is_refused(dialect: Dialect) -> None:
    store = filled(dialect)

    def rows(text: str) -> Any:
        with store.transaction() as transaction:
            return transaction.run(statement(text, dialect)).rows

    for text in (
        "SELECT b FROM s LIMIT 1",
        "SELECT b FROM s ORDER BY a LIMIT 1",
        "SELECT b FROM s ORDER BY a LIMIT 1 OFFSET 1",
        "SELECT b FROM s WHERE b = (SELECT x.b FROM s AS x WHERE x.a = 1 LIMIT 1)",
    ):
        with pytest.raises(OutsideFragment, match="cuts rows in an open order"):
            rows(text)
    assert rows("SELECT a FROM s WHERE a = 1 LIMIT 1") == [(1,)]
    assert rows("SELECT b FROM s ORDER BY a LIMIT 2 OFFSET 2") == [(30,)]
    assert rows("SELECT b FROM s ORDER BY a, b LIMIT 1") == [(10,)]
    assert rows("SELECT 1 FROM t WHERE u = 1 AND EXISTS (SELECT b FROM s LIMIT 1)") == [(1,)]


def test_the_first_of_several_rows_is_refused_where_their_order_is_open() -> None:
    text = """
    CREATE FUNCTION p(x INT) RETURNS INT AS $$ DECLARE r INT; BEGIN
        SELECT b INTO r FROM s WHERE a = x {}; RETURN r;
    END $$ LANGUAGE plpgsql;
    """
    orders = (
        ("", None),
        ("LIMIT 5", None),
        ("LIMIT x + 4", None),
        ("ORDER BY a LIMIT NULL", None),
        ("ORDER BY b DESC", 20),
        ("ORDER BY b DESC LIMIT 5", 20),
        ("ORDER BY b LIMIT x + 4", 10),
    )
    for order, outcome in orders:
        store, found = filled(PG), program(TABLES + text.format(order), PG)
        if outcome is None:
            with pytest.raises(OutsideFragment, match="cuts rows in an open order"):
                store.call(found, "p", (1,))
        else:
            assert store.call(found, "p", (1,)).values == (outcome,)
        assert store.call(found, "p", (2,)).values == (30,)
