"""PostgreSQL, through libpq's own calls: psycopg's ordinary connections spend three times the processor time."""

from __future__ import annotations

import os
import re
import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

from isolde.databases.contract import Adapter, Database, Kind, Offer, Rows, Table
from isolde.databases.error_words import of_sqlstate
from isolde.databases.keyvalue import PARAMETERS_MAX, Dialect, KeyValueConnection, TableTexts, abilities, tables
from isolde.databases.urls import addresses_of, seconds_of
from isolde.databases.waiting import FILL_S, LOCK_S, patiently
from isolde.errors import Aborted, ConnectionLost, DatabaseUnavailable, OutsideError, StatementFailed, UsageError
from isolde.levels import Level
from isolde.masking import hide, masked_url, secrets_of
from isolde.tx import dialects

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

# Rows stay on their page when they are updated. Where they move, SERIALIZABLE takes the readers of a page for those of the row:
# with 20 sessions nearly half of all transactions are aborted, instead of a few in a hundred.
_DIALECT = Dialect(
    marks=tuple(f"${number}" for number in range(1, PARAMETERS_MAX + 1)),
    lists=("BIGINT[]", "ARRAY[{0}]::BIGINT[]", "{0}[1]"),
    options=" WITH (fillfactor = 50)",
)
_CONNECT_S = 10.0

_OFFERS = (
    Offer("read-uncommitted", "READ UNCOMMITTED", Level.READ_COMMITTED, "behaves as READ COMMITTED"),
    Offer("read-committed", "READ COMMITTED", Level.READ_COMMITTED, "each statement has a snapshot of its own"),
    Offer(
        "repeatable-read", "REPEATABLE READ", Level.SNAPSHOT_ISOLATION, "the snapshot is taken at the first statement"
    ),
    Offer("serializable", "SERIALIZABLE", Level.SERIALIZABLE, "snapshots, with dangerous structures aborted (SSI)"),
)
# CockroachDB takes every name, and makes SERIALIZABLE of it where the cluster does not let it be READ COMMITTED.
_COCKROACHDB = (
    Offer(
        "read-committed",
        "READ COMMITTED",
        Level.READ_COMMITTED,
        "from 23.2, where sql.txn.read_committed_isolation.enabled is on",
    ),
    Offer("serializable", "SERIALIZABLE", Level.SERIALIZABLE, "by timestamps; not by the clock of other sessions"),
)
_BEGIN = {offer.name: f"BEGIN ISOLATION LEVEL {offer.called}" for offer in _OFFERS}

# Values of libpq's enumerations, which are part of its binary interface; psycopg is not imported before it is needed.
_EMPTY, _COMMAND_OK, _TUPLES_OK, _COPY_OUT, _COPY_IN = 0, 1, 2, 3, 4
_CONNECTION_BAD = 1
_POLL_READING, _POLL_OK = 1, 3
_SEVERITY, _SQLSTATE, _MESSAGE = ord("V"), ord("C"), ord("M")
_TRANSACTION_IDLE = 0

# SQLSTATEs, by how they begin. 40003 says that the outcome is unknown; class 08 and 57P0x that nobody is there any more.
_LOST = ("08", "57P0", "40003")
# Class 40: rolled back; 23: a key or constraint that somebody else's transaction made fail; 25P02: failed before;
# 55P03 and 57014: a lock or a statement that took longer than the server allows.
_ABORTED = ("40", "23", "25P02", "55P03", "57014")
_NO_RIGHT = "42501"
# The numbers of types that parameters are sent as.
_BOOLEAN, _BIGINT, _INTEGER, _NUMERIC = 16, 20, 23, 1700
_SENT_AS: tuple[tuple[type, int], ...] = ((Decimal, _NUMERIC), (float, 701), (datetime, 1114), (date, 1082))


@dataclass(frozen=True, slots=True)
class Told:
    """What one statement of several returned: rows, what the server calls it (``UPDATE 1``), and the error if it failed."""

    rows: Rows
    tag: bytes
    sqlstate: str = ""
    reason: str = ""


