"""MariaDB's order: the binary log by rows tells the versions and the order of commits.

Every statement that changes rows begins with a comment of ours, which the log keeps beside the rows: so each version is known
by the operation that made it, also where the client never heard of its commit.

What queries see at READ COMMITTED and REPEATABLE READ is asked of the database itself: a table beside those of the run has one
row a connection, and a transaction that changed something writes into the row of its own connection how far it is. So nobody
waits for anybody, and whoever reads that table in his snapshot knows exactly whose transactions it shows. (The place in the log
that START TRANSACTION WITH CONSISTENT SNAPSHOT tells was tried on 10.11.19: once in some thousand transactions it is ahead of
what the snapshot shows.)

Changes and locking queries from REPEATABLE READ up, and at SERIALIZABLE all queries, look at the newest rows and lock what they
go through, rows and gaps alike, until the transaction ends: nothing of what they saw changes before its own commit, so they see
what is before that in the log. A transaction that wrote nothing asks for the log's end while it still holds its locks. What a
change at READ COMMITTED went through without changing it nobody tells, nor what is seen at READ UNCOMMITTED.
"""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import tempfile
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from isolde.databases.contract import Database, Offer, Rows, Swap, Table
from isolde.databases.mariadb import MariadbConnection, MariadbDatabase
from isolde.databases.recoveries.binlog import Columns, Group, Reader, Tag
from isolde.databases.recovery import Account, Ended, Lookup, Scope
from isolde.databases.urls import Address
from isolde.databases.waiting import patiently
from isolde.errors import DatabaseUnavailable, OutsideError, StatementFailed, UsageError
from isolde.history.certificate import Certificate, Installed, ObjectId, Sees, VersionId, VersionSet

_PROGRAMS = ("mariadb-binlog", "mysqlbinlog")
_PROGRAM_S = 600.0
_EACH, _SNAPSHOT = "read-committed", "repeatable-read"
# Where what a change or a locking query goes through stays as it is until the end.
_LOCKING = (_SNAPSHOT, "serializable")
_CURRENT = re.compile(r"\b(?:FOR UPDATE|LOCK IN SHARE MODE)\b", re.IGNORECASE)
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.|'')*'""")
# Variable, what it has to be, and how to make it so.
_NEEDED = (
    ("log_bin", 1, "the server keeps no binary log; start it with --log-bin"),
    ("binlog_format", "ROW", "the binary log has statements and no rows: SET GLOBAL binlog_format = ROW"),
    ("binlog_row_image", "FULL", "the binary log has parts of rows: SET GLOBAL binlog_row_image = FULL"),
    ("binlog_annotate_row_events", 1, "the binary log keeps no statements: SET GLOBAL binlog_annotate_row_events = ON"),
)


@dataclass(frozen=True, slots=True)
class Heard:
    """Of an operation: the tags of its statements, and what it saw: ``shown`` transactions, or the ``newest`` rows.

    Of a commit: how long the log was right before.
    """

    tags: tuple[Tag, ...] = ()
    shown: tuple[Tag, ...] | None = None
    newest: bool = False
    log: int | None = None


