"""Nodes to text and back: what is rendered is read as the same nodes, in each dialect."""

from __future__ import annotations

import re
import sqlite3
from datetime import datetime
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isolde.errors import MalformedProgram, OutsideFragment
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Binary, BinaryOperation, Exists, Expression, Literal, Name, Unary, UnaryOperation
from isolde.tx.render import render, render_schema, rendered
from isolde.tx.render.words import quoted
from isolde.tx.rewrite import rewritten
from isolde.tx.sql import expression, schema, statement
from isolde.tx.sql.reserved import RESERVED
from tx_nodes import expressions, statements

PG, MY, LITE = Dialect.POSTGRESQL, Dialect.MYSQL, Dialect.SQLITE

RELAXED = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def plain(node: object) -> str:
    """All of a node but its places. Equality alone would take 1 for TRUE."""
    return re.sub(r", place=(None|Place\([^)]*\))", "", repr(rewritten(node, _one_way)))


def _one_way(node: object) -> object:
    """``NOT EXISTS`` can be said by two nodes; the texts are one."""
    match node:
        case UnaryOperation(Unary.NOT, Exists(query, False)):
            return Exists(query, negated=True)
        case _:
            return node


@pytest.mark.parametrize("dialect", Dialect)
@RELAXED
@given(data=st.data())
def test_every_expression_is_read_as_it_was_written(dialect: Dialect, data: st.DataObject) -> None:
    node = data.draw(expressions(dialect))
    assert plain(expression(render(node, dialect), dialect)) == plain(node)


@pytest.mark.parametrize("dialect", Dialect)
@RELAXED
@given(data=st.data())
def test_every_statement_is_read_as_it_was_written(dialect: Dialect, data: st.DataObject) -> None:
    node = data.draw(statements(dialect))
    assert plain(statement(render(node, dialect), dialect)) == plain(node)


TRANSLATIONS = [
    (MY, "a <=> b", PG, "a IS NOT DISTINCT FROM b"),
    (MY, "a <=> b", LITE, "a IS b"),
    (PG, "a IS NOT DISTINCT FROM TRUE", LITE, "a IS 1"),
    (PG, "a || b || 'c'", MY, "CONCAT(CONCAT(a, b), 'c')"),
    (MY, "a XOR b", PG, "(NOT a) <> (NOT b)"),
    (MY, "a ^ b", PG, "a # b"),
    (MY, "a ^ b", LITE, "(a | b) - (a & b)"),
    (MY, "a || b", PG, "a OR b"),
    (MY, "a && !b", PG, "a AND NOT b"),
    (MY, "IF(a, 1, 2)", PG, "CASE WHEN a THEN 1 ELSE 2 END"),
    (MY, "IF(a, 1, 2)", LITE, "IIF(a, 1, 2)"),
    (PG, "CHAR_LENGTH(a)", LITE, "LENGTH(a)"),
    (PG, "GREATEST(a, b)", LITE, "MAX(a, b)"),
    (LITE, "min(a, b)", MY, "LEAST(a, b)"),
    (PG, "now()", MY, "CURRENT_TIMESTAMP"),
    (PG, "a::bigint", MY, "CAST(a AS SIGNED)"),
    (MY, "CAST(a AS UNSIGNED)", PG, "CAST(a AS NUMERIC(20, 0))"),
    (MY, "1e3", PG, "CAST('1000.0' AS DOUBLE PRECISION)"),
    (PG, r"'a\b'", MY, r"'a\\b'"),
    (MY, r"'a\n\'b'", PG, "'a\n''b'"),
    (PG, '"order"', MY, "`order`"),
    (PG, "a IN ((SELECT b FROM t), 2)", MY, "a IN ((SELECT b FROM t), 2)"),
    (PG, "(a + b) * c - (d - 1)", MY, "(a + b) * c - (d - 1)"),
    (PG, "(a OR b) AND NOT (c AND d)", LITE, "(a OR b) AND NOT (c AND d)"),
    (PG, "- (-1)", MY, "-(-1)"),
]


@pytest.mark.parametrize(("source", "text", "target", "expected"), TRANSLATIONS)
def test_expressions_mean_the_same_in_another_dialect(
    source: Dialect, text: str, target: Dialect, expected: str
) -> None:
    assert render(expression(text, source), target) == expected


