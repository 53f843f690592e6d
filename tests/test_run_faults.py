"""Runs while something goes wrong: servers that are killed, stopped and cut off, and databases that do not let us."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import Servers
from isolde.databases import SqlConnection, Table, open_database
from isolde.databases.contract import Kind
from isolde.databases.servers import Running
from isolde.databases.servers.proxy import Proxy
from isolde.errors import DatabaseUnavailable, IsoldeError
from running import as_user, fresh_signals, isolde, ran

Started = Callable[[str], Running]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.mark.parametrize(
    ("kind", "isolation", "level"),
    [("postgresql", "serializable", "ser"), ("mariadb", "serializable", "ser"), ("redis", "watch", "ser")],
)
def test_faults_leave_unknown_outcomes_and_break_no_promise(
    kind: str, isolation: str, level: str, servers: Servers, out: Path
) -> None:
    servers.shared(kind)
    settings = ("--setting", "appendfsync=always") if kind == "redis" else ()
    command = ("--start", kind, *settings, "--nemesis", "kill,pause,restart,cut", "--time", "6", "--timeout", "0.6")
    result = ran(out, *command, "--isolation", isolation, "--check", level, "--keys", "500", "--sessions", "20")
    assert (result.status, result.verdicts) == (0, ["satisfied"]), result.out + result.error
    # How many there is time for depends on how soon the server is back.
    assert result.run["faults"]
    assert result.run["reconnected"] > 0
    # Redis answers within microseconds: none of its sessions may have been at a commit.
    assert result.run["unknown"] > 0 or kind == "redis"
    assert result.run["lost"] == []


def test_a_store_without_a_log_loses_what_was_committed(servers: Servers, out: Path) -> None:
    servers.shared("redis")
    command = ("--start", "redis", "--setting", "appendonly=no", "--nemesis", "kill", "--time", "5")
    result = ran(out, *command, "--keys", "2000")
    assert result.status == 1
    lost = result.run["lost"]
    assert lost
    written = {(op[1], op[2]) for t in _lines(out) for op in t["ops"] if op[0] == "w" and t["status"] == "committed"}
    assert all((entry["key"], entry["value"]) in written for entry in lost)


def test_a_verdict_is_told_even_if_nobody_answers_after_the_last_fault(
    servers: Servers, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers.shared("redis")

    def nobody(*_: Any) -> None:
        raise DatabaseUnavailable("nobody answers")

    monkeypatch.setattr("isolde.campaigns.keyvalue.final_state", nobody)
    result = ran(out, "--start", "redis", "--nemesis", "pause", "--time", "2")
    assert (result.status, result.verdicts) == (4, ["satisfied"])
    assert result.run["lost"] is None
    assert "the run ended early: nobody answers" in result.error


def _lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "history.jsonl").read_text().splitlines()[1:]]


def test_a_server_that_dies_for_good_ends_the_run_and_what_was_recorded_is_checked(servers: Servers, out: Path) -> None:
    with servers.private("postgresql") as server, _meanwhile(out, server.kill):
        result = ran(out, server.url, "--time", "60")
    assert result.status == 4
    assert result.error.startswith("isolde: the run ended early: ")
    assert len(result.error.splitlines()) == 1
    assert "could not be dropped" in result.error
    assert result.verdicts == ["satisfied"]
    assert isolde("check", str(out))[0] == 0


def test_a_statement_that_is_refused_is_named(server: Started, out: Path) -> None:
    url = server("postgresql").url
    with _meanwhile(out, lambda: _drop_ours(url)):
        result = ran(out, url, "--time", "60")
    assert result.status == 4
    assert "the database refused '" in result.error
    assert "does not exist" in result.error
    assert len(result.error.splitlines()) == 1
    assert result.verdicts == ["satisfied"]


def test_a_session_that_waits_for_ever_is_freed(server: Started, out: Path) -> None:
    """The network swallows everything for longer than a transaction may take; those that were at COMMIT are unknown."""
    node = server("postgresql").nodes[0]
    with Proxy(node.place.port) as wire:

        def cut_and_heal() -> None:
            for _ in range(6):
                wire.cut()
                time.sleep(0.9)
                wire.heal()
                time.sleep(0.3)

        url = node.url.replace(str(node.place.port), str(wire.port))
        with _meanwhile(out, cut_and_heal):
            result = ran(out, url, "--time", "8", "--timeout", "0.3", "--keys", "500", "--sessions", "20")
    assert (result.status, result.verdicts) == (0, ["satisfied"]), result.error
    assert result.run["unknown"] > 0
    assert result.run["committed"] > 0
    assert result.run["reconnected"] >= result.run["unknown"]


def test_who_may_not_make_a_table_is_told_so(server: Started, tmp_path: Path) -> None:
    url = server("postgresql").url
    _execute(
        url,
        "DROP ROLE IF EXISTS guest",
        "CREATE ROLE guest LOGIN PASSWORD 'known'",
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
    )
    status, _, error = isolde("run", as_user(url, "guest", "known"), "-o", str(tmp_path / "a"))
    assert (status, len(error.splitlines())) == (4, 1)
    assert "permission denied" in error
    assert not (tmp_path / "a").exists()
    url = server("mariadb").url
    _execute(
        url,
        "CREATE DATABASE IF NOT EXISTS closed",
        "CREATE USER IF NOT EXISTS guest@'127.0.0.1'",
        "GRANT SELECT ON closed.* TO guest@'127.0.0.1'",
    )
    closed = as_user(url, "guest").replace("/test", "/closed")
    status, _, error = isolde("run", closed, "-o", str(tmp_path / "b"))
    assert (status, len(error.splitlines())) == (4, 1)
    assert "denied" in error


def test_a_level_that_the_database_refuses_is_told(out: Path) -> None:
    driver = ("--driver", "sqlite3", "--connect", '{"database": "file:x?mode=memory&cache=shared", "uri": true}')
    result = ran(out, *driver, "--isolation", "si", "--begin", "BEGIN ISOLATION LEVEL SNAPSHOT")
    assert result.status == 4
    assert len(result.error.splitlines()) == 1
    assert "BEGIN ISOLATION LEVEL SNAPSHOT" in result.error


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["postgresql://postgres@127.0.0.1:1/x"], 4, "127.0.0.1:1"),
        (["mariadb://root@127.0.0.1:1/x"], 4, "127.0.0.1:1"),
        (["redis://127.0.0.1:1/0"], 4, "127.0.0.1:1"),
        (["etcd://127.0.0.1:1"], 4, "127.0.0.1:1"),
        (["sqlite:", "--nemesis", "kill"], 2, "--start"),
        (["sqlite:", "--setting", "fsync=off"], 2, "--start"),
        (["--start", "redis", "--setting", "oops"], 2, "NAME=VALUE"),
        (["--start", "redis", "--nemesis", "flood"], 2, "there are kill, pause, restart, cut"),
        (["--start", "redis", "sqlite:"], 2, "name one database"),
        (["--matrix", "--until-violation"], 2, "does not go with --until-violation"),
        (["--matrix", "--isolation", "deferred"], 2, "does not go with --isolation"),
    ],
)
def test_what_cannot_be_run_is_told_in_one_line(arguments: list[str], status: int, words: str, out: Path) -> None:
    result = ran(out, *arguments)
    assert (result.status, len(result.error.splitlines()), result.out) == (status, 1, "")
    assert words in result.error


@pytest.mark.parametrize(
    ("kind", "which", "after_s", "more"),
    [
        ("mariadb", signal.SIGINT, 0.2, ()),
        ("mariadb", signal.SIGTERM, 1.0, ()),
        ("postgresql", signal.SIGINT, 0.3, ()),
        ("postgresql", signal.SIGTERM, 3.0, ()),
        ("postgresql", signal.SIGINT, 3.0, ("--matrix",)),
    ],
)
def test_nothing_stays_behind_when_a_run_is_interrupted(
    kind: str, which: signal.Signals, after_s: float, more: tuple[str, ...], servers: Servers
) -> None:
    servers.shared(kind)
    # Servers run as another user, who has no way into a test's own directory.
    place = Path(tempfile.mkdtemp(prefix="interrupted-"))
    place.chmod(0o755)
    command = [sys.executable, "-m", "isolde", "run", "--start", kind, *more]
    if not more:
        command += ["--time", "60"]
    process = subprocess.Popen(
        command,
        cwd=place,
        env=os.environ | {"TMPDIR": str(place)},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=fresh_signals,
    )
    deadline = time.monotonic() + 30
    while not list(place.glob("isolde-*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(after_s)
    inside = _processes_in(place)
    process.send_signal(which)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130, error
    assert "interrupted" in error
    assert inside or after_s < 1
    assert [path.name for path in place.iterdir() if path.name != "isolde-runs"] == []
    assert _processes_in(place) == []
    shutil.rmtree(place)


def _processes_in(place: Path) -> list[str]:
    """The commands that name a file below a directory."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = file.read_bytes().decode(errors="replace").replace("\0", " ")
            if f"{place}/" in words:
                found.append(words)
    return found


@contextmanager
def _meanwhile(out: Path, action: Callable[[], None]) -> Iterator[None]:
    """Does it once the run has recorded something."""

    def wait_and_do() -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if sum(path.stat().st_size for path in out.glob("sessions/*")) > 20_000:
                action()
                return
            time.sleep(0.02)

    thread = threading.Thread(target=wait_and_do)
    thread.start()
    yield
    thread.join()


def _execute(url: str, *statements: str) -> list[tuple[Any, ...]]:
    _, database = open_database(url)
    with closing(database), closing(database.connect(Table("none", Kind.REGISTERS, 0))) as connection:
        sql: SqlConnection = connection  # type: ignore[assignment]
        rows: list[tuple[Any, ...]] = []
        for statement in statements:
            rows = sql.execute(statement).rows or []
        return rows


def _drop_ours(url: str) -> None:
    (name,) = _execute(url, "SELECT tablename FROM pg_tables WHERE tablename LIKE 'isolde\\_%'")[0]
    for _ in range(5):
        try:
            _execute(url, f"DROP TABLE {name}")
            return
        except IsoldeError:
            continue
