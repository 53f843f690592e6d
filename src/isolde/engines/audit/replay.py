"""Transactions run on the current rows of a log's store, and judged by their answers."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from isolde.engines.audit.answers import (
    CONCURRENCY,
    Rows,
    same_bag,
    same_cut,
    same_error,
    same_list,
    same_order,
    shown_rows,
)
from isolde.engines.audit.compiling import Ask
from isolde.engines.audit.log import Entry, Log
from isolde.engines.audit.tables import EXISTS, Effects, NamedStore
from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.concrete.outcome import AbortSignal, AssertionSignal


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A statement that would have answered something else: its place, the rows (or the count, or the error) that it gives."""

    statement: int
    rows: Rows | None
    count: int | None
    error: str | None

    def expected(self) -> tuple[tuple[Any, ...], ...] | None:
        """What it gives, as rows."""
        if self.error is not None:
            return ((f"error: {self.error}",),)
        if self.rows is not None:
            return shown_rows(self.rows)
        return None if self.count is None else ((self.count,),)

    @property
    def tells_nothing(self) -> bool:
        """Whether the statement could not be evaluated, or had to fail."""
        return self.rows is None and self.count is None and self.error is None


class Replay:
    """Runs statements of a log on its store. ``refused``: the first statement that could not be evaluated on the way."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.store: NamedStore = log.store
        self.refused: tuple[Entry, int, OutsideFragment] | None = None
        self.runs = 0
        self._either = log.history.counts is None and log.store.rules.counts_changed
        self._positions: dict[int, tuple[int, ...]] = {}
        self._known: dict[Hashable, Effects | Mismatch] = {}

    def tell_apart(self) -> None:
        """From now on, what was run on the same rows is not run again."""
        self.store.tell_apart()
        self._known.clear()

    # One transaction

    def whole(self, entry: Entry) -> Effects | Mismatch:
        """All of a transaction on the current rows: its effects, or the first statement that answers something else."""
        store, mark = self.store, len(self.store.undo)
        self.runs += 1
        try:
            for place, ask in enumerate(entry.asks):
                found = self._judge(entry, place, ask)
                if found is not None:
                    return found
            return store.effects(mark, entry.number)
        finally:
            store.undone(mark)

    def kept(self, entry: Entry) -> tuple[Effects, Effects] | Mismatch:
        """The same, and where all answers are right its effects become part of the current rows; with what undoes that."""
        store, mark = self.store, len(self.store.undo)
        self.runs += 1
        try:
            for place, ask in enumerate(entry.asks):
                found = self._judge(entry, place, ask)
                if found is not None:
                    store.undone(mark)
                    return found
        except BaseException:
            store.undone(mark)
            raise
        effects = store.effects(mark, entry.number)
        return effects, store.keep(mark, effects)

    def positions(self, entry: Entry) -> tuple[int, ...]:
        """The tables that a transaction looks at, by position, and the list of tables."""
        found = self._positions.get(entry.number)
        if found is None:
            tables = (self.store.catalog.table(name).position for name in entry.tables)
            found = self._positions[entry.number] = (EXISTS, *tables)
        return found

    def remembered(self, entry: Entry) -> Effects | Mismatch:
        """The same, run once for the same rows of the tables that it looks at."""
        sums = self.store.sums
        assert sums is not None, "states are not told apart"
        key = (entry.number, *(sums[position] for position in self.positions(entry)))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.whole(entry)
        return found

    def one(self, entry: Entry, place: int, own: Effects, own_key: Hashable) -> Effects | Mismatch:
        """One statement on the current rows with these own writes over them: the own writes after it.

        With a key for the own writes, it is run once for the same rows.
        """
        store, mark = self.store, len(self.store.undo)
        key = None
        if own_key is not None and store.sums is not None:
            sums = store.sums
            key = (entry.number, place, own_key, *(sums[position] for position in self.positions(entry)))
            found = self._known.get(key)
            if found is not None:
                return found
        self.runs += 1
        try:
            store.overlay(own)
            found = self._judge(entry, place, entry.asks[place])
            if found is None:
                found = store.effects(mark, entry.number)
        finally:
            store.undone(mark)
        if key is not None:
            self._known[key] = found
        return found

    # One statement

    def judged(self, entry: Entry, place: int) -> Mismatch | None:
        """Runs a statement on the current rows, and leaves its changes; ``None`` if it answers what was recorded."""
        self.runs += 1
        return self._judge(entry, place, entry.asks[place])

    def _judge(self, entry: Entry, place: int, ask: Ask) -> Mismatch | None:
        """Runs a statement and leaves its changes; ``None`` if it answers what was recorded."""
        form, mark = ask.form, len(self.store.undo)
        if ask.error is not None and ask.error in CONCURRENCY:
            return None
        count: int | None = None
        rows: Rows | None
        try:
            if form.is_query:
                rows = form.function(self.store, *ask.values)
            else:
                count, rows = form.function(self.store, *ask.values)
                rows = rows if form.gives_rows else None
        except ExecutionError as error:
            self.store.undone(mark)
            return None if ask.free or _may_fail(error, ask.error) else Mismatch(place, None, None, error.word)
        except (AbortSignal, AssertionSignal):
            self.store.undone(mark)
            return None if ask.free or ask.error is not None else Mismatch(place, None, None, "other")
        except OutsideFragment as error:
            self.store.undone(mark)
            if ask.free and form.is_query:
                return None
            return self._opened(entry, place, ask, error)
        if ask.free:
            return None
        if ask.error is not None:
            return Mismatch(place, rows, count, None)
        if rows == ask.rows and (count is None or count == ask.count):
            return None
        if not self._right_count(ask, count, mark):
            return Mismatch(place, rows if ask.rows is not None else None, count, None)
        if rows is None or ask.rows is None or self._right_rows(ask, rows):
            return None
        return Mismatch(place, rows, count, None)

    def _right_rows(self, ask: Ask, rows: Rows) -> bool:
        assert ask.rows is not None
        form = ask.form
        if form.opened is None:
            observed = ask.rows
            return same_bag(rows, observed) or (
                form.calls and any(same_bag(other, observed) for other in self.store.also)
            )
        if same_list(rows, ask.rows):
            return True
        every, keys, offset, limit = form.opened(self.store, ask.values)
        if offset == 0 and limit is None:
            return same_order(every, keys, ask.rows)
        return same_cut(every, keys, offset, limit, ask.rows)

    def _opened(self, entry: Entry, place: int, ask: Ask, error: OutsideFragment) -> Mismatch | None:
        """A query whose answer is open: right is whatever it may give. Anything else cannot be judged."""
        if ask.form.opened is not None and ask.error is None and ask.rows is not None:
            try:
                every, keys, offset, limit = ask.form.opened(self.store, ask.values)
            except (OutsideFragment, ExecutionError):
                pass
            else:
                fits = same_cut(every, keys, offset, limit, ask.rows)
                last = None if limit is None else offset + limit
                return None if fits else Mismatch(place, every[offset:last], None, None)
        if self.refused is None:
            self.refused = (entry, place, error)
        return Mismatch(place, None, None, None)

    def _right_count(self, ask: Ask, count: int | None, mark: int) -> bool:
        if count is None or ask.count is None or count == ask.count:
            return True
        if not self._either:
            return False
        # Whether rows that were found or that were changed are counted is not told: either is right.
        store = self.store
        store.undone(mark)
        store.counts_found = not store.counts_found
        try:
            other, _ = ask.form.function(store, *ask.values)
        finally:
            store.counts_found = not store.counts_found
        return bool(other == ask.count)


def _may_fail(error: ExecutionError, observed: str | None) -> bool:
    return observed is not None and same_error(error, observed)
