"""The store: transactions, copies, procedures, and a table of what differs between dialects."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.concrete import Ending, Store
from isolde.tx import expressions as ex
from isolde.tx import procedures as pr
from isolde.tx import queries as qu
from isolde.tx import schema as sc
from isolde.tx import statements as st
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Binary

PG, MY, LITE = Dialect
ACCOUNTS = sc.Table("accounts", (sc.Column("id", sc.INTEGER), sc.Column("balance", sc.BIGINT, nullable=False)), ("id",))


def op(left: Any, operator: Binary, right: Any) -> ex.Expression:
    sides = [
        side if not isinstance(side, (int, str, Decimal, type(None))) else ex.Literal(side) for side in (left, right)
    ]
    return ex.BinaryOperation(operator, sides[0], sides[1])


def bank(dialect: Dialect) -> Store:
    store = Store(sc.Schema.of(ACCOUNTS), dialect)
    store.load("accounts", [(1, 10), (2, 20)])
    return store


def put(identity: int, balance: int | None) -> st.Insert:
    return st.Insert("accounts", (), ((ex.Literal(identity), ex.Literal(balance)),))


def add(amount: int) -> st.Update:
    return st.Update("accounts", (st.Assignment("balance", op(ex.Name("balance"), Binary.ADD, amount)),))


ANSWERS = [
    (op(7, Binary.DIVIDE, 2), 3, Decimal("3.5000"), 3),
    (op(7, Binary.DIVIDE, 0), "division-by-zero", None, None),
    (op(-7, Binary.MODULO, 2), -1, -1, -1),
    (op("a", Binary.EQUAL, "A "), False, 1, 0),
    (op("a", Binary.EQUAL, 0), "conversion", 1, 0),
    (op("10", Binary.EQUAL, 10), True, 1, 0),
    (op(Decimal("1.0"), Binary.DIVIDE, 3), Decimal("0.33333333333333333333"), Decimal("0.33333"), 1.0 / 3),
    (op(2**31 - 1, Binary.ADD, 1), "out-of-range", 2**31, 2**31),
    (op(2**63 - 1, Binary.ADD, 1), "out-of-range", "out-of-range", float(2**63)),
    (op(1, Binary.AND, Decimal("0.4")), "type", 1, 1),
    (op("\n1", Binary.BIT_AND, 1), "conversion-or-type", 1, 1),
    (ex.InList(ex.Literal(None), (ex.Literal(1),)), None, None, None),
    (ex.InList(ex.Literal(1), (ex.Literal(2), ex.Literal(None)), negated=True), None, None, None),
]


@pytest.mark.parametrize(("expression", "answers"), [(row[0], row[1:]) for row in ANSWERS])
def test_an_expression_means_what_the_dialect_says(expression: ex.Expression, answers: tuple[Any, ...]) -> None:
    for dialect, right in zip(Dialect, answers, strict=True):
        run = Store(sc.Schema.of(), dialect).transaction().run
        query = qu.Select((qu.Item(expression),))
        try:
            found: Any = run(query).rows[0][0]
        except ExecutionError as error:
            found = error.kind
        if right == "conversion-or-type":
            assert found in (1, "conversion", "type")
            continue
        assert (found, type(found)) == (right, type(right)), dialect


@pytest.mark.parametrize("dialect", Dialect)
def test_a_statement_that_fails_leaves_nothing_behind(dialect: Dialect) -> None:
    store = bank(dialect)
    transaction = store.transaction()
    transaction.run(add(1))
    with pytest.raises(ExecutionError, match="already"):
        transaction.run(st.Insert("accounts", (), tuple((ex.Literal(key), ex.Literal(0)) for key in (3, 1))))
    if dialect is PG:
        with pytest.raises(ExecutionError, match="failed"):
            transaction.run(add(1))
        transaction.commit()
        assert store.state() == {"accounts": [(1, 10), (2, 20)]}
    else:
        transaction.commit()
        assert store.state() == {"accounts": [(1, 11), (2, 21)]}


@pytest.mark.parametrize("dialect", Dialect)
def test_rolling_back_restores_rows_keys_and_order(dialect: Dialect) -> None:
    store = bank(dialect)
    transaction = store.transaction()
    transaction.run(st.Delete("accounts", op(ex.Name("id"), Binary.EQUAL, 1)))
    transaction.run(put(1, 99))
    transaction.run(add(5))
    transaction.rollback()
    assert store.state() == {"accounts": [(1, 10), (2, 20)]}
    with pytest.raises(ExecutionError):
        store.transaction().run(put(1, 0))


def test_a_copy_has_its_own_rows() -> None:
    store = bank(PG)
    twin = store.copy()
    assert twin == store
    with twin.transaction() as transaction:
        transaction.run(add(1))
    assert store.state() == {"accounts": [(1, 10), (2, 20)]}
    assert twin != store


def test_a_null_in_a_column_that_takes_none_is_an_error() -> None:
    with pytest.raises(ExecutionError) as caught:
        bank(PG).transaction().run(put(3, None))
    assert caught.value.kind == "not-null"


def test_an_update_whose_success_depends_on_the_order_is_refused() -> None:
    with pytest.raises(OutsideFragment):
        bank(PG).transaction().run(st.Update("accounts", (st.Assignment("id", op(ex.Name("id"), Binary.ADD, 1)),)))


@pytest.mark.parametrize("dialect", Dialect)
def test_procedures_return_abort_and_fail_assertions(dialect: Dialect) -> None:
    store = bank(dialect)
    guarded = pr.Procedure(
        "spend",
        (pr.Local("amount"),),
        (
            pr.Run(add(-1)),
            pr.Fetch(
                qu.Select((qu.Item(ex.Aggregate(ex.Aggregation.MIN, ex.Name("balance"))),), qu.TableSource("accounts")),
                ("least",),
            ),
            pr.If(((op(ex.Name("amount"), Binary.GREATER, ex.Name("least")), (pr.Abort(ex.Literal("too much")),)),)),
            pr.Assert(op(ex.Name("amount"), Binary.GREATER, 0), "positive"),
            pr.Return((ex.Name("least"),)),
        ),
    )
    program = pr.Program(store.schema, (guarded,))
    assert store.call(program, "spend", {"amount": 3}).values == (9,)
    assert store.call(program, "spend", {"amount": 50}).reason == "too much"
    assert store.call(program, "spend", {"amount": 0}).ending is Ending.ASSERTION_FAILED
    assert store.state() == {"accounts": [(1, 9), (2, 19)]}


@pytest.mark.parametrize("dialect", Dialect)
def test_names_and_types_matter_only_where_a_procedure_gets_to(dialect: Dialect) -> None:
    missing = qu.Select((qu.Item(ex.Name("nothing")),), qu.TableSource("accounts"))
    wrong = op(ex.ScalarQuery(missing), Binary.EQUAL, 1)
    positive = op(ex.Name("amount"), Binary.GREATER, 0)
    careful = pr.Procedure(
        "careful",
        (pr.Local("amount", sc.INTEGER),),
        (
            pr.If(((positive, (pr.Run(add(1)),)), (wrong, ()))),
            pr.If(((positive, ()),), (pr.Fetch(missing, ("found",)),)),
            pr.Return((ex.Name("amount"),)),
        ),
    )
    store = bank(dialect)
    program = pr.Program(store.schema, (careful,))
    assert store.call(program, "careful", {"amount": 1}).values == (1,)
    with pytest.raises(ExecutionError, match="nothing"):
        store.call(program, "careful", {"amount": 0})
    assert store.state() == {"accounts": [(1, 11), (2, 21)]}


def test_an_endless_loop_ends() -> None:
    store = Store(sc.Schema.of(ACCOUNTS), PG, steps_max=100)
    endless = pr.Procedure("p", (), (pr.While(ex.Literal(True), ()),))
    with pytest.raises(ExecutionError, match="100 rounds"):
        store.call(pr.Program(store.schema, (endless,)), "p")
