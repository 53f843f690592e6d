"""A connection of any driver that follows PEP 249.

A transaction in which a statement failed is never committed, whatever the database would say.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from string import ascii_lowercase
from types import ModuleType
from typing import Any

from isolde.databases.contract import Offer, Rows, Table
from isolde.databases.keyvalue import PARAMETERS_MAX, Column, Dialect, KeyValueConnection
from isolde.databases.pep249_errors import one_line, translated
from isolde.errors import Aborted, ConnectionLost, OutsideError, StatementFailed

_LETTERS = ascii_lowercase[:PARAMETERS_MAX]
MARKS = {
    "qmark": ("?",) * PARAMETERS_MAX,
    "numeric": tuple(f":{number}" for number in range(1, PARAMETERS_MAX + 1)),
    "named": tuple(f":{letter}" for letter in _LETTERS),
    "format": ("%s",) * PARAMETERS_MAX,
    "pyformat": tuple(f"%({letter})s" for letter in _LETTERS),
}
_BY_NAME = ("named", "pyformat")


@dataclass(frozen=True, slots=True)
class Driver:
    """A PEP 249 module, and how its connections are made and used."""

    module: ModuleType
    paramstyle: str
    connect: Callable[[], Any]
    setup: tuple[str, ...]
    begin: tuple[str, ...]
    """Statements that begin a transaction; none where the first statement does."""
    explicit: bool = False
    """Whether transactions are begun and ended by statements, or by the methods of the connection."""
    jdbc_level: int | None = None
    """The level that a connection over JDBC is told, in JDBC's numbers."""
    shown: Callable[[str], str] = field(default=str)
    """What of an error about a connection may be told: a driver may quote its arguments, and a password among them."""

    @property
    def name(self) -> str:
        return self.module.__name__

    @property
    def dialect(self) -> Dialect:
        return Dialect(marks=MARKS[self.paramstyle])

    def parameters(self, values: Sequence[Any]) -> Any:
        if self.paramstyle in _BY_NAME:
            return dict(zip(ascii_lowercase, values, strict=False))
        return tuple(values)


