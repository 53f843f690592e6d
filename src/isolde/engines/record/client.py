"""One client: a thread that sends transactions, one after the other, and writes down what became of each."""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

from isolde.databases import Connection, Database, Offer, Table
from isolde.databases.recovery import Account, Ended, Listening, Recovery
from isolde.engines.record.journal import Journal
from isolde.engines.record.line import Line
from isolde.errors import Aborted, ConnectionLost, IsoldeError, StatementFailed

RETRIES = 6
_BACK_OFF_S = 0.0005
_AFTER_A_LOSS_S = (0.02, 0.1)

P = TypeVar("P")
"""What a client means to do in one transaction."""


@dataclass(slots=True)
class Tally:
    """What one session has done so far; written by its thread, read by any."""

    planned: int = 0
    committed: int = 0
    aborted: int = 0
    unknown: int = 0
    reconnected: int = 0
    given_up: int = 0
    """Plans that were aborted each time that they were tried."""

    def add(self, other: Tally) -> None:
        self.planned += other.planned
        self.committed += other.committed
        self.aborted += other.aborted
        self.unknown += other.unknown
        self.reconnected += other.reconnected
        self.given_up += other.given_up


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the clients of one run share."""

    database: Database
    table: Table
    sessions: int
    patience_s: float
    stop: threading.Event
    seed: int
    recovery: Recovery | None = None
    """Who listens to what the database says of its order, if somebody does; then connections come from there."""
    turns: AbstractContextManager[None] = field(default_factory=nullcontext)
    """What is entered for each transaction, and left when it is over."""


class GivenUp(Exception):
    """The program itself ended its transaction: it is rolled back, and not tried again."""


class Client(ABC, Generic[P]):
    """``step`` runs one planned transaction to its end, with its retries."""

    def __init__(self, number: int, journal: Journal, shared: Surroundings) -> None:
        self.tally = Tally()
        self.busy_since: float | None = None
        """Since when the database is waited for now; read by the watchdog."""
        self.doing: str | None = None
        """What the transaction that is waited for is called, if it has a name."""
        self.connection: Connection | None = None
        self.accounts: list[Account] = []
        """What the database said of each transaction so far, if somebody listens."""
        self._notes: list[tuple[int, object]] | None = None
        self._shared, self._journal = shared, journal
        self._name = self._number = number
        self._chance = random.Random(shared.seed * 1_000_003 + number)

    @abstractmethod
    def _offer(self, plan: P) -> Offer:
        """The level that the transaction runs at."""

    def _called(self, plan: P) -> str | None:
        """What the transaction is called, if its history is to say so."""
        del plan
        return None

    def _level_called(self, plan: P) -> str | None:
        """The level that it runs at, in the database's own words, if its history is to say so."""
        del plan
        return None

    @abstractmethod
    def _operations(self, connection: Connection, plan: P, transaction: Line) -> None:
        """What it does between its begin and its commit."""

    def step(self, plan: P) -> bool:
        """Runs a planned transaction, and again as a new one while the database aborts it; whether it came to its end.

        It did not if it was aborted each time, or if nobody knows.
        """
        self.tally.planned += 1
        unknown = self.tally.unknown
        for attempt in range(RETRIES):
            with self._shared.turns:
                over = self._attempt(plan)
            if over:
                return self.tally.unknown == unknown
            if self._shared.stop.is_set():
                return False
            time.sleep(self._chance.random() * _BACK_OFF_S * 2**attempt)
        self.tally.given_up += 1
        return False

    def connect(self) -> None:
        """A connection, however long it takes within the run's patience."""
        shared = self._shared
        deadline = time.monotonic() + shared.patience_s
        while True:
            self.busy_since = time.monotonic()
            try:
                self.connection = (shared.recovery or shared.database).connect(shared.table)
                return
            except IsoldeError:
                if time.monotonic() > deadline or shared.stop.is_set():
                    raise
                time.sleep(0.05)
            finally:
                self.busy_since = None

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def _attempt(self, plan: P) -> bool:
        """One transaction; whether it needs no other try."""
        if self.connection is None:
            self.connect()
        connection = self.connection
        assert connection is not None
        self.doing = self._called(plan)
        transaction = Line(self._journal, self._name, self.doing, self._level_called(plan), self._identity())
        committing = False
        self.busy_since = time.monotonic()
        try:
            connection.begin(self._offer(plan))
            self._operations(connection, plan, transaction)
            committing = True
            connection.commit()
        except Aborted:
            return self._rolled_back(connection, transaction)
        except GivenUp:
            self._rolled_back(connection, transaction)
            return True
        except ConnectionLost as lost:
            # Before COMMIT is sent nothing can have taken effect; after it, everything may have.
            return self._lost(transaction, unknown=committing or lost.maybe_applied)
        except StatementFailed:
            self._ended(transaction, Ended.UNKNOWN if committing else Ended.ABORTED)
            raise
        finally:
            self.busy_since = None
        self._ended(transaction, Ended.COMMITTED)
        self.tally.committed += 1
        return True

    def _identity(self) -> str | None:
        """The name of the next transaction, if what is heard of it is to be found again: its client, and a number."""
        if self._shared.recovery is None:
            return None
        self._notes = []
        return f"{self._number}.{len(self.accounts)}"

    def _note(self, connection: Connection, transaction: Line) -> None:
        """Keeps what the database said beside its answer to the operation that was noted last."""
        if self._notes is not None:
            heard = cast(Listening, connection).heard()
            if heard is not None:
                self._notes.append((transaction.place, heard))

    def _ended(self, transaction: Line, ended: Ended) -> None:
        transaction.end(ended.value.encode())
        if self._notes is not None:
            of_commit = None
            if ended is Ended.COMMITTED and self.connection is not None:
                of_commit = cast(Listening, self.connection).heard()
            name = f"{self._number}.{len(self.accounts)}"
            self.accounts.append(Account(name, ended, transaction.begun, tuple(self._notes), of_commit))

    def _rolled_back(self, connection: Connection, transaction: Line) -> bool:
        try:
            connection.rollback()
        except ConnectionLost as lost:
            return self._lost(transaction, unknown=lost.maybe_applied)
        self._ended(transaction, Ended.ABORTED)
        self.tally.aborted += 1
        return False

    def _lost(self, transaction: Line, *, unknown: bool) -> bool:
        """The connection is gone, and with it the session: what follows is another one."""
        self._ended(transaction, Ended.UNKNOWN if unknown else Ended.ABORTED)
        self.tally.unknown += unknown
        self.tally.aborted += not unknown
        self.close()
        self.tally.reconnected += 1
        self._name += self._shared.sessions
        # A server that is down refuses at once; asking it in a busy loop would fill the history with nothing.
        self._shared.stop.wait(self._chance.uniform(*_AFTER_A_LOSS_S))
        return unknown
