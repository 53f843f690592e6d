"""TiDB's order: every version of a row carries the timestamps of its transaction, and every statement reads at a timestamp.

The status port tells all versions of a row with ``start_ts`` and ``commit_ts`` (``/mvcc/key/…``), one row a request. A
transaction is known by its ``start_ts``, which it is asked for when it begins: so it is found again although its client never
heard of its commit. What a statement sees are the versions that were committed up to its own timestamp:

- an optimistic transaction reads everything at ``start_ts``; so do the plain queries of a pessimistic one at REPEATABLE READ;
- changes and locking queries of a pessimistic transaction read at ``for_update_ts``, and at READ COMMITTED plain queries do, too.
  ``tidb_last_query_info`` tells it after each of them.

Of the versions that one transaction makes of a row only the last is kept. Which statement made it is known by the keys that
statements name, or because no other statement can have made it; otherwise what a statement found is asked for once more, at its
own timestamp.
"""

from __future__ import annotations

import http.client
import json
import re
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from isolde.databases.contract import Database, Offer, Rows, Swap, Table
from isolde.databases.mariadb import MariadbConnection, MariadbDatabase
from isolde.databases.recovery import Account, Ended, Lookup, Scope
from isolde.databases.waiting import patiently
from isolde.errors import DatabaseUnavailable, OutsideError, StatementFailed
from isolde.history.certificate import Certificate, Installed, ObjectId, RowId, Sees, VersionId, VersionSet

_CURRENT = re.compile(r"\bFOR (?:UPDATE|SHARE)\b", re.IGNORECASE)
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.|'')*'""")
_ANSWER_S = 30.0
_LOCKED_S = 10.0
# Kinds of entries among the versions: put, delete, insert. Others (locks, what was rolled back) are none.
_DELETED = 1
_VERSIONS = (0, _DELETED, 4)
# A timestamp is milliseconds, and a number of 18 bits within one.
_MILLISECOND_BITS = 18


@dataclass(frozen=True, slots=True)
class Heard:
    """Of an operation: when its transaction began, and the timestamp that it read at, if it read.

    ``changes``: it wrote, to the rows with these ``keys``; where they are ``None``, to whatever ``lookup`` finds. ``deletes`` and
    ``inserts`` say how.
    """

    start: int
    at: int | None = None
    changes: bool = False
    keys: tuple[ObjectId, ...] | None = None
    lookup: Lookup | None = None
    deletes: bool = False
    inserts: bool = False


@dataclass(frozen=True, slots=True)
class Stored:
    """A version as the store keeps it."""

    start: int
    commit: int


def for_update_ts(info: object) -> int:
    """The timestamp that the last statement locked and read at, from ``tidb_last_query_info``.

    >>> for_update_ts('{"txn_scope":"global","start_ts":7,"for_update_ts":9}')
    9
    """
    return int(json.loads(str(info))["for_update_ts"])


class ListeningTidb(MariadbConnection):
    """Hears the timestamps. ``optimistic``: the mode of its transactions."""

    optimistic = False

    def __init__(self, driver: Any, connection: Any, table: Table) -> None:
        super().__init__(driver, connection, table)
        self._heard: Heard | None = None
        self._start = 0
        self._each = False

    def heard(self) -> Heard | None:
        heard, self._heard = self._heard, None
        return heard

    def begin(self, offer: Offer) -> None:
        self._heard = None
        super().begin(offer)
        self._start = int(self._run("SELECT @@tidb_current_ts", None).fetchone()[0])
        self._each = offer.name == "read-committed"

    def commit(self) -> None:
        super().commit()
        self._heard = None

    def _read_at(self, *, newest: bool) -> int:
        if self.optimistic or not (newest or self._each):
            return self._start
        return for_update_ts(self._run("SELECT @@tidb_last_query_info", None).fetchone()[0])

    # Keys

    def read(self, key: int) -> bytes:
        found = super().read(key)
        self._heard = Heard(self._start, self._read_at(newest=False))
        return found

    def write(self, key: int, value: int) -> None:
        super().write(key, value)
        self._heard = Heard(self._start, None, True, (key,))

    def insert(self, key: int, value: int) -> None:
        super().insert(key, value)
        self._heard = Heard(self._start, None, True, (key,))

    def delete(self, key: int) -> bool:
        found = super().delete(key)
        # One that finds nothing is no operation.
        self._heard = Heard(self._start, None, True, (key,), deletes=True) if found else None
        return found

    def append(self, key: int, element: int) -> None:
        super().append(key, element)
        self._heard = Heard(self._start, None, True, (key,))

    def compare_and_set(self, key: int, expected: int | None, new: int) -> Swap:
        if expected is None:
            # A read and an insert, each heard as what it is.
            return self._insert_if_absent(key, new)
        swap = super().compare_and_set(key, expected, new)
        self._heard = Heard(self._start, self._read_at(newest=True), swap.applied, (key,))
        return swap

    # SQL

    def execute_found(self, statement: str, parameters: Sequence[Any], lookup: Lookup | None) -> Rows:
        answer = self.execute(statement, parameters)
        plain = _QUOTED.sub("''", statement).lstrip().upper()
        changes = not plain.startswith("SELECT")
        at = self._read_at(newest=changes or _CURRENT.search(plain) is not None)
        keys = None
        if lookup is not None and lookup.keys is not None:
            keys = tuple(RowId(lookup.table, key) for key in lookup.keys)
        changes &= answer.count != 0
        deletes, inserts = plain.startswith("DELETE"), plain.startswith(("INSERT", "REPLACE"))
        self._heard = Heard(self._start, at, changes, keys, lookup, deletes, inserts)
        return answer


