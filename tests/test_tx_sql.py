"""SQL text to nodes: what each dialect says, what is refused, and where."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isolde.errors import MalformedProgram, OutsideFragment
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Literal, Name, Parameter, UnaryOperation
from isolde.tx.place import Place
from isolde.tx.queries import Item, Join, Lock, Select
from isolde.tx.render import render
from isolde.tx.schema import BIGINT, BOOLEAN, FLOAT, INTEGER, TEXT, TIMESTAMP, Kind, Type, decimal
from isolde.tx.sql import expression, program, schema, script, statement
from isolde.tx.statements import Insert, InsertMode

PG, MY, LITE = Dialect.POSTGRESQL, Dialect.MYSQL, Dialect.SQLITE


# What a text says, written plainly: the same text rendered, so that a row is one line.
SAYS = [
    (PG, "select A, \"B\" from T", 'SELECT a, "B" FROM t'),
    (MY, "select A, `B` from T", "SELECT a, b FROM t"),
    (LITE, 'select [A], "B" from T', "SELECT a, b FROM t"),
    (MY, 'SELECT "x", \'it\\\'s\', \'a\\\\\'', "SELECT 'x', 'it''s', 'a\\\\'"),
    (PG, "SELECT E'a\\n', 'b\\n'", "SELECT 'a\n', 'b\\n'"),
    (PG, "SELECT 1e2, 1.25e1, 15e-1, CAST(a AS FLOAT(24)), CAST(a AS FLOAT(25))", "SELECT 100., 12.5, 1.5, CAST(a AS REAL), CAST(a AS DOUBLE PRECISION)"),
    (PG, "SELECT -1, - (1), 1.50, .5, TRUE, NULL", "SELECT -1, -(1), 1.50, 0.5, TRUE, NULL"),
    (MY, "SELECT 1e3, a || b, a && b, !a, a ^ b, a DIV b, a MOD b, MOD(a, b)", "SELECT 1000.0e0, a OR b, a AND b, NOT a, a ^ b, a DIV b, a % b, a % b"),
    (MY, "SELECT IFNULL(a, b), ISNULL(a), a <=> b, a XOR b", "SELECT COALESCE(a, b), a IS NULL, a <=> b, a XOR b"),
    (PG, "SELECT a IS DISTINCT FROM b, a # b, a::text, a != b", "SELECT NOT (a IS NOT DISTINCT FROM b), a # b, CAST(a AS TEXT), a <> b"),
    (LITE, "SELECT a IS b, a IS NOT b, a == b, max(a, b), max(a), a NOTNULL", "SELECT a IS b, NOT (a IS b), a = b, MAX(a, b), MAX(a), a IS NOT NULL"),
    (MY, "SELECT a | b & c << 1, a * b ^ c", "SELECT a | (b & (c << 1)), a * (b ^ c)"),
    (PG, "SELECT a NOT IN (1, 2), a NOT LIKE 'x%', NOT a BETWEEN 1 AND 2", "SELECT a NOT IN (1, 2), NOT (a LIKE 'x%'), a NOT BETWEEN 1 AND 2"),
    (PG, "SELECT COUNT(*), COUNT(DISTINCT a), SUM(a + 1) FROM t GROUP BY b HAVING MAX(a) > 1", "SELECT COUNT(*), COUNT(DISTINCT a), SUM(a + 1) FROM t GROUP BY b HAVING MAX(a) > 1"),
    (PG, "SELECT a AS x, b FROM t ORDER BY x DESC, 2", "SELECT a AS x, b FROM t ORDER BY a DESC, b"),
    (PG, "SELECT b, COUNT(*) FROM t GROUP BY 1", "SELECT b, COUNT(*) FROM t GROUP BY b"),
    (MY, "SELECT a FROM t LIMIT 2, 3", "SELECT a FROM t LIMIT 3 OFFSET 2"),
    (PG, "SELECT a FROM t FETCH FIRST 3 ROWS ONLY", "SELECT a FROM t LIMIT 3"),
    (PG, "SELECT DISTINCT a FROM t x LEFT JOIN u USING (id, k)", "SELECT DISTINCT a FROM t AS x LEFT JOIN u ON x.id = u.id AND x.k = u.k"),
    (PG, "SELECT u.*, id FROM t JOIN u USING (id)", "SELECT u.*, t.id FROM t JOIN u ON t.id = u.id"),
    (PG, "SELECT id FROM t JOIN u USING (id) JOIN v USING (id)", "SELECT t.id FROM t JOIN u ON t.id = u.id JOIN v ON t.id = v.id"),
    (PG, "SELECT 1 FROM a, b CROSS JOIN c", "SELECT 1 FROM a CROSS JOIN b CROSS JOIN c"),
    (PG, "SELECT 1 FROM a LEFT JOIN (b JOIN c ON b.x = c.x) ON TRUE", "SELECT 1 FROM a LEFT JOIN (b JOIN c ON b.x = c.x) ON TRUE"),
    (PG, "SELECT q.n FROM (SELECT COUNT(*) AS n FROM t) q", "SELECT q.n FROM (SELECT COUNT(*) AS n FROM t) AS q"),
    (PG, "SELECT (SELECT 1), EXISTS (SELECT 1), a IN (SELECT b FROM u) FROM t", "SELECT (SELECT 1), EXISTS (SELECT 1), a IN (SELECT b FROM u) FROM t"),
    (MY, "SELECT a FROM t WHERE id = 1 LOCK IN SHARE MODE", "SELECT a FROM t WHERE id = 1 LOCK IN SHARE MODE"),
    (MY, "INSERT INTO t SET a = 1, b = DEFAULT", "INSERT INTO t (a, b) VALUES (1, DEFAULT)"),
    (MY, "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = VALUES(a) + a", "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = VALUES(a) + a"),
    (LITE, "INSERT OR IGNORE INTO t (a) SELECT a FROM u WHERE a > 1", "INSERT OR IGNORE INTO t (a) SELECT a FROM u WHERE a > 1"),
    (LITE, "INSERT INTO t DEFAULT VALUES", "INSERT INTO t DEFAULT VALUES"),
    (PG, "INSERT INTO t (a) VALUES (1), (2) ON CONFLICT (a) DO UPDATE SET a = excluded.a WHERE t.a > 1 RETURNING a AS z, *", "INSERT INTO t (a) VALUES (1), (2) ON CONFLICT (a) DO UPDATE SET a = excluded.a WHERE t.a > 1 RETURNING a AS z, *"),
    (PG, "UPDATE t x SET a = x.a + 1, b = DEFAULT WHERE id = 1 RETURNING *", "UPDATE t AS x SET a = x.a + 1, b = DEFAULT WHERE id = 1 RETURNING *"),
    (MY, "UPDATE t SET t.a = 1", "UPDATE t SET a = 1"),
    (MY, "DELETE t FROM t WHERE a = 1", "DELETE FROM t WHERE a = 1"),
    (PG, "SELECT CASE a WHEN 1 THEN 2 ELSE 3 END, CASE WHEN a THEN 1 END", "SELECT CASE a WHEN 1 THEN 2 ELSE 3 END, CASE WHEN a THEN 1 END"),
    (PG, "SELECT a /* why */ FROM t -- because", "SELECT a FROM t"),
    (MY, "SELECT 5--2, a # comment", "SELECT 5 - -2, a"),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "text", "expected"), SAYS)
def test_a_text_says(dialect: Dialect, text: str, expected: str) -> None:
    assert render(statement(text, dialect), dialect) == expected


PARAMETERS = [
    (PG, "SELECT $2, $1", ["p2", "p1"]),
    (PG, "SELECT :from, a %(b)s FROM t", ["from"]),
    (PG, "SELECT :from, :x::text, %(name)s", ["from", "x", "name"]),
    (MY, "SELECT ?, ?, %s", ["p1", "p2", "p3"]),
    (LITE, "SELECT ?2, :a, @b, $c", ["p2", "a", "b", "c"]),
    (PG, "SELECT ':x', \":y\", :z", ["z"]),
    (MY, "SELECT a FROM t LIMIT ?, ?", ["p1", "p2"]),
]


@pytest.mark.parametrize(("dialect", "text", "names"), PARAMETERS)
def test_parameters_have_names_in_the_order_of_the_text(dialect: Dialect, text: str, names: list[str]) -> None:
    query = statement(text, dialect)
    assert isinstance(query, Select)
    found = []
    for item in query.items:
        assert isinstance(item, Item)
        inner = getattr(item.expression, "operand", item.expression)
        found += [inner.name] if isinstance(inner, Parameter) else []
    if query.limit is not None:
        assert (query.offset, query.limit) == (Parameter("p1"), Parameter("p2"))
    else:
        assert found == names


REFUSED = [
    (PG, "WITH x AS (SELECT 1) SELECT * FROM x", "common table expression", 1, 0),
    (PG, "SELECT SUM(a) OVER () FROM t", "window function", 1, 8),
    (PG, "SELECT 1 UNION SELECT 2", "UNION", 1, 0),
    (PG, "SELECT 1 EXCEPT SELECT 2", "EXCEPT", 1, 0),
    (PG, "SELECT * FROM a RIGHT JOIN b ON 1 = 1", "RIGHT JOIN", 1, 28),
    (PG, "SELECT * FROM a FULL JOIN b ON 1 = 1", "FULL JOIN", 1, 27),
    (PG, "SELECT * FROM a NATURAL JOIN b", "NATURAL JOIN", 1, 30),
    (PG, "SELECT *\nFROM a,\n  LATERAL (SELECT 1) x", "LATERAL", 3, 0),
    (PG, "SELECT a -> 'b' FROM t", "JSON", 1, 8),
    (PG, "SELECT a[1] FROM t", "subscript", 1, 8),
    (PG, "SELECT ARRAY[1]", "array", 1, 0),
    (PG, "SELECT a ~ 'x' FROM t", "regular expression", 1, 8),
    (PG, "SELECT a ILIKE 'x' FROM t", "ILIKE", 1, 8),
    (PG, "SELECT a ^ 2", "power", 1, 8),
    (PG, "SELECT DISTINCT ON (a) b FROM t", "DISTINCT ON", 1, 0),
    (MY, "SELECT a FROM t FOR UPDATE WAIT 5", "waits for some seconds", 1, 0),
    (PG, "SELECT a FROM t FOR UPDATE OF t", "some tables", 1, 0),
    (PG, "SELECT a FROM t TABLESAMPLE SYSTEM (10)", "TABLESAMPLE", 1, 0),
    (PG, "SELECT a FROM ONLY t", "ONLY", 1, 0),
    (PG, "SELECT a FROM s.t", "schema", 1, 15),
    (PG, "SELECT a FROM t x (c)", "names for columns", 1, 0),
    (PG, "SELECT a INTO b FROM t", "INTO", 1, 0),
    (PG, "SELECT a FROM f(1)", "function in place of a table", 1, 0),
    (PG, "SELECT a FROM t GROUP BY ROLLUP (a)", "ROLLUP", 1, 0),
    (PG, "SELECT COUNT(*) FILTER (WHERE a) FROM t", "FILTER", 1, 0),
    (PG, "SELECT f(a) FROM t", "the function F", 1, 8),
    (PG, "SELECT random()", "random", 1, 8),
    (PG, "SELECT (a, b) IN ((1, 2)) FROM t", "several values", 1, 0),
    (PG, "SELECT a = ANY (SELECT 1)", "ANY", 1, 0),
    (PG, "SELECT a LIKE 'x' ESCAPE '!'", "ESCAPE", 1, 8),
    (PG, "SELECT a BETWEEN SYMMETRIC 1 AND 2", "SYMMETRIC", 1, 8),
    (PG, "SELECT CAST(a AS TIME)", "type TIME", 1, 0),
    (PG, "SELECT * FROM a JOIN b USING (id)", "'\\*' over a join", 1, 0),
    (PG, "UPDATE t SET a = 1 FROM u", "UPDATE … FROM", 1, 0),
    (PG, "UPDATE t SET (a, b) = (1, 2)", "something else than a column", 1, 0),
    (PG, "DELETE FROM t USING u", "DELETE … USING", 1, 0),
    (PG, "INSERT INTO t VALUES (1) ON CONFLICT ON CONSTRAINT k DO NOTHING", "ON CONSTRAINT", 1, 0),
    (PG, "INSERT INTO t AS x VALUES (1)", "alias", 1, 0),
    (PG, "MERGE INTO t USING u ON 1 = 1 WHEN MATCHED THEN DELETE", "MERGE", 1, 0),
    (PG, "TRUNCATE t", "TRUNCATE", 1, 0),
    (PG, "SELECT twice(a) FROM t", "TWICE.*called alone", 1, 8),
    (MY, "SELECT LAST_INSERT_ID()", "LAST_INSERT_ID.*RETURNING", 1, 8),
    (PG, "SAVEPOINT x", "SAVEPOINT.*leave it out", 1, 1),
    (PG, "UPDATE t SET a = 1 WHERE CURRENT OF c", "WHERE CURRENT OF a cursor.*fetch the key", 1, 26),
    (PG, "CLOSE c", "CLOSE", 1, 1),
    (PG, "LOCK TABLE t", "LOCK", 1, 1),
    (PG, "BEGIN", "begin", 1, 1),
    (PG, "TABLE t", "TABLE", 1, 0),
    (PG, "SELECT 'a'\n'b'", "two parts", 2, 1),
    (PG, "SELECT 1_000", "the number '1_000'.*write a decimal number", 1, 8),
    (PG, "SELECT user FROM t", "the function USER.*as a parameter", 1, 8),
    (PG, "SELECT x'1F'", "hexadecimal", 1, 8),
    (PG, "SELECT a = b = c FROM t", "parentheses", 1, 8),
    (MY, "SELECT a FROM t GROUP BY a WITH ROLLUP", "ROLLUP", 1, 0),
    (MY, "SELECT SQL_NO_CACHE a FROM t", "modifier", 1, 0),
    (MY, "SELECT a FROM t FORCE INDEX (i)", "hint", 1, 0),
    (MY, "SELECT LENGTH(a) FROM t", "bytes", 1, 8),
    (MY, "SELECT @x", "session variable", 1, 0),
    (MY, "SELECT /*! 1 + */ 2", "executes", 1, 8),
    (MY, "UPDATE t, u SET t.a = 1", "several tables", 1, 0),
    (MY, "UPDATE t SET a = 1 ORDER BY b LIMIT 1", "ORDER BY|LIMIT", 1, 0),
    (MY, "UPDATE LOW_PRIORITY t SET a = 1", "LOW_PRIORITY", 1, 8),
    (MY, "DELETE t FROM t JOIN u", "several tables", 1, 0),
    (MY, "SELECT a REGEXP 'x' FROM t", "regular expression", 1, 8),
    (MY, "SELECT BINARY a FROM t", "BINARY", 1, 0),
    (MY, "SELECT a COLLATE utf8mb4_bin FROM t", "COLLATE", 1, 8),
    (LITE, "SELECT a FROM t INDEXED BY i", "INDEXED", 1, 0),
    (LITE, "SELECT a GLOB 'x' FROM t", "GLOB", 1, 8),
    (LITE, "INSERT OR ROLLBACK INTO t VALUES (1)", "OR ROLLBACK", 1, 0),
    (LITE, "PRAGMA foreign_keys", "Pragma|PRAGMA", 1, 0),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "text", "named", "line", "column"), REFUSED)
def test_what_is_outside_is_refused_by_name_and_place(
    dialect: Dialect, text: str, named: str, line: int, column: int
) -> None:
    with pytest.raises(OutsideFragment, match=named) as refusal:
        statement(text, dialect, "file.sql")
    source, found_line, found_column = refusal.value.place.split(":")
    assert (source, int(found_line)) == ("file.sql", line)
    assert column in (0, int(found_column))


MALFORMED = [
    (PG, "", 1, 1),
    (PG, "foo bar", 1, 1),
    (PG, "1 + 1", 1, 1),
    (MY, "SELECT", 1, 1),
    (PG, "SELECT a FROM t WHERE", 1, 17),
    (PG, "SELECT a,, b", 1, 10),
    (PG, "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = 2", 1, 50),
    (MY, "INSERT INTO t VALUES (1) ON CONFLICT (a) DO NOTHING", 1, 39),
    (PG, "SELECT 'abc", 1, 8),
    (PG, "SELECT /* a", 1, 8),
    (PG, "SELECT a\nFROM t\nWHERE )", 3, 7),
    (PG, "SELECT a IS b", 1, 13),
    (PG, "SELECT a FROM t ORDER BY 2", 1, 26),
    (PG, "SELECT a XOR b", 1, 10),
    (PG, "SELECT 1; SELECT 2", 1, 1),
]


@pytest.mark.parametrize(("dialect", "text", "line", "column"), MALFORMED)
def test_what_is_no_sql_is_malformed_with_its_place(dialect: Dialect, text: str, line: int, column: int) -> None:
    with pytest.raises(MalformedProgram) as error:
        statement(text, dialect)
    assert error.value.place == f"sql:{line}:{column}"


def test_places_are_those_of_the_text_that_was_written() -> None:
    query = statement("SELECT a\n  FROM t\n WHERE ? = b AND c = 'é' AND d > :limit", LITE, "f.sql")
    assert isinstance(query, Select)
    rendered = repr(query.where)
    assert "Parameter(name='p1', place=Place(source='f.sql', line=3, column=8))" in rendered
    assert "Name(name='b', table=None, place=Place(source='f.sql', line=3, column=12))" in rendered
    assert "Parameter(name='limit', place=Place(source='f.sql', line=3, column=34))" in rendered


def test_statements_are_parsed_once() -> None:
    assert statement("SELECT a FROM t", PG) is statement("SELECT a FROM t", PG)


def test_a_script_is_its_statements() -> None:
    found = script("SELECT ';' FROM t; -- ;\nDELETE FROM t;;", PG)
    assert [type(one).__name__ for one in found] == ["Select", "Delete"]
    assert found[1].place == Place("sql", 2, 1)


def test_numbers_are_exact_unless_the_dialect_says_otherwise() -> None:
    assert expression("1.50", PG) == Literal(Decimal("1.50"))
    assert isinstance(expression("1e3", PG), Literal)
    assert repr(expression("1e3", PG)).startswith("Literal(value=Decimal")
    assert repr(expression("1e3", MY)).startswith("Literal(value=1000.0")
    assert repr(expression("TRUE", MY)).startswith("Literal(value=True")


def test_modes_and_locks() -> None:
    replaced = statement("REPLACE INTO t VALUES (1)", MY)
    assert isinstance(replaced, Insert)
    assert replaced.mode is InsertMode.REPLACE
    locked = statement("SELECT a FROM t FOR SHARE", PG)
    assert isinstance(locked, Select)
    assert locked.lock is Lock.SHARE
    joined = statement("SELECT 1 FROM a LEFT JOIN b ON a.x = b.x", PG)
    assert isinstance(joined, Select)
    assert isinstance(joined.source, Join)
    assert isinstance(expression("NOT (a IN (1))", PG), UnaryOperation)
    assert expression("a.b", MY) == Name("b", "a")


def test_tables_of_postgresql() -> None:
    text = """
    CREATE TABLE u (id INT PRIMARY KEY);
    CREATE TABLE IF NOT EXISTS t (
        id SERIAL PRIMARY KEY, b BIGINT GENERATED ALWAYS AS IDENTITY, c NUMERIC(12, 2) NOT NULL DEFAULT 0 CHECK (c > 0),
        d VARCHAR(10) UNIQUE, e TIMESTAMP, f FLOAT, g REAL, h BOOL, i INT REFERENCES u, j TEXT,
        CONSTRAINT k UNIQUE (b, c), CONSTRAINT z CHECK (b < 4), FOREIGN KEY (b) REFERENCES u (id) ON DELETE NO ACTION);
    CREATE UNIQUE INDEX v ON t (e); CREATE INDEX w ON t (f);
    """
    table = schema(text, PG).tables["t"]
    single = Type(Kind.FLOAT, bits=32)
    types = [
        INTEGER,
        BIGINT,
        decimal(12, 2),
        Type(Kind.TEXT, length=10),
        TIMESTAMP,
        FLOAT,
        single,
        BOOLEAN,
        INTEGER,
        TEXT,
    ]
    assert [column.type for column in table.columns] == types
    assert [column.name for column in table.columns if column.generated] == ["id", "b"]
    assert [column.name for column in table.columns if not column.nullable] == ["id", "b", "c"]
    assert table.primary_key == ("id",)
    assert table.uniques == (("d",), ("b", "c"), ("e",))
    assert [(key.columns, key.table, key.references) for key in table.foreign_keys] == [
        (("i",), "u", ("id",)),
        (("b",), "u", ("id",)),
    ]
    assert [check.name for check in table.checks] == [None, "z"]


def test_tables_of_mysql_and_sqlite() -> None:
    mysql = schema(
        "CREATE TABLE `T` (`Id` INT UNSIGNED AUTO_INCREMENT, b TINYINT(1), c DATETIME(6) COMMENT 'x', d DOUBLE,"
        " PRIMARY KEY (id), UNIQUE KEY k (b), KEY j (c)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4",
        MY,
    ).tables["t"]
    assert mysql.columns[0].type == Type(Kind.INTEGER, bits=32, unsigned=True)
    assert mysql.columns[0].generated
    assert mysql.uniques == (("b",),)
    lite = schema("CREATE TABLE t (id INTEGER PRIMARY KEY, b INT)", LITE).tables["t"]
    assert lite.columns[0].generated
    assert not schema("CREATE TABLE t (id INT PRIMARY KEY, b INT)", LITE).tables["t"].columns[0].generated


@pytest.mark.parametrize(
    ("dialect", "text", "named"),
    [
        (PG, "CREATE TABLE t (a INT REFERENCES t ON DELETE CASCADE)", "CASCADE"),
        (PG, "CREATE TABLE t (a JSON)", "JSON"),
        (PG, "CREATE TABLE t (a INT[])", "type"),
        (PG, "CREATE TABLE t AS SELECT 1", "expression|Create"),
        (PG, "CREATE VIEW v AS SELECT 1", "VIEW"),
        (PG, "CREATE TEMP TABLE t (a INT)", "TEMPORARY"),
        (PG, "CREATE TABLE t (a INT, b INT GENERATED ALWAYS AS (a + 1) STORED)", "computed"),
        (PG, "CREATE TABLE t (a INT); CREATE UNIQUE INDEX i ON t (a) WHERE a > 1", "some rows"),
        (PG, "CREATE TABLE t (a TEXT); CREATE UNIQUE INDEX i ON t (lower(a))", "expression"),
        (MY, "CREATE TABLE t (a ENUM('x'))", "ENUM"),
        (MY, "CREATE TABLE t (a FLOAT(7, 2))", "a float with digits after the point"),
        (MY, "CREATE TABLE t (a DOUBLE(7, 2))", "a float with digits after the point"),
        (MY, "CREATE TABLE t (a DATETIME ON UPDATE CURRENT_TIMESTAMP)", "ON UPDATE"),
        (LITE, "CREATE TABLE t (a INT, b)", "without a type"),
        (LITE, "CREATE TABLE t (a TEXT COLLATE NOCASE)", "COLLATE"),
        (PG, "DROP TABLE t", "DROP"),
        (PG, "INSERT INTO t VALUES (1)", "among tables"),
    ],
)
def test_tables_that_the_language_cannot_say_are_refused(dialect: Dialect, text: str, named: str) -> None:
    with pytest.raises(OutsideFragment, match=named):
        schema(text, dialect)


WRONG_RESULTS = [
    "SELECT (NULL) IN (SELECT t0.c3 FROM t0 WHERE t0.c0)",
    "SELECT (NULL) IN (SELECT t0.c0 FROM t0 WHERE ((t0.c0) OR TRUE) IS NULL)",
    "SELECT * FROM t0 WHERE IF(FALSE, t0.c0, 0.1)",
    "SELECT * FROM t0 WHERE CAST(COALESCE(t0.c0, -1) AS UNSIGNED)",
    "SELECT * FROM t0 WHERE CAST(IFNULL(t0.c0, -1) AS UNSIGNED)",
    "SELECT * FROM t0 WHERE t0.c0 XOR 0",
    r"SELECT '\n1' & 1",
    r"SELECT '\n1' ^ 1",
    "SELECT t0.c0 FROM t0 WHERE (NOT NOT t0.c0) = t0.c0",
    "SELECT t1.c0 FROM t1, t0 WHERE t0.c0=-t1.c0",
    "SELECT t1.c0 FROM t1 LEFT JOIN t0 ON 1",
    'INSERT INTO t0(c0) VALUES(DEFAULT), ("a")',
    'INSERT IGNORE INTO t0(c3) VALUES("a"), (1)',
    'REPLACE INTO t0(c1, c0, c3) VALUES(1, 2, 3), (1, "a", "a")',
]


@pytest.mark.parametrize("text", WRONG_RESULTS)
def test_statements_that_databases_once_got_wrong_are_read(text: str) -> None:
    node = statement(text, MY)
    assert statement(render(node, MY), MY) == node


WORDS = st.sampled_from(
    [
        "SELECT",
        "FROM",
        "WHERE",
        "a",
        "b",
        "t",
        ",",
        "(",
        ")",
        "=",
        "1",
        "'x'",
        "AND",
        "NOT",
        "IN",
        "IS",
        "NULL",
        "CASE",
        "WHEN",
        "THEN",
        "END",
        "JOIN",
        "ON",
        "GROUP",
        "BY",
        "ORDER",
        "LIMIT",
        "INSERT",
        "INTO",
        "VALUES",
        "UPDATE",
        "SET",
        "DELETE",
        "CREATE",
        "TABLE",
        "INT",
        "PRIMARY",
        "KEY",
        ";",
        ":",
        "?",
        "$1",
        "%",
        "*",
        ".",
        "||",
        "--",
        "/*",
        "*/",
        '"',
        "`",
        "[",
        "]",
        "$$",
        "BEGIN",
        "IF",
        "LOOP",
        "FOR",
        "RETURN",
        "CALL",
        "DECLARE",
        ":=",
        "..",
        "<<",
        ">>",
        "@",
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.text(max_size=40), st.lists(WORDS, max_size=14).map(" ".join)), st.sampled_from(Dialect))
def test_no_text_gives_another_error_than_these_two(text: str, dialect: Dialect) -> None:
    for read in (statement, schema, program, expression):
        place = "sql:"
        try:
            read(text, dialect)
        except (MalformedProgram, OutsideFragment) as error:
            place = error.place
        assert place.startswith("sql:")


def test_the_language_does_not_import_sqlglot() -> None:
    code = "import sys, isolde.tx, isolde.tx.sql, isolde.tx.render, isolde.tx.procedures; sys.exit('sqlglot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
