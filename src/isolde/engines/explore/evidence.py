"""Histories that show something, laid open: what every transaction did, an order of commits, the states it leads to.

All of it is computed anew from the bodies and from who read from whom, and checked against the axioms straight from their
definition: nothing is shown because the search says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isolde._core.exploration import INITIAL, Sources
from isolde.engines.explore.behaviours import Behaviours
from isolde.engines.explore.bodies import Trace
from isolde.engines.explore.program import Call


@dataclass(frozen=True, slots=True)
class Executed:
    """A transaction of a history: its run, and the transaction that each read of others' writes saw (-1: the initial value)."""

    number: int
    call: Call
    trace: Trace
    sources: tuple[int, ...]

    @property
    def committed(self) -> bool:
        return self.trace.end == "commit"

    @property
    def reads(self) -> list[tuple[Any, int]]:
        """The keys read from others, with their sources, in program order."""
        keys = [event.key for event in self.trace.events if event.kind == "read"]
        return list(zip(keys, self.sources, strict=True))


def executed(behaviours: Behaviours, sources: Sources) -> tuple[Executed, ...]:
    """The transactions of a complete history, in the order in which the explorer ran them."""
    found: dict[int, Executed] = {}
    for number, read in sources:
        call = behaviours.calls[number]
        answers: list[Any] = []
        # The key of the next read is known only when the answers before it are.
        for source in read:
            key = behaviours.bodies.run(call, answers).key
            answers.append(behaviours.bodies.initial(key) if source == INITIAL else found[source].trace.written[key])
        found[number] = Executed(number, call, behaviours.bodies.run(call, answers), tuple(read))
    return tuple(found.values())


def state_after(history: Sequence[Executed], order: Sequence[int]) -> dict[Any, Any]:
    """The last version of every key that these transactions wrote, committing in this order."""
    by_number = {entry.number: entry for entry in history}
    state: dict[Any, Any] = {}
    for number in order:
        state |= by_number[number].trace.written
    return state


# The axioms, from their definition: for t1 →wr(x)→ r in t3 and t2 ≠ t1 that writes x, premise(t2, r) ⇒ t2 co t1.


def allowed(history: Sequence[Executed], levels: Sequence[str], order: Sequence[int]) -> bool:
    """Whether this order of commits explains the history, each transaction at its level (by number)."""
    return _Order(history, order).explains(levels)


class _Order:
    def __init__(self, history: Sequence[Executed], order: Sequence[int]) -> None:
        self.place = {number: place for place, number in enumerate(order)} | {INITIAL: -1}
        self.history = {entry.number: entry for entry in history}
        self.writes: dict[int, Mapping[Any, Any]] = {entry.number: entry.trace.written for entry in history}
        self.direct = {entry.number: {*entry.sources, *self._earlier(entry)} - {INITIAL} for entry in history}

    def _earlier(self, entry: Executed) -> set[int]:
        return {
            other.number
            for other in self.history.values()
            if other.call.session == entry.call.session and other.call.position < entry.call.position
        }

    def before(self, first: int, second: int) -> bool:
        return self.place[first] < self.place[second]

    def past(self, number: int) -> set[int]:
        reached: set[int] = set()
        new = set(self.direct[number])
        while new:
            reached |= new
            new = {further for one in new for further in self.direct[one]} - reached
        return reached

    def explains(self, levels: Sequence[str]) -> bool:
        if set(self.place) - {INITIAL} != set(self.history):
            return False
        for number, entry in self.history.items():
            if any(not self.before(one, number) for one in self.direct[number]):
                return False
            premise = self._premise(levels[number], entry)
            for nth, (key, source) in enumerate(entry.reads):
                for other, writes in self.writes.items():
                    if key not in writes or other in (source, number) or not premise(other, nth):
                        continue
                    if not self.before(other, source):
                        return False
        return True

    def _premise(self, level: str, entry: Executed) -> Callable[[int, int], bool]:
        number, direct = entry.number, self.direct[entry.number]
        match level:
            case "read-committed":
                return lambda other, nth: other in entry.sources[:nth]
            case "read-atomic":
                return lambda other, _: other in direct
            case "causal":
                past = self.past(number)
                return lambda other, _: other in past
            case "prefix":
                return lambda other, _: self._prefix(other, direct)
            case "snapshot-isolation":
                return lambda other, _: self._prefix(other, direct) or self._conflict(other, number)
            case "serializable":
                return lambda other, _: self.before(other, number)
            case _:
                raise ValueError(f"no axiom for {level}")

    def _prefix(self, other: int, direct: set[int]) -> bool:
        return any(other == middle or self.before(other, middle) for middle in direct)

    def _conflict(self, other: int, number: int) -> bool:
        return any(
            self.writes[middle].keys() & self.writes[number].keys()
            for middle in self.history
            if middle != number and self.before(middle, number) and (other == middle or self.before(other, middle))
        )
