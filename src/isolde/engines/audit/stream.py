"""A log that is judged while it comes: transactions are given one by one, and what is settled is forgotten.

It is followed as any log is (``follow.py``), and holds as long as everybody was placed or waits. That it holds no longer proves
nothing yet: then the whole log is judged by the ordinary door. Memory is bounded by the rows, but for a few numbers for each
transaction.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Any

from isolde.engines.audit.compiling import Compiling
from isolde.engines.audit.follow import Following
from isolde.engines.audit.log import Entry, Log, log_of
from isolde.engines.audit.readings import Reading
from isolde.engines.audit.replay import Replay
from isolde.engines.audit.search import Allowance
from isolde.errors import InputError, MalformedProgram, OutsideFragment
from isolde.formats.tables import SqlHistory


class NotInOrder(Exception):
    """The log cannot be judged as it comes: times are missing, or its transactions do not come by their start."""


@dataclass(slots=True)
class Stream:
    """A log at one level. ``header`` is the log without its transactions.

    Lines come by ``start`` (as recordings have them), or a transaction comes when all that ended before it have come.
    """

    header: SqlHistory
    reading: Reading
    session_order: bool = True
    deadline: float | None = None
    holds: bool = True
    """Whether everything so far is explained, as far as following can tell."""
    transactions: int = 0
    began: float = field(default_factory=time.monotonic)
    _following: Following = field(init=False)
    _compiling: Compiling = field(init=False)
    _held: list[tuple[int, int, Entry]] = field(default_factory=list)
    """Those that came, until nobody can come any more who ended before."""
    _released: int | None = None
    _before: dict[Any, list[int]] = field(default_factory=dict)
    _turns: dict[Any, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        log: Log = log_of(replace(self.header, transactions=()), session_order=self.session_order)
        self._compiling = Compiling(self.header, log.store, False)
        self._following = Following(Replay(log), self.reading, (), Allowance(2**62, self.deadline))
        self._following.timeline.forgets = True

    def add(self, line: Mapping[str, Any]) -> bool:
        """The next transaction, as a line of the format; whether the log still holds."""
        entry = self._entry(line)
        if entry is None or not self.holds:
            return self.holds
        if entry.start is None or entry.end is None:
            raise NotInOrder
        if self._released is not None and entry.end < self._released:
            raise NotInOrder
        heappush(self._held, (entry.end, entry.number, entry))
        self.release(entry.start)
        return self.holds

    def release(self, before: int) -> bool:
        """Nobody comes any more who ended before this time; whether the log still holds."""
        held = self._held
        while self.holds and held and held[0][0] < before:
            self._released, _, entry = heappop(held)
            self.holds = self._following.offer(entry)
        return self.holds

    def catch_up(self) -> bool:
        """Judges what has come as far as that is possible by now; whether the log still holds."""
        if self.holds and self._released is not None:
            self.holds = self._following.catch_up(self._released)
        return self.holds

    def finish(self) -> bool:
        """No other comes: whether following explains all of them."""
        while self.holds and self._held:
            self.holds = self._following.offer(heappop(self._held)[2])
        self.holds = self.holds and self._following.finish()
        return self.holds

    def _entry(self, line: Mapping[str, Any]) -> Entry | None:
        """The transaction, compiled; ``None`` if it was aborted."""
        status = line.get("status", "committed")
        if "ops" not in line:
            raise NotInOrder
        if status == "aborted":
            return None
        number, session = self.transactions, line["session"]
        self.transactions += 1
        turn = self._turns[session] = self._turns.get(session, -1) + 1
        earlier = self._before.setdefault(session, [])
        before = tuple(earlier) if self.session_order else ()
        if status == "committed":
            earlier.clear()
        earlier.append(number)
        try:
            asks = tuple(map(self._compiling.ask, line["ops"]))
        except (OutsideFragment, MalformedProgram, InputError, AttributeError) as error:
            raise NotInOrder from error
        if any(ask.form.code is None for ask in asks):
            # Tables that come and go, and procedures, are about the whole log.
            raise NotInOrder
        maybe = status == "unknown"
        return Entry(
            number,
            line.get("id", number),
            session,
            asks,
            maybe,
            line.get("start"),
            line.get("end"),
            before,
            turn,
            line.get("serial"),
        )


def streamed(
    header: SqlHistory,
    lines: Iterable[Mapping[str, Any]],
    reading: Reading,
    *,
    session_order: bool,
    deadline: float | None,
) -> Stream | None:
    """The end of a log that came line by line, if following explains it; ``None`` if it does not, or cannot tell."""
    stream = Stream(header, reading, session_order, deadline)
    try:
        explained = all(map(stream.add, lines)) and stream.finish()
    except NotInOrder:
        return None
    return stream if explained else None
