"""PostgreSQL's order: logical decoding tells the versions, each statement's own snapshot tells what it could see.

Every statement is sent inside of one that also returns ``pg_current_snapshot()`` and, of a change, the transaction's id and how
many rows it wrote. The log (``test_decoding``, which comes with the server) gives the rows that committed transactions wrote, in
order; the numbers of rows say which operation wrote which. Sub-transactions need nothing of their own: the log and snapshots
name the whole transaction. Rows that no statement accounts for (of triggers, cascades, undone savepoints) are refused.

At READ COMMITTED a change or a locking read that waited for another transaction looks at the row again, in its newest version.
The rows that it found in its snapshot are asked for in the same statement. A row that it looked at again stays locked until the
transaction ends, so that its version is the newest one in a snapshot taken right before COMMIT; of a row that it wrote, it is the
version before.

An insert meets the newest rows of its keys at every level. One over a row that another transaction deleted after the snapshot was
taken inserts a new row: what it met is the delete.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from secrets import token_hex

from isolde.databases.contract import Database, Kind, Offer, Table
from isolde.databases.postgresql import PostgresqlConnection, PostgresqlDatabase
from isolde.databases.recoveries.decoding import Committed, Decoder, Written, widened
from isolde.databases.recoveries.listening_postgresql import Heard, ListeningPostgresql
from isolde.databases.recoveries.snapshots import Commits, Snapshot
from isolde.databases.recovery import Account, Ended, Scope
from isolde.databases.waiting import STATEMENT_S, patiently
from isolde.errors import Aborted, ConnectionLost, DatabaseUnavailable, OutsideError, StatementFailed, UsageError
from isolde.history.certificate import Certificate, Installed, ObjectId, Sees, VersionId, VersionSet

_PLUG_IN = "test_decoding"
_CHUNK = 20_000
_EVERY_S = 1.0
_DRAIN_S = 600.0
# https://www.postgresql.org/docs/current/errcodes-appendix.html
_REMEDIES = (
    ("permission denied", "the user needs the right to replicate: ALTER ROLE … REPLICATION"),
    ("must be superuser or replication role", "the user needs the right to replicate: ALTER ROLE … REPLICATION"),
    ("all replication slots are in use", "raise max_replication_slots, or drop a slot that nobody reads"),
    ("max_replication_slots", "set max_replication_slots to at least 1 and restart the server"),
    ("could not access file", "install the plug-in test_decoding (Debian: it is in the package postgresql)"),
)


class PostgresqlRecovery:
    """Reads the log from a temporary slot, which ends with its connection, whatever becomes of us.

    Where the server itself is killed, the slot has to outlive that, and is read when everything is over: such a server is one
    that was started for the run, and goes with it.
    """

    only_last = False

    def __init__(self, database: PostgresqlDatabase, scope: Scope) -> None:
        self._database, self._scope = database, scope
        self._session = database.connect_as(PostgresqlConnection, Table("", Kind.REGISTERS, 0))
        self._slot = f"isolde_{token_hex(6)}"
        self._committed: list[Committed] = []
        self._decoder = Decoder(scope.tables)
        self._over = threading.Event()
        self._reading = threading.Lock()
        self._failure: Exception | None = None
        try:
            self._make_slot()
        except BaseException:
            self._session.close()
            raise
        self._reader = threading.Thread(target=self._follow, daemon=True)
        if not scope.faults:
            self._reader.start()

    def _make_slot(self) -> None:
        with patiently(self._session, STATEMENT_S, "; does somebody else keep a transaction open?"):
            level = self._one("SHOW wal_level")
            if level != "logical":
                raise DatabaseUnavailable(
                    f"the server writes too little into its log to tell its order (wal_level is {level}): "
                    "ALTER SYSTEM SET wal_level = logical, and restart it"
                )
            try:
                self._session.execute("SET synchronous_commit = on")
                kind = "false" if self._scope.faults else "true"
                self._session.execute(
                    f"SELECT pg_create_logical_replication_slot('{self._slot}', '{_PLUG_IN}', {kind})"
                )
            except (StatementFailed, Aborted) as error:
                raise DatabaseUnavailable(f"no replication slot can be made: {error.reason}{_remedy(error)}") from None

    def connect(self, table: Table) -> ListeningPostgresql:
        return self._database.connect_as(ListeningPostgresql, table)

    def _follow(self) -> None:
        """Reads what there is in the log, now and then: the server keeps the log for as long as nobody has read it."""
        while not self._over.wait(_EVERY_S):
            try:
                with self._reading:
                    self._drain()
            except (OutsideError, OSError) as error:
                self._failure = error
                return

    def _drain(self) -> None:
        question = (
            f"SELECT data FROM pg_logical_slot_get_changes('{self._slot}', NULL, {_CHUNK},"
            " 'include-xids', '1', 'skip-empty-xacts', '1')"
        )
        while True:
            rows = self._session.execute(question).rows or []
            self._committed += self._decoder.transactions([row[0] for row in rows])
            if not rows:
                return

    def recover(self, accounts: Sequence[Account]) -> Certificate:
        if self._scope.faults:
            # The connection is of before the faults.
            self._session.close()
            self._session = self._database.connect_as(PostgresqlConnection, Table("", Kind.REGISTERS, 0))
        try:
            with self._reading, patiently(self._session, _DRAIN_S):
                if self._failure is not None:
                    raise DatabaseUnavailable(f"the server's log could not be read: {self._failure}")
                # What was committed without waiting for the disk (synchronous_commit = off) is not read before it is there.
                self._one("SELECT pg_logical_emit_message(true, 'isolde', '')")
                self._drain()
                now = int(str(self._one("SELECT pg_current_xact_id()::text")))
        except (StatementFailed, Aborted, ConnectionLost) as error:
            raise DatabaseUnavailable(f"the server's log could not be read: {error.reason}") from None
        committed = [(widened(one.xid, now), one) for one in self._committed]
        source = f"{self._database.version().lower()}, logical decoding and statement snapshots"
        return certificate_of(source, committed, accounts)

    def _one(self, query: str) -> object:
        rows = self._session.execute(query).rows
        return rows[0][0] if rows else None

    def close(self) -> None:
        self._over.set()
        # Between two looks at the log the reader ends at once; one that waits for the server is broken off, and so ends the slot.
        if self._reader.is_alive():
            self._reader.join(_EVERY_S)
        if self._reader.is_alive():
            self._session.abandon()
            self._reader.join(STATEMENT_S)
        else:
            with suppress(OutsideError), patiently(self._session):
                self._session.execute(f"SELECT pg_drop_replication_slot('{self._slot}')")
        self._session.close()


def _remedy(error: OutsideError) -> str:
    reason = str(error)
    return next((f"; {remedy}" for words, remedy in _REMEDIES if words in reason), "")


def certificate_of(source: str, committed: Sequence[tuple[int, Committed]], accounts: Sequence[Account]) -> Certificate:
    """Puts together what the log says, in its order with ids of 64 bits, and what the transactions heard."""
    writers = _writers(accounts)
    order = _Order([(xid, _writer(xid, writers)) for xid, _ in committed])
    for xid, one in committed:
        order.add(writers[xid], one)
    reads: dict[VersionId, VersionSet] = {}
    for account in accounts:
        if account.ended is Ended.COMMITTED or account.transaction in order.written:
            reads.update(order.reads(account))
    objects = {thing: Installed(tuple(versions)) for thing, versions in order.versions.items()}
    return Certificate(source, objects, order.commits.names, reads)


def _writers(accounts: Sequence[Account]) -> dict[int, Account]:
    """Whose id is which. A killed server may give an id anew if its transaction left no trace; that was not committed."""
    found: dict[int, Account] = {}
    for account in accounts:
        xid = _xid(account)
        if xid is None or account.ended is Ended.ABORTED:
            continue
        other = found.get(xid)
        if other is not None and other.ended is account.ended:
            raise DatabaseUnavailable(
                f"the transactions {other.transaction} and {account.transaction} have the same id {xid}"
            )
        if other is None or account.ended is Ended.COMMITTED:
            found[xid] = account
    return found


def _writer(xid: int, writers: Mapping[int, Account]) -> str:
    if xid not in writers:
        raise DatabaseUnavailable(f"the transaction {xid}, which is none of this run, wrote to its tables")
    return writers[xid].transaction


def _xid(account: Account) -> int | None:
    return next((heard.xid for _, heard in account.operations if isinstance(heard, Heard) and heard.xid), None)


def _by_operation(account: Account, committed: Committed) -> list[tuple[int, tuple[Written, ...]]]:
    """The rows that each operation wrote: so many rows of the log, in order, as it says that it changed."""
    counted = [(place, heard.changed) for place, heard in account.operations if isinstance(heard, Heard)]
    if sum(changed for _, changed in counted) != len(committed.written):
        raise DatabaseUnavailable(
            f"the log has {len(committed.written)} rows of the transaction {account.transaction}, and its statements changed "
            f"{sum(changed for _, changed in counted)}: triggers, cascades and undone savepoints cannot be told apart"
        )
    rows = iter(committed.written)
    return [(place, tuple(islice(rows, changed))) for place, changed in counted]


class _Order:
    """The commits and the order of each object, and what snapshots show of them."""

    def __init__(self, commits: Sequence[tuple[int, str]]) -> None:
        self.commits = Commits(commits)
        self.versions: dict[ObjectId, list[VersionId | None]] = defaultdict(lambda: [None])
        self.written: dict[str, list[tuple[int, tuple[Written, ...]]]] = {}
        # Of each version of an object, the place of its commit; and which versions are dead, or went on as another object.
        self._places: dict[ObjectId, list[int]] = defaultdict(lambda: [-1])
        self._dead: set[tuple[ObjectId, VersionId]] = set()
        self._moved: set[ObjectId] = set()
        self._sees: dict[tuple[bytes, int | None], Sees] = {}

    def add(self, account: Account, committed: Committed) -> None:
        """The next transaction in the order of commits."""
        name, at = account.transaction, len(self.written)
        self.written[name] = _by_operation(account, committed)
        for place, rows in self.written[name]:
            for row in rows:
                for thing in (row.thing,) if row.moved_from is None else (row.moved_from, row.thing):
                    self.versions[thing].append((name, place))
                    self._places[thing].append(at)
                if row.dead:
                    self._dead.add((row.thing, (name, place)))
                if row.moved_from is not None:
                    self._moved.add(row.moved_from)

    def reads(self, account: Account) -> Iterator[tuple[VersionId, VersionSet]]:
        """The version sets of the transaction's statements that read."""
        own = _xid(account)
        for place, heard in account.operations:
            if not isinstance(heard, Heard) or not heard.reads:
                continue
            sees = self._seen(heard.snapshot, own)
            again: dict[ObjectId, VersionId | None] | None = {}
            if heard.looks_again and (heard.found is None or not isinstance(account.commit, Heard)):
                # Which rows it looked at again nobody said.
                continue
            if heard.looks_again or heard.inserts:
                last = account.commit.snapshot if isinstance(account.commit, Heard) else heard.snapshot
                again = self._looked_at_again(account, place, heard, self._seen(last, own))
            if again is None:
                continue
            yield (account.transaction, place), VersionSet(sees, again or None)

    def _seen(self, text: bytes, own: int | None) -> Sees:
        if (text, own) not in self._sees:
            self._sees[text, own] = self.commits.sees(Snapshot.of(text.decode()), own)
        return self._sees[text, own]

    def _looked_at_again(
        self, account: Account, place: int, heard: Heard, at_the_end: Sees
    ) -> dict[ObjectId, VersionId | None] | None:
        """The rows whose version is not the one that the statement's snapshot shows; ``None`` if nobody can say."""
        own = self.written.get(account.transaction, [])
        before = {row.thing for at, rows in own if at < place for row in rows}
        written = {row.thing for at, rows in own if at == place for row in rows}
        found = set(heard.found or ())
        if self._moved & (written | found):
            return None
        in_snapshot = self._seen(heard.snapshot, _xid(account))
        changed: dict[ObjectId, VersionId | None] = {}
        for thing in (written | found) - before:
            shown = self._last(thing, in_snapshot)
            if thing in written:
                # What it looked at is what it wrote over: nobody else could write in between.
                last = bisect_left(self._places[thing], self.commits.place_of[account.transaction]) - 1
            else:
                last = self._last(thing, at_the_end)
            if last == shown:
                continue
            versions = self.versions[thing]
            newer = versions[shown + 1 : last + 1]
            # A row that was deleted meanwhile is not locked: another one of its key may have come after it.
            ended = None if thing in written else next((v for v in newer if (thing, v) in self._dead), None)
            changed[thing] = ended or versions[last]
        return changed

    def _last(self, thing: ObjectId, sees: Sees) -> int:
        """Which version of the object is the last that is seen; 0 is the initial one."""
        if thing not in self.versions:
            return 0
        versions = self.versions[thing]
        last = bisect_left(self._places[thing], sees.first) if not sees.also else len(versions)
        for place in range(last - 1, 0, -1):
            version = versions[place]
            if version is not None and self._is_seen(str(version[0]), sees):
                return place
        return 0

    def _is_seen(self, name: str, sees: Sees) -> bool:
        return name in sees.also or (self.commits.place_of[name] < sees.first and name not in sees.without)


def begin_recovery(database: Database, scope: Scope, offers: tuple[Offer, ...]) -> PostgresqlRecovery:
    """Begins to listen to a PostgreSQL at whatever level."""
    del offers
    assert isinstance(database, PostgresqlDatabase)
    if not database.version().startswith("PostgreSQL "):
        raise UsageError(f"{database.version()} was not tried: the order is told by PostgreSQL's own log and snapshots")
    for name, followed in scope.tables.items():
        if not followed.key:
            raise DatabaseUnavailable(f"the table {followed.name or name} has no primary key to tell its rows apart by")
    return PostgresqlRecovery(database, scope)
