"""Is there a commit order, with an attribution of the reads, that fulfils an axiom?

The order is built from its front. A transaction that is placed reads from those that are placed already (``wr`` is part
of the commit order), and every axiom speaks only of transactions before its reader, so it can be judged right then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

from isolde.history import Key

from .orders import Relation, chains_hold
from .states import State, apply
from .worlds import World

INITIAL = -1
"""The transaction that wrote all initial values, before all others."""


@dataclass(frozen=True, slots=True)
class ReadFrom:
    """Event ``position`` of ``reader`` read the version of ``key`` that ``source`` installed."""

    reader: int
    position: int
    key: Key
    source: int


@dataclass(frozen=True, slots=True)
class Execution:
    """A front part of a commit order, and where its members read from."""

    world: World
    so: Relation
    co: tuple[int, ...] = ()
    wr: tuple[ReadFrom, ...] = ()
    seen: Relation = frozenset()

    def writers(self, key: Key) -> list[int]:
        """Those placed that leave a version of ``key``, in commit order, without the initial one."""
        return [index for index in self.co if key in self.world.nodes[index].effects]

    def before(self, first: int, second: int) -> bool:
        """``first`` co ``second``."""
        order = (INITIAL, *self.co)
        return order.index(first) < order.index(second)

    def reads(self, reader: int) -> list[ReadFrom]:
        return [read for read in self.wr if read.reader == reader]

    def so_or_wr(self, first: int, second: int) -> bool:
        return (
            (first, second) in self.so
            or (first, second) in self.seen
            or any(r.source == first and r.reader == second for r in self.wr)
        )


Axiom = Callable[[Execution, int], bool]
"""Whether all instances of an axiom whose reader (t3) is the given, last placed, transaction hold."""


def some_commit_order(
    world: World, so: Relation, axiom: Axiom, *, ordered: Relation = frozenset(), seen: Relation = frozenset()
) -> bool:
    """Some commit order that contains ``so``, ``wr`` and ``ordered`` and follows the version chains fulfils ``axiom``.

    ``seen`` are told to be visible as session order makes it."""
    if not all(node.sees_itself for node in world.nodes):
        return False
    return _extend(Execution(world, so, seen=seen), axiom, so | ordered)


def _extend(execution: Execution, axiom: Axiom, contained: Relation) -> bool:
    world, so, co = execution.world, execution.so, execution.co
    if len(co) == len(world.nodes):
        return chains_hold(world, co)
    for index in range(len(world.nodes)):
        if index in co or any(second == index and first not in co for first, second in contained):
            continue
        for reads in _attributions(execution, index):
            longer = Execution(world, so, (*co, index), execution.wr + reads, execution.seen)
            if axiom(longer, index) and _extend(longer, axiom, contained):
                return True
    return False


def _attributions(execution: Execution, reader: int) -> Iterator[tuple[ReadFrom, ...]]:
    """Every way to explain what ``reader`` saw by versions that are there already."""
    choices = []
    for seen in execution.world.nodes[reader].seen:
        choices.append(
            [
                ReadFrom(reader, seen.position, seen.key, source)
                for source, state in _versions(execution, seen.key)
                if seen.allows(state)
            ]
        )
    return product(*choices)


def _versions(execution: Execution, key: Key) -> Iterator[tuple[int, State]]:
    """The versions of ``key``, oldest first; an append makes a version out of the one before it in commit order."""
    state = execution.world.initial_state(key)
    yield INITIAL, state
    for index in execution.writers(key):
        state = apply(execution.world.nodes[index].effects[key], state)
        yield index, state
