"""What nobody asks for is not computed, where the database does not; where its plan decides, an error in it is refused.

In each dialect ``BAD`` is a computation that fails where z is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from differential.databases import Failed, Real, SQLite
from differential.test_agreement_with_databases import connected
from isolde.databases.servers import Running
from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.concrete import Store
from isolde.tx.dialects import Dialect
from isolde.tx.sql import schema, statement

TABLE = "CREATE TABLE t (i INT, z INT)"
ROWS = [(1, 0), (2, 0), (3, 1)]
BAD = {
    Dialect.POSTGRESQL: "1 / {}",
    Dialect.MYSQL: "9223372036854775807 + (1 - {})",
    Dialect.SQLITE: "ABS(-9223372036854775807 - (1 - {}))",
}
ALIKE = [
    "SELECT a FROM (SELECT i AS a, BAD AS b FROM t) AS x",
    "SELECT COUNT(*) FROM (SELECT i AS a, BAD AS b FROM t) AS x",
    "SELECT a FROM (SELECT DISTINCT i AS a, BAD AS b FROM t) AS x",
    "SELECT a FROM (SELECT i AS a, BAD AS b FROM t GROUP BY i, BAD) AS x",
    "SELECT a FROM (SELECT i AS a, (SELECT BAD FROM t AS y) AS b FROM t) AS x",
    "SELECT x.a FROM (SELECT i AS a, BAD AS b FROM t) AS x WHERE x.b > 0",
    "SELECT x.a, CASE WHEN x.a = 3 THEN x.b END FROM (SELECT i AS a, BAD AS b FROM t) AS x",
    "SELECT x.b FROM (SELECT i AS a, BAD AS b FROM t) AS x WHERE x.a = 3",
    "SELECT x.b FROM (SELECT i AS a, BAD AS b FROM t) AS x WHERE x.a = 2",
    "SELECT * FROM (SELECT i AS a, BAD AS b FROM t) AS x",
    "SELECT x.* FROM (SELECT i AS a, BAD AS b FROM t) AS x WHERE a > 2",
    "SELECT MAX(x.b) FROM (SELECT i AS a, BAD AS b FROM t) AS x",
    "SELECT x.a, (SELECT COUNT(*) FROM t AS y WHERE y.i = x.b) FROM (SELECT i AS a, BAD AS b FROM t) AS x WHERE a = 3",
    "SELECT (SELECT a FROM (SELECT i AS a, BAD AS b FROM t) AS x ORDER BY a LIMIT 1)",
    "SELECT a FROM (SELECT a, b FROM (SELECT i AS a, BAD AS b FROM t) AS x) AS y",
    "SELECT CASE WHEN a = 3 THEN b END FROM (SELECT a, b FROM (SELECT i AS a, BAD AS b FROM t) AS x) AS y",
    "SELECT a FROM (SELECT a, b FROM (SELECT DISTINCT i AS a, BAD AS b FROM t) AS x LIMIT 3) AS y",
    "SELECT i FROM t WHERE i IN (SELECT a FROM (SELECT i AS a, BAD AS b FROM t) AS x)",
    "SELECT i FROM t WHERE i IN (SELECT DISTINCT i FROM t AS y ORDER BY i)",
    "SELECT i FROM t WHERE EXISTS (SELECT BAD FROM t)",
    "SELECT i FROM t WHERE EXISTS (SELECT DISTINCT BAD FROM t)",
    "SELECT i FROM t WHERE EXISTS (SELECT BAD FROM t LIMIT 1)",
    "SELECT i FROM t WHERE EXISTS (SELECT BAD FROM t LIMIT 5)",
    "SELECT i FROM t WHERE EXISTS (SELECT BAD FROM t ORDER BY i LIMIT 1)",
    "SELECT i FROM t WHERE EXISTS (SELECT BAD FROM t ORDER BY BAD)",
    "SELECT i FROM t WHERE EXISTS (SELECT i FROM t GROUP BY i HAVING SUM(BAD) > 0)",
    "SELECT i FROM t AS q WHERE EXISTS (SELECT BAD FROM t WHERE t.i = q.i)",
    "SELECT i FROM t AS q WHERE EXISTS (SELECT i, BAD FROM t WHERE t.i = q.i GROUP BY i, BAD)",
    "SELECT i FROM t AS q WHERE EXISTS (SELECT missing FROM t)",
    "SELECT i FROM t AS q WHERE EXISTS (SELECT i FROM t GROUP BY missing)",
    "SELECT i FROM t AS q WHERE EXISTS (SELECT i FROM t ORDER BY missing)",
    "SELECT i FROM t AS q WHERE NOT EXISTS (SELECT BAD FROM t WHERE t.i = q.i)",
    "SELECT EXISTS (SELECT BAD FROM t)",
    "SELECT EXISTS (SELECT a, b FROM (SELECT i AS a, BAD AS b FROM t) AS x)",
    "SELECT a FROM (SELECT missing, i AS a FROM t) AS x",
]
# What is read through several queries, and under names that nobody wrote.
READ = [
    "SELECT y.a, y.b FROM (SELECT x.a, x.b FROM (SELECT i AS a, z AS b FROM t) AS x) AS y",
    "SELECT y.c FROM (SELECT COUNT(b) AS c FROM (SELECT i AS a, z AS b FROM t) AS x) AS y",
    "SELECT y.a FROM (SELECT a FROM (SELECT i AS a, z AS b FROM t) AS x WHERE b = 0) AS y",
    "SELECT y.a FROM (SELECT a FROM (SELECT i AS a, z AS b FROM t) AS x ORDER BY b DESC, a LIMIT 1) AS y",
    "SELECT y.a FROM (SELECT a, b AS c FROM (SELECT i AS a, z AS b FROM t) AS x ORDER BY c DESC, a LIMIT 1) AS y",
    "SELECT y.a FROM (SELECT a, b FROM (SELECT i AS a, z AS b FROM t) AS x ORDER BY 2 DESC, 1 LIMIT 1) AS y",
    "SELECT y.c FROM (SELECT COUNT(*) AS c FROM (SELECT i AS a, z AS b FROM t) AS x GROUP BY b) AS y",
    "SELECT y.b FROM (SELECT DISTINCT a, b FROM (SELECT i AS a, z AS b FROM t) AS x) AS y",
    "SELECT i FROM t WHERE EXISTS (SELECT 1 FROM (SELECT i AS a, z AS b FROM t AS u) AS x WHERE x.b = t.i)",
    "SELECT x.a FROM (SELECT i AS a, z AS b FROM t) AS x WHERE EXISTS (SELECT 1 FROM t WHERE i = x.b)",
    "SELECT x.a FROM (SELECT i AS a, z AS b FROM t) AS x JOIN t ON t.i = x.b",
    "SELECT x.a FROM (SELECT i AS a, z AS b FROM t) AS x LEFT JOIN (SELECT i AS c, z + 1 AS d FROM t) AS y ON y.d = b",
    "SELECT a FROM (SELECT i AS a, z AS b FROM t) AS x GROUP BY a HAVING MAX(b) = 1",
    "SELECT * FROM (SELECT * FROM (SELECT i AS a, z + 1 AS b FROM t) AS x) AS y",
]
NOT_SQLITE = [
    "SELECT a FROM (SELECT i AS a, BAD AS b FROM t ORDER BY i) AS x",
    "SELECT a FROM (SELECT i AS a, BAD AS b FROM t ORDER BY i LIMIT 1) AS x",
    "SELECT a FROM (SELECT i AS a, BAD AS b FROM t ORDER BY 2) AS x",
    "SELECT a FROM (SELECT i AS a, SUM(BAD) AS b FROM t GROUP BY i) AS x",
    "SELECT a FROM (SELECT i AS a, WORSE AS b FROM t GROUP BY i) AS x",
    "SELECT a FROM (SELECT COUNT(*) AS a, SUM(BAD) AS b FROM t) AS x",
    "SELECT a FROM (SELECT i AS a, BAD AS b FROM t LIMIT 9) AS x",
    "SELECT a FROM (SELECT i AS a, (SELECT BAD FROM t AS y) AS b FROM t LIMIT 5) AS x",
    "SELECT x.a FROM (SELECT i AS a, BAD AS b FROM t) AS x LEFT JOIN (SELECT i AS a, BAD AS b FROM t) AS y ON x.a = y.a",
    "SELECT x.a FROM t AS q LEFT JOIN (SELECT i AS a, BAD AS b FROM t) AS x ON x.a = q.i",
    "SELECT CASE WHEN x.a = 3 THEN x.b END FROM t AS q LEFT JOIN (SELECT i AS a, BAD AS b FROM t) AS x ON x.a = q.i",
    "SELECT x.a, CASE WHEN x.a = 3 THEN x.b END FROM (SELECT i AS a, BAD AS b FROM t LIMIT 10) AS x",
    "SELECT x.b FROM (SELECT i AS a, BAD AS b FROM t LIMIT 10) AS x WHERE x.a = 3",
    "SELECT a FROM (SELECT a, b FROM (SELECT i AS a, BAD AS b FROM t LIMIT 3) AS x) AS y",
    "SELECT a FROM (SELECT a, b FROM (SELECT i AS a, BAD AS b FROM t LIMIT 3) AS x LIMIT 3) AS y",
    "SELECT i FROM t WHERE i IN (SELECT i FROM t AS y GROUP BY i, BAD)",
    "SELECT i FROM t WHERE i IN (SELECT i FROM t AS y ORDER BY BAD)",
    "SELECT i FROM t WHERE EXISTS (SELECT SUM(BAD) FROM t)",
    "SELECT i FROM t WHERE EXISTS (SELECT i FROM t GROUP BY i ORDER BY SUM(BAD))",
]
NOT_POSTGRESQL = [
    "SELECT i FROM t WHERE EXISTS (SELECT BAD FROM t LIMIT 5 OFFSET 1)",
    "SELECT i FROM t WHERE EXISTS (SELECT BAD FROM t LIMIT 5 OFFSET 9)",
]
OPEN = [
    "SELECT x.b FROM (SELECT DISTINCT i AS a, BAD AS b FROM t) AS x WHERE x.a = 3",
    "SELECT x.s FROM (SELECT i AS a, SUM(BAD) AS s FROM t GROUP BY i) AS x WHERE x.a = 3",
    "SELECT i FROM t WHERE EXISTS (SELECT WORSE FROM t GROUP BY i)",
    "SELECT b FROM (SELECT a, b FROM (SELECT DISTINCT i AS a, BAD AS b FROM t) AS x) AS y WHERE a = 3",
    "SELECT i FROM t WHERE i = 3 AND i IN (SELECT a FROM (SELECT DISTINCT i AS a, BAD AS b FROM t) AS x)",
]


@pytest.fixture(scope="module", params=["sqlite", "postgresql", "mariadb"])
def real(request: pytest.FixtureRequest, server: Callable[[str], Running]) -> Iterator[Real]:
    real = SQLite() if request.param == "sqlite" else connected(request.param, server(request.param))
    with closing(real):
        real.reset(schema(TABLE, real.dialect))
        for row in ROWS:
            real.execute(f"INSERT INTO t VALUES {row}")
        real.end(keep=True)
        yield real


def store(dialect: Dialect) -> Store:
    made = Store(schema(TABLE, dialect), dialect)
    made.load("t", ROWS)
    return made


def spoken(text: str, dialect: Dialect) -> str:
    return text.replace("BAD", BAD[dialect].format("z")).replace("WORSE", BAD[dialect].format("MIN(z)"))


def run(text: str, dialect: Dialect) -> Any:
    with store(dialect).transaction() as transaction:
        return transaction.run(statement(text, dialect)).rows


def test_the_store_fails_where_the_database_does_and_only_there(real: Real) -> None:
    more = {
        Dialect.POSTGRESQL: NOT_SQLITE,
        Dialect.MYSQL: [*NOT_SQLITE, *NOT_POSTGRESQL],
        Dialect.SQLITE: NOT_POSTGRESQL,
    }
    for text in (*ALIKE, *READ, *more[real.dialect]):
        written = spoken(text, real.dialect)
        try:
            wanted: Any = sorted(map(repr, real.execute(written)[0]))
        except Failed as failure:
            wanted = failure.kind
            real.end(keep=False)
        try:
            found: Any = sorted(map(repr, run(written, real.dialect)))
        except ExecutionError as error:
            found = error.kind
        assert found == wanted, written


@pytest.mark.parametrize("text", OPEN)
@pytest.mark.parametrize("dialect", Dialect)
def test_an_error_that_the_plan_may_avoid_is_refused(dialect: Dialect, text: str) -> None:
    with pytest.raises(OutsideFragment, match="the plan may leave out"):
        run(spoken(text, dialect), dialect)


@pytest.mark.parametrize("text", NOT_SQLITE[:7])
def test_what_sqlite_leaves_out_depends_on_its_plan_and_version(text: str) -> None:
    with pytest.raises((OutsideFragment, ExecutionError)):
        run(spoken(text, Dialect.SQLITE), Dialect.SQLITE)


def test_mysql_takes_no_limit_in_a_query_after_in(real: Real) -> None:
    text = "SELECT i FROM t WHERE i IN (SELECT i FROM t ORDER BY i LIMIT 1)"
    if real.dialect is not Dialect.MYSQL:
        assert run(text, real.dialect) == real.execute(text)[0] == [(1,)]
        return
    with pytest.raises(Failed, match="1235"):
        real.execute(text)
    with pytest.raises(OutsideFragment, match="IN with a query that has a LIMIT"):
        run(text, real.dialect)


def test_a_column_without_a_name_is_read_by_the_one_that_it_has() -> None:
    text = "SELECT y.count FROM (SELECT COUNT(b) FROM (SELECT i AS a, z AS b FROM t) AS x) AS y"
    assert run(text, Dialect.POSTGRESQL) == [(3,)]


def test_a_query_in_from_does_not_see_the_query_around_it_in_mariadb(real: Real) -> None:
    inner = "SELECT COUNT(*) FROM (SELECT i FROM t AS u WHERE u.i = x.b) AS w"
    text = f"SELECT ({inner}) FROM (SELECT z + 1 AS b FROM t) AS x WHERE b = 2"
    if real.dialect is not Dialect.MYSQL:
        assert run(text, real.dialect) == real.execute(text)[0] == [(1,)]
        return
    with pytest.raises(Failed, match="name"):
        real.execute(text)
    with pytest.raises(OutsideFragment, match="a query in FROM with columns of a query around it"):
        run(text, real.dialect)
