"""What a real TiDB answered, statement by statement, and the same answers played again without a server.

    python tests/tidb_recording.py mysql://root@127.0.0.1:4000/test

asks a live server and writes ``tests/samples/tidb/``. A *scene* is a function of our own adapter on one thread: recorded, every
statement that the adapter sends is kept with its answer; replayed, it has to send the same ones again. A *run* is one of many
sessions: its history, what they heard, and what the status port told of the versions.
"""

from __future__ import annotations

import json
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

from isolde.databases import Kind, Offer, Table, mariadb, open_database
from isolde.databases.recoveries import begin_recovery, tidb
from isolde.databases.recovery import Account, Ended, Lookup, Scope
from isolde.errors import Aborted, StatementFailed
from isolde.history.certificate import Certificate, ObjectId, RowId
from isolde.levels import Level

PLACE = Path(__file__).parent / "samples" / "tidb"
URL = "mysql://root@127.0.0.1:4400/test"
OPTIMISTIC = "?tidb_txn_mode=optimistic"
_TABLE = Table("isolde_recorded", Kind.REGISTERS, 2)
RUNS: dict[str, tuple[str, ...]] = {
    "optimistic-keys": (OPTIMISTIC, "--certify", "--workload", "mini", "--keys", "6"),
    "pessimistic-keys": ("", "--certify", "--workload", "general", "--keys", "15"),
    "read-committed": ("", "--isolation", "read-committed", "--workload", "predicates", "--keys", "15"),
    "optimistic-predicates": (OPTIMISTIC, "--workload", "predicates", "--keys", "15"),
    "pessimistic-predicates": ("", "--workload", "predicates", "--keys", "15"),
}

# Scenes


def names_itself(url: str) -> dict[str, Any]:
    """Its name, its levels in both modes, and what it says to one that it does not have."""
    _, database = open_database(url)
    _, cautious = open_database(url + OPTIMISTIC)
    connection = database.connect(_TABLE)
    refused = ""
    try:
        connection.begin(Offer("serializable", "SERIALIZABLE", Level.SERIALIZABLE))
    except StatementFailed as error:
        refused = f"{error.code}: {error.reason}"
    connection.close()
    levels = [[(offer.name, offer.claims.value) for offer in one.offers()] for one in (database, cautious)]
    return {"version": database.version(), "levels": levels, "refused": refused}


def two_modes(url: str) -> dict[str, Any]:
    """A write skew and a conflict at COMMIT in the optimistic mode; a swap of what is newer than the snapshot in the pessimistic."""
    adapter, database = open_database(url + OPTIMISTIC)
    offer = database.offers()[-1]
    database.create(_TABLE)
    recovery = begin_recovery(adapter, database, Scope.of_keys(_TABLE), (offer,))
    one, two = _Session(recovery.connect(_TABLE)), _Session(recovery.connect(_TABLE))
    for session, name in ((one, "skew.1"), (two, "skew.2")):
        session.begin(name, offer)
        session.read(0)
        session.read(1)
    one.write(0, 10)
    two.write(1, 20)
    accounts = [one.commit(), two.commit()]
    for session, name in ((one, "lost.1"), (two, "lost.2")):
        session.begin(name, offer)
        session.read(0)
    one.write(0, 11)
    two.write(0, 21)
    accounts += [one.commit(), two.commit()]
    skewed = recovery.recover(accounts)
    _, database = open_database(url)
    offer = database.offers()[-1]
    recovery = begin_recovery(adapter, database, Scope.of_keys(_TABLE), (offer,))
    one, two = _Session(recovery.connect(_TABLE)), _Session(recovery.connect(_TABLE))
    one.begin("swap.1", offer)
    one.read(0)
    two.begin("swap.2", offer)
    two.write(0, 30)
    accounts = [two.commit()]
    one.swap(0, 30, 40)
    accounts.append(one.commit())
    swapped = recovery.recover(accounts)
    database.drop(_TABLE)
    return {"optimistic": skewed, "pessimistic": swapped, "conflict": two.conflict or one.conflict}


