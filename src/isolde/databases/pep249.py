"""Any SQL database with a Python driver that follows PEP 249: the adapter of last resort.

    open_driver("firebird.driver", '{"database": "/data/test.fdb", "user": "SYSDBA"}')
    open_driver("turso", "test.db", setup=["PRAGMA journal_mode = 'mvcc'"], begin=["BEGIN CONCURRENT"])

Nothing is known of the database beforehand. Which marks, which type for texts and which concatenation it takes is
asked of the driver or tried. Transactions are begun by the statements that the caller gives, or as PEP 249 has it, by
the first statement. A transaction in which a statement failed is never committed, whatever the database would say.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from string import ascii_lowercase
from types import ModuleType
from typing import Any

from isolde.databases.contract import Ability, Adapter, Database, Feature, Kind, Offer, Rows, Table
from isolde.databases.keyvalue import Dialect, KeyValueConnection, first_rows, statements
from isolde.databases.pep249_errors import one_line, translated
from isolde.errors import Aborted, ConnectionLost, DatabaseUnavailable, OutsideError, StatementFailed, UsageError
from isolde.levels import Level

_MARKS = {
    "qmark": ("?", "?", "?"),
    "numeric": (":1", ":2", ":3"),
    "named": (":a", ":b", ":c"),
    "format": ("%s", "%s", "%s"),
    "pyformat": ("%(a)s", "%(b)s", "%(c)s"),
}
_BY_NAME = ("named", "pyformat")

# What SQL, and those who added to it, call the levels.
_SQL_NAMES = {
    Level.READ_UNCOMMITTED: "READ UNCOMMITTED",
    Level.READ_COMMITTED: "READ COMMITTED",
    Level.REPEATABLE_READ: "REPEATABLE READ",
    Level.SNAPSHOT_ISOLATION: "SNAPSHOT",
    Level.SERIALIZABLE: "SERIALIZABLE",
    Level.STRICT_SERIALIZABLE: "SERIALIZABLE",
}

# Tried in this order until one works. MySQL takes || for "or", so that what comes out is looked at.
_TEXTS = ("TEXT", "VARCHAR(8000)", "VARCHAR(4000)", "CLOB")
_CONCATENATIONS = ("{0} || {1}", "CONCAT({0}, {1})", "{0} + {1}")

_VERSIONS = (
    "SELECT version()",
    "SELECT @@version",
    "SELECT sqlite_version()",
    "SELECT rdb$get_context('SYSTEM', 'ENGINE_VERSION') FROM rdb$database",
)

# For connections that only ask or define something.
_NO_TABLE = Table("isolde_none", Kind.REGISTERS, 0)
_NO_OFFER = Offer("none", "", Level.READ_UNCOMMITTED)

# A table may still be in use for a moment after the last connection was closed.
_DROP_TRIES = 30
_DROP_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class Driver:
    """A PEP 249 module, and how its connections are made and used."""

    module: ModuleType
    connect: Callable[[], Any]
    setup: tuple[str, ...]
    begin: tuple[str, ...]
    """Statements that begin a transaction; none where the first statement does."""
    explicit: bool = False
    """Whether transactions are begun and ended by statements, or by the methods of the connection."""

    @property
    def name(self) -> str:
        return self.module.__name__

    @property
    def dialect(self) -> Dialect:
        return Dialect(marks=_MARKS[self.module.paramstyle])

    def parameters(self, values: Sequence[Any]) -> Any:
        if self.module.paramstyle in _BY_NAME:
            return dict(zip(ascii_lowercase, values, strict=False))
        return tuple(values)


class DriverConnection(KeyValueConnection):
    def __init__(self, driver: Driver, table: Table, dialect: Dialect) -> None:
        self._driver = driver
        self._texts = statements(table, dialect)
        self._lists = table.kind is Kind.LISTS
        self._open = self._touched = self._failed = self._abandoned = False
        try:
            self._connection = driver.connect()
        except Exception as error:
            raise ConnectionLost(f"{driver.name}: {one_line(error)}") from None
        try:
            _set_autocommit(self._connection, on=driver.explicit)
            for statement in driver.setup:
                self._run(statement, ())
            if not driver.explicit and driver.setup:
                self._connection.commit()
        except OutsideError:
            self.close()
            raise
        except Exception as error:
            self.close()
            raise ConnectionLost(f"{driver.name}: {one_line(error)}") from None

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

    def _change(self, text: str, parameters: tuple[Any, ...]) -> int:
        count = self._run(text, parameters).count
        if count is not None:
            return count
        if text in (self._texts.swap, self._texts.delete):
            self._failed = True
            raise StatementFailed(text, f"{self._driver.name} does not tell how many rows a statement found")
        if text in (self._texts.update, self._texts.append):
            # The row is there now if the statement found it, and the key is the last parameter.
            return int(self._fetch(self._texts.read, parameters[-1:]) is not None)
        return 1

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
        except (StatementFailed, Aborted) as error:
            raise ConnectionLost(f"a rollback failed: {error.reason}") from None
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
        with suppress(Exception):
            self._connection.close()


class DriverDatabase:
    def __init__(self, driver: Driver, claims: Level) -> None:
        self._driver = driver
        self._lists: Dialect | None = None
        self._lock = threading.Lock()
        try:
            connection = DriverConnection(driver, _NO_TABLE, driver.dialect)
        except OutsideError as error:
            raise DatabaseUnavailable(f"{driver.name}: cannot connect: {_reason(error)}") from None
        try:
            called = self._find_level(connection, claims)
            self._version = _version(connection, driver)
        finally:
            connection.close()
        self._offers = (Offer(claims.value, called, claims, "as the caller says; the driver does not tell"),)

    def _find_level(self, connection: DriverConnection, claims: Level) -> str:
        """How the level is asked for; where the caller gave no statements, SQL's own is tried."""
        default = "the database's default"
        if self._driver.begin or claims not in _SQL_NAMES:
            return "; ".join(self._driver.begin) or default
        statement = f"SET TRANSACTION ISOLATION LEVEL {_SQL_NAMES[claims]}"
        if _works(connection, statement) is None:
            return default
        self._driver = replace(self._driver, begin=(statement,))
        return statement

    def version(self) -> str:
        return self._version

    def offers(self) -> tuple[Offer, ...]:
        return self._offers

    def create(self, table: Table) -> None:
        try:
            self._create(table, self._dialect(table))
        except OutsideError as error:
            raise DatabaseUnavailable(f"{self._driver.name}: cannot make the table {table.name}: {error}") from None

    def _create(self, table: Table, dialect: Dialect) -> None:
        texts = statements(table, dialect)
        self._define(texts.create)
        with self._connected(self._driver, table, dialect) as connection:
            connection.begin(self._offers[0])
            for row in first_rows(table):
                connection.execute(texts.insert, row)
            connection.commit()

    def _define(self, text: str) -> None:
        """A definition is a transaction of its own, without a level: there are databases that refuse it otherwise."""
        with self._connected(replace(self._driver, begin=()), _NO_TABLE, self._driver.dialect) as connection:
            if self._driver.explicit:
                connection.execute(text)
                return
            connection.begin(self._offers[0])
            connection.execute(text)
            connection.commit()

    def _dialect(self, table: Table) -> Dialect:
        if table.kind is Kind.REGISTERS:
            return self._driver.dialect
        with self._lock:
            if self._lists is None:
                self._lists = self._find_lists()
            return self._lists

    def _find_lists(self) -> Dialect:
        """The first type and concatenation by which a text really grows."""
        reason = ""
        for text in _TEXTS:
            for concatenation in _CONCATENATIONS:
                dialect = replace(self._driver.dialect, text=text, concatenation=concatenation)
                probe = Table(f"isolde_probe_{secrets.token_hex(4)}", Kind.LISTS, 1)
                try:
                    self._create(probe, dialect)
                except OutsideError as error:
                    reason = _reason(error)
                    break
                try:
                    if self._grows(probe, dialect):
                        return dialect
                except OutsideError as error:
                    reason = _reason(error)
                finally:
                    self.drop(probe)
        raise StatementFailed("a list kept as text", f"no type and concatenation of texts works: {reason}")

    def _grows(self, probe: Table, dialect: Dialect) -> bool:
        with self._connected(self._driver, probe, dialect) as connection:
            connection.begin(self._offers[0])
            connection.append(0, 1)
            connection.append(0, 2)
            found = connection.read(0)
            connection.rollback()
            return found == b"[1,2]"

    @staticmethod
    @contextmanager
    def _connected(driver: Driver, table: Table, dialect: Dialect) -> Iterator[DriverConnection]:
        connection = DriverConnection(driver, table, dialect)
        try:
            yield connection
        finally:
            connection.close()

    def connect(self, table: Table) -> DriverConnection:
        return DriverConnection(self._driver, table, self._dialect(table))

    def drop(self, table: Table) -> None:
        text = statements(table, self._driver.dialect).drop
        for _ in range(_DROP_TRIES):
            try:
                return self._define(text)
            except (Aborted, StatementFailed, ConnectionLost) as error:
                reason = _reason(error)
                time.sleep(_DROP_PAUSE_S)
        raise DatabaseUnavailable(f"{self._driver.name}: cannot remove the table {table.name}: {reason}")

    def close(self) -> None:
        """Nothing is kept open between connections."""


