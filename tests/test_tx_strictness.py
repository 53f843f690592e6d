"""Strictness is for what people write: without it, as for a log of a real server, more is read and nothing means something else."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from isolde.errors import IsoldeError, MalformedProgram, OutsideFragment
from isolde.tx.dialects import Dialect
from isolde.tx.sql import expression, program, schema, script, statement
from test_tx_spelling import TABLES, texts

PG, MY, LITE = Dialect.POSTGRESQL, Dialect.MYSQL, Dialect.SQLITE
FORMS = [
    *(f"SELECT {text} FROM sample" for text in texts("expressions")),
    *texts("statements"),
    *(f"SELECT CAST(s AS {text}) FROM sample" for text in texts("types")),
    *(f"CREATE TABLE made (i {text})" for text in texts("types")),
    *(f"CREATE TABLE made ({text})" for text in texts("columns")),
    *texts("tables"),
]


def read(text: str, dialect: Dialect, *, strict: bool) -> Any:
    """The nodes, or the kind of the refusal."""
    try:
        if text.startswith("CREATE"):
            return schema(TABLES[dialect] + text, dialect, strict=strict)
        return statement(text, dialect, strict=strict)
    except (MalformedProgram, OutsideFragment) as error:
        return type(error)


@pytest.mark.parametrize("dialect", list(Dialect))
def test_what_both_read_means_the_same(dialect: Dialect) -> None:
    """What is outside of the language is so in both: strictness only tells that a database does not read a text."""
    tally: Counter[str] = Counter()
    for text in FORMS:
        strict, lax = read(text, dialect, strict=True), read(text, dialect, strict=False)
        if strict is MalformedProgram:
            tally["read without strictness" if not isinstance(lax, type) else "refused by both"] += 1
        else:
            assert lax == strict, text
            tally["the same"] += 1
    assert tally["the same"] > 800
    assert tally["read without strictness"] > 60


@pytest.mark.parametrize(
    ("dialect", "text", "accepted"),
    [
        (PG, "SELECT a FROM t ORDER BY a LIMIT 2, 3", "SELECT a FROM t ORDER BY a LIMIT 3 OFFSET 2"),
        (PG, "INSERT INTO t SET a = 1, b = 2", "INSERT INTO t (a, b) VALUES (1, 2)"),
        (PG, "SELECT a FROM t LOCK IN SHARE MODE", "SELECT a FROM t FOR SHARE"),
        (PG, "SELECT a NOT NULL FROM t", "SELECT a IS NOT NULL FROM t"),
        (PG, "SELECT a == b FROM t", "SELECT a = b FROM t"),
        # MySQL 8 has it, and MariaDB has not.
        (MY, "SELECT a FROM t FOR SHARE", "SELECT a FROM t LOCK IN SHARE MODE"),
        (MY, "SELECT COUNT (*) FROM t", "SELECT COUNT(*) FROM t"),
        (MY, "SELECT a IS NOT DISTINCT FROM b FROM t", "SELECT a <=> b FROM t"),
        (MY, "INSERT OR IGNORE INTO t VALUES (1)", "INSERT IGNORE INTO t VALUES (1)"),
        # Reserved in MariaDB, and a name in MySQL.
        (MY, "SELECT offset FROM t", "SELECT `offset` FROM t"),
        (MY, "SELECT a AS rows FROM t", "SELECT a AS `rows` FROM t"),
        (LITE, "DELETE FROM t u WHERE u.a = 1", "DELETE FROM t AS u WHERE u.a = 1"),
        (LITE, "INSERT INTO t VALUE (1)", "INSERT INTO t VALUES (1)"),
        (PG, "CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY)", "CREATE TABLE t (a SERIAL PRIMARY KEY)"),
        (PG, "CREATE TABLE t (order INT)", 'CREATE TABLE t ("order" INT)'),
        (MY, "CREATE TABLE t (a INT PRIMARY KEY AUTOINCREMENT)", "CREATE TABLE t (a INT PRIMARY KEY AUTO_INCREMENT)"),
    ],
)
def test_what_only_strictness_refuses_means_what_its_accepted_spelling_means(
    dialect: Dialect, text: str, accepted: str
) -> None:
    reader = schema if text.startswith("CREATE") else statement
    with pytest.raises(MalformedProgram):
        reader(text, dialect)
    assert reader(text, dialect, strict=False) == reader(accepted, dialect)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("dialect", "text", "words"),
    [
        # sqlglot would read these as something else.
        (PG, "SELECT 0x1F FROM t", "the number '0x1F'"),
        (PG, "SELECT 1_000 FROM t", "the number '1_000'"),
        (PG, "SELECT user FROM t", "the function USER"),
        (PG, "SELECT a !~ 'b' FROM t", "the operator '!~'"),
        (MY, "SELECT utc_date FROM t", "the function UTC_DATE"),
        (MY, "SELECT a ISNULL FROM t", "the word ISNULL here"),
        (MY, "SELECT a ISNULL", "the word ISNULL here"),
        (MY, "SELECT UNIQUE a FROM t", "SELECT UNIQUE"),
        (MY, "SELECT 'a' 'b'", "a string written in two parts"),
        # And these not at all.
        (PG, "UPDATE t SET a = 1 WHERE CURRENT OF c", "WHERE CURRENT OF a cursor"),
        (LITE, "UPDATE OR IGNORE t SET a = 1", "a change that passes over errors"),
        # Or the language cannot say them.
        (PG, "SELECT a FROM t UNION SELECT b FROM u", "UNION"),
    ],
)
def test_what_the_language_cannot_say_is_refused_by_name_in_both(
    dialect: Dialect, text: str, words: str, strict: bool
) -> None:
    with pytest.raises(OutsideFragment) as refusal:
        statement(text, dialect, strict=strict)
    assert refusal.value.what == words


def test_a_text_of_a_server_that_cannot_be_read_is_sql_all_the_same() -> None:
    text = "SELECT a FROM t WHERE a = = 1"
    with pytest.raises(MalformedProgram, match=r"sql:1:27: .* expected SQL"):
        statement(text, PG)
    with pytest.raises(OutsideFragment, match=r"sql:1:27: SQL in which '=' stands here"):
        statement(text, PG, strict=False)


def test_every_reader_has_both_modes() -> None:
    procedure = """
        CREATE TABLE t (a INT PRIMARY KEY, b INT);
        CREATE PROCEDURE p() LANGUAGE plpgsql AS $$
        DECLARE n INT;
        BEGIN
            SELECT COUNT(*) INTO n FROM t WHERE %s;
            PERFORM a FROM t LIMIT %s;
            IF n %s 1 THEN UPDATE t SET b = 0; END IF;
        END $$;
    """
    lax, accepted = procedure % ("b NOT NULL", "0, 1", "=="), procedure % ("b IS NOT NULL", "1 OFFSET 0", "=")
    with pytest.raises(IsoldeError):
        program(lax, PG)
    assert program(lax, PG, strict=False) == program(accepted, PG)
    assert script("SELECT 1 == 1; SELECT 2 == 2", PG, strict=False) == script("SELECT 1 = 1; SELECT 2 = 2", PG)
    assert expression("a == b", PG, strict=False) == expression("a = b", PG)
