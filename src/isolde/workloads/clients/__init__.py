"""Client programs over keys: sessions of calls drawn from an application by a seed, to be explored.

These are the five applications of Bouajjani, Enea and Román-Calvo (PLDI 2023, section 7.2) in the model of that paper; it
prints no code, so the transactions are ours after its descriptions, and so are the numbers of users, pages and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from isolde.workloads.clients import courseware, shopping_cart, tpcc, twitter, wikipedia


@dataclass(frozen=True, slots=True)
class Clients:
    """An application over keys: its state at first, and how a call of one of its transactions is drawn."""

    name: str
    initial: Callable[[], Mapping[Any, Any]]
    drawn: Callable[[Random], tuple[Any, ...]]

    def sessions(self, seed: int, sessions: int, transactions: int) -> Sequence[Sequence[tuple[Any, ...]]]:
        """A client program. With fewer sessions, or fewer transactions in each, it is the beginning of the larger one."""
        # Every session has a generator of its own, so that the others do not change it.
        generators = [Random(f"{self.name} {seed} {session}") for session in range(sessions)]
        return [[self.drawn(random) for _ in range(transactions)] for random in generators]


CLIENTS = {
    clients.name: clients
    for clients in (
        Clients("shopping-cart", shopping_cart.initial, shopping_cart.drawn),
        Clients("twitter", twitter.initial, twitter.drawn),
        Clients("courseware", courseware.initial, courseware.drawn),
        Clients("wikipedia", wikipedia.initial, wikipedia.drawn),
        Clients("tpcc", tpcc.initial, tpcc.drawn),
    )
}
