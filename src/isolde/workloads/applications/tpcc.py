"""TPC-C: a wholesale supplier with warehouses, districts and customers.

The five transactions of the standard (TPC Benchmark C, revision 5.11, clause 2) with its mix, as its sample programs (appendix A)
have them: no lock is asked for, so a weak level can show what it allows. The tables are in ``tpcc_tables``, the twelve
consistency conditions of clause 3.3.2 in ``tpcc_conditions``, what clauses 2.1.6, 4.3.2 and 4.3.3 say about numbers, names and
first rows in ``tpcc_data``. What differs:

* Amounts are whole cents, rates (taxes and discounts) ten-thousandths, times milliseconds: integers, exact everywhere.
  Rates are wide, as what they are multiplied with does not fit into 32 bits.
* A history row has an id; the standard's has no key, and not every reading can tell apart two rows that are equal.
* A delivery is one transaction for all districts of a warehouse and is not deferred; terminals and think times are left out.
* Whether an item is of a brand or generic (clause 2.4.2.2) is for the terminal: its data and those of the stock are read.
"""

from __future__ import annotations

from typing import Any

from isolde.tx.python import Handle, transaction
from isolde.workloads.application import Application, Part
from isolde.workloads.applications import APPLICATIONS, tpcc_data
from isolde.workloads.applications.tpcc_conditions import CONDITIONS
from isolde.workloads.applications.tpcc_tables import DDL


# fmt: off
@transaction
def new_order(
    tx: Handle, w_id: int, d_id: int, c_id: int, all_local: int, now: int, lines: list[tuple[int, int, int]]
) -> Any:
    """Clause 2.4: an order of five to fifteen lines, each an item, the warehouse that supplies it and how many are wanted.

    The item of the last line may be unused: the order is rolled back. Gives the number of the order and what it costs, in units
    of 10 ** -10 dollars.
    """
    warehouse = tx.one("SELECT w_tax FROM warehouse WHERE w_id = :w_id", w_id=w_id)
    district = tx.one(
        "SELECT d_tax, d_next_o_id FROM district WHERE d_w_id = :w_id AND d_id = :d_id", w_id=w_id, d_id=d_id
    )
    customer = tx.one(
        "SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = :w_id AND c_d_id = :d_id AND c_id = :c_id",
        w_id=w_id, d_id=d_id, c_id=c_id,
    )
    if warehouse is None or district is None or customer is None:
        tx.abort("no such customer")
    o_id = district.d_next_o_id
    tx.execute(
        "UPDATE district SET d_next_o_id = :next_o_id WHERE d_w_id = :w_id AND d_id = :d_id",
        next_o_id=o_id + 1, w_id=w_id, d_id=d_id,
    )
    tx.execute(
        "INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)"
        " VALUES (:w_id, :d_id, :o_id, :c_id, :now, NULL, :ol_cnt, :all_local)",
        w_id=w_id, d_id=d_id, o_id=o_id, c_id=c_id, now=now, ol_cnt=len(lines), all_local=all_local,
    )
    tx.execute(
        "INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES (:w_id, :d_id, :o_id)",
        w_id=w_id, d_id=d_id, o_id=o_id,
    )
    total = 0
    number = 0
    for i_id, supply_w_id, quantity in lines:
        number = number + 1
        item = tx.one("SELECT i_price, i_name, i_data FROM item WHERE i_id = :i_id", i_id=i_id)
        if item is None:
            tx.abort("item number is not valid")
        stock = tx.one(
            "SELECT s_quantity, s_data, CASE :d_id WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03"
            " WHEN 4 THEN s_dist_04 WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06 WHEN 7 THEN s_dist_07"
            " WHEN 8 THEN s_dist_08 WHEN 9 THEN s_dist_09 ELSE s_dist_10 END AS s_dist"
            " FROM stock WHERE s_w_id = :supply_w_id AND s_i_id = :i_id",
            d_id=d_id, supply_w_id=supply_w_id, i_id=i_id,
        )
        if stock is None:
            tx.abort("the warehouse does not stock the item")
        left = stock.s_quantity - quantity
        if left < 10:
            left = left + 91
        tx.execute(
            "UPDATE stock SET s_quantity = :left, s_ytd = s_ytd + :quantity, s_order_cnt = s_order_cnt + 1,"
            " s_remote_cnt = s_remote_cnt + :remote WHERE s_w_id = :supply_w_id AND s_i_id = :i_id",
            left=left, quantity=quantity, remote=0 if supply_w_id == w_id else 1, supply_w_id=supply_w_id, i_id=i_id,
        )
        amount = quantity * item.i_price
        total = total + amount
        tx.execute(
            "INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d,"
            " ol_quantity, ol_amount, ol_dist_info) VALUES (:w_id, :d_id, :o_id, :number, :i_id, :supply_w_id, NULL,"
            " :quantity, :amount, :dist_info)",
            w_id=w_id, d_id=d_id, o_id=o_id, number=number, i_id=i_id, supply_w_id=supply_w_id,
            quantity=quantity, amount=amount, dist_info=stock.s_dist,
        )
    return o_id, total * (10000 - customer.c_discount) * (10000 + warehouse.w_tax + district.d_tax)
