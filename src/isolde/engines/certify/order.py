"""An order of the transactions that a level asks for, or a cycle that it forbids: what the lazy choice of predicate edges needs.

A level is a graph. At serializable a transaction is one node. At snapshot isolation it is two, its start and its commit: reads
and overwrites lead from a commit to a start, anti-dependencies from a start to a commit. Real time is a chain of moments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from isolde.history import Transaction

Edge = tuple[int, int, str]
"""From, to, kind."""

_ANTI = frozenset({"rw", "predicate-rw"})


@dataclass(frozen=True, slots=True)
class Rule:
    """A level's graph: its kinds of edges, whether transactions have a start and a commit, whether it keeps real time."""

    kinds: frozenset[str]
    snapshots: bool = False
    real_time: bool = False


_FLOW = frozenset({"so", "ww", "wr", "predicate-wr"})
FLOW = Rule(_FLOW)
ITEMS = Rule(_FLOW | {"rw"})
SERIAL = Rule(_FLOW | _ANTI)
SNAPSHOT = Rule(_FLOW | _ANTI, snapshots=True)
STRICT_SERIAL = Rule(_FLOW | _ANTI, real_time=True)
STRICT_SNAPSHOT = Rule(_FLOW | _ANTI, snapshots=True, real_time=True)


class Graph:
    """The transactions that count, under a rule; edges are added and an order is asked for again."""

    def __init__(
        self,
        rule: Rule,
        counted: Sequence[int],
        wish: Sequence[float],
        transactions: Sequence[Transaction],
    ) -> None:
        self.rule = rule
        self._node = {txn: at for at, txn in enumerate(counted)}
        size = len(counted)
        self._wish = [wish[txn] for txn in counted]
        self._next: list[list[int]] = [[] for _ in range(size * (2 if rule.snapshots else 1))]
        if rule.snapshots:
            self._wish = [*(one - 0.5 for one in self._wish), *self._wish]
            for at in range(size):
                self._next[at].append(size + at)
        self._size = size
        if rule.real_time:
            self._add_time(counted, transactions)

    def _add_time(self, counted: Sequence[int], transactions: Sequence[Transaction]) -> None:
        """A chain of moments: an end leads to the moment after it, and that to the starts that come later."""
        ends = sorted({end for txn in counted if (end := transactions[txn].end) is not None})
        first = len(self._next)
        place = {end: first + at for at, end in enumerate(ends)}
        for at, _ in enumerate(ends):
            self._next.append([first + at + 1] if at + 1 < len(ends) else [])
            self._wish.append(0.0)
        ordered = sorted((start, self._node[txn]) for txn in counted if (start := transactions[txn].start) is not None)
        passed = -1
        for start, node in ordered:
            while passed + 1 < len(ends) and ends[passed + 1] < start:
                passed += 1
            if passed >= 0:
                self._next[first + passed].append(node)
        for txn in counted:
            end = transactions[txn].end
            if end is not None:
                self._next[self._commit(self._node[txn])].append(place[end])

    def _commit(self, node: int) -> int:
        return node + self._size if self.rule.snapshots else node

    def add(self, edges: Iterable[Edge]) -> None:
        """Those of the rule's kinds between transactions that count."""
        for source, target, kind in edges:
            a, b = self._node.get(source), self._node.get(target)
            if a is None or b is None or kind not in self.rule.kinds:
                continue
            if not self.rule.snapshots:
                self._next[a].append(b)
            elif kind in _ANTI:
                self._next[a].append(self._commit(b))
            else:
                self._next[self._commit(a)].append(b)

    def order(self) -> tuple[dict[int, int], dict[int, int]] | None:
        """Where each transaction reads, and where it takes effect; ``None`` if there is a cycle."""
        degree = [0] * len(self._next)
        for targets in self._next:
            for target in targets:
                degree[target] += 1
        ready = [(self._wish[node], node) for node, count in enumerate(degree) if count == 0]
        heapify(ready)
        placed = [0] * len(self._next)
        count = 0
        while ready:
            _, node = heappop(ready)
            placed[node] = count
            count += 1
            for target in self._next[node]:
                degree[target] -= 1
                if degree[target] == 0:
                    heappush(ready, (self._wish[target], target))
        if count < len(self._next):
            return None
        reads = {txn: placed[node] for txn, node in self._node.items()}
        effects = {txn: placed[self._commit(node)] for txn, node in self._node.items()}
        return reads, effects
