"""Read uncommitted (Adya's PL-1): the writes of committed transactions have one order for all keys (no G0).

What was read does not matter, with one exception: a list that was read tells in which order its elements came, the
reader's own included, and that everything it lacks came later than the elements before the reader's own at its end (which
are not there for others yet), but for what the reader itself appended. Elements that cannot be attributed (nobody
committed them, two transactions appended them) tell nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import groupby, pairwise, permutations

from isolde.history import Append, Key, Read, token

from .orders import chains_hold
from .states import Extend, elements_of, state_of
from .worlds import Node, World


def read_uncommitted(world: World) -> bool:
    """Some order of the writers follows the version chains and what the lists that were read tell."""
    overwrites = world.pairs(("ww",))
    told = {index for pair in overwrites for index in pair}
    writers = [index for index, node in enumerate(world.nodes) if node.effects or index in told]
    return any(
        chains_hold(world, order)
        and all(order.index(a) < order.index(b) for a, b in overwrites)
        and all(_lists_hold(world, order, node) for node in world.nodes)
        for order in permutations(writers)
    )


def _lists_hold(world: World, order: Sequence[int], reader: Node) -> bool:
    place = {index: at for at, index in enumerate(order)}
    for op in reader.transaction.ops:
        elements = elements_of(state_of(op.key, op.value, world.lists)) if isinstance(op, Read) else None
        if elements is None or not isinstance(op, Read):
            continue
        appenders = _appenders(world, op.key)
        mine = {index for index, node in enumerate(world.nodes) if node is reader}
        elements = tuple(e for e in elements if e in appenders)
        perhaps = {appenders[e] for e in elements}
        if not reader.takes_effect:
            # What it appended itself may be what it saw, whoever else appended the same.
            own = {token(o.element) for o in reader.transaction.ops if isinstance(o, Append) and o.key == op.key}
            elements = tuple(e for e in elements if e not in own)
        before = elements
        while before and appenders[before[-1]] in mine:
            before = before[:-1]
        told = [index for index, _ in groupby(appenders[e] for e in elements)]
        if any(place[first] > place[second] for first, second in pairwise(told)) or len(told) != len(set(told)):
            return False
        shown = [appenders[e] for e in before]
        lacking = set(appenders.values()) - set(told) - mine - perhaps
        if shown and any(place[index] < place[shown[-1]] for index in lacking):
            return False
    return True


def _appenders(world: World, key: Key) -> dict[Hashable, int]:
    """Who appended each element of the list at ``key``, where only one transaction can have done it."""
    appended: list[tuple[Hashable, int]] = []
    for index, node in enumerate(world.nodes):
        effect = node.effects.get(key)
        if isinstance(effect, Extend):
            appended += [(element, index) for element in effect.elements]
    times = Counter(element for element, _ in appended)
    times.update(elements_of(world.initial_state(key)) or ())
    return {element: index for element, index in appended if times[element] == 1}
