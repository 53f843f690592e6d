"""A log followed in the order in which it was recorded. What this finds is an explanation; that it finds none says nothing.

Transactions are placed by the time at which they committed, as far as the clients could tell. One that does not fit waits for the
others to come first; one that read something older tries older states. Where several wait for what does not come, the last
few placements are taken back and all orders of them are tried (``search.py``). Real time is kept throughout, if it is
known, also for levels that do not ask for it: a correct database keeps it.

Entries are taken one after the other, and those that are placed are not looked at again, so that a log may be larger than memory.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from isolde.engines.audit.calls import at_states
from isolde.engines.audit.heuristics import ALL, WINDOW, Heuristics
from isolde.engines.audit.log import Entry
from isolde.engines.audit.readings import Reading, Reads
from isolde.engines.audit.replay import Mismatch, Replay
from isolde.engines.audit.search import Allowance, End, Search
from isolde.engines.audit.tables import Effects
from isolde.engines.audit.timeline import Inside, Placed, Timeline
from isolde.errors import MistakeError

WINDOWS = (4, 12, 40, 120)
"""How many placements are taken back, one after the other, where nothing fits any more."""
KEPT = 1_000
"""Placements whose states are kept."""
AHEAD = 256
"""Entries, by ``end``, among which the one that committed first is looked for."""
OTHERS = 32
"""Entries that take part in a repair beside those that were placed or wait."""
WAITING_MAX = 24
WINDOW_STEPS = 4_000
WINDOW_RUNS = 40_000
_UNKNOWN = -(2**63)


@dataclass(slots=True)
class _Waiting:
    entry: Entry
    tried: int
    """The states before this one were tried."""


@dataclass(slots=True)
class Following:
    """The way through a log. ``stuck``: the first one that nothing explains here, when it gives up.

    ``by_end``: entries are taken in the order of ``end`` alone, and never before their turn.
    """

    replay: Replay
    reading: Reading
    entries: Sequence[Entry]
    allowance: Allowance
    by_end: bool = False
    heuristics: Heuristics = ALL
    by_serial: bool = False
    """Entries are taken in the order that the database told. It may break real time, so that the witness has to be verified."""
    timeline: Timeline = field(init=False)
    stuck: Entry | None = None
    searched: int = 0
    waiting: dict[int, _Waiting] = field(default_factory=dict)
    """Those whose turn it was, and that did not fit."""
    _times: array[int] = field(default_factory=lambda: array("q"))
    _ends: array[int] = field(default_factory=lambda: array("q"))
    _position: array[int] = field(default_factory=lambda: array("q"))
    _order: array[int] = field(default_factory=lambda: array("q"))
    """The numbers of those that are placed."""
    _known: dict[int, Entry] = field(default_factory=dict)
    """Those that came, but for those that nobody takes back any more."""
    _ahead: list[tuple[int, int, Entry]] = field(default_factory=list)
    _doubted: dict[int, Entry] = field(default_factory=dict)
    _after_doubt: dict[int, list[int]] = field(default_factory=dict)
    _timed: bool = field(init=False)

    def __post_init__(self) -> None:
        self.timeline = Timeline(self.replay)
        self._timed = self.replay.log.timed

    def run(self) -> bool:
        """Whether an explanation was found; then the timeline has it."""
        coming: Iterable[Entry] = self.entries
        if self.by_serial:
            coming = sorted(self.entries, key=lambda entry: entry.serial or 0)
        return all(self.offer(entry) for entry in coming) and self.finish()

    def offer(self, entry: Entry) -> bool:
        """The next entry, in the order of ``end``; whether it may go on. It is taken when its turn comes."""
        self.note(entry)
        if entry.maybe:
            return True
        timed = self._timed and not self.by_end and not self.by_serial
        time = commit_time(entry) if timed else entry.number
        heappush(self._ahead, (time or 0, entry.number, entry))
        return len(self._ahead) < (1 if self.by_end or self.by_serial else AHEAD) or self._next()

    def catch_up(self, time: int) -> bool:
        """Takes all that had committed by a time, without waiting for others to compare them with."""
        while self._ahead and self._ahead[0][0] < time:
            if not self._next():
                return False
        return True

    def finish(self) -> bool:
        """No other comes: whether all of them are explained."""
        while self._ahead:
            if not self._next():
                return False
        if self.waiting and not self._mend():
            self.stuck = next(iter(self.waiting.values())).entry
            return False
        return True

    def _next(self) -> bool:
        """Takes the one that committed first of those that are known."""
        entry = heappop(self._ahead)[2]
        if self._position[entry.number] >= 0:
            return True
        if not self.allowance.step():
            self.stuck = entry
            return False
        return self.take(entry)

    def take(self, entry: Entry) -> bool:
        """The next entry: it is placed, or waits; whether it may go on."""
        if not self._try(entry, 0):
            self.waiting[entry.number] = _Waiting(entry, len(self.timeline) + 1)
            if self._blocks(entry) and not self._mend():
                self.stuck = entry
                return False
        else:
            if self.waiting:
                self._settle()
            self._let_go()
        return True

    def note(self, entry: Entry) -> None:
        """What has to be known of an entry before it is taken; those of unknown outcome are never taken, but kept aside."""
        self._known[entry.number] = entry
        while len(self._position) <= entry.number:
            self._position.append(-1)
        for doubted in entry.before:
            if doubted in self._doubted:
                self._after_doubt.setdefault(doubted, []).append(entry.number)
        if entry.maybe:
            self._doubted[entry.number] = entry

    def _let_go(self) -> None:
        """Forgets states that nobody goes back to: no snapshot is that old, and no repair takes so many placements back."""
        length = len(self.timeline)
        if length % KEPT == 0:
            before = self.timeline.first
            self.timeline.let_go(length - KEPT)
            for place in range(before, self.timeline.first):
                self._known.pop(self._order[place], None)

    def _blocks(self, entry: Entry) -> bool:
        """Whether it is too late for others to come first: too many wait, or time has passed."""
        if len(self.waiting) > WAITING_MAX:
            return True
        first = min(self.waiting.values(), key=lambda one: one.entry.number).entry
        return self._timed and entry.start is not None and first.end is not None and first.end < entry.start

    # One transaction

    def _try(self, entry: Entry, since: int) -> bool:
        """Places a transaction if it fits on a state from ``since`` on."""
        lowest = self._lowest(entry)
        if lowest is None:
            return False
        last = len(self.timeline)
        if self.reading.reads is Reads.LATEST:
            return self._on_last(entry)
        if self.reading.reads is Reads.ONE_SNAPSHOT:
            return self._one_snapshot(entry, max(lowest, since), last)
        if not self.heuristics.stronger:
            return self._by_statement(entry, [last] * len(entry.asks), lowest, last)
        hints = [self._hint(_statement_time(ask.start, ask.end, ask.is_query)) for ask in entry.asks]
        if all(hint >= last for hint in hints):
            return self._on_last(entry) or self._by_statement(entry, hints, lowest, last)
        return self._by_statement(entry, hints, lowest, last) or self._on_last(entry)

    def _on_last(self, entry: Entry) -> bool:
        if isinstance(self.timeline.advance(entry, len(entry.asks)), Mismatch):
            return False
        self._placed(entry)
        return True

    def _one_snapshot(self, entry: Entry, lowest: int, last: int) -> bool:
        hint = self._hint(begin_time(entry)) if self.heuristics.stronger else last
        for state in self._near(hint, lowest, last):
            if state == last:
                if self._on_last(entry):
                    return True
                continue
            effects = self.timeline.whole(entry, state)
            if isinstance(effects, Mismatch) or self.timeline.written_since(state, effects) is not None:
                continue
            self._put(entry, (state,) * len(entry.asks), effects)
            return True
        return False

    def _by_statement(self, entry: Entry, hints: Sequence[int], lowest: int, last: int) -> bool:
        own: Effects = {}
        snapshots: list[int] = []
        for place, hint in enumerate(hints):
            for state in self._near(hint, max([lowest, *snapshots[-1:]]), last):
                found = self._statement(entry, place, own, state)
                if not isinstance(found, Mismatch):
                    state, own = self._after_writers(entry, place, own, state, found)
                    snapshots.append(state)
                    break
            else:
                return False
        self._put(entry, tuple(snapshots), own)
        return True

    def _statement(self, entry: Entry, place: int, own: Effects, state: int) -> Effects | Mismatch:
        self.timeline.stand(state)
        return self.replay.one(entry, place, own, None)

    def _after_writers(self, entry: Entry, place: int, own: Effects, state: int, found: Effects) -> tuple[int, Effects]:
        """A statement that writes a row reads it as the last one left it: a database waits for the other's commit.

        Nothing obliges a level to that; where the answer would be another one, the older state stays.
        """
        if len(found) > len(own):
            written = {name: row for name, row in found.items() if name not in own}
            after = self.timeline.last_writer(state, written)
            if after is not None:
                newer = self._statement(entry, place, own, after)
                if not isinstance(newer, Mismatch):
                    return after, newer
        return state, found

    def _near(self, hint: int, lowest: int, last: int) -> Iterator[int]:
        """States from the likeliest on outwards."""
        lowest = max(lowest, last - KEPT // 2)
        if lowest > last:
            return
        hint = max(lowest, min(hint, last))
        yield hint
        for distance in range(1, self.heuristics.window or KEPT):
            if hint + distance <= last:
                yield hint + distance
            if hint - distance >= lowest:
                yield hint - distance

    def _hint(self, time: int | None) -> int:
        times = self._times
        if time is None or not times or times[-1] < time:
            return len(times)
        return bisect_left(times, time)

    def _lowest(self, entry: Entry) -> int | None:
        """The first state that it may read; ``None`` if somebody who has to come first is not placed."""
        lowest = 0
        for number in entry.before:
            position = self._position[number]
            if position < 0:
                if number in self._doubted:
                    continue
                return None
            lowest = max(lowest, position + 1)
        if self._timed and entry.start is not None:
            for one in self.waiting.values():
                if one.entry is not entry and one.entry.end is not None and one.entry.end < entry.start:
                    return None
            lowest = max(lowest, self._ended_before(entry.start))
        return lowest

    def _ended_before(self, time: int) -> int:
        """The state after the last one that ended before a time."""
        ends, last = self._ends, len(self._ends)
        lowest = max(0, last - 4 * WINDOW)
        for state in range(last, lowest, -1):
            if _UNKNOWN < ends[state - 1] < time:
                return state
        return lowest

    def _put(self, entry: Entry, snapshots: tuple[int, ...], effects: Effects, inside: Inside = ()) -> None:
        self.timeline.place(Placed(entry.number, snapshots, inside), effects)
        self._placed(entry)

    def _placed(self, entry: Entry) -> None:
        """Notes an entry that the timeline has got."""
        self._position[entry.number] = len(self._times)
        self._order.append(entry.number)
        time = commit_time(entry) or 0
        self._times.append(max(time, self._times[-1]) if self._times else time)
        self._ends.append(_UNKNOWN if entry.end is None or entry.maybe else entry.end)
        if self.waiting:
            self.waiting.pop(entry.number, None)

    def _settle(self) -> None:
        """Lets those who wait try the new states."""
        moved = bool(self.waiting)
        while moved:
            moved = False
            for one in list(self.waiting.values()):
                if self._try(one.entry, one.tried):
                    moved = True
                else:
                    one.tried = len(self.timeline) + 1

    # Where nothing fits

    def _mend(self) -> bool:
        """Takes back the last placements and tries all orders of them, with those that wait and those that go on meanwhile."""
        for window in WINDOWS:
            if window > len(self.timeline) and window > WINDOWS[0] and window // 3 > len(self.timeline):
                break
            if self._mended(max(self.timeline.first, len(self.timeline) - window)):
                return True
        return False

    def _mended(self, length: int) -> bool:
        entries = self._known
        gone = self.timeline.cut(length)
        del self._times[length:], self._ends[length:], self._order[length:]
        for one in gone:
            self._position[one.number] = -1
        must = {one.number: entries[one.number] for one in gone} | {
            number: one.entry for number, one in self.waiting.items()
        }
        wanted = must | self._others(must)
        allowance = Allowance(WINDOW_STEPS, self.allowance.deadline, WINDOW_RUNS)
        # In the order of ``end``, which is that of their numbers.
        search = Search(
            self.replay,
            replace(self.reading, strict=self._timed),
            [wanted[number] for number in sorted(wanted)],
            allowance,
            must=frozenset(number for number, entry in must.items() if not entry.maybe),
        )
        # Where a session was recorded against the clock, one who has to come first may not be among them: not in this window.
        end = search.run() if self._complete(wanted) else End.NONE
        self.searched += allowance.spent
        found = search.placed if end is End.FOUND and self._in_time(search.placed, wanted) else None
        if found is None:
            for one in gone:
                self._replace(must[one.number], one, 0)
            return False
        for placed in found:
            self._replace(wanted[placed.number], placed, length)
        return True

    def _others(self, must: dict[int, Entry]) -> dict[int, Entry]:
        """Entries that may come in between: those that began in time, and those of unknown outcome whose turn has not passed."""
        horizon = max((entry.end or 0 for entry in must.values()), default=0)
        coming = sorted(
            ((entry.start or 0, number, entry) for _, number, entry in self._ahead), key=lambda one: one[:2]
        )
        found: dict[int, Entry] = {}
        if not self.by_end:
            for start, number, entry in coming[:OTHERS]:
                if (start <= horizon or not self._timed) and self._follows(entry, must, found):
                    found[number] = entry
        for number, entry in list(self._doubted.items())[-OTHERS:]:
            passed = any(self._position[one] >= 0 for one in self._after_doubt.get(number, ()))
            if self._position[number] < 0 and not passed and self._follows(entry, must, found):
                found[number] = entry
        return found

    def _follows(self, entry: Entry, must: dict[int, Entry], found: dict[int, Entry]) -> bool:
        """Whether those before it in its session are placed, or take part."""
        return self._position[entry.number] < 0 and all(
            self._position[one] >= 0 or one in must or one in found or one in self._doubted for one in entry.before
        )

    def _in_time(self, placed: Sequence[Placed], wanted: dict[int, Entry]) -> bool:
        """Whether nobody who is left out had ended when one of those began that are placed."""
        if not self._timed:
            return True
        there = {one.number for one in placed}
        left = [entry.end for _, number, entry in self._ahead if number not in there and self._position[number] < 0]
        left += [one.entry.end for number, one in self.waiting.items() if number not in there]
        first = min((end for end in left if end is not None), default=None)
        latest = max((wanted[number].start or 0 for number in there), default=0)
        return first is None or first >= latest

    def _complete(self, wanted: dict[int, Entry]) -> bool:
        """Whether all who come before these in their sessions are placed or take part, but for those of unknown outcome."""
        return all(
            one in wanted or self._position[one] >= 0 or one in self._doubted
            for entry in wanted.values()
            for one in entry.before
        )

    def _replace(self, entry: Entry, placed: Placed, first: int) -> None:
        """Puts one where a search had it, with its states counted from ``first``, and looks at all that the level asks for."""
        placed = placed.later(first)
        lowest, here = self._session_lowest(entry), len(self.timeline)
        effects = run_at(self.timeline, entry, placed)
        if isinstance(effects, Mismatch):
            raise MistakeError(f"the order that explains the log does not: {entry.id} answers something else")
        if not self.reading.allows(placed.states(), lowest, here):
            raise MistakeError(f"the order that explains the log breaks the level at {entry.id}")
        oldest = min(placed.states(), default=here)
        if self.reading.first_committer and self.timeline.written_since(oldest, effects) is not None:
            raise MistakeError(f"the order that explains the log does not: {entry.id} has a conflict")
        self._put(entry, placed.snapshots, effects, placed.inside)

    def _session_lowest(self, entry: Entry) -> int:
        lowest = max((self._position[one] + 1 for one in entry.before), default=0)
        if self.reading.strict and entry.start is not None:
            lowest = max(lowest, self._ended_before(entry.start))
        return lowest


def run_at(timeline: Timeline, entry: Entry, placed: Placed) -> Effects | Mismatch:
    """A transaction with a state for each statement: its effects, or the statement that answers something else."""
    calls = dict(placed.inside)
    if not calls and len(set(placed.snapshots)) == 1:
        return timeline.whole(entry, placed.snapshots[0])
    own: Effects = {}
    for place, state in enumerate(placed.snapshots):
        if place in calls:
            found = at_states(timeline, entry, place, own, calls[place])
        else:
            timeline.stand(state)
            found = timeline.replay.one(entry, place, own, None)
        if isinstance(found, Mismatch):
            return found
        own = found
    return own


def _middle(start: int | None, end: int | None, otherwise: int | None) -> int | None:
    return (start + end) // 2 if start is not None and end is not None else otherwise


def _statement_time(start: int | None, end: int | None, is_query: bool) -> int | None:
    """When a statement took its state, about: one that changes rows may have waited for them till the end."""
    return _middle(start, end, end) if is_query else end


def begin_time(entry: Entry) -> int | None:
    """When its snapshot was taken, about: in the middle of its first statement."""
    first = entry.asks[0] if entry.asks else None
    return entry.start if first is None else _middle(first.start, first.end, entry.start)


def commit_time(entry: Entry) -> int | None:
    """When it committed, about: between the answer to its last statement and its end."""
    last = entry.asks[-1] if entry.asks else None
    return entry.end if last is None or last.end is None else _middle(last.end, entry.end, entry.end)
