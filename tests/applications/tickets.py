"""Numbers from a counter, each of which is used once: that the counter is above all of them is nowhere said."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from isolde.tx.python import Handle, transaction
from isolde.workloads.application import Application, Part, Scale, must_hold

DDL = """
CREATE TABLE desk (id INTEGER PRIMARY KEY, next INTEGER NOT NULL);
CREATE TABLE ticket (desk INTEGER NOT NULL, number INTEGER NOT NULL, holder INTEGER NOT NULL, PRIMARY KEY (desk, number));
"""


@transaction
def take(tx: Handle, desk: int, holder: int) -> None:
    found = tx.one("SELECT next FROM desk WHERE id = :desk FOR UPDATE", desk=desk)
    if found is None:
        return
    tx.execute("UPDATE desk SET next = next + 1 WHERE id = :desk", desk=desk)
    tx.execute(
        "INSERT INTO ticket (desk, number, holder) VALUES (:desk, :number, :holder)"
        " ON CONFLICT (desk, number) DO UPDATE SET holder = 0 - 1",
        desk=desk,
        number=found.next,
        holder=holder if holder > 0 else 0,
    )


def _draw(random: Random, scale: Scale) -> dict[str, Any]:
    return {"desk": random.randint(1, scale["desks"]), "holder": random.randint(1, 9)}


def _populate(_: Random, scale: Scale) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for number in range(1, scale["desks"] + 1):
        yield "desk", (number, 2)
        yield "ticket", (number, 1, 5)


APPLICATION = Application(
    "tickets", "", "", DDL, (Part(take, 1, _draw),), _populate, {"desks": 2},
    (must_hold("nobody-twice", "SELECT desk FROM ticket WHERE holder < 0", "no number is given out twice"),),
)  # fmt: skip
