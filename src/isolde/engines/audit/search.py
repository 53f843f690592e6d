"""Is there an order of the transactions, with states to read, that explains every answer? A search that leaves nothing out.

Transactions are placed one after the other, which is the order of their commits. What a transaction reads decides nothing for the
others until it is placed. So each one that is not placed yet has a set of *ways* in which it may have run so far: at snapshot
isolation the effects that it has on a state since its predecessors, at read committed how many statements it has run and what
they wrote. After each placement the ways are extended by running statements on the new state, and those are dropped that
the level forbids. Only the next transaction, and which of its effects, is a choice; states that were left without success
are not visited again, where a state is the rows, who is placed and the ways of those who are not.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from isolde.engines.audit.calls import several_states
from isolde.engines.audit.log import Entry
from isolde.engines.audit.readings import Reading, Reads
from isolde.engines.audit.replay import Mismatch, Replay
from isolde.engines.audit.tables import Effects
from isolde.engines.audit.timeline import Inside, Placed, Timeline


@dataclass(slots=True)
class Allowance:
    """What a search may spend: steps (transactions placed), time, and how often statements or transactions are run."""

    steps: int
    deadline: float | None = None
    runs: int | None = None
    spent: int = 0
    over: bool = False
    _ran: int = 0

    def step(self) -> bool:
        """Spends one step; whether it was there."""
        self.spent += 1
        if self.spent > self.steps:
            self.over = True
        elif self.deadline is not None and self.spent % 64 == 1:
            self.over = time.monotonic() > self.deadline
        return not self.over

    def anew(self) -> Allowance:
        """The same, for another question."""
        return Allowance(self.steps, self.deadline, self.runs)

    def run(self) -> bool:
        """Spends one run of a statement or a transaction; whether it was there."""
        self._ran += 1
        late = self.deadline is not None and self._ran % 64 == 1 and time.monotonic() > self.deadline
        if late or (self.runs is not None and self._ran > self.runs):
            self.over = True
        return not self.over


class End(Enum):
    """How a search ended."""

    FOUND = "an order explains the log"
    NONE = "no order does"
    SPENT = "the budget was spent"


Frozen = frozenset[Any]


@dataclass(frozen=True, slots=True)
class Way:
    """How a transaction may have run so far: statements done, own writes, and the state of each statement."""

    done: int
    own: Effects
    snapshots: tuple[int, ...]
    inside: Inside = ()


Ways = Mapping[Hashable, Way]
"""By statements done and own writes: which states gave them does not matter."""


@dataclass(slots=True)
class _Frame:
    key: Hashable
    choices: Iterator[tuple[int, Way]]
    undo: tuple[Any, ...] | None = None


@dataclass(slots=True)
class Search:
    """Entries are those to explain, in the order in which to try them first; ``past`` are, for each, those before it."""

    replay: Replay
    reading: Reading
    entries: Sequence[Entry]
    allowance: Allowance
    must: frozenset[int] | None = None
    """Those that have to be placed; without, all of known outcome."""
    placed: list[Placed] = field(default_factory=list)
    deepest: int = 0
    _entry: dict[int, Entry] = field(init=False)
    _bit: dict[int, int] = field(init=False)
    _all: int = field(init=False)
    _past: dict[int, int] = field(init=False)
    _maybe_past: dict[int, int] = field(init=False)
    _mask_placed: int = field(init=False)
    _mask_gone: int = field(init=False)
    _ways: dict[int, Ways] = field(init=False)
    _dead: set[Hashable] = field(init=False)
    _idle: frozenset[int] = field(init=False)
    _timeline: Timeline = field(init=False)

    def __post_init__(self) -> None:
        self._timeline = Timeline(self.replay)
        self._entry = {entry.number: entry for entry in self.entries}
        numbers = list(self._entry)
        self._bit = {number: 1 << place for place, number in enumerate(numbers)}
        must = self.must
        self._all = self._mask(
            entry.number for entry in self.entries if (not entry.maybe if must is None else entry.number in must)
        )
        self._past = {entry.number: self._mask(self._before(entry)) for entry in self.entries}
        self._maybe_past = {
            entry.number: self._mask(one for one in entry.before if one in self._bit and self._entry[one].maybe)
            for entry in self.entries
        }
        self._idle = frozenset(entry.number for entry in self.entries if not any(ask.may_change for ask in entry.asks))
        self._mask_placed = 0
        self._mask_gone = 0
        self._ways: dict[int, Ways] = {}
        self._dead: set[Hashable] = set()

    def _mask(self, numbers: Any) -> int:
        mask = 0
        for number in numbers:
            mask |= self._bit[number]
        return mask

    def _before(self, entry: Entry) -> list[int]:
        """Those of known outcome that have to be placed before it, and that its snapshot holds."""
        session = set(entry.before)
        found = []
        for other in self.entries:
            ordered = other.number in session or (
                self.reading.strict and other.end is not None and entry.start is not None and other.end < entry.start
            )
            if ordered and not other.maybe and other.number != entry.number:
                found.append(other.number)
        return found

    # Searching

    def run(self) -> End:
        """Searches. If an order is found, ``placed`` is it; the store is left as it was."""
        self.replay.tell_apart()
        self._extend()
        if self._complete():
            return End.FOUND
        if self.allowance.over:
            # Not everybody was run on the first state, so that it says nothing that nobody fits.
            return End.SPENT
        frames = [_Frame(self._key(), self._choices())]
        while frames:
            frame = frames[-1]
            choice = next(frame.choices, None)
            if choice is None:
                self._dead.add(frame.key)
                frames.pop()
                if frame.undo is not None:
                    self._take_back(frame.undo)
                continue
            if not self.allowance.step():
                self._restore(frames)
                return End.SPENT
            undo = self._place(*choice)
            if self.allowance.over and not self._complete():
                self._take_back(undo)
                self._restore(frames)
                return End.SPENT
            if self._complete():
                witness = list(self.placed)
                self._take_back(undo)
                self._restore(frames)
                self.placed = witness
                return End.FOUND
            key = self._key()
            if key in self._dead:
                self._take_back(undo)
                continue
            frames.append(_Frame(key, self._choices(), undo))
        return End.NONE

    def _restore(self, frames: list[_Frame]) -> None:
        for frame in reversed(frames):
            if frame.undo is not None:
                self._take_back(frame.undo)

    def _complete(self) -> bool:
        return self._mask_placed & self._all == self._all

    def _key(self) -> Hashable:
        store = self.replay.store
        ways = tuple((number, frozenset(ways)) for number, ways in sorted(self._ways.items()) if ways)
        return self._mask_placed, self._mask_gone, tuple(store.sums or ()), ways

    def _choices(self) -> Iterator[tuple[int, Way]]:
        """Which transaction comes next, and what it wrote."""
        found = []
        for entry in self.entries:
            if not self._may_come(entry.number):
                continue
            for way in self._finished(entry):
                if not way.own:
                    if entry.maybe:
                        # Whether it took effect makes no difference.
                        continue
                    if entry.number in self._idle and not self._maybe_past[entry.number] & ~(
                        self._mask_placed | self._mask_gone
                    ):
                        # It changes nothing on any state, and may come now: nothing is gained by having it come later.
                        return iter([(entry.number, way)])
                found.append((entry.number, way))
        return iter(found)

    def _may_come(self, number: int) -> bool:
        bit = self._bit[number]
        return not (self._mask_placed | self._mask_gone) & bit and not self._past[number] & ~self._mask_placed

    def _finished(self, entry: Entry) -> list[Way]:
        if self.reading.reads is Reads.LATEST:
            effects = self.replay.remembered(entry)
            if isinstance(effects, Mismatch):
                return []
            return [Way(len(entry.asks), effects, (len(self.placed),) * len(entry.asks))]
        found = [way for way in self._ways.get(entry.number, {}).values() if way.done == len(entry.asks)]
        # A database mostly reads what is newest.
        return sorted(found, key=lambda way: way.snapshots, reverse=True) if len(found) > 1 else found

    # Placing

    def _place(self, number: int, way: Way) -> tuple[Any, ...]:
        undo = (self._mask_placed, self._mask_gone, self._ways)
        placed = Placed(number, way.snapshots, way.inside)
        self._timeline.place(placed, way.own)
        self._mask_placed |= self._bit[number]
        self._mask_gone |= self._maybe_past[number] & ~self._mask_placed
        self.placed.append(placed)
        self.deepest = max(self.deepest, len(self.placed))
        self._ways = {other: ways for other, ways in self._ways.items() if other != number}
        if self.reading.first_committer and way.own:
            self._ways = {
                other: {key: one for key, one in ways.items() if way.own.keys().isdisjoint(one.own)}
                for other, ways in self._ways.items()
            }
        if self.reading.reads is Reads.ONE_SNAPSHOT:
            # A snapshot holds those before it in its session, also one of unknown outcome that took effect after all.
            bit = self._bit[number]
            self._ways = {other: {} if self._maybe_past[other] & bit else ways for other, ways in self._ways.items()}
        self._extend()
        return undo

    def _take_back(self, undo: tuple[Any, ...]) -> None:
        self._mask_placed, self._mask_gone, self._ways = undo
        self.placed.pop()
        self._timeline.cut(len(self.placed))

    def _extend(self) -> None:
        """Lets everybody run on the state that is there now."""
        if self.reading.reads is Reads.LATEST:
            return
        ways = dict(self._ways)
        here = len(self.placed)
        for entry in self.entries:
            if (self._mask_placed | self._mask_gone) & self._bit[entry.number]:
                ways.pop(entry.number, None)
                continue
            if self.reading.reads is Reads.EACH_STATEMENT:
                ways[entry.number] = self._further(entry, ways.get(entry.number) or _BEGUN, here)
            elif not self._past[entry.number] & ~self._mask_placed and self.allowance.run():
                effects = self.replay.remembered(entry)
                if not isinstance(effects, Mismatch):
                    way = Way(len(entry.asks), effects, (here,) * len(entry.asks))
                    key = (way.done, frozenset(effects.items()))
                    if key not in (known := ways.get(entry.number, {})):
                        ways[entry.number] = {**known, key: way}
        self._ways = ways

    def _further(self, entry: Entry, ways: Ways, here: int) -> Ways:
        """All ways to have run statements on the states so far, the current one last."""
        found = dict(ways)
        todo = list(ways.items())
        while todo:
            key, way = todo.pop()
            if way.done == len(entry.asks) or not self.allowance.run():
                continue
            for after in self._asked(entry, key, way, here):
                after_key = (after.done, frozenset(after.own.items()))
                if after_key not in found:
                    found[after_key] = after
                    todo.append((after_key, after))
        return found

    def _asked(self, entry: Entry, key: Hashable, way: Way, here: int) -> Iterator[Way]:
        """The next statement on the current state."""
        own = self.replay.one(entry, way.done, way.own, key)
        if not isinstance(own, Mismatch):
            yield Way(way.done + 1, own, (*way.snapshots, here), way.inside)
        ask = entry.asks[way.done]
        if not ask.form.calls or ask.free:
            return
        first = way.snapshots[-1] if way.snapshots else 0
        for effects, states in several_states(self._timeline, entry, way.done, way.own, first, self.allowance.run):
            yield Way(way.done + 1, effects, (*way.snapshots, here), (*way.inside, (way.done, states)))


_BEGUN: Ways = {(0, frozenset()): Way(0, {}, ())}
