"""Section 6 of *Checking Observational Correctness of Database Systems* (Pick et al. 2025), as repaired by its errata.

One order is judged, that of ``end``, and sessions do not count. Serializable: each statement reads the state before its
transaction. Snapshot isolation: one state before it, any; strict: the state after exactly those that ended before it began. For a
row that it writes, the value that it read is the one just before its commit, unless it wrote what it had read (values are
compared, not versions). Read committed: each statement reads each row in any state before its transaction, another one for
each row. A transaction of unknown outcome takes part at any instant after its start, or not at all.

The search goes through the order with one choice a transaction: which effects it has. Where one cannot be explained, the
choices are reconsidered that it may depend on (those that share a table with it), the last one first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product
from typing import Any

from isolde.engines.audit.log import Entry
from isolde.engines.audit.readings import Reading, Reads
from isolde.engines.audit.replay import Mismatch, Replay
from isolde.engines.audit.search import Allowance, End
from isolde.engines.audit.tables import EXISTS, Effects, Name
from isolde.engines.audit.timeline import Placed, Timeline
from isolde.semantics.tables.recording import Recorder, RecordingView, Sought
from isolde.semantics.tables.view import Row

Instant = float
WINDOW = 12
"""States on which a statement is tried before mixtures of versions, at read committed."""


@dataclass(slots=True)
class _Choice:
    """A transaction that is placed: what else it might have done, and who made others impossible."""

    ways: Iterator[tuple[Effects, tuple[int, ...]]]
    blamed: set[int] = field(default_factory=set)


class PaperSearch:
    """``entries`` in the order of ``end``; ``placed`` is the witness if one was found.

    ``failed`` is how many of the order were explained before one was not, in the best try.
    """

    def __init__(self, replay: Replay, reading: Reading, entries: Sequence[Entry], allowance: Allowance) -> None:
        self.replay, self.reading, self.entries, self.allowance = replay, reading, entries, allowance
        self.timeline = Timeline(replay)
        self.placed: tuple[Placed, ...] = ()
        self.effects: tuple[Effects, ...] = ()
        """What each of them wrote."""
        self.failed = 0
        self._versions: dict[int, dict[Name, list[Row | None]]] = {}
        """The versions of rows so far, by table."""
        self._added: list[list[Name]] = []

    def run(self) -> End:
        """Tries all outcomes; the store is left as it was."""
        self.replay.tell_apart()
        spent = False
        for order, instants in orders(self.entries):
            end = self._in(order, instants)
            self.timeline.cut(0)
            while self._added:
                self._forget()
            if end is End.FOUND:
                return end
            spent = spent or end is End.SPENT
            if self.allowance.over:
                # There are very many outcomes and instants of a few transactions in doubt.
                break
        return End.SPENT if spent else End.NONE

    def _in(self, order: Sequence[Entry], instants: Sequence[Instant]) -> End:
        choices: list[_Choice] = []
        while len(choices) < len(order):
            here = len(choices)
            choices.append(_Choice(self._ways(order[here], instants, here)))
            self.failed = max(self.failed, here)
            while not self._advanced(order[len(choices) - 1], choices[-1]):
                if self.allowance.over or not self._back(order, choices):
                    return End.SPENT if self.allowance.over else End.NONE
            if not self.allowance.step():
                return End.SPENT
        self.failed = len(order)
        self.placed, self.effects = tuple(self.timeline.placed), tuple(self.timeline.effects)
        return End.FOUND

    def _advanced(self, entry: Entry, choice: _Choice) -> bool:
        """Places the transaction with the next effects that it may have."""
        found = next(choice.ways, None)
        if found is None:
            return False
        effects, snapshots = found
        self._remember(effects)
        self.timeline.place(Placed(entry.number, snapshots), effects)
        return True

    def _back(self, order: Sequence[Entry], choices: list[_Choice]) -> bool:
        """Goes back to the last choice that the one that failed may depend on; whether there is one."""
        failed = choices.pop()
        here = len(choices)
        self.allowance.step()
        blamed = failed.blamed | {
            place for place in range(here) if not order[place].tables.isdisjoint(order[here].tables)
        }
        if not blamed:
            return False
        target = max(blamed)
        while len(choices) > target + 1:
            choices.pop()
        self.timeline.cut(target)
        while len(self._added) > target:
            self._forget()
        choices[-1].blamed |= blamed - {target}
        return True

    # What a transaction may do

    def _ways(self, entry: Entry, instants: Sequence[Instant], last: int) -> Iterator[tuple[Effects, tuple[int, ...]]]:
        """``instants`` are those of the order, which ascend; ``last`` of them are placed."""
        if self.reading.reads is Reads.EACH_STATEMENT:
            yield from ((own, ()) for own in self._mixed(entry))
            return
        states: Sequence[int] = [last]
        if self.reading.reads is Reads.ONE_SNAPSHOT:
            states = range(last, -1, -1)
            if self.reading.strict:
                start = entry.start
                states = [last if start is None else bisect_left(instants, start, 0, last)]
        known: set[Any] = set()
        for state in states:
            self.timeline.stand(state)
            effects = self.replay.remembered(entry)
            if isinstance(effects, Mismatch):
                continue
            key = frozenset(effects.items())
            if key in known or not self._unchanged(effects, state, last):
                continue
            known.add(key)
            yield effects, (state,) * len(entry.asks)

    def _unchanged(self, effects: Effects, state: int, last: int) -> bool:
        """NWC: where a row is written another value than was read, the one that was read is there until the commit."""
        if state == last or not self.reading.first_committer:
            return True
        self.timeline.stand(state)
        read = {name: self._row(name) for name in effects}
        self.timeline.stand(last)
        return all(row == read[name] or read[name] == self._row(name) for name, row in effects.items())

    def _row(self, name: Name) -> Row | None:
        position, key = name
        if position == EXISTS:
            return self.replay.store.there.rows.get(key)
        table = self.replay.store.named[position]
        number = table.named.get(key)
        return None if number is None else table.rows.get(number)

    # Any version of any row

    def _remember(self, effects: Effects) -> None:
        """The versions that a transaction adds; the first one of a row comes with what it was before."""
        added = []
        if self.reading.reads is Reads.EACH_STATEMENT:
            for name, row in effects.items():
                versions = self._versions.setdefault(name[0], {}).setdefault(name, [self._row(name)])
                if row not in versions:
                    versions.append(row)
                    added.append(name)
        self._added.append(added)

    def _forget(self) -> None:
        for name in self._added.pop():
            self._versions[name[0]][name].pop()

    def _mixed(self, entry: Entry) -> Iterator[Effects]:
        """The effects of a transaction whose statements read any version of each row, those with newer versions first.

        One after the other, as they are asked for: mostly the newest versions explain what was answered.
        """
        last = len(self.timeline)
        self.timeline.stand(last)
        known: set[Any] = set()
        newest = self.replay.whole(entry)
        if not isinstance(newest, Mismatch):
            known.add((len(entry.asks), frozenset(newest.items())))
            yield newest
        yield from self._from(entry, 0, {}, last, known)

    def _from(self, entry: Entry, place: int, own: Effects, last: int, known: set[Any]) -> Iterator[Effects]:
        """The effects of what is left of a transaction from a statement on."""
        if place == len(entry.asks):
            yield own
            return
        for after in self._statement(entry, place, own, last):
            key = (place + 1, frozenset(after.items()))
            if key not in known:
                known.add(key)
                yield from self._from(entry, place + 1, after, last, known)

    def _statement(self, entry: Entry, place: int, own: Effects, last: int) -> Iterator[Effects]:
        """The own writes after a statement: on each of the last states, and then on any mixture of versions."""
        for state in range(last, max(last - WINDOW, -1), -1):
            if not self.allowance.run():
                return
            self.timeline.stand(state)
            found = self.replay.one(entry, place, own, None)
            if not isinstance(found, Mismatch):
                yield found
        todo: list[Effects] = [{}]
        while todo:
            chosen = todo.pop()
            if not self.allowance.run():
                return
            # Others may have stood elsewhere since the effects before these were asked for.
            self.timeline.stand(last)
            effects, sought = self._looked(entry, place, own, chosen)
            open_name = self._open(sought, own, chosen)
            if open_name is not None:
                # The newest version is tried first.
                todo += [{**chosen, open_name: row} for row in self._versions[open_name[0]][open_name]]
            elif not isinstance(effects, Mismatch):
                yield effects

    def _looked(
        self, entry: Entry, place: int, own: Effects, chosen: Effects
    ) -> tuple[Effects | Mismatch, list[Sought]]:
        """A statement on the chosen versions, and what it looked for."""
        store, recorder = self.replay.store, Recorder()
        mark = len(store.undo)
        store.overlay(chosen)
        plain = store.tables
        store.tables = [RecordingView(table, recorder) for table in plain]
        try:
            effects = self.replay.one(entry, place, own, None)
        finally:
            store.tables = plain
            store.undone(mark)
        return effects, recorder.sought

    def _open(self, sought: Sequence[Sought], own: Effects, chosen: Effects) -> Name | None:
        """A row with several versions that was looked for, and whose version is not chosen yet."""
        catalog = self.replay.store.catalog
        for one in sought:
            versions = self._versions.get(one.table)
            if not versions:
                continue
            info = catalog.tables[one.table]
            if info.table.primary_key and one.columns == info.uniques[0]:
                # Only the row of this name has that key.
                name = (one.table, one.key)
                if len(versions.get(name, ())) > 1 and name not in own and name not in chosen:
                    return name
                continue
            key = catalog.key(info.table, one.columns) if one.columns else None
            for name, rows in versions.items():
                if len(rows) < 2 or name in own or name in chosen:
                    continue
                if key is None or any(row is not None and key(row) == one.key for row in rows):
                    return name
        return None


def orders(entries: Sequence[Entry]) -> Iterator[tuple[list[Entry], list[Instant]]]:
    """The order of ``end`` with the instants of commits, for each outcome of those in doubt; the likeliest first."""
    known = [entry for entry in entries if not entry.maybe]
    doubted = [entry for entry in entries if entry.maybe]
    if any(entry.end is None for entry in known):
        # Without times, the order of the log is the one that is meant.
        times: list[int] = []
        moment: dict[int, Instant] = {entry.number: float(place) for place, entry in enumerate(known)}
        gaps = [place + 0.5 for place in range(-1, len(known))]
    else:
        times = sorted({time for one in entries for time in (one.start, one.end) if time is not None})
        moment = {entry.number: float(entry.end or 0) for entry in known}
        gaps = [time + 0.5 for time in [min(times, default=0) - 1, *times]]
    choices = [
        [None, *(gap for gap in gaps if entry.start is None or not times or gap > entry.start)] for entry in doubted
    ]
    for chosen in product(*choices):
        at = {entry.number: gap for entry, gap in zip(doubted, chosen, strict=True) if gap is not None}
        instants = {**moment, **at}
        there = [entry for entry in entries if entry.number in instants]
        yield from _sorted(there, instants, set(at))


def _sorted(
    entries: list[Entry], instants: dict[int, Instant], doubted: set[int]
) -> Iterator[tuple[list[Entry], list[Instant]]]:
    """By instants; those in doubt that share one come in any order."""
    groups: dict[Instant, list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: instants[entry.number]):
        groups.setdefault(instants[entry.number], []).append(entry)
    ways = [
        list(permutations(group)) if len(group) > 1 and group[0].number in doubted else [tuple(group)]
        for group in groups.values()
    ]
    for parts in product(*ways):
        order = [entry for part in parts for entry in part]
        yield order, [instants[entry.number] for entry in order]
