"""What people meet in their first runs: interrupted ones, missing drivers, full disks, sockets, clusters, old releases."""

from __future__ import annotations

import resource
import signal
import subprocess
import time
from collections.abc import Callable
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from isolde import read
from isolde.databases import Kind, Table, mariadb, open_database, registry
from isolde.databases.contract import Rows
from isolde.databases.servers import Running, releases
from isolde.databases.servers.mariadb import Mariadb
from isolde.databases.servers.process import Place
from isolde.errors import Aborted, StatementFailed
from isolde.levels import Level
from running import ISOLDE, fresh_signals, isolde, ran

Started = Callable[[str], Running]


@pytest.mark.parametrize("certify", [(), ("--certify",)], ids=["plain", "certified"])
def test_ctrl_c_gives_the_verdict_on_what_was_recorded(certify: tuple[str, ...], tmp_path: Path) -> None:
    command = [*ISOLDE, "run", "--time", "60", "-o", "out", *certify]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=fresh_signals
    )
    sessions = tmp_path / "out" / "sessions"
    deadline = time.monotonic() + 60
    while not sessions.exists() or sum(file.stat().st_size for file in sessions.iterdir()) < 2_000:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "strict-serializable: satisfied" in out
    assert "what was recorded is in out/history.jsonl" in errors


def test_a_missing_driver_is_told_before_a_server_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    started = []
    monkeypatch.setattr(
        registry, "import_module", lambda name: missing(name) if name == "psycopg" else import_module(name)
    )
    monkeypatch.setattr("isolde.campaigns.target.start", lambda *_, **__: started.append(1))
    registry.adapters()
    status, _, error = isolde("run", "--start", "postgresql", "-o", str(tmp_path / "out"))
    assert status == 4
    assert error.startswith("isolde: --start postgresql: the driver psycopg is not installed")
    assert started == []


