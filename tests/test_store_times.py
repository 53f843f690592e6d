"""Times: what a text means as one, how many digits of a second are kept, and what it is as a text."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from differential.databases import Failed, Real
from differential.test_agreement_with_databases import connected
from isolde.databases.servers import Running
from isolde.errors import ExecutionError, InputError, OutsideFragment
from isolde.semantics.concrete import Store
from isolde.tx.dialects import Dialect
from isolde.tx.render import render_schema
from isolde.tx.render.types import column_type
from isolde.tx.sql import program, schema, statement

PG, MY, LITE = Dialect
NOON = datetime(2024, 1, 31, 12, 0, 0)


def rows(store: Store, *texts: str) -> list[tuple[Any, ...]]:
    """What the last of the statements gives."""
    with store.transaction() as transaction:
        return [transaction.run(statement(text, store.dialect)).rows for text in texts][-1]


def stored(type_: str, text: str, dialect: Dialect) -> list[tuple[Any, ...]]:
    store = Store(schema(f"CREATE TABLE t (m {type_})", dialect), dialect)
    return rows(store, f"INSERT INTO t VALUES ('{text}')", "SELECT m FROM t")


KEPT = [
    (PG, "TIMESTAMP", "2024-01-31 12:00:00.1234567", NOON.replace(microsecond=123457)),
    (PG, "TIMESTAMP(2)", "2024-01-31 12:00:00.125", NOON.replace(microsecond=130000)),
    (PG, "TIMESTAMP(0)", "2024-01-31 12:00:00.5", NOON.replace(second=1)),
    (MY, "DATETIME", "2024-01-31 12:00:00.9", NOON),
    (MY, "DATETIME(3)", "2024-01-31 12:00:00.1239", NOON.replace(microsecond=123000)),
    (MY, "DATETIME(6)", "2024-01-31 12:00:00.1234567", NOON.replace(microsecond=123456)),
    (LITE, "TIMESTAMP", "2024-01-31 12:00", "2024-01-31 12:00"),
]


@pytest.mark.parametrize(("dialect", "type_", "text", "kept"), KEPT)
def test_postgresql_rounds_seconds_to_the_columns_digits_and_mysql_cuts_them_off(
    dialect: Dialect, type_: str, text: str, kept: object
) -> None:
    assert stored(type_, text, dialect) == [(kept,)]


@pytest.mark.parametrize(("dialect", "type_"), [(PG, "TIMESTAMP"), (MY, "DATETIME")])
def test_days_that_the_calendar_lacks_are_errors_and_other_forms_are_refused(dialect: Dialect, type_: str) -> None:
    assert stored(type_, " 2024-1-31 12:00 ", dialect) == [(NOON,)]
    for text in ("2023-02-29", "2024-13-01 00:00:00", "2024-01-31 25:00:00", ""):
        with pytest.raises(ExecutionError) as failure:
            stored(type_, text, dialect)
        assert failure.value.kind == "conversion"
    for text in ("20240131", "2024-W05-3", "2024-01-31 12", "2024-00-00", "2024-01-31 24:00:00", "today", "24-1-31"):
        with pytest.raises(OutsideFragment):
            stored(type_, text, dialect)


def test_mysql_shows_a_time_with_its_columns_digits_and_as_a_text_beside_a_text() -> None:
    store = Store(schema("CREATE TABLE t (a DATETIME, b DATETIME(3))", MY), MY)
    rows(store, "INSERT INTO t VALUES ('2024-01-31 12:00', '2024-01-31 12:00:00.5')")
    shown = rows(store, "SELECT CONCAT(a), CAST(b AS CHAR), COALESCE(a, 'never'), COALESCE(a, b) FROM t")
    assert shown == [("2024-01-31 12:00:00", "2024-01-31 12:00:00.500", "2024-01-31 12:00:00", NOON)]
    cast = "SELECT CAST(b AS DATETIME), CAST('2024-01-31 12:00:00.77' AS DATETIME(1)) FROM t"
    assert rows(store, cast) == [(NOON, NOON.replace(microsecond=700000))]


def test_mysqls_now_has_whole_seconds() -> None:
    store = Store(schema("", MY), MY, clock=lambda: NOON.replace(microsecond=5))
    assert rows(store, "SELECT NOW()") == [(NOON,)]


def test_postgresqls_now_has_a_zone_which_is_utc() -> None:
    store = Store(schema("CREATE TABLE t (m TIMESTAMP)", PG), PG, clock=lambda: NOON)
    rows(store, "INSERT INTO t VALUES (NOW())")
    for time in ("NOW()", "COALESCE(m, NOW())", "CASE WHEN m IS NULL THEN m ELSE NOW() END"):
        assert rows(store, f"SELECT {time}, CAST({time} AS TEXT) FROM t") == [
            (NOON.replace(tzinfo=UTC), "2024-01-31 12:00:00+00")
        ]
        assert rows(store, f"SELECT CAST(CAST({time} AS TIMESTAMP) AS TEXT) FROM t") == [("2024-01-31 12:00:00",)]


def test_mysql_refuses_to_store_a_time_as_a_number() -> None:
    store = Store(schema("CREATE TABLE t (d DECIMAL(8, 2), f DOUBLE)", MY), MY)
    for column in ("d", "f"):
        with pytest.raises(OutsideFragment, match="a time stored as a number"):
            rows(store, f"INSERT INTO t ({column}) VALUES (NOW())")


@pytest.mark.parametrize(
    ("dialect", "type_", "written"),
    [
        (MY, "DATETIME", {MY: "DATETIME", PG: "TIMESTAMP(0)", LITE: "TIMESTAMP"}),
        (MY, "DATETIME(6)", {MY: "DATETIME(6)", PG: "TIMESTAMP", LITE: "TIMESTAMP"}),
        (PG, "TIMESTAMP", {MY: "DATETIME(6)", PG: "TIMESTAMP", LITE: "TIMESTAMP"}),
        (PG, "TIMESTAMP(3)", {MY: "DATETIME(3)", PG: "TIMESTAMP(3)", LITE: "TIMESTAMP"}),
    ],
)
def test_a_times_digits_are_read_and_written(dialect: Dialect, type_: str, written: dict[Dialect, str]) -> None:
    column = schema(f"CREATE TABLE t (m {type_})", dialect).tables["t"].columns[0]
    assert {other: column_type(column.type, other) for other in Dialect} == written


MOMENTS = ["1969-12-31 11:00:00", "1960-01-01 00:00:00", "2038-01-20 00:00:00", "9999-12-31 00:00:00", "1970-01-03 00:00:00",
           "2038-01-18 00:00:00.9", "2024-01-31 12:00:00", "2024-02-30 00:00:00"]  # fmt: skip


def test_mysqls_timestamp_holds_what_the_server_holds(server: Callable[[str], Running]) -> None:
    tables = schema("CREATE TABLE t (m TIMESTAMP NULL, n TIMESTAMP(3) NULL DEFAULT CURRENT_TIMESTAMP, d DATETIME)", MY)
    assert render_schema(tables, MY)[0].startswith("CREATE TABLE t (m TIMESTAMP NULL, n TIMESTAMP(3) NULL DEFAULT")
    store = Store(tables, MY)
    with closing(connected("mariadb", server("mariadb"))) as real:
        real.execute("DROP TABLE IF EXISTS t")
        for text in render_schema(tables, MY):
            real.execute(text)
        for moment in MOMENTS:
            for change in (
                f"INSERT INTO t (m) VALUES ('{moment}')",
                f"INSERT INTO t (n) VALUES ('{moment}')",
                f"INSERT INTO t (d) VALUES ('{moment}')",
                "UPDATE t SET m = d WHERE m IS NULL AND d IS NOT NULL",
                "DELETE FROM t WHERE m < '1960-01-02 00:00:00'",
            ):
                assert _kind(partial(real.execute, change)) == _kind(partial(rows, store, change)), change
            for column in ("m", "d"):
                text = f"SELECT {column} FROM t ORDER BY {column}"
                assert real.execute(text)[0] == rows(store, text)


def _kind(run: Callable[[], object]) -> str:
    try:
        run()
    except (ExecutionError, Failed) as error:
        return error.kind
    return ""


@pytest.mark.parametrize(
    "moment", ["1970-01-01 00:00:01", "1969-12-31 23:00:00", "2038-01-19 03:14:07", "2038-01-19 12:00:00"]
)
def test_a_timestamp_of_mysql_that_only_some_time_zones_have_is_refused(moment: str) -> None:
    with pytest.raises(OutsideFragment, match="which some time zones have"):
        stored("TIMESTAMP", moment, MY)
    assert stored("DATETIME", moment, MY)
    assert stored("TIMESTAMP", moment, PG)


def test_a_variable_may_be_a_timestamp_of_mysql() -> None:
    text = "CREATE PROCEDURE p(x DATETIME) BEGIN DECLARE v TIMESTAMP; SET v = x; END"
    found = program(text, MY)
    store = Store(found.schema, MY)
    store.call(found, "p", (NOON,))
    with pytest.raises(ExecutionError, match="for a TIMESTAMP"):
        store.call(found, "p", (datetime(1960, 1, 1),))


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("TIMESTAMP '2024-01-31 12:00:00'", "2024-01-31 12:00:00"),
        ("TIMESTAMP '2024-01-31 12:00:00.5'", "2024-01-31 12:00:00.5"),
        ("TIMESTAMP '2024-01-31 12:00:00.123456'", "2024-01-31 12:00:00.123456"),
        ("CAST('2024-01-31 12:00:00.5' AS DATETIME)", "2024-01-31 12:00:00"),
    ],
)
def test_mysqls_literal_of_a_time_has_the_digits_that_are_written(written: str, text: str) -> None:
    store = Store(schema("CREATE TABLE t (m DATETIME)", MY), MY)
    assert rows(store, f"SELECT {written}, CONCAT({written})") == [(datetime.fromisoformat(text), text)]


# Of all kinds of times: literals, texts for columns, comparisons across the kinds, order, extremes, keys.
TIMES_TABLES = {
    PG: "CREATE TABLE t (d DATE PRIMARY KEY, m TIMESTAMP, z TIMESTAMP WITH TIME ZONE, y TIMESTAMPTZ(0) UNIQUE)",
    MY: "CREATE TABLE t (d DATE PRIMARY KEY, m DATETIME, z TIMESTAMP NULL, y DATE DEFAULT '2026-03-04')",
}
TIMES_BOTH = [
    "INSERT INTO t (d, m, z) VALUES ('2026-01-01', '2026-01-01', '2026-01-01 10:00:00')",
    "INSERT INTO t (d, m, z) VALUES (' 2026-1-2 ', DATE '2026-01-01', TIMESTAMP '2026-01-02 11:00:00')",
    "INSERT INTO t (d, m, z) VALUES (TIMESTAMP '2026-01-03 13:00:00', '2026-01-01 09:00:00', DATE '2026-01-02')",
    "INSERT INTO t (d) VALUES ('2026-01-02 10:00:00')",
    "INSERT INTO t (d) VALUES (TIMESTAMP '2026-01-01 10:00:00')",
    *(f"INSERT INTO t (d) VALUES ('{text}')" for text in ("2026-02-30", "", "2026-01-05 25:00:00", "2026-13-01")),
    "UPDATE t SET m = d WHERE d >= '2026-01-03'",
    "UPDATE t SET d = m WHERE d = DATE '2026-01-02'",
    "UPDATE t SET z = d WHERE z IS NULL",
    "SELECT d, m, z FROM t ORDER BY d",
    "SELECT d FROM t ORDER BY m DESC, d",
    "SELECT MIN(d), MAX(d), MIN(m), MAX(z), COUNT(DISTINCT m) FROM t",
    "SELECT m, COUNT(*) FROM t GROUP BY m ORDER BY m",
    "SELECT d FROM t WHERE d = '2026-01-03'",
    "SELECT d FROM t WHERE d IN ('2026-01-01', '2026-01-03') ORDER BY d",
    "SELECT d FROM t WHERE d BETWEEN '2026-01-02' AND '2026-01-09' ORDER BY d",
    "SELECT d FROM t WHERE d < TIMESTAMP '2026-01-03 00:00:01' ORDER BY d",
    "SELECT d FROM t WHERE m = DATE '2026-01-01' ORDER BY d",
    "SELECT d FROM t WHERE d = m ORDER BY d",
    "SELECT d FROM t WHERE m < z ORDER BY d",
    "SELECT COALESCE(d, m), NULLIF(d, m), GREATEST(d, m), CASE WHEN d < m THEN d ELSE m END FROM t ORDER BY d",
    "SELECT CAST('2026-01-01 12:00:00' AS DATE), CAST(m AS DATE), CAST(d AS CHAR(10)), CONCAT(d, '!') FROM t ORDER BY d",
    "DELETE FROM t WHERE d <= '2026-01-01'",
    "SELECT d FROM t ORDER BY d",
]
TIMES_OF_ONE = {
    PG: [
        "INSERT INTO t VALUES ('2026-05-01', '2026-05-01 12:00+02', '2026-05-01 12:00+02', '2026-05-01T12:00:00.6Z')",
        "INSERT INTO t VALUES ('2026-05-02', NULL, '2026-05-01 12:00 -01:30', '2026-05-01 14:00:01.4+0200')",
        "INSERT INTO t VALUES ('2026-05-03', NULL, '2026-05-01 12:00 UTC', timestamp '2026-05-01 14:00:01.4')",
        "SELECT *, z::text, z::date, z::timestamp FROM t ORDER BY d",
        "SELECT d FROM t WHERE z = '2026-05-01 10:00' OR z = timestamptz '2026-05-01 13:30+00' ORDER BY d",
        "SELECT d, z > m, z > d, d = z::date, coalesce(m, z) FROM t ORDER BY d",
        "SELECT max(z), min(y) FROM t",
        "SELECT d || 'x', concat(d, z) FROM t ORDER BY d",
        "SELECT d = 1 FROM t",
        "SELECT d::int FROM t",
        "SELECT sum(d) FROM t",
        "INSERT INTO t (d) VALUES (1)",
    ],
    MY: [
        "SELECT y, d < '2026-01-02 10:00:00', d = '2026-01-03 10:00:00' FROM t ORDER BY d",
        "UPDATE t SET y = '2026-02-31'",
        "SELECT DATE '2026-02-28' < m FROM t ORDER BY d",
        "INSERT INTO t (d, z) VALUES ('2026-05-01', DATE '1960-01-01')",
    ],
}


@pytest.mark.parametrize(("dialect", "kind"), [(PG, "postgresql"), (MY, "mariadb")])
def test_dates_and_times_mean_what_the_server_means(
    dialect: Dialect, kind: str, server: Callable[[str], Running]
) -> None:
    tables = schema(TIMES_TABLES[dialect], dialect)
    store = Store(tables, dialect)
    with closing(connected(kind, server(kind))) as real:
        for text in ("DROP TABLE IF EXISTS t", *render_schema(tables, dialect)):
            real.execute(text)
        real.execute("SET TIME ZONE 'UTC'" if dialect is PG else "SET time_zone = '+00:00'")
        real.end(keep=True)
        for text in (*TIMES_BOTH, *TIMES_OF_ONE[dialect]):
            told = _rows_or_kind(partial(_alone, real, text))
            assert told == _rows_or_kind(partial(rows, store, text)), text


def _alone(real: Real, text: str) -> list[tuple[Any, ...]]:
    """What a statement gives that is a transaction of its own."""
    keep = False
    try:
        found, _ = real.execute(text)
        keep = True
    finally:
        real.end(keep)
    return found


def _rows_or_kind(run: Callable[[], Any]) -> object:
    try:
        return run() or []
    except (ExecutionError, Failed) as error:
        return error.kind


@pytest.mark.parametrize("text", ["d + 1", "d - d", "m - m", "d + INTERVAL '1 day'", "CURRENT_DATE", "z - m"])
def test_arithmetic_with_times_is_refused_by_name(text: str) -> None:
    store = Store(schema(TIMES_TABLES[PG], PG), PG)
    with pytest.raises(OutsideFragment, match=r"difference of times|interval|CURRENT_DATE"):
        rows(store, f"SELECT {text} FROM t")


def test_sqlite_has_texts_for_dates() -> None:
    store = Store(schema("CREATE TABLE t (d DATE)", LITE), LITE)
    rows(store, "INSERT INTO t VALUES ('2026-01-01')")
    assert rows(store, "SELECT d, d < '2026-01-02' FROM t") == [("2026-01-01", 1)]
    with pytest.raises(InputError, match="DATE"):
        statement("SELECT DATE '2026-01-01'", LITE)
