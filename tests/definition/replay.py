"""Serializability on a key-value map: some order in which every operation gives the answer that the client got."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from isolde.history import Append, CompareAndSet, Key, Read, Scan, Sql, Transaction, Write

from .orders import Relation, chains_hold
from .states import BROKEN, State, elements_of, state_of
from .worlds import World

Store = Mapping[Key, State]


def some_serial_order(world: World, contained: Relation) -> bool:
    """Some order of all transactions that contains ``contained`` explains every answer."""
    return _continue(world, contained, (), initial_store(world))


def initial_store(world: World) -> Store:
    """Every key that any operation names, with its initial state."""
    keys = {
        op.key
        for node in world.nodes
        for op in node.transaction.ops
        if isinstance(op, Read | Write | Append | CompareAndSet)
    }
    return {key: world.initial_state(key) for key in keys}


def _continue(world: World, contained: Relation, done: tuple[int, ...], store: Store) -> bool:
    if len(done) == len(world.nodes):
        return chains_hold(world, done)
    for index, node in enumerate(world.nodes):
        if index in done or any(second == index and first not in done for first, second in contained):
            continue
        after = run(node.transaction, store, world.lists)
        if after is None:
            continue
        if _continue(world, contained, (*done, index), after if node.takes_effect else store):
            return True
    return False


def run(transaction: Transaction, store: Store, lists: frozenset[Key]) -> Store | None:
    """The store after ``transaction`` ran alone on ``store``; ``None`` if it would have got another answer."""
    after = dict(store)
    for op in transaction.ops:
        match op:
            case Read(key, value):
                if after[key] != state_of(key, value, lists):
                    return None
            case Write(key, value):
                after[key] = state_of(key, value, lists)
            case Append(key, element):
                elements = elements_of(after[key])
                added = elements_of(state_of(key, (element,), lists))
                after[key] = BROKEN if elements is None or added is None else elements + added
            case CompareAndSet(key, expected, new, True):
                if after[key] != state_of(key, expected, lists):
                    return None
                after[key] = state_of(key, new, lists)
            case CompareAndSet(key, _, _, _, (current,)):
                if after[key] != state_of(key, current, lists):
                    return None
            case CompareAndSet(key, expected):
                if after[key] == state_of(key, expected, lists):
                    return None
            case Scan() | Sql():
                raise ValueError("a predicate read has no meaning here")
            case _:
                assert_never(op)
    return after
