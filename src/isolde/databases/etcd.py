"""etcd, over the JSON gateway that every etcd serves; Python's own HTTP client is all that is needed.

Interactive transactions are those of etcd's own client library ("software transactional memory"): the first read
fixes a revision, later ones read at it, changes are kept, and the commit is one request that compares the revision
of every key that was read. A transaction that only reads needs no commit: it read one revision, and that was the
latest when it began.
"""

from __future__ import annotations

import http.client
import itertools
import json
import re
import socket
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from isolde.databases.buffered import BufferedConnection
from isolde.databases.contract import Ability, Adapter, Database, Feature, Kind, Offer, Swap, Table, answer, list_answer
from isolde.errors import Aborted, ConnectionLost, DatabaseUnavailable, OutsideError, StatementFailed, UsageError
from isolde.levels import Level
from isolde.masking import masked_url

_PORT = 2379
_TIMEOUT_S = 10.0
# etcd refuses a transaction of more than 128 requests unless it was started with --max-txn-ops.
_REQUESTS_MAX = 100

_SINGLE = Offer(
    "single",
    "single requests",
    Level.LINEARIZABLE,
    "for transactions of one operation; more of them in one are not isolated from others",
)
_SERIALIZABLE = Offer(
    "serializable", "software transactional memory", Level.STRICT_SERIALIZABLE, "reads are compared at the commit"
)
_OFFERS = (_SINGLE, _SERIALIZABLE)

# The codes of gRPC that the gateway passes on and that say for certain that nothing was done.
_WRONG_REQUEST = frozenset({3, 5, 7, 9, 12, 16})
_EXHAUSTED = 8
_OUT_OF_RANGE = 11


@dataclass(frozen=True, slots=True)
class Endpoint:
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where an etcd answers, and as whom we ask."""

    endpoints: tuple[Endpoint, ...]
    user: str | None
    password: str | None
    shown: str


def cluster_of(url: str) -> Cluster:
    """The members that a URL names.

    >>> cluster_of("etcd://localhost,[::1]:23790").endpoints
    (Endpoint(host='localhost', port=2379), Endpoint(host='::1', port=23790))
    """
    shown = masked_url(url)
    account, _, places = url.partition("://")[2].partition("/")[0].rpartition("@")
    user, _, password = account.partition(":")
    endpoints = []
    for place in places.split(","):
        parts = re.fullmatch(r"(?:\[([0-9a-fA-F:]+)\]|([^:\[\]]+))(?::([0-9]{1,5}))?", place)
        if parts is None:
            raise UsageError(f"{shown} is not the URL of an etcd; write for example {ADAPTER.example}")
        endpoints.append(Endpoint(parts[1] or parts[2], int(parts[3] or _PORT)))
    return Cluster(tuple(endpoints), unquote(user) or None, unquote(password) or None, shown)


class Gateway:
    """One HTTP connection to one member. It is never opened again: what was under way would be forgotten."""

    def __init__(self, endpoint: Endpoint, cluster: Cluster) -> None:
        self._http = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=_TIMEOUT_S)
        self._headers = {"Content-Type": "application/json"}
        self._name = f"{endpoint.host}:{endpoint.port}"
        try:
            self._http.connect()
        except (OSError, UnicodeError) as error:
            # The latter of a host whose name no name can be.
            raise ConnectionLost(f"{self._name}: {error}") from None
        self._http.auto_open = 0
        if cluster.user is not None:
            account = {"name": cluster.user, "password": cluster.password or ""}
            self._headers["Authorization"] = str(self.ask("/v3/auth/authenticate", account).get("token", ""))

    def version(self) -> str:
        return str(self._answer("GET", "/version", None).get("etcdserver", ""))

    def ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._answer("POST", path, json.dumps(body).encode())

    def _answer(self, method: str, path: str, body: bytes | None) -> dict[str, Any]:
        try:
            self._http.request(method, path, body, self._headers)
            response = self._http.getresponse()
            found = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            # The answer may still be on its way, and would be taken for that of the next question.
            self.close()
            raise ConnectionLost(f"{self._name}: {str(error) or type(error).__name__}") from None
        if not isinstance(found, dict):
            raise ConnectionLost(f"{self._name}: answered {found!r} to {path}")
        if response.status != http.client.OK:
            raise self._refusal(path, int(found.get("code") or 0), str(found.get("message") or found.get("error")))
        return found

    def follow(self, path: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Answers that come one after the other, for as long as they are taken; then the connection is of no use any more."""
        try:
            self._http.request("POST", path, json.dumps(body).encode(), self._headers)
            for line in self._http.getresponse():
                found = json.loads(line)
                if "result" not in found:
                    raise ConnectionLost(f"{self._name}: answered {found} to {path}")
                yield found["result"]
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ConnectionLost(f"{self._name}: {str(error) or type(error).__name__}") from None
        finally:
            self.close()

    def _refusal(self, path: str, code: int, reason: str) -> OutsideError:
        if code == _OUT_OF_RANGE or (code == _EXHAUSTED and "too many requests" in reason):
            return Aborted(reason)
        if code in _WRONG_REQUEST or code == _EXHAUSTED:
            return StatementFailed(path, reason)
        # Among these are time-outs and changes of the leader, after which the request may still be carried out.
        self.close()
        return ConnectionLost(f"{self._name}: {reason}")

    def break_off(self) -> None:
        sock = self._http.sock
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._http.close()


