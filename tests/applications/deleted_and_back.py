"""A row that is deleted and inserted again by one transaction: a statement that waited for it passes over it."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from isolde.tx.python import Handle, transaction
from isolde.workloads.application import Application, Part, Scale, must_hold

DDL = """
CREATE TABLE a (id INTEGER PRIMARY KEY, n INTEGER NOT NULL);
CREATE TABLE b (id INTEGER PRIMARY KEY, a_id INTEGER NOT NULL, v INTEGER NOT NULL);
"""


@transaction
def raise_both(tx: Handle, i: int) -> None:
    row = tx.one("SELECT a_id FROM b WHERE id = :i", i=i)
    if row is None:
        return
    tx.execute("UPDATE b SET v = v + 1 WHERE id = :i", i=i)
    tx.execute("UPDATE a SET n = n + 1 WHERE id = :k", k=row.a_id)


@transaction
def replace(tx: Handle, i: int) -> None:
    row = tx.one("SELECT a_id, v FROM b WHERE id = :i FOR UPDATE", i=i)
    if row is None:
        return
    tx.execute("DELETE FROM b WHERE id = :i", i=i)
    tx.execute("INSERT INTO b (id, a_id, v) VALUES (:i, :k, :v)", i=i, k=row.a_id, v=row.v)


def _draw(random: Random, scale: Scale) -> dict[str, Any]:
    return {"i": random.randint(1, scale["rows"])}


def _populate(_: Random, scale: Scale) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for number in range(1, scale["rows"] + 1):
        yield "a", (number, 2)
        yield "b", (number, number, 2)


TOTAL = """SELECT a.id FROM a LEFT JOIN (SELECT a_id, SUM(v) AS s FROM b GROUP BY a_id) t ON t.a_id = a.id
           WHERE a.n <> COALESCE(t.s, 0)"""
APPLICATION = Application(
    "deleted-and-back", "", "", DDL, (Part(raise_both, 1, _draw), Part(replace, 1, _draw)), _populate, {"rows": 1},
    (must_hold("total", TOTAL, "what is above is the sum of what is below"),),
)  # fmt: skip
