"""Calls of procedures at read committed: each statement of a procedure may read another state, as if it had been sent by itself.

A call is run once for each sequence of states. Before each of its statements the store tells that it begins; then what the
transaction wrote is taken off, the next state is put in its place, and the writes go over that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from isolde.engines.audit.log import Entry
from isolde.engines.audit.replay import Mismatch
from isolde.engines.audit.tables import EXISTS, Effects
from isolde.engines.audit.timeline import Timeline


def several_states(
    timeline: Timeline, entry: Entry, place: int, own: Effects, first: int, may_run: Callable[[], bool]
) -> Iterator[tuple[Effects, tuple[int, ...]]]:
    """The own writes after a call whose statements read states from ``first`` on, the last of them the newest and not all the
    same; with these states. ``may_run`` is asked before each run.
    """
    last = len(timeline)
    looked = {EXISTS, *(timeline.store.catalog.table(name).position for name in entry.asks[place].tables)}
    moves = [
        state for state in range(first + 1, last + 1) if any(name[0] in looked for name in timeline.effects[state - 1])
    ]
    if not moves or moves[-1] != last:
        # The newest state is like one before, where the call was looked at already.
        return
    todo: list[tuple[int, ...]] = [(first,)]
    todo += [(state,) for state in moves[:-1]]
    while todo and may_run():
        plan = todo.pop()
        run = _Run(timeline, entry, place, plan)
        found = run.effects(own)
        for length in range(len(plan), len(run.taken)):
            stays = plan + (plan[-1],) * (length - len(plan))
            todo += [(*stays, state) for state in moves if state > plan[-1]]
        if plan[-1] == last and not isinstance(found, Mismatch):
            yield found, tuple(run.taken)


def at_states(timeline: Timeline, entry: Entry, place: int, own: Effects, states: Sequence[int]) -> Effects | Mismatch:
    """The own writes after a call whose statements read these states."""
    run = _Run(timeline, entry, place, states)
    found = run.effects(own)
    if not isinstance(found, Mismatch) and run.taken != list(states):
        return Mismatch(place, None, None, None)
    return found


@dataclass(slots=True)
class _Run:
    """One run of a call; the last of the states of ``plan`` stands for all after it. ``taken`` are those of its statements."""

    timeline: Timeline
    entry: Entry
    place: int
    plan: Sequence[int]
    taken: list[int] = field(default_factory=list)
    _mark: int = 0

    def effects(self, own: Effects) -> Effects | Mismatch:
        store, here = self.timeline.store, len(self.timeline)
        self.timeline.stand(self.plan[0])
        self._mark = len(store.undo)
        store.between = self._begins
        try:
            store.overlay(own)
            wrong = self.timeline.replay.judged(self.entry, self.place)
            if wrong is not None:
                return wrong
            # A call that failed leaves nothing behind.
            failed = self.entry.asks[self.place].error is not None
            return own if failed else store.effects(self._mark, self.entry.number)
        finally:
            store.between = None
            store.undone(self._mark)
            self.timeline.stand(here)

    def _begins(self) -> None:
        number = len(self.taken)
        state = self.plan[min(number, len(self.plan) - 1)]
        if self.taken and state != self.taken[-1]:
            store = self.timeline.store
            own = store.effects(self._mark, self.entry.number)
            store.undone(self._mark)
            self.timeline.stand(state)
            store.overlay(own)
        self.taken.append(state)
