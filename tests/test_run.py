"""``isolde run`` on the embedded database: what is recorded, what is said, what survives."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from isolde.formats import decode, merged, read
from isolde.history import Append, CompareAndSet, History, Status, Write
from isolde.workloads import WORKLOADS, Settings, workload_named
from isolde.workloads.applications import APPLICATIONS
from running import ISOLDE, fresh_signals


def isolde(*arguments: str, cwd: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ISOLDE, *arguments], cwd=cwd, capture_output=True, text=True, check=False, timeout=120, **options
    )


def recorded(cwd: Path) -> History:
    (directory,) = (cwd / "isolde-runs").iterdir()
    return decode(read(str(directory / "history.jsonl")))


def test_without_a_url_an_embedded_database_is_run_and_keeps_its_promise(tmp_path: Path) -> None:
    result = isolde("run", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "which claims strict-serializable" in result.stdout
    assert "strict-serializable: satisfied" in result.stdout
    assert "strongest that hold" in result.stdout
    assert result.stderr == ""
    again = re.search(r"again +isolde (.*)", result.stdout)
    assert again is not None
    assert isolde(*again[1].split(), cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("workload", [entry.name for entry in WORKLOADS])
@pytest.mark.parametrize("isolation", ["deferred", "immediate"])
def test_every_workload_runs_and_is_decided(workload: str, isolation: str, tmp_path: Path) -> None:
    level = "linearizable" if workload in ("registers", "cas") else "strict-serializable"
    command = [
        "run",
        "--workload",
        workload,
        "--isolation",
        isolation,
        "--transactions",
        "400",
        "--keys",
        "8",
        "--json",
    ]
    result = isolde(*command, "--check", level, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    document = json.loads(result.stdout)
    assert document["results"][0]["verdict"] == "satisfied"
    assert document["run"]["committed"] > 300


@pytest.mark.parametrize("workload", ["mini", "general", "cas"])
def test_deletes_and_reinserts_are_recorded_and_decided(workload: str, tmp_path: Path) -> None:
    command = ["run", "--workload", workload, "--deletes", "0.4", "--keys", "5", "--transactions", "300"]
    result = isolde(*command, "--check", "ser", cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    ops = [op for transaction in recorded(tmp_path).transactions for op in transaction.ops]
    assert any(isinstance(op, Write) and op.value is None for op in ops)


def test_values_are_unique_and_times_are_on_one_clock(tmp_path: Path) -> None:
    assert isolde("run", "--keys", "3", "--isolation", "deferred", cwd=tmp_path).returncode == 0
    history = recorded(tmp_path)
    written = [op.value for t in history.transactions for op in t.ops if isinstance(op, Write)]
    assert len(set(written)) == len(written)
    assert 0 not in written
    assert any(t.status is Status.ABORTED for t in history.transactions)
    by_session: dict[Any, int] = {}
    for transaction in history.transactions:
        assert transaction.start is not None
        assert transaction.end is not None
        assert by_session.get(transaction.session, 0) < transaction.start < transaction.end
        by_session[transaction.session] = transaction.end
    starts = [transaction.start or 0 for transaction in history.transactions]
    assert starts == sorted(starts)


def test_the_same_seed_gives_the_same_plans() -> None:
    for workload in WORKLOADS:
        one, two, other = (Settings(workload, keys=10, seed=seed).plans(3) for seed in (5, 5, 6))
        plans = [one.next() for _ in range(50)]
        assert plans == [two.next() for _ in range(50)]
        assert plans != [other.next() for _ in range(50)]


def test_long_lists_are_left_for_fresh_ones(tmp_path: Path) -> None:
    isolde("run", "--workload", "append", "--keys", "1", "--sessions", "2", "--transactions", "300", cwd=tmp_path)
    appended = [op.key for t in recorded(tmp_path).transactions for op in t.ops if isinstance(op, Append)]
    assert len(set(appended)) > 3


def test_a_compare_and_set_takes_place_and_fails(tmp_path: Path) -> None:
    isolde("run", "--workload", "cas", "--keys", "2", cwd=tmp_path)
    swaps = {op.applied for t in recorded(tmp_path).transactions for op in t.ops if isinstance(op, CompareAndSet)}
    assert swaps == {True, False}


def test_a_run_that_is_killed_can_be_checked_from_what_is_on_disk(tmp_path: Path) -> None:
    process = subprocess.Popen([*ISOLDE, "run", "--time", "60", "-o", "out", "--keys", "10"], cwd=tmp_path)
    _wait_for_bytes(tmp_path / "out" / "sessions", 200_000)
    process.kill()
    process.wait()
    assert not (tmp_path / "out" / "history.jsonl").exists()
    result = isolde("check", "--level", "strict-ser", "--level", "ser", "out", cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "satisfied" in result.stdout


def _wait_for_bytes(directory: Path, count: int) -> None:
    deadline = time.monotonic() + 30
    while _bytes_in(directory) < count:
        assert time.monotonic() < deadline, f"{directory} has {_bytes_in(directory)} bytes after 30 s"
        time.sleep(0.05)


def _bytes_in(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("*")) if directory.is_dir() else 0


@pytest.mark.parametrize(
    ("torn", "ops"),
    [
        ('{"session":0,"start":1,"ops":[["r",0,0],["w",0,5]', ["r", "w"]),
        ('{"session":0,"start":1,"ops":[["r",0,0],["cas",1,0,7,', ["r", "cas"]),
        ('{"session":0,"start":1,"ops":[["r",0,0],["cas",1,0,7', ["r"]),
        ('{"session":0,"start":1,"ops":[["w",0,5],["cas",1,0,7,fal', ["w", "cas"]),
        ('{"session":0,"start":1,"ops":[["w",0,5]],"status":"comm', ["w"]),
        ('{"session":0,"start":1,"ops":[["w",0,5]],"status":"committed","end":12', ["w"]),
        ('{"session":0,"start":1,"ops":[["r",0,0],["w",0,', ["r"]),
        ('{"session":0,"start":1,"ops":[', []),
        ('{"session":0,"sta', None),
    ],
)
def test_a_line_that_breaks_off_is_a_transaction_of_unknown_outcome(
    torn: str, ops: list[str] | None, tmp_path: Path
) -> None:
    (tmp_path / "sessions").mkdir()
    (tmp_path / "run.json").write_text('{"isolde":"history","version":1,"initial":[[0,0],[1,0]]}\n')
    (tmp_path / "sessions" / "0.jsonl").write_text(torn)
    _, *lines = merged(tmp_path).decode().splitlines()
    found = [json.loads(line) for line in lines]
    if ops is None:
        assert found == []
    else:
        assert [op[0] for op in found[0]["ops"]] == ops
        assert found[0]["status"] == "unknown"
    assert isolde("check", "--level", "ser", str(tmp_path), cwd=tmp_path).returncode == 0


def test_ctrl_c_ends_a_run_in_good_order(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*ISOLDE, "run", "--time", "60", "-o", "out"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=fresh_signals,
    )
    _wait_for_bytes(tmp_path / "out" / "sessions", 1_000)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "what was recorded is in out/history.jsonl" in errors
    checked = isolde("check", "--level", "strict-ser", "out", cwd=tmp_path)
    assert checked.returncode == 0, checked.stderr + (tmp_path / "out" / "history.jsonl").read_text()


def test_ctrl_c_waits_for_the_transaction_in_flight(tmp_path: Path) -> None:
    """A session that was taken for ended would write on, into whatever file got the number of its own."""
    command = [*ISOLDE, "run", "sqlite:d.db", "--sessions", "1", "--time", "60", "-o", "out", "--keep"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, preexec_fn=fresh_signals)
    _wait_for_bytes(tmp_path / "out" / "sessions", 1_000)
    with closing(sqlite3.connect(tmp_path / "d.db", timeout=30)) as other:
        other.execute("BEGIN EXCLUSIVE")
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        time.sleep(1)
        assert process.poll() is None
        other.rollback()
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, "interrupted" in errors) == (130, True)
    recorded = (tmp_path / "out" / "history.jsonl").read_text().splitlines()
    assert all(json.loads(line)["status"] == "committed" for line in recorded[1:])


def test_a_full_disk_is_said_in_one_line_and_what_is_there_can_be_checked(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    result = isolde(
        "run",
        "--time",
        "20",
        "--sessions",
        "2",
        "-o",
        "out",
        "sqlite::memory-is-not-a-file",
        cwd=tmp_path,
        preexec_fn=limit,
    )
    assert result.returncode in (2, 4)
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) <= 2


def test_the_table_is_dropped_kept_and_never_somebody_elses(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "mine.db") as mine:
        mine.execute("CREATE TABLE precious (x)")
    assert isolde("run", "sqlite:mine.db", "--transactions", "50", cwd=tmp_path).returncode == 0
    assert _tables(tmp_path / "mine.db") == ["precious"]
    kept = isolde("run", "sqlite:mine.db", "--transactions", "50", "--keep", cwd=tmp_path)
    _, table = _tables(tmp_path / "mine.db")
    assert f"the table {table}" in kept.stdout


def _tables(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return sorted((name for (name,) in rows), key=lambda name: name != "precious")


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["nonsense"], 2, "is not a database URL"),
        (["postgersql://x/y"], 2, "did you mean 'postgresql'"),
        (["--isolation", "imediate"], 2, "it has deferred, immediate; did you mean 'immediate'?"),
        (["--isolation", "weird"], 2, "offers no isolation level 'weird'; it has deferred, immediate"),
        (["--check", "weird"], 2, "weird"),
        (["--workload", "append", "--deletes", "0.5"], 2, "lists only grow"),
        (["--operations", "9"], 2, "a mini-transaction has at most 4"),
        (["sqlite:/nonexistent/dir/file.db"], 4, "unable to open database file"),
        (["-o", "/proc/nope"], 2, "/proc/nope"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(arguments: list[str], status: int, words: str, tmp_path: Path) -> None:
    result = isolde("run", *arguments, cwd=tmp_path)
    assert result.returncode == status, result.stderr
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""


def test_a_directory_of_an_earlier_run_is_not_touched(tmp_path: Path) -> None:
    assert isolde("run", "-o", "out", "--transactions", "20", cwd=tmp_path).returncode == 0
    before = (tmp_path / "out" / "history.jsonl").read_bytes()
    result = isolde("run", "-o", "out", "--transactions", "20", cwd=tmp_path)
    assert result.returncode == 2
    assert "out" in result.stderr
    assert (tmp_path / "out" / "history.jsonl").read_bytes() == before


def test_workloads_are_listed(tmp_path: Path) -> None:
    text = isolde("workloads", cwd=tmp_path).stdout
    rows = json.loads(isolde("workloads", "--json", cwd=tmp_path).stdout)["workloads"]
    assert [row["name"] for row in rows] == [*(entry.name for entry in WORKLOADS), "predicates", "sql", "counter"]
    assert all(row["name"] in text for row in rows)
    applications = json.loads(isolde("workloads", "--json", cwd=tmp_path).stdout)["applications"]
    assert [row["name"] for row in applications] == list(APPLICATIONS)
    assert all(row["name"] in text and row["source"] for row in applications)
    assert workload_named("mini") in WORKLOADS


def test_an_application_is_shown_with_what_can_be_set(tmp_path: Path) -> None:
    text = isolde("workloads", "tpcc", cwd=tmp_path).stdout
    assert "new_order 45, payment 43" in text
    assert "--scale troubadour  warehouses 1, districts 2, customers 3, items 1" in text
    assert "condition-12" in text
    shown = json.loads(isolde("workloads", "rubis", "--json", cwd=tmp_path).stdout)
    # The mix of the papers has no bids.
    assert (sum(shown["mix"].values()), shown["mix"]["store_bid"]) == (100, 0)
    assert len(shown["invariants"]) == 10
    refused = isolde("workloads", "mini", cwd=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


def test_databases_are_listed_with_what_they_can_and_cannot_do(tmp_path: Path) -> None:
    text = isolde("databases", cwd=tmp_path).stdout
    rows = json.loads(isolde("databases", "--json", cwd=tmp_path).stdout)["databases"]
    assert "sqlite" in [row["name"] for row in rows]
    for row in rows:
        assert row["name"] in text
        assert all(ability["how"] for ability in row["abilities"].values())


def test_progress_is_silent_where_nobody_looks(tmp_path: Path) -> None:
    assert isolde("run", "--time", "1", cwd=tmp_path, env=os.environ | {"TERM": "xterm"}).stderr == ""