class ListeningMariadb(MariadbConnection):
    """Sends its statements under tags; ``number`` is the connection's own, ``marks`` the table that tells how far each is."""

    number = 0
    marks = ""

    def __init__(self, driver: Any, connection: Any, table: Table) -> None:
        super().__init__(driver, connection, table)
        self._sent = 0
        self._tags: list[Tag] = []
        self._heard: Heard | None = None
        self._at = ""
        self._changed = False
        self._shown: tuple[Tag, ...] | None = None

    def heard(self) -> Heard | None:
        heard, self._heard = self._heard, None
        return heard

    def begin(self, offer: Offer) -> None:
        self._heard, self._shown, self._tags, self._changed = None, None, [], False
        self._at = offer.name
        super().begin(offer)
        if self._at == _SNAPSHOT:
            # The first query makes the snapshot.
            self._shown = tuple(
                (int(c), int(n)) for c, n in self._run(f"SELECT c, n FROM {self.marks}", None).fetchall()
            )

    def commit(self) -> None:
        log = None
        if not self._failed:
            if self._changed and self.marks:
                self._run(f"UPDATE {self.marks} SET n = %s WHERE c = %s", (self._sent, self.number))
            if self._at in _LOCKING:
                (position,) = self._run("SELECT @@global.gtid_binlog_pos", None).fetchone()
                log = max((int(one.split("-")[2]) for one in str(position).split(",") if one), default=0)
        super().commit()
        self._heard = Heard(log=log)

    def _tagged(self, text: str) -> str:
        self._sent += 1
        self._changed = True
        self._tags.append((self.number, self._sent))
        return f"/*isolde:{self.number}:{self._sent}*/ {text}"

    def _note(self, *, reads: bool = True, newest: bool = True) -> None:
        newest = reads and self._at in _LOCKING and (newest or self._at != _SNAPSHOT)
        shown = self._shown if reads and not newest else None
        self._heard, self._tags = Heard(tuple(self._tags), shown, newest), []

    # Keys

    def _fetch(self, text: str, parameters: tuple[Any, ...]) -> object:
        if self._at == _EACH:
            (row, *_) = self._shown_with(text, parameters)
            found = row[2] if row[1] else None
        else:
            found = super()._fetch(text, parameters)
        self._note(newest=False)
        return found

    def _change(self, text: str, parameters: tuple[Any, ...]) -> int:
        return super()._change(self._tagged(text), parameters)

    def write(self, key: int, value: int) -> None:
        super().write(key, value)
        self._note(reads=False)

    def insert(self, key: int, value: int) -> None:
        super().insert(key, value)
        self._note(reads=False)

    def delete(self, key: int) -> bool:
        found = super().delete(key)
        self._note(reads=False)
        return found

    def append(self, key: int, element: int) -> None:
        super().append(key, element)
        self._note(reads=False)

    def compare_and_set(self, key: int, expected: int | None, new: int) -> Swap:
        if expected is None:
            # A read and an insert, each heard as what it is.
            return self._insert_if_absent(key, new)
        swap = super().compare_and_set(key, expected, new)
        self._note(reads=self._at in _LOCKING)
        return swap

    # SQL

    def execute_found(self, statement: str, parameters: Sequence[Any], lookup: Lookup | None) -> Rows:
        del lookup
        plain = _QUOTED.sub("''", statement)
        if not plain.lstrip().upper().startswith("SELECT"):
            answer = self.execute(self._tagged(statement), parameters)
            self._note(reads=self._at in _LOCKING)
            return answer
        locks = _CURRENT.search(plain) is not None
        if self._at != _EACH or locks:
            answer = self.execute(statement, parameters)
            self._note(reads=self._at in _LOCKING, newest=locks)
            return answer
        rows = self._shown_with(statement, tuple(parameters) or None)
        self._note(newest=False)
        found = [row[2:] for row in rows if row[1]]
        return Rows(found, len(found))

    def _shown_with(self, query: str, parameters: tuple[Any, ...] | None) -> list[tuple[Any, ...]]:
        """A query and what its own snapshot shows: that comes first in each row, then whether there is a row at all."""
        text = (
            f"SELECT s.shown, q.* FROM (SELECT GROUP_CONCAT(c, ':', n) AS shown FROM {self.marks}) s "
            f"LEFT JOIN (SELECT 1 AS there, r.* FROM ({query}) r) q ON TRUE"
        )
        rows = list(self._run(text, parameters).fetchall())
        told = (one.split(":") for one in str(rows[0][0] or "").split(",") if one)
        self._shown = tuple((int(number), int(sent)) for number, sent in told)
        return rows


