"""Worlds: one for each outcome of the transactions of unknown status.

In a world every transaction is a node: what it saw of others (reads before its own write of the key), what it left
behind, and whether what it saw of itself was right. Aborted transactions are no nodes, unless they are to be judged:
then they are nodes that leave nothing behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import assert_never

from isolde.history import (
    Append,
    CompareAndSet,
    History,
    Key,
    Read,
    Scan,
    Sql,
    Status,
    Transaction,
    Value,
    VersionChain,
    Write,
    token,
)

from .evidence import NOTHING, Told
from .states import Effect, Extend, Replace, State, apply, elements_of, list_keys, state_of


@dataclass(frozen=True, slots=True)
class Seen:
    """A read of somebody else's version of ``key``: its state was ``state``, or (``negated``) was anything else."""

    position: int
    key: Key
    state: State
    negated: bool = False

    def allows(self, state: State) -> bool:
        return (state == self.state) != self.negated


@dataclass(frozen=True, slots=True)
class Node:
    """One transaction of a world. ``end`` is ``None`` when it is not known when its effect came at the latest."""

    transaction: Transaction
    takes_effect: bool
    start: int | None
    end: int | None
    seen: tuple[Seen, ...]
    effects: Mapping[Key, Effect]
    sees_itself: bool


@dataclass(frozen=True, slots=True)
class World:
    """The transactions that are judged, in file order, and where they started from."""

    nodes: tuple[Node, ...]
    initial: Mapping[Key, Value]
    lists: frozenset[Key]
    chains: tuple[VersionChain, ...]
    told: Told = NOTHING

    def pairs(self, kinds: Sequence[str]) -> frozenset[tuple[int, int]]:
        """The nodes that edges of these kinds lead between."""
        at = {node.transaction.id: index for index, node in enumerate(self.nodes)}
        return frozenset((at[a], at[b]) for a, b, kind in self.told.edges if kind in kinds and a in at and b in at)

    def initial_state(self, key: Key) -> State:
        return state_of(key, self.initial.get(key), self.lists)


def worlds(history: History, *, judge_aborted: bool, told: Told = NOTHING, reads_bind: bool = True) -> Iterator[World]:
    """Every outcome of the unknown ones that goes with what was told."""
    lists = list_keys(history)
    unknown = [t.id for t in history.transactions if t.status is Status.UNKNOWN]
    for outcome in product((True, False), repeat=len(unknown)):
        committed = {t.id for t in history.transactions if t.status is Status.COMMITTED}
        committed |= {name for name, commits in zip(unknown, outcome, strict=True) if commits}
        nodes = tuple(
            node(transaction, lists, takes_effect=transaction.id in committed)
            for transaction in history.transactions
            if transaction.id in committed or judge_aborted
        )
        if told.fits(committed, {node.transaction.id for node in nodes}, set(unknown), reads_bind=reads_bind):
            yield World(nodes, history.initial, lists, history.versions, told)


def node(transaction: Transaction, lists: frozenset[Key], *, takes_effect: bool) -> Node:
    """``transaction``, split into what it saw of others, what it saw of itself, and what it left behind."""
    walk = _Walk(lists)
    for position, op in enumerate(transaction.ops):
        match op:
            case Read(key, value):
                walk.read(position, key, state_of(key, value, lists))
            case Write(key, value):
                walk.own[key] = Replace(state_of(key, value, lists))
            case Append(key, element):
                walk.append(key, Extend((token(element),)))
            case CompareAndSet(key, expected, new, True):
                walk.read(position, key, state_of(key, expected, lists))
                walk.own[key] = Replace(state_of(key, new, lists))
            case CompareAndSet(key, _, _, _, (current,)):
                walk.read(position, key, state_of(key, current, lists))
            case CompareAndSet(key, expected):
                walk.read(position, key, state_of(key, expected, lists), negated=True)
            case Scan() | Sql():
                raise ValueError("a predicate read has no meaning here")
            case _:
                assert_never(op)
    # The client gave up on an unknown one at its end, but its effect may still have come later.
    end = None if transaction.status is Status.UNKNOWN else transaction.end
    effects = walk.own if takes_effect else {}
    return Node(transaction, takes_effect, transaction.start, end, tuple(walk.seen), effects, walk.sees_itself)


@dataclass(slots=True)
class _Walk:
    """Through the operations of one transaction, in program order."""

    lists: frozenset[Key]
    own: dict[Key, Effect] = field(default_factory=dict)
    extended: dict[Key, State] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    sees_itself: bool = True

    def append(self, key: Key, effect: Extend) -> None:
        match self.own.get(key):
            case None:
                self.own[key] = effect
            case Replace(state):
                self.own[key] = Replace(apply(effect, state))
            case Extend(elements):
                self.own[key] = Extend(elements + effect.elements)

    def read(self, position: int, key: Key, state: State, *, negated: bool = False) -> None:
        match self.own.get(key):
            case None:
                self.seen.append(Seen(position, key, state, negated))
            case Replace(own):
                self.sees_itself &= (own == state) != negated
            case Extend(elements) as effect if key in self.extended:
                self.sees_itself &= (apply(effect, self.extended[key]) == state) != negated
            case Extend(elements) if not negated:
                # The first read after an own append shows what was appended to. From then on that is fixed: nobody
                # comes between a transaction and its own uncommitted version.
                listed = elements_of(state)
                if listed is None or listed[-len(elements) :] != elements:
                    self.sees_itself = False
                    return
                self.extended[key] = listed[: -len(elements)]
                self.seen.append(Seen(position, key, self.extended[key]))
            case Extend():
                pass  # A list with an own element differs from every single value and from absent.
