"""TPC-C: how arguments are drawn (clauses 2.4.1 to 2.8.1) and what the tables hold at first (clause 4.3.3).

Numbers of customers, items and last names are not uniform (clause 2.1.6). Sizes other than the standard's keep its ratios: a last
name for three customers, an order for each customer, of which seven in ten are delivered.
"""

from __future__ import annotations

from random import Random
from typing import Any

from isolde.workloads.application import Rows, Scale
from isolde.workloads.applications.drawing import fresh, moment, word

LINES_MAX = 15
_SYLLABLES = ("BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING")

# The constants C of clause 2.1.6. That of last names differs between the load and a run by 65 to 119, and not by 96 or 112.
_C_LAST_LOAD, _C_LAST_RUN, _C_CUSTOMER, _C_ITEM = 157, 223, 259, 7911


def nurand(random: Random, a: int, x: int, y: int, c: int) -> int:
    """Clause 2.1.6: a number from ``x`` to ``y``, some of them far more often than others."""
    return (((random.randint(0, a) | random.randint(x, y)) + c) % (y - x + 1)) + x


def last_name(number: int) -> str:
    """Clause 4.3.2.3.

    >>> last_name(371)
    'PRICALLYOUGHT'
    """
    return "".join(_SYLLABLES[int(digit)] for digit in f"{number:03d}")


