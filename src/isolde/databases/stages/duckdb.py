"""A database in memory, beside DuckDB's own, in which schedules are played. Nobody waits in DuckDB."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from isolde.databases.contract import Database, Kind, Offer, Table
from isolde.databases.duckdb import DuckdbConnection, DuckdbDatabase
from isolde.databases.error_words import of_text
from isolde.databases.stage import Answer, Stage, StagedSession, Waiting
from isolde.databases.stages.tables import in_order_of_creation
from isolde.errors import Aborted, ConnectionLost, OutsideError, StatementFailed
from isolde.history.schedule import Ended, Failure, Row, sorted_rows, values_of
from isolde.tx.dialects import Dialect
from isolde.tx.script import begins, changes, commits, is_setting, rolls_back, statements_of

_PATIENCE_S = 20.0
_TRANSACTION_FAILED = re.compile(r"transaction is aborted", re.IGNORECASE)
# A statement that DuckDB does not even understand leaves the transaction as it was.
_HARMLESS = re.compile(r"(Parser|Catalog|Binder) Error")
_PLAIN_BEGIN = ("begin", "begin transaction", "start transaction")


class DuckdbSession:
    def __init__(self, connection: DuckdbConnection, stage: DuckdbStage) -> None:
        self._connection, self._stage = connection, stage
        self._open = self._failed = False

    def run(self, text: str) -> list[Answer]:
        answers: list[Answer] = []
        for statement in statements_of(text, Dialect.POSTGRESQL):
            if not is_setting(statement):
                answers.append(self._one(statement))
                if answers[-1].error is not None:
                    break
        return answers

    def _one(self, statement: str) -> Answer:
        ends = commits(statement) or rolls_back(statement)
        try:
            returned = self._connection.execute(statement)
        except ConnectionLost:
            raise
        except OutsideError as error:
            return self._refused(statement, str(getattr(error, "reason", error)), ends)
        if begins(statement):
            self._open, self._failed = True, False
        ended = None
        if ends and self._open:
            lost = self._failed or rolls_back(statement)
            ended = Ended.ROLLED_BACK if lost else Ended.COMMITTED
            self._open = self._failed = False
        shows = returned.rows is not None and not changes(statement) and not ends and not begins(statement)
        rows = values_of(returned.rows or []) if shows else None
        return Answer(statement, rows, returned.count if changes(statement) else None, ended=ended)

    def _refused(self, statement: str, reason: str, ends: bool) -> Answer:
        # DuckDB has no numbers for its errors.
        failed_before = _TRANSACTION_FAILED.search(reason)
        failure = Failure.TRANSACTION_FAILED if failed_before else Failure(of_text(reason))
        ended = None
        if self._open and ends:
            # A conflict that is found at the commit.
            self._open, self._failed, ended = False, False, Ended.ROLLED_BACK
        elif self._open and not _HARMLESS.match(reason):
            self._failed = True
        return Answer(statement, error=failure, message=reason, ended=ended)

    def restore(self, offer: Offer | None) -> None:  # noqa: ARG002
        self.roll_back()
        self.use()

    def use(self) -> None:
        self._connection.execute(f"USE {self._stage.name}")

    def roll_back(self) -> None:
        if self._open:
            self._connection.execute("ROLLBACK")
        self._open = self._failed = False

    def cancel(self) -> None:
        self._connection.abandon()

    def close(self) -> None:
        self._connection.close()


class DuckdbStage:
    dialect = Dialect.POSTGRESQL
    patience_s = _PATIENCE_S
    deadlocks_linger = False
    settings: Mapping[str, str] = MappingProxyType({})

    def __init__(self, database: DuckdbDatabase) -> None:
        self._database = database
        self.store = "duckdb " + database.version().partition(" ")[2]
        self._administrator = self._connect()
        self._sessions: list[DuckdbSession] = []
        self.name = ""

    def prepare(self, schema: Sequence[str], rows: Mapping[str, Sequence[Row]]) -> None:
        before, self.name = self.name, f"isolde_{secrets.token_hex(6)}"
        self._run(f"ATTACH ':memory:' AS {self.name}")
        self._run(f"USE {self.name}")
        for session in self._sessions:
            session.use()
        if before:
            self._run(f"DETACH {before}")
        for text in schema:
            if not is_setting(text):
                self._run(text)
        for table, some in in_order_of_creation(schema, rows):
            marks = ", ".join("(" + ", ".join("?" * len(row)) + ")" for row in some)
            self._run(f"INSERT INTO {_quoted(table)} VALUES {marks}", [value for row in some for value in row])

    def session(self) -> StagedSession:
        session = DuckdbSession(self._connect(), self)
        self._sessions.append(session)
        return session

    def waiting(self, sessions: Sequence[StagedSession], *, whom: bool) -> list[Waiting]:  # noqa: ARG002
        return [Waiting(False) for _ in sessions]

    def tables(self) -> dict[str, tuple[Row, ...]]:
        query = f"SELECT table_name FROM duckdb_tables() WHERE database_name = '{self.name}' ORDER BY table_name"
        names = [str(name) for (name,) in self._run(query)]
        return {name: sorted_rows(values_of(self._run(f"SELECT * FROM {_quoted(name)}"))) for name in names}

    def close(self) -> None:
        # The database in memory goes with the process, or with its last connection.
        self._administrator.close()

    def _connect(self) -> DuckdbConnection:
        return self._database.connect(Table("", Kind.REGISTERS, 0))

    def _run(self, text: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._administrator.execute(text, parameters).rows or []
        except Aborted as error:
            raise StatementFailed(text, error.reason) from None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def open_stage(database: Database) -> Stage:
    assert isinstance(database, DuckdbDatabase)
    return DuckdbStage(database)
