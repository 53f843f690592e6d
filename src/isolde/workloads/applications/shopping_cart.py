"""Shopping cart: users add items, remove them, change their number, and look.

After Sivaramakrishnan et al. (PLDI 2015), with the four transactions that "Dynamic Partial Order Reduction for Checking
Correctness against Transaction Isolation Levels" (section 7.2) names. Here an item that is in a cart is reserved: it is
taken from the stock, and goes back when it is removed. A cart knows what it costs, in whole cents. The mix and the
sizes are ours: the papers state none.
"""

from __future__ import annotations

from random import Random
from typing import Any

from isolde.tx.python import Handle, transaction
from isolde.workloads.application import Application, Part, Rows, Scale, must_hold
from isolde.workloads.applications import APPLICATIONS
from isolde.workloads.applications.drawing import zipfian

DDL = """
CREATE TABLE items (
    id INTEGER PRIMARY KEY,
    price BIGINT NOT NULL,
    received INTEGER NOT NULL,
    stock INTEGER NOT NULL
);
CREATE TABLE carts (
    id INTEGER PRIMARY KEY,
    total BIGINT NOT NULL
);
CREATE TABLE cart_items (
    cart INTEGER NOT NULL,
    item INTEGER NOT NULL,
    quantity INTEGER NOT NULL,
    PRIMARY KEY (cart, item)
);
"""


@transaction
def add_item(tx: Handle, cart: int, item: int, quantity: int) -> bool:
    """Whether there were enough. The quantity in the cart grows if the item is there already."""
    known = tx.value("SELECT id FROM carts WHERE id = :cart", cart=cart)
    if known is None or quantity <= 0:
        return False
    found = tx.one("SELECT price, stock FROM items WHERE id = :item", item=item)
    if found is None:
        return False
    if found.stock < quantity:
        return False
    tx.execute("UPDATE items SET stock = stock - :quantity WHERE id = :item", quantity=quantity, item=item)
    before = tx.value("SELECT quantity FROM cart_items WHERE cart = :cart AND item = :item", cart=cart, item=item)
    if before is None:
        tx.execute(
            "INSERT INTO cart_items (cart, item, quantity) VALUES (:cart, :item, :quantity)",
            cart=cart,
            item=item,
            quantity=quantity,
        )
    else:
        tx.execute(
            "UPDATE cart_items SET quantity = :quantity WHERE cart = :cart AND item = :item",
            quantity=before + quantity,
            cart=cart,
            item=item,
        )
    tx.execute("UPDATE carts SET total = total + :cost WHERE id = :cart", cost=found.price * quantity, cart=cart)
    return True


@transaction
def remove_item(tx: Handle, cart: int, item: int) -> bool:
    """Whether the item was in the cart. All of it goes back to the stock."""
    found = tx.one(
        "SELECT c.quantity, i.price FROM cart_items c JOIN items i ON i.id = c.item WHERE c.cart = :cart AND c.item = :item",
        cart=cart,
        item=item,
    )
    if found is None:
        return False
    tx.execute("DELETE FROM cart_items WHERE cart = :cart AND item = :item", cart=cart, item=item)
    tx.execute("UPDATE items SET stock = stock + :quantity WHERE id = :item", quantity=found.quantity, item=item)
    tx.execute("UPDATE carts SET total = total - :cost WHERE id = :cart", cost=found.price * found.quantity, cart=cart)
    return True


@transaction
def change_quantity(tx: Handle, cart: int, item: int, quantity: int) -> bool:
    """Whether the item is in the cart and there are enough. More comes from the stock, less goes back."""
    found = tx.one(
        "SELECT c.quantity, i.price, i.stock FROM cart_items c JOIN items i ON i.id = c.item"
        " WHERE c.cart = :cart AND c.item = :item",
        cart=cart,
        item=item,
    )
    if found is None:
        return False
    more = quantity - found.quantity
    if quantity <= 0 or found.stock < more:
        return False
    tx.execute("UPDATE items SET stock = stock - :more WHERE id = :item", more=more, item=item)
    tx.execute(
        "UPDATE cart_items SET quantity = :quantity WHERE cart = :cart AND item = :item",
        quantity=quantity,
        cart=cart,
        item=item,
    )
    tx.execute("UPDATE carts SET total = total + :cost WHERE id = :cart", cost=found.price * more, cart=cart)
    return True


@transaction
def get_cart(tx: Handle, cart: int) -> Any:
    """What is in the cart, and what it costs."""
    tx.all("SELECT item, quantity FROM cart_items WHERE cart = :cart ORDER BY item", cart=cart)
    return tx.value("SELECT total FROM carts WHERE id = :cart", cart=cart)


def _cart_and_item(random: Random, scale: Scale) -> dict[str, Any]:
    return {"cart": random.randint(1, scale["carts"]), "item": zipfian(random, scale["items"], 1.0)}


def _with_quantity(random: Random, scale: Scale) -> dict[str, Any]:
    return {**_cart_and_item(random, scale), "quantity": random.randint(1, 5)}


def _cart(random: Random, scale: Scale) -> dict[str, Any]:
    return {"cart": random.randint(1, scale["carts"])}


def _populate(random: Random, scale: Scale) -> Rows:
    for item in range(1, scale["items"] + 1):
        received = random.randint(1, scale["stock"])
        yield "items", (item, random.randint(1_00, 100_00), received, received)
    for cart in range(1, scale["carts"] + 1):
        yield "carts", (cart, 0)


INVARIANTS = (
    must_hold("stock-not-negative", "SELECT id, stock FROM items WHERE stock < 0", "nothing is reserved twice"),
    must_hold(
        "stock-is-what-no-cart-holds",
        "SELECT i.id, i.received, i.stock, c.held FROM items i"
        " LEFT JOIN (SELECT item, SUM(quantity) AS held FROM cart_items GROUP BY item) c ON c.item = i.id"
        " WHERE i.received <> i.stock + COALESCE(c.held, 0)",
        "all that was received is in the stock or in a cart",
    ),
    must_hold(
        "total-is-sum-of-items",
        "SELECT c.id, c.total, l.cost FROM carts c LEFT JOIN"
        " (SELECT n.cart, SUM(n.quantity * i.price) AS cost FROM cart_items n JOIN items i ON i.id = n.item GROUP BY n.cart) l"
        " ON l.cart = c.id WHERE c.total <> COALESCE(l.cost, 0)",
        "a cart costs what the items in it cost",
    ),
    must_hold(
        "quantity-is-positive",
        "SELECT cart, item, quantity FROM cart_items WHERE quantity <= 0",
        "what is in a cart is there at least once",
    ),
)

_ENTRY = APPLICATIONS["shopping-cart"]

APPLICATION = Application(
    _ENTRY.name,
    _ENTRY.meaning,
    _ENTRY.source,
    DDL,
    (
        Part(add_item, 30, _with_quantity),
        Part(remove_item, 20, _cart_and_item),
        Part(change_quantity, 20, _with_quantity),
        Part(get_cart, 30, _cart),
    ),
    _populate,
    {"carts": 20, "items": 50, "stock": 20},
    INVARIANTS,
)
