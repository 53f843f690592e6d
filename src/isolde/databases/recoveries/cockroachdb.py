"""CockroachDB's order at SERIALIZABLE: the timestamp at which a transaction commits is its place in the order.

Not tested against a live server; after the documentation:

- ``cluster_logical_timestamp()`` inside of a transaction is the timestamp of its commit, which that fixes: asked right before
  COMMIT. Everything that the transaction read is as of then. Below SERIALIZABLE it is an error.
- A changefeed with ``mvcc_timestamp`` tells all versions of rows since a moment, each with its timestamp, at least once and in no
  order beyond that; with ``end_time`` it ends by itself.

A transaction whose client never heard of its commit is known by what it wrote.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from isolde.databases.contract import Database, Kind, Offer, Swap, Table
from isolde.databases.postgresql import PostgresqlConnection, PostgresqlDatabase
from isolde.databases.recovery import Account, Ended, Scope
from isolde.databases.waiting import patiently
from isolde.errors import Aborted, ConnectionLost, DatabaseUnavailable, StatementFailed, UsageError
from isolde.history.certificate import Certificate, Installed, ObjectId, Sees, VersionId, VersionSet
from isolde.levels import Level

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn

_NOW = "SELECT cluster_logical_timestamp()"
_FEED_S = 600.0
# A feed ends at a moment to come.
_SOON = Decimal(2_000_000_000)
_NO_TABLE = Table("", Kind.REGISTERS, 0)


@dataclass(frozen=True, slots=True)
class Heard:
    """Of an operation: the ``key`` that it wrote, if it wrote, and what it ``left``, or whether it ``reads``.

    Of a commit: its timestamp.
    """

    key: int | None = None
    left: object = None
    reads: bool = False
    at: Decimal | None = None


class ListeningCockroachdb(PostgresqlConnection):
    """Hears the timestamp of each commit."""

    def __init__(self, connection: PGconn, refused: type[Exception], table: Table) -> None:
        super().__init__(connection, refused, table)
        self._heard: Heard | None = None

    def heard(self) -> Heard | None:
        heard, self._heard = self._heard, None
        return heard

    def begin(self, offer: Offer) -> None:
        self._heard = None
        super().begin(offer)

    def read(self, key: int) -> bytes:
        found = super().read(key)
        self._heard = Heard(reads=True)
        return found

    def write(self, key: int, value: int) -> None:
        super().write(key, value)
        self._heard = Heard(key, value)

    def insert(self, key: int, value: int) -> None:
        super().insert(key, value)
        self._heard = Heard(key, value)

    def delete(self, key: int) -> bool:
        found = super().delete(key)
        self._heard = Heard(key) if found else None
        return found

    def append(self, key: int, element: int) -> None:
        super().append(key, element)
        self._heard = Heard(key, f",{element}")

    def compare_and_set(self, key: int, expected: int | None, new: int) -> Swap:
        if expected is None:
            # A read and an insert, each heard as what it is.
            return self._insert_if_absent(key, new)
        swap = super().compare_and_set(key, expected, new)
        self._heard = Heard(key, new, reads=True) if swap.applied else Heard(reads=True)
        return swap

    def commit(self) -> None:
        rows = self.execute(_NOW).rows or [("0",)]
        super().commit()
        self._heard = Heard(at=Decimal(str(rows[0][0])))


@dataclass(frozen=True, slots=True)
class Change:
    """A version that the feed told: the row's key, its timestamp, and what the row held then; ``None`` if it was deleted."""

    key: int
    at: Decimal
    left: object


def change_of(key: bytes, value: bytes) -> Change:
    """One line of a changefeed.

    >>> change_of(b"[7]", b'{"after": {"k": 7, "v": 1}, "mvcc_timestamp": "1536242855577149065.0000000001"}').at
    Decimal('1536242855577149065.0000000001')
    """
    (found,) = json.loads(key)
    told = json.loads(value)
    after = told.get("after")
    return Change(int(found), Decimal(told["mvcc_timestamp"]), None if after is None else after["v"])


class CockroachdbRecovery:
    only_last = True

    def __init__(self, database: PostgresqlDatabase, scope: Scope) -> None:
        self._database = database
        (self._table,) = scope.tables
        with closing(self._session()) as session, patiently(session):
            try:
                if str(_one(session, "SHOW CLUSTER SETTING kv.rangefeed.enabled")) not in ("true", "t", "True"):
                    raise DatabaseUnavailable(
                        "the cluster tells no changes: SET CLUSTER SETTING kv.rangefeed.enabled = true"
                    )
                self._since = Decimal(str(_one(session, _NOW)))
            except (StatementFailed, Aborted) as error:
                raise DatabaseUnavailable(f"the cluster does not tell its order: {error.reason}") from None

    def _session(self) -> PostgresqlConnection:
        return self._database.connect_as(PostgresqlConnection, _NO_TABLE)

    def connect(self, table: Table) -> ListeningCockroachdb:
        return self._database.connect_as(ListeningCockroachdb, table)

    def recover(self, accounts: Sequence[Account]) -> Certificate:
        try:
            with closing(self._session()) as session, patiently(session, _FEED_S):
                now = Decimal(str(_one(session, _NOW)))
                rows = session.execute(feed(self._table, self._since, now)).rows or []
        except (StatementFailed, Aborted, ConnectionLost) as error:
            raise DatabaseUnavailable(f"the changes could not be read: {error.reason}") from None
        changes = [change_of(key, value) for table, key, value in rows if table]
        return certificate_of(f"{self._database.version()}, timestamps of commits and a changefeed", changes, accounts)

    def close(self) -> None:
        """Nothing was made on the server."""


