"""Private servers: they keep what was committed, stop where they are told to, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from conftest import Servers
from isolde.databases import Connection, Database, Kind, Table, offer_named, open_database
from isolde.databases.servers import KINDS, Running, available, process, start
from isolde.databases.servers.directory import HeldDirectory
from isolde.databases.servers.process import free_port
from isolde.databases.servers.proxy import Proxy
from isolde.errors import ConnectionLost, UsageError

SQL_KINDS = ("postgresql", "mariadb")
TABLE = Table("kept", Kind.REGISTERS, 4)


@pytest.fixture(params=SQL_KINDS, scope="module")
def private(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Running]:
    with servers.private(request.param) as server:
        yield server


@contextmanager
def opened(url: str) -> Iterator[Database]:
    with closing(open_database(url)[1]) as database:
        database.create(TABLE)
        try:
            yield database
        finally:
            database.drop(TABLE)


def write(database: Database, value: int) -> None:
    with closing(database.connect(TABLE)) as connection:
        connection.begin(offer_named(database, "serializable"))
        connection.write(0, value)
        connection.commit()


def read(database: Database) -> bytes:
    with closing(database.connect(TABLE)) as connection:
        connection.begin(offer_named(database, "serializable"))
        value = connection.read(0)
        connection.commit()
        return value


def in_transaction(database: Database, value: int) -> Connection:
    connection = database.connect(TABLE)
    connection.begin(offer_named(database, "serializable"))
    connection.write(0, value)
    return connection


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if not process._gone(pid)]


def pids(server: Running) -> list[int]:
    return [pid for node in server.nodes for pid in node._pids()]


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def test_a_killed_server_keeps_what_was_committed_and_nothing_else(private: Running) -> None:
    with opened(private.url) as database:
        write(database, 7)
        for _ in range(3):
            pending = in_transaction(database, 8)
            before = pids(private)
            private.kill()
            assert alive(before) == []
            with pytest.raises(ConnectionLost):
                pending.commit()
            pending.close()
            with pytest.raises(ConnectionLost):
                database.connect(TABLE)
            private.start()
            assert read(database) == b"7"


def test_a_server_that_was_shut_down_starts_again(private: Running) -> None:
    with opened(private.url) as database:
        write(database, 7)
        before = pids(private)
        private.shut_down()
        assert alive(before) == []
        private.start()
        assert read(database) == b"7"


def test_a_paused_server_says_nothing_until_it_is_resumed(private: Running) -> None:
    with opened(private.url) as database:
        write(database, 7)
        connection = in_transaction(database, 8)
        private.pause()
        done = threading.Event()

        def commit() -> None:
            connection.commit()
            done.set()

        thread = threading.Thread(target=commit)
        thread.start()
        assert not done.wait(0.3)
        private.resume()
        assert done.wait(10)
        thread.join()
        connection.close()
        assert read(database) == b"8"


def test_a_statement_that_never_returns_can_be_abandoned(private: Running) -> None:
    with opened(private.url) as database:
        connection = in_transaction(database, 8)
        private.pause()
        threading.Timer(0.2, connection.abandon).start()
        try:
            with pytest.raises(ConnectionLost):
                connection.read(1)
            connection.abandon()
            connection.close()
        finally:
            private.resume()
        assert read(database) == b"0"


def test_a_network_that_breaks_at_commit_leaves_the_outcome_open(private: Running) -> None:
    with Proxy(private.nodes[0].place.port) as proxy:
        through = private.url.replace(f":{private.nodes[0].place.port}/", f":{proxy.port}/")
        with opened(through) as database:
            write(database, 7)
            connection = in_transaction(database, 8)
            proxy.sever()
            with pytest.raises(ConnectionLost):
                connection.commit()
            connection.close()
            proxy.heal()
            assert eventually(lambda: read(database) == b"7")


def test_fifty_sessions_are_served(private: Running) -> None:
    with opened(private.url) as database:
        connections = [database.connect(TABLE) for _ in range(50)]
        for connection in connections:
            connection.begin(offer_named(database, "read-committed"))
            assert connection.read(0) == b"0"
        for connection in connections:
            connection.commit()
            connection.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs servers as somebody else")
def test_a_server_does_not_run_as_root(private: Running) -> None:
    owners = [owner for pid in pids(private) if (owner := _owner(pid)) is not None]
    assert owners
    assert 0 not in owners


def _owner(pid: int) -> int | None:
    """Whose process it is; None for one that has ended: a server also starts some that live for a moment only."""
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except FileNotFoundError:
        return None


def test_a_server_tells_its_version(private: Running) -> None:
    assert any(character.isdigit() for character in private.version)
    assert "\n" not in private.version


@pytest.mark.parametrize("kind", SQL_KINDS)
def test_a_stopped_server_leaves_neither_processes_nor_files(servers: Servers, kind: str) -> None:
    server = servers.private(kind)
    before, place = pids(server), server.nodes[0].place
    assert before[0] in alive(before)
    assert place.directory.exists()
    server.stop()
    assert alive(before) == []
    assert not place.directory.exists()


def test_a_server_outlives_the_thread_that_started_it_again(private: Running) -> None:
    private.kill()
    thread = threading.Thread(target=private.start)
    thread.start()
    thread.join()
    time.sleep(0.3)
    assert alive(pids(private))
    with opened(private.url) as database:
        assert read(database) == b"0"


@pytest.mark.parametrize("kind", SQL_KINDS)
def test_a_server_dies_with_us_even_if_we_are_killed(
    servers: Servers, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers.private(kind).stop()
    script = (
        "import sys, time\n"
        "from isolde.databases.servers import start\n"
        f"server = start({kind!r})\n"
        "print(*server.nodes[0]._pids(), flush=True)\n"
        "time.sleep(60)\n"
    )
    environment = os.environ | {"TMPDIR": str(_open_to_all(tmp_path))}
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment)
    assert child.stdout is not None
    started = [int(word) for word in child.stdout.readline().split()]
    assert started
    assert started[0] in alive(started)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert eventually(lambda: alive(started) == [])
    # Its directory could not be removed by somebody who was killed; whoever starts a server next does that.
    left = list(tmp_path.glob("isolde-*"))
    assert left
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with servers.private("redis") as other:
        assert not any(path.exists() for path in left)
        HeldDirectory("unused").remove()
        assert other.nodes[0].place.directory.exists()
    assert list(tmp_path.glob("isolde-*")) == []


def _open_to_all(directory: Path) -> Path:
    """A directory that the server's user can get to: pytest closes its own to others."""
    for place in (directory, directory.parent, directory.parent.parent):
        place.chmod(0o755)
    return directory