def test_a_full_disk_is_no_mistake_of_the_user(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    generated = [*ISOLDE, "generate", "--transactions", "5000", "-o", "big.jsonl"]
    ended = subprocess.run(
        generated, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False, preexec_fn=limit
    )
    assert (ended.returncode, len(ended.stderr.splitlines())) == (4, 1)
    assert "File too large" in ended.stderr


def test_the_budget_of_a_run_can_be_set(tmp_path: Path) -> None:
    options = ["--workload", "general", "--transactions", "300", "--keys", "3", "--isolation", "deferred"]
    found = ran(tmp_path / "out", "sqlite:", *options, "--check", "ser", "--budget", "5000000")
    assert found.verdicts == ["satisfied"]


@pytest.mark.server
def test_updates_of_the_private_table_stay_on_their_page(server: Started) -> None:
    _, database = open_database(server("postgresql").url)
    table = Table("isolde_room", Kind.REGISTERS, 5)
    database.create(table)
    try:
        connection: Any = database.connect(table)
        rows = connection.execute("SELECT reloptions::text FROM pg_class WHERE relname = 'isolde_room'").rows
        connection.close()
    finally:
        database.drop(table)
    assert rows == [("{fillfactor=50}",)]


@pytest.mark.server
@pytest.mark.parametrize("driver", ["MySQLdb", "pymysql"])
def test_a_unix_socket_is_an_address(
    driver: str, server: Started, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip(driver)
    monkeypatch.setattr(mariadb, "_DRIVERS", (driver,))
    running: Any = server("mariadb")
    secret, socket = running.place.secret, running.place.directory / "socket"
    url = f"mariadb://root:{secret}@/test?unix_socket={socket}"
    found = ran(tmp_path / "out", url, "--transactions", "30", "--sessions", "2")
    assert found.verdicts == ["satisfied"]
    _, database = open_database(url)
    connection: Any = database.connect(Table("", Kind.REGISTERS, 0))
    assert str(connection._connection.get_host_info()).lower().startswith("localhost via unix socket")
    connection.close()


@pytest.mark.server
def test_a_galera_run_names_itself_and_its_nodes(server: Started, tmp_path: Path) -> None:
    running = server("galera")
    found = ran(tmp_path / "out", running.url, "--transactions", "50", "--sessions", "4")
    ports = [node.place.port for node in running.nodes]
    named = ", ".join(f"n{number} at 127.0.0.1:{port}" for number, port in enumerate(ports))
    assert found.run["database"].endswith(f", Galera: {named} of a cluster of {len(ports)}")


class _Dolt:
    """What Dolt 2.2.0 answers: every level's name is taken, one variable is not."""

    def execute(self, statement: str, parameters: Any = ()) -> Rows:
        del parameters
        answers = {"SELECT VERSION()": "8.0.31", "SELECT DOLT_VERSION()": "2.2.0"}
        if statement not in answers:
            raise StatementFailed(statement, "Unknown system variable", "other", 1105)
        return Rows([(answers[statement],)], 1)


def test_dolt_names_itself_and_has_one_level() -> None:
    session: Any = _Dolt()
    assert mariadb._version(session) == "Dolt 2.2.0 (compatible with MySQL 8.0.31)"
    (offer,) = mariadb._offers(session)
    assert (offer.name, offer.claims) == ("repeatable-read", Level.SNAPSHOT_ISOLATION)


def test_what_dolt_cannot_merge_is_an_abort() -> None:
    said = "Committing this transaction resulted in a working set with constraint violations, transaction rolled back."
    found = mariadb._translated(Exception(1105, f"{said} \nConstraint violations: \nType: Unique Key"), "COMMIT")
    assert isinstance(found, Aborted)
    assert found.word == "serialization-failure"


def test_versions_of_servers_are_listed_and_others_are_refused_by_name(tmp_path: Path) -> None:
    status, out, _ = isolde("databases")
    assert status == 0
    assert "--start postgresql --server-version: 9.6.10 … 9.6.24," in out
    for arguments, words in (
        (["--start", "redis", "--server-version", "6.2"], "no package with older versions of redis is known"),
        (["--start", "postgresql", "--server-version", "newest"], "write a whole version"),
        (["--server-version", "12.3"], "use --start"),
    ):
        status, _, error = isolde("run", *arguments, "-o", str(tmp_path / "out"))
        assert (status, words in error) == (2, True), error


def test_a_version_that_was_fetched_is_started_from_where_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(releases, "_cache", lambda: tmp_path)
    (tmp_path / "mariadb-10.11.5" / "bin").mkdir(parents=True)
    programs = releases.programs_of("mariadb", "10.11.5")
    command = Mariadb(programs).command(Place(tmp_path, 1, None))
    assert command[:3] == [f"{programs}/mariadbd", "--no-defaults", f"--basedir={tmp_path}/mariadb-10.11.5"]


@pytest.mark.long
@pytest.mark.server
def test_a_known_bad_release_can_be_had(tmp_path: Path) -> None:
    """PostgreSQL 12.3 is older than its mending of 2020 (https://jepsen.io/analyses/postgresql-12.3)."""
    found = ran(tmp_path / "out", "--start", "postgresql", "--server-version", "12.3", "--transactions", "200")
    assert found.run["database"] == "PostgreSQL 12.3"


def test_no_more_than_the_share_of_concurrent_sessions_is_in_flight_at_one_time(tmp_path: Path) -> None:
    place = str(tmp_path / "out")
    arguments = ("--sessions", "8", "--concurrent-sessions", "0.25", "--transactions", "200", "-o", place)
    status, out, _ = isolde("run", *arguments, "--distribution", "zipfian", "--exponent", "1.5")
    assert status == 0
    assert "8 sessions (at most 2 at once), 50 keys, zipfian (exponent 1.5)" in " ".join(out.split())
    history = read(f"{place}/history.jsonl")
    assert history.meta["at_once"] == 2
    assert history.meta["skew"] == {"exponent": 1.5}
    changes = sorted(change for t in history.transactions for change in ((t.start or 0, 1), (t.end or 0, -1)))
    assert max(accumulate(change for _, change in changes)) <= 2
    assert len({t.session for t in history.transactions}) == 8


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--exponent", "2"), "an exponent is for the distribution 'zipfian'"),
        (("--hot-keys", "0.2", "--distribution", "zipfian"), "are for the distribution 'hotspot'"),
        (("--distribution", "zipfian", "--exponent", "11"), "must be above 0 and at most 10"),
        (("--concurrent-sessions", "0"), "must be above 0 and at most 1"),
        (("--concurrent-sessions", "nan"), "must be above 0 and at most 1"),
        (("--concurrent-sessions", "0.5", "--matrix"), "does not go with --concurrent-sessions"),
        (("--concurrent-sessions", "0.5", "--workload", "sql"), "--concurrent-sessions is not for sql"),
        (("--exponent", "2", "--workload", "bank"), "--exponent is for workloads of keys"),
        (("--distribution", "hotspot", "--workload", "counter"), "counter draws its own"),
    ],
)
def test_strengths_and_shares_that_mean_nothing_are_refused(arguments: tuple[str, ...], reason: str) -> None:
    status, out, error = isolde("run", *arguments)
    assert (status, out) == (2, "")
    assert reason in error
    assert error.count("\n") == 1
