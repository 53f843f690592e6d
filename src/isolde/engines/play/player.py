"""Plays schedules on a real database, step by step, and finds out what waits.

    sessions (a thread each) ── answers ──▶ one queue ──▶ play()
                                                            │  nothing came for a moment
                                                            ▼
                                              who waits for whom?  (asked of the database by another connection)

The next step is sent when every session is at rest: its statement returned, or it waits for a lock that only another step can
free. A session that waits for somebody who is still at work is not at rest, nor is one in a circle of waits: the database will
break that by itself. Where a database does not tell who waits, what has not returned after a while counts as waiting.

A ``Player`` keeps its connections, so that thousands of schedules can be played on one server:

    with Player(adapter, database) as player:
        played = player.play(schedule)
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType

from isolde.databases import Adapter, Database, Offer, offer_named
from isolde.databases.stage import Answer, StagedSession, Waiting
from isolde.databases.stages import open_stage
from isolde.errors import ConnectionLost, OutsideError, UsageError
from isolde.history.schedule import Played, PlayedStep, Row, Schedule, ScheduleStep
from isolde.tx.dialects import Dialect
from isolde.tx.script import begins

# Most statements return before; then the database is asked whether it is a lock that keeps one.
_FIRST_LOOK_S = 0.002
_NEXT_LOOK_S = 0.004
# Every database breaks a deadlock, and lets those through whom a commit freed, long before.
_SETTLE_S = 20.0
_CLOSE_S = 10.0


@dataclass(frozen=True, slots=True)
class Sent:
    """One statement as it was sent, by a step or around the steps, with its answer and times of one clock."""

    session: str
    answer: Answer
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Recorded:
    """A schedule played, with all that a history of it needs."""

    schedule: Schedule
    played: Played
    sent: tuple[Sent, ...]
    first_rows: dict[str, tuple[Row, ...]]
    levels: dict[str, str | None]
    store: str
    dialect: Dialect
    settings: dict[str, str]


@dataclass(slots=True)
class _Playing:
    """A step on its way."""

    number: int
    step: ScheduleStep
    start: int = 0
    end: int = 0
    answers: list[Answer] = field(default_factory=list)
    returned_after: int | None = None
    seen_waiting: bool = False
    waited_for: list[str] = field(default_factory=list)
    failure: BaseException | None = None


class _Worker:
    """A session's thread: does one text at a time and reports to the queue of all."""

    def __init__(self, session: StagedSession, over: queue.SimpleQueue[_Worker], *, leave_lost: bool) -> None:
        self.session = session
        self._leave_lost, self._lost = leave_lost, False
        self.name = ""
        self.current: _Playing | None = None
        self.behind: deque[_Playing] = deque()
        self._over = over
        self._texts: queue.SimpleQueue[_Playing | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def do(self, playing: _Playing) -> None:
        """Starts it, or puts it behind what the session waits with."""
        if self.current is not None:
            self.behind.append(playing)
            return
        self.current = playing
        playing.start = time.monotonic_ns()
        self._texts.put(playing)

    def returned(self) -> _Playing:
        """What has just returned; the next that stood behind it is started."""
        done = self.current
        assert done is not None
        self.current = None
        if self.behind:
            self.do(self.behind.popleft())
        return done

    def stop(self) -> None:
        self._texts.put(None)
        self._thread.join(_CLOSE_S)
        self.session.close()

    def _work(self) -> None:
        while (playing := self._texts.get()) is not None:
            try:
                playing.answers = self._answers(playing.step.sql)
            except BaseException as error:
                playing.failure = error
            playing.end = time.monotonic_ns()
            self._over.put(self)

    def _answers(self, sql: str) -> list[Answer]:
        if begins(sql):
            self._lost = False
        if self._lost and self._leave_lost:
            return []
        answers = self.session.run(sql)
        self._lost = self._lost or any(one.error is not None and one.ended is not None for one in answers)
        return answers


class Player:
    """Plays schedules on one database, in a private place that ``close`` removes again.

    ``whom`` asks who waits for whom also where that takes a tenth of a second a wait (MariaDB). ``leave_lost``: what is left of a
    transaction that the database has ended (a deadlock) is not sent; it would run outside of any.
    """

    def __init__(self, adapter: Adapter, database: Database, *, whom: bool = False, leave_lost: bool = False) -> None:
        self._database, self._whom, self._leave_lost = database, whom, leave_lost
        self._stage = open_stage(adapter, database)
        self._over: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._workers: list[_Worker] = []
        self._stopped = False

    @property
    def store(self) -> str:
        """Name and version of the database, as ``postgresql 15.18``."""
        return self._stage.store

    def __enter__(self) -> Player:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def play(self, schedule: Schedule) -> Played:
        """What each step returned and when, and the tables at the end."""
        return self._play(schedule, [])

    def record(self, schedule: Schedule) -> Recorded:
        """The same, with every statement that was sent."""
        sent: list[Sent] = []
        first: dict[str, tuple[Row, ...]] = {}
        played = self._play(schedule, sent, first)
        levels = {name: offer.called if offer else None for name, offer in self._offers(schedule).items()}
        stage = self._stage
        return Recorded(schedule, played, tuple(sent), first, levels, stage.store, stage.dialect, dict(stage.settings))

    def stop(self) -> None:
        """Makes ``play`` end with ``ConnectionLost``, from any thread."""
        self._stopped = True
        self._cancel_all()

    def close(self) -> None:
        """Ends the sessions and removes the private place."""
        self._end_sessions()
        self._stage.close()

    def _end_sessions(self) -> None:
        self._cancel_all()
        for worker in self._workers:
            worker.stop()
        self._workers.clear()
        self._over = queue.SimpleQueue()

    def _cancel_all(self) -> None:
        for worker in self._workers:
            if worker.current is not None:
                # Where the server is gone, nothing waits any more.
                with suppress(OutsideError):
                    worker.session.cancel()

    def _offers(self, schedule: Schedule) -> dict[str, Offer | None]:
        return {
            name: offer_named(self._database, level) if level is not None else None
            for name, level in schedule.sessions.items()
        }

    def _play(self, schedule: Schedule, sent: list[Sent], first: dict[str, tuple[Row, ...]] | None = None) -> Played:
        offers = self._offers(schedule)
        self._stage.prepare(schedule.schema, schedule.rows)
        if first is not None:
            first.update(self._stage.tables())
        workers = self._ready(offers)
        try:
            for name, texts in schedule.before.items():
                self._around(workers[name], texts, sent)
            steps = [_Playing(number, step) for number, step in enumerate(schedule.steps)]
            for playing in steps:
                workers[playing.step.session].do(playing)
                self._settle(playing, list(workers.values()))
            played = tuple(_played(playing) for playing in steps)
            self._free(list(workers.values()))
            for name, texts in schedule.after.items():
                self._around(workers[name], texts, sent)
            for worker in workers.values():
                worker.session.roll_back()
        except BaseException:
            # What the sessions are at is not known any more; the next schedule gets new ones.
            self._end_sessions()
            raise
        sent += [
            Sent(playing.step.session, answer, playing.start, playing.end)
            for playing in steps
            if playing.returned_after is not None
            for answer in playing.answers
        ]
        sent.sort(key=lambda one: one.start)
        return Played(played, self._stage.tables())

    def _ready(self, offers: dict[str, Offer | None]) -> dict[str, _Worker]:
        while len(self._workers) < len(offers):
            self._workers.append(_Worker(self._stage.session(), self._over, leave_lost=self._leave_lost))
        workers = {}
        for worker, (name, offer) in zip(self._workers, offers.items(), strict=False):
            worker.session.restore(offer)
            worker.name = name
            workers[name] = worker
        # Nobody else of us is to keep a lock from an earlier schedule.
        for worker in self._workers[len(offers) :]:
            worker.session.restore(None)
        return workers

    def _around(self, worker: _Worker, texts: Sequence[str], sent: list[Sent]) -> None:
        """What a session sends before or after the steps; nobody else is at work, so that it may not wait."""
        for text in texts:
            playing = _Playing(-1, ScheduleStep(worker.name, text))
            worker.do(playing)
            try:
                self._over.get(timeout=_SETTLE_S)
            except queue.Empty:
                raise UsageError(
                    f"'{text}', which session {worker.name} sends before or after the steps, waits for another session"
                ) from None
            worker.returned()
            if playing.failure is not None:
                raise playing.failure
            sent += [Sent(worker.name, answer, playing.start, playing.end) for answer in playing.answers]

    def _settle(self, playing: _Playing, workers: list[_Worker]) -> None:
        """Returns when every session is at rest."""
        begun = time.monotonic()
        look_s = _FIRST_LOOK_S
        while busy := [worker.current for worker in workers if worker.current is not None]:
            if self._stopped:
                raise ConnectionLost("stopped")
            # What was seen to wait before may have been freed by this step: then the database is asked at once.
            first_s = 0.0 if all(one.seen_waiting for one in busy) else look_s
            if self._took_returns(playing.number, first_s):
                look_s = _FIRST_LOOK_S
            elif not self._at_rest(workers, time.monotonic() - begun):
                look_s = _NEXT_LOOK_S
                self._took_returns(playing.number, look_s)
            elif not self._took_returns(playing.number, 0.0):
                # Nothing returned while the question was asked either.
                return

    def _took_returns(self, number: int, within_s: float) -> bool:
        """Notes what has returned, waiting a little for the first; whether anything has."""
        found = False
        while True:
            try:
                worker = self._over.get(timeout=within_s) if within_s else self._over.get_nowait()
            except queue.Empty:
                return found
            done = worker.returned()
            done.returned_after = number
            if done.failure is not None:
                raise done.failure
            found, within_s = True, 0.0

    def _at_rest(self, workers: list[_Worker], waited_s: float) -> bool:
        told = self._stage.waiting([worker.session for worker in workers], whom=self._whom)
        if waited_s >= self._stage.patience_s:
            return True
        if told is None:
            return False
        for worker, one in zip(workers, told, strict=True):
            if worker.current is not None:
                worker.current.seen_waiting = one.waits
                for place in sorted(one.whom):
                    if workers[place].name not in worker.current.waited_for:
                        worker.current.waited_for.append(workers[place].name)
        busy = [place for place, worker in enumerate(workers) if worker.current is not None]
        if not all(told[place].waits and not told[place].outside for place in busy):
            return False
        return not (self._stage.deadlocks_linger and _circular(told))

    def _free(self, workers: list[_Worker]) -> None:
        """Ends what waits after the last step: it never returned."""
        for worker in workers:
            worker.behind.clear()
            if worker.current is not None:
                worker.session.cancel()
        deadline = time.monotonic() + _SETTLE_S
        while any(worker.current is not None for worker in workers):
            try:
                self._over.get(timeout=max(0.0, deadline - time.monotonic())).returned()
            except queue.Empty:
                raise OutsideError("a statement that waits did not return although it was cancelled") from None


def _circular(told: Sequence[Waiting]) -> bool:
    """Whether sessions wait for each other in a circle."""
    left = {place: set(one.whom) for place, one in enumerate(told) if one.waits}
    while True:
        # Whoever waits only for sessions that wait for nobody is in no circle.
        free = [place for place, whom in left.items() if not whom & left.keys()]
        if not free:
            return bool(left)
        for place in free:
            del left[place]


def _played(playing: _Playing) -> PlayedStep:
    step = playing.step
    if playing.returned_after is None:
        return PlayedStep(
            step.session, step.name, step.sql, None, None, None, None, None, waited_for=tuple(playing.waited_for)
        )
    returned = [answer.rows for answer in playing.answers if answer.rows is not None]
    counts = [answer.count for answer in playing.answers if answer.count is not None]
    failed = next((answer for answer in playing.answers if answer.error is not None), None)
    ends = [answer.ended for answer in playing.answers if answer.ended is not None]
    return PlayedStep(
        session=step.session,
        name=step.name,
        sql=step.sql,
        rows=tuple(row for rows in returned for row in rows) if returned else None,
        count=sum(counts) if counts else None,
        error=failed.error if failed else None,
        sqlstate=failed.sqlstate if failed else None,
        returned_after=playing.returned_after,
        ended=ends[-1] if ends else None,
        # A wait that was over before the next step was sent may or may not have been seen.
        waited_for=tuple(playing.waited_for) if playing.returned_after != playing.number else (),
        message=failed.message if failed else "",
    )
