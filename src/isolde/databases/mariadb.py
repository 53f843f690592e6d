"""MariaDB, MySQL and TiDB, one server or a Galera cluster, through mysqlclient or else PyMySQL.

What REPEATABLE READ promises depends on the server: with ``innodb_snapshot_isolation`` (MariaDB, on by default from 11.6)
a transaction that would overwrite what its snapshot does not show is aborted; without it, and in MySQL, it is not.
"""

from __future__ import annotations

import importlib
import itertools
import math
import os
import re
import socket
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Any, TypeVar

from isolde.databases.contract import Adapter, Database, Kind, Offer, Rows, Table
from isolde.databases.error_words import of_mysql
from isolde.databases.keyvalue import PARAMETERS_MAX, Dialect, KeyValueConnection, TableTexts, abilities, tables
from isolde.databases.urls import Address, addresses_of, seconds_of
from isolde.databases.waiting import FILL_S, LOCK_S, aside, patiently
from isolde.errors import Aborted, ConnectionLost, DatabaseUnavailable, OutsideError, StatementFailed, UsageError
from isolde.levels import Level
from isolde.masking import hide, masked_url, secrets_of
from isolde.tx import dialects

# mysqlclient takes half the processor time, but needs a compiler and a C library to be installed.
_DRIVERS = ("MySQLdb", "pymysql")
_DIALECT = Dialect(
    marks=("%s",) * PARAMETERS_MAX,
    concatenation="CONCAT({0}, {1})",
    text="LONGTEXT CHARACTER SET ascii",
    options=" ENGINE=InnoDB",
    upsert="ON DUPLICATE KEY UPDATE {0}",
    inserted="VALUES({0})",
    lists=("LONGTEXT CHARACTER SET ascii", "{0}", "{0}"),
    indexed_text="{0}(100)",
)
_PORT = 3306
_CONNECT_S = 10
# For connections that only ask or define something.
_NO_TABLE = Table("", Kind.REGISTERS, 0)
_LOCK_WAIT_S = 5
_CLUSTER_WAIT_S = 10.0
_ROWS_MAX = 1000

_SNAPSHOTS = Offer(
    "repeatable-read", "REPEATABLE READ", Level.SNAPSHOT_ISOLATION, "innodb_snapshot_isolation is on in this server"
)
_CERTIFIED = Offer(
    "serializable",
    "SERIALIZABLE",
    Level.SNAPSHOT_ISOLATION,
    "read locks end at the node; Galera compares writes only",
)
_OFFERS = (
    Offer("read-uncommitted", "READ UNCOMMITTED", Level.READ_UNCOMMITTED, "reads take no notice of commits"),
    Offer("read-committed", "READ COMMITTED", Level.READ_COMMITTED, "each statement has a snapshot of its own"),
    Offer(
        "repeatable-read",
        "REPEATABLE READ",
        Level.PREFIX,
        "one snapshot for all reads, but updates can be lost, and an update works on newer rows than reads show; "
        "with innodb_snapshot_isolation (MariaDB, also as an option in the URL) snapshot isolation",
        shared=Level.PL_2,
    ),
    Offer("serializable", "SERIALIZABLE", Level.SERIALIZABLE, "reads lock what they see"),
)

# TiDB has these two, and refuses the others with error 8048. In its optimistic mode two who change a row conflict at COMMIT.
_TIDB_OFFERS = (
    Offer("read-committed", "READ COMMITTED", Level.READ_COMMITTED, "each statement has a snapshot of its own"),
    Offer(
        "repeatable-read",
        "REPEATABLE READ",
        Level.PREFIX,
        "one snapshot for all reads, but in the pessimistic mode an update works on newer rows than reads show",
        shared=Level.PL_2,
    ),
)
_TIDB_OPTIMISTIC = Offer(
    "repeatable-read",
    "REPEATABLE READ",
    Level.SNAPSHOT_ISOLATION,
    "tidb_txn_mode is optimistic: conflicts abort at COMMIT",
)

