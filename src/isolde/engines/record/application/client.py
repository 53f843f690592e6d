"""A client of an application: it calls transactions, and every statement goes into the history."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, cast

from isolde.databases import Connection, Kind, Offer, Rows, SqlConnection, Table
from isolde.databases.handle import DatabaseHandle
from isolde.databases.recovery import ListeningSql, Lookup
from isolde.databases.translate import Ready, Translator
from isolde.engines.record.application.install import Installation
from isolde.engines.record.application.values import as_json
from isolde.engines.record.client import Client, GivenUp, Surroundings
from isolde.engines.record.journal import Journal
from isolde.engines.record.line import Line
from isolde.engines.record.run import Job, Worker
from isolde.errors import IsoldeError, MalformedProgram, OutsideFragment, UsageError
from isolde.tx.dialects import Dialect
from isolde.tx.python import AbortedByProgram
from isolde.tx.python.handle import Answer
from isolde.workloads.application import Part
from isolde.workloads.blame import blamed, in_one_line


@dataclass(frozen=True, slots=True)
class Call:
    """One transaction with its arguments."""

    part: Part
    arguments: Mapping[str, Any]


class RecordedHandle(DatabaseHandle):
    """A transaction on a real database; each statement is written down before it can be seen, each answer after it came."""

    def __init__(
        self,
        connection: SqlConnection,
        translator: Translator,
        spoken: Dialect,
        line: Line,
        note: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(connection, translator, spoken)
        self._line, self._note = line, note

    def run(self, sql: str, parameters: Mapping[str, Any]) -> Answer:
        self._given = parameters
        return super().run(sql, parameters)

    def _sent(self, ready: Ready, values: Sequence[Any]) -> Rows:
        if self._note is None:
            return super()._sent(ready, values)
        lookup = None
        if ready.finds is not None:
            given = [self._given[name] for name in ready.finds.parameters]
            finds, values_of = ready.finds, self._given
            lookup = Lookup(finds.text, given, finds.table, finds.keys_of(values_of), finds.partly_of(values_of))
        return cast(ListeningSql, self._connection).execute_found(ready.text, values, lookup)

    def _answered(self, ready: Ready, values: Sequence[Any]) -> Answer:
        begun = b'{"sql":%b,"params":%b,"start":%d,' % (ready.recorded, as_json(values), time.monotonic_ns())
        if ready.changes:
            self._line.intend(begun)
        try:
            answer = super()._answered(ready, values)
        except IsoldeError as error:
            word, message = getattr(error, "word", "other"), getattr(error, "reason", str(error))
            self._over(ready, begun, b'"rows":null,"error":%b,"message":%b' % (as_json(word), as_json(message)))
            raise
        rows = answer.rows if ready.columns else None
        self._over(ready, begun, b'"rows":%b,"count":%d' % (as_json(rows), answer.count or len(answer.rows)))
        return answer

    def _over(self, ready: Ready, begun: bytes, rest: bytes) -> None:
        rest += b',"end":%d}' % time.monotonic_ns()
        if ready.changes:
            self._line.completed(rest)
        else:
            self._line.answered(begun + rest)
        if self._note is not None:
            self._note()


class ApplicationClient(Client[Call]):
    """Calls what it is told to, at the level of its kind. ``failed`` counts programs that ended in a Python error."""

    def __init__(
        self,
        number: int,
        journal: Journal,
        shared: Surroundings,
        *,
        translator: Translator,
        offers: Mapping[str, Offer],
        failed: Counter[str],
    ) -> None:
        super().__init__(number, journal, shared)
        self._translator, self._offers, self._failed = translator, offers, failed

    def _offer(self, plan: Call) -> Offer:
        return self._offers[plan.part.name]

    def _called(self, plan: Call) -> str:
        return plan.part.name

    def _level_called(self, plan: Call) -> str:
        return self._offer(plan).called

    def _operations(self, connection: Connection, plan: Call, transaction: Line) -> None:
        called = plan.part.transaction
        note = None if self._shared.recovery is None else partial(self._note, connection, transaction)
        handle = RecordedHandle(cast(SqlConnection, connection), self._translator, called.dialect, transaction, note)
        try:
            called(handle, **plan.arguments)
        except AbortedByProgram:
            raise GivenUp from None
        except (MalformedProgram, OutsideFragment, UsageError) as error:
            raise UsageError(f"in the transaction {called.name}: {error}") from None
        except IsoldeError:
            raise
        except (Exception, SystemExit) as error:
            # The program met something that it was not written for: a row that is gone, say. That is its end, not the run's.
            self._failed[f"{called.name}: {in_one_line(error)}"] += 1
            raise GivenUp from error
        if handle.failure is not None:
            # The program caught it and went on. Its transaction is over all the same.
            raise handle.failure


def application_job(
    installation: Installation,
    *,
    offers: Mapping[str, Offer],
    sessions: int,
    directory: Path,
    meta: Mapping[str, Any],
    seed: int,
    failed: Counter[str],
) -> Job:
    """A run of an application that is installed, without bounds yet."""
    application, scale = installation.application, installation.scale
    weights = [part.weight for part in application.parts]

    def worker(number: int, journal: Journal, shared: Surroundings) -> Worker:
        chance = Random(f"{seed}/{number}")
        client = ApplicationClient(
            number, journal, shared, translator=installation.translator, offers=offers, failed=failed
        )

        def next_call() -> Call:
            (part,) = chance.choices(application.parts, weights)
            with blamed(f"the arguments of {part.name}"):
                return Call(part, part.arguments(chance, scale))

        return Worker(client, next_call)

    table = Table(installation.prefix, Kind.REGISTERS, 0)
    return Job(installation.database, table, sessions, directory, (), meta, worker, seed)
