"""What is read in a dialect is what its database reads: every form is tried on the real one.

The texts of ``spellings`` are forms that at least one database or sqlglot knows, one a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from differential.databases import Failed, Real, SQLite
from differential.test_agreement_with_databases import connected
from isolde.databases.servers import Running
from isolde.errors import MalformedProgram, OutsideFragment
from isolde.tx.dialects import Dialect
from isolde.tx.sql import schema, statement
from isolde.tx.sql.reserved import RESERVED

PG, MY, LITE = Dialect.POSTGRESQL, Dialect.MYSQL, Dialect.SQLITE
SAMPLES = Path(__file__).parent / "spellings"
TABLES = {
    dialect: f"""
    CREATE TABLE sample (i INT PRIMARY KEY, j INT, s VARCHAR(9), d DECIMAL(8, 2), b BOOLEAN, at {time});
    CREATE TABLE other (k INT PRIMARY KEY, m INT);
    CREATE TABLE third (i INT, n INT, s VARCHAR(9));
    CREATE TABLE fourth (f INT);
    CREATE TABLE auto (x {number} PRIMARY KEY, n INT DEFAULT 5);
    """
    for dialect, time, number in [
        (PG, "TIMESTAMP", "SERIAL"),
        (MY, "DATETIME", "INT AUTO_INCREMENT"),
        (LITE, "TIMESTAMP", "INTEGER"),
    ]
}
# A word that is a keyword elsewhere may be a name here: whether there is such a column is not asked when a text is read.
ABOUT_NAMES = re.compile(
    r'no such column|column "[\w.%]+"( of relation "\w+")? does not exist|relation "\w+" does not exist|Unknown column'
)


def texts(name: str) -> list[str]:
    return (SAMPLES / f"{name}.txt").read_text("utf-8").splitlines()


@pytest.fixture(scope="module", params=["sqlite", "postgresql", "mariadb"])
def real(request: pytest.FixtureRequest, server: Callable[[str], Running]) -> Iterator[Real]:
    real = SQLite() if request.param == "sqlite" else connected(request.param, server(request.param))
    with closing(real):
        names = ["sample", "other", "third", "fourth", "auto", "made"]
        for name in names:
            real.execute(f"DROP TABLE IF EXISTS {name}")
        for text in TABLES[real.dialect].split(";")[:-1]:
            real.execute(text)
        if real.dialect is LITE:
            real.execute("BEGIN")
        real.end(keep=True)
        yield real
        for name in names:
            real.execute(f"DROP TABLE IF EXISTS {name}")
        real.end(keep=True)


def refused(real: Real, text: str) -> str:
    """The words in which the database refuses a text; none if it takes it."""
    said = ""
    try:
        real.execute(text)
    except Failed as failure:
        said = failure.reason.splitlines()[0]
    real.end(keep=False)
    if real.dialect is MY and text.startswith("CREATE"):
        # It commits.
        real.execute("DROP TABLE IF EXISTS made")
        for index in ("made_i", "i"):
            with suppress(Failed):
                real.execute(f"DROP INDEX {index} ON third")
    return said


def disagreements(real: Real, forms: list[str]) -> list[tuple[str, str]]:
    """Texts that are read and that the database refuses, or that are no SQL here and that the database takes."""
    found = []
    for text in forms:
        said = refused(real, text)
        try:
            if text.startswith("CREATE"):
                schema(TABLES[real.dialect] + text, real.dialect)
            else:
                statement(text, real.dialect)
        except OutsideFragment:
            continue
        except MalformedProgram as error:
            if not said:
                found.append((text, str(error)))
            continue
        if said and not ABOUT_NAMES.search(said):
            found.append((text, said))
    return found


def test_expressions_are_those_of_the_database(real: Real) -> None:
    assert disagreements(real, [f"SELECT {text} FROM sample" for text in texts("expressions")]) == []


def test_statements_are_those_of_the_database(real: Real) -> None:
    assert disagreements(real, texts("statements")) == []


def test_types_are_those_of_the_database(real: Real) -> None:
    assert disagreements(real, [f"SELECT CAST(s AS {text}) FROM sample" for text in texts("types")]) == []
    assert disagreements(real, [f"CREATE TABLE made (i {text})" for text in texts("types")]) == []


def test_tables_are_those_of_the_database(real: Real) -> None:
    assert disagreements(real, [f"CREATE TABLE made ({text})" for text in texts("columns")]) == []
    assert disagreements(real, texts("tables")) == []


def test_words_that_are_no_names_are_told(real: Real) -> None:
    for word in RESERVED[real.dialect]:
        for text in (f"CREATE TABLE made ({word} INT)", f"CREATE TABLE {word} (i INT)"):
            assert refused(real, text), text
            with pytest.raises((MalformedProgram, OutsideFragment)):
                schema(text, real.dialect)
    quoted = "`order`" if real.dialect is MY else '"order"'
    assert disagreements(real, [f"SELECT i AS {quoted} FROM sample", "SELECT i AS user FROM sample"]) == []


@pytest.mark.parametrize(
    ("dialect", "text", "expected"),
    [
        (MY, "SELECT CAST(a AS BIGINT) FROM t", "SIGNED"),
        (MY, "SELECT CAST(a AS TEXT) FROM t", "CHAR"),
        (PG, "SELECT CAST(a AS DOUBLE) FROM t", "DOUBLE PRECISION"),
        (PG, "SELECT CAST(a AS DATETIME) FROM t", "TIMESTAMP"),
        (MY, "SELECT a IS NOT DISTINCT FROM b FROM t", "<=>"),
        (PG, "SELECT a NOT NULL FROM t", "IS NOT NULL"),
        (MY, "SELECT a ~~ 'b' FROM t", "LIKE"),
        (PG, "INSERT INTO t SET a = 1", "VALUES"),
        (PG, "INSERT IGNORE INTO t VALUES (1)", "ON CONFLICT DO NOTHING"),
        (LITE, "INSERT IGNORE INTO t VALUES (1)", "INSERT OR IGNORE"),
        (PG, "REPLACE INTO t VALUES (1)", "ON CONFLICT"),
        (MY, "INSERT OR IGNORE INTO t VALUES (1)", "INSERT IGNORE"),
        (PG, "SELECT a FROM t LOCK IN SHARE MODE", "FOR SHARE"),
        (MY, "SELECT a FROM t FOR SHARE", "LOCK IN SHARE MODE"),
        (LITE, "SELECT a FROM t FOR UPDATE", "one writer"),
        (PG, "SELECT a FROM t LIMIT 2, 3", "OFFSET"),
        (LITE, "SELECT a FROM t OFFSET 2", "LIMIT -1 OFFSET"),
        (LITE, "SELECT a FROM t FETCH FIRST ROW ONLY", "LIMIT"),
        (MY, "UPDATE t SET a = 1 RETURNING a", "SELECT"),
        (MY, "DELETE FROM t AS u WHERE u.a = 1", "DELETE alias FROM"),
        (LITE, "DELETE FROM t u WHERE u.a = 1", "AS before"),
        (PG, "UPDATE t SET t.a = 1", "name alone"),
        (PG, "SELECT t.a FROM t JOIN u", "CROSS JOIN"),
        (MY, "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = excluded.a", r"VALUES\(a\)"),
        (MY, "INSERT INTO t DEFAULT VALUES", r"VALUES \(\)"),
        (MY, "SELECT COUNT (*) FROM t", "without a blank"),
        (MY, "SELECT a FROM t ORDER BY a NULLS FIRST", "IS NULL"),
        (PG, "CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY)", "IDENTITY"),
        (MY, "CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT)", "AUTO_INCREMENT"),
        (LITE, "CREATE TABLE t (a INT GENERATED ALWAYS AS IDENTITY)", "INTEGER PRIMARY KEY"),
        (PG, "CREATE TABLE t (a TINYINT)", "SMALLINT"),
        (PG, "CREATE TABLE t (order INT)", '"order"'),
        (MY, "SELECT a AS rows FROM t", "`rows`"),
        (MY, "CREATE TABLE t (a VARCHAR)", "VARCHAR with a size"),
        (PG, "CREATE TABLE t (a INT) ENGINE = InnoDB", "'\\)'"),
    ],
)
def test_what_another_database_takes_is_told_with_what_this_one_takes(
    dialect: Dialect, text: str, expected: str
) -> None:
    with pytest.raises(MalformedProgram, match=f"expected .*{expected}"):
        (schema if text.startswith("CREATE") else statement)(text, dialect)


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        # A number's affinity there, not a text's.
        ("CREATE TABLE t (a STRING)", LITE),
        # A part of the type's name there, so that nothing is generated.
        ("CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY)", LITE),
    ],
)
def test_what_means_something_else_in_a_table_is_refused(text: str, dialect: Dialect) -> None:
    with pytest.raises(OutsideFragment):
        schema(text, dialect)