def _names(scale: Scale) -> int:
    return min(1000, max(1, scale["customers"] // 3))


def _customer(random: Random, scale: Scale) -> int:
    return nurand(random, 1023, 1, scale["customers"], _C_CUSTOMER)


def _home(random: Random, scale: Scale) -> dict[str, Any]:
    return {"w_id": random.randint(1, scale["warehouses"]), "d_id": random.randint(1, scale["districts"])}


def _elsewhere(random: Random, scale: Scale, home: int) -> int:
    return random.choice([other for other in range(1, scale["warehouses"] + 1) if other != home])


def _identified(random: Random, scale: Scale) -> dict[str, Any]:
    """Six of ten customers are given by their last name (clauses 2.5.1.2 and 2.6.1.2)."""
    if random.randint(1, 100) <= 60:
        name = last_name(nurand(random, 255, 0, _names(scale) - 1, _C_LAST_RUN))
        return {"by_name": 1, "c_id": 0, "c_last": name}
    return {"by_name": 0, "c_id": _customer(random, scale), "c_last": ""}


def new_order(random: Random, scale: Scale) -> dict[str, Any]:
    """Clause 2.4.1. One order in a hundred is rolled back, one line in a hundred comes from another warehouse.

    The lines are sorted, which the standard leaves open: where sizes are small, orders that lock the same stock in opposite
    orders would spend their time in deadlocks.
    """
    home = _home(random, scale)
    lines = []
    for _ in range(random.randint(5, LINES_MAX)):
        item, supply = nurand(random, 8191, 1, scale["items"], _C_ITEM), home["w_id"]
        if scale["warehouses"] > 1 and random.randint(1, 100) == 1:
            supply = _elsewhere(random, scale, home["w_id"])
        lines.append((supply, item, random.randint(1, 10)))
    lines.sort()
    if random.randint(1, 100) == 1:
        lines[-1] = (lines[-1][0], scale["items"] + 1, lines[-1][2])
    all_local = int(all(supply == home["w_id"] for supply, _, _ in lines))
    ordered = [(item, supply, quantity) for supply, item, quantity in lines]
    customer = _customer(random, scale)
    return {**home, "c_id": customer, "all_local": all_local, "now": moment(random), "lines": ordered}


def payment(random: Random, scale: Scale) -> dict[str, Any]:
    """Clause 2.5.1. Fifteen of a hundred customers pay at a warehouse that is not theirs."""
    home = _home(random, scale)
    of_customer = {"c_w_id": home["w_id"], "c_d_id": home["d_id"]}
    if scale["warehouses"] > 1 and random.randint(1, 100) > 85:
        other = _elsewhere(random, scale, home["w_id"])
        of_customer = {"c_w_id": other, "c_d_id": random.randint(1, scale["districts"])}
    amount = random.randint(1_00, 5000_00)
    identified = _identified(random, scale)
    return {**home, **of_customer, **identified, "amount": amount, "h_id": fresh(random), "now": moment(random)}


def order_status(random: Random, scale: Scale) -> dict[str, Any]:
    """Clause 2.6.1."""
    return {**_home(random, scale), **_identified(random, scale)}


def delivery(random: Random, scale: Scale) -> dict[str, Any]:
    """Clause 2.7.1."""
    return {
        "w_id": random.randint(1, scale["warehouses"]),
        "carrier_id": random.randint(1, 10),
        "now": moment(random),
        "districts": scale["districts"],
    }


def stock_level(random: Random, scale: Scale) -> dict[str, Any]:
    """Clause 2.8.1."""
    return {**_home(random, scale), "threshold": random.randint(10, 20)}


def populate(random: Random, scale: Scale) -> Rows:
    """Clause 4.3.3.1, table by table."""
    for item in range(1, scale["items"] + 1):
        yield (
            "item",
            (
                *(item, random.randint(1, 10_000), word(random, 14, 24), random.randint(1_00, 100_00)),
                _marked(random),
            ),
        )
    for w_id in range(1, scale["warehouses"] + 1):
        yield from _warehouse(random, scale, w_id)


def _marked(random: Random) -> str:
    """Data in which one of ten has the word ORIGINAL somewhere."""
    text = word(random, 26, 50)
    if random.randint(1, 10) > 1:
        return text
    start = random.randint(0, len(text) - 8)
    return text[:start] + "ORIGINAL" + text[start + 8 :]


def _address(random: Random) -> tuple[str, ...]:
    street = (word(random, 10, 20), word(random, 10, 20), word(random, 10, 20), word(random, 2, 2).upper())
    return (*street, f"{random.randrange(10_000):04d}11111")


def _warehouse(random: Random, scale: Scale, w_id: int) -> Rows:
    # Every customer has paid ten dollars: 30,000.00 a district and 300,000.00 a warehouse in the standard.
    of_district = 10_00 * scale["customers"]
    taken = of_district * scale["districts"]
    yield "warehouse", (w_id, word(random, 6, 10), *_address(random), random.randint(0, 2000), taken)
    for item in range(1, scale["items"] + 1):
        districts = tuple(word(random, 24, 24) for _ in range(10))
        yield "stock", (w_id, item, random.randint(10, 100), *districts, 0, 0, 0, _marked(random))
    for d_id in range(1, scale["districts"] + 1):
        tax = random.randint(0, 2000)
        next_o_id = scale["customers"] + 1
        yield "district", (w_id, d_id, word(random, 6, 10), *_address(random), tax, of_district, next_o_id)
        yield from _customers(random, scale, w_id, d_id)
        yield from _orders(random, scale, w_id, d_id)


def _customers(random: Random, scale: Scale, w_id: int, d_id: int) -> Rows:
    names = _names(scale)
    for c_id in range(1, scale["customers"] + 1):
        number = c_id - 1 if c_id <= names else nurand(random, 255, 0, names - 1, _C_LAST_LOAD)
        since = moment(random)
        person = (
            word(random, 8, 16),
            "OE",
            last_name(number),
            *_address(random),
            str(random.randrange(10**15, 10**16)),
        )
        credit = ("BC" if random.randint(1, 10) == 1 else "GC", 50_000_00, random.randint(0, 5000))
        yield "customer", (w_id, d_id, c_id, *person, since, *credit, -10_00, 10_00, 1, 0, word(random, 300, 500))
        h_id = ((w_id - 1) * scale["districts"] + d_id - 1) * scale["customers"] + c_id
        yield "history", (h_id, c_id, d_id, w_id, d_id, w_id, since, 10_00, word(random, 12, 24))


def _orders(random: Random, scale: Scale, w_id: int, d_id: int) -> Rows:
    customers = random.sample(range(1, scale["customers"] + 1), scale["customers"])
    delivered = 7 * scale["customers"] // 10
    for o_id, c_id in enumerate(customers, 1):
        entered, lines = moment(random), random.randint(5, LINES_MAX)
        new = o_id > delivered
        carrier = None if new else random.randint(1, 10)
        yield "orders", (w_id, d_id, o_id, c_id, entered, carrier, lines, 1)
        for number in range(1, lines + 1):
            # What was delivered at first is free, or the balances would have to be made to fit.
            amount, at = (random.randint(1, 9999_99), None) if new else (0, entered)
            item = random.randint(1, scale["items"])
            yield "order_line", (w_id, d_id, o_id, number, item, w_id, at, 5, amount, word(random, 24, 24))
        if new:
            yield "new_order", (w_id, d_id, o_id)
