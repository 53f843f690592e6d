"""How many transactions a second of processor time the store runs: bank transfers, and a new-order after TPC-C's."""

from __future__ import annotations

import time
from decimal import Decimal
from random import Random

from isolde.semantics.concrete import Store
from isolde.tx import expressions as ex
from isolde.tx import procedures as pr
from isolde.tx import queries as qu
from isolde.tx import schema as sc
from isolde.tx import statements as st
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Binary

WANTED = {"bank transfers": 20_000, "new-orders": 1_500}


def operation(left: ex.Expression, operator: Binary, right: ex.Expression) -> ex.Expression:
    return ex.BinaryOperation(operator, left, right)


def where(**keys: ex.Expression) -> ex.Expression:
    """Equalities, joined by AND."""
    first, *rest = [operation(ex.Name(column), Binary.EQUAL, value) for column, value in keys.items()]
    for condition in rest:
        first = operation(first, Binary.AND, condition)
    return first


def read(table: str, columns: tuple[str, ...], **keys: ex.Expression) -> qu.Select:
    return qu.Select(tuple(qu.Item(ex.Name(column)) for column in columns), qu.TableSource(table), where(**keys))


def change(table: str, keys: dict[str, ex.Expression], **values: ex.Expression) -> pr.Run:
    return pr.Run(
        st.Update(table, tuple(st.Assignment(column, value) for column, value in values.items()), where(**keys))
    )


def insert(table: str, **values: ex.Expression) -> pr.Run:
    return pr.Run(st.Insert(table, tuple(values), (tuple(values.values()),)))


P, V, N = ex.Parameter, ex.Name, ex.Literal


def table(name: str, key: tuple[str, ...], **columns: sc.Type) -> sc.Table:
    return sc.Table(name, tuple(sc.Column(column, type_, nullable=False) for column, type_ in columns.items()), key)


# Bank

ACCOUNTS = table("accounts", ("id",), id=sc.INTEGER, balance=sc.BIGINT)
TRANSFER = pr.Procedure(
    "transfer",
    (pr.Local("source"), pr.Local("target"), pr.Local("amount")),
    (
        pr.Fetch(read("accounts", ("balance",), id=P("source")), ("have",)),
        pr.Fetch(read("accounts", ("balance",), id=P("target")), ("there",)),
        pr.If(
            (
                (
                    operation(V("have"), Binary.GREATER_EQUAL, P("amount")),
                    (
                        change(
                            "accounts", {"id": P("source")}, balance=operation(V("have"), Binary.SUBTRACT, P("amount"))
                        ),
                        change("accounts", {"id": P("target")}, balance=operation(V("there"), Binary.ADD, P("amount"))),
                    ),
                ),
            ),
        ),
    ),
)

# New-order, with 5 to 15 lines as the standard has it

