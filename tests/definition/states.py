"""The value of a key at a moment, and what a transaction does to it.

A state is the token of a value; on a list key it is the tuple of the tokens of the elements, and absent means empty.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from isolde.history import Append, History, Key, Read, Value, token

State = Hashable
Elements = tuple[Hashable, ...]

BROKEN: State = "an element was appended to something that is no list"


@dataclass(frozen=True, slots=True)
class Replace:
    """The key holds ``state`` afterwards, whatever it held."""

    state: State


@dataclass(frozen=True, slots=True)
class Extend:
    """The list at the key has ``elements`` more at its end."""

    elements: Elements


Effect = Replace | Extend


def apply(effect: Effect, state: State) -> State:
    """The state of a key after ``effect``."""
    if isinstance(effect, Replace):
        return effect.state
    elements = elements_of(state)
    return BROKEN if elements is None else elements + effect.elements


def elements_of(state: State) -> Elements | None:
    """The elements of a list state; ``None`` if it is the state of a register."""
    # The token of a single value is a pair whose first part is a bool; the elements of a list are such pairs.
    if isinstance(state, tuple) and all(isinstance(element, tuple) for element in state):
        return state
    return None


def list_keys(history: History) -> frozenset[Key]:
    """The keys that hold lists: somebody appended to them, or saw a list, or they start as one."""
    keys = {key for key, value in history.initial.items() if isinstance(value, tuple)}
    for transaction in history.transactions:
        for op in transaction.ops:
            if isinstance(op, Append) or (isinstance(op, Read) and isinstance(op.value, tuple)):
                keys.add(op.key)
    return frozenset(keys)


def state_of(key: Key, value: Value, lists: frozenset[Key]) -> State:
    """The state that ``value`` denotes at ``key``: on a list key, ``null`` and the empty list are the same."""
    return () if value is None and key in lists else token(value)
