"""Client programs over SQL: sessions of calls drawn from an included application by a seed, to be explored.

The transactions and the arguments are the application's own, at sizes so small that sessions meet on the same rows. Every
kind of transaction is equally likely, as in the clients over keys.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from isolde.workloads.application import Application, Scale
from isolde.workloads.applications import application_named

SIZES: Mapping[str, Scale] = {
    "shopping-cart": {"carts": 1, "items": 2, "stock": 5},
    "twitter": {"users": 2, "tweets": 1},
    "courseware": {"students": 1, "courses": 1, "capacity": 2},
    "wikipedia": {"pages": 1, "users": 2},
    "tpcc": {"warehouses": 1, "districts": 1, "customers": 2, "items": 2},
}


@dataclass(frozen=True, slots=True)
class SqlClients:
    """An application and its small sizes."""

    application: Application
    scale: Scale

    def rows(self) -> list[tuple[str, tuple[Any, ...]]]:
        """The rows at first, the same for every seed."""
        return list(self.application.populate(Random(0), self.scale))

    def sessions(self, seed: int, sessions: int, transactions: int) -> Sequence[Sequence[tuple[Any, ...]]]:
        """A client program. With fewer sessions, or fewer transactions in each, it is the beginning of the larger one."""
        # Every session has a generator of its own, so that the others do not change it.
        generators = [Random(f"{self.application.name} {seed} {session}") for session in range(sessions)]
        return [[self._drawn(random) for _ in range(transactions)] for random in generators]

    def _drawn(self, random: Random) -> tuple[Any, ...]:
        part = random.choice(self.application.parts)
        arguments = part.arguments(random, self.scale)
        _, *names = inspect.signature(part.transaction.function).parameters
        return (part.transaction, *(arguments[name] for name in names))


def sql_clients(name: str) -> SqlClients:
    """The clients of one of the applications in ``SIZES``."""
    application = application_named(name)
    return SqlClients(application, {**application.scale, **SIZES[name]})
