"""PostgreSQL computes constants when it plans: what fails then fails on empty tables too, and in branches that no row takes."""

from __future__ import annotations

import pytest

from isolde.errors import ExecutionError
from isolde.semantics.concrete import Store
from isolde.tx import expressions as ex
from isolde.tx import procedures as pr
from isolde.tx import queries as qu
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Binary
from isolde.tx.sql import schema, statement

PG = Dialect.POSTGRESQL
FAILS = [
    "SELECT 1/0 FROM t WHERE i > 100",
    "SELECT i FROM t WHERE i > 100 AND 1/0 = 1",
    "SELECT i FROM t WHERE NULL AND 1/0 = 1",
    "SELECT i FROM t WHERE i > 100 AND (i = 1 OR 1/0 = 1)",
    "SELECT CASE WHEN i > 0 THEN 1 ELSE 1/0 END FROM t",
    "SELECT CASE i WHEN 200 THEN 1/0 ELSE i END FROM t",
    "SELECT CASE WHEN i > 0 THEN 1 WHEN 1/0 = 1 THEN 2 END FROM t",
    "SELECT CASE WHEN now() IS NULL THEN 1/0 ELSE 1 END FROM t",
    "SELECT CASE WHEN concat('a', 1) = 'c' THEN 1/0 ELSE 1 END FROM t",
    "SELECT coalesce(i, 1/0) FROM t",
    "SELECT NULL + 1/0 FROM t WHERE i > 100",
    "SELECT (SELECT 1/0 FROM t AS q WHERE q.i > 100) FROM t",
    "SELECT i FROM t WHERE EXISTS (SELECT 1 FROM t AS q WHERE q.i > 100 AND 1/0 = 1)",
    "SELECT i FROM t WHERE i > 100 AND i IN (SELECT q.i FROM t AS q WHERE 1/0 = q.i)",
    "SELECT z.y FROM (SELECT i AS y FROM t WHERE i > 100 AND 1/0 = 1) AS z",
    "SELECT i FROM t WHERE i > 100 AND i IN (1, 2, 1/0)",
    "SELECT i FROM t WHERE i > 100 AND i BETWEEN 1 AND 1/0",
    "SELECT i FROM t WHERE i > 100 AND greatest(i, 1/0) = 1",
    "SELECT sum(1/0) FROM t WHERE i > 100",
    "SELECT i FROM t WHERE i > 100 ORDER BY 1/0",
    "SELECT t.i FROM t LEFT JOIN t AS u ON t.i = u.i + 100 AND 1/0 = 1",
    "SELECT CASE WHEN i > 100 THEN 2147483647 + 1 END FROM t",
    "SELECT CASE WHEN i > 100 THEN CAST('x' || 'y' AS INT) END FROM t",
    "UPDATE t SET a = 2147483648 WHERE i > 100",
    "UPDATE t SET a = CASE WHEN i > 100 THEN 1/0 ELSE a END",
    "DELETE FROM t WHERE i > 100 RETURNING 1/0",
    "INSERT INTO t SELECT 10, 2147483648 FROM t WHERE i > 100",
    "INSERT INTO t SELECT 10, 'x' FROM t WHERE i > 100",
    "INSERT INTO t VALUES (20, 1) ON CONFLICT (i) DO UPDATE SET a = 2147483648",
]
RUNS = [
    "SELECT i FROM t WHERE false AND 1/0 = 1",
    "SELECT i FROM t WHERE i > 100 AND NOT true AND 1/0 = 1",
    "SELECT i FROM t WHERE i = 1 OR true OR 1/0 = 1",
    "SELECT CASE WHEN i > 0 THEN 1 ELSE i/0 END FROM t",
    "SELECT CASE WHEN true THEN 1 ELSE 1/0 END FROM t",
    "SELECT CASE WHEN 1 = 2 THEN 1/0 ELSE i END FROM t",
    "SELECT CASE 1 WHEN 2 THEN 1/0 ELSE i END FROM t",
    "SELECT CASE WHEN i = NULL THEN 1/0 ELSE 1 END FROM t",
    "SELECT CASE WHEN i IN (NULL) THEN 1/0 ELSE 1 END FROM t",
    "SELECT CASE WHEN 1 IN (2, 3) THEN 1/0 ELSE 1 END FROM t",
    "SELECT CASE WHEN 'a' LIKE 'b' THEN 1/0 ELSE 1 END FROM t",
    "SELECT CASE WHEN false THEN (SELECT 1/0 FROM t AS q) ELSE i END FROM t",
    "SELECT coalesce(i, 1, 1/0) FROM t",
    "SELECT i FROM t WHERE EXISTS (SELECT 1/0 FROM t AS q)",
    "SELECT i FROM t WHERE false AND EXISTS (SELECT 1 FROM t AS q WHERE 1/0 = q.i)",
    "UPDATE t SET a = CASE WHEN i > 100 THEN 2147483648 ELSE a END",
    "INSERT INTO t SELECT DISTINCT 10, 2147483648 FROM t WHERE i > 100",
]


def store() -> Store:
    found = Store(schema("CREATE TABLE t (i INT PRIMARY KEY, a INT)", PG), PG)
    found.load("t", [(1, 1), (2, 1), (3, 2)])
    return found


@pytest.mark.parametrize("text", FAILS)
def test_a_constant_that_fails_when_it_is_planned(text: str) -> None:
    with pytest.raises(ExecutionError) as caught:
        store().transaction().run(statement(text, PG))
    assert caught.value.kind in ("division-by-zero", "out-of-range", "conversion")


@pytest.mark.parametrize("text", RUNS)
def test_a_constant_that_is_hidden_or_never_asked_for(text: str) -> None:
    store().transaction().run(statement(text, PG))


def test_a_procedure_plans_a_statement_when_it_gets_there() -> None:
    doomed = pr.Fetch(statement("SELECT 1/0 FROM t WHERE i > 100", PG), ("found",))
    asked = ex.BinaryOperation(Binary.GREATER, ex.Name("n"), ex.Literal(0))
    procedure = pr.Procedure("p", (pr.Local("n"),), (pr.If(((asked, (doomed,)),)), pr.Return((ex.Name("n"),))))
    bank = store()
    program = pr.Program(bank.schema, (procedure,))
    assert bank.call(program, "p", {"n": 0}).values == (0,)
    with pytest.raises(ExecutionError, match="zero"):
        bank.call(program, "p", {"n": 1})


def test_a_variable_may_be_a_constant_of_the_plan_and_is_left_to_running() -> None:
    hidden = ex.Case(None, (ex.When(ex.Name("flag"), ex.BinaryOperation(Binary.DIVIDE, ex.Literal(1), ex.Literal(0))),))
    query = qu.Select((qu.Item(hidden),), qu.TableSource("t"))
    assert store().transaction().run(query, {"flag": False}).rows == [(None,)] * 3
