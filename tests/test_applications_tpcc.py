"""TPC-C: its sizes and the way its transactions are drawn are the standard's (clauses 1.2.1, 2.4.1, 2.5.1, 5.2.3)."""

from __future__ import annotations

from random import Random

import pytest

from applications_on_databases import broken, drawn, populate, sqlite, started
from isolde.workloads import application_named
from isolde.workloads.applications.tpcc_data import last_name, nurand

SIZES = application_named("tpcc").sizes


def test_tpcc_counts_rows_as_the_standard_does() -> None:
    application = application_named("tpcc")
    # A tenth of the standard's customers and a hundredth of its items: the ratios are what counts.
    scale = {**SIZES["standard"], "customers": 300, "items": 1000}
    counts: dict[str, int] = dict.fromkeys(application.schema.tables, 0)
    for table, row in application.populate(Random(1), scale):
        counts[table] += 1
        assert len(row) == len(application.schema.tables[table].columns)
    assert counts["warehouse"] == 1
    assert counts["district"] == 10
    assert counts["customer"] == counts["history"] == counts["orders"] == 3000
    assert counts["new_order"] == 900
    assert counts["stock"] == counts["item"] == 1000
    assert 9.5 < counts["order_line"] / counts["orders"] < 10.5


@pytest.mark.parametrize("scale", [SIZES["troubadour"], {"warehouses": 1, "districts": 1, "customers": 1, "items": 1}])
def test_tpcc_runs_on_the_smallest_sizes(scale: dict[str, int]) -> None:
    application, real = application_named("tpcc"), sqlite()
    populate(real, application, scale)
    for part, arguments in drawn(application, scale, seed=1)[:200]:
        real.call(part, arguments)
    assert broken(real, application) == {}


def test_tpcc_draws_as_the_standard_says() -> None:
    application, random = application_named("tpcc"), Random(7)
    parts = {part.name: part for part in application.parts}
    scale = {"warehouses": 3, "districts": 10, "customers": 3000, "items": 100_000}
    orders = [parts["new_order"].arguments(random, scale) for _ in range(20_000)]
    lines = [(order, item, supply) for order in orders for item, supply, _ in order["lines"]]
    assert 0.007 < sum(order["lines"][-1][0] > 100_000 for order in orders) / len(orders) < 0.013
    assert all(1 <= item <= 100_001 for _, item, _ in lines)
    assert 0.008 < sum(supply != order["w_id"] for order, _, supply in lines) / len(lines) < 0.012
    assert all(
        (order["all_local"] == 0) == any(supply != order["w_id"] for _, supply, _ in order["lines"]) for order in orders
    )
    assert {len(order["lines"]) for order in orders} == set(range(5, 16))
    payments = [parts["payment"].arguments(random, scale) for _ in range(20_000)]
    assert 0.13 < sum(one["c_w_id"] != one["w_id"] for one in payments) / len(payments) < 0.17
    assert 0.58 < sum(one["by_name"] for one in payments) / len(payments) < 0.62
    assert {part.name: part.weight for part in application.parts} == {
        "new_order": 45, "payment": 43, "order_status": 4, "delivery": 4, "stock_level": 4,
    }  # fmt: skip


def test_tpcc_takes_the_customer_in_the_middle_of_his_namesakes() -> None:
    application, real = started("tpcc")
    real.send(
        "UPDATE customer SET c_last = 'X', c_first = 'first ' || c_id WHERE c_w_id = 1 AND c_d_id = 1 AND c_id <= 4"
    )
    payment = next(part for part in application.parts if part.name == "payment")
    base = {
        "w_id": 1,
        "d_id": 1,
        "c_w_id": 1,
        "c_d_id": 1,
        "by_name": 1,
        "c_id": 0,
        "c_last": "X",
        "amount": 100,
        "now": 0,
    }
    real.call(payment, {**base, "h_id": 10_000})
    # Of four the second.
    assert real.send("SELECT h_c_id FROM history WHERE h_id = 10000").rows[0][0] == 2
    real.send("UPDATE customer SET c_last = 'X', c_first = 'first 5' WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 5")
    real.call(payment, {**base, "h_id": 10_001})
    # Of five the third.
    assert real.send("SELECT h_c_id FROM history WHERE h_id = 10001").rows[0][0] == 3


def test_tpcc_notes_payments_of_customers_with_bad_credit() -> None:
    application, real = started("tpcc")
    real.send("UPDATE customer SET c_credit = 'BC', c_data = 'before' WHERE c_w_id = 2 AND c_d_id = 1 AND c_id = 3")
    payment = next(part for part in application.parts if part.name == "payment")
    where = {"w_id": 1, "d_id": 2, "c_w_id": 2, "c_d_id": 1, "by_name": 0, "c_id": 3, "c_last": ""}
    real.call(payment, {**where, "amount": 250, "h_id": 10_000, "now": 0})
    found = real.send("SELECT c_data FROM customer WHERE c_w_id = 2 AND c_d_id = 1 AND c_id = 3").rows[0][0]
    assert found == "3 1 2 2 1 250 before"


def test_numbers_of_tpcc_are_skewed_and_within_bounds() -> None:
    random = Random(1)
    numbers = [nurand(random, 1023, 1, 3000, 259) for _ in range(30_000)]
    assert min(numbers) >= 1
    assert max(numbers) <= 3000
    counts = sorted((numbers.count(number) for number in set(numbers)), reverse=True)
    assert sum(counts[:300]) > 0.25 * len(numbers)
    assert last_name(0) == "BARBARBAR"
