"""Every workload on every adapter while sessions get into each other's way: whatever is recorded can be read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from isolde.campaigns import keyvalue as run_module
from isolde.databases import Connection, Kind, Offer, Swap, Table, open_database
from isolde.databases.servers import Running
from isolde.engines.record import Run, Watcher, client, finish, keyvalue_job
from isolde.errors import Aborted, ConnectionLost, IsoldeError
from isolde.formats import decode, read
from isolde.history import CompareAndSet, Status, Write
from isolde.levels import Level
from isolde.workloads import WORKLOADS, Settings, Workload
from running import ran

Started = Callable[[str], Running]

PLACES = [
    ("sqlite", "", "deferred"),
    ("sqlite", "", "immediate"),
    ("duckdb", "", "snapshot"),
    ("postgresql", "", "read-committed"),
    ("postgresql", "", "repeatable-read"),
    ("postgresql", "", "serializable"),
    ("mariadb", "", "read-uncommitted"),
    ("mariadb", "", "read-committed"),
    ("mariadb", "", "repeatable-read"),
    ("mariadb", "?innodb_snapshot_isolation=ON", "repeatable-read"),
    ("mariadb", "", "serializable"),
    ("galera", "", "serializable"),
    ("etcd", "", "serializable"),
    ("etcd", "", "single"),
    ("redis", "", "unwatched"),
    ("redis", "", "watch"),
    ("redis", "", "single"),
    ("valkey", "", "watch"),
]
_SLOW = ("duckdb", "etcd", "galera")
_EMBEDDED = ("sqlite", "duckdb")
# Levels for transactions of one operation.
_SINGLE = [workload.name for workload in WORKLOADS if workload.operations == 1]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
@pytest.mark.parametrize(("kind", "options", "isolation"), PLACES, ids=lambda text: text or "-")
def test_every_workload_keeps_the_promise_of_every_level(
    kind: str, options: str, isolation: str, workload: Workload, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if isolation == "single" and workload.name not in _SINGLE:
        return
    server: Started = request.getfixturevalue("server")
    url = f"{kind}:" if kind in _EMBEDDED else server(kind).url + options
    size = ("--transactions", "50" if kind in _SLOW else "100", "--keys", "3", "--sessions", "8")
    result = ran(tmp_path / "out", url, "--isolation", isolation, "--workload", workload.name, *size)
    assert (result.status, result.verdicts) == (0, ["satisfied"]), result.out + result.error
    run = result.run
    assert len(result.history.transactions) == run["committed"] + run["aborted"] + run["unknown"]


@pytest.mark.parametrize("workload", [w for w in WORKLOADS if w.kind is Kind.REGISTERS], ids=lambda w: w.name)
@pytest.mark.parametrize("kind", ["sqlite", "duckdb", "postgresql", "mariadb", "etcd", "redis"])
def test_every_workload_is_recorded_with_deletes(
    kind: str, workload: Workload, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    server: Started = request.getfixturevalue("server")
    url = f"{kind}:" if kind in _EMBEDDED else server(kind).url
    size = ("--transactions", "60", "--keys", "3", "--sessions", "8", "--deletes", "0.2")
    result = ran(tmp_path / "out", url, "--workload", workload.name, *size)
    # Deletes repeat, so that a level may stay undecided; and some databases break their promise. What counts here is the recording.
    assert result.status in (0, 1, 3), result.out + result.error
    run = result.run
    assert len(result.history.transactions) == run["committed"] + run["aborted"] + run["unknown"]


def test_a_list_that_is_appended_to_may_be_newer_than_what_mariadb_reads(server: Started, tmp_path: Path) -> None:
    """REPEATABLE READ without snapshot isolation claims no more of lists than what a healthy server keeps."""
    size = ("--workload", "append", "--keys", "4", "--isolation", "repeatable-read", "--transactions", "1000")
    url = server("mariadb").url
    claimed = ran(tmp_path / "claimed", url, *size)
    assert (claimed.status, claimed.run["claims"]) == (0, "pl-2"), claimed.out
    more = ran(tmp_path / "more", url, *size, "--check", "read-atomic")
    assert more.status == 1
    registers = ran(tmp_path / "registers", url, "--isolation", "repeatable-read")
    assert registers.run["claims"] == "prefix"


class Refusing:
    """A connection whose calls end in errors now and then: each kind of call, each kind of error, in turn."""

    def __init__(self, inner: Connection, errors: Iterator[IsoldeError | None]) -> None:
        self._inner, self._errors = inner, errors

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name not in ("read", "write", "insert", "delete", "append", "compare_and_set", "commit"):
            return method

        def call(*arguments: Any) -> Any:
            error = next(self._errors)
            if error is not None:
                self._inner.rollback()
                raise error
            return method(*arguments)

        return call


class RefusingDatabase:
    def __init__(self, errors: Sequence[IsoldeError]) -> None:
        self.inner = open_database("sqlite:")[1]
        # A number of calls that has no divisor in common with that of operations in a transaction: each kind meets each error.
        self._errors = cycle([error for fault in errors for error in (None, None, None, None, fault)])

    def connect(self, table: Table) -> Any:
        return Refusing(self.inner.connect(table), self._errors)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


ABORTS = [Aborted("refused")]
LOSSES = [Aborted("refused"), ConnectionLost("gone"), ConnectionLost("gone, or not", maybe_applied=True)]


@pytest.mark.parametrize("errors", [ABORTS, LOSSES], ids=["aborts", "losses"])
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_an_operation_without_an_answer_is_closed_by_the_end_of_its_transaction(
    workload: Workload, errors: Sequence[IsoldeError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_AFTER_A_LOSS_S", (0.0, 0.0))
    database = RefusingDatabase(errors)
    offer = database.inner.offers()[0]
    table = Table("isolde_test", workload.kind, 3)
    database.inner.create(table)
    deletes = 0.3 if workload.kind is Kind.REGISTERS else 0.0
    settings = Settings(workload, 3, deletes=deletes)
    job = keyvalue_job(database, table, offer, settings, sessions=2, directory=tmp_path / "out", meta={})
    outcome = Run(replace(job, transactions=120, seconds=3.0), Watcher()).wait()
    assert outcome.failure is None
    path = finish(tmp_path / "out")
    history = decode(read(str(path)))
    tally = outcome.tally
    assert len(history.transactions) == tally.committed + tally.aborted + tally.unknown
    assert tally.aborted > 10
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    assert all(len(op) in (5, 6) for line in lines for op in line["ops"] if op[0] == "cas")
    unknown = [op for t in history.transactions if t.status is Status.UNKNOWN for op in t.ops]
    assert errors is ABORTS or unknown
    database.inner.close()


def test_an_aborted_compare_and_set_is_recorded_as_what_it_meant_to_write(tmp_path: Path) -> None:
    class Aborting:
        def begin(self, offer: Offer) -> None: ...
        def rollback(self) -> None: ...
        def close(self) -> None: ...
        def write(self, *_: Any) -> None: ...
        def read(self, _: int) -> bytes:
            return b"0"

        def compare_and_set(self, *_: Any) -> Swap:
            raise Aborted("refused")

        def commit(self) -> None: ...

    class Database:
        def connect(self, _: Table) -> Any:
            return Aborting()

    workload = next(entry for entry in WORKLOADS if entry.name == "cas")
    offer = Offer("any", "any", Level.SERIALIZABLE)
    table = Table("t", Kind.REGISTERS, 2)
    job = keyvalue_job(
        Database(),  # type: ignore[arg-type]
        table,
        offer,
        Settings(workload, 2),
        sessions=1,
        directory=tmp_path / "out",
        meta={},
    )
    Run(replace(job, transactions=30), Watcher()).wait()
    history = decode(read(str(finish(tmp_path / "out"))))
    aborted = [op for t in history.transactions if t.status is Status.ABORTED for op in t.ops]
    assert aborted
    assert all(isinstance(op, Write) for op in aborted)
    assert not any(isinstance(op, CompareAndSet) for t in history.transactions for op in t.ops)


def test_a_run_in_which_nothing_was_committed_says_nothing_about_a_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else holds the write lock for the whole run."""
    monkeypatch.setattr("isolde.databases.sqlite._LOCK_WAIT_S", 0.1)
    path = tmp_path / "locked.db"
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA journal_mode = WAL")
    command = ("--isolation", "immediate", "--time", "1", "--timeout", "0.3", "--sessions", "1", "--keep")
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)

    def hold(*_: Any) -> None:
        holder.execute("BEGIN IMMEDIATE")

    with patch("isolde.campaigns.keyvalue._record", _after(hold)):
        result = ran(tmp_path / "out", f"sqlite:{path}", *command)
    holder.close()
    assert result.status == 3, result.out + result.error
    assert result.verdicts == ["unknown"]
    assert "no transaction was committed" in result.document["results"][0]["reason"]
    assert "strongest_satisfied" not in result.document


def _after(action: Callable[[], None]) -> Callable[..., Any]:
    record = run_module._record

    def recorded(*arguments: Any) -> Any:
        action()
        return record(*arguments)

    return recorded