def key_name(table: Table, key: int | str) -> str:
    return b64encode(f"{table.name}/{key}".encode()).decode()


def keys_of(table: Table) -> dict[str, str]:
    """All keys of a table: from its name and a slash to its name and the sign after the slash."""
    return {"key": key_name(table, ""), "range_end": b64encode(f"{table.name}0".encode()).decode()}


def _put(name: str, value: bytes) -> dict[str, Any]:
    return {"request_put": {"key": name, "value": b64encode(value).decode()}}


@dataclass(frozen=True, slots=True)
class _Seen:
    """A key as it was read; an absent one has the revision 0."""

    revision: int
    value: bytes | None


def _seen(kvs: Sequence[dict[str, Any]]) -> _Seen:
    if not kvs:
        return _Seen(0, None)
    # An empty value is left out of the JSON.
    return _Seen(int(kvs[0]["mod_revision"]), b64decode(kvs[0].get("value", "")))


class EtcdConnection(BufferedConnection):
    def __init__(self, gateway: Gateway, table: Table) -> None:
        super().__init__(lists=table.kind is Kind.LISTS)
        self._gateway, self._table = gateway, table
        self._revision: int | None = None
        self._compared: dict[int, _Seen] = {}
        self._absent: set[int] = set()
        self.revision = 0
        """That of the last answer: of a read, and of a commit."""
        self.changed = False
        """Whether the last commit of changes made a revision: one that deletes what is not there makes none."""

    def _range(self, key: int, revision: int | None) -> _Seen:
        question: dict[str, Any] = {"key": key_name(self._table, key)}
        if revision is not None:
            question["revision"] = revision
        found = self._asked("/v3/kv/range", question)
        if self._revision is None:
            self._revision = self.revision
        return _seen(found.get("kvs", ()))

    def _asked(self, path: str, question: dict[str, Any]) -> dict[str, Any]:
        found = self._gateway.ask(path, question)
        self.revision = int(found["header"]["revision"])
        return found

    def _snapshot(self, key: int) -> _Seen:
        if key not in self._compared:
            self._compared[key] = self._range(key, self._revision)
        return self._compared[key]

    def _answer(self, seen: _Seen) -> bytes:
        return list_answer(seen.value) if self._lists else answer(seen.value)

    def _look(self, key: int) -> bytes:
        if self._offer is _SINGLE:
            return self._answer(self._range(key, None))
        return self._answer(self._snapshot(key))

    def _look_to_change(self, key: int) -> bytes:
        return self._answer(self._snapshot(key))

    def _expect_absent(self, key: int) -> None:
        seen = self._compared.get(key)
        if seen is not None and seen.revision:
            raise Aborted(f"the key {key} is there: the transaction read it")
        self._absent.add(key)

    def _expect_append(self, key: int) -> None:
        # etcd knows no lists: the text is read and written back longer, and compared as any read is.
        if key not in self._changes:
            self._look_to_change(key)

    def _swap_at_once(self, key: int, expected: int | None, new: int) -> Swap:
        name = key_name(self._table, key)
        holds: dict[str, Any] = {"key": name, "target": "CREATE", "result": "EQUAL", "create_revision": 0}
        if expected is not None:
            held = b64encode(b"%d" % expected).decode()
            holds = {"key": name, "target": "VALUE", "result": "EQUAL", "value": held}
        try:
            found = self._asked(
                "/v3/kv/txn",
                {
                    "compare": [holds],
                    "success": [_put(name, b"%d" % new)],
                    "failure": [{"request_range": {"key": name}}],
                },
            )
        except ConnectionLost as error:
            raise ConnectionLost(error.reason, maybe_applied=True) from None
        if found.get("succeeded", False):
            return Swap(applied=True)
        return Swap(applied=False, current=answer(_seen(found["responses"][0]["response_range"].get("kvs", ())).value))

    def _commit_changes(self) -> None:
        if not self._changes:
            return
        compare: list[dict[str, Any]] = [
            {"key": key_name(self._table, key), "target": "MOD", "result": "EQUAL", "mod_revision": seen.revision}
            for key, seen in self._compared.items()
        ]
        compare += [
            {"key": key_name(self._table, key), "target": "CREATE", "result": "EQUAL", "create_revision": 0}
            for key in self._absent
        ]
        success = [self._request(key) for key in self._changes]
        found = self._asked("/v3/kv/txn", {"compare": compare, "success": success})
        self.changed = any(
            "response_put" in part or int(part.get("response_delete_range", {}).get("deleted", 0))
            for part in found.get("responses", ())
        )
        # The JSON leaves out what is false.
        if not found.get("succeeded", False):
            raise Aborted("a key that the transaction read or inserted has changed since")

    def _request(self, key: int) -> dict[str, Any]:
        name, change = key_name(self._table, key), self._changes[key]
        if self._lists and change.elements:
            before = b"" if change.replaces else self._compared[key].value or b""
            return _put(name, before + b"".join(b",%d" % element for element in change.elements))
        if change.value is None:
            return {"request_delete_range": {"key": name}}
        return _put(name, b"%d" % change.value)

    def _forget_looks(self) -> None:
        """etcd keeps nothing of a transaction before its commit."""

    def _end(self) -> None:
        super()._end()
        self._revision, self._compared, self._absent = None, {}, set()

    def abandon(self) -> None:
        self._gateway.break_off()

    def close(self) -> None:
        self._gateway.close()


