"""One run: sessions as threads, until a bound is reached, something fails, or somebody stops it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from isolde.databases import Database, Table
from isolde.databases.recovery import Account, Recovery
from isolde.engines.record.client import Client, Surroundings, Tally
from isolde.engines.record.gate import Gate
from isolde.engines.record.journal import Journal, write_private
from isolde.engines.record.turns import Turns
from isolde.errors import DatabaseUnavailable, InputError, IsoldeError, UsageError, not_written
from isolde.formats.recording import HEADER, HISTORY, SESSIONS, merged

_POLL_S = 0.1
# How long a stop waits for transactions in flight before their connections are broken off.
_GRACE_S = 5.0
# So many plans of a session that come to nothing, one after the other, end it if no time does.
_IN_VAIN_MAX = 50
# How long beyond its time a session may not have come back before it is taken to be lost: longer than any driver waits by itself.
_STUCK_S = 30.0


@dataclass(frozen=True, slots=True)
class Worker:
    """A client, and where its plans come from."""

    client: Client[Any]
    next_plan: Callable[[], Any]
    look_at_all: Any = None
    """The plan of a transaction that reads every key, if there is one."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is run, and where it is recorded.

    ``worker`` makes a session. ``transactions`` counts those that come to their end; ``timeout_s`` bounds one transaction;
    ``patience_s`` is how long a session tries to reach the database again. ``about`` are further fields of the header, each as
    JSON: what the tables are and hold, for a run of an application. ``recovery`` listens to what the database says of its order.
    """

    database: Database
    table: Table
    sessions: int
    directory: Path
    initial: Sequence[tuple[int, int]]
    meta: Mapping[str, Any]
    worker: Callable[[int, Journal, Surroundings], Worker]
    seed: int = 0
    transactions: int | None = None
    seconds: float | None = None
    timeout_s: float = 10.0
    patience_s: float = 3.0
    about: Mapping[str, bytes] = field(default_factory=dict)
    recovery: Recovery | None = None
    at_once: int | None = None
    """How many sessions may have a transaction in flight at one time; ``None``: all."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is."""

    tally: Tally
    seconds: float


@dataclass(frozen=True, slots=True)
class Round:
    """A point at which no transaction was in flight: how much of each session's file lies before it.

    ``before_looks``, if every session then read every key: the same before it did.
    """

    planned: int
    sizes: Mapping[str, int]
    before_looks: Mapping[str, int] | None = None


@dataclass(slots=True)
class Watcher:
    """Who looks on, on the caller's thread, while sessions go on.

    ``progress`` is called now and then. If there is a ``first_round``, sessions meet after so many transactions, and then each
    time that there are twice as many, or as many more if rounds are not ``growing``. With ``looking``, every session
    then reads every key before any goes on. ``at_rest`` is called while nobody does
    anything, on a session's thread; ``quiet`` after each round, while they go on: its ``True`` ends the run. ``free`` breaks off
    what ``at_rest`` waits for.
    """

    progress: Callable[[Progress], None] = lambda _: None
    first_round: int | None = None
    growing: bool = True
    looking: bool = False
    at_rest: Callable[[int], None] = lambda _: None
    quiet: Callable[[Round], bool] = lambda _: False
    free: Callable[[], None] = lambda: None


@dataclass(slots=True)
class Outcome:
    """A run that is over; ``failure`` is what ended it early."""

    tally: Tally
    seconds: float
    failure: IsoldeError | None = None
    interrupted: bool = False
    accounts: tuple[Account, ...] = ()
    """What the database said of its order, transaction by transaction, if somebody listened."""


@dataclass(slots=True)
class _Shared:
    stop: threading.Event = field(default_factory=threading.Event)
    failures: list[BaseException] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)


