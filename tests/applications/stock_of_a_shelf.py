"""A CHECK and a foreign key that the transactions lean on: no state that a database refuses shows that they break anything."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from isolde.tx.python import Handle, transaction
from isolde.workloads.application import Application, Part, Scale, must_hold

DDL = """
CREATE TABLE shelf (id INTEGER PRIMARY KEY, room INTEGER NOT NULL CHECK (room >= 1));
CREATE TABLE item (id INTEGER PRIMARY KEY, shelf INTEGER NOT NULL REFERENCES shelf (id), many INTEGER NOT NULL);
"""


@transaction
def fill(tx: Handle, item: int) -> None:
    tx.execute("UPDATE item SET many = 1 WHERE id = :item AND many = 0", item=item)


@transaction
def move(tx: Handle, item: int, shelf: int) -> None:
    found = tx.one("SELECT room FROM shelf WHERE id = :shelf", shelf=shelf)
    if found is None or found.room < 1:
        tx.execute("UPDATE item SET many = -1 WHERE id = :item AND shelf = :shelf", item=item, shelf=shelf)


def _draw_item(random: Random, scale: Scale) -> dict[str, Any]:
    return {"item": random.randint(1, scale["items"])}


def _draw(random: Random, scale: Scale) -> dict[str, Any]:
    return {"item": random.randint(1, scale["items"]), "shelf": random.randint(1, scale["items"])}


def _populate(random: Random, scale: Scale) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for number in range(1, scale["items"] + 1):
        yield "shelf", (number, 1)
        yield "item", (number, number, random.randint(0, 1))


APPLICATION = Application(
    "stock-of-a-shelf", "", "", DDL, (Part(fill, 1, _draw_item), Part(move, 1, _draw)), _populate, {"items": 2},
    (must_hold("not-negative", "SELECT id FROM item WHERE many < 0", "nothing is less than nothing"),),
)  # fmt: skip