class PostgresqlConnection(KeyValueConnection):
    """``refused`` is what the driver raises when it does not even send a statement."""

    def __init__(self, connection: PGconn, refused: type[Exception], table: Table) -> None:
        super().__init__(table, _DIALECT)
        self._connection = connection
        self._refused = refused
        self._prepared: dict[str, bytes] = {}
        # A handle of our own: to break the connection off must not race with libpq's closing of its descriptor.
        self._socket = socket.socket(fileno=os.dup(connection.socket))

    def _ask(self, text: str, call: Callable[..., PGresult], *arguments: Any) -> PGresult:
        try:
            result = call(*arguments)
        except self._refused as error:
            # libpq sends nothing over a connection that it knows to be broken.
            raise ConnectionLost(_first_line(str(error))) from None
        if result.status == _COMMAND_OK or result.status == _TUPLES_OK:
            return result
        raise _translated(self._connection, result, text)

    def _run(self, text: str, parameters: tuple[Any, ...]) -> PGresult:
        name = self._prepared.get(text) or self._prepare(text)
        sent = [b"%d" % value if value.__class__ is int else value.encode() for value in parameters]
        return self._ask(text, self._connection.exec_prepared, name, sent)

    def _prepare(self, text: str) -> bytes:
        name = b"isolde_%d" % len(self._prepared)
        self._ask(text, self._connection.prepare, name, text.encode())
        self._prepared[text] = name
        return name

    def _plain(self, text: str) -> PGresult:
        return self._ask(text, self._connection.exec_, text.encode())

    def _fetch(self, text: str, parameters: tuple[Any, ...]) -> object:
        result = self._run(text, parameters)
        return result.get_value(0, 0) if result.ntuples else None

    def _change(self, text: str, parameters: tuple[Any, ...]) -> int:
        return self._run(text, parameters).command_tuples or 0

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Rows:
        sent = [sent_value(value) for value in parameters]
        types = [type_of(value) for value in parameters]
        result = self._ask(statement, self._connection.exec_params, statement.encode(), sent, types)
        return rows_of(result)

    def script(self, text: str, within_s: float | None = None) -> list[Told]:
        """Sends a text with any number of statements as it is, and gives what each of them returned.

        A statement that fails is the last; ``ConnectionLost`` if nobody answers (within so many seconds). libpq's own call that
        waits would give the last answer alone, and its call for one answer keeps every other thread of ours waiting.
        """
        try:
            self._connection.send_query(text.encode())
            return list(self._told(text, within_s))
        except self._refused as error:
            raise ConnectionLost(_first_line(str(error))) from None

    def _told(self, text: str, within_s: float | None) -> Iterator[Told]:
        poll = select.poll()
        poll.register(self._connection.socket, select.POLLIN)
        while True:
            while self._connection.is_busy():
                if not poll.poll(None if within_s is None else within_s * 1000):
                    raise ConnectionLost(f"no answer within {within_s:g} s")
                self._connection.consume_input()
            result = self._connection.get_result()
            if result is None:
                return
            if result.status in (_COPY_OUT, _COPY_IN):
                raise StatementFailed(text, "COPY from or to the client is not supported here")
            if result.status in (_COMMAND_OK, _TUPLES_OK):
                yield Told(rows_of(result), result.command_status or b"")
            elif result.status != _EMPTY:
                failure = _translated(self._connection, result, text)
                if isinstance(failure, ConnectionLost):
                    raise failure
                state = (result.error_field(_SQLSTATE) or b"").decode()
                reason = _first_line((result.error_field(_MESSAGE) or b"").decode(errors="replace"))
                yield Told(Rows(None, None), b"", state, reason)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, be it a failed one."""
        return self._connection.transaction_status != _TRANSACTION_IDLE

    @property
    def backend(self) -> int:
        """The server's number for this connection."""
        return self._connection.backend_pid

    def cancel(self) -> None:
        """Makes a statement fail that waits, from another thread."""
        with suppress(self._refused):
            self._connection.get_cancel().cancel()

    def begin(self, offer: Offer) -> None:
        self._plain(_BEGIN[offer.name])

    def commit(self) -> None:
        # The server answers COMMIT of a transaction that failed before with ROLLBACK, and calls that a success.
        if self._plain("COMMIT").command_status != b"COMMIT":
            raise Aborted("the server answered COMMIT with a rollback", "transaction-failed")

    def rollback(self) -> None:
        if self._connection.transaction_status != _TRANSACTION_IDLE:
            self._plain("ROLLBACK")

    def abandon(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def close(self) -> None:
        self._connection.finish()
        self._socket.close()


C = TypeVar("C", bound=PostgresqlConnection)


class PostgresqlDatabase:
    def __init__(self, url: str) -> None:
        self._shown, self._conninfo = masked_url(url), _conninfo(url)
        self._url = url
        self._wait_s = seconds_of(addresses_of(url)[0], "connect_timeout", _CONNECT_S)
        try:
            with (
                closing(self._session(DatabaseUnavailable, None, PostgresqlConnection)) as session,
                patiently(session, self._wait_s),
            ):
                told = session.execute("SELECT version()").rows
        except (ConnectionLost, StatementFailed) as error:
            raise DatabaseUnavailable(f"{self._shown}: {error.reason}") from None
        # What follows names the machine and the compiler.
        self._version = re.split(r" on | \(x86| \(aarch", str(told[0][0]))[0] if told else ""

    def version(self) -> str:
        return self._version

    def offers(self) -> tuple[Offer, ...]:
        return _COCKROACHDB if self._version.startswith("CockroachDB ") else _OFFERS

    def create(self, table: Table) -> None:
        with closing(self._session(DatabaseUnavailable, table, PostgresqlConnection)) as session:
            try:
                self._create(session, table)
            except OutsideError as error:
                raise DatabaseUnavailable(
                    f"{self._shown}: cannot make the table {table.name}: {getattr(error, 'reason', error)}"
                ) from None

    def _create(self, session: PostgresqlConnection, table: Table) -> None:
        with patiently(session, FILL_S):
            session.execute("BEGIN")
            for texts in tables(table, _DIALECT):
                for text in texts.creates:
                    session.execute(text)
                session.execute(_filled(texts))
            session.commit()

    def connect(self, table: Table) -> PostgresqlConnection:
        return self.connect_as(PostgresqlConnection, table)

    def connect_as(self, kind: type[C], table: Table) -> C:
        """A new connection of a kind that does more than ours."""
        return self._session(ConnectionLost, table, kind)

    def drop(self, table: Table) -> None:
        with closing(self.connect(table)) as session, patiently(session):
            # Somebody may look at the table, and keep it locked for as long as he likes.
            with suppress(StatementFailed):
                session.execute(f"SET lock_timeout = '{LOCK_S:g}s'")
            for texts in tables(table, _DIALECT):
                for text in texts.drops:
                    session.execute(text)

    def close(self) -> None:
        """Nothing is kept between calls."""

    def _session(
        self,
        failure: type[DatabaseUnavailable] | type[ConnectionLost],
        table: Table | None,
        kind: type[C],
    ) -> C:
        from psycopg import OperationalError
        from psycopg.pq import PGconn

        connection = PGconn.connect_start(self._conninfo)
        reason = _await_connection(connection, self._wait_s)
        if reason is None:
            return kind(connection, OperationalError, table or Table("", Kind.REGISTERS, 0))
        connection.finish()
        raise failure(f"{self._shown}: {hide(reason, secrets_of(self._url))}")


def _filled(texts: TableTexts) -> str:
    columns, first = ", ".join(texts.columns), ", ".join(texts.first)
    return f"INSERT INTO {texts.name} ({columns}) SELECT {first} FROM generate_series(0, {texts.rows - 1}) AS k"


def _conninfo(url: str) -> bytes:
    """The URL as libpq takes it; options that Isolde does not know are libpq's (``sslmode``, ``host=/socket/directory``)."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import make_conninfo

    shown = masked_url(url)
    if url.partition("://")[2].partition("/")[0].count("@") > 1:
        raise UsageError(f"{shown} is not a database URL: a '@' in a user's name or password is written %40")
    try:
        return make_conninfo(url, fallback_application_name="isolde", client_encoding="UTF8").encode()
    except ProgrammingError as error:
        raise UsageError(f"{shown} is not a database URL: {hide(_first_line(str(error)), secrets_of(url))}") from None


def _await_connection(connection: PGconn, wait_s: float) -> str | None:
    """Waits until the server has let us in; the reason if it does not.

    libpq's own call that waits would keep every other thread of ours waiting too.
    """
    deadline = time.monotonic() + wait_s
    asked = _POLL_READING + 1
    while connection.status != _CONNECTION_BAD:
        poll = select.poll()
        poll.register(connection.socket, select.POLLIN if asked == _POLL_READING else select.POLLOUT)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            return f"no answer from the server within {wait_s:.0f} s"
        asked = connection.connect_poll()
        if asked == _POLL_OK:
            return None
    return _first_line(connection.get_error_message())


def rows_of(result: PGresult) -> Rows:
    """What a statement returned, decoded."""
    if result.status != _TUPLES_OK:
        return Rows(None, result.command_tuples)
    decoders = [_DECODERS.get(result.ftype(column), bytes.decode) for column in range(result.nfields)]
    rows = [
        tuple(
            None if (raw := result.get_value(row, column)) is None else decode(raw)
            for column, decode in enumerate(decoders)
        )
        for row in range(result.ntuples)
    ]
    return Rows(rows, result.ntuples)


def _translated(connection: PGconn, result: PGresult, text: str) -> Exception:
    state = (result.error_field(_SQLSTATE) or b"").decode()
    reason = _first_line((result.error_field(_MESSAGE) or result.get_error_message().encode()).decode(errors="replace"))
    if connection.status == _CONNECTION_BAD or state.startswith(_LOST):
        return ConnectionLost(reason)
    if result.error_field(_SEVERITY) in (b"FATAL", b"PANIC"):
        return ConnectionLost(reason)
    if state.startswith(_ABORTED):
        return Aborted(f"{reason} (SQLSTATE {state})", of_sqlstate(state))
    if state == _NO_RIGHT:
        reason += "; the user needs the right to do this, see GRANT"
    return StatementFailed(text, reason, of_sqlstate(state))


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def type_of(value: object) -> int:
    """The type that a parameter is sent as; 0 leaves it to the server, to which a mark alone is a text."""
    if isinstance(value, bool):
        return _BOOLEAN
    if isinstance(value, int):
        return _INTEGER if -(2**31) <= value < 2**31 else _BIGINT if -(2**63) <= value < 2**63 else _NUMERIC
    if isinstance(value, datetime) and value.tzinfo is not None:
        return 1184
    return next((type_ for kind, type_ in _SENT_AS if isinstance(value, kind)), 0)


def sent_value(value: Any) -> bytes | None:
    """A parameter in the server's text form."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return b"\\x" + value.hex().encode()
    text = str(value)
    if "\0" in text:
        # libpq would send what is before it.
        raise StatementFailed("a parameter", "PostgreSQL holds no text with a NUL character")
    return text.encode()


def _time(raw: bytes) -> datetime | str:
    """What Python has no time for (infinity, years before Christ or after 9999) stays a text."""
    text = raw.decode()
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return text


def _moment(raw: bytes) -> datetime | str:
    """A time with a zone, in UTC whatever the zone of the session is."""
    time = _time(raw)
    return time.astimezone(UTC) if isinstance(time, datetime) else time


def _date(raw: bytes) -> date | str:
    try:
        return date.fromisoformat(raw.decode())
    except ValueError:
        return raw.decode()


# By type: bool, bytea, int8, int2, int4, oid, xid, float4, float8, numeric, xid8, date, timestamp, timestamptz. Others are text.
_DECODERS: dict[int, Callable[[bytes], Any]] = {
    16: b"t".__eq__,
    17: lambda raw: bytes.fromhex(raw[2:].decode()),
    **dict.fromkeys((20, 21, 23, 26, 28, 5069), int),
    **dict.fromkeys((700, 701), float),
    1700: lambda raw: Decimal(raw.decode()),
    1082: _date,
    1114: _time,
    1184: _moment,
}


def _open(url: str) -> Database:
    return PostgresqlDatabase(url)


ADAPTER = Adapter(
    name="postgresql",
    schemes=("postgresql", "postgres"),
    example="postgresql://user:password@host:5432/name",
    offers=_OFFERS,
    abilities=abilities(
        transactions="BEGIN ISOLATION LEVEL … COMMIT",
        sql="libpq's parameters, $1, $2, …",
        order="logical decoding (wal_level = logical), and the snapshot of every statement; predicates too",
    ),
    open=_open,
    untested="CockroachDB, which names itself behind postgresql://: its levels, and its order at SERIALIZABLE "
    "(timestamps of commits, a changefeed) on keys, as documented",
    dialect=dialects.Dialect.POSTGRESQL,
    counts="found",
    driver="psycopg",
    install='pip install "isolde[postgresql]"',
)
