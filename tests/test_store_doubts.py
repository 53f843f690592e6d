"""Conditions that fail on some rows: the store fails where every plan does, runs where none does, and refuses the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from differential.databases import Failed, Real
from differential.test_agreement_with_databases import connected
from isolde.databases.servers import Running
from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.concrete import Store
from isolde.tx.dialects import Dialect
from isolde.tx.sql import schema, statement

TABLES = """
    CREATE TABLE t (i INT PRIMARY KEY, x INT, y INT NOT NULL);
    CREATE TABLE u (k INT PRIMARY KEY, x INT, j INT);
    CREATE TABLE none (n INT PRIMARY KEY, x INT)
"""
ROWS: dict[str, list[tuple[int | None, ...]]] = {
    "t": [(1, 0, 1), (2, 1, 2), (3, 2, 0), (4, None, 1)],
    "u": [(1, 0, 5), (2, 2, 6), (3, 2, 7)],
}

CERTAIN = [
    # A row passes all other conditions, or there are none.
    "SELECT i FROM t WHERE 10 / x > 1",
    "SELECT i FROM t WHERE 10 / x > 1 AND i = 1",
    "SELECT i FROM t WHERE 10 / y > 1 AND 10 % x > 0 AND i = 1",
    "SELECT t.i FROM t JOIN u ON t.i = u.k WHERE 10 / (t.x + u.x) > 0",
    "SELECT t.i FROM t LEFT JOIN none ON t.i = n WHERE 10 / t.x > 0",
    "UPDATE t SET y = 1 WHERE 10 / x > 1",
    "DELETE FROM t WHERE 10 / x > 1 AND i < 3",
    # What is cheaper is tested first, wherever it stands.
    "SELECT i FROM t WHERE x <> 0 AND 10 / x > 1",
    "SELECT i FROM t WHERE 10 / x > 1 AND x <> 0",
    "SELECT i FROM t WHERE 10 / x > 1 AND x > 0 AND i = 2",
    "SELECT i FROM t WHERE NOT (10 / x > 5 OR x = 0)",
    "SELECT i FROM t WHERE y BETWEEN 10 / x AND 5 AND x > 0",
    "SELECT t.i FROM t JOIN u ON t.i = u.k WHERE 10 / (t.i - u.k + 1) > 0",
    "UPDATE t SET y = 1 WHERE 10 / x > 1 AND x <> 0",
    "DELETE FROM t WHERE x <> 0 AND 10 / x > 1",
    # Inside of an expression the order is the written one.
    "SELECT i FROM t WHERE CASE WHEN x <> 0 THEN 10 / x > 1 END",
    "SELECT i FROM t WHERE x = 0 OR 10 / x > 1",
    "SELECT i FROM t WHERE 10 / x > 1 OR x = 0",
    "SELECT i, x <> 0 AND 10 / x > 1 FROM t",
    "SELECT i, 10 / x > 1 AND x <> 0 FROM t",
    "SELECT i, (10 / x) + y FROM t",
    # Nothing is computed of what cannot be true.
    "SELECT i FROM t WHERE 10 / x > 1 AND 1 = 2",
    "SELECT i FROM t WHERE 10 / x > NULL",
    "SELECT i FROM t WHERE (SELECT j FROM u) + NULL > 1 OR i = 1",
    "SELECT x, SUM(10 / x) FROM t GROUP BY x HAVING COUNT(*) = NULL",
    # Conditions without columns come before all rows.
    "SELECT n FROM none WHERE 5 > (SELECT j FROM u)",
    "SELECT n FROM none WHERE 5 > (SELECT 10 / COUNT(*) FROM none)",
    # Aggregates come before HAVING, and what HAVING asks of a row before them.
    "SELECT y, SUM(10 / x) FROM t GROUP BY y HAVING COUNT(*) > 5",
    "SELECT x, SUM(10 / x) FROM t GROUP BY x HAVING x > 0",
    # IN does not look at its operand if there are no rows.
    "SELECT i FROM t WHERE 10 / x NOT IN (SELECT n FROM none)",
    "SELECT i, 10 / x IN (SELECT n FROM none) FROM t",
    "SELECT i FROM t WHERE 99 IN (SELECT 10 / x FROM u)",
    "SELECT i FROM t WHERE EXISTS (SELECT 1 FROM u WHERE 10 / x > 99)",
    # All rows are within the limit, or the one that fails is.
    "SELECT 10 / x FROM t ORDER BY i LIMIT 9",
    "SELECT 10 / x FROM t ORDER BY i LIMIT 1",
    "SELECT i FROM t WHERE 10 / x > 1 ORDER BY i LIMIT 9",
    "SELECT MAX(i) FROM t WHERE 10 / x > 99",
    "SELECT z.i FROM (SELECT i, x FROM t WHERE 10 / x > 1) AS z",
]
OPEN = [
    "SELECT t.i FROM t CROSS JOIN none WHERE 10 / t.x > 1",
    "SELECT i FROM t WHERE 10 / x > 1 AND x * 3 - 2 > 0",
    "SELECT i FROM t WHERE 10 / x > 1 AND i IN (SELECT n FROM none)",
    "SELECT i FROM t WHERE (SELECT j FROM u WHERE u.x = t.x) > 1 AND i = 1",
    "SELECT i FROM t WHERE i = 99 AND EXISTS (SELECT 1 FROM u WHERE u.k = t.y AND 10 / u.x > 0)",
    "SELECT i FROM t WHERE EXISTS (SELECT 1 FROM u WHERE 10 / x > 0)",
    "SELECT i FROM t WHERE 5 IN (SELECT 10 / x FROM u)",
    "SELECT i FROM t WHERE 10 / x IN (SELECT n FROM none)",
    "SELECT t.i FROM t LEFT JOIN u ON 10 / t.x = u.k",
    "SELECT 10 / x FROM t ORDER BY i DESC LIMIT 1",
    "SELECT i FROM t WHERE 10 / x > 1 ORDER BY i LIMIT 1",
    "SELECT MAX(i) FROM t WHERE 10 / x > 1",
    "SELECT z.i FROM (SELECT i, x FROM t WHERE 10 / x > 1) AS z WHERE z.i = 2",
    "SELECT z.i FROM (SELECT i, x FROM t WHERE x + 0 > 0) AS z WHERE 10 / z.x > 1",
    "UPDATE t SET y = 1 WHERE 10 / x > 1 AND x + 0 > 0",
    "DELETE FROM t WHERE 10 / x > 1 AND i IN (SELECT n FROM none)",
]
MARIADB = [
    "SELECT i FROM t WHERE 9223372036854775806 + y > 0",
    "SELECT i FROM t WHERE i = 1 AND 9223372036854775806 + y > 0",
    "SELECT i FROM t WHERE (SELECT j FROM u) > 0",
    "SELECT i, (SELECT j FROM u) FROM t",
    "SELECT i FROM t WHERE y BETWEEN 9 AND 9223372036854775806 + y",
    "INSERT INTO t VALUES (9, 10 % 0 + NULL, 1)",
    "INSERT INTO t VALUES (9, CAST(123 AS CHAR(2)), 1)",
    "UPDATE t SET y = CAST('123' AS CHAR(2))",
]
MARIADB_OPEN = [
    "SELECT i, (SELECT j FROM u) FROM t WHERE i = 99",
    "SELECT i FROM t WHERE 9223372036854775806 + y > 0 AND x = 0",
    "DELETE FROM none WHERE (SELECT j FROM u) > 0",
]


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def real(request: pytest.FixtureRequest, server: Callable[[str], Running]) -> Iterator[Real]:
    with closing(connected(request.param, server(request.param))) as real:
        real.reset(schema(TABLES, real.dialect))
        for table, rows in ROWS.items():
            for row in rows:
                real.execute(f"INSERT INTO {table} VALUES {row}".replace("None", "NULL"))
        real.end(keep=True)
        yield real


def run(text: str, dialect: Dialect) -> Any:
    store = Store(schema(TABLES, dialect), dialect)
    for table, rows in ROWS.items():
        store.load(table, rows)
    return store.transaction().run(statement(text, dialect))


def test_the_store_fails_where_every_plan_does_and_runs_where_none_does(real: Real) -> None:
    for text in CERTAIN if real.dialect is Dialect.POSTGRESQL else MARIADB:
        wanted: Any
        found: Any
        try:
            rows, count = real.execute(text)
            wanted = (sorted(map(repr, rows)), count if not text.startswith("SELECT") else None)
        except Failed as failure:
            wanted = failure.kind
        real.end(keep=False)
        try:
            result = run(text, real.dialect)
            found = (sorted(map(repr, result.rows)), result.count if not text.startswith("SELECT") else None)
        except ExecutionError as error:
            found = error.kind
        assert found == wanted, text


@pytest.mark.parametrize(
    ("dialect", "text"),
    [*((Dialect.POSTGRESQL, text) for text in OPEN), *((Dialect.MYSQL, text) for text in MARIADB_OPEN)],
)
def test_an_error_that_some_plans_meet_is_refused(dialect: Dialect, text: str) -> None:
    with pytest.raises(OutsideFragment, match="that the plan may leave out"):
        run(text, dialect)
