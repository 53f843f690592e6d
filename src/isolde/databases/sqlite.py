"""SQLite: embedded, in write-ahead mode, one connection a session."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from isolde.databases.contract import Adapter, Database, Offer, Rows, Table
from isolde.databases.error_words import of_sqlite
from isolde.databases.keyvalue import Dialect, KeyValueConnection, abilities, tables
from isolde.databases.servers.directory import HeldDirectory
from isolde.databases.urls import path_of
from isolde.errors import Aborted, ConnectionLost, DatabaseUnavailable, StatementFailed
from isolde.levels import Level
from isolde.tx import dialects

_DIALECT = Dialect()
_LOCK_WAIT_S = 10.0

_OFFERS = (
    Offer("deferred", "BEGIN DEFERRED", Level.STRICT_SERIALIZABLE, "the snapshot is taken at the first statement"),
    Offer("immediate", "BEGIN IMMEDIATE", Level.STRICT_SERIALIZABLE, "one writer at a time from the start"),
)

_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_GONE = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN)


def _translated(error: sqlite3.Error, text: str) -> Exception:
    # The low byte is the kind of error; SQLITE_BUSY_SNAPSHOT and its like say more in the higher ones.
    extended = getattr(error, "sqlite_errorcode", None) or 0
    code = extended & 0xFF
    if code in _LOCKED or code == sqlite3.SQLITE_CONSTRAINT:
        return Aborted(str(error), of_sqlite(extended))
    if code in _GONE or code == sqlite3.SQLITE_INTERRUPT:
        return ConnectionLost(str(error))
    return StatementFailed(text, str(error), of_sqlite(extended))


def _sent(value: Any) -> Any:
    """SQLite has neither decimals nor times: a number with a fraction is a float in its SQL, too, and a time a text."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    return value.isoformat() if isinstance(value, date) else value


class SqliteConnection(KeyValueConnection):
    def __init__(self, file: str, table: Table) -> None:
        super().__init__(table, _DIALECT)
        self._connection = sqlite3.connect(
            file, timeout=_LOCK_WAIT_S, isolation_level=None, check_same_thread=False, cached_statements=64
        )
        self._connection.execute("PRAGMA synchronous = NORMAL")
        # Off unless asked for, for the sake of old files; what tables say is to hold.
        self._connection.execute("PRAGMA foreign_keys = ON")

    def _run(self, text: str, parameters: Sequence[Any]) -> sqlite3.Cursor:
        try:
            return self._connection.execute(text, parameters)
        except sqlite3.Error as error:
            raise _translated(error, text) from None

    def _fetch(self, text: str, parameters: tuple[Any, ...]) -> object:
        cursor = self._run(text, parameters)
        try:
            row = cursor.fetchone()
        except sqlite3.Error as error:
            raise _translated(error, text) from None
        # An unfinished cursor would keep the read lock beyond the transaction.
        cursor.close()
        return row[0] if row else None

    def _change(self, text: str, parameters: tuple[Any, ...]) -> int:
        return self._run(text, parameters).rowcount

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Rows:
        cursor = self._run(statement, [_sent(value) for value in parameters])
        try:
            rows = cursor.fetchall() if cursor.description else None
        except sqlite3.Error as error:
            raise _translated(error, statement) from None
        return Rows(rows, None if cursor.rowcount < 0 else cursor.rowcount)

    def begin(self, offer: Offer) -> None:
        self._run(offer.called, ())

    def commit(self) -> None:
        self._run("COMMIT", ())

    def rollback(self) -> None:
        if self._connection.in_transaction:
            self._run("ROLLBACK", ())

    def abandon(self) -> None:
        self._connection.interrupt()

    def close(self) -> None:
        try:
            self._connection.close()
        except sqlite3.Error:
            return


C = TypeVar("C", bound=SqliteConnection)


class SqliteDatabase:
    def __init__(self, file: Path, temporary: HeldDirectory | None) -> None:
        self._file, self._temporary = str(file), temporary

    def version(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}"

    def offers(self) -> tuple[Offer, ...]:
        return _OFFERS

    def journal_mode(self) -> str:
        """That of the user's own file, if there is one: it decides who waits for whom."""
        if self._temporary is not None or not Path(self._file).exists():
            return "wal"
        try:
            with closing(sqlite3.connect(f"{Path(self._file).resolve().as_uri()}?mode=ro", uri=True)) as connection:
                return str(connection.execute("PRAGMA journal_mode").fetchone()[0])
        except sqlite3.Error as error:
            raise DatabaseUnavailable(f"sqlite: {self._file} cannot be read: {error}") from None

    def create(self, table: Table) -> None:
        try:
            connection = sqlite3.connect(self._file, timeout=_LOCK_WAIT_S, isolation_level=None)
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("BEGIN IMMEDIATE")
                for texts in tables(table, _DIALECT):
                    for text in texts.creates:
                        connection.execute(text)
                    connection.executemany(texts.insert(_DIALECT), texts.numbers())
                connection.execute("COMMIT")
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise DatabaseUnavailable(f"sqlite: cannot make the table {table.name} in {self._file}: {error}") from None

    def connect(self, table: Table) -> SqliteConnection:
        return self.connect_as(SqliteConnection, table)

    def connect_as(self, kind: type[C], table: Table) -> C:
        """A new connection of a kind that does more than ours."""
        try:
            return kind(self._file, table)
        except sqlite3.Error as error:
            raise ConnectionLost(f"{self._file}: {error}") from None

    def drop(self, table: Table) -> None:
        with closing(self.connect(table)) as connection:
            for texts in tables(table, _DIALECT):
                for text in texts.drops:
                    connection.execute(text)

    def close(self) -> None:
        if self._temporary is not None:
            self._temporary.remove()


def _open(url: str) -> Database:
    path = path_of(url)
    if path is not None:
        return SqliteDatabase(path, None)
    temporary = HeldDirectory("sqlite")
    return SqliteDatabase(temporary.path / "isolde.db", temporary)


ADAPTER = Adapter(
    name="sqlite",
    schemes=("sqlite",),
    example="sqlite: (a temporary file) or sqlite:FILE",
    offers=_OFFERS,
    abilities=abilities(
        transactions="BEGIN … COMMIT; one writer at a time, readers see a snapshot (WAL)",
        sql="Python's own sqlite3",
        order="one writer at a time: a counter inside of each transaction tells the order in which they took effect",
    ),
    open=_open,
    dialect=dialects.Dialect.SQLITE,
    counts="found",
    locks_everything=True,
)