class Run:
    """A run whose place is prepared. ``wait`` begins it and sees it to its end."""

    def __init__(self, job: Job, watcher: Watcher) -> None:
        self._job, self._watcher = job, watcher
        self._shared = _Shared()
        _prepare(job)
        folder = job.directory / SESSIONS
        self._journals: list[Journal] = []
        try:
            for number in range(job.sessions):
                self._journals.append(Journal(folder / f"{number}.jsonl"))
        except OSError as error:
            # What is open is needed: to drop the tables, say.
            for journal in self._journals:
                journal.close()
            hint = "fewer --sessions, or a higher limit (ulimit -n)" if error.errno == errno.EMFILE else "--output"
            raise not_written(f"{error.filename}: {error.strerror}; try {hint}", error) from None
        turns = nullcontext() if job.at_once is None else Turns(job.at_once)
        stop = self._shared.stop
        shared = Surroundings(
            job.database, job.table, job.sessions, job.patience_s, stop, job.seed, job.recovery, turns
        )
        workers = [job.worker(number, journal, shared) for number, journal in enumerate(self._journals)]
        self._clients = [worker.client for worker in workers]
        self._gate = Gate(job.sessions, self._note_round)
        self._before_looks: Mapping[str, int] | None = None
        self._begun = time.monotonic()
        self._threads = [
            threading.Thread(target=self._work, args=(worker, number), daemon=True)
            for number, worker in enumerate(workers)
        ]
        # Thread.is_alive is not to be trusted: Ctrl-C inside of Thread.join marks a thread as ended that is still at work. What
        # it wrote next would go into whatever file got the number of its journal's.
        self._ended = [threading.Event() for _ in workers]

    def wait(self) -> Outcome:
        """Until all sessions are done. Ctrl-C ends the run in good order; what was observed is on disk.

        A second Ctrl-C waits for no transaction in flight, and a third one for nothing.
        """
        interrupted = False
        self._begun = time.monotonic()
        try:
            with _undisturbed():
                for thread in self._threads:
                    thread.start()
            while self._alive():
                self._look_after()
                if self._shared.rounds and self._watcher.quiet(self._shared.rounds.pop(0)):
                    break
                if self._stuck():
                    break
            self._end()
        except KeyboardInterrupt:
            interrupted = True
            self._end_impatiently()
        for ended, journal in zip(self._ended, self._journals, strict=True):
            # One that does not come back may still write; the number of its file is not to become another's.
            if ended.is_set():
                journal.close()
        seconds = time.monotonic() - self._begun
        for failure in self._shared.failures:
            if not isinstance(failure, IsoldeError):
                raise failure
            return Outcome(self._tally(), seconds, failure, interrupted)
        return Outcome(self._tally(), seconds, None, interrupted, self.accounts())

    def accounts(self) -> tuple[Account, ...]:
        """What the database said of its order so far, transaction by transaction."""
        return tuple(account for client in self._clients for account in client.accounts)

    def _work(self, worker: Worker, number: int) -> None:
        """A session's thread."""
        job, stop = self._job, self._shared.stop
        quota = _share(job.transactions, job.sessions, number)
        deadline = None if job.seconds is None else self._begun + job.seconds
        every = _share(self._watcher.first_round, job.sessions, number)
        meet = every
        done = in_vain = 0
        try:
            while not stop.is_set() and (quota is None or done < quota):
                if deadline is not None and time.monotonic() > deadline:
                    break
                ended = worker.client.step(worker.next_plan())
                done += ended
                in_vain = 0 if ended else in_vain + 1
                if in_vain >= _IN_VAIN_MAX and deadline is None:
                    break
                if meet is not None and ended and done >= max(1, meet):
                    self._gate.arrive()
                    if self._watcher.looking:
                        worker.client.step(worker.look_at_all)
                        self._gate.arrive()
                    meet = meet * 2 if self._watcher.growing else meet + max(1, every or 0)
        except BaseException as error:
            self._failed(error)
        finally:
            worker.client.close()
            self._leave()
            self._ended[number].set()

    def _leave(self) -> None:
        """Who leaves last opens the gate for those who wait, and looks for them."""
        try:
            self._gate.leave()
        except BaseException as error:
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        self._shared.failures.append(error)
        self._shared.stop.set()

    def _note_round(self) -> None:
        if self._shared.stop.is_set():
            return
        sizes = {journal.path.name: journal.size() for journal in self._journals}
        if self._watcher.looking and self._before_looks is None:
            self._before_looks = sizes
            return
        self._watcher.at_rest(self._tally().planned)
        self._shared.rounds.append(Round(self._tally().planned, sizes, self._before_looks))
        self._before_looks = None

    def _alive(self) -> bool:
        for ended in self._ended:
            if not ended.is_set():
                ended.wait(_POLL_S)
                return True
        return False

    def _look_after(self) -> None:
        """Tells how far it is, and frees sessions whose statement does not return."""
        now = time.monotonic()
        self._watcher.progress(Progress(self._tally(), now - self._begun))
        for client in self._clients:
            since, connection = client.busy_since, client.connection
            if since is not None and connection is not None and now - since > self._job.timeout_s:
                connection.abandon()

    def _stuck(self) -> bool:
        """Whether a session does not come back although its connection was broken off; that is the run's failure, then."""
        now, bound = time.monotonic(), self._job.timeout_s
        for ended, client in zip(self._ended, self._clients, strict=True):
            since, doing = client.busy_since, client.doing
            if not ended.is_set() and since is not None and now - since > bound + _STUCK_S:
                self._failed(_stuck(client.connection is None, doing, bound))
                return True
        return False

    def _end(self) -> None:
        self._stop_all()
        deadline = time.monotonic() + _GRACE_S
        while self._alive():
            self._look_after()
            if time.monotonic() > deadline:
                self._break_off()
                if self._stuck():
                    return
                deadline = time.monotonic() + _GRACE_S

    def _end_impatiently(self) -> None:
        try:
            self._end()
        except KeyboardInterrupt:
            self._break_off()
            deadline = time.monotonic() + _GRACE_S
            while self._alive() and time.monotonic() < deadline:
                self._look_after()

    def _stop_all(self) -> None:
        self._shared.stop.set()
        for thread, ended in zip(self._threads, self._ended, strict=True):
            if thread.ident is None and not ended.is_set():
                # Ctrl-C came before it was started: nobody is to wait for it.
                self._leave()
                ended.set()

    def _break_off(self) -> None:
        self._watcher.free()
        for client in self._clients:
            connection = client.connection
            if connection is not None:
                connection.abandon()

    def _tally(self) -> Tally:
        total = Tally()
        for client in self._clients:
            total.add(client.tally)
        return total