# fmt: on


@transaction
def payment(
    tx: Handle,
    w_id: int,
    d_id: int,
    c_w_id: int,
    c_d_id: int,
    by_name: int,
    c_id: int,
    c_last: str,
    amount: int,
    h_id: int,
    now: int,
) -> None:
    """Clause 2.5: a customer pays. He is given by his number, or by his last name (``by_name`` is 1)."""
    warehouse = tx.one(
        "SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse WHERE w_id = :w_id", w_id=w_id
    )
    tx.execute("UPDATE warehouse SET w_ytd = w_ytd + :amount WHERE w_id = :w_id", amount=amount, w_id=w_id)
    district = tx.one(
        "SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district WHERE d_w_id = :w_id AND d_id = :d_id",
        w_id=w_id,
        d_id=d_id,
    )
    tx.execute(
        "UPDATE district SET d_ytd = d_ytd + :amount WHERE d_w_id = :w_id AND d_id = :d_id",
        amount=amount,
        w_id=w_id,
        d_id=d_id,
    )
    chosen = c_id
    if by_name == 1:
        chosen = 0
        namesakes = tx.all(
            "SELECT c_id FROM customer WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_last = :c_last ORDER BY c_first, c_id",
            c_w_id=c_w_id,
            c_d_id=c_d_id,
            c_last=c_last,
        )
        # The one at position n / 2, rounded up, of n (clause 2.5.2.2, case 2).
        many = len(namesakes)
        passed = 0
        for namesake in namesakes:
            passed = passed + 1
            if passed + passed >= many:
                chosen = namesake.c_id
                break
    customer = tx.one(
        "SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_credit,"
        " c_credit_lim, c_discount, c_balance FROM customer WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_id = :c_id",
        c_w_id=c_w_id,
        c_d_id=c_d_id,
        c_id=chosen,
    )
    if warehouse is None or district is None or customer is None:
        tx.abort("no such customer")
    tx.execute(
        "UPDATE customer SET c_balance = c_balance - :amount, c_ytd_payment = c_ytd_payment + :amount,"
        " c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_id = :c_id",
        amount=amount,
        c_w_id=c_w_id,
        c_d_id=c_d_id,
        c_id=chosen,
    )
    if customer.c_credit == "BC":
        tx.execute(
            "UPDATE customer SET c_data = SUBSTRING(CAST(c_id AS VARCHAR(20)) || ' ' || CAST(c_d_id AS VARCHAR(20)) || ' '"
            " || CAST(c_w_id AS VARCHAR(20)) || ' ' || CAST(:d_id AS VARCHAR(20)) || ' ' || CAST(:w_id AS VARCHAR(20))"
            " || ' ' || CAST(:amount AS VARCHAR(20)) || ' ' || c_data, 1, 500)"
            " WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_id = :c_id",
            d_id=d_id,
            w_id=w_id,
            amount=amount,
            c_w_id=c_w_id,
            c_d_id=c_d_id,
            c_id=chosen,
        )
    tx.execute(
        "INSERT INTO history (h_id, h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)"
        " VALUES (:h_id, :c_id, :c_d_id, :c_w_id, :d_id, :w_id, :now, :amount,"
        " CAST(:w_name AS VARCHAR(10)) || '    ' || CAST(:d_name AS VARCHAR(10)))",
        h_id=h_id,
        c_id=chosen,
        c_d_id=c_d_id,
        c_w_id=c_w_id,
        d_id=d_id,
        w_id=w_id,
        now=now,
        amount=amount,
        w_name=warehouse.w_name,
        d_name=district.d_name,
    )


@transaction
def order_status(tx: Handle, w_id: int, d_id: int, by_name: int, c_id: int, c_last: str) -> Any:
    """Clause 2.6: the last order of a customer. Gives its number."""
    chosen = c_id
    if by_name == 1:
        chosen = 0
        namesakes = tx.all(
            "SELECT c_id FROM customer WHERE c_w_id = :w_id AND c_d_id = :d_id AND c_last = :c_last ORDER BY c_first, c_id",
            w_id=w_id,
            d_id=d_id,
            c_last=c_last,
        )
        many = len(namesakes)
        passed = 0
        for namesake in namesakes:
            passed = passed + 1
            if passed + passed >= many:
                chosen = namesake.c_id
                break
    customer = tx.one(
        "SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = :w_id AND c_d_id = :d_id AND c_id = :c_id",
        w_id=w_id,
        d_id=d_id,
        c_id=chosen,
    )
    if customer is None:
        tx.abort("no such customer")
    order = tx.one(
        "SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = :w_id AND o_d_id = :d_id AND o_c_id = :c_id"
        " ORDER BY o_id DESC LIMIT 1",
        w_id=w_id,
        d_id=d_id,
        c_id=chosen,
    )
    if order is None:
        return None
    tx.all(
        "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line"
        " WHERE ol_w_id = :w_id AND ol_d_id = :d_id AND ol_o_id = :o_id ORDER BY ol_number",
        w_id=w_id,
        d_id=d_id,
        o_id=order.o_id,
    )
    return order.o_id


