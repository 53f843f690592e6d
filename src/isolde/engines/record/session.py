"""A client of registers or lists: what it means to do comes as a plan, what it writes is its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, cast

from isolde._core.plans import Intent, Plan
from isolde.databases import Connection, Database, Kind, Offer, Table
from isolde.databases.contract import RowConnection, answer
from isolde.databases.shapes import Places
from isolde.engines.record.client import Client, Surroundings
from isolde.engines.record.journal import Journal
from isolde.engines.record.line import Line
from isolde.engines.record.run import Job, Worker
from isolde.workloads import Settings

# Plain integers: the loop below compares one for each operation.
_READ, _WRITE, _DELETE = int(Intent.READ), int(Intent.WRITE), int(Intent.DELETE)
# A list that has grown so long is left for a fresh one: each read shows all of it.
_LIST_LENGTH_MAX = 50
# A register that one session has compared so often is left for one that is not there yet: there an insert-if-not-exists is tried.
_COMPARED_MAX = 20
# So many columns are written by one statement at most.
_TOGETHER_MAX = 8


class Successors:
    """Which key stands for each planned one now; shared by all sessions. A key that is used up is left for a fresh one."""

    def __init__(self, keys: int, used_up: int) -> None:
        self._keys, self._used_up = keys, used_up
        self._current = list(range(keys))

    def key(self, planned: int) -> int:
        return self._current[planned]

    def seen(self, planned: int, key: int, uses: int) -> None:
        # Two sessions may both find a key used up; both then name the same successor.
        if uses >= self._used_up and self._current[planned] == key:
            self._current[planned] = key + self._keys


class Session(Client[Plan]):
    """One session. ``believes``: it sends compare-and-sets, and remembers what it thinks that each key holds."""

    def __init__(
        self,
        number: int,
        journal: Journal,
        shared: Surroundings,
        *,
        offer: Offer,
        successors: Successors | None,
        believes: bool,
    ) -> None:
        super().__init__(number, journal, shared)
        self._level = offer
        self._value = number
        self._successors, self._believes = successors, believes
        self._places = Places(shared.table.shapes)
        self._shares_rows = any(shape.columns > 1 for shape in shared.table.shapes)
        self._beliefs: dict[int, object] = {}
        self._compared: dict[int, int] = {}
        self._lists = shared.table.kind is Kind.LISTS

    def _offer(self, plan: Plan) -> Offer:  # noqa: ARG002 - one level for all of them
        return self._level

    def _operations(self, connection: Connection, plan: Plan, transaction: Line) -> None:
        if self._lists and self._successors is not None:
            self._list_operations(connection, plan, transaction, self._successors)
            return
        if self._believes and self._successors is not None:
            plan = [(intent, self._compared_next(planned, self._successors)) for intent, planned in plan]
        seen: dict[int, bytes] = {}
        together = 0
        for place, (intent, key) in enumerate(plan):
            if together:
                # Written by the statement before.
                together -= 1
                continue
            if intent == _READ:
                seen[key] = raw = connection.read(key)
                transaction.answered(b'["r",%d,%b]' % (key, raw))
            elif intent == _WRITE and self._shares_rows and (mates := self._written_with(plan[place:], seen)):
                self._write_row(connection, (key, *mates), transaction)
                together = len(mates)
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

    def _written_with(self, rest: Plan, seen: Mapping[int, bytes]) -> list[int]:
        """The keys that are written next in the same row, and are there: one statement writes them with the first."""
        mates = self._places.row_mates(rest[0][1])
        found: list[int] = []
        for intent, key in rest[1:_TOGETHER_MAX]:
            if intent != _WRITE or key not in mates or key in found or seen.get(key) == b"null":
                break
            found.append(key)
        return found if seen.get(rest[0][1]) != b"null" else []

    def _write_row(self, connection: Connection, keys: tuple[int, ...], transaction: Line) -> None:
        values = {key: self._fresh() for key in keys}
        for key, value in values.items():
            transaction.intend(b'["w",%d,%d]' % (key, value))
        cast(RowConnection, connection).write_row(values)

    def _list_operations(self, connection: Connection, plan: Plan, transaction: Line, lists: Successors) -> None:
        for intent, planned in plan:
            key = lists.key(planned)
            if intent == _READ:
                raw = connection.read(key)
                transaction.answered(b'["r",%d,%b]' % (key, raw))
                lists.seen(planned, key, raw.count(b",") + 1)
            else:
                element = self._fresh()
                transaction.intend(b'["a",%d,%d]' % (key, element))
                connection.append(key, element)
            self._note(connection, transaction)

    def _compared_next(self, planned: int, successors: Successors) -> int:
        key = successors.key(planned)
        self._compared[key] = uses = self._compared.get(key, 0) + 1
        successors.seen(planned, key, uses)
        return key

    def _swap(self, connection: Connection, key: int, transaction: Line) -> None:
        new, expected = self._fresh(), self._beliefs.get(key, 0 if key < self._shared.table.keys else None)
        if not isinstance(expected, int | None) or (expected is None and self._shared.recovery is not None):
            # There is nothing to compare with; or it is believed absent, and who listens hears of one statement alone.
            transaction.intend(b'["w",%d,%d]' % (key, new))
            connection.write(key, new)
            self._beliefs[key] = new
            return
        # The comma says that all digits are there: what breaks off before it was not sent. Of one that was aborted before its
        # answer nobody can say what it found; that it meant to write is all there is.
        begun = b'["cas",%d,%b,%d,' % (key, answer(expected), new)
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


def _in_one_row(plans: Callable[[], Plan], places: Places, settings: Settings, chance: Random) -> Plan:
    """The next plan; every second one is moved into one row, since keys drawn from all rarely share one.

    Its reads come first then, so that what it writes of the row follows each other and can be written by one statement.
    """
    plan = plans()
    first = plan[0][1] if plan else 0
    mates = [key for key in places.row_mates(first) if key < settings.keys]
    others = [key for key in dict.fromkeys(key for _, key in plan) if key != first and key not in mates]
    if not mates or not others or chance.random() < 0.5:
        return plan
    chance.shuffle(mates)
    free = [key for key in mates if key not in {key for _, key in plan}]
    moved = dict(zip(others, free, strict=False))
    return sorted(((intent, moved.get(key, key)) for intent, key in plan), key=lambda one: one[0] != _READ)


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
    believes = settings.workload.name == "cas"
    successors = None
    if table.kind is Kind.LISTS or believes:
        successors = Successors(settings.keys, _COMPARED_MAX if believes else _LIST_LENGTH_MAX)

    def worker(number: int, journal: Journal, shared: Surroundings) -> Worker:
        session = Session(number, journal, shared, offer=offer, successors=successors, believes=believes)
        plans = settings.plans(number).next
        if any(shape.columns > 1 for shape in table.shapes):
            plans = partial(_in_one_row, plans, Places(table.shapes), settings, Random(f"{settings.seed}/{number}"))
        return Worker(session, plans, [(_READ, key) for key in range(settings.keys)])

    # A list that was never written is empty, which is what an absent key means to a reader of lists.
    keys = range(settings.keys) if table.kind is Kind.REGISTERS else ()
    return Job(database, table, sessions, directory, [(key, 0) for key in keys], meta, worker, settings.seed)