class _Session:
    """A session of a scene: what it heard becomes accounts."""

    conflict = ""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._name, self._heard = "", list[tuple[int, object]]()

    def begin(self, name: str, offer: Offer) -> None:
        self._name, self._heard = name, []
        self._connection.begin(offer)

    def _note(self) -> None:
        self._heard.append((len(self._heard), self._connection.heard()))

    def read(self, key: int) -> None:
        self._connection.read(key)
        self._note()

    def write(self, key: int, value: int) -> None:
        self._connection.write(key, value)
        self._note()

    def swap(self, key: int, expected: int, new: int) -> None:
        assert self._connection.compare_and_set(key, expected, new).applied
        self._note()

    def commit(self) -> Account:
        ended = Ended.COMMITTED
        try:
            self._connection.commit()
        except Aborted as error:
            _Session.conflict = f"{error.code} {error.word}"
            ended = Ended.ABORTED
            self._connection.rollback()
        return Account(self._name, ended, 0, tuple(self._heard))


SCENES: dict[str, Callable[[str], dict[str, Any]]] = {"names-itself": names_itself, "two-modes": two_modes}

# Statements and their answers


class _Kept:
    """One connection's statements with their answers."""

    def __init__(self) -> None:
        self.said: list[list[Any]] = []


class _RecordingCursor:
    def __init__(self, cursor: Any, kept: _Kept) -> None:
        self._cursor, self._kept = cursor, kept

    def execute(self, text: str, parameters: Any) -> None:
        asked = [text, list(parameters) if parameters else None]
        try:
            self._cursor.execute(text, parameters)
        except Exception as error:
            self._kept.said.append([*asked, {"error": list(error.args)}])
            raise
        rows = [list(row) for row in self._cursor.fetchall()] if self._cursor.description else None
        answer = {"rows": rows, "count": self._cursor.rowcount}
        self._kept.said.append([*asked, answer])
        self._rows, self.rowcount, self.description = iter(rows or []), answer["count"], rows is not None

    def fetchone(self) -> tuple[Any, ...] | None:
        return next((tuple(row) for row in self._rows), None)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._rows]


class _ReplayingCursor(_RecordingCursor):
    def __init__(self, said: Iterator[list[Any]], error: type[Exception]) -> None:
        self._said, self._error = said, error

    def execute(self, text: str, parameters: Any) -> None:
        recorded, given, answer = next(self._said)
        assert (text, list(parameters) if parameters else None) == (recorded, given)
        if "error" in answer:
            raise self._error(*answer["error"])
        rows = answer["rows"]
        self._rows, self.rowcount, self.description = iter(rows or []), answer["count"], rows is not None


class _Connection:
    def __init__(self, cursor: Any, close: Callable[[], None] = lambda: None) -> None:
        self._cursor, self.close = cursor, close
        self._ends = socket.socketpair()
        self.fileno = self._ends[0].fileno

    def cursor(self) -> Any:
        return self._cursor


class _Driver:
    def __init__(self, error: type[Exception], connect: Callable[..., Any]) -> None:
        self.Error, self.connect = error, connect


@contextmanager
def _asked_of(driver: Any, told: Callable[[Any, Any, str], bytes]) -> Iterator[None]:
    with (
        patch.object(mariadb, "_driver", lambda _: driver),
        patch.object(tidb.Status, "ask", told),
        patch.object(tidb.Status, "connection", lambda _: socket.socket()),
    ):
        yield


