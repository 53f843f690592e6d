"""A log followed in the order in which it was recorded. What this finds is an explanation; that it finds none says nothing.

Transactions are placed by the time at which they committed, as far as the clients could tell. One that does not fit waits for the
others to come first; one that read something older tries older states. Where several wait for what does not come, the last
few placements are taken back and all orders of them are tried (``search.py``). Real time is kept throughout, if it is
known, also for levels that do not ask for it: a correct database keeps it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from isolde.engines.audit.log import Entry
from isolde.engines.audit.readings import Reading, Reads
from isolde.engines.audit.replay import Mismatch, Replay
from isolde.engines.audit.search import Allowance, End, Placed, Search
from isolde.engines.audit.tables import Effects
from isolde.engines.audit.timeline import Timeline

TRIES_MAX = 64
"""States that a transaction tries when it is its turn."""
WINDOWS = (4, 12, 40, 120)
"""How many placements are taken back, one after the other, where nothing fits any more."""
KEPT = 1_000
"""Placements whose states are kept."""
WINDOW_STEPS = 4_000
WINDOW_RUNS = 40_000


@dataclass(slots=True)
class _Waiting:
    entry: Entry
    tried: int
    """The states before this one were tried."""


@dataclass(slots=True)
class Following:
    """The way through a log. ``stuck``: the first one that nothing explains here, when it gives up."""

    replay: Replay
    reading: Reading
    entries: Sequence[Entry]
    allowance: Allowance
    timeline: Timeline = field(init=False)
    stuck: Entry | None = None
    searched: int = 0
    _times: list[int] = field(init=False)
    _position: dict[int, int] = field(init=False)
    _waiting: dict[int, _Waiting] = field(init=False)
    _timed: bool = field(init=False)

    def __post_init__(self) -> None:
        self.timeline = Timeline(self.replay)
        self._times = []
        self._position = {}
        self._waiting = {}
        self._timed = all(
            entry.start is not None and entry.end is not None for entry in self.entries if not entry.maybe
        )

    def run(self) -> bool:
        """Whether an explanation was found; then the timeline has it."""
        order = [entry for entry in self.entries if not entry.maybe]
        by_start = sorted(order, key=lambda entry: entry.start or 0) if self._timed else order
        if self._timed:
            order.sort(key=lambda entry: commit_time(entry) or 0)
        for entry in order:
            if entry.number in self._position:
                continue
            if not self.allowance.step():
                self.stuck = entry
                return False
            if not self._try(entry, 0):
                self._waiting[entry.number] = _Waiting(entry, len(self.timeline) + 1)
                if self._blocks(entry) and not self._mend(by_start):
                    self.stuck = entry
                    return False
            else:
                self._settle()
                self._let_go()
        if self._waiting and not self._mend(by_start):
            self.stuck = next(iter(self._waiting.values())).entry
            return False
        return True

    def _let_go(self) -> None:
        """Forgets states that nobody goes back to: no snapshot is that old, and no repair takes so many placements back."""
        length = len(self.timeline)
        if length % KEPT == 0:
            self.timeline.let_go(length - KEPT)

    def _blocks(self, entry: Entry) -> bool:
        """Whether it is too late for others to come first: too many wait, or time has passed."""
        if len(self._waiting) > 24:
            return True
        first = min(self._waiting.values(), key=lambda one: one.entry.number).entry
        return self._timed and entry.start is not None and first.end is not None and first.end < entry.start

    # One transaction

    def _try(self, entry: Entry, since: int) -> bool:
        """Places a transaction if it fits on a state from ``since`` on."""
        lowest = self._lowest(entry)
        if lowest is None:
            return False
        last = len(self.timeline)
        if self.reading.reads is Reads.LATEST:
            effects = self.timeline.whole(entry, last)
            if isinstance(effects, Mismatch):
                return False
            self._put(entry, (last,) * len(entry.asks), effects)
            return True
        if self.reading.reads is Reads.ONE_SNAPSHOT:
            return self._one_snapshot(entry, max(lowest, since), last)
        return self._by_statement(entry, lowest, last)

    def _one_snapshot(self, entry: Entry, lowest: int, last: int) -> bool:
        for state in self._near(self._hint(begin_time(entry)), lowest, last):
            effects = self.timeline.whole(entry, state)
            if isinstance(effects, Mismatch) or self.timeline.written_since(state, effects) is not None:
                continue
            self._put(entry, (state,) * len(entry.asks), effects)
            return True
        return False

    def _by_statement(self, entry: Entry, lowest: int, last: int) -> bool:
        own: Effects = {}
        snapshots: list[int] = []
        for place, ask in enumerate(entry.asks):
            hint = self._hint(_middle(ask.start, ask.end, begin_time(entry)))
            for state in self._near(hint, max([lowest, *snapshots[-1:]]), last):
                self.timeline.stand(state)
                found = self.replay.one(entry, place, own, None)
                if not isinstance(found, Mismatch):
                    own = found
                    snapshots.append(state)
                    break
            else:
                return False
        self._put(entry, tuple(snapshots), own)
        return True

    def _near(self, hint: int, lowest: int, last: int) -> Iterator[int]:
        """States from the likeliest on outwards."""
        lowest = max(lowest, last - KEPT // 2)
        if lowest > last:
            return
        hint = max(lowest, min(hint, last))
        yield hint
        for distance in range(1, TRIES_MAX):
            if hint + distance <= last:
                yield hint + distance
            if hint - distance >= lowest:
                yield hint - distance

    def _hint(self, time: int | None) -> int:
        return len(self._times) if time is None else bisect_left(self._times, time)

    def _lowest(self, entry: Entry) -> int | None:
        """The first state that it may read; ``None`` if somebody who has to come first is not placed."""
        lowest = 0
        for number in entry.before:
            position = self._position.get(number)
            if position is None:
                if self.replay.log.entries[number].maybe:
                    continue
                return None
            lowest = max(lowest, position + 1)
        if self._timed and entry.start is not None:
            for one in self._waiting.values():
                if one.entry is not entry and one.entry.end is not None and one.entry.end < entry.start:
                    return None
            lowest = max(lowest, self._ended_before(entry.start))
        return lowest

    def _ended_before(self, time: int) -> int:
        """The state after the last one that ended before a time."""
        for state in range(len(self.timeline), max(0, len(self.timeline) - 4 * TRIES_MAX), -1):
            end = self.replay.log.entries[self.timeline.placed[state - 1].number].end
            if end is not None and end < time:
                return state
        return max(0, len(self.timeline) - 4 * TRIES_MAX)

    def _put(self, entry: Entry, snapshots: tuple[int, ...], effects: Effects) -> None:
        self._position[entry.number] = len(self.timeline)
        time = commit_time(entry)
        self._times.append(max(time if time is not None else 0, self._times[-1] if self._times else 0))
        self.timeline.place(Placed(entry.number, snapshots), effects)
        self._waiting.pop(entry.number, None)

    def _settle(self) -> None:
        """Lets those who wait try the new states."""
        moved = bool(self._waiting)
        while moved:
            moved = False
            for one in list(self._waiting.values()):
                if self._try(one.entry, one.tried):
                    moved = True
                else:
                    one.tried = len(self.timeline) + 1

    # Where nothing fits

    def _mend(self, by_start: Sequence[Entry]) -> bool:
        """Takes back the last placements and tries all orders of them, with those that wait and those that go on meanwhile."""
        for window in WINDOWS:
            if window > len(self.timeline) and window > WINDOWS[0] and window // 3 > len(self.timeline):
                break
            if self._mended(max(0, len(self.timeline) - window), by_start):
                return True
        return False

    def _mended(self, length: int, by_start: Sequence[Entry]) -> bool:
        entries = self.replay.log.entries
        gone = self.timeline.cut(length)
        effects_times = self._times[length:]
        del self._times[length:]
        for one in gone:
            del self._position[one.number]
        must = sorted({one.number for one in gone} | set(self._waiting))
        horizon = max((entries[number].end or 0 for number in must), default=0)
        others = [
            entry
            for entry in by_start
            if entry.number not in self._position
            and entry.number not in must
            and (entry.start or 0) <= horizon
            and self._timed
        ][:32]
        wanted = sorted([*(entries[number] for number in must), *others], key=lambda one: one.number)
        allowance = Allowance(WINDOW_STEPS, self.allowance.deadline, WINDOW_RUNS)
        search = Search(self.replay, replace(self.reading, strict=self._timed), wanted, allowance, must=frozenset(must))
        # Where a session was recorded against the clock, one who has to come first may not be among them: not in this window.
        end = search.run() if self._complete(wanted) else End.NONE
        self.searched += allowance.spent
        if end is End.FOUND:
            for placed in search.placed:
                self._replace(entries[placed.number], placed, length)
            return True
        del effects_times
        for one in gone:
            self._replace(entries[one.number], one, 0)
        return False

    def _complete(self, wanted: Sequence[Entry]) -> bool:
        """Whether all who come before these in their sessions are placed or take part, but for those of unknown outcome."""
        entries, there = self.replay.log.entries, {entry.number for entry in wanted}
        return all(
            one in there or one in self._position or entries[one].maybe for entry in wanted for one in entry.before
        )

    def _replace(self, entry: Entry, placed: Placed, first: int) -> None:
        """Puts one where a search had it; its states are counted from ``first``."""
        snapshots = tuple(state + first for state in placed.snapshots)
        effects = run_at(self.timeline, entry, snapshots)
        assert not isinstance(effects, Mismatch)
        self._put(entry, snapshots, effects)


def run_at(timeline: Timeline, entry: Entry, snapshots: Sequence[int]) -> Effects | Mismatch:
    """A transaction with a state for each statement: its effects, or the statement that answers something else."""
    if len(set(snapshots)) == 1:
        return timeline.whole(entry, snapshots[0])
    own: Effects = {}
    for place, state in enumerate(snapshots):
        timeline.stand(state)
        found = timeline.replay.one(entry, place, own, None)
        if isinstance(found, Mismatch):
            return found
        own = found
    return own


def _middle(start: int | None, end: int | None, otherwise: int | None) -> int | None:
    return (start + end) // 2 if start is not None and end is not None else otherwise


def begin_time(entry: Entry) -> int | None:
    """When its snapshot was taken, about: in the middle of its first statement."""
    first = entry.asks[0] if entry.asks else None
    return entry.start if first is None else _middle(first.start, first.end, entry.start)


def commit_time(entry: Entry) -> int | None:
    """When it committed, about: between the answer to its last statement and its end."""
    last = entry.asks[-1] if entry.asks else None
    return entry.end if last is None or last.end is None else _middle(last.end, entry.end, entry.end)