def feed(table: str, since: Decimal, now: Decimal) -> str:
    """The changefeed of everything after a moment, which ends soon after now.

    >>> feed("t", Decimal("15.0000000001"), Decimal("20.0000000000"))
    "EXPERIMENTAL CHANGEFEED FOR t WITH mvcc_timestamp, cursor = '15.0000000001', end_time = '2000000020'"
    """
    return (
        f"EXPERIMENTAL CHANGEFEED FOR {table} WITH mvcc_timestamp, cursor = '{since}', end_time = '{int(now + _SOON)}'"
    )


def certificate_of(source: str, changes: Sequence[Change], accounts: Sequence[Account]) -> Certificate:
    """Puts together what the feed told and what the transactions heard."""
    # The feed may tell a change twice.
    by_moment: dict[Decimal, dict[int, object]] = defaultdict(dict)
    for change in changes:
        by_moment[change.at][change.key] = change.left
    writers = _writers(by_moment, accounts)
    order = sorted(writers, key=lambda found: found[0])
    orders: dict[ObjectId, list[VersionId | None]] = defaultdict(lambda: [None])
    for moment, name in order:
        for key, place in _written(writers[moment, name]).items():
            orders[key].append((name, place))
    at = {name: moment for moment, name in order}
    moments = [moment for moment, _ in order]
    reads: dict[VersionId, VersionSet] = {}
    placed = []
    for account in accounts:
        name = account.transaction
        mine = at.get(name, _at(account))
        if mine is None or (account.ended is not Ended.COMMITTED and name not in at):
            continue
        placed.append((mine, name not in at, account.begun, name))
        # Everything that it read is as of its commit.
        sees = Sees(bisect_right(moments, mine), (name,) if name in at else ())
        for place, heard in account.operations:
            if isinstance(heard, Heard) and heard.reads:
                reads[name, place] = VersionSet(sees)
    objects = {key: Installed(tuple(versions)) for key, versions in orders.items()}
    serial = tuple(name for _, _, _, name in sorted(placed))
    return Certificate(source, objects, tuple(name for _, name in order), reads, serial)


def _writers(
    by_moment: Mapping[Decimal, Mapping[int, object]], accounts: Sequence[Account]
) -> dict[tuple[Decimal, str], Account]:
    """Who wrote at which moment. Several may have committed at one, if they have nothing to do with each other."""
    found: dict[tuple[Decimal, str], Account] = {}
    told = {moment: dict(rows) for moment, rows in by_moment.items()}
    for account in accounts:
        moment = _at(account)
        if moment is not None and account.ended is Ended.COMMITTED and _written(account):
            found[moment, account.transaction] = account
            for key in _written(account):
                told.get(moment, {}).pop(key, None)
    unheard = [account for account in accounts if account.ended is Ended.UNKNOWN and _written(account)]
    for moment, rows in told.items():
        if not rows:
            continue
        fits = [account for account in unheard if _left(account) == rows]
        if len(fits) != 1:
            raise DatabaseUnavailable(f"the rows {sorted(rows)} were written at {moment} by nobody of this run")
        found[moment, fits[0].transaction] = fits[0]
    return found


def _at(account: Account) -> Decimal | None:
    return account.commit.at if isinstance(account.commit, Heard) else None


def _written(account: Account) -> dict[int, int]:
    """Of each key that the transaction writes, the operation that does so last."""
    heard = [(place, one) for place, one in account.operations if isinstance(one, Heard)]
    return {one.key: place for place, one in heard if one.key is not None}


def _left(account: Account) -> dict[int, object]:
    return {one.key: one.left for _, one in account.operations if isinstance(one, Heard) and one.key is not None}


def _one(session: PostgresqlConnection, query: str) -> object:
    rows = session.execute(query).rows
    return rows[0][0] if rows else None


def begin_recovery(database: Database, scope: Scope, offers: tuple[Offer, ...]) -> CockroachdbRecovery:
    """Begins to listen to a CockroachDB at SERIALIZABLE, on a workload of keys."""
    assert isinstance(database, PostgresqlDatabase)
    if any(followed.name is not None for followed in scope.tables.values()):
        raise UsageError("the order of CockroachDB is asked for on workloads of keys; that of tables was not tried")
    if any(offer.claims is not Level.SERIALIZABLE for offer in offers):
        raise UsageError("CockroachDB tells the timestamp of a commit at SERIALIZABLE alone: --isolation serializable")
    return CockroachdbRecovery(database, scope)
