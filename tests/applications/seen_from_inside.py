"""An invariant that looks at a column only in a query inside of its query."""

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
def higher(tx: Handle, i: int) -> None:
    found = tx.one("SELECT a_id, v FROM b WHERE id = :i", i=i)
    if found is None:
        return
    above = tx.one("SELECT n FROM a WHERE id = :k", k=found.a_id)
    if above is not None and found.v < above.n:
        tx.execute("UPDATE b SET v = v + 1 WHERE id = :i", i=i)


def _draw(_: Random, __: Scale) -> dict[str, Any]:
    return {"i": 1}


def _populate(_: Random, scale: Scale) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for number in range(1, scale["rows"] + 1):
        yield "a", (number, 2)
        yield "b", (number, number, 1)


APPLICATION = Application(
    "seen-from-inside", "", "", DDL, (Part(higher, 1, _draw),), _populate, {"rows": 1},
    (must_hold("below", "SELECT id FROM b WHERE EXISTS (SELECT 1 FROM a WHERE a.id = b.a_id AND a.n < b.v)", ""),),
)  # fmt: skip
