"""Eleven queries that a database answered wrongly (found by SQLancer, by its authors' list of bugs): ours is the right answer.

Each is transcribed to nodes; where the rows came about by a mode that is not strict, they are loaded as they were then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

from isolde.semantics.concrete import Store
from isolde.tx import expressions as ex
from isolde.tx import queries as qu
from isolde.tx import schema as sc
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Binary, Truth, Unary

Rows = list[tuple[Any, ...]]
BIGINT_UNSIGNED = sc.Type(sc.Kind.INTEGER, bits=64, unsigned=True)


@dataclass(frozen=True)
class Case:
    name: str
    tables: tuple[sc.Table, ...]
    rows: dict[str, Rows]
    query: qu.Select
    right: Rows
    wrong: Rows | str
    dialects: tuple[Dialect, ...] = field(default=(Dialect.MYSQL,))


def column(name: str, table: str = "t0") -> ex.Name:
    return ex.Name(name, table)


def operation(left: ex.Expression, operator: Binary, right: ex.Expression) -> ex.Expression:
    return ex.BinaryOperation(operator, left, right)


def value(constant: ex.Constant) -> ex.Expression:
    return ex.Literal(constant)


def one(expression: ex.Expression) -> qu.Select:
    return qu.Select((qu.Item(expression),))


def star(table: str, where: ex.Expression) -> qu.Select:
    return qu.Select((qu.Star(),), qu.TableSource(table), where)


def table(name: str, **columns: sc.Type) -> sc.Table:
    return sc.Table(name, tuple(sc.Column(key, type_) for key, type_ in columns.items()))


C0, C1 = column("c0"), column("c0", "t1")
TEXTS = table("t0", c0=sc.TEXT)
INTS = table("t0", c0=sc.INTEGER)
FOUR = sc.Table("t0", tuple(sc.Column(f"c{place}", sc.INTEGER) for place in range(4)), uniques=(("c0",), ("c3",)))
FLOATS = (table("t0", c0=sc.FLOAT), table("t1", c0=sc.FLOAT))
NEWLINE = "\n1"
NO_ROW = "an error: can't find record"

CASES = (
    Case(
        "null in a query over nulls and numbers is unknown",
        (FOUR,),
        {"t0": [(None, None, None, None), (0, 1, None, 0), (None, None, None, 1), (2, 1, None, 3)]},
        one(ex.InQuery(value(None), qu.Select((qu.Item(column("c3")),), qu.TableSource("t0"), C0))),
        [(None,)],
        NO_ROW,
    ),
    Case(
        "null in an empty query is false",
        (sc.Table("t0", (sc.Column("c0", sc.INTEGER),), uniques=(("c0",),)),),
        {"t0": [(None,), (0,)]},
        one(
            ex.InQuery(
                value(None),
                qu.Select(
                    (qu.Item(C0),), qu.TableSource("t0"), ex.Is(operation(C0, Binary.OR, value(True)), Truth.NULL)
                ),
            )
        ),
        [(0,)],
        NO_ROW,
    ),
    Case(
        "a fraction is true",
        (INTS,),
        {"t0": [(1,)]},
        star("t0", ex.Call(ex.Function.IF, (value(False), C0, value(Decimal("0.1"))))),
        [(1,)],
        [],
    ),
    Case("a text that is a fraction is true", (TEXTS,), {"t0": [("0.9",)]}, star("t0", C0), [("0.9",)], []),
    Case(
        "a negative number as an unsigned one is not zero",
        (table("t0", c0=BIGINT_UNSIGNED),),
        {"t0": [(None,)]},
        star(
            "t0",
            ex.Cast(ex.Call(ex.Function.COALESCE, (C0, ex.UnaryOperation(Unary.NEGATE, value(1)))), BIGINT_UNSIGNED),
        ),
        [(None,)],
        [],
    ),
    *(
        Case(
            f"a text that is a fraction in {operator}",
            (TEXTS,),
            {"t0": [("0.5",)]},
            star("t0", operation(C0, operator, value(other))),
            [("0.5",)],
            [],
        )
        for operator, other in ((Binary.AND, 1), (Binary.OR, 0), (Binary.XOR, 0))
    ),
    *(
        Case(
            f"white space before a number in {operator}",
            (),
            {},
            one(operation(value(NEWLINE), operator, value(other))),
            [(right,)],
            [(wrong,)],
        )
        for operator, other, right, wrong in (
            (Binary.BIT_AND, 1, 1, 0),
            (Binary.BIT_OR, 0, 1, 0),
            (Binary.BIT_XOR, 1, 0, 1),
        )
    ),
    Case(
        "not not is a truth value",
        (INTS,),
        {"t0": [(2,)]},
        qu.Select(
            (qu.Item(C0),),
            qu.TableSource("t0"),
            operation(ex.UnaryOperation(Unary.NOT, ex.UnaryOperation(Unary.NOT, C0)), Binary.EQUAL, C0),
        ),
        [],
        [(2,)],
        (Dialect.MYSQL, Dialect.SQLITE),
    ),
    Case(
        "and of fractions",
        (table("t0", c0=sc.BOOLEAN),),
        {"t0": [(0,)]},
        star("t0", operation(value(1), Binary.AND, value(Decimal("0.4")))),
        [(0,)],
        [],
        (Dialect.MYSQL, Dialect.SQLITE),
    ),
    Case(
        "zero equals its negative",
        FLOATS,
        {"t0": [(0.0,)], "t1": [(0.0,)]},
        qu.Select(
            (qu.Item(C1),),
            qu.Join(qu.JoinKind.INNER, qu.TableSource("t1"), qu.TableSource("t0"), None),
            operation(C0, Binary.EQUAL, ex.UnaryOperation(Unary.NEGATE, C1)),
        ),
        [(0.0,)],
        [],
        tuple(Dialect),
    ),
    Case(
        "a left join keeps each of equal rows",
        (sc.Table("t0", (sc.Column("t0", sc.INTEGER),), uniques=(("t0",),)), FLOATS[1]),
        {"t0": [(None,), (None,)], "t1": [(0.0,)]},
        qu.Select((qu.Item(C1),), qu.Join(qu.JoinKind.LEFT, qu.TableSource("t1"), qu.TableSource("t0"), value(1))),
        [(0.0,), (0.0,)],
        [(0.0,)],
        (Dialect.MYSQL, Dialect.SQLITE),
    ),
)


@pytest.mark.parametrize(
    ("case", "dialect"),
    [(case, dialect) for case in CASES for dialect in case.dialects],
    ids=lambda part: getattr(part, "name", part),
)
def test_the_store_gives_the_right_answer(case: Case, dialect: Dialect) -> None:
    store = Store(sc.Schema.of(*case.tables), dialect)
    for name, rows in case.rows.items():
        store.load(name, rows)
    found = store.transaction().run(case.query).rows
    assert found == case.right
    assert found != case.wrong
