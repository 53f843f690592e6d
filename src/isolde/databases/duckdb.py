"""DuckDB: embedded, one database in the process, one cursor a session.

DuckDB has one level. Of two writers of a row the second is refused at its statement, of two that insert a key at
its commit; some conflicts between a delete and an update or insert are not found, and both commit. After a refused
statement the transaction is dead, and yet COMMIT says that all is well: the adapter remembers.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from importlib import import_module
from typing import Any

from isolde.databases.contract import Adapter, Database, Offer, Rows, Table
from isolde.databases.error_words import of_text
from isolde.databases.keyvalue import Dialect, KeyValueConnection, abilities, tables
from isolde.databases.urls import path_of
from isolde.errors import Aborted, ConnectionLost, DatabaseUnavailable, StatementFailed
from isolde.levels import Level
from isolde.tx import dialects

_DIALECT = Dialect(lists=("BIGINT[]", "[{0}]", "{0}[1]"), cascade="")
_DRIVER = "duckdb"

_OFFERS = (
    Offer(
        "snapshot",
        "BEGIN TRANSACTION",
        Level.SNAPSHOT_ISOLATION,
        "the only level; the snapshot is taken at the first statement",
    ),
)


def _translated(error: Exception, text: str) -> Exception:
    driver = import_module(_DRIVER)
    if isinstance(error, (driver.TransactionException, driver.IntegrityError)):
        return Aborted(_one_line(error), of_text(_one_line(error)))
    if isinstance(error, (driver.ConnectionException, driver.InterruptException, driver.IOException)):
        return ConnectionLost(_one_line(error))
    if isinstance(error, (driver.FatalException, driver.InternalException)):
        # DuckDB gives the whole database up after these.
        return ConnectionLost(_one_line(error))
    if isinstance(error, driver.ParserException) and text.endswith((" FOR UPDATE", " FOR SHARE")):
        return StatementFailed(text, "DuckDB has no locks that a query could ask for; leave them out")
    if not isinstance(error, driver.Error):
        return error
    return StatementFailed(text, _one_line(error), of_text(_one_line(error)))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


class DuckdbConnection(KeyValueConnection):
    def __init__(self, cursor: Any, table: Table) -> None:
        super().__init__(table, _DIALECT)
        self._cursor = cursor
        self._open = self._failed = self._abandoned = False

    def _run(self, text: str, parameters: Sequence[Any]) -> Any:
        if self._abandoned:
            raise ConnectionLost("the connection was broken off")
        try:
            return self._cursor.execute(text, parameters)
        except Exception as error:
            self._failed = True
            raise _translated(error, text) from None

    def _first(self, text: str, parameters: Sequence[Any]) -> Any:
        result = self._run(text, parameters)
        try:
            return result.fetchone()
        except Exception as error:
            self._failed = True
            raise _translated(error, text) from None

    def _fetch(self, text: str, parameters: tuple[Any, ...]) -> object:
        row = self._first(text, parameters)
        return row[0] if row else None

    def _change(self, text: str, parameters: tuple[Any, ...]) -> int:
        # A change answers with one row, the number of rows that it found.
        return int(self._first(text, parameters)[0])

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Rows:
        result = self._run(statement, parameters)
        try:
            rows = [tuple(row) for row in result.fetchall()]
        except Exception as error:
            self._failed = True
            raise _translated(error, statement) from None
        # Only after a change that returns no rows of its own is there a count.
        return Rows(rows, None) if result.rowcount < 0 else Rows(None, result.rowcount)

    def begin(self, offer: Offer) -> None:
        self._failed = False
        self._run(offer.called, ())
        self._open = True

    def commit(self) -> None:
        if self._failed:
            self.rollback()
            raise Aborted(
                "a statement of the transaction was refused before; COMMIT would say nothing of it",
                "transaction-failed",
            )
        self._open = False
        self._run("COMMIT", ())

    def rollback(self) -> None:
        if self._open:
            self._open = False
            self._run("ROLLBACK", ())
        self._failed = False

    def abandon(self) -> None:
        self._abandoned = True
        self._cursor.interrupt()

    def close(self) -> None:
        # Closing a cursor rolls back what it has open.
        self._cursor.close()


class DuckdbDatabase:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def version(self) -> str:
        return f"DuckDB {import_module(_DRIVER).__version__}"

    def offers(self) -> tuple[Offer, ...]:
        return _OFFERS

    def create(self, table: Table) -> None:
        cursor = self._connection.cursor()
        try:
            cursor.execute("BEGIN TRANSACTION")
            for texts in tables(table, _DIALECT):
                for text in texts.creates:
                    cursor.execute(text)
                if texts.rows:
                    cursor.executemany(texts.insert(_DIALECT), list(texts.numbers()))
            cursor.execute("COMMIT")
        except import_module(_DRIVER).Error as error:
            raise DatabaseUnavailable(f"duckdb: cannot make the table {table.name}: {_one_line(error)}") from None
        finally:
            cursor.close()

    def connect(self, table: Table) -> DuckdbConnection:
        try:
            return DuckdbConnection(self._connection.cursor(), table)
        except import_module(_DRIVER).Error as error:
            raise ConnectionLost(_one_line(error)) from None

    def drop(self, table: Table) -> None:
        with closing(self.connect(table)) as connection:
            for texts in tables(table, _DIALECT):
                for text in texts.drops:
                    connection.execute(text)

    def close(self) -> None:
        self._connection.close()


def _open(url: str) -> Database:
    driver = import_module(_DRIVER)
    path = path_of(url)
    try:
        return DuckdbDatabase(driver.connect(":memory:" if path is None else str(path)))
    except driver.Error as error:
        raise DatabaseUnavailable(f"{url}: {_one_line(error)}") from None


ADAPTER = Adapter(
    name="duckdb",
    schemes=("duckdb",),
    example="duckdb: (in memory) or duckdb:FILE",
    offers=_OFFERS,
    abilities=abilities(
        transactions="BEGIN TRANSACTION … COMMIT over a snapshot; nobody waits for a lock",
        sql="DuckDB's SQL",
        no_order="its ids are those of starts, its log is its own, and a counter would make all writers conflict",
    ),
    open=_open,
    dialect=dialects.Dialect.POSTGRESQL,
    counts="found",
    driver=_DRIVER,
    install="pip install duckdb",
)
