"""Redis' order: a counter that every MULTI … EXEC raises, or reads if it changes nothing, is the place in the order.

Where every read is watched (``watch``), a transaction took effect as a whole at its EXEC: the counter is a serialization order.
At the other levels it tells the order of versions alone, and what reads saw is known by the values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from isolde.databases.contract import Database, Offer, Swap, Table, answer
from isolde.databases.recovery import Account, Ended, Scope
from isolde.databases.redis import RedisConnection, RedisDatabase
from isolde.databases.resp import Command, Reply, Wire
from isolde.errors import ConnectionLost, DatabaseUnavailable, OutsideError
from isolde.history.certificate import Certificate, Installed, ObjectId, Sees, VersionId, VersionSet
from isolde.levels import Level

_SWAP = """local v = redis.call('GET', KEYS[1])
if v == ARGV[1] or (not v and ARGV[1] == '') then
  redis.call('SET', KEYS[1], ARGV[2])
  return {1, v, redis.call('INCR', KEYS[2])}
end
return {0, v, 0}"""


@dataclass(frozen=True, slots=True)
class Heard:
    """Of an operation: the key that it writes, or none if it reads; of a commit: the counter, and whether it was raised."""

    key: int | None = None
    counter: int | None = None
    writes: bool = False


class ListeningRedis(RedisConnection):
    """Hears the counter at each EXEC."""

    def __init__(self, wire: Wire, table: Table) -> None:
        super().__init__(wire, table)
        self._counter = f"{table.name}:order"
        self._heard: Heard | None = None
        self._at: Heard | None = None

    def heard(self) -> Heard | None:
        heard, self._heard = self._heard, None
        return heard

    def begin(self, offer: Offer) -> None:
        super().begin(offer)
        self._heard = self._at = None

    def read(self, key: int) -> bytes:
        found = super().read(key)
        self._heard = Heard()
        return found

    def write(self, key: int, value: int) -> None:
        super().write(key, value)
        self._heard = Heard(key)

    def insert(self, key: int, value: int) -> None:
        super().insert(key, value)
        self._heard = Heard(key)

    def delete(self, key: int) -> bool:
        self._heard = Heard(key)
        return super().delete(key)

    def append(self, key: int, element: int) -> None:
        super().append(key, element)
        self._heard = Heard(key)

    def compare_and_set(self, key: int, expected: int | None, new: int) -> Swap:
        swap = super().compare_and_set(key, expected, new)
        self._heard = Heard(key if swap.applied else None)
        return swap

    def _swap_at_once(self, key: int, expected: int | None, new: int) -> Swap:
        command: Command = ("EVAL", _SWAP, 2, self._key(key), self._counter, "" if expected is None else expected, new)
        try:
            (reply,) = self._ask(command)
        except ConnectionLost as error:
            raise ConnectionLost(error.reason, maybe_applied=True) from None
        applied, shown, counter = cast(list[Reply], reply)
        if applied:
            self._at = Heard(None, int(str(counter)), True)
        return Swap(True) if applied else Swap(False, answer(shown))

    def _beside(self, *, changes: bool) -> list[Command]:
        return [("INCR", self._counter) if changes else ("GET", self._counter)]

    def _answered_beside(self, replies: list[Reply]) -> None:
        (reply,) = replies
        raised = isinstance(reply, int)
        self._at = Heard(None, reply if isinstance(reply, int) else int(cast(bytes, reply or b"0")), raised)

    def commit(self) -> None:
        super().commit()
        self._heard, self._at = self._at, None


class RedisRecovery:
    only_last = False

    def __init__(self, database: RedisDatabase, scope: Scope, offers: Sequence[Offer]) -> None:
        self._database = database
        (self._name,) = scope.tables
        self._serial = all(offer.claims is Level.STRICT_SERIALIZABLE for offer in offers)

    def connect(self, table: Table) -> ListeningRedis:
        return ListeningRedis(self._database.wire(), table)

    def recover(self, accounts: Sequence[Account]) -> Certificate:
        try:
            wire = self._database.wire()
            try:
                (reply,) = wire.ask(("GET", f"{self._name}:order"))
            finally:
                wire.close()
        except OutsideError as error:
            raise DatabaseUnavailable(f"the counter could not be read: {error}") from None
        last = int(reply) if isinstance(reply, bytes) else 0
        source = f"{self._database.version()}, a counter in each EXEC"
        return certificate_of(source, last, accounts, serial=self._serial)

    def close(self) -> None:
        """The counter goes with the keys of the run."""


def certificate_of(source: str, last: int, accounts: Sequence[Account], *, serial: bool) -> Certificate:
    """Puts together what the transactions heard, up to the last number of the counter."""
    writers = {number: account for account in accounts if (number := _raised(account)) is not None}
    unheard = [account for account in accounts if account.ended is Ended.UNKNOWN and _written(account)]
    missing = [number for number in range(1, last + 1) if number not in writers]
    if len(missing) > len(unheard) or (missing and len(unheard) > 1):
        raise DatabaseUnavailable(
            f"the places of {len(missing)} transactions are not known, and {len(unheard)} never heard of their end"
        )
    writers |= dict(zip(missing, unheard, strict=False))
    orders: dict[ObjectId, list[VersionId | None]] = defaultdict(lambda: [None])
    for number in range(1, last + 1):
        account = writers[number]
        for key, place in _written(account).items():
            orders[key].append((account.transaction, place))
    commits = tuple(writers[number].transaction for number in range(1, last + 1))
    objects = {thing: Installed(tuple(versions)) for thing, versions in orders.items()}
    if not serial:
        return Certificate(source, objects, commits)
    at = {account.transaction: number for number, account in writers.items()}
    reads: dict[VersionId, VersionSet] = {}
    placed = []
    for account in accounts:
        writes = account.transaction in at
        if account.ended is not Ended.COMMITTED and not writes:
            continue
        heard_last = account.commit.counter if isinstance(account.commit, Heard) else None
        number = at.get(account.transaction, heard_last or 0)
        placed.append((number, not writes, account.begun, account.transaction))
        for place, heard in account.operations:
            if isinstance(heard, Heard) and heard.key is None:
                reads[account.transaction, place] = VersionSet(Sees(number - writes))
    return Certificate(source, objects, commits, reads, tuple(name for _, _, _, name in sorted(placed)))


def _raised(account: Account) -> int | None:
    """What the transaction raised the counter to."""
    return account.commit.counter if isinstance(account.commit, Heard) and account.commit.writes else None


def _written(account: Account) -> dict[int, int]:
    """Of each key that the transaction writes, the operation that does so last."""
    heard = [(place, one) for place, one in account.operations if isinstance(one, Heard)]
    return {one.key: place for place, one in heard if one.key is not None}


def begin_recovery(database: Database, scope: Scope, offers: tuple[Offer, ...]) -> RedisRecovery:
    """Begins to listen to a Redis or Valkey."""
    assert isinstance(database, RedisDatabase)
    return RedisRecovery(database, scope, offers)