def _stuck(connecting: bool, doing: str | None, bound_s: float) -> IsoldeError:
    if connecting:
        return DatabaseUnavailable(f"the database let nobody in and refused nobody for {bound_s + _STUCK_S:g} s")
    what = f"a transaction {doing}" if doing else "a transaction"
    end = f"{what} did not end within {bound_s:g} s, nor when its connection was broken off"
    return UsageError(f"{end}; does its program loop for ever?") if doing else DatabaseUnavailable(end)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Keeps Ctrl-C and its like waiting: in the middle of Thread.start nobody could say whether there is a thread."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _share(total: int | None, sessions: int, number: int) -> int | None:
    """A session's part of a total, so that the parts add up."""
    return None if total is None else (total + sessions - 1 - number) // sessions


def refuse_place(directory: Path) -> None:
    """Says before anything is made that nothing can be recorded there; one that holds a run already is not touched."""
    try:
        for name in (HEADER, HISTORY, SESSIONS):
            if (directory / name).exists():
                raise InputError(f"{directory}: a run is recorded there already; choose another place with --output")
        nearest = next(place for place in (directory, *directory.absolute().parents) if place.exists())
    except OSError as error:
        raise not_written(f"{error.filename}: {error.strerror}; choose another place with --output", error) from None
    if not nearest.is_dir():
        raise InputError(f"{nearest}: Not a directory; choose another place with --output")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise InputError(f"{nearest}: nothing may be written there; choose another place with --output")


def _prepare(job: Job) -> None:
    """The directory with its header."""
    refuse_place(job.directory)
    header = {
        "isolde": "history",
        "version": 1,
        "initial": [list(pair) for pair in job.initial],
        "meta": dict(job.meta),
    }
    try:
        if not job.directory.is_dir():
            job.directory.mkdir(mode=0o700, parents=True)
        (job.directory / SESSIONS).mkdir(mode=0o700)
        about = b"".join(b",%b:%b" % (json.dumps(name).encode(), value) for name, value in job.about.items())
        write_private(job.directory / HEADER, json.dumps(header).encode()[:-1] + about + b"}\n")
    except OSError as error:
        raise not_written(f"{error.filename}: {error.strerror}; choose another place with --output", error) from None


def finish(directory: Path) -> Path:
    """Puts the sessions' files together into one history, and removes them."""
    history = directory / HISTORY
    partial = history.with_suffix(".partial")
    try:
        write_private(partial, merged(directory))
        partial.replace(history)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise not_written(
            f"{history}: {error.strerror}; the sessions' files are kept: isolde check {directory}", error
        ) from None
    shutil.rmtree(directory / SESSIONS)
    return history