@transaction
def delivery(tx: Handle, w_id: int, carrier_id: int, now: int, districts: int) -> None:
    """Clause 2.7: delivers the oldest new order of each district of a warehouse; a district without one is skipped."""
    for d_id in range(1, districts + 1):
        o_id = tx.value(
            "SELECT no_o_id FROM new_order WHERE no_w_id = :w_id AND no_d_id = :d_id ORDER BY no_o_id LIMIT 1",
            w_id=w_id,
            d_id=d_id,
        )
        if o_id is not None:
            tx.execute(
                "DELETE FROM new_order WHERE no_w_id = :w_id AND no_d_id = :d_id AND no_o_id = :o_id",
                w_id=w_id,
                d_id=d_id,
                o_id=o_id,
            )
            c_id = tx.value(
                "SELECT o_c_id FROM orders WHERE o_w_id = :w_id AND o_d_id = :d_id AND o_id = :o_id",
                w_id=w_id,
                d_id=d_id,
                o_id=o_id,
            )
            tx.execute(
                "UPDATE orders SET o_carrier_id = :carrier_id WHERE o_w_id = :w_id AND o_d_id = :d_id AND o_id = :o_id",
                carrier_id=carrier_id,
                w_id=w_id,
                d_id=d_id,
                o_id=o_id,
            )
            tx.execute(
                "UPDATE order_line SET ol_delivery_d = :now WHERE ol_w_id = :w_id AND ol_d_id = :d_id AND ol_o_id = :o_id",
                now=now,
                w_id=w_id,
                d_id=d_id,
                o_id=o_id,
            )
            total = tx.value(
                "SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id = :w_id AND ol_d_id = :d_id AND ol_o_id = :o_id",
                w_id=w_id,
                d_id=d_id,
                o_id=o_id,
            )
            tx.execute(
                "UPDATE customer SET c_balance = c_balance + :total, c_delivery_cnt = c_delivery_cnt + 1"
                " WHERE c_w_id = :w_id AND c_d_id = :d_id AND c_id = :c_id",
                total=total,
                w_id=w_id,
                d_id=d_id,
                c_id=c_id,
            )


@transaction
def stock_level(tx: Handle, w_id: int, d_id: int, threshold: int) -> Any:
    """Clause 2.8: how many items of the last 20 orders of a district are running out."""
    next_o_id = tx.value("SELECT d_next_o_id FROM district WHERE d_w_id = :w_id AND d_id = :d_id", w_id=w_id, d_id=d_id)
    if next_o_id is None:
        tx.abort("no such district")
    return tx.value(
        "SELECT COUNT(DISTINCT s.s_i_id) FROM order_line l JOIN stock s ON s.s_i_id = l.ol_i_id"
        " WHERE l.ol_w_id = :w_id AND l.ol_d_id = :d_id AND l.ol_o_id < :next_o_id AND l.ol_o_id >= :first_o_id"
        " AND s.s_w_id = :w_id AND s.s_quantity < :threshold",
        w_id=w_id,
        d_id=d_id,
        next_o_id=next_o_id,
        first_o_id=next_o_id - 20,
        threshold=threshold,
    )


_SIZES = {
    # Clause 1.2.1, for one warehouse.
    "standard": {"warehouses": 1, "districts": 10, "customers": 3000, "items": 100_000},
    # OOPSLA 2025, section 8.3.
    "troubadour": {"warehouses": 1, "districts": 2, "customers": 3, "items": 1},
    # POPL 2018, section 7; the items are the standard's, as it states none.
    "acidifier": {"warehouses": 10, "districts": 10, "customers": 3000, "items": 100_000},
}

_ENTRY = APPLICATIONS["tpcc"]

APPLICATION = Application(
    _ENTRY.name,
    _ENTRY.meaning,
    _ENTRY.source,
    DDL,
    (
        Part(new_order, 45, tpcc_data.new_order),
        Part(payment, 43, tpcc_data.payment),
        Part(order_status, 4, tpcc_data.order_status),
        Part(delivery, 4, tpcc_data.delivery),
        Part(stock_level, 4, tpcc_data.stock_level),
    ),
    tpcc_data.populate,
    {"warehouses": 2, "districts": 10, "customers": 30, "items": 100},
    CONDITIONS,
    _SIZES,
)
