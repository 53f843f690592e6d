"""TPC-C (TPC 2010): stock is looked at, orders are made, looked up, paid for and delivered.

The number of a district's next order is in the district's row. Rows that nobody inserts or deletes need no table.
"""

from __future__ import annotations

from random import Random
from typing import Any

from isolde.workloads.clients.tables import Keys, Table

DISTRICTS, CUSTOMERS, ITEMS = 4, 4, 4
WAREHOUSE = ("warehouse", 0)
ORDER, NEW_ORDER = Table("order"), Table("new order")
STOCK = 10


def district(number: int) -> tuple[Any, ...]:
    return ("district", number)


def customer(number: int) -> tuple[Any, ...]:
    return ("customer", number)


def stock(item: int) -> tuple[Any, ...]:
    return ("stock", item)


def new_order(tx: Keys, of_district: int, by_customer: int, item: int) -> None:
    order, paid = tx.read(district(of_district))
    tx.write(district(of_district), (order + 1, paid))
    left = tx.read(stock(item))
    tx.write(stock(item), left - 1 if left > 1 else left + STOCK)
    ORDER.insert(tx, (of_district, order), (by_customer, item, "ordered"))
    NEW_ORDER.insert(tx, (of_district, order), True)


def payment(tx: Keys, of_district: int, by_customer: int, amount: int) -> None:
    tx.write(WAREHOUSE, tx.read(WAREHOUSE) + amount)
    order, paid = tx.read(district(of_district))
    tx.write(district(of_district), (order, paid + amount))
    tx.write(customer(by_customer), tx.read(customer(by_customer)) - amount)


def order_status(tx: Keys, of_district: int, by_customer: int) -> None:
    """The customer's balance and his last order."""
    tx.read(customer(by_customer))
    for order in sorted(tx.read(ORDER.ids), reverse=True):
        if order[0] == of_district:
            row = tx.read(ORDER.row(order))
            # Below read atomic an id can be seen without its row.
            if row is not None and row[0] == by_customer:
                return


def delivery(tx: Keys, of_district: int) -> None:
    """Delivers the oldest order, and puts it on the customer's account."""
    waiting = [order for order in tx.read(NEW_ORDER.ids) if order[0] == of_district]
    if not waiting:
        return
    order = min(waiting)
    NEW_ORDER.delete(tx, order)
    row = tx.read(ORDER.row(order))
    if row is None:
        return
    by_customer, item, _ = row
    tx.write(ORDER.row(order), (by_customer, item, "delivered"))
    tx.write(customer(by_customer), tx.read(customer(by_customer)) + 1)


def stock_level(tx: Keys, of_district: int) -> None:
    """The stock of what was ordered last."""
    order, _ = tx.read(district(of_district))
    last = ORDER.select(tx, (of_district, order - 1))
    if last is not None:
        tx.read(stock(last[1]))


def initial() -> dict[Any, Any]:
    """Every district has one order that waits to be delivered."""
    state: dict[Any, Any] = {WAREHOUSE: 0}
    state |= {district(number): (1, 0) for number in range(DISTRICTS)}
    state |= {customer(number): 0 for number in range(CUSTOMERS)}
    state |= {stock(item): STOCK for item in range(ITEMS)}
    orders = {(number, 0): (0, 0, "ordered") for number in range(DISTRICTS)}
    return state | ORDER.initial(orders) | NEW_ORDER.initial(dict.fromkeys(orders, True))


def drawn(random: Random) -> tuple[Any, ...]:
    of_district, by_customer = random.randrange(DISTRICTS), random.randrange(CUSTOMERS)
    return random.choice(
        [
            (new_order, of_district, by_customer, random.randrange(ITEMS)),
            (payment, of_district, by_customer, random.randint(1, 9)),
            (order_status, of_district, by_customer),
            (delivery, of_district),
            (stock_level, of_district),
        ]
    )
