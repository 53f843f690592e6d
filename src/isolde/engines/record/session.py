"""A client of registers or lists: what it means to do comes as a plan, what it writes is its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isolde._core.plans import Intent, Plan
from isolde.databases import Connection, Database, Kind, Offer, Table
from isolde.engines.record.client import Client, Surroundings
from isolde.engines.record.journal import Journal
from isolde.engines.record.line import Line
from isolde.engines.record.run import Job, Worker
from isolde.workloads import Settings

# Plain integers: the loop below compares one for each operation.
_READ, _WRITE, _DELETE = int(Intent.READ), int(Intent.WRITE), int(Intent.DELETE)
# A list that has grown so long is left for a fresh one: each read shows all of it.
_LIST_LENGTH_MAX = 50


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


class Session(Client[Plan]):
    """One session. ``believes``: it sends compare-and-sets, and remembers what it thinks that each key holds."""

    def __init__(
        self,
        number: int,
        journal: Journal,
        shared: Surroundings,
        *,
        offer: Offer,
        lists: Lists | None,
        believes: bool,
    ) -> None:
        super().__init__(number, journal, shared)
        self._level = offer
        self._value = number
        self._lists, self._believes = lists, believes
        self._beliefs: dict[int, object] = {}

    def _offer(self, plan: Plan) -> Offer:  # noqa: ARG002 - one level for all of them
        return self._level

    def _operations(self, connection: Connection, plan: Plan, transaction: Line) -> None:
        if self._lists is not None:
            self._list_operations(connection, plan, transaction, self._lists)
            return
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
            self._note(connection, transaction)
            if self._believes and key in seen:
                self._beliefs[key] = json.loads(seen[key])

    def _list_operations(self, connection: Connection, plan: Plan, transaction: Line, lists: Lists) -> None:
        for intent, place in plan:
            key = lists.key(place)
            if intent == _READ:
                raw = connection.read(key)
                transaction.answered(b'["r",%d,%b]' % (key, raw))
                lists.seen(place, key, raw.count(b",") + 1)
            else:
                element = self._fresh()
                transaction.intend(b'["a",%d,%d]' % (key, element))
                connection.append(key, element)
            self._note(connection, transaction)

    def _swap(self, connection: Connection, key: int, transaction: Line) -> None:
        new, expected = self._fresh(), self._beliefs.get(key, 0)
        if not isinstance(expected, int):
            # Believed absent: there is nothing to compare with.
            transaction.intend(b'["w",%d,%d]' % (key, new))
            connection.write(key, new)
            self._beliefs[key] = new
            return
        # The comma says that all digits are there: what breaks off before it was not sent. Of one that was aborted before its
        # answer nobody can say what it found; that it meant to write is all there is.
        begun = b'["cas",%d,%d,%d,' % (key, expected, new)
        transaction.begin(begun, if_applied=b"true]", if_not=b'["w",%d,%d]' % (key, new))
        swap = connection.compare_and_set(key, expected, new)
        if swap.applied:
            transaction.completed(b"true]")
            self._beliefs[key] = new
        elif swap.current is None:
            transaction.completed(b"false]")
            # What it holds was not shown. The next read of this session tells; until then it tries what it believed.
        else:
            transaction.completed(b"false,%b]" % swap.current)
            self._beliefs[key] = json.loads(swap.current)

    def _fresh(self) -> int:
        """A value that nobody else writes; 0 is what every key starts with."""
        self._value += self._shared.sessions
        return self._value


def keyvalue_job(
    database: Database,
    table: Table,
    offer: Offer,
    settings: Settings,
    *,
    sessions: int,
    directory: Path,
    meta: Mapping[str, Any],
) -> Job:
    """A run of a workload on registers or lists, without bounds yet."""
    lists = Lists(settings.keys) if table.kind is Kind.LISTS else None
    believes = settings.workload.name == "cas"

    def worker(number: int, journal: Journal, shared: Surroundings) -> Worker:
        session = Session(number, journal, shared, offer=offer, lists=lists, believes=believes)
        return Worker(session, settings.plans(number).next, [(_READ, key) for key in range(settings.keys)])

    # A list that was never written is empty, which is what an absent key means to a reader of lists.
    keys = range(settings.keys) if table.kind is Kind.REGISTERS else ()
    return Job(database, table, sessions, directory, [(key, 0) for key in keys], meta, worker, settings.seed)
