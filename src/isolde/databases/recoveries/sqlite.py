"""SQLite's order: there is one writer at a time, and it works on the newest state; a counter in the file tells its place.

A transaction that changed something raises the counter right before its COMMIT, while it holds the lock that all writers need;
one that only read looks at it in its own snapshot. Nothing of this makes anybody wait who would not have waited anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

from isolde.databases.contract import Database, Kind, Offer, Rows, Table
from isolde.databases.recovery import Account, Ended, Lookup, Scope
from isolde.databases.sqlite import SqliteConnection, SqliteDatabase
from isolde.errors import DatabaseUnavailable, OutsideError
from isolde.history.certificate import Certificate


@dataclass(frozen=True, slots=True)
class Heard:
    """Of a commit: the counter, and whether the transaction raised it."""

    counter: int
    writes: bool


class ListeningSqlite(SqliteConnection):
    """Hears the counter at each commit."""

    def __init__(self, file: str, table: Table) -> None:
        super().__init__(file, table)
        self.counter = ""
        self._wrote = False
        self._heard: Heard | None = None

    def heard(self) -> Heard | None:
        heard, self._heard = self._heard, None
        return heard

    def begin(self, offer: Offer) -> None:
        self._wrote, self._heard = False, None
        super().begin(offer)

    def _change(self, text: str, parameters: tuple[Any, ...]) -> int:
        count = super()._change(text, parameters)
        self._wrote |= count > 0
        return count

    def execute_found(self, statement: str, parameters: Sequence[Any], lookup: Lookup | None) -> Rows:
        del lookup
        before = self._connection.total_changes
        answer = self.execute(statement, parameters)
        self._wrote |= self._connection.total_changes > before
        return answer

    def commit(self) -> None:
        if self._wrote:
            super()._change(f"UPDATE {self.counter} SET n = n + 1", ())
        found = self._fetch(f"SELECT n FROM {self.counter}", ())
        super().commit()
        self._heard = Heard(int(str(found)), self._wrote)


class SqliteRecovery:
    only_last = False

    def __init__(self, database: SqliteDatabase, scope: Scope) -> None:
        self._database = database
        self._counter = f"{min(scope.tables)}_order"
        with closing(self._administrator()) as session:
            session.execute(f"CREATE TABLE {self._counter} (n INTEGER NOT NULL)")
            session.execute(f"INSERT INTO {self._counter} VALUES (0)")

    def _administrator(self) -> SqliteConnection:
        return self._database.connect(Table("", Kind.REGISTERS, 0))

    def connect(self, table: Table) -> ListeningSqlite:
        connection = self._database.connect_as(ListeningSqlite, table)
        connection.counter = self._counter
        return connection

    def recover(self, accounts: Sequence[Account]) -> Certificate:
        return Certificate(f"{self._database.version()}, a counter in each transaction", serial=serial_of(accounts))

    def close(self) -> None:
        with suppress(OutsideError), closing(self._administrator()) as session:
            session.execute(f"DROP TABLE {self._counter}")


def serial_of(accounts: Sequence[Account]) -> tuple[str, ...]:
    """The order in which the transactions took effect: who raised the counter to a number, then who read that number."""
    placed = []
    for account in accounts:
        if account.ended is Ended.UNKNOWN:
            raise DatabaseUnavailable(
                f"what became of the transaction {account.transaction} is not known, nor its place"
            )
        if account.ended is Ended.COMMITTED:
            heard = account.commit
            assert isinstance(heard, Heard)
            placed.append((heard.counter, not heard.writes, account.begun, account.transaction))
    return tuple(name for _, _, _, name in sorted(placed))


def begin_recovery(database: Database, scope: Scope, offers: tuple[Offer, ...]) -> SqliteRecovery:
    """Begins to listen to a SQLite at whatever level: all of them have one writer at a time."""
    del offers
    assert isinstance(database, SqliteDatabase)
    try:
        return SqliteRecovery(database, scope)
    except OutsideError as error:
        raise DatabaseUnavailable(f"no counter can be made beside the tables: {error}") from None