class TidbRecovery:
    only_last = True

    def __init__(self, database: MariadbDatabase, scope: Scope) -> None:
        self._database, self._scope = database, scope
        address = database.first_address
        assert address.database is not None
        with closing(database.administrator()) as session, patiently(session):
            self._optimistic = _one(session, "SELECT @@tidb_txn_mode") != "pessimistic"
            for name, followed in scope.tables.items():
                _refuse_hidden_keys(session, name, followed.name or name)
            port = address.options.get("status_port") or _one(
                session, "SELECT status_port FROM information_schema.tidb_servers_info WHERE port = @@port LIMIT 1"
            )
            self._status = Status(address.host or "127.0.0.1", int(str(port or 10080)), address.database)
            with closing(self._status.connection()) as connection:
                self._status.ask(connection, "/status")
            session.execute("BEGIN")
            self._since = int(str(_one(session, "SELECT @@tidb_current_ts")))
            session.execute("ROLLBACK")
            self._first = set(self._rows_now(session))

    def connect(self, table: Table) -> ListeningTidb:
        connection = self._database.connect_as(ListeningTidb, table)
        connection.optimistic = self._optimistic
        return connection

    def _rows_now(self, session: MariadbConnection) -> Iterator[ObjectId]:
        """The rows that there are; to read them also settles what commits have left to be done."""
        for name, followed in self._scope.tables.items():
            for row in session.execute(f"SELECT {', '.join(followed.key)} FROM {name}").rows or []:
                yield row[0] if followed.name is None else RowId(followed.name, tuple(row))

    def recover(self, accounts: Sequence[Account]) -> Certificate:
        try:
            with closing(self._database.administrator()) as session, patiently(session, 600.0):
                finds = Finds(session)
                rows = {*self._first, *self._rows_now(session)}
                stored = self._stored(session, changed_rows(accounts, rows))
                _refuse_collected(session, self._since)
                source = f"{self._database.version()}, timestamps of versions and statements"
                return certificate_of(source, stored, accounts, self._since, finds)
        except OutsideError as error:
            if isinstance(error, DatabaseUnavailable):
                raise
            raise DatabaseUnavailable(f"the versions could not be read: {error}") from None

    def _stored(self, session: MariadbConnection, things: Iterable[ObjectId]) -> dict[ObjectId, tuple[Stored, ...]]:
        """All versions of these rows."""
        private = {followed.name: (name, followed.key) for name, followed in self._scope.tables.items()}
        found: dict[ObjectId, tuple[Stored, ...]] = {}
        with closing(self._status.connection()) as connection:
            for thing in sorted(things, key=str):
                name, columns = private[thing.table if isinstance(thing, RowId) else None]
                key = thing.key if isinstance(thing, RowId) else (thing,)
                deadline = time.monotonic() + _LOCKED_S
                while True:
                    versions = versions_of(self._status.ask(connection, self._status.path(name, columns, key)))
                    if versions is not None:
                        break
                    if time.monotonic() > deadline:
                        raise DatabaseUnavailable(f"a row of {name} stays locked: {key}")
                    # A commit is told before all of its rows are settled; whoever reads them does so.
                    where = " AND ".join(f"{column} = %s" for column in columns)
                    session.execute(f"SELECT 1 FROM {name} WHERE {where}", key)
                found[thing] = versions
        return found

    def close(self) -> None:
        """Nothing was made on the server."""


