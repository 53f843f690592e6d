"""etcd's order: every commit that changes something is a revision, and the log of all revisions can be watched.

A transaction reads at one revision, and its commit compares what it read: so it took effect at the revision of its commit,
or, if it only read, right after the one that it read at.
"""

from __future__ import annotations

from base64 import b64decode
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from isolde.databases.contract import Database, Kind, Offer, Swap, Table
from isolde.databases.etcd import EtcdConnection, EtcdDatabase, Gateway, key_name, keys_of
from isolde.databases.recovery import Account, Ended, Scope
from isolde.databases.waiting import FILL_S, patiently
from isolde.errors import ConnectionLost, DatabaseUnavailable, StatementFailed
from isolde.history.certificate import Certificate, Installed, ObjectId, Sees, VersionId, VersionSet
from isolde.levels import Level


@dataclass(frozen=True, slots=True)
class Heard:
    """Of an operation: the revision and key that it read, and what it leaves in which key; of a commit: its revision."""

    revision: int | None = None
    of: int | None = None
    key: int | None = None
    left: bytes = b""
    """What the value is, or ends with."""


class ListeningEtcd(EtcdConnection):
    """Hears revisions."""

    def __init__(self, gateway: Gateway, table: Table) -> None:
        super().__init__(gateway, table)
        self._heard: Heard | None = None

    def heard(self) -> Heard | None:
        heard, self._heard = self._heard, None
        return heard

    def _read_at(self) -> int:
        """The revision of the snapshot, or without one that of the last answer."""
        return self._revision if self._revision is not None and not self._alone() else self.revision

    def _alone(self) -> bool:
        return self._offer is not None and self._offer.claims is Level.LINEARIZABLE

    def read(self, key: int) -> bytes:
        found = super().read(key)
        self._heard = Heard(self._read_at(), key) if key not in self._changes or self._lists else None
        return found

    def write(self, key: int, value: int) -> None:
        super().write(key, value)
        self._heard = Heard(None, None, key, b"%d" % value)

    def insert(self, key: int, value: int) -> None:
        super().insert(key, value)
        self._heard = Heard(None, None, key, b"%d" % value)

    def delete(self, key: int) -> bool:
        self._heard = Heard(None, None, key)
        return super().delete(key)

    def append(self, key: int, element: int) -> None:
        super().append(key, element)
        self._heard = Heard(None, None, key, b",%d" % element)

    def compare_and_set(self, key: int, expected: int | None, new: int) -> Swap:
        own = key in self._changes
        swap = super().compare_and_set(key, expected, new)
        # One that was sent at once and applied changed what it read: it read the revision before.
        read_at = None if own else self._read_at() - (self._alone() and swap.applied)
        self._heard = Heard(read_at, key, key, b"%d" % new) if swap.applied else Heard(read_at, key)
        return swap

    def commit(self) -> None:
        writes, alone = bool(self._changes), self._swap is not None and self._swap.applied
        super().commit()
        self._heard = Heard(self.revision) if (writes and self.changed) or alone else None


class EtcdRecovery:
    only_last = False

    def __init__(self, database: EtcdDatabase, scope: Scope, offers: Sequence[Offer]) -> None:
        self._database, self._offers = database, offers
        (name,) = scope.tables
        self._table = Table(name, Kind.REGISTERS, 0)
        gateway = self._gateway()
        try:
            found = gateway.ask("/v3/kv/range", {"key": key_name(self._table, "")})
            self._first = int(found["header"]["revision"]) + 1
        except (ConnectionLost, StatementFailed) as error:
            raise DatabaseUnavailable(f"etcd does not tell its revision: {error.reason}") from None
        finally:
            gateway.close()

    def connect(self, table: Table) -> ListeningEtcd:
        return ListeningEtcd(self._database.gateway(), table)

    def recover(self, accounts: Sequence[Account]) -> Certificate:
        try:
            log = self._log()
        except (ConnectionLost, StatementFailed) as error:
            raise DatabaseUnavailable(f"etcd's log could not be watched: {error.reason}") from None
        return certificate_of(f"{self._database.version()}, revisions", log, accounts, serial=self._is_serial(accounts))

    def _is_serial(self, accounts: Sequence[Account]) -> bool:
        """Whether every transaction took effect at one revision: single requests do only if they are alone."""
        if all(offer.claims is not Level.LINEARIZABLE for offer in self._offers):
            return True
        return all(len(account.operations) <= 1 for account in accounts)

    def _log(self) -> dict[int, dict[int, bytes | None]]:
        """What each revision left in which keys."""
        last = self._mark_the_end()
        log: dict[int, dict[int, bytes | None]] = defaultdict(dict)
        gateway = self._gateway()
        with patiently(_Breaking(gateway), FILL_S):
            question = {**keys_of(self._table), "start_revision": self._first}
            for result in gateway.follow("/v3/watch", {"create_request": question}):
                if result.get("canceled"):
                    raise DatabaseUnavailable(
                        f"etcd's log was compacted during the run ({result.get('cancel_reason', 'no reason given')}); "
                        "turn --auto-compaction-retention up"
                    )
                for event in result.get("events", ()):
                    revision, key, value = self._event(event)
                    if revision >= last:
                        return log
                    if key is not None:
                        log[revision][key] = value
        raise DatabaseUnavailable("etcd's log ended before the run's end")

    def _event(self, event: dict[str, Any]) -> tuple[int, int | None, bytes | None]:
        kv = event["kv"]
        key = b64decode(kv["key"]).decode().rpartition("/")[2]
        value = None if event.get("type") == "DELETE" else b64decode(kv.get("value", ""))
        return int(kv["mod_revision"]), int(key) if key else None, value

    def _mark_the_end(self) -> int:
        """Writes the key that stands for the table once more; its revision is the last one that concerns us."""
        gateway = self._gateway()
        try:
            found = gateway.ask("/v3/kv/put", {"key": key_name(self._table, ""), "value": ""})
            return int(found["header"]["revision"])
        finally:
            gateway.close()

    def _gateway(self) -> Gateway:
        return self._database.gateway()

    def close(self) -> None:
        """Nothing was made on the server."""


