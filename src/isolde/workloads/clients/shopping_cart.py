"""Shopping cart (Sivaramakrishnan et al. 2015): items are put into a user's cart, counted, changed and taken out."""

from __future__ import annotations

from random import Random
from typing import Any

from isolde.workloads.clients.tables import Keys, Table

USERS, ITEMS = 2, 2
CART = Table("cart")


def add_item(tx: Keys, user: int, item: int, quantity: int) -> None:
    CART.insert(tx, (user, item), quantity)


def remove_item(tx: Keys, user: int, item: int) -> None:
    CART.delete(tx, (user, item))


def change_quantity(tx: Keys, user: int, item: int, quantity: int) -> None:
    CART.update(tx, (user, item), quantity)


def get_cart(tx: Keys, user: int) -> None:
    CART.select_where(tx, lambda row: row[0] == user)


def initial() -> dict[Any, Any]:
    return dict(CART.initial({(user, 0): 1 for user in range(USERS)}))


def drawn(random: Random) -> tuple[Any, ...]:
    user, item, quantity = random.randrange(USERS), random.randrange(ITEMS), random.randint(1, 3)
    return random.choice(
        [
            (add_item, user, item, quantity),
            (remove_item, user, item),
            (change_quantity, user, item, quantity),
            (get_cart, user),
        ]
    )