# Dolt takes every name of a level and has one: https://github.com/dolthub/dolt/issues/2007
_DOLT = Offer(
    "repeatable-read",
    "REPEATABLE READ",
    Level.SNAPSHOT_ISOLATION,
    "Dolt's one level: a snapshot; at COMMIT two who changed a cell to different values conflict, to equal ones not",
)

_FOUND_ROWS = 2
"""The protocol's flag: an update that changes nothing still counts the rows that it found."""

# Deadlock or certification conflict, lock wait too long, changed since the snapshot, duplicate key (two forms), other
# constraints (four), statement interrupted or too long (three), rolled back by group replication; TiDB's conflicts (four).
_ABORTED = {1213, 1205, 1020, 1062, 1586, 1451, 1452, 3819, 4025, 1317, 1969, 3024, 3101, 8002, 8022, 8028, 9007}
# TiDB's answer to a level that it does not have.
_NO_SUCH_LEVEL = 8048
# Nobody there, shutting down, connection killed, node without quorum, and 1180: an error in COMMIT itself, which in a
# cluster may come after the others have the transaction. To call that aborted would be a guess.
_LOST = {0, 2002, 2003, 2006, 2013, 2014, 2055, 1053, 1927, 1047, 1180, 4031}

_DRIVER_OPTIONS = ("unix_socket", "charset")
# Of TiDB: where the versions of rows are told.
_STATUS_PORT = "status_port"
_SSL_OPTIONS = ("ssl_ca", "ssl_cert", "ssl_key")


