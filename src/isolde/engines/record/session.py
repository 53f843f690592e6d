"""One session: a thread that sends transactions and writes down what came back."""

from __future__ import annotations

import json
import random
import threading
import time
from dataclasses import dataclass

from isolde._core.plans import Intent, Plan
from isolde.databases import Connection, Database, Offer, Table
from isolde.engines.record.journal import Journal
from isolde.engines.record.line import Line
from isolde.errors import Aborted, ConnectionLost, IsoldeError, StatementFailed

# Plain integers: the loop below compares one for each operation.
_READ, _WRITE, _DELETE = int(Intent.READ), int(Intent.WRITE), int(Intent.DELETE)
_RETRIES = 6
_BACK_OFF_S = 0.0005
_AFTER_A_LOSS_S = (0.02, 0.1)
# A list that has grown so long is left for a fresh one: each read shows all of it.
_LIST_LENGTH_MAX = 50


@dataclass(slots=True)
class Tally:
    """What one session has done so far; written by its thread, read by any."""

    planned: int = 0
    committed: int = 0
    aborted: int = 0
    unknown: int = 0
    reconnected: int = 0

    def add(self, other: Tally) -> None:
        self.planned += other.planned
        self.committed += other.committed
        self.aborted += other.aborted
        self.unknown += other.unknown
        self.reconnected += other.reconnected


class Lists:
    """Which list stands for each key now; shared by all sessions."""

    def __init__(self, keys: int) -> None:
        self._keys = keys
        self._current = list(range(keys))

    def key(self, place: int) -> int:
        return self._current[place]

    def seen(self, place: int, key: int, length: int) -> None:
        # Two sessions may both find a list full; both then name the same successor.
        if length >= _LIST_LENGTH_MAX and self._current[place] == key:
            self._current[place] = key + self._keys


class Session:
    """One client. ``step`` runs one planned transaction to its end, with its retries."""

    def __init__(
        self,
        *,
        number: int,
        sessions: int,
        database: Database,
        table: Table,
        offer: Offer,
        journal: Journal,
        lists: Lists | None,
        believes: bool,
        patience_s: float,
        stop: threading.Event,
        seed: int,
    ) -> None:
        self.tally = Tally()
        self.busy_since: float | None = None
        """When the statement that is now waited for was sent; read by the watchdog."""
        self.connection: Connection | None = None
        self._number, self._sessions = number, sessions
        self._name = number
        self._value = number
        self._database, self._table, self._offer = database, table, offer
        self._journal, self._lists, self._believes = journal, lists, believes
        self._patience_s, self._stop = patience_s, stop
        self._chance = random.Random(seed * 1_000_003 + number)
        # What a client of compare-and-sets thinks that each key holds.
        self._beliefs: dict[int, object] = {}

    def step(self, plan: Plan) -> None:
        """Runs a planned transaction, and again as a new one while the database aborts it."""
        self.tally.planned += 1
        for attempt in range(_RETRIES):
            if self._attempt(plan) or self._stop.is_set():
                return
            time.sleep(self._chance.random() * _BACK_OFF_S * 2**attempt)

    def connect(self) -> None:
        """A connection, however long it takes within the run's patience."""
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                self.connection = self._database.connect(self._table)
                return
            except (ConnectionLost, IsoldeError):
                if time.monotonic() > deadline or self._stop.is_set():
                    raise
                time.sleep(0.05)

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def _attempt(self, plan: Plan) -> bool:
        """One transaction; whether it needs no other try."""
        if self.connection is None:
            self.connect()
        connection = self.connection
        assert connection is not None
        transaction = Line(self._journal, self._name)
        committing = False
        self.busy_since = time.monotonic()
        try:
            connection.begin(self._offer)
            if self._lists is None:
                self._operations(connection, plan, transaction)
            else:
                self._list_operations(connection, plan, transaction)
            committing = True
            connection.commit()
        except Aborted:
            transaction.end(b"aborted")
            self.tally.aborted += 1
            self._roll_back(connection)
            return False
        except ConnectionLost as lost:
            # Before COMMIT is sent nothing can have taken effect; after it, everything may have.
            unknown = committing or lost.maybe_applied
            transaction.end(b"unknown" if unknown else b"aborted")
            if unknown:
                self.tally.unknown += 1
            else:
                self.tally.aborted += 1
            self._renew()
            return unknown
        except StatementFailed:
            transaction.end(b"unknown" if committing else b"aborted")
            raise
        finally:
            self.busy_since = None
        transaction.end(b"committed")
        self.tally.committed += 1
        return True

    def _operations(self, connection: Connection, plan: Plan, transaction: Line) -> None:
        seen: dict[int, bytes] = {}
        for intent, key in plan:
            if intent == _READ:
                seen[key] = raw = connection.read(key)
                transaction.answered(b'["r",%d,%b]' % (key, raw))
            elif intent == _WRITE:
                value = self._fresh()
                transaction.intend(b'["w",%d,%d]' % (key, value))
                if seen.pop(key, None) == b"null":
                    connection.insert(key, value)
                else:
                    connection.write(key, value)
            elif intent == _DELETE:
                take_back = transaction.intend_if_found(b'["w",%d,null]' % key)
                if not connection.delete(key):
                    take_back()
                seen[key] = b"null"
            else:
                self._swap(connection, key, transaction)
            if self._believes and key in seen:
                self._beliefs[key] = json.loads(seen[key])

    def _list_operations(self, connection: Connection, plan: Plan, transaction: Line) -> None:
        assert self._lists is not None
        for intent, place in plan:
            key = self._lists.key(place)
            if intent == _READ:
                raw = connection.read(key)
                transaction.answered(b'["r",%d,%b]' % (key, raw))
                self._lists.seen(place, key, raw.count(b",") + 1)
            else:
                element = self._fresh()
                transaction.intend(b'["a",%d,%d]' % (key, element))
                connection.append(key, element)

    def _swap(self, connection: Connection, key: int, transaction: Line) -> None:
        new, expected = self._fresh(), self._beliefs.get(key, 0)
        if not isinstance(expected, int):
            # Believed absent: there is nothing to compare with.
            transaction.intend(b'["w",%d,%d]' % (key, new))
            connection.write(key, new)
            self._beliefs[key] = new
            return
        transaction.intend(b'["cas",%d,%d,%d' % (key, expected, new))
        swap = connection.compare_and_set(key, expected, new)
        if swap.applied:
            transaction.completed(b",true]")
            self._beliefs[key] = new
        elif swap.current is None:
            transaction.completed(b",false]")
            # What it holds was not shown. The next read of this session tells; until then it tries what it believed.
        else:
            transaction.completed(b",false,%b]" % swap.current)
            self._beliefs[key] = json.loads(swap.current)

    def _fresh(self) -> int:
        """A value that nobody else writes; 0 is what every key starts with."""
        self._value += self._sessions
        return self._value

    def _roll_back(self, connection: Connection) -> None:
        try:
            connection.rollback()
        except ConnectionLost:
            self._renew()

    def _renew(self) -> None:
        """The old connection is gone, and with it the session: what follows is another one."""
        self.close()
        # A server that is down refuses at once; asking it in a busy loop would fill the history with nothing.
        self._stop.wait(self._chance.uniform(*_AFTER_A_LOSS_S))
        self.tally.reconnected += 1
        self._name += self._sessions