def _reason(error: OutsideError) -> str:
    return str(getattr(error, "reason", error))


def _works(connection: DriverConnection, text: str) -> Rows | None:
    """What a statement returns in a transaction of its own; ``None`` if the database does not take it."""
    try:
        connection.begin(_NO_OFFER)
        found = connection.execute(text)
        connection.rollback()
    except (StatementFailed, Aborted):
        connection.rollback()
        return None
    return found


def _version(connection: DriverConnection, driver: Driver) -> str:
    own = getattr(driver.module, "__version__", "")
    client = f"{driver.name} {own}".strip()
    for text in _VERSIONS:
        found = _works(connection, text)
        if found is not None and found.rows:
            return f"{found.rows[0][0]} ({client})"
    return client


def _begins_late(connection: Any) -> bool:
    """Whether a driver is like sqlite3, which begins a transaction before a change but not before a read."""
    return hasattr(connection, "isolation_level") and hasattr(connection, "in_transaction")


def _set_autocommit(connection: Any, *, on: bool) -> None:
    if _begins_late(connection):
        connection.isolation_level = None
        return
    setting = getattr(connection, "autocommit", None)
    if callable(setting):
        setting(on)
    elif setting is not None and bool(setting) is not on:
        connection.autocommit = on


def _connector(module: ModuleType, connect: str) -> Callable[[], Any]:
    if not connect.lstrip().startswith("{"):
        return lambda: module.connect(connect)
    try:
        arguments = json.loads(connect)
    except ValueError as error:
        raise UsageError(f"the arguments for {module.__name__}.connect are not JSON: {error}") from None
    return lambda: module.connect(**arguments)