class MariadbConnection(KeyValueConnection):
    def __init__(self, driver: Any, connection: Any, table: Table) -> None:
        super().__init__(table, _DIALECT)
        self._error = driver.Error
        self._connection, self._cursor = connection, connection.cursor()
        self._level = ""
        self._failed = False
        # A handle of our own: to break the connection off must not race with the driver's closing of its descriptor.
        descriptor = connection.fileno() if hasattr(connection, "fileno") else connection._sock.fileno()
        self._socket = socket.socket(fileno=os.dup(descriptor))

    def _run(self, text: str, parameters: Sequence[Any] | None) -> Any:
        try:
            self._cursor.execute(text, parameters)
        except self._error as error:
            self._failed = True
            raise _translated(error, text) from None
        return self._cursor

    def _fetch(self, text: str, parameters: tuple[Any, ...]) -> object:
        row = self._run(text, parameters).fetchone()
        return row[0] if row else None

    def _change(self, text: str, parameters: tuple[Any, ...]) -> int:
        count: int = self._run(text, parameters).rowcount
        return count

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Rows:
        # Without parameters a percent sign is a percent sign.
        cursor = self._run(statement, tuple(parameters) or None)
        rows = list(cursor.fetchall()) if cursor.description else None
        return Rows(rows, cursor.rowcount)

    def begin(self, offer: Offer) -> None:
        if offer.called != self._level:
            self._run(f"SET SESSION TRANSACTION ISOLATION LEVEL {offer.called}", None)
            self._level = offer.called
        self._failed = False
        self._run("START TRANSACTION", None)

    def commit(self) -> None:
        # After a deadlock the server has rolled everything back, after most other errors only the statement; either way
        # it would accept COMMIT.
        if self._failed:
            self.rollback()
            raise Aborted("a statement of the transaction had failed", "transaction-failed")
        self._run("COMMIT", None)

    def rollback(self) -> None:
        self._run("ROLLBACK", None)
        self._failed = False

    def abandon(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(self._error, OSError):
            self._connection.close()
        self._socket.close()


C = TypeVar("C", bound=MariadbConnection)


class MariadbDatabase:
    def __init__(self, url: str) -> None:
        self._url, self._shown = url, masked_url(url)
        self._driver = _driver(self._shown)
        self._addresses = addresses_of(url)
        for address in self._addresses:
            if address.database is None:
                raise UsageError(f"{self._shown} names no database; write mariadb://user@host/name")
        self._turns = itertools.cycle(self._addresses)
        with closing(self.administrator()) as session, patiently(session):
            self._version = _version(session)
            self._offers = _offers(session)
        if self.clustered:
            self._version += f", Galera: {self._members()}"

    def _members(self) -> str:
        """The nodes that the URL names, by their own names, and how many the cluster has."""
        named, size = [], 0
        for address in self._addresses:
            with (
                suppress(ConnectionLost),
                closing(self._session(address, _NO_TABLE, MariadbConnection)) as session,
                patiently(session),
            ):
                named.append(f"{_variable(session, 'wsrep_node_name')} at {address.host}:{address.port or _PORT}")
                rows = session.execute("SHOW STATUS LIKE 'wsrep_cluster_size'").rows or []
                size = max(size, int(rows[0][1]) if rows else 0)
        return f"{', '.join(named)} of a cluster of {size}"

    def version(self) -> str:
        return self._version

    def offers(self) -> tuple[Offer, ...]:
        return self._offers

    @property
    def nodes(self) -> int:
        """How many servers the URL names."""
        return len(self._addresses)

    @property
    def clustered(self) -> bool:
        """Whether it is a node of a Galera cluster."""
        return _CERTIFIED in self._offers

    @property
    def first_address(self) -> Address:
        """Where the first of its servers answers."""
        return self._addresses[0]

    def create(self, table: Table) -> None:
        with closing(self.administrator()) as session:
            try:
                with patiently(session, FILL_S):
                    _make(session, tables(table, _DIALECT))
            except OutsideError as error:
                reason = getattr(error, "reason", error)
                raise DatabaseUnavailable(f"{self._shown}: cannot make the table {table.name}: {reason}") from None
        self._await_everywhere(table)

    def _await_everywhere(self, table: Table) -> None:
        """A table that one node of a cluster made is there on the others a little later."""
        if len(self._addresses) == 1:
            return
        deadline = time.monotonic() + _CLUSTER_WAIT_S
        for address in self._addresses:
            with suppress(ConnectionLost), closing(self._session(address, table, MariadbConnection)) as session:
                while not _has_rows(session, table):
                    if time.monotonic() > deadline:
                        raise DatabaseUnavailable(
                            f"{self._shown}: the table {table.name} did not reach {address.host}:{address.port} within "
                            f"{_CLUSTER_WAIT_S:.0f} s; is it a node of the same cluster?"
                        )
                    time.sleep(0.01)

    def connect(self, table: Table) -> MariadbConnection:
        return self.connect_as(MariadbConnection, table)

    def connect_as(self, kind: type[C], table: Table) -> C:
        """A new connection of a kind that does more than ours."""
        return self._session(next(self._turns), table, kind)

    def drop(self, table: Table) -> None:
        with closing(self.administrator()) as session, patiently(session):
            # Somebody may look at the table in a transaction that he leaves open; the server would wait for a day.
            with suppress(StatementFailed):
                session.execute(f"SET SESSION lock_wait_timeout = {LOCK_S:.0f}")
            for texts in tables(table, _DIALECT):
                for text in texts.drops:
                    session.execute(text)

    def close(self) -> None:
        """Nothing is kept between calls."""

    def administrator(self) -> MariadbConnection:
        """A connection to the first server that answers."""
        reasons = []
        for address in self._addresses:
            try:
                return self._session(address, _NO_TABLE, MariadbConnection)
            except ConnectionLost as error:
                reasons.append(error.reason)
        raise DatabaseUnavailable(reasons[0])

    def _session(self, address: Address, table: Table, kind: type[C]) -> C:
        settings, arguments = _settings(address), _arguments(address)
        try:
            # PyMySQL's own limit ends before the server has to say its first word.
            connection = aside(lambda: self._driver.connect(**arguments), arguments["connect_timeout"] + 1)
        except DatabaseUnavailable as error:
            raise ConnectionLost(f"{self._shown}: {error}") from None
        except Exception as error:
            # Of odd options a driver may raise anything.
            reason = hide(str(error.args[-1]) if error.args else type(error).__name__, secrets_of(self._url))
            raise ConnectionLost(f"{self._shown}: {reason}") from None
        session = kind(self._driver, connection, table)
        try:
            with patiently(session):
                # Dolt, which waits for no locks, has this variable and refuses to have it set.
                with suppress(StatementFailed):
                    session.execute(f"SET SESSION innodb_lock_wait_timeout = {_LOCK_WAIT_S}")
                for setting in settings:
                    session.execute(setting)
        except BaseException as error:
            session.close()
            if isinstance(error, StatementFailed):
                raise UsageError(f"{self._shown}: {error.reason}") from None
            if isinstance(error, DatabaseUnavailable):
                raise ConnectionLost(f"{self._shown}: {error}") from None
            raise
        return session


def _driver(shown: str) -> Any:
    for name in _DRIVERS:
        with suppress(ImportError):
            return importlib.import_module(name)
    raise DatabaseUnavailable(f"{shown}: neither {' nor '.join(_DRIVERS)} is installed; try: {ADAPTER.install}")


def _arguments(address: Address) -> dict[str, Any]:
    options = address.options
    arguments: dict[str, Any] = {
        "user": address.user or "root",
        "password": address.password or "",
        "database": address.database,
        # A client library looks at the socket only if the server is called this.
        "host": "localhost" if "unix_socket" in options else address.host or "127.0.0.1",
        "port": address.port or _PORT,
        "client_flag": _FOUND_ROWS,
        "connect_timeout": math.ceil(seconds_of(address, "connect_timeout", _CONNECT_S)),
        "autocommit": True,
        "charset": "utf8mb4",
    }
    arguments |= {name: options[name] for name in _DRIVER_OPTIONS if name in options}
    secure = {name.removeprefix("ssl_"): options[name] for name in _SSL_OPTIONS if name in options}
    return arguments | ({"ssl": secure} if secure else {})


def _settings(address: Address) -> list[str]:
    """The session's variables that the URL sets: every option of it that is none of ours."""
    ours = {"connect_timeout", _STATUS_PORT, *_DRIVER_OPTIONS, *_SSL_OPTIONS}
    variables = {name: value for name, value in address.options.items() if name not in ours}
    for name, value in variables.items():
        if not re.fullmatch(r"\w+", name) or not re.fullmatch(r"[\w.,-]*", value):
            raise UsageError(f"'{name}={value}' cannot be a variable of a session; write for example wsrep_sync_wait=1")
    return [f"SET SESSION {name} = {value if value.isdigit() else repr(value)}" for name, value in variables.items()]


def _make(session: MariadbConnection, made: list[TableTexts]) -> None:
    done: list[str] = []
    try:
        for texts in made:
            for text in texts.creates:
                session.execute(text)
                if text.startswith("CREATE TABLE"):
                    # What refers to a table is made after it, and goes before it.
                    done.insert(0, text.split()[2])
            _fill(session, texts)
    except (Aborted, StatementFailed):
        # CREATE TABLE is a transaction of its own here, and is not undone with the rest.
        for name in done:
            session.execute(f"DROP TABLE {name}")
        raise


def _fill(session: MariadbConnection, texts: TableTexts) -> None:
    rows = list(texts.numbers())
    one = f"({', '.join('%s' if value == 'k' else value for value in texts.first)})"
    for start in range(0, len(rows), _ROWS_MAX):
        some = rows[start : start + _ROWS_MAX]
        text = f"INSERT INTO {texts.name} ({', '.join(texts.columns)}) VALUES {', '.join([one] * len(some))}"
        session.execute(text, [value for row in some for value in row])


def _version(session: MariadbConnection) -> str:
    version = str(_one(session, "SELECT VERSION()"))
    compatible, tidb, own = version.partition("-TiDB-")
    if tidb:
        return f"TiDB {own} (compatible with MySQL {compatible})"
    if "MariaDB" in version:
        return f"MariaDB {version}"
    dolt = _answer(session, "SELECT DOLT_VERSION()")
    return f"MySQL {version}" if dolt is None else f"Dolt {dolt} (compatible with MySQL {version})"


def _offers(session: MariadbConnection) -> tuple[Offer, ...]:
    """The levels as this server's settings make them."""
    mode = _variable(session, "tidb_txn_mode")
    if mode is not None:
        return _TIDB_OFFERS if str(mode) == "pessimistic" else (_TIDB_OFFERS[0], _TIDB_OPTIMISTIC)
    if _answer(session, "SELECT DOLT_VERSION()") is not None:
        return (_DOLT,)
    changed = {}
    if _variable(session, "innodb_snapshot_isolation") == 1:
        changed[_SNAPSHOTS.name] = _SNAPSHOTS
    if _variable(session, "wsrep_on") == 1:
        changed[_CERTIFIED.name] = _CERTIFIED
    return tuple(changed.get(offer.name, offer) for offer in _OFFERS)


def _variable(session: MariadbConnection, name: str) -> object:
    """A variable's value; ``None`` if the server has no such variable."""
    return _answer(session, f"SELECT @@{name}")


def _answer(session: MariadbConnection, query: str) -> object:
    """What a query gives; ``None`` if the server does not know what it asks for."""
    try:
        return _one(session, query)
    except StatementFailed:
        return None


def _has_rows(session: MariadbConnection, table: Table) -> bool:
    try:
        made = tables(table, _DIALECT)
        return all(_one(session, f"SELECT COUNT(*) FROM {texts.name}") == texts.rows for texts in made)
    except StatementFailed:
        return False


def _one(session: MariadbConnection, query: str) -> object:
    rows = session.execute(query).rows
    return rows[0][0] if rows else None


# Dolt merges what two transactions changed when the second one commits, and has no number for what a merge may not leave.
_UNMERGED = "working set with constraint violations"


def _translated(error: Exception, text: str) -> Exception:
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    reason = str(error.args[-1]) if error.args else type(error).__name__
    if code in _LOST:
        return ConnectionLost(f"{reason} (error {code})")
    if code in _ABORTED:
        return Aborted(f"{reason} (error {code})", of_mysql(code), code)
    if _UNMERGED in reason:
        return Aborted(reason.partition("\n")[0], "serialization-failure", code)
    if code == _NO_SUCH_LEVEL:
        reason += "; TiDB has READ COMMITTED and REPEATABLE READ"
    return StatementFailed(text, reason, of_mysql(code), code)


def _open(url: str) -> Database:
    return MariadbDatabase(url)


ADAPTER = Adapter(
    name="mariadb",
    schemes=("mariadb", "mysql"),
    example="mariadb://user:password@host:3306/name, or several nodes: mariadb://user@host1,host2/name",
    offers=_OFFERS,
    abilities=abilities(
        transactions="START TRANSACTION … COMMIT on InnoDB tables",
        lists="text, appended to by CONCAT",
        sql="the drivers' parameters, %s",
        order="the binary log by rows, with the program mariadb-binlog; what statements see, from READ COMMITTED up; "
        "of TiDB the timestamps of versions and statements",
    ),
    open=_open,
    untested="TiDB as a cluster (one process with its store in memory was tried); MySQL itself, whose order is not asked for",
    dialect=dialects.Dialect.MYSQL,
    counts="found",
    driver="MySQLdb",
    fallback="pymysql",
    install='pip install "isolde[mariadb]"',
)
