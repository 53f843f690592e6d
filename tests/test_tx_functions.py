"""The functions of a dialect are those that its database has: all names are tried on the real one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal

import pytest
import sqlglot

from differential.databases import Failed, Real, SQLite
from differential.test_agreement_with_databases import connected
from isolde.databases.servers import Running
from isolde.errors import ExecutionError, MalformedProgram, OutsideFragment
from isolde.semantics.concrete import Store
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Function
from isolde.tx.schema import Schema
from isolde.tx.sql import schema, statement
from isolde.tx.sql.functions import FUNCTIONS, Named

PG, MY, LITE = Dialect.POSTGRESQL, Dialect.MYSQL, Dialect.SQLITE
TEXTS = {Function.CHARACTER_LENGTH, Function.CONCAT, Function.LOWER, Function.UPPER, Function.TRIM}
TABLE = "CREATE TABLE sample (i INT, s VARCHAR(9), d DECIMAL(8, 2), b BOOLEAN)"


@pytest.fixture(scope="module", params=["sqlite", "postgresql", "mariadb"])
def real(request: pytest.FixtureRequest, server: Callable[[str], Running]) -> Iterator[Real]:
    real = SQLite() if request.param == "sqlite" else connected(request.param, server(request.param))
    with closing(real):
        real.reset(schema(TABLE, real.dialect))
        real.execute("INSERT INTO sample VALUES (5, '7x', 1.5, NULL)")
        real.end(keep=True)
        yield real


def arguments(named: Named, count: int) -> str:
    if named.function is Function.SUBSTRING:
        return ", ".join(["'abc'", "2", "1"][:count])
    if named.function is Function.IF:
        return "1 = 1, 1, 2"
    return ", ".join(["'ab'" if named.function in TEXTS else "1"] * count)


def answered(real: Real, call: str) -> bool:
    try:
        real.execute(f"SELECT {call}")
    except Failed:
        return False
    return True


def test_every_function_that_is_read_is_one_of_the_database(real: Real) -> None:
    for name, named in FUNCTIONS[real.dialect].items():
        most = named.least + 3 if named.most is None else named.most
        for count in range(named.least, most + 1):
            call = f"{name}({arguments(named, count)})"
            statement(f"SELECT {call}", real.dialect)
            there = real.dialect is not LITE or sqlite3.sqlite_version_info >= named.since
            assert answered(real, call) is there, call


def test_every_number_of_arguments_that_is_not_read_is_an_error_of_the_database(real: Real) -> None:
    for name, named in FUNCTIONS[real.dialect].items():
        wrong = {named.least - 1, named.least if named.most is None else named.most + 1} - {-1}
        for count in wrong - set(range(named.least, (named.most or 9) + 1)):
            if count == 1 and name in {"NOW", "CURRENT_TIMESTAMP", "MAX", "MIN"}:
                # A precision, which the language does not have; and aggregates.
                continue
            if name in {"TRIM", "BTRIM"} and count > 1:
                continue
            call = f"{name}({', '.join(['1'] * count)})"
            with pytest.raises((MalformedProgram, OutsideFragment)):
                statement(f"SELECT {call}", real.dialect)
            assert not answered(real, call), call


def test_no_other_name_is_read_whatever_the_parser_knows(real: Real) -> None:
    names = {name for spoken in ("postgres", "mysql", "sqlite", "") for name in _names(spoken)}
    assert len(names) > 500
    read: dict[str, list[str]] = {}
    for name in sorted(
        names | {name for named in FUNCTIONS.values() for name in named} | {"NOW", "MOD", "ISNULL", "LEN"}
    ):
        for count in range(5):
            call = f"{name}({', '.join(['i', 'i', '2', '1'][:count])})"
            try:
                statement(f"SELECT {call} FROM sample", real.dialect)
            except (MalformedProgram, OutsideFragment):
                continue
            read.setdefault(name, []).append(call)
    aggregates = {"COUNT", "SUM", "MIN", "MAX", "AVG"}
    written = {PG: {"MOD"}, MY: {"MOD", "ISNULL"}, LITE: set[str]()}[real.dialect]
    assert set(read) - set(FUNCTIONS[real.dialect]) == (aggregates | written) - set(FUNCTIONS[real.dialect])
    for call in (call for name in aggregates | written for call in read[name]):
        assert answered(real, f"{call} FROM sample"), call


def _names(spoken: str) -> set[str]:
    parser = sqlglot.Dialect.get_or_raise(spoken).parser_class
    return {name for name in {*parser.FUNCTIONS, *parser.FUNCTION_PARSERS} if name.isidentifier()}


@pytest.mark.parametrize(
    ("dialect", "call", "expected"),
    [
        (LITE, "now()", "CURRENT_TIMESTAMP"),
        (LITE, "CURRENT_TIMESTAMP()", "without parentheses"),
        (LITE, "GREATEST(1, 2)", "MAX"),
        (LITE, "CHAR_LENGTH('a')", "LENGTH"),
        (LITE, "NVL(1, 2)", "COALESCE"),
        (LITE, "SUBSTRING('abc' FROM 2)", "SQL"),
        (PG, "IFNULL(1, 2)", "COALESCE"),
        (PG, "IF(TRUE, 1, 2)", "CASE"),
        (PG, "UCASE('a')", "UPPER"),
        (PG, "1 <=> 1", "operator"),
        (PG, "1 == 1", "operator"),
        (MY, "IIF(1, 1, 2)", "CASE"),
        (MY, "1::int", "operator"),
        (LITE, "5 DIV 2", "operator"),
        (MY, "VALUES()", "an expression"),
        (LITE, "TIMESTAMP '2020-01-01 00:00:00'", "literal"),
    ],
)
def test_what_another_database_has_is_no_sql_of_this_one(dialect: Dialect, call: str, expected: str) -> None:
    with pytest.raises(MalformedProgram, match=expected):
        statement(f"SELECT {call}", dialect)


@pytest.mark.parametrize(
    ("dialect", "call", "named"),
    [
        # 2.0 there, while 5 % 3 is 2.
        (LITE, "MOD(5, 3)", "use %"),
        # A name for the value there, not a test.
        (MY, "1 ISNULL", "IS NULL"),
        (MY, "LENGTH('a')", "bytes"),
        (PG, "BTRIM('xax', 'x')", "other characters"),
        (PG, "STRPOS('a', 'b')", "the function STRPOS"),
        (MY, "NOW(3)", "precision"),
    ],
)
def test_what_means_something_else_is_refused_by_name(dialect: Dialect, call: str, named: str) -> None:
    with pytest.raises(OutsideFragment, match=named):
        statement(f"SELECT {call}", dialect)


PLUSES = [
    "+ '5'", "+ 'x'", "+ i", "+ s", "+ d", "+ b", "+ NULL", "+ TRUE", "+ (1 = 1)", "+ (i)", "+ + i", "- + i", "+ - i", "+ -5", "+ (-5)",
    "5 + + '7'", "5 + + i", "+ s = '7x'", "+ i = '5'", "i = + '5'", "+ COALESCE(s, 'a')", "+ (SELECT s FROM sample)",
    "+ CASE WHEN 1 = 1 THEN 'a' END", "+ ABS(-3)", "+ 1 / 3 * 3", "+9223372036854775807", "- +9223372036854775808", "+ 5 IS NULL", "- + '5'",
    "+ '5' + 1", "+ +5", "+.5", "+ EXISTS (SELECT 1)", "COALESCE(+ NULL, 1)",
]  # fmt: skip


def test_a_plus_before_a_value_means_what_the_database_means_by_it(real: Real) -> None:
    tables: Schema = schema(TABLE, real.dialect)
    store = Store(tables, real.dialect)
    store.load("sample", [(5, "7x", 1.5 if real.dialect is LITE else Decimal("1.50"), None)])
    for plus in PLUSES:
        by = [f"SELECT i FROM sample ORDER BY {plus}"] if "9" not in plus else []
        # A number that the result has no column for is told when the text is read, in MySQL.
        for text in (f"SELECT {plus} FROM sample", *by):
            try:
                wanted: object = [(*map(repr, row),) for row in real.execute(text)[0]]
            except Failed as failure:
                wanted = "name" if "out of range" in failure.kind else failure.kind
            try:
                with store.transaction() as transaction:
                    found: object = [(*map(repr, row),) for row in transaction.run(statement(text, real.dialect)).rows]
            except ExecutionError as error:
                found = error.kind
            except MalformedProgram:
                found = "name"
            assert found == wanted, text