class _Breaking:
    def __init__(self, gateway: Gateway) -> None:
        self.abandon = gateway.break_off


def certificate_of(
    source: str, log: dict[int, dict[int, bytes | None]], accounts: Sequence[Account], *, serial: bool
) -> Certificate:
    """Puts together what each revision left and what the transactions heard."""
    writers = _writers(log, accounts)
    revisions = sorted(log)
    orders: dict[ObjectId, list[VersionId | None]] = defaultdict(lambda: [None])
    for revision in revisions:
        account = writers.get(revision)
        if account is None:
            raise DatabaseUnavailable(f"the revision {revision} was written by nobody of this run")
        places = _places(account)
        for key in log[revision]:
            orders[key].append((account.transaction, places[key]))
    at = {account.transaction: revision for revision, account in writers.items()}
    effective = [account for account in accounts if account.ended is Ended.COMMITTED or account.transaction in at]
    # A delete of what is not there is a write that no revision tells of.
    vague = {
        key
        for account in effective
        for key in _places(account).keys() - log.get(at.get(account.transaction, 0), {}).keys()
    }
    reads: dict[VersionId, VersionSet] = {}
    placed: list[tuple[int, bool, int, str]] = []
    for account in effective:
        seen = [(place, heard) for place, heard in _operations(account) if heard.revision is not None]
        for place, heard in seen:
            if heard.of not in vague:
                reads[account.transaction, place] = VersionSet(Sees(bisect_right(revisions, heard.revision or 0)))
        writes = account.transaction in at
        effect = at[account.transaction] if writes else max((heard.revision or 0 for _, heard in seen), default=0)
        placed.append((effect, not writes, account.begun, account.transaction))
    commits = tuple(writers[revision].transaction for revision in revisions)
    objects = {
        thing: Installed(tuple(orders[thing]), partial=thing in vague) for thing in sorted({*orders, *vague}, key=str)
    }
    order = tuple(name for _, _, _, name in sorted(placed)) if serial and not vague else None
    return Certificate(source, objects, commits, reads, order)


def _places(account: Account) -> dict[int, int]:
    """Of each key that the transaction writes, the operation that does so last."""
    return {heard.key: place for place, heard in _operations(account) if heard.key is not None}


def _operations(account: Account) -> list[tuple[int, Heard]]:
    return [(place, heard) for place, heard in account.operations if isinstance(heard, Heard)]


def _writers(log: dict[int, dict[int, bytes | None]], accounts: Sequence[Account]) -> dict[int, Account]:
    """Who wrote each revision; those who never heard of their commit are known by what they meant to leave."""
    writers = {account.commit.revision: account for account in accounts if isinstance(account.commit, Heard)}
    found = {revision: account for revision, account in writers.items() if revision is not None}
    unheard = [account for account in accounts if account.ended is Ended.UNKNOWN and account.operations]
    for revision in log.keys() - found.keys():
        for account in unheard:
            left = {heard.key: heard.left for _, heard in _operations(account) if heard.key is not None}
            if left.keys() == log[revision].keys() and all(
                (log[revision][key] or b"").endswith(value) and bool(value) is (log[revision][key] is not None)
                for key, value in left.items()
                if key is not None
            ):
                found[revision] = account
    return found


def begin_recovery(database: Database, scope: Scope, offers: tuple[Offer, ...]) -> EtcdRecovery:
    """Begins to listen to an etcd at whatever level."""
    assert isinstance(database, EtcdDatabase)
    return EtcdRecovery(database, scope, offers)