def recorded(scene: str, url: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a scene gives on a live server, and everything that the server said."""
    real = mariadb._driver(url)
    connections: list[_Kept] = []
    bodies: list[list[str]] = []
    ask, connection = tidb.Status.ask, tidb.Status.connection

    def connect(**arguments: Any) -> _Connection:
        connections.append(_Kept())
        made = real.connect(**arguments)
        return _Connection(_RecordingCursor(made.cursor(), connections[-1]), made.close)

    def told(status: tidb.Status, _: Any, path: str) -> bytes:
        opened = connection(status)
        body = ask(status, opened, path)
        opened.close()
        bodies.append([path, body.decode()])
        return body

    with _asked_of(_Driver(real.Error, connect), told):
        result = SCENES[scene](url)
    return result, {"connections": [kept.said for kept in connections], "bodies": bodies}


def replayed(scene: str) -> dict[str, Any]:
    """What a scene gives on the recorded answers."""
    kept = json.loads((PLACE / f"{scene}.json").read_text())
    said, bodies = iter(kept["connections"]), iter(kept["bodies"])

    class Error(Exception):
        pass

    def connect(**_: Any) -> _Connection:
        return _Connection(_ReplayingCursor(iter(next(said)), Error))

    def told(_: tidb.Status, __: Any, path: str) -> bytes:
        recorded, body = next(bodies)
        assert path == recorded
        return str(body).encode()

    with _asked_of(_Driver(Error, connect), told):
        return SCENES[scene](URL)


# Runs of many sessions


def record_run(name: str, url: str) -> None:
    """A run on a live server: its history, what its sessions heard, and what the status port told."""
    from running import ran

    mode, *options = RUNS[name]
    kept: dict[str, Any] = {"bodies": {}}
    parsed, put_together = tidb.versions_of, tidb.certificate_of
    asking: list[str] = []
    ask = tidb.Status.ask

    def told(status: tidb.Status, connection: Any, path: str) -> bytes:
        asking.append(path)
        return ask(status, connection, path)

    def heard(body: bytes) -> Any:
        kept["bodies"][asking[-1]] = json.loads(body)
        return parsed(body)

    def together(source: str, stored: Any, accounts: Any, since: int, finds: Any) -> Certificate:
        kept["source"], kept["since"] = source, since
        kept["rows"] = [[_thing(thing), path] for thing, path in zip(stored, kept["bodies"], strict=True)]
        kept["accounts"] = [_account(account) for account in accounts]
        return put_together(source, stored, accounts, since, finds)

    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "run"
        with (
            patch.object(tidb.Status, "ask", told),
            patch.object(tidb, "versions_of", heard),
            patch.object(tidb, "certificate_of", together),
        ):
            ran(place, url + mode, "--transactions", "120", "--sessions", "6", *options)
        (PLACE / f"{name}.jsonl").write_bytes((place / "history.jsonl").read_bytes())
    (PLACE / f"{name}.json").write_text(json.dumps(kept, separators=(",", ":")) + "\n")


def certificate_of_run(name: str) -> Certificate:
    """The certificate of a recorded run, made again of what was heard and told."""
    kept = json.loads((PLACE / f"{name}.json").read_text())
    stored = {}
    for thing, path in kept["rows"]:
        versions = tidb.versions_of(json.dumps(kept["bodies"][path]).encode())
        assert versions is not None
        stored[_as_thing(thing)] = versions
    accounts = [_as_account(account) for account in kept["accounts"]]
    return tidb.certificate_of(kept["source"], stored, accounts, kept["since"], _nothing)


def _nothing(_: Lookup, __: int) -> frozenset[ObjectId]:
    raise AssertionError("no statement of these runs has to be asked about again")


def _thing(thing: ObjectId) -> Any:
    return [thing.table, list(thing.key)] if isinstance(thing, RowId) else thing


def _as_thing(value: Any) -> ObjectId:
    return RowId(value[0], tuple(value[1])) if isinstance(value, list) else value


def _account(account: Account) -> list[Any]:
    operations = []
    for place, heard in account.operations:
        assert isinstance(heard, tidb.Heard)
        keys = None if heard.keys is None else [_thing(key) for key in heard.keys]
        operations.append([place, {**asdict(heard), "keys": keys}])
    return [account.transaction, account.ended.value, operations]


def _as_account(told: list[Any]) -> Account:
    name, ended, operations = told
    heard = []
    for place, fields in operations:
        keys = None if fields["keys"] is None else tuple(_as_thing(key) for key in fields["keys"])
        lookup = None if fields["lookup"] is None else Lookup(**fields["lookup"])
        heard.append((place, tidb.Heard(**{**fields, "keys": keys, "lookup": lookup})))
    return Account(name, Ended(ended), 0, tuple(heard))


if __name__ == "__main__":
    (address,) = sys.argv[1:]
    PLACE.mkdir(parents=True, exist_ok=True)
    for scene in SCENES:
        _, everything = recorded(scene, address)
        (PLACE / f"{scene}.json").write_text(json.dumps(everything, separators=(",", ":")) + "\n")
    for run in RUNS:
        record_run(run, address)