def test_a_port_that_is_taken_meanwhile_is_given_up(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = [taken.getsockname()[1]]
        monkeypatch.setattr(process, "free_port", lambda: ports.pop() if ports else free_port())
        with servers.private("postgresql") as server:
            assert ports == []
            assert f":{taken.getsockname()[1]}/" not in server.url


def test_settings_reach_the_server(servers: Servers) -> None:
    with servers.private("postgresql", default_transaction_isolation="serializable", fsync=False) as server:
        database = open_database(server.url)[1]
        with closing(database.connect(TABLE)) as connection:
            shown = [connection.execute(f"SHOW {name}").rows for name in ("default_transaction_isolation", "fsync")]  # type: ignore[attr-defined]
        assert shown == [[("serializable",)], [("off",)]]


def test_every_kind_is_there_or_says_why_not() -> None:
    found = available()
    assert tuple(entry.kind for entry in found) == KINDS
    for entry in found:
        assert (entry.program is None) == bool(entry.reason)
        assert "\n" not in entry.reason


def test_programs_that_are_nowhere_are_named_with_the_way_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("isolde.databases.servers.mariadb._SYSTEM", "/nonexistent")
    reasons = {entry.kind: entry.reason for entry in available()}
    assert reasons["mariadb"] == "mariadb: no program 'mariadbd' was found; install mariadb-server (Debian)"


def test_an_unknown_kind_or_setting_is_refused() -> None:
    with pytest.raises(UsageError, match="no private server of kind 'oracle'"):
        start("oracle")
    with pytest.raises(UsageError, match="nodes cannot be started"):
        start("galera", nodes=1)


@pytest.mark.long
def test_a_cluster_survives_the_loss_of_a_node(servers: Servers) -> None:
    with servers.private("galera", nodes=3) as cluster, opened(cluster.url + "?wsrep_sync_wait=15") as database:
        write(database, 7)
        cluster.nodes[2].kill()
        nodes = [node.url for node in cluster.nodes]
        survivors = [f"{url}?wsrep_sync_wait=15" for url in nodes[:2]]
        for url in survivors:
            assert eventually(lambda url=url: _reads(url, b"7"))  # type: ignore[misc]
        cluster.nodes[2].start()
        assert eventually(lambda: _reads(f"{nodes[2]}?wsrep_sync_wait=15", b"7"))


def _reads(url: str, value: bytes) -> bool:
    try:
        return read(open_database(url)[1]) == value
    except ConnectionLost:
        return False


def test_a_cluster_that_was_killed_whole_comes_back_whole(servers: Servers) -> None:
    with servers.private("galera") as cluster, opened(cluster.url + "?wsrep_sync_wait=15") as database:
        for end in (cluster.kill, cluster.shut_down):
            write(database, 7)
            end()
            cluster.start()
            assert [_reads(f"{node.url}?wsrep_sync_wait=15", b"7") for node in cluster.nodes] == [True, True]