STATEMENTS = [
    (PG, "SELECT a FROM t FOR SHARE", MY, "SELECT a FROM t LOCK IN SHARE MODE"),
    (PG, "SELECT a FROM t FOR UPDATE", LITE, "SELECT a FROM t"),
    (MY, "SELECT a FROM t LIMIT 2, 3", PG, "SELECT a FROM t LIMIT 3 OFFSET 2"),
    (PG, "SELECT a FROM t OFFSET 2", LITE, "SELECT a FROM t LIMIT -1 OFFSET 2"),
    (PG, "SELECT a FROM t ORDER BY a NULLS FIRST", MY, "SELECT a FROM t ORDER BY a IS NULL DESC, a"),
    (PG, "SELECT * FROM a, b", MY, "SELECT * FROM a CROSS JOIN b"),
    (
        PG,
        "INSERT INTO t (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET a = excluded.a + t.a",
        MY,
        "INSERT INTO t (a) VALUES (1) ON DUPLICATE KEY UPDATE a = VALUES(a) + t.a",
    ),
    (
        PG,
        "INSERT INTO t (a) VALUES (1) ON CONFLICT (a) DO NOTHING",
        MY,
        "INSERT INTO t (a) VALUES (1) ON DUPLICATE KEY UPDATE a = a",
    ),
    (
        PG,
        "INSERT INTO t SELECT * FROM u ON CONFLICT DO NOTHING",
        LITE,
        "INSERT INTO t SELECT * FROM u WHERE TRUE ON CONFLICT DO NOTHING",
    ),
    (LITE, "INSERT OR REPLACE INTO t VALUES (1)", MY, "REPLACE INTO t VALUES (1)"),
    (MY, "INSERT IGNORE INTO t VALUES (1)", LITE, "INSERT OR IGNORE INTO t VALUES (1)"),
    (PG, "INSERT INTO t DEFAULT VALUES", MY, "INSERT INTO t VALUES ()"),
    (PG, "DELETE FROM t AS x WHERE x.a = 1", MY, "DELETE x FROM t AS x WHERE x.a = 1"),
]


@pytest.mark.parametrize(("source", "text", "target", "expected"), STATEMENTS)
def test_statements_mean_the_same_in_another_dialect(
    source: Dialect, text: str, target: Dialect, expected: str
) -> None:
    assert render(statement(text, source), target) == expected


@pytest.mark.parametrize(
    ("source", "text", "target", "named"),
    [
        (MY, "SELECT a DIV b", PG, "DIV"),
        (MY, "REPLACE INTO t VALUES (1)", PG, "REPLACE"),
        (MY, "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = 1", PG, "names no key"),
        (PG, "UPDATE t SET a = 1 RETURNING a", MY, "RETURNING"),
        (PG, "INSERT INTO t VALUES (DEFAULT)", LITE, "DEFAULT"),
        (PG, "INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 1 WHERE t.a > 1", MY, "WHERE"),
    ],
)
def test_what_a_dialect_cannot_say_is_refused(source: Dialect, text: str, target: Dialect, named: str) -> None:
    with pytest.raises(OutsideFragment, match=named):
        render(statement(text, source), target)


def test_drivers_get_their_marks_and_the_names_in_order() -> None:
    update = statement("UPDATE t SET a = a % :m, b = '5%' WHERE id = :id AND a < :m", PG)
    assert rendered(update, PG) == ("UPDATE t SET a = a % $1, b = '5%' WHERE id = $2 AND a < $3", ("m", "id", "m"))
    assert rendered(update, MY) == ("UPDATE t SET a = a %% %s, b = '5%%' WHERE id = %s AND a < %s", ("m", "id", "m"))
    assert rendered(update, LITE) == ("UPDATE t SET a = a % ?, b = '5%' WHERE id = ? AND a < ?", ("m", "id", "m"))
    assert rendered(statement("SELECT a % 2", MY), MY) == ("SELECT a % 2", ())


def test_values_of_every_kind_are_written() -> None:
    assert render(Literal(Decimal("1E+3")), PG) == "1000."
    assert render(Literal(0.1), MY) == "0.1e0"
    assert render(Literal(datetime(2024, 1, 2, 3, 4)), PG) == "TIMESTAMP '2024-01-02 03:04:00'"
    assert render(Literal(datetime(2024, 1, 2, 3, 4)), LITE) == "'2024-01-02 03:04:00'"
    with pytest.raises(OutsideFragment):
        render(Literal(float("nan")), MY)


