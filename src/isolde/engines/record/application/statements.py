"""Clients that send the statements that their plans have: the workloads ``predicates`` and ``counter``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

from isolde.databases import Connection, Kind, Offer, SqlConnection, Table
from isolde.databases.translate import Translator
from isolde.engines.record.application.client import RecordedHandle
from isolde.engines.record.application.install import Installation
from isolde.engines.record.client import Client, Surroundings
from isolde.engines.record.journal import Journal
from isolde.engines.record.line import Line
from isolde.engines.record.run import Job, Worker
from isolde.tx.dialects import Dialect
from isolde.workloads.predicates import Step

Plan = tuple[Step, ...]


class StatementClient(Client[Plan]):
    """Sends the statements of one transaction after the other, all at one level."""

    def __init__(
        self, number: int, journal: Journal, shared: Surroundings, *, translator: Translator, offer: Offer
    ) -> None:
        super().__init__(number, journal, shared)
        self._translator, self._level = translator, offer

    def _offer(self, plan: Plan) -> Offer:  # noqa: ARG002 - one level for all of them
        return self._level

    def _level_called(self, plan: Plan) -> str:  # noqa: ARG002
        return self._level.called

    def _operations(self, connection: Connection, plan: Plan, transaction: Line) -> None:
        note = None if self._shared.recovery is None else partial(self._note, connection, transaction)
        sql = cast(SqlConnection, connection)
        handle = RecordedHandle(sql, self._translator, Dialect.POSTGRESQL, transaction, note)
        for step in plan:
            answer = handle.run(step.sql, step.parameters)
            # An increment of a row that is not there, or that holds no number, is a read.
            if step.then is not None and answer.rows and answer.rows[0][0] is not None:
                handle.run(step.then.sql, {**step.then.parameters, "value": answer.rows[0][0] + 1})


def statement_job(
    installation: Installation,
    offer: Offer,
    plans: Callable[[int, Surroundings], Callable[[], Plan]],
    *,
    sessions: int,
    directory: Path,
    meta: Mapping[str, Any],
    seed: int,
) -> Job:
    """A run of statements on tables that are installed, without bounds yet; ``plans`` gives those of a session by its number."""

    def worker(number: int, journal: Journal, shared: Surroundings) -> Worker:
        client = StatementClient(number, journal, shared, translator=installation.translator, offer=offer)
        return Worker(client, plans(number, shared))

    table = Table(installation.prefix, Kind.REGISTERS, 0)
    return Job(installation.database, table, sessions, directory, (), meta, worker, seed)
