"""Private servers are private: no other user of the machine gets in, and nothing of another is removed."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from conftest import Servers
from isolde.databases import Kind, Table, open_database
from isolde.databases.servers import KINDS, Running
from isolde.databases.servers.directory import _LOCK, HeldDirectory, _mark, remove_left_behind
from isolde.errors import IsoldeError
from running import as_user, fresh_signals

# Nobody's number: neither ours nor a server's.
STRANGER = 61_234
ACCOUNTS = {
    "postgresql": ("postgres",),
    "mariadb": ("root", "mysql", "mariadb.sys", "%20"),
    "galera": ("root", "mysql", "mariadb.sys", "%20"),
    "etcd": ("root",),
    "redis": ("", "default"),
    "valkey": ("", "default"),
}


def by_a_stranger(question: Callable[[], str]) -> str:
    """What another user of the machine finds."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(STRANGER, STRANGER, STRANGER)
            os.setresuid(STRANGER, STRANGER, STRANGER)
            os.write(writer, question().encode())
        except BaseException as error:
            os.write(writer, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        found = answer.read()
    os.waitpid(child, 0)
    return found


def attempts(running: Running, accounts: tuple[str, ...]) -> Iterator[str]:
    plain = as_user(running.url, "nobody").replace("nobody@", "")
    yield plain
    for account in accounts:
        yield as_user(running.url, account)
        yield as_user(running.url, account, "password")
        yield as_user(running.url, account, account or "redis")


def let_in(urls: list[str]) -> str:
    entered = []
    for url in urls:
        try:
            # Which version an etcd is, it tells everybody; that is all.
            open_database(url)[1].create(Table("isolde_stranger", Kind.REGISTERS, 1))
            entered.append(url)
        except IsoldeError:
            continue
    return "tried; " + "".join(entered)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("kind", KINDS)
def test_no_other_user_gets_in(kind: str, server: Callable[[str], Running]) -> None:
    running = server(kind)
    # We do get in, so that what follows is no accident; and all modules are loaded, which a stranger may not be able to read.
    assert open_database(running.url)[1].version()
    urls = list(attempts(running, ACCOUNTS[kind]))
    assert by_a_stranger(lambda: let_in(urls)) == "tried; "
    for node in running.nodes:
        directory = node.place.directory
        assert by_a_stranger(lambda directory=directory: str(os.access(directory, os.R_OK | os.X_OK))) == "False"  # type: ignore[misc]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_etcd_tells_a_stranger_nothing_and_takes_nothing_from_him(server: Callable[[str], Running]) -> None:
    running = server("etcd")
    port = running.nodes[0].place.port

    def ask() -> str:
        said = []
        for path, body in (
            ("/v3/kv/range", '{"key": "AA==", "range_end": "AA=="}'),
            ("/v3/kv/put", '{"key": "YQ==", "value": "YQ=="}'),
            ("/v3/auth/user/add", '{"name": "me", "password": "me"}'),
            ("/v3/auth/disable", "{}"),
        ):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("POST", path, body)
            said.append(str(connection.getresponse().status))
            connection.close()
        return " ".join(said)

    assert "200" not in by_a_stranger(ask)


def test_who_has_no_key_is_not_let_into_the_group_of_a_cluster(server: Callable[[str], Running]) -> None:
    cluster = server("galera")
    words = " ".join(cluster._recipes[0].command(cluster.nodes[0].place))  # type: ignore[attr-defined]
    found = re.search(r"base_port=(\d+)", words)
    assert found is not None
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    plain = socket.create_connection(("127.0.0.1", int(found[1])), timeout=10)
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"), anybody.wrap_socket(plain) as stranger:
        stranger.recv(1)


def test_an_etcd_has_no_port_for_other_members(server: Callable[[str], Running]) -> None:
    place = server("etcd").nodes[0].place
    assert (place.directory / "peer:0").is_socket()


@pytest.mark.parametrize("kind", KINDS)
def test_no_secret_is_among_what_everybody_can_read_of_processes(kind: str, server: Callable[[str], Running]) -> None:
    for node in server(kind).nodes:
        for pid in node._pids():
            with suppress(FileNotFoundError):
                assert node.place.secret.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert node.place.secret not in repr(node.place)
        for path in node.place.directory.iterdir():
            assert (
                not path.stat().st_mode & 0o077
                or path.is_dir()
                or path.is_socket()
                or _tells_nothing(path, node.place.secret)
            )


def _tells_nothing(path: Path, secret: str) -> bool:
    """The directory is closed to others; all the same, what is open in it has to hold no secret."""
    return secret.encode() not in path.read_bytes()


@contextmanager
def temporary() -> Iterator[Path]:
    """A directory for temporary files that the users of servers can get to."""
    with tempfile.TemporaryDirectory(prefix="closed-") as name:
        place = Path(name)
        place.chmod(0o755)
        yield place


@pytest.mark.parametrize(("kind", "program"), [("postgresql", "initdb"), ("mariadb", "mariadb-install-db")])
def test_a_kill_while_a_server_is_prepared_leaves_neither_processes_nor_files(
    kind: str, program: str, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers.shared(kind)
    with temporary() as place:
        script = f"from isolde.databases.servers import start; start({kind!r})"
        child = subprocess.Popen(
            [sys.executable, "-c", script], env=os.environ | {"TMPDIR": str(place)}, preexec_fn=fresh_signals
        )
        assert eventually(lambda: any(program in words for words in commands_in(place)))
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert eventually(lambda: commands_in(place) == [])
        assert [path.name.split("-")[1] for path in place.iterdir()] == [kind]
        monkeypatch.setattr(tempfile, "tempdir", str(place))
        remove_left_behind()
        assert list(place.iterdir()) == []


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def commands_in(place: Path) -> list[str]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = file.read_bytes().decode(errors="replace").replace("\0", " ")
            if f"{place}/" in words:
                found.append(words)
    return found


def test_only_directories_of_our_own_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def made(name: str, lock: str = _LOCK, content: bytes | None = None) -> Path:
        directory = tmp_path / name
        directory.mkdir()
        (directory / "precious").write_text("x")
        (directory / lock).write_bytes(_mark(directory) if content is None else content)
        return directory

    left = made("isolde-postgresql-abcd1234")
    others = [
        made("isolde-notes-abcd1234", lock="held"),
        made("isolde-data-abcd1234", content=b""),
        made("isolde-copy-abcd1234", content=_mark(left)),
        made("isolde-mine"),
        made("isolde-my-own-things"),
    ]
    linked = made("isolde-linked-abcd1234", lock="other")
    (linked / _LOCK).symlink_to(linked / "other")
    hard = made("isolde-hard-abcd1234")
    os.link(hard / _LOCK, hard / "second")
    held = HeldDirectory("redis")
    assert not left.exists()
    for directory in (*others, linked, hard):
        assert (directory / "precious").exists(), directory
    assert held.path.exists()
    remove_left_behind()
    assert held.path.exists()
    held.remove()
    assert not held.path.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_a_directory_that_another_user_prepared_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    trap = tmp_path / "isolde-trap-abcd1234"
    trap.mkdir()
    (trap / _LOCK).write_bytes(_mark(trap))
    os.chown(trap / _LOCK, STRANGER, STRANGER)
    remove_left_behind()
    assert trap.exists()