INT, MONEY = sc.INTEGER, sc.decimal(12, 2)
NEW_ORDER_TABLES = (
    table("warehouse", ("w_id",), w_id=INT, w_tax=sc.decimal(4, 4)),
    table("district", ("d_w_id", "d_id"), d_w_id=INT, d_id=INT, d_tax=sc.decimal(4, 4), d_next_o_id=INT),
    table("customer", ("c_w_id", "c_d_id", "c_id"), c_w_id=INT, c_d_id=INT, c_id=INT, c_discount=MONEY, c_last=sc.TEXT),
    table("item", ("i_id",), i_id=INT, i_name=sc.TEXT, i_price=sc.decimal(5, 2)),
    table("stock", ("s_w_id", "s_i_id"), s_w_id=INT, s_i_id=INT, s_quantity=INT, s_ytd=MONEY, s_order_cnt=INT, s_dist=sc.TEXT),
    table("orders", ("o_w_id", "o_d_id", "o_id"), o_w_id=INT, o_d_id=INT, o_id=INT, o_c_id=INT, o_ol_cnt=INT),
    table("new_order", ("no_w_id", "no_d_id", "no_o_id"), no_w_id=INT, no_d_id=INT, no_o_id=INT),
    table(
        "order_line", ("ol_w_id", "ol_d_id", "ol_o_id", "ol_number"),
        ol_w_id=INT, ol_d_id=INT, ol_o_id=INT, ol_number=INT, ol_i_id=INT, ol_quantity=INT, ol_amount=MONEY, ol_dist=sc.TEXT,
    ),
)  # fmt: skip
KEYS: dict[str, ex.Expression] = {"d_w_id": P("w"), "d_id": P("d")}
STOCK: dict[str, ex.Expression] = {"s_w_id": P("w"), "s_i_id": V("i")}
ENOUGH = operation(V("quantity"), Binary.GREATER, operation(V("many"), Binary.ADD, N(10)))
LEFT = operation(V("quantity"), Binary.SUBTRACT, V("many"))
NEW_ORDER = pr.Procedure(
    "new_order",
    (pr.Local("w"), pr.Local("d"), pr.Local("c"), pr.Local("lines"), pr.Local("seed")),
    (
        pr.Fetch(read("warehouse", ("w_tax",), w_id=P("w")), ("w_tax",)),
        pr.Fetch(
            read("customer", ("c_discount", "c_last"), c_w_id=P("w"), c_d_id=P("d"), c_id=P("c")), ("discount", "last")
        ),
        pr.Fetch(read("district", ("d_tax", "d_next_o_id"), **KEYS), ("d_tax", "o")),
        change("district", KEYS, d_next_o_id=operation(V("d_next_o_id"), Binary.ADD, N(1))),
        insert("orders", o_w_id=P("w"), o_d_id=P("d"), o_id=V("o"), o_c_id=P("c"), o_ol_cnt=P("lines")),
        insert("new_order", no_w_id=P("w"), no_d_id=P("d"), no_o_id=V("o")),
        pr.ForRange(
            "n",
            N(1),
            P("lines"),
            (
                pr.Assign(
                    "i",
                    operation(
                        operation(operation(P("seed"), Binary.MULTIPLY, V("n")), Binary.MODULO, N(1000)),
                        Binary.ADD,
                        N(1),
                    ),
                ),
                pr.Assign("many", operation(operation(V("n"), Binary.MODULO, N(10)), Binary.ADD, N(1))),
                pr.Fetch(read("item", ("i_price", "i_name"), i_id=V("i")), ("price", "name"), required=True),
                pr.Fetch(read("stock", ("s_quantity", "s_dist"), **STOCK), ("quantity", "dist")),
                change(
                    "stock",
                    STOCK,
                    s_quantity=ex.Case(None, (ex.When(ENOUGH, LEFT),), operation(LEFT, Binary.ADD, N(91))),
                    s_ytd=operation(V("s_ytd"), Binary.ADD, V("many")),
                    s_order_cnt=operation(V("s_order_cnt"), Binary.ADD, N(1)),
                ),
                insert(
                    "order_line",
                    ol_w_id=P("w"),
                    ol_d_id=P("d"),
                    ol_o_id=V("o"),
                    ol_number=V("n"),
                    ol_i_id=V("i"),
                    ol_quantity=V("many"),
                    ol_amount=operation(V("many"), Binary.MULTIPLY, V("price")),
                    ol_dist=V("dist"),
                ),
            ),
        ),
        pr.Return((V("o"),)),
    ),
)


def transfers(dialect: Dialect, count: int) -> float:
    store = Store(sc.Schema.of(ACCOUNTS), dialect)
    program = pr.Program(store.schema, (TRANSFER,))
    store.load("accounts", [(place, 100) for place in range(1000)])
    random = Random(1)
    inputs = [(random.randrange(1000), random.randrange(1000), random.randrange(1, 20)) for _ in range(count)]
    start = time.process_time()
    for arguments in inputs:
        store.call(program, "transfer", arguments)
    return count / (time.process_time() - start)


def new_orders(dialect: Dialect, count: int) -> float:
    store = Store(sc.Schema.of(*NEW_ORDER_TABLES), dialect)
    program = pr.Program(store.schema, (NEW_ORDER,))
    tax = Decimal("0.1000") if dialect is not Dialect.SQLITE else 0.1
    store.load("warehouse", [(1, tax)])
    store.load("district", [(1, place, tax, 1) for place in range(1, 11)])
    store.load("customer", [(1, district, place, tax, "BAR") for district in range(1, 11) for place in range(1, 101)])
    store.load(
        "item",
        [(place, "thing", Decimal("9.50") if dialect is not Dialect.SQLITE else 9.5) for place in range(1, 1001)],
    )
    zero = Decimal("0.00") if dialect is not Dialect.SQLITE else 0
    store.load("stock", [(1, place, 50, zero, 0, "here") for place in range(1, 1001)])
    random = Random(1)
    inputs = [
        (1, random.randrange(1, 11), random.randrange(1, 101), random.randrange(5, 16), random.randrange(1, 10_000))
        for _ in range(count)
    ]
    start = time.process_time()
    for arguments in inputs:
        store.call(program, "new_order", arguments)
    return count / (time.process_time() - start)


if __name__ == "__main__":
    for name, measure, count in (("bank transfers", transfers, 40_000), ("new-orders", new_orders, 3_000)):
        for dialect in Dialect:
            rate = measure(dialect, count)
            print(f"{name:15} {dialect.value:11} {rate:9,.0f} a second of one core (wanted {WANTED[name]:,})")