def _loaded(name: str) -> ModuleType:
    try:
        module = import_module(name)
    except ImportError as error:
        raise DatabaseUnavailable(f"the driver {name} cannot be imported ({error}); is it installed?") from None
    for attribute in ("connect", "paramstyle", "threadsafety", "Error", "IntegrityError"):
        if not hasattr(module, attribute):
            raise UsageError(f"{name} is no driver as PEP 249 has it: it has no '{attribute}'")
    if module.paramstyle not in _MARKS:
        raise UsageError(f"{name} marks parameters in the style '{module.paramstyle}'; known are {', '.join(_MARKS)}")
    if not module.threadsafety:
        raise DatabaseUnavailable(f"{name} says that threads may not share it (threadsafety 0); sessions are threads")
    return module


def open_driver(
    module: str,
    connect: str,
    *,
    claims: Level = Level.SERIALIZABLE,
    begin: Sequence[str] = (),
    setup: Sequence[str] = (),
) -> tuple[Adapter, Database]:
    """The database that a driver connects to.

    ``connect`` is what the driver's ``connect`` takes: one text, or a JSON object of named arguments. ``setup`` is run
    on every new connection, ``begin`` at the begin of every transaction. Without ``begin`` transactions begin as PEP 249
    says, and the level is set by SQL's own statement if the database takes it. ``claims`` is what that level promises.
    """
    loaded = _loaded(module)
    driver = Driver(loaded, _connector(loaded, connect), tuple(setup), tuple(begin), explicit=bool(begin))
    if not begin:
        try:
            connection = driver.connect()
        except Exception as error:
            raise DatabaseUnavailable(f"{module}: cannot connect: {one_line(error)}") from None
        if _begins_late(connection):
            driver = replace(driver, begin=("BEGIN",), explicit=True)
        connection.close()
    database = DriverDatabase(driver, claims)
    return _adapter(driver, database), database


def _adapter(driver: Driver, database: DriverDatabase) -> Adapter:
    def opened(url: str) -> Database:  # noqa: ARG001 - a driver's database is named by more than a URL
        return database

    return Adapter(
        name=driver.name,
        schemes=(),
        example=f"the driver {driver.name}",
        offers=database.offers(),
        abilities=(
            Ability(Feature.TRANSACTIONS, True, "as PEP 249 has them, or by the statements that the caller gives"),
            Ability(Feature.COMPARE_AND_SET, True, "UPDATE … WHERE v = expected, if the driver counts the rows"),
            Ability(Feature.LISTS, True, "text, appended to by the concatenation that is found to work"),
            Ability(Feature.DELETES, True, "DELETE and INSERT of rows, if the driver counts the rows"),
            Ability(Feature.SQL, True, f"the SQL of the database, by {driver.name}"),
            Ability(Feature.PREDICATES, True, "any WHERE"),
            Ability(Feature.ORDER, False, "PEP 249 has no way to ask for the order of commits"),
        ),
        open=opened,
        driver=driver.name,
    )