class MariadbRecovery:
    only_last = False

    def __init__(self, database: MariadbDatabase, scope: Scope, offers: Sequence[Offer]) -> None:
        self._database = database
        self._marks = f"{min(scope.tables)}_seen" if any(offer.name in (_EACH, _SNAPSHOT) for offer in offers) else ""
        self._address = database.first_address
        self._program = _program()
        self._connections = itertools.count(1)
        with closing(database.administrator()) as session, patiently(session):
            self._tables = {
                name: Columns(followed.name, tuple(_place(session, name, column) for column in followed.key))
                for name, followed in scope.tables.items()
            }
            for variable, wanted, remedy in _NEEDED:
                if _one(session, f"SELECT @@global.{variable}") != wanted:
                    raise DatabaseUnavailable(f"the server cannot tell its order: {remedy}")
            try:
                (place, *_) = session.execute("SHOW MASTER STATUS").rows or [("", 0)]
            except StatementFailed as error:
                raise DatabaseUnavailable(
                    f"the binary log's place is not told: {error.reason}; GRANT BINLOG MONITOR, REPLICATION SLAVE ON *.*"
                ) from None
            self._file, self._position = str(place[0]), int(place[1])
            if self._marks:
                session.execute(f"CREATE TABLE {self._marks} (c INTEGER PRIMARY KEY, n BIGINT NOT NULL) ENGINE=InnoDB")

    def connect(self, table: Table) -> ListeningMariadb:
        connection = self._database.connect_as(ListeningMariadb, table)
        connection.number, connection.marks = next(self._connections), self._marks
        if self._marks:
            connection.execute(f"INSERT INTO {self._marks} VALUES ({connection.number}, 0)")
            connection.execute("SET SESSION group_concat_max_len = 1000000")
        return connection

    def recover(self, accounts: Sequence[Account]) -> Certificate:
        assert self._address.database is not None
        reader = Reader(self._tables, self._address.database, self._file)
        with self._log() as lines:
            groups = list(reader.groups(lines))
        return certificate_of(f"{self._database.version()}, binary log by rows", groups, accounts)

    @contextmanager
    def _log(self) -> Iterator[Iterator[bytes]]:
        """The lines of the log since the run began. The password goes into a file that nobody else can read."""
        address = self._address
        with tempfile.TemporaryDirectory(prefix="isolde-binlog-") as directory:
            settings = Path(directory) / "client.cnf"
            settings.touch(mode=0o600)
            settings.write_text(_settings(address))
            command = [self._program, f"--defaults-file={settings}", "--read-from-remote-server", "--verbose"]
            command += [
                "--base64-output=decode-rows",
                f"--start-position={self._position}",
                "--to-last-log",
                self._file,
            ]
            output = Path(directory) / "log"
            with output.open("wb") as file:
                try:
                    ended = subprocess.run(
                        command, stdout=file, stderr=subprocess.PIPE, check=False, timeout=_PROGRAM_S
                    )
                except (OSError, subprocess.TimeoutExpired) as error:
                    raise DatabaseUnavailable(f"the binary log cannot be read with {self._program}: {error}") from None
            if ended.returncode:
                reason = " ".join(ended.stderr.decode(errors="replace").split())
                raise DatabaseUnavailable(
                    f"the binary log cannot be read with {self._program}: {reason}; GRANT REPLICATION SLAVE ON *.*"
                )
            with output.open("rb") as lines:
                yield iter(lines)

    def close(self) -> None:
        if self._marks:
            with suppress(OutsideError), closing(self._database.administrator()) as session, patiently(session):
                session.execute(f"DROP TABLE IF EXISTS {self._marks}")


