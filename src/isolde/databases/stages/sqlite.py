"""A file of SQLite in which schedules are played: its own, since SQLite has no schemas that could be private.

SQLite waits for a lock by trying again and again, where it waits at all (a transaction that has read already is refused at once).
The same is done here with a short limit and without end, so that a session knows that it waits, and can stop.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from isolde.databases.contract import Database, Offer
from isolde.databases.error_words import of_sqlite
from isolde.databases.servers.directory import HeldDirectory
from isolde.databases.sqlite import SqliteDatabase
from isolde.databases.stage import Answer, Stage, StagedSession, Waiting
from isolde.databases.stages.tables import in_order_of_creation
from isolde.errors import StatementFailed
from isolde.history.schedule import Ended, Failure, Row, sorted_rows, values_of
from isolde.tx.dialects import Dialect
from isolde.tx.script import changes, commits, is_setting, statements_of

# One attempt to get a lock. Being refused at once takes microseconds, so that the two can be told apart.
_ATTEMPT_S = 0.05
_AT_ONCE_S = 0.04
_LOOK_S = 0.003
_PATIENCE_S = 10.0
_PLAIN_BEGIN = ("begin", "begin transaction", "begin deferred", "begin deferred transaction")


class SqliteSession:
    def __init__(self, file: str) -> None:
        self._connection = sqlite3.connect(file, timeout=_ATTEMPT_S, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA foreign_keys = ON")
        # Nothing here is to last.
        self._connection.execute("PRAGMA synchronous = OFF")
        self._offer: Offer | None = None
        self._cancelled = threading.Event()
        # When the last attempt to get a lock began that failed; the stage compares it with the time of its question.
        self.refused_at: float | None = None

    def run(self, text: str) -> list[Answer]:
        self._cancelled.clear()
        answers: list[Answer] = []
        for statement in statements_of(text, Dialect.SQLITE):
            if not is_setting(statement):
                answers.append(self._one(statement))
                if answers[-1].error is not None:
                    break
        return answers

    def _one(self, statement: str) -> Answer:
        was_open = self._connection.in_transaction
        sent = statement
        if self._offer is not None and " ".join(statement.lower().split()) in _PLAIN_BEGIN:
            sent = self._offer.called
        try:
            rows, count = self._tried(sent)
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None) or 0
            ended = Ended.ROLLED_BACK if was_open and not self._connection.in_transaction else None
            return Answer(statement, error=_failure(code, str(error)), message=str(error), ended=ended)
        ended = None
        if was_open and not self._connection.in_transaction:
            ended = Ended.COMMITTED if commits(statement) else Ended.ROLLED_BACK
        return Answer(statement, rows, count if changes(statement) else None, ended=ended)

    def _tried(self, statement: str) -> tuple[tuple[Row, ...] | None, int]:
        try:
            while True:
                begun = time.monotonic()
                try:
                    cursor = self._connection.execute(statement)
                    rows = values_of(cursor.fetchall()) if cursor.description else None
                    return rows, cursor.rowcount
                except sqlite3.Error as error:
                    waited = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
                    if not waited or time.monotonic() - begun < _AT_ONCE_S or self._cancelled.is_set():
                        raise
                    self.refused_at = begun
        finally:
            self.refused_at = None

    def restore(self, offer: Offer | None) -> None:
        self.roll_back()
        self._offer = offer

    def roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def cancel(self) -> None:
        self._cancelled.set()
        self._connection.interrupt()

    def close(self) -> None:
        self._connection.close()


def _failure(code: int, text: str) -> Failure:
    # An overflow has no code of its own.
    return Failure.ARITHMETIC if "integer overflow" in text else Failure(of_sqlite(code))


class SqliteStage:
    dialect = Dialect.SQLITE
    patience_s = _PATIENCE_S
    deadlocks_linger = False

    def __init__(self, database: SqliteDatabase) -> None:
        self.store = f"sqlite {sqlite3.sqlite_version}"
        self._directory = HeldDirectory("schedule")
        self._file = str(self._directory.path / "schedule.db")
        self._administrator = sqlite3.connect(
            self._file, timeout=_PATIENCE_S, isolation_level=None, check_same_thread=False
        )
        mode = self._administrator.execute(f"PRAGMA journal_mode = {database.journal_mode()}").fetchone()[0]
        self._administrator.execute("PRAGMA synchronous = OFF")
        self.settings: Mapping[str, str] = {"journal_mode": str(mode)}

    def prepare(self, schema: Sequence[str], rows: Mapping[str, Sequence[Row]]) -> None:
        # References are not looked at while tables go; their order does not matter then.
        self._run("PRAGMA foreign_keys = OFF")
        for kind, name in self._made():
            self._run(f"DROP {kind} IF EXISTS {_quoted(name)}")
        self._run("PRAGMA foreign_keys = ON")
        for text in schema:
            if not is_setting(text):
                self._run(text)
        for table, some in in_order_of_creation(schema, rows):
            for row in some:
                marks = ", ".join("?" * len(row))
                sent = [value if isinstance(value, int | str | None) else float(value) for value in row]
                self._run(f"INSERT INTO {_quoted(table)} VALUES ({marks})", sent)

    def session(self) -> StagedSession:
        return SqliteSession(self._file)

    def waiting(self, sessions: Sequence[StagedSession], *, whom: bool) -> list[Waiting]:  # noqa: ARG002
        ours = [session for session in sessions if isinstance(session, SqliteSession)]
        asked = time.monotonic()
        # Who was refused before may have been freed since: an attempt counts that began after the question.
        while any(session.refused_at is not None and session.refused_at < asked for session in ours):
            time.sleep(_LOOK_S)
        return [Waiting(session.refused_at is not None) for session in ours]

    def tables(self) -> dict[str, tuple[Row, ...]]:
        found = {}
        for kind, name in self._made():
            if kind == "table":
                rows = self._administrator.execute(f"SELECT * FROM {_quoted(name)}").fetchall()
                found[name] = sorted_rows(values_of(rows))
        return found

    def close(self) -> None:
        self._administrator.close()
        self._directory.remove()

    def _made(self) -> list[tuple[str, str]]:
        query = "SELECT type, name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT GLOB 'sqlite_*' ORDER BY name"
        return [(str(kind), str(name)) for kind, name in self._administrator.execute(query)]

    def _run(self, text: str, parameters: Sequence[Any] = ()) -> None:
        try:
            self._administrator.execute(text, parameters)
        except sqlite3.Error as error:
            raise StatementFailed(text, str(error)) from None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def open_stage(database: Database) -> Stage:
    assert isinstance(database, SqliteDatabase)
    return SqliteStage(database)
