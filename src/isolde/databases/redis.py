"""Redis and Valkey: WATCH on what is read, changes kept until MULTI … EXEC.

EXEC carries the changes out only if no watched key was touched since. It also ends a transaction that only read, so
that all its reads held at one moment. A command that fails inside EXEC does not undo the others: such a transaction
is neither committed nor aborted, and is told as a lost connection, whose outcome nobody knows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import cast

from isolde.databases.buffered import BufferedConnection
from isolde.databases.contract import Ability, Adapter, Database, Feature, Kind, Offer, Swap, Table, answer
from isolde.databases.resp import Command, Refusal, Reply, Wire
from isolde.databases.urls import Address, address_of, scheme_of
from isolde.errors import Aborted, ConnectionLost, DatabaseUnavailable, OutsideError, StatementFailed, UsageError
from isolde.levels import Level
from isolde.masking import masked_url

_PORT = 6379
_BATCH = 500

_UNWATCHED = Offer("unwatched", "MULTI … EXEC", Level.READ_COMMITTED, "reads are not watched; writes are atomic")
_SINGLE = Offer(
    "single",
    "single commands",
    Level.LINEARIZABLE,
    "for transactions of one operation; more of them in one are not isolated from others",
)
_WATCH = Offer("watch", "WATCH, MULTI … EXEC", Level.STRICT_SERIALIZABLE, "every read is watched")
_OFFERS = (_UNWATCHED, _SINGLE, _WATCH)

# Refusals that are no fault of the command: the server is full, a replica, or still loading.
_PASSING = frozenset({"OOM", "READONLY", "MISCONF", "NOREPLICAS", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "LOADING"})

_SWAP = """local v = redis.call('GET', KEYS[1])
if v == ARGV[1] or (not v and ARGV[1] == '') then redis.call('SET', KEYS[1], ARGV[2]) return {1, v} end
return {0, v}"""


def _shown(command: Command) -> str:
    return " ".join(word.decode(errors="replace") if isinstance(word, bytes) else str(word) for word in command)


def _error(refusal: Refusal, command: Command) -> OutsideError:
    if refusal.code in _PASSING:
        return Aborted(refusal.text)
    return StatementFailed(_shown(command), refusal.text)


def _accepted(replies: list[Reply], commands: list[Command]) -> list[Reply]:
    for reply, command in zip(replies, commands, strict=True):
        if isinstance(reply, Refusal):
            raise _error(reply, command)
    return replies


def _element(raw: Reply) -> bytes:
    found = raw if isinstance(raw, bytes) else str(raw).encode()
    return found if found.isdigit() else json.dumps(found.decode(errors="replace")).encode()


class RedisConnection(BufferedConnection):
    def __init__(self, wire: Wire, table: Table) -> None:
        super().__init__(lists=table.kind is Kind.LISTS)
        self._wire, self._table = wire, table
        self._watching = False

    def _key(self, key: int) -> str:
        return f"{self._table.name}:{key}"

    def _ask(self, *commands: Command) -> list[Reply]:
        return _accepted(self._wire.ask(*commands), list(commands))

    def _asked(self, *commands: Command, watch: int | None) -> Reply:
        """The answer to the last command, after a watch on a key if one is wanted."""
        if watch is None:
            return self._ask(*commands)[-1]
        self._watching = True
        return self._ask(("WATCH", self._key(watch)), *commands)[-1]

    def _value(self, key: int, *, watched: bool) -> bytes:
        watch = key if watched else None
        if not self._lists:
            return answer(self._asked(("GET", self._key(key)), watch=watch))
        found = cast(list[Reply], self._asked(("LRANGE", self._key(key), 0, -1), watch=watch))
        return b"[" + b",".join(_element(raw) for raw in found) + b"]"

    def _look(self, key: int) -> bytes:
        return self._value(key, watched=self._offer is _WATCH)

    def _look_to_change(self, key: int) -> bytes:
        return self._value(key, watched=True)

    def _expect_absent(self, key: int) -> None:
        if self._asked(("EXISTS", self._key(key)), watch=key):
            raise Aborted(f"the key {key} is there")

    def _expect_append(self, key: int) -> None:
        """Redis adds to lists itself."""

    def _swap_at_once(self, key: int, expected: int | None, new: int) -> Swap:
        command: Command = ("EVAL", _SWAP, 1, self._key(key), "" if expected is None else expected, new)
        try:
            (reply,) = self._ask(command)
        except ConnectionLost as error:
            raise ConnectionLost(error.reason, maybe_applied=True) from None
        applied, shown = cast(list[Reply], reply)
        return Swap(True) if applied else Swap(False, answer(shown))

    def _commands(self) -> Iterator[Command]:
        for key, change in self._changes.items():
            if change.value is not None:
                yield ("SET", self._key(key), change.value)
            elif change.replaces:
                yield ("DEL", self._key(key))
            if change.elements:
                yield ("RPUSH", self._key(key), *change.elements)

    def _commit_changes(self) -> None:
        commands = list(self._commands())
        if not commands and not self._watching:
            return
        beside = self._beside(changes=bool(commands))
        *queued, done = self._wire.ask(("MULTI",), *commands, *beside, ("EXEC",))
        self._watching = False
        if done is None:
            raise Aborted("a watched key was changed by another session")
        if isinstance(done, Refusal):
            # EXEC was refused as a whole; a command that could not be queued says why.
            _accepted(queued, [("MULTI",), *commands, *beside])
            raise _error(done, ("EXEC",))
        replies = cast(list[Reply], done)
        self._answered_beside(replies[len(commands) :])
        self._check_each(replies[: len(commands)], commands)

    def _beside(self, *, changes: bool) -> list[Command]:
        """What else is asked inside of the transaction, which ``changes`` something or only reads."""
        del changes
        return []

    def _answered_beside(self, replies: list[Reply]) -> None:
        """The answers to that."""

    def _check_each(self, replies: list[Reply], commands: list[Command]) -> None:
        failed = [(r, c) for r, c in zip(replies, commands, strict=True) if isinstance(r, Refusal)]
        if not failed:
            return
        refusal, command = failed[0]
        if len(failed) == len(commands):
            raise _error(refusal, command)
        reason = (
            f"EXEC carried out {len(commands) - len(failed)} of {len(commands)} commands; "
            f"'{_shown(command)}' failed: {refusal.text}"
        )
        self._wire.lose(reason)
        raise ConnectionLost(reason, maybe_applied=True)

    def _forget_looks(self) -> None:
        if self._watching:
            self._watching = False
            self._ask(("UNWATCH",))

    def abandon(self) -> None:
        self._wire.break_off()

    def close(self) -> None:
        self._wire.close()


class RedisDatabase:
    def __init__(self, url: str) -> None:
        self._address: Address = address_of(url)
        self._tls = scheme_of(url) in ("rediss", "valkeys")
        self._shown = masked_url(url)
        self._number = self._address.database or "0"
        if not self._number.isdigit():
            raise UsageError(f"{self._shown}: a Redis database is a number, not '{self._number}'")
        try:
            wire = self.wire()
            try:
                info = _one(wire, ("INFO", "server"))
            finally:
                wire.close()
        except (ConnectionLost, StatementFailed, Aborted) as error:
            raise DatabaseUnavailable(f"{self._shown}: no Redis answers: {error.reason}") from None
        self._version = _version(cast(bytes, info).decode(errors="replace"))

    def wire(self) -> Wire:
        """A new connection that is let in."""
        wire = Wire(self._address.host or "localhost", self._address.port or _PORT, tls=self._tls)
        commands: list[Command] = []
        if self._address.password is not None:
            user = (self._address.user,) if self._address.user else ()
            commands.append(("AUTH", *user, self._address.password))
        if self._number != "0":
            commands.append(("SELECT", self._number))
        for command, reply in zip(commands, wire.ask(*commands) if commands else [], strict=True):
            if isinstance(reply, Refusal):
                wire.close()
                # The command may hold a password.
                raise StatementFailed(str(command[0]), reply.text)
        return wire

    def version(self) -> str:
        return self._version

    def offers(self) -> tuple[Offer, ...]:
        return _OFFERS

    def create(self, table: Table) -> None:
        marker = f"{table.name}:"
        there = f"{self._shown}: there are keys that begin with '{marker}' already"
        try:
            wire = self.wire()
            try:
                if _one(wire, ("SET", marker, table.kind.value, "NX")) is None:
                    raise DatabaseUnavailable(there)
                if any(name != marker.encode() for name in _names(wire, marker)):
                    _one(wire, ("DEL", marker))
                    raise DatabaseUnavailable(there)
                # An empty list is an absent one.
                if table.kind is Kind.REGISTERS and table.keys:
                    first = [word for key in range(table.keys) for word in (f"{marker}{key}", "0")]
                    _one(wire, ("MSET", *first))
            finally:
                wire.close()
        except (ConnectionLost, StatementFailed, Aborted) as error:
            raise DatabaseUnavailable(f"{self._shown}: cannot make the keys of '{marker}': {error.reason}") from None

    def connect(self, table: Table) -> RedisConnection:
        return RedisConnection(self.wire(), table)

    def drop(self, table: Table) -> None:
        marker = f"{table.name}:"
        wire = self.wire()
        try:
            names: list[str | bytes] = [*_names(wire, marker), marker]
            for start in range(0, len(names), _BATCH):
                _one(wire, ("DEL", *names[start : start + _BATCH]))
        finally:
            wire.close()

    def close(self) -> None:
        """Nothing is kept open between connections."""


def _one(wire: Wire, command: Command) -> Reply:
    return _accepted(wire.ask(command), [command])[0]


def _names(wire: Wire, prefix: str) -> set[bytes]:
    """All keys that begin so; SCAN may name one twice."""
    found: set[bytes] = set()
    cursor = b"0"
    while True:
        reply = _one(wire, ("SCAN", cursor, "MATCH", f"{prefix}*", "COUNT", _BATCH))
        cursor, names = cast(tuple[bytes, list[bytes]], reply)
        found.update(names)
        if cursor == b"0":
            return found


def _version(info: str) -> str:
    """The server's name and version.

    >>> _version("redis_version:7.2.4\\r\\nserver_name:valkey\\r\\nvalkey_version:8.1.1\\r\\n")
    'Valkey 8.1.1'
    """
    facts = dict(line.partition(":")[::2] for line in info.splitlines())
    if "valkey_version" in facts:
        return f"Valkey {facts['valkey_version']}"
    return f"Redis {facts.get('redis_version', 'of an unknown version')}"


def _open(url: str) -> Database:
    return RedisDatabase(url)


ADAPTER = Adapter(
    name="redis",
    schemes=("redis", "rediss", "valkey", "valkeys"),
    example="redis://HOST:6379/0, valkey://HOST; rediss:// and valkeys:// for TLS",
    offers=_OFFERS,
    abilities=(
        Ability(
            Feature.TRANSACTIONS, True, "WATCH on reads, changes in MULTI … EXEC; no undoing of half a transaction"
        ),
        Ability(Feature.COMPARE_AND_SET, True, "WATCH and EXEC, or a script when alone; a failed one shows the value"),
        Ability(Feature.LISTS, True, "lists of Redis (RPUSH, LRANGE)"),
        Ability(Feature.DELETES, True, "DEL, and SET of a key that is watched to be absent"),
        Ability(Feature.SQL, False, "Redis has no query language"),
        Ability(Feature.PREDICATES, False, "Redis reads keys, not values that meet a condition"),
        Ability(Feature.ORDER, True, "a counter inside of every MULTI … EXEC is the place in the order"),
    ),
    open=_open,
    removal="redis-cli --scan --pattern '{table}:*' | xargs redis-cli DEL",
)
