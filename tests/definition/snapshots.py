"""Snapshot isolation on a key-value map: each transaction runs on the store as it was after some commit.

The snapshot holds everything that precedes the transaction in session order (and real time, when strict), and nobody
who committed since wrote a key that the transaction writes: the first committer wins.
"""

from __future__ import annotations

from isolde.history import Append, CompareAndSet, Key, Transaction, Write

from .orders import Relation, chains_hold
from .replay import Store, initial_store, run
from .worlds import World


def some_snapshots(world: World, contained: Relation) -> bool:
    """Some order of commits and some snapshot for each transaction explain every answer."""
    return _continue(world, contained, (), (initial_store(world),))


def _continue(world: World, contained: Relation, commits: tuple[int, ...], stores: tuple[Store, ...]) -> bool:
    """``stores[i]`` is the store after the first ``i`` commits."""
    if len(commits) == len(world.nodes):
        return chains_hold(world, commits)
    for index, node in enumerate(world.nodes):
        if index in commits:
            continue
        predecessors = {first for first, second in contained if second == index}
        written = _written(node.transaction) if node.takes_effect else set()
        for taken, snapshot in enumerate(stores):
            if not predecessors <= set(commits[:taken]):
                continue
            since = [world.nodes[other] for other in commits[taken:]]
            if any(other.takes_effect and written & _written(other.transaction) for other in since):
                continue
            after = run(node.transaction, snapshot, world.lists)
            if after is None:
                continue
            store = {**stores[-1], **{key: after[key] for key in written}}
            if _continue(world, contained, (*commits, index), (*stores, store)):
                return True
    return False


def _written(transaction: Transaction) -> set[Key]:
    return {
        op.key
        for op in transaction.ops
        if isinstance(op, Write | Append) or (isinstance(op, CompareAndSet) and op.applied)
    }