def _settings(address: Address) -> str:
    lines = ["[client]", f"user={_quoted(address.user or 'root')}"]
    if address.password:
        lines.append(f"password={_quoted(address.password)}")
    if "unix_socket" in address.options:
        lines.append(f"socket={_quoted(address.options['unix_socket'])}")
    else:
        lines += [f"host={_quoted(address.host or '127.0.0.1')}", f"port={address.port or 3306}", "protocol=tcp"]
    for name in ("ca", "cert", "key"):
        if f"ssl_{name}" in address.options:
            lines.append(f"ssl-{name}={_quoted(address.options[f'ssl_{name}'])}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    if "\n" in text:
        raise UsageError("a user's name or password with a line break cannot be given to mariadb-binlog")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _program() -> str:
    for name in _PROGRAMS:
        found = shutil.which(name)
        if found is not None:
            return found
    raise DatabaseUnavailable("the binary log is read with mariadb-binlog, which was not found; install mariadb-client")


def _place(session: MariadbConnection, table: str, column: str) -> int:
    question = (
        "SELECT ordinal_position FROM information_schema.columns WHERE table_schema = DATABASE()"
        " AND table_name = %s AND column_name = %s"
    )
    rows = session.execute(question, (table, column)).rows
    if not rows:
        raise DatabaseUnavailable(f"the table {table} has no column {column}")
    return int(rows[0][0])


def _one(session: MariadbConnection, query: str) -> object:
    try:
        rows = session.execute(query).rows
    except StatementFailed:
        return None
    return rows[0][0] if rows else None


def certificate_of(source: str, groups: Sequence[Group], accounts: Sequence[Account]) -> Certificate:
    """Puts together what the log says and what the transactions heard."""
    tags = {
        tag: (account, place)
        for account in accounts
        for place, heard in account.operations
        if isinstance(heard, Heard)
        for tag in heard.tags
    }
    orders: dict[ObjectId, list[VersionId | None]] = defaultdict(lambda: [None])
    order = _Order()
    for group in groups:
        for tag, things in group.written:
            if tag not in tags:
                raise DatabaseUnavailable(f"the log has a statement {tag} that no transaction of this run accounts for")
            account, place = tags[tag]
            for thing in things:
                if orders[thing][-1] != (account.transaction, place):
                    orders[thing].append((account.transaction, place))
        first = group.written[0][0]
        order.add(tags[first][0].transaction, first, group.number)
    reads: dict[VersionId, VersionSet] = {}
    for account in accounts:
        if account.ended is Ended.COMMITTED or account.transaction in order.place:
            reads.update(order.reads(account))
    objects = {thing: Installed(tuple(versions)) for thing, versions in orders.items()}
    return Certificate(source, objects, tuple(order.commits), reads, order.serial(accounts))


class _Order:
    """The commits in the order of the log: their numbers there, and the places of those of each connection."""

    def __init__(self) -> None:
        self.commits: list[str] = []
        self.place: dict[str, int] = {}
        self._numbers: list[int] = []
        self._sent: dict[int, list[int]] = defaultdict(list)
        self._places: dict[int, list[int]] = defaultdict(list)

    def add(self, transaction: str, tag: Tag, number: int) -> None:
        """The next transaction of the log; the tag is of one of its statements."""
        connection, sent = tag
        self.place[transaction] = len(self.commits)
        self._sent[connection].append(sent)
        self._places[connection].append(len(self.commits))
        self._numbers.append(number)
        self.commits.append(transaction)

    def reads(self, account: Account) -> Iterator[tuple[VersionId, VersionSet]]:
        """The version sets of the transaction's statements that read."""
        for place, heard in account.operations:
            if not isinstance(heard, Heard):
                continue
            sees = self._shown(heard.shown) if heard.shown is not None else None
            if heard.newest and (until := self._until(account)) is not None:
                sees = Sees(until)
            if sees is not None:
                yield (account.transaction, place), VersionSet(sees)

    def _shown(self, shown: tuple[Tag, ...]) -> Sees:
        """The transactions of each connection up to a statement of it, as a number of commits and the few besides."""
        counts = {connection: bisect_right(self._sent[connection], sent) for connection, sent in shown}
        hidden = [
            places[counts.get(connection, 0)]
            for connection, places in self._places.items()
            if counts.get(connection, 0) < len(places)
        ]
        first = min(hidden, default=len(self.commits))
        also = [
            place
            for connection, count in counts.items()
            for place in takewhile(lambda place: place >= first, reversed(self._places[connection][:count]))
        ]
        return Sees(first, (), tuple(self.commits[place] for place in sorted(also)))

    def _until(self, account: Account) -> int | None:
        """How many commits there were before the transaction's own, or before its end if it wrote nothing."""
        if account.transaction in self.place:
            return self.place[account.transaction]
        log = account.commit.log if isinstance(account.commit, Heard) else None
        return None if log is None else bisect_right(self._numbers, log)

    def serial(self, accounts: Sequence[Account]) -> tuple[str, ...] | None:
        """The order of commits, where every transaction locks what it sees; ``None`` if one does not."""
        placed = []
        for account in accounts:
            if account.ended is not Ended.COMMITTED and account.transaction not in self.place:
                continue
            locks = all(heard.newest or heard.tags for _, heard in account.operations if isinstance(heard, Heard))
            until = self._until(account)
            if until is None or not locks:
                return None
            placed.append((until, account.transaction in self.place, account.begun, account.transaction))
        return tuple(name for _, _, _, name in sorted(placed))


def begin_recovery(database: Database, scope: Scope, offers: tuple[Offer, ...]) -> MariadbRecovery:
    """Begins to listen to one MariaDB at whatever level."""
    assert isinstance(database, MariadbDatabase)
    if "MariaDB" not in database.version():
        raise UsageError(f"{database.version()} was not tried: the order is told by MariaDB's log and snapshots")
    if database.nodes > 1 or database.clustered:
        raise UsageError("the order is told by the log of one server; of a Galera cluster each node has its own")
    for name, followed in scope.tables.items():
        if not followed.key:
            raise DatabaseUnavailable(f"the table {followed.name or name} has no primary key to tell its rows apart by")
    return MariadbRecovery(database, scope, offers)
