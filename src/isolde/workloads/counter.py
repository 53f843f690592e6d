"""The workload ``counter``: many sessions add one to few counters (``SET v = v + 1``) and read them.

The values of other workloads are unique, so that each read tells whose write it saw; that hides what equal increments lose. Here
nobody can tell one increment from another, and all of them are counted: those that were committed against what is read, and
against the final values.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from isolde.workloads.application import Application, Rows, Scale
from isolde.workloads.predicates import Step

NAME = "counter"
MEANING = "SET v = v + 1 of few counters by many, and reads of them: no committed increment is lost, and none is counted twice"
SOURCE = "Jepsen's counter test"
KEYS, OPERATIONS = 10, 3
TABLE = "counters"
DDL = f"CREATE TABLE {TABLE} (k INTEGER PRIMARY KEY, v BIGINT NOT NULL);"
_INCREMENT = f"UPDATE {TABLE} SET v = v + 1 WHERE k = :key"
_READ = f"SELECT v FROM {TABLE} WHERE k = :key"
_READS = 0.3


class Draws:
    """What one session means to do: one to ``operations`` statements a transaction, three in ten of them reads."""

    def __init__(self, keys: int, operations: int, session: int, *, seed: int) -> None:
        self._chance = Random(f"{seed}/{session}")
        self._keys, self._operations = keys, operations

    def next(self) -> tuple[Step, ...]:
        """The statements of the next transaction."""
        count = self._chance.randint(1, self._operations)
        return tuple(self._step() for _ in range(count))

    def _step(self) -> Step:
        text = _READ if self._chance.random() < _READS else _INCREMENT
        return Step(text, {"key": self._chance.randrange(self._keys)})


def application(keys: int) -> Application:
    """The table with its counters, all 0, as what is installed in a database."""

    def populate(chance: Random, scale: Scale) -> Rows:
        del chance, scale
        return _first_rows(keys)

    return Application(NAME, MEANING, SOURCE, DDL, (), populate, {"keys": keys})


def _first_rows(keys: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for key in range(keys):
        yield TABLE, (key, 0)
