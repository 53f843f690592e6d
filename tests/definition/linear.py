"""Linearizability (Herlihy & Wing 1990): for each key alone, a serial order that keeps real time."""

from __future__ import annotations

from dataclasses import replace

from isolde.history import Append, CompareAndSet, History, Key, Read, Transaction, Write

from .orders import real_time
from .replay import some_serial_order
from .worlds import World


def linearizable(world: World) -> bool:
    """Real time is kept, session order is not asked for. Every transaction touches at most one key."""
    # A key that no transaction touched can still be told of in a way that nothing explains.
    keys = {key for node in world.nodes for key in touched(node.transaction)} | {chain.key for chain in world.chains}
    for key in keys:
        nodes = tuple(node for node in world.nodes if key in touched(node.transaction))
        part = replace(world, nodes=nodes, chains=tuple(chain for chain in world.chains if chain.key == key))
        if not some_serial_order(part, real_time(part)):
            return False
    return True


def touched(transaction: Transaction) -> set[Key]:
    """The keys that the operations of ``transaction`` name."""
    return {op.key for op in transaction.ops if isinstance(op, Read | Write | Append | CompareAndSet)}


def has_single_key_transactions(history: History) -> bool:
    """No transaction touches two keys, whatever came of it."""
    return all(len(touched(transaction)) <= 1 for transaction in history.transactions)
