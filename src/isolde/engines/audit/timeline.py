"""The states of a log's store along an order: the effects of those that were placed, and a place to stand on among them.

Going to another state puts effects back or on again, so that standing near the end is cheap, and old states need no memory of
their own beside the rows that were replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isolde.engines.audit.log import Entry
from isolde.engines.audit.replay import Mismatch, Replay
from isolde.engines.audit.tables import Effects, Name

_NOTHING: Effects = {}


Inside = tuple[tuple[int, tuple[int, ...]], ...]
"""Of calls whose statements read several states: which statement of the transaction it is, and the state of each of its own."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A transaction of a witness: its number, and for each statement how many transactions its state holds, the last one of
    a call.
    """

    number: int
    snapshots: tuple[int, ...]
    inside: Inside = ()

    def states(self) -> Sequence[int]:
        """The states of all that it read, in order."""
        if not self.inside:
            return self.snapshots
        calls = dict(self.inside)
        return [one for place, state in enumerate(self.snapshots) for one in calls.get(place, (state,))]

    def later(self, states: int) -> Placed:
        """The same, with states counted from another one."""
        inside = tuple((place, tuple(one + states for one in several)) for place, several in self.inside)
        return Placed(self.number, tuple(one + states for one in self.snapshots), inside)


_NOBODY = Placed(-1, ())


class Timeline:
    """``placed`` are the transactions in their order; state ``n`` is after the first ``n`` of them."""

    def __init__(self, replay: Replay) -> None:
        self.replay, self.store = replay, replay.store
        self.placed: list[Placed] = []
        self._effects: list[Effects] = []
        self._undo: list[Effects] = []
        self._here = 0
        self.first = 0
        """The first state that one can still stand on."""
        self.forgets = False
        """Whether it is not kept either who made the states that are let go."""

    def __len__(self) -> int:
        return len(self.placed)

    @property
    def effects(self) -> Sequence[Effects]:
        """What each of them wrote, as far as it is not let go."""
        return self._effects

    def stand(self, state: int) -> None:
        """Makes the store's rows those of a state."""
        store = self.store
        while self._here > state:
            self._here -= 1
            store.install(self._undo[self._here])
        while self._here < state:
            store.install(self._effects[self._here])
            self._here += 1

    def place(self, placed: Placed, effects: Effects) -> None:
        """The next transaction in the order."""
        self.stand(len(self.placed))
        self._effects.append(effects)
        self._undo.append(self.store.install(effects))
        self.placed.append(placed)
        self._here += 1

    def advance(self, entry: Entry, snapshots: int) -> Effects | Mismatch:
        """The next transaction in the order, run on the last state; it stays where it is if it answers something else."""
        here = len(self.placed)
        self.stand(here)
        found = self.replay.kept(entry)
        if isinstance(found, Mismatch):
            return found
        self._effects.append(found[0])
        self._undo.append(found[1])
        self.placed.append(Placed(entry.number, (here,) * snapshots))
        self._here += 1
        return found[0]

    def cut(self, length: int) -> list[Placed]:
        """Takes the last ones back, down to so many; they are given."""
        self.stand(length)
        gone = self.placed[length:]
        del self.placed[length:], self._effects[length:], self._undo[length:]
        return gone

    def let_go(self, state: int) -> None:
        """Forgets what is needed to stand on states before this one; ``first`` has it."""
        if state <= self.first:
            return
        for place in range(self.first, state):
            self._undo[place] = self._effects[place] = _NOTHING
            if self.forgets:
                self.placed[place] = _NOBODY
        self.first = state

    def back_to_beginning(self) -> None:
        """Makes the store's rows those before the first transaction, and the timeline empty."""
        if self.first:
            self.replay.log.begin()
        else:
            self.stand(0)
        self.placed, self._effects, self._undo, self._here, self.first = [], [], [], 0, 0

    # Transactions on states

    def whole(self, entry: Entry, state: int) -> Effects | Mismatch:
        """A transaction run on one state."""
        self.stand(state)
        return self.replay.whole(entry)

    def written_since(self, state: int, names: Effects) -> Name | None:
        """A row among these that somebody wrote after a state."""
        for place in range(state, len(self._effects)):
            for name in self._effects[place]:
                if name in names:
                    return name
        return None

    def last_writer(self, state: int, names: Effects) -> int | None:
        """The state after the last one, placed after a state, that wrote one of these rows."""
        for place in range(len(self._effects) - 1, state - 1, -1):
            if not names.keys().isdisjoint(self._effects[place]):
                return place + 1
        return None

    def conflict(self, state: int, names: Effects) -> tuple[int, Name] | None:
        """The first one placed after a state that wrote one of these rows, by its number."""
        for place in range(state, len(self._effects)):
            for name in self._effects[place]:
                if name in names:
                    return self.placed[place].number, name
        return None
