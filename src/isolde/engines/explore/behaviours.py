"""What the transactions of a program do, as a tree for each that branches on the values read.

The tree grows when the explorer meets a value that a transaction has not read at that point before; the body runs only then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from isolde._core.exploration import Stretch
from isolde.engines.explore.bodies import Bodies, Trace, described, not_deterministic, twice
from isolde.engines.explore.program import Call
from isolde.engines.explore.values import Numbers
from isolde.errors import UsageError

_ORDERS, _AGAIN_MAX = 2, 1_000
"""In how many orders bodies run again at the end, and how many runs of each."""


@dataclass(frozen=True, slots=True)
class Node:
    """A stretch of a transaction: after ``value`` (by number) was read at the end of the stretch ``parent``, if it has one."""

    transaction: int
    parent: int | None
    value: int
    stretch: Stretch


class Behaviours:
    """The trees of all transactions, and the keys, values and checks that they name, by number."""

    def __init__(self, calls: Sequence[Call], bodies: Bodies) -> None:
        self.calls, self.bodies = tuple(calls), bodies
        self.keys = Numbers(told_apart=False)
        self.values = Numbers(told_apart=True)
        self.checks = Numbers(told_apart=False)
        self._initial: list[int] = []
        self.nodes: list[Node] = []
        self._after: dict[tuple[int, int], int] = {}
        self.roots = [self._observed(transaction, None, 0) for transaction in range(len(self.calls))]

    def initial(self, key: int) -> int:
        """The number of the value that a key (by number) holds before the first transaction."""
        return self._initial[key]

    def _key(self, key: Any) -> int:
        """The key's number. Its initial value gets one together with it, so that numbers depend on the nodes alone."""
        number = self.keys.number(key)
        if number == len(self._initial):
            self._initial.append(self.values.number(self.bodies.initial(key)))
        return number

    def after(self, node: int, value: int) -> int:
        """The stretch that comes after a value is read at the end of this one."""
        found = self._after.get((node, value))
        if found is None:
            found = self._observed(self.nodes[node].transaction, node, value)
            self._after[node, value] = found
        return found

    def run_to(self, node: int) -> tuple[Call, list[Any]]:
        """The call that a stretch belongs to, and the values that lead there."""
        here = self.nodes[node]
        return self.calls[here.transaction], self._answers(here.parent, here.value)

    def refuse_shared_state(self) -> None:
        """Runs bodies again in other orders: one that does something else by then depends on what others left behind.

        Running a body twice in a row does not show that, if it only looks at what another body changes.
        """
        for seed in range(_ORDERS):
            places = list(range(len(self.nodes)))
            Random(seed).shuffle(places)
            for place in places[:_AGAIN_MAX]:
                node = self.nodes[place]
                call, answers = self.run_to(place)
                trace = self.bodies.run(call, answers)
                self._refuse_change(call, node.parent, trace, answers)
                again = self._stretch(trace, len(answers))
                if again != node.stretch:
                    first, second = self._told(node.stretch), self._told(again)
                    raise UsageError(not_deterministic(call, answers, first, second))

    def _told(self, stretch: Stretch) -> str:
        writes = [f"write {self.keys[key]!r} = {self.values[value]!r}" for key, value in stretch.writes]
        return ", ".join([*writes, f"read {self.keys[stretch.key]!r}" if stretch.end == "read" else stretch.end])

    def _observed(self, transaction: int, parent: int | None, value: int) -> int:
        answers = self._answers(parent, value)
        call = self.calls[transaction]
        trace = twice(self.bodies, call, answers)
        self._refuse_change(call, parent, trace, answers)
        self.nodes.append(Node(transaction, parent, value, self._stretch(trace, len(answers))))
        return len(self.nodes) - 1

    def _answers(self, parent: int | None, value: int) -> list[Any]:
        answers = []
        while parent is not None:
            answers.append(self.values[value])
            node = self.nodes[parent]
            parent, value = node.parent, node.value
        return answers[::-1]

    def _refuse_change(self, call: Call, parent: int | None, trace: Trace, answers: Sequence[Any]) -> None:
        """The run must read at the end of the parent's stretch what it read there before."""
        if parent is None:
            return
        reads = [event for event in trace.events if event.kind == "read"]
        expected = self.keys[self.nodes[parent].stretch.key]
        if len(reads) < len(answers) or reads[len(answers) - 1].key != expected:
            raise UsageError(not_deterministic(call, answers[:-1], f"…, read {expected!r}", f"…, {described(trace)}"))

    def _stretch(self, trace: Trace, reads: int) -> Stretch:
        places = [place for place, event in enumerate(trace.events) if event.kind == "read"]
        # The stretch begins after the last read that was answered.
        own = trace.events[places[-1] + 1 :] if reads else trace.events
        failed = [entry.text for entry in trace.failed if entry.reads == reads]
        key = self._key(trace.key) if trace.end == "read" else 0
        return Stretch(
            steps=len(own),
            writes=tuple(
                (self._key(event.key), self.values.number(event.value)) for event in own if event.kind == "write"
            ),
            end=trace.end,
            key=key,
            failed_check=self.checks.number(("check", failed[0])) if failed else None,
        )
