"""The orders that a history brings with it: session order, real time, version chains."""

from __future__ import annotations

from collections.abc import Sequence

from isolde.history import Key, VersionChain, token

from .states import Extend, Replace
from .worlds import World

Relation = frozenset[tuple[int, int]]
"""Pairs of positions in ``World.nodes``."""


def session_order(world: World) -> Relation:
    """The nodes of one session, in file order."""
    sessions = [token(node.transaction.session) for node in world.nodes]
    return frozenset((a, b) for b in range(len(sessions)) for a in range(b) if sessions[a] == sessions[b])


def real_time(world: World) -> Relation:
    """One ended before the other started, both times being known."""
    return frozenset(
        (a, b)
        for a, first in enumerate(world.nodes)
        for b, second in enumerate(world.nodes)
        if a != b and first.end is not None and second.start is not None and first.end < second.start
    )


def chains_hold(world: World, order: Sequence[int]) -> bool:
    """The versions that the nodes of ``order`` install come in the order that the database told."""
    return all(_chain_holds(world, order, chain) for chain in world.chains) and _orders_hold(world, order)


def _orders_hold(world: World, order: Sequence[int]) -> bool:
    """The writers come as they were told to have installed their versions."""
    place = {world.nodes[index].transaction.id: at for at, index in enumerate(order)}
    for told in world.told.orders:
        places = [place[txn] for txn in told if txn is not None and txn in place]
        if places != sorted(places):
            return False
    return True


def _chain_holds(world: World, order: Sequence[int], chain: VersionChain) -> bool:
    installed = [world.initial_state(chain.key), *_installed(world, order, chain.key)]
    # What no committed transaction left behind says nothing. With values that were written twice, an entry may mean
    # either: the chain must be a subsequence.
    told = [token(value) for value in chain.values if token(value) in installed]
    remaining = iter(installed)
    return all(any(state == entry for state in remaining) for entry in told)


def _installed(world: World, order: Sequence[int], key: Key) -> list[object]:
    states: list[object] = []
    for index in order:
        match world.nodes[index].effects.get(key):
            case Replace(state):
                states.append(state)
            case Extend() | None:
                pass
    return states
