"""Databases that do not answer, and tables that somebody keeps locked: every wait ends, and the verdict is told before it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from conftest import Servers
from isolde.databases import Connection, Database, Kind, SqlConnection, Table, mariadb, open_database, postgresql
from isolde.databases.servers import Running
from isolde.databases.waiting import aside, patiently
from isolde.errors import ConnectionLost, DatabaseUnavailable
from running import ISOLDE, fresh_signals, ran

Started = Callable[[str], Running]
NONE = Table("isolde_none", Kind.REGISTERS, 0)
FIND = {
    "postgresql": "SELECT tablename FROM pg_tables WHERE tablename LIKE 'isolde\\_%'",
    "mariadb": "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'isolde\\_%'",
}


@contextmanager
def looked_at(url: str, out: Path) -> Iterator[list[str]]:
    """Somebody reads the private table once the run has begun, and leaves his transaction open."""
    names: list[str] = []
    other = cast(SqlConnection, open_database(url)[1].connect(NONE))

    def look() -> None:
        deadline = time.monotonic() + 30
        while not list(out.glob("sessions/*")) and time.monotonic() < deadline:
            time.sleep(0.02)
        ((name,),) = other.execute(FIND[url.partition(":")[0]]).rows or []
        other.execute("BEGIN")
        other.execute(f"SELECT * FROM {name}")
        names.append(name)

    thread = threading.Thread(target=look)
    thread.start()
    yield names
    thread.join()
    other.execute("ROLLBACK")
    for name in names:
        other.execute(f"DROP TABLE IF EXISTS {name}")
    other.close()


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_table_that_somebody_keeps_locked_is_named_with_the_command_that_drops_it(
    kind: str, server: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (postgresql, mariadb):
        monkeypatch.setattr(module, "LOCK_S", 1.0)
    url, out = server(kind).url, tmp_path / "out"
    with looked_at(url, out) as names:
        result = ran(out, url, "--time", "2")
    assert (result.status, result.verdicts) == (0, ["satisfied"]), result.out + result.error
    assert f"the table {names[0]} could not be dropped" in result.error
    assert f"drop it with: DROP TABLE {names[0]}" in result.error
    assert len(result.error.splitlines()) == 1


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_server_that_stops_answering_for_good_ends_the_run(kind: str, servers: Servers, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with servers.private(kind) as server:
        paused = threading.Timer(3.0, server.pause)
        paused.start()
        result = ran(out, f"{server.url}?connect_timeout=1", "--time", "60", "--timeout", "1")
        paused.join()
        server.resume()
    assert result.status == 4
    assert result.verdicts == ["satisfied"]
    assert len(result.error.splitlines()) == 1
    assert "drop it with: DROP TABLE isolde_" in result.error


def test_a_postgresql_that_stops_answering_after_the_login_is_given_up(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    with servers.private("postgresql") as server:
        let_in = postgresql.PostgresqlDatabase._session

        def then_paused(self: Any, *arguments: Any) -> Any:
            session = let_in(self, *arguments)
            server.pause()
            return session

        monkeypatch.setattr(postgresql.PostgresqlDatabase, "_session", then_paused)
        with pytest.raises(DatabaseUnavailable, match="did not answer within 1 s"):
            open_database(f"{server.url}?connect_timeout=1")
        server.resume()


@contextmanager
def mute() -> Iterator[tuple[int, threading.Event]]:
    """A server that accepts everybody and says nothing to anybody; the event tells that somebody came."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        held: list[socket.socket] = []
        came = threading.Event()

        def accept() -> None:
            try:
                while True:
                    held.append(listener.accept()[0])
                    came.set()
            except OSError:
                return

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1], came
        for connection in held:
            connection.close()


@pytest.mark.parametrize("driver", ["MySQLdb", "pymysql"])
def test_a_mariadb_that_accepts_and_says_nothing_is_given_up(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if driver == "pymysql":
        monkeypatch.setitem(sys.modules, "MySQLdb", None)
    with mute() as (port, _), pytest.raises(DatabaseUnavailable):
        open_database(f"mariadb://root@127.0.0.1:{port}/test?connect_timeout=1")


@pytest.mark.parametrize("scheme", ["postgresql", "mariadb", "redis", "etcd"])
@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_wait_for_a_server_that_says_nothing(
    scheme: str, which: signal.Signals, tmp_path: Path
) -> None:
    with mute() as (port, came):
        url = f"{scheme}://root@127.0.0.1:{port}/0"
        if scheme in ("postgresql", "mariadb"):
            url += "?connect_timeout=50"
        process = subprocess.Popen(
            [*ISOLDE, "run", url], cwd=tmp_path, stderr=subprocess.PIPE, text=True, preexec_fn=fresh_signals
        )
        assert came.wait(60)
        time.sleep(0.2)
        assert process.poll() is None
        process.send_signal(which)
        _, error = process.communicate(timeout=30)
    assert (process.returncode, error.strip()) == (130, "isolde: interrupted")


def test_a_signal_ends_the_wait_for_a_locked_table(server: Started, tmp_path: Path) -> None:
    url, out = server("postgresql").url, tmp_path / "out"
    with looked_at(url, out) as names:
        process = subprocess.Popen(
            [*ISOLDE, "run", url, "--time", "2", "-o", str(out)],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=fresh_signals,
        )
        assert process.stdout is not None
        shown = [process.stdout.readline()]
        while shown[-1] and "serializable: satisfied" not in shown[-1]:
            shown.append(process.stdout.readline())
        assert shown[-1], shown
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=30)
    assert process.returncode == 0
    assert f"drop it with: DROP TABLE {names[0]}" in error


class Slow:
    def __init__(self) -> None:
        self._free = threading.Event()

    def ask(self) -> None:
        self._free.wait(30)
        raise ConnectionLost("broken off")

    def abandon(self) -> None:
        self._free.set()


def test_what_takes_too_long_is_broken_off_or_left_to_itself() -> None:
    slow = Slow()
    with pytest.raises(DatabaseUnavailable, match=r"within 0\.1 s"), patiently(slow, 0.1):
        slow.ask()
    with pytest.raises(DatabaseUnavailable, match=r"within 0\.1 s"):
        aside(lambda: time.sleep(5), 0.1)
    with pytest.raises(ConnectionLost), patiently(slow, 30):
        slow.ask()
    assert aside(lambda: 7) == 7


class Unreachable:
    """A database whose connections never come to be."""

    def __init__(self, inner: Database) -> None:
        self._inner, self._first = inner, True

    def connect(self, table: Table) -> Connection:
        if self._first:
            self._first = False
            return self._inner.connect(table)
        time.sleep(3600)
        raise AssertionError

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_a_driver_that_hangs_while_it_connects_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isolde.engines.record.run._STUCK_S", 0.5)
    adapter, database = open_database(f"sqlite:{tmp_path}/a.db")
    with closing(database):
        monkeypatch.setattr("isolde.campaigns.target.open_database", lambda _: (adapter, Unreachable(database)))
        result = ran(tmp_path / "out", "sqlite:", "--sessions", "2", "--timeout", "0.2", "--keep", "--time", "60")
    assert result.status == 4
    assert "let nobody in" in result.error
