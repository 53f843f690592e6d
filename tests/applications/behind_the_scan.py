"""A statement over all rows passes the place of a row before it comes, and meets one that came later.

``flag_all`` waits for row 3; row 1, which it has passed, comes; then row 4, which needs row 1, comes, and is flagged alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from isolde.tx.python import Handle, transaction
from isolde.workloads.application import Application, Part, Scale, must_hold

DDL = "CREATE TABLE b (id INTEGER PRIMARY KEY, flag INTEGER NOT NULL, w INTEGER NOT NULL);"


@transaction
def flag_all(tx: Handle) -> None:
    tx.execute("UPDATE b SET flag = 1 WHERE id >= 1")


@transaction
def first(tx: Handle) -> None:
    tx.execute("INSERT INTO b (id, flag, w) VALUES (1, 0, 0)")


@transaction
def fourth(tx: Handle) -> None:
    tx.execute("UPDATE b SET w = w + 1 WHERE id = 3")
    found = tx.one("SELECT id FROM b WHERE id = 1")
    if found is not None:
        tx.execute("INSERT INTO b (id, flag, w) VALUES (4, 0, 0)")


def _draw(_: Random, __: Scale) -> dict[str, Any]:
    return {}


def _populate(_: Random, scale: Scale) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for number in range(3, 3 + scale["rows"]):
        if number == 3:
            yield "b", (number, 0, 0)


APPLICATION = Application(
    "behind-the-scan", "", "", DDL,
    (Part(flag_all, 1, _draw), Part(first, 1, _draw), Part(fourth, 1, _draw)), _populate, {"rows": 1},
    (
        must_hold("flagged", "SELECT y.id FROM b y JOIN b x ON x.id = 1 WHERE y.id = 4 AND y.flag = 1 AND x.flag = 0", ""),
        must_hold("there", "SELECT y.id FROM b y LEFT JOIN b x ON x.id = 1 WHERE y.id = 4 AND x.id IS NULL", ""),
    ),
)  # fmt: skip
