"""Any SQL database with a Python driver that follows PEP 249: the adapter of last resort.

    open_driver("firebird.driver", '{"database": "/data/test.fdb", "user": "SYSDBA"}')
    open_driver("turso", "test.db", setup=["PRAGMA journal_mode = 'mvcc'"], begin=["BEGIN CONCURRENT"])

Nothing is known of the database beforehand. Which marks, which type for texts and which concatenation it takes is
asked of the driver or tried. Transactions are begun by the statements that the caller gives, or as PEP 249 has it, by
the first statement.
"""

from __future__ import annotations

import json
import secrets
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from isolde.databases.contract import Adapter, Database, Kind, Offer, Rows, Table
from isolde.databases.keyvalue import Dialect, abilities, tables
from isolde.databases.pep249_connection import MARKS, Driver, DriverConnection, begins_late, end_connection
from isolde.databases.pep249_errors import one_line
from isolde.databases.pep249_level import levelled
from isolde.databases.pep249_proof import Proof
from isolde.databases.shapes import SHAPES, WriteForm
from isolde.errors import Aborted, ConnectionLost, DatabaseUnavailable, OutsideError, StatementFailed, UsageError
from isolde.levels import Level
from isolde.masking import hide, secrets_of

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


class DriverDatabase:
    def __init__(self, driver: Driver, claims: Level, *, only_level: bool = False) -> None:
        self._lists: Dialect | None = None
        self._lock = threading.Lock()
        self._driver, level = levelled(driver, claims, _connected, only_level=only_level)
        self._offers = (Offer(claims.value, level.called, claims, level.note),)
        self._question = level.question
        self._proofs: dict[str, Proof] = {}
        with closing(_connected(self._driver)) as connection:
            self._version = _version(connection, driver)

    def version(self) -> str:
        return self._version

    def offers(self) -> tuple[Offer, ...]:
        return self._offers

    def create(self, table: Table) -> None:
        try:
            self._create(table, self._dialect(table))
        except OutsideError as error:
            raise DatabaseUnavailable(f"{self._driver.name}: cannot make the table {table.name}: {error}") from None
        try:
            # Refused before anything is recorded.
            self.connect(table).close()
        except OutsideError:
            with suppress(OutsideError):
                self.drop(table)
            raise

    def _create(self, table: Table, dialect: Dialect) -> None:
        made = tables(table, dialect)
        for texts in made:
            for text in texts.creates:
                self._define(text)
        with closing(DriverConnection(self._driver, table, dialect)) as connection:
            connection.begin(self._offers[0])
            for texts in made:
                insert = texts.insert(dialect)
                for row in texts.numbers():
                    connection.execute(insert, row)
            connection.commit()

    def _define(self, text: str) -> None:
        """A definition is a transaction of its own, without a level: there are databases that refuse it otherwise.

        And there are some that refuse it inside of any transaction.
        """
        if self._driver.explicit:
            self._define_outside(text)
            return
        try:
            self._define_inside(text)
        except (StatementFailed, Aborted) as refused:
            try:
                self._define_outside(text)
            except OutsideError:
                raise refused from None

    def _define_inside(self, text: str) -> None:
        without_level = replace(self._driver, begin=())
        with closing(DriverConnection(without_level, _NO_TABLE, self._driver.dialect)) as connection:
            connection.begin(self._offers[0])
            connection.execute(text)
            connection.commit()

    def _define_outside(self, text: str) -> None:
        by_itself = replace(self._driver, begin=(), explicit=True)
        with closing(DriverConnection(by_itself, _NO_TABLE, self._driver.dialect)) as connection:
            connection.execute(text)

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
        with closing(DriverConnection(self._driver, probe, dialect)) as connection:
            connection.begin(self._offers[0])
            connection.append(0, 1)
            connection.append(0, 2)
            found = connection.read(0)
            connection.rollback()
            return found == b"[1,2]"

    def connect(self, table: Table) -> DriverConnection:
        connection = self._unproved(table)
        try:
            self._proof(table).of(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _unproved(self, table: Table) -> DriverConnection:
        return DriverConnection(self._driver, table, self._dialect(table))

    def _proof(self, table: Table) -> Proof:
        with self._lock:
            if table.name not in self._proofs:
                self._proofs[table.name] = Proof(
                    self._driver.name, self._offers[0], self._question, lambda: self._unproved(table)
                )
            return self._proofs[table.name]

    def drop(self, table: Table) -> None:
        for texts in tables(table, self._driver.dialect):
            for text in texts.drops:
                self._remove(text, texts.name)

    def _remove(self, text: str, name: str) -> None:
        for _ in range(_DROP_TRIES):
            try:
                return self._define(text)
            except (Aborted, StatementFailed, ConnectionLost) as error:
                reason = _reason(error)
                time.sleep(_DROP_PAUSE_S)
        raise DatabaseUnavailable(f"{self._driver.name}: cannot remove the table {name}: {reason}")

    def close(self) -> None:
        """Nothing is kept open between connections."""


def _connected(driver: Driver) -> DriverConnection:
    try:
        return DriverConnection(driver, _NO_TABLE, driver.dialect)
    except OutsideError as error:
        raise DatabaseUnavailable(f"{driver.name}: cannot connect: {_reason(error)}") from None


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


def _connector(module: ModuleType, connect: str) -> Callable[[], Any]:
    if not connect.lstrip().startswith("{"):
        return lambda: module.connect(connect)
    try:
        arguments = json.loads(connect)
    except ValueError as error:
        raise UsageError(f"the arguments for {module.__name__}.connect are not JSON: {error}") from None
    return lambda: module.connect(**arguments)


def _loaded(name: str) -> ModuleType:
    # A program that was installed does not look where it is started; a driver of one's own is often there.
    here = str(Path.cwd())
    sys.path.append(here)
    try:
        return import_module(name)
    except ImportError as error:
        raise DatabaseUnavailable(f"the driver {name} cannot be imported ({error}); is it installed?") from None
    except Exception as error:
        raise DatabaseUnavailable(f"the driver {name} cannot be imported ({one_line(error)})") from None
    finally:
        with suppress(ValueError):
            sys.path.remove(here)


def _style(module: ModuleType, paramstyle: str | None, threadsafety: int | None) -> str:
    """How the driver marks parameters; ``UsageError`` if it is none, or threads may not share it."""
    name = module.__name__
    told = {"paramstyle": paramstyle, "threadsafety": threadsafety}
    for attribute in ("connect", "Error", "IntegrityError", *(name for name, value in told.items() if value is None)):
        if not hasattr(module, attribute):
            option = f"; tell it with --{attribute}" if attribute in told else ""
            raise UsageError(f"{name} is no driver as PEP 249 has it: it has no '{attribute}'{option}")
    style = str(module.paramstyle if paramstyle is None else paramstyle)
    if style not in MARKS:
        raise UsageError(f"{name} marks parameters in the style '{style}'; known are {', '.join(MARKS)}")
    if not (module.threadsafety if threadsafety is None else threadsafety):
        raise DatabaseUnavailable(
            f"{name} says that threads may not share it (threadsafety 0); sessions are threads. "
            "If it is wrong: --threadsafety 1"
        )
    return style


@dataclass(frozen=True, slots=True)
class Style:
    """What PEP 249 has a driver say of itself; ``None`` is what it does say."""

    paramstyle: str | None = None
    threadsafety: int | None = None


AS_IT_SAYS = Style()


def open_driver(
    module: str,
    connect: str,
    *,
    claims: Level = Level.SERIALIZABLE,
    begin: Sequence[str] = (),
    setup: Sequence[str] = (),
    only_level: bool = False,
    style: Style = AS_IT_SAYS,
) -> tuple[Adapter, Database]:
    """The database that a driver connects to.

    ``connect`` is what the driver's ``connect`` takes: one text, or a JSON object of named arguments. ``setup`` is run
    on every new connection, ``begin`` at the begin of every transaction. Without ``begin`` transactions begin as PEP 249
    says, and the level is set by SQL's own statement if the database takes it. ``claims`` is what that level promises. Which
    level it is has to be told by the database or by a statement, unless the database has an ``only_level``. ``style`` is what the
    driver itself should say and does not, or says wrongly.
    """
    loaded = _loaded(module)
    driver = Driver(
        loaded,
        _style(loaded, style.paramstyle, style.threadsafety),
        _connector(loaded, connect),
        tuple(setup),
        tuple(begin),
        explicit=bool(begin),
        shown=lambda text: hide(text, secrets_of(connect)),
    )
    if not begin:
        try:
            connection = driver.connect()
        except Exception as error:
            raise DatabaseUnavailable(f"{module}: cannot connect: {driver.shown(one_line(error))}") from None
        if begins_late(connection):
            driver = replace(driver, begin=("BEGIN",), explicit=True)
        end_connection(connection)
    database = DriverDatabase(driver, claims, only_level=only_level)
    return _adapter(driver, database), database


def _adapter(driver: Driver, database: DriverDatabase) -> Adapter:
    def opened(url: str) -> Database:  # noqa: ARG001 - a driver's database is named by more than a URL
        return database

    return Adapter(
        name=driver.name,
        schemes=(),
        example=f"the driver {driver.name}",
        offers=database.offers(),
        abilities=abilities(
            transactions="as PEP 249 has them, or by the statements that the caller gives",
            compare_and_set="UPDATE … WHERE v = expected, if the driver counts the rows",
            lists="text, appended to by the concatenation that is found to work",
            deletes="DELETE and INSERT of rows, if the driver counts the rows",
            sql=f"the SQL of the database, by {driver.name}",
            no_order="PEP 249 has no way to ask for the order of commits",
        ),
        # How an upsert is spelled, what a text is called and how it is indexed differ too much.
        shapes=tuple(s for s in SHAPES if not (s.index or s.unique or s.list_column or s.writes is WriteForm.UPSERT)),
        open=opened,
        driver=driver.name,
    )