@dataclass(frozen=True, slots=True)
class Status:
    """The port that tells versions, of one database."""

    host: str
    port: int
    database: str

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, self.port, timeout=_ANSWER_S)

    def path(self, table: str, columns: Sequence[str], key: Sequence[object]) -> str:
        """Where the versions of a row are told.

        >>> Status("h", 1, "test").path("t", ["a"], [7]), Status("h", 1, "test").path("t", ["a", "b"], [7, "x"])
        ('/mvcc/key/test/t/7', '/mvcc/key/test/t?a=7&b=x')
        """
        place = f"/mvcc/key/{quote(self.database)}/{quote(table)}"
        if len(key) == 1 and isinstance(key[0], int):
            return f"{place}/{key[0]}"
        return f"{place}?{urlencode(list(zip(columns, key, strict=True)))}"

    def ask(self, connection: http.client.HTTPConnection, path: str) -> bytes:
        try:
            connection.request("GET", path)
            reply = connection.getresponse()
            body = reply.read()
        except (OSError, http.client.HTTPException) as error:
            raise DatabaseUnavailable(
                f"the versions of rows are told at TiDB's status port, and {self.host}:{self.port} does not answer ({error}); "
                "start it with --status, or name the port in the URL: ?status_port=10080"
            ) from None
        if reply.status != http.client.OK:
            reason = body.decode(errors="replace").strip()
            raise DatabaseUnavailable(f"TiDB's status port refuses {path}: {reason}")
        return body


def versions_of(body: bytes) -> tuple[Stored, ...] | None:
    """The versions of one row, oldest first, as ``/mvcc/key`` tells them; ``None`` if its last one is not settled yet."""
    info = json.loads(body)["value"].get("info") or {}
    if "lock" in info:
        return None
    told = [entry for entry in info.get("writes", ()) if entry.get("type", 0) in _VERSIONS]
    return tuple(Stored(entry["start_ts"], entry["commit_ts"]) for entry in sorted(told, key=lambda e: e["commit_ts"]))


class Finds:
    """What a statement finds at a timestamp, without what its own transaction has changed before."""

    def __init__(self, session: MariadbConnection) -> None:
        self._session = session
        self._known: dict[tuple[str, tuple[object, ...], int], frozenset[ObjectId]] = {}

    def __call__(self, lookup: Lookup, at: int) -> frozenset[ObjectId]:
        asked = (lookup.text, tuple(lookup.parameters), at)
        if asked not in self._known:
            self._session.execute(f"SET @@tidb_snapshot = '{at}'")
            try:
                rows = self._session.execute(lookup.text, lookup.parameters).rows or []
            finally:
                self._session.execute("SET @@tidb_snapshot = ''")
            self._known[asked] = frozenset(RowId(lookup.table, tuple(row)) for row in rows)
        return self._known[asked]


Found = Callable[[Lookup, int], frozenset[ObjectId]]


def changed_rows(accounts: Sequence[Account], rows: Iterable[ObjectId]) -> set[ObjectId]:
    """The rows whose versions are asked for: what changes name, and of all rows that there were what others may have changed.

    ``rows`` are those at the begin and at the end. A row that came and went meanwhile is named by the insert that brought it.
    """
    changes = [
        heard
        for account in accounts
        if account.ended is not Ended.ABORTED
        for _, heard in _operations(account)
        if heard.changes
    ]
    named = {key for heard in changes if heard.keys is not None for key in heard.keys}
    vague = [heard for heard in changes if heard.keys is None]
    if any(heard.inserts for heard in vague) and any(heard.deletes for heard in changes):
        raise DatabaseUnavailable(
            "rows that a statement inserts without naming their keys may be gone again, and nobody tells which they were"
        )
    return named | {row for row in {*rows, *named} if any(_may_change(heard, row) for heard in vague)}


def _operations(account: Account) -> list[tuple[int, Heard]]:
    return [(place, heard) for place, heard in account.operations if isinstance(heard, Heard)]


def certificate_of(
    source: str, stored: Mapping[ObjectId, Sequence[Stored]], accounts: Sequence[Account], since: int, finds: Found
) -> Certificate:
    """Puts together the versions in the store and what the transactions heard; what is older than ``since`` is initial."""
    writers = {heard.start: account for account in accounts for _, heard in _operations(account)[:1]}
    made: dict[int, list[ObjectId]] = defaultdict(list)
    committed: dict[int, int] = {}
    for thing, versions in stored.items():
        for version in versions:
            if version.commit <= since:
                continue
            if version.start not in writers:
                raise DatabaseUnavailable(f"the transaction {version.start}, which is none of this run, wrote {thing}")
            made[version.start].append(thing)
            committed[version.start] = version.commit
    places = {start: _places(writers[start], things, finds) for start, things in made.items()}
    undone = _undone(accounts, made)
    objects: dict[ObjectId, Installed] = {}
    for thing, versions in stored.items():
        ours = [version.start for version in versions if version.commit > since]
        told = tuple((writers[start].transaction, places[start][thing]) for start in ours)
        if told or thing in undone:
            objects[thing] = Installed((None, *told), partial=thing in undone)
    order = sorted(committed, key=lambda start: committed[start])
    timestamps = [committed[start] for start in order]
    reads: dict[VersionId, VersionSet] = {}
    for account in accounts:
        operations = _operations(account)
        if account.ended is not Ended.COMMITTED and not (operations and operations[0][1].start in committed):
            continue
        for place, heard in operations:
            if heard.at is not None:
                reads[account.transaction, place] = VersionSet(Sees(bisect_right(timestamps, heard.at)))
    return Certificate(source, objects, tuple(writers[start].transaction for start in order), reads)