class EtcdDatabase:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._turn = itertools.count()
        try:
            gateway = self.gateway()
            try:
                self._version = gateway.version()
            finally:
                gateway.close()
        except (ConnectionLost, StatementFailed) as error:
            raise DatabaseUnavailable(f"{cluster.shown}: no etcd answers: {error.reason}") from None

    def gateway(self) -> Gateway:
        """A connection to the next member in turn that answers, so that sessions are spread over all of them."""
        members = self._cluster.endpoints
        first = next(self._turn)
        for number in range(first, first + len(members) - 1):
            with suppress(ConnectionLost):
                return Gateway(members[number % len(members)], self._cluster)
        return Gateway(members[(first - 1) % len(members)], self._cluster)

    def version(self) -> str:
        return f"etcd {self._version}"

    def offers(self) -> tuple[Offer, ...]:
        return _OFFERS

    def create(self, table: Table) -> None:
        first = b"0" if table.kind is Kind.REGISTERS else b""
        names = [key_name(table, key) for key in range(table.keys)]
        nothing_there = {**keys_of(table), "target": "CREATE", "result": "EQUAL", "create_revision": 0}
        try:
            gateway = self.gateway()
            try:
                # The name of the table is a key too, so that a table without keys is there.
                body: dict[str, Any] = {"compare": [nothing_there], "success": [_put(key_name(table, ""), b"")]}
                if not gateway.ask("/v3/kv/txn", body).get("succeeded", False):
                    raise DatabaseUnavailable(
                        f"{self._cluster.shown}: there are keys that begin with '{table.name}/' already"
                    )
                for start in range(0, len(names), _REQUESTS_MAX):
                    batch = [_put(name, first) for name in names[start : start + _REQUESTS_MAX]]
                    gateway.ask("/v3/kv/txn", {"success": batch})
            finally:
                gateway.close()
        except (ConnectionLost, StatementFailed) as error:
            raise DatabaseUnavailable(
                f"{self._cluster.shown}: cannot make the keys of '{table.name}/': {error.reason}"
            ) from None

    def connect(self, table: Table) -> EtcdConnection:
        return EtcdConnection(self.gateway(), table)

    def drop(self, table: Table) -> None:
        gateway = self.gateway()
        try:
            gateway.ask("/v3/kv/deleterange", dict(keys_of(table)))
        finally:
            gateway.close()

    def close(self) -> None:
        """Nothing is kept open between connections."""


def _open(url: str) -> Database:
    return EtcdDatabase(cluster_of(url))


ADAPTER = Adapter(
    name="etcd",
    schemes=("etcd",),
    example="etcd://HOST:2379, or etcd://HOST,HOST,HOST for a cluster",
    offers=_OFFERS,
    abilities=(
        Ability(Feature.TRANSACTIONS, True, "reads at one revision, and one request that compares and writes"),
        Ability(Feature.COMPARE_AND_SET, True, "one request; a failed one shows the value"),
        Ability(Feature.LISTS, True, "text, read and written back longer; the commit aborts if it changed meanwhile"),
        Ability(Feature.DELETES, True, "deletes, and inserts that compare with absence"),
        Ability(Feature.SQL, False, "etcd has no query language"),
        Ability(Feature.PREDICATES, False, "etcd reads keys and ranges of keys, not values that meet a condition"),
        Ability(Feature.ORDER, True, "the revision of a commit is its place in the order; the log is watched"),
    ),
    open=_open,
    removal="etcdctl del --prefix {table}/",
)
