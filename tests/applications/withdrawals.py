"""A withdrawal that looks at the balance first, and one that puts the question into the update."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from isolde.tx.python import Handle, transaction
from isolde.workloads.application import Application, Part, Scale, must_hold

DDL = "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);"


@transaction
def look_first(tx: Handle, account: int, amount: int) -> None:
    found = tx.one("SELECT balance FROM account WHERE id = :account", account=account)
    if found is not None and amount > 0 and found.balance >= amount:
        tx.execute("UPDATE account SET balance = balance - :amount WHERE id = :account", amount=amount, account=account)


@transaction
def in_place(tx: Handle, account: int, amount: int) -> None:
    if amount > 0:
        tx.execute(
            "UPDATE account SET balance = balance - :amount WHERE id = :account AND balance >= :amount",
            amount=amount,
            account=account,
        )


def _draw(random: Random, scale: Scale) -> dict[str, Any]:
    return {"account": random.randint(1, scale["accounts"]), "amount": random.randint(1, 3)}


def _populate(random: Random, scale: Scale) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for number in range(1, scale["accounts"] + 1):
        yield "account", (number, random.randint(2, 4))


APPLICATION = Application(
    "withdrawals", "", "", DDL, (Part(look_first, 1, _draw), Part(in_place, 1, _draw)), _populate, {"accounts": 2},
    (must_hold("not-negative", "SELECT id FROM account WHERE balance < 0", "no balance is negative"),),
)  # fmt: skip