TABLES = """
CREATE TABLE customer (id INT PRIMARY KEY, name VARCHAR(20) NOT NULL UNIQUE);
CREATE TABLE "order" (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    customer INT REFERENCES customer,
    total NUMERIC(12, 2) NOT NULL DEFAULT 0 CHECK (total >= 0),
    paid BOOLEAN DEFAULT FALSE,
    weight DOUBLE PRECISION,
    at TIMESTAMP DEFAULT CURRENT_TIMESTAMP
);
"""


@pytest.mark.parametrize("dialect", Dialect)
def test_tables_are_written_in_each_dialect_and_read_again(dialect: Dialect) -> None:
    original = schema(TABLES, PG)
    again = schema(";".join(render_schema(original, dialect)), dialect)
    for name, table in original.tables.items():
        other = again.tables[name]
        assert (other.primary_key, other.uniques, other.foreign_keys) == (
            table.primary_key,
            table.uniques,
            table.foreign_keys,
        )
        assert plain(other.checks) == plain(table.checks)
        for column, read in zip(table.columns, other.columns, strict=True):
            assert (read.nullable, read.generated, plain(read.default)) == (
                column.nullable,
                column.generated,
                plain(column.default),
            )
            assert read.type.kind is column.type.kind


def test_sqlite_takes_the_tables() -> None:
    connection = sqlite3.connect(":memory:")
    for text in render_schema(schema(TABLES, PG), LITE):
        connection.execute(text)
    connection.execute("INSERT INTO customer VALUES (1, 'x')")
    connection.execute('INSERT INTO "order" (customer) VALUES (1)')
    assert connection.execute('SELECT id, total FROM "order"').fetchall() == [(1, 0)]


OPERATORS = ["=", "<>", "<", ">=", "IS", "AND", "OR", "+", "-", "*", "/", "%", "||", "&", "|", "<<", ">>", "LIKE"]
OPERANDS = [
    "0",
    "1",
    "2",
    "3",
    "NULL",
    "'1'",
    "-1",
    "NOT 1",
    "~2",
    "1 IN (1, 2)",
    "2 BETWEEN 0 AND 3",
    "1 IS NULL",
    "NULL NOTNULL",
]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(OPERATORS), st.sampled_from(OPERANDS)), min_size=1, max_size=4),
    st.sampled_from(OPERANDS),
)
def test_operators_are_grouped_as_sqlite_groups_them(rest: list[tuple[str, str]], first: str) -> None:
    """The text as it was written and the text with our parentheses give SQLite the same value."""
    text = first + "".join(f" {operator} {operand}" for operator, operand in rest)
    try:
        node = expression(text, LITE)
    except (OutsideFragment, MalformedProgram):
        return
    connection = sqlite3.connect(":memory:")
    try:
        expected = connection.execute(f"SELECT {text}").fetchone()
    except sqlite3.OperationalError:
        return
    assert connection.execute(f"SELECT {parenthesised(node)}").fetchone() == expected
    assert connection.execute(f"SELECT {render(node, LITE)}").fetchone() == expected


def parenthesised(node: Expression) -> str:
    """Every operation of two operands in parentheses."""
    if isinstance(node, BinaryOperation):
        left, right = (Name(f"{side}__") for side in ("left", "right"))
        outer = render(BinaryOperation(node.operator, left, right), LITE)
        return f"({outer.replace('left__', parenthesised(node.left)).replace('right__', parenthesised(node.right))})"
    return f"({render(node, LITE)})"


def test_a_deep_chain_is_rendered_without_parentheses() -> None:
    node: Expression = Name("a")
    for _ in range(50):
        node = BinaryOperation(Binary.AND, node, Name("a"))
    assert "(" not in render(node, PG)


@pytest.mark.parametrize("dialect", Dialect)
def test_what_is_read_as_no_name_is_written_in_quotes(dialect: Dialect) -> None:
    assert [word for word in RESERVED[dialect] if quoted(word.lower(), dialect) == word.lower()] == []