class DriverConnection(KeyValueConnection):
    def __init__(self, driver: Driver, table: Table, dialect: Dialect) -> None:
        self._driver = driver
        self._must_count: set[str] = set()
        self._seen_by: dict[str, str] = {}
        super().__init__(table, dialect)
        self._open = self._touched = self._failed = self._abandoned = False
        self._counts = False
        self._connection: Any = None
        self._connect()

    def _connect(self) -> None:
        driver = self._driver
        try:
            self._connection = driver.connect()
        except Exception as error:
            raise ConnectionLost(f"{driver.name}: {driver.shown(one_line(error))}") from None
        try:
            set_autocommit(self._connection, on=driver.explicit)
            if driver.jdbc_level is not None:
                self._connection.jconn.setTransactionIsolation(driver.jdbc_level)
            for statement in driver.setup:
                self._run(statement, ())
            if not driver.explicit and driver.setup:
                self._connection.commit()
        except OutsideError:
            self.close()
            raise
        except Exception as error:
            self.close()
            raise ConnectionLost(f"{driver.name}: {driver.shown(one_line(error))}") from None

    def _run(self, text: str, parameters: Sequence[Any]) -> Rows:
        if self._abandoned:
            raise ConnectionLost("the connection was broken off")
        self._touched = True
        try:
            cursor = self._connection.cursor()
            try:
                if parameters:
                    cursor.execute(text, self._driver.parameters(parameters))
                else:
                    # With an empty tuple, drivers of the style "format" would look for marks in the text.
                    cursor.execute(text)
                rows = [tuple(row) for row in cursor.fetchall()] if cursor.description else None
                return Rows(rows, None if cursor.rowcount is None or cursor.rowcount < 0 else cursor.rowcount)
            finally:
                cursor.close()
        except Exception as error:
            self._failed = True
            raise self._translated(error, text) from None

    def _translated(self, error: Exception, text: str) -> OutsideError:
        if self._abandoned:
            return ConnectionLost(one_line(error))
        return translated(self._driver.module, error, text)

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Rows:
        return self._run(statement, parameters)

    def _fetch(self, text: str, parameters: tuple[Any, ...]) -> object:
        rows = self._run(text, parameters).rows
        return rows[0][0] if rows else None

    def believe_counts(self, there: int, absent: int) -> None:
        """Believes the driver's counts of rows from now on if they are right of a key that is there and of one that is not."""
        found = []
        for key in (there, absent):
            column, row = self._placed(key)
            new = (*column.new(1)[:-1], "") if self._lists else column.new(1)
            found.append(self._run(column.texts.update, (*new, row)).count)
        found.append(self._run(column.texts.delete, (row,)).count)
        self._counts = found == [1, 0, 0]

    def jdbc_level(self) -> int | None:
        """The level that JDBC reports, in its numbers; ``None`` if this is no connection over JDBC."""
        inner = getattr(self._connection, "jconn", None)
        return None if inner is None else int(inner.getTransactionIsolation())

    def _change(self, text: str, parameters: tuple[Any, ...]) -> int:
        count = self._run(text, parameters).count
        if self._counts and count is not None:
            return count
        there = text in self._seen_by and self._fetch(self._seen_by[text], parameters[-1:]) is not None
        if text in self._must_count and (there or text not in self._seen_by):
            self._failed = True
            raise StatementFailed(
                text, f"{self._driver.name} does not tell how many rows a statement found, or tells it wrongly"
            )
        # The row is there now if the statement found it, and the key is the last parameter.
        return int(there or text not in self._seen_by)

    def _new_column(self, table: int, column: int) -> Column:
        found = super()._new_column(table, column)
        texts = found.texts
        self._must_count |= {texts.swap, texts.delete, texts.fill}
        self._seen_by |= dict.fromkeys((texts.update, texts.append, texts.fill), texts.read)
        return found

    def begin(self, offer: Offer) -> None:  # noqa: ARG002 - there is one level, and its statements are known
        self._failed = self._touched = False
        self._open = True
        for statement in self._driver.begin:
            self._run(statement, ())

    def _in_transaction(self) -> bool | None:
        """What the driver says; ``None`` if it says nothing."""
        found = getattr(self._connection, "in_transaction", None)
        return found if isinstance(found, bool) else None

    def commit(self) -> None:
        if self._failed:
            self.rollback()
            raise Aborted("a statement of the transaction failed before, so that it was rolled back")
        if self._driver.explicit and self._in_transaction() is False:
            self._open = False
            raise Aborted("the database had ended the transaction without a word")
        try:
            self._end("COMMIT")
        except StatementFailed as error:
            # An error at a commit that says neither "aborted" nor "lost" leaves everything possible.
            raise ConnectionLost(error.reason) from None
        if self._driver.explicit and self._in_transaction():
            raise Aborted("the transaction was still open after its commit")
        self._open = False

    def rollback(self) -> None:
        if not self._open:
            return
        self._open = False
        if self._in_transaction() is False:
            return
        try:
            self._end("ROLLBACK")
        except (StatementFailed, Aborted):
            # Some refuse it when they have ended the transaction themselves. Whether they have nobody can tell, but a connection
            # that is closed undoes what is open; a new one is clean.
            self.close()
            self._connect()
        finally:
            self._failed = False

    def _end(self, word: str) -> None:
        if self._driver.explicit:
            self._run(word, ())
            return
        if self._abandoned:
            raise ConnectionLost("the connection was broken off")
        if not self._touched:
            # Nothing was asked, so that no transaction was begun; some drivers fail if one ends it all the same.
            return
        try:
            getattr(self._connection, word.lower())()
        except Exception as error:
            self._failed = True
            raise self._translated(error, word) from None

    def abandon(self) -> None:
        self._abandoned = True
        # PEP 249 has no way to do it from another thread; many drivers have one of these.
        for name in ("interrupt", "cancel"):
            method = getattr(self._connection, name, None)
            if callable(method):
                with suppress(Exception):
                    method()
                return

    def close(self) -> None:
        with suppress(Exception):
            if self._open:
                self._connection.rollback()
        end_connection(self._connection)


def end_connection(connection: Any) -> None:
    """Closes a driver's connection; never raises."""
    with suppress(Exception):
        connection.close()
    java = sys.modules.get("jpype")
    if java is not None and hasattr(connection, "jconn"):
        # JayDeBeApi made this thread one of Java's, which keeps a program from ending for as long as it thinks it alive.
        with suppress(Exception):
            java.java.lang.Thread.detach()


def begins_late(connection: Any) -> bool:
    """Whether a driver is like sqlite3, which begins a transaction before a change but not before a read."""
    return hasattr(connection, "isolation_level") and hasattr(connection, "in_transaction")


def set_autocommit(connection: Any, *, on: bool) -> None:
    """Has every statement be a transaction of its own, or not, by whatever the driver has for it."""
    if begins_late(connection):
        connection.isolation_level = None
        return
    if hasattr(connection, "jconn"):
        # JayDeBeApi leaves it on, as JDBC has it.
        connection.jconn.setAutoCommit(on)
        return
    setting = getattr(connection, "autocommit", None)
    if callable(setting):
        setting(on)
    elif setting is not None and bool(setting) is not on:
        connection.autocommit = on