def _undone(accounts: Sequence[Account], made: Mapping[int, Sequence[ObjectId]]) -> set[ObjectId]:
    """Rows that a transaction brought and removed again: of that the store keeps nothing, so that its place is not told."""
    found: set[ObjectId] = set()
    for account in accounts:
        operations = _operations(account)
        if account.ended is not Ended.COMMITTED or not operations:
            continue
        last = {key: heard for _, heard in operations if heard.changes and heard.keys is not None for key in heard.keys}
        kept = {*made.get(operations[0][1].start, ())}
        found |= {key for key, heard in last.items() if heard.deletes and key not in kept}
    return found


def _places(account: Account, things: Sequence[ObjectId], finds: Found) -> dict[ObjectId, int]:
    """Of each row that the transaction wrote, the operation that did so last."""
    changes = [(place, heard) for place, heard in _operations(account) if heard.changes]
    return {thing: _last(account, changes, thing, finds) for thing in things}


def _last(account: Account, changes: Sequence[tuple[int, Heard]], thing: ObjectId, finds: Found) -> int:
    possible = [(place, heard) for place, heard in changes if _may_change(heard, thing)]
    if len(possible) == 1:
        return possible[0][0]
    while possible:
        place, heard = possible.pop()
        if heard.keys is not None:
            return place
        # What the transaction itself made of the row before, no other can be asked about.
        if any(before.keys is not None for _, before in possible) or heard.lookup is None or heard.at is None:
            break
        if thing in finds(heard.lookup, heard.at):
            return place
    raise DatabaseUnavailable(
        f"which statement of the transaction {account.transaction} wrote {thing} last is not told: TiDB keeps only the last "
        "version, and several statements by conditions may have made it"
    )


def _may_change(heard: Heard, thing: ObjectId) -> bool:
    if heard.keys is not None:
        return thing in heard.keys
    if heard.lookup is None or not isinstance(thing, RowId):
        return True
    return heard.lookup.table == thing.table and all(thing.key[place] == part for place, part in heard.lookup.partly)


def _refuse_hidden_keys(session: MariadbConnection, table: str, called: str) -> None:
    """Rows are asked for by their primary keys, which has to be what they are stored by."""
    question = (
        "SELECT tidb_pk_type FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = %s LIMIT 1"
    )
    rows = session.execute(question, (table,)).rows
    if not rows or str(rows[0][0]).upper() != "CLUSTERED":
        raise DatabaseUnavailable(
            f"the rows of {called} are not stored by a primary key, so that their versions are not told: "
            "SET GLOBAL tidb_enable_clustered_index = ON"
        )


def _refuse_collected(session: MariadbConnection, since: int) -> None:
    """Old versions are removed after a while; then the order is not whole."""
    try:
        until = _one(
            session, "SELECT variable_value FROM mysql.tidb WHERE variable_name = 'tikv_gc_safe_point' LIMIT 1"
        )
    except StatementFailed:
        return
    if not until:
        return
    moment = datetime.strptime(str(until)[:23].split(".")[0][:17] + str(until)[-6:], "%Y%m%d-%H:%M:%S %z")
    if moment.timestamp() * 1000 > since >> _MILLISECOND_BITS:
        raise DatabaseUnavailable(
            "versions of the run were removed meanwhile: SET GLOBAL tidb_gc_life_time = '24h', and run it again"
        )


def _one(session: MariadbConnection, query: str) -> object:
    rows = session.execute(query).rows
    return rows[0][0] if rows else None


def begin_recovery(database: Database, scope: Scope, offers: tuple[Offer, ...]) -> TidbRecovery:
    """Begins to listen to a TiDB at whatever level."""
    del offers
    assert isinstance(database, MariadbDatabase)
    for name, followed in scope.tables.items():
        if not followed.key:
            raise DatabaseUnavailable(f"the table {followed.name or name} has no primary key to tell its rows apart by")
    return TidbRecovery(database, scope)
