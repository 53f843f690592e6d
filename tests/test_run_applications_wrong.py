"""Applications with mistakes in them, and runs of applications that something goes wrong with: one line, and nothing is lost."""

from __future__ import annotations

import json
import resource
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import cast

import pytest

from conftest import Servers
from isolde.databases import Kind, SqlConnection, Table, open_database
from isolde.databases.caller import Caller
from isolde.databases.servers import Running
from isolde.engines.record import run as running
from isolde.engines.record.gate import Gate
from isolde.errors import Aborted, UsageError
from isolde.formats import decode, read
from isolde.history import Sql, Status
from isolde.tx import Dialect
from isolde.tx.python import Handle, transaction
from isolde.tx.sql import schema
from running import isolde

OWN = """
from isolde.tx import transaction
from isolde.workloads.application import Application, Part, must_hold

def drawn(random, scale):
    return {"k": random.randrange(scale["n"])}

@transaction
def put(tx, k):
    tx.execute("UPDATE t SET v = v + 1 WHERE k = :k", k=k)

def application(**changes):
    usual = dict(
        name="own", meaning="", source="", ddl="CREATE TABLE t (k BIGINT PRIMARY KEY, v INT NOT NULL)",
        parts=(Part(put, 1, drawn),), populate=lambda random, scale: [("t", (k, 0)) for k in range(scale["n"])],
        scale={"n": 3}, invariants=(must_hold("sign", "SELECT k FROM t WHERE v < 0", "v is not negative"),),
    )
    return Application(**(usual | changes))

def does(function):
    return application(parts=(Part(transaction(function), 1, drawn),))
"""


def own(tmp_path: Path, text: str) -> str:
    file = tmp_path / "own.py"
    file.write_text(f"{OWN}\n{text}\n")
    return str(file)


def run_own(tmp_path: Path, text: str, url: str = "sqlite:", *more: str) -> tuple[int, str, str]:
    arguments = ("--transactions", "12", "--sessions", "3", "-o", str(tmp_path / "run"), *more)
    return isolde("run", url, "--workload", own(tmp_path, text), *arguments)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("application(name='../up')", "the name '../up'"),
        ("application(name='')", "the name ''"),
        ("application(ddl='')", "ddl makes no table"),
        ("application(parts=())", "parts is empty"),
        ("application(parts=(put,))", "parts are not all Part"),
        ("application(parts=(Part(drawn, 1, drawn),))", "put @transaction before its function"),
        ("application(parts=(Part(put, 1, drawn), Part(put, 1, drawn)))", "two transactions are called put"),
        ("application(parts=(Part(put, 0, drawn),))", "all weights are 0"),
        ("application(parts=(Part(put, -1, drawn),))", "the weight of put is -1"),
        ("application(parts=(Part(put, float('nan'), drawn),))", "the weight of put is nan"),
        ("application(scale={'n': 1.5})", "scale is {'n': 1.5}"),
        ("application(invariants=(must_hold('i', 'DELETE FROM t', ''),))", "expected a query that finds what violates"),
        ("application(invariants=(must_hold('i', 'SELECT k FROM t WHERE k = :k', ''),))", "has the parameter :k"),
        ("application(invariants=2 * (must_hold('i', 'SELECT k FROM t', ''),))", "two invariants are called i"),
        ("application(invariants=(must_hold('i', 'SELECT w FROM t', ''),))", "the invariant i cannot be looked at: "),
        ("application(invariants=(must_hold('i', 'SELECT k FROM t', 'none'),))", "starts from break i (none): k 0"),
        ("application(parts=(Part(put, 1, lambda r, s: {'x': 1}),))", "put(tx, k) does not take its arguments (x)"),
        ("application(parts=(Part(put, 1, lambda r, s: None),))", "the arguments of put are None"),
        (
            "application(parts=(Part(put, 1, lambda r, s: r.randrange(0)),))",
            "arguments of put failed at FILE:23: Value",
        ),
        ("application(populate=lambda r, s: [('t', (1,))])", "the row (1,) of t, which has 2 columns: k, v"),
        ("application(populate=lambda r, s: [('u', (1,))])", "populate has a row of 'u'; the tables are t"),
        ("application(populate=lambda r, s: [('t', (1, r))])", "no column takes a value of type Random"),
        ("application(populate=lambda r, s: [1 / 0])", "populate of own failed at FILE:23: ZeroDivisionError"),
        ("exit(3)", "own.py:23: SystemExit: 3"),
    ],
)
def test_a_mistake_is_told_before_anything_runs(tmp_path: Path, text: str, words: str) -> None:
    status, out, error = run_own(tmp_path, f"APPLICATION = {text}")
    assert (status, out) == (2, ""), error
    assert words.replace("FILE", str(tmp_path / "own.py")) in error
    assert len(error.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "tx.execute('TRUNCATE TABLE t')",
            "in the transaction f: sql:1:16: TRUNCATE is outside of the transaction language",
        ),
        ("tx.all('SELECT * FROM u')", "in the transaction f: sql:1:15: the table u; expected one of t"),
        ("tx.execute('DELETE FROM t WHERE k = :k', key=k)", "has no value for :k; pass it as k="),
    ],
)
def test_a_mistake_in_a_transaction_ends_the_run_and_names_it(tmp_path: Path, body: str, words: str) -> None:
    status, out, error = run_own(tmp_path, f"def f(tx, k):\n    {body}\nAPPLICATION = does(f)")
    assert status == 2
    assert words in error
    assert len(error.strip().splitlines()) == 1
    assert "invariants were not looked at" in out


@pytest.mark.parametrize("error", ["ValueError('one\\ntwo')", "KeyError(3)", "SystemExit(1)", "RecursionError()"])
def test_any_error_of_a_program_is_its_own_end_and_not_the_runs(tmp_path: Path, error: str) -> None:
    status, out, said = run_own(tmp_path, f"def f(tx, k):\n    raise {error}\nAPPLICATION = does(f)")
    # Nothing was committed, so nothing is known of the invariants.
    assert (status, said) == (3, "")
    assert f"gave up    12 x f: {error.partition('(')[0]}" in out
    assert "nothing was tested" in out


def test_a_program_cannot_go_on_after_a_statement_that_failed(tmp_path: Path) -> None:
    """It would commit what came after; a server that had rolled back would have begun another transaction by then."""
    text = """
def f(tx, k):
    tx.execute("UPDATE t SET v = v - 1 WHERE k = :k", k=k)
    try:
        tx.execute("INSERT INTO t (k, v) VALUES (:k, 1)", k=k)
    except Exception:
        pass
APPLICATION = does(f)
"""
    status, out, _ = run_own(tmp_path, text, "sqlite:", "--json")
    assert (status, json.loads(out)["run"]["committed"]) == (3, 0)


def test_a_caller_does_not_commit_what_failed_in_between() -> None:
    @transaction
    def twice(tx: Handle) -> None:
        tx.execute("INSERT INTO t (k) VALUES (1)")
        with suppress(Aborted):
            tx.execute("INSERT INTO t (k) VALUES (1)")

    @transaction
    def count(tx: Handle) -> int:
        return cast(int, tx.value("SELECT COUNT(*) FROM t"))

    with Caller("sqlite:", schema("CREATE TABLE t (k INT PRIMARY KEY)", Dialect.POSTGRESQL)) as call:
        call.create_tables()
        with pytest.raises(Aborted):
            call(twice)
        assert call(count) == 0


def test_a_transaction_that_never_ends_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_STUCK_S", 0.3)
    monkeypatch.setattr(running, "_GRACE_S", 0.3)
    text = "import time\ndef f(tx, k):\n    while True: time.sleep(0.05)\nAPPLICATION = does(f)"
    status, _, error = run_own(tmp_path, text, "sqlite:", "--timeout", "0.2", "--keep")
    assert status == 2
    assert "a transaction f did not end within 0.2 s" in error
    assert (tmp_path / "run" / "history.jsonl").exists()


def test_who_waits_at_the_gate_is_freed_when_the_look_fails() -> None:
    def fail() -> None:
        raise UsageError("look")

    gate = Gate(2, fail)
    waiting = threading.Thread(target=gate.arrive, daemon=True)
    waiting.start()
    with pytest.raises(UsageError, match="look"):
        gate.arrive()
    waiting.join(10)
    assert not waiting.is_alive()


COURSEWARE = ("enroll", "leave", "register", "deregister", "add_course", "cancel_course")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--scale", "students=²"), "--scale students=² is no size of courseware"),
        (("--scale", "students=0"), "--scale students=0 is no size of courseware"),
        (("--scale", "students=" + "9" * 5000), "is no size of courseware"),
        (("--scale", "students=2", "--scale", "students=3"), "students is given twice"),
        (("--level", "enroll=deferred", "--level", "enroll=immediate"), "enroll is given twice"),
        (("--mix", "enrol=3"), "--mix enrol=3: write TRANSACTION=WEIGHT; courseware has enroll=40, leave=15,"),
        (("--mix", "enroll=-1"), "--mix enroll=-1: write TRANSACTION=WEIGHT"),
        (("--mix", "enroll=many"), "--mix enroll=many: write TRANSACTION=WEIGHT"),
        (("--mix", "enroll=1", "--mix", "enroll=2"), "--mix enroll=2: enroll is given twice"),
        (
            tuple(word for name in COURSEWARE for word in ("--mix", f"{name}=0")),
            "--mix leaves no transaction of courseware: all weights are 0",
        ),
        (("--level", "enroll=weird"), "weird"),
        (("-o", "/dev/null/run"), "/dev/null"),
    ],
)
def test_wrong_sizes_levels_and_places_are_told_in_one_line(arguments: tuple[str, ...], words: str) -> None:
    status, out, error = isolde("run", "--workload", "courseware", *arguments)
    assert (status, out) == (2, "")
    assert words in error
    assert len(error.strip().splitlines()) == 1


def test_a_run_that_is_recorded_already_is_refused_before_tables_are_made(tmp_path: Path) -> None:
    assert run_own(tmp_path, "APPLICATION = application()")[0] == 0
    database = tmp_path / "app.db"
    status, _, error = run_own(tmp_path, "APPLICATION = application()", f"sqlite:{database}")
    assert (status, "recorded there already" in error) == (2, True)
    assert not database.exists()


def test_an_answer_that_breaks_off_leaves_its_statement(tmp_path: Path) -> None:
    """It may have been committed: others may have seen what it did."""
    (tmp_path / "sessions").mkdir()
    (tmp_path / "run.json").write_text('{"isolde": "history", "version": 1, "initial": []}\n')
    whole = '{"session":1,"start":1,"ops":[{"sql":"DELETE FROM t","params":[],"start":1,"rows":null,"count":1,"end":2}'
    torn = ',{"sql":"SELECT * FROM t","params":[],"start":3,"rows":[' + ",".join("[1,2]" for _ in range(3000))
    (tmp_path / "sessions" / "0.jsonl").write_text(whole + torn)
    (transaction,) = decode(read(str(tmp_path))).transactions
    assert transaction.status is Status.UNKNOWN
    contents = [op.content for op in transaction.ops if isinstance(op, Sql)]
    assert [(content["sql"], content["rows"]) for content in contents] == [
        ("DELETE FROM t", None),
        ("SELECT * FROM t", None),
    ]


def test_more_files_than_may_be_open_are_told_and_the_tables_go(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
    try:
        status, _, error = run_own(tmp_path, "APPLICATION = application()", "sqlite:", "--sessions", "400")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert (status, len(error.strip().splitlines())) == (2, 1)
    assert "Too many open files; try fewer --sessions" in error


def test_a_disk_that_takes_no_more_loses_nothing_that_was_seen(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Enough for the database, which is small, and not for all that is recorded of it.
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        text = "APPLICATION = application()"
        status, out, error = run_own(tmp_path, text, "duckdb:", "--transactions", "3000")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (status, len(error.strip().splitlines())) == (4, 1)
    assert "File too large" in error
    assert "  invariants " in out
    assert isolde("check", str(tmp_path / "run"))[0] == 3


def _session(url: str) -> closing[SqlConnection]:
    _, database = open_database(url)
    return closing(cast(SqlConnection, database.connect(Table("", Kind.REGISTERS, 0))))


def _ours(url: str) -> list[str]:
    with _session(url) as session:
        rows = session.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'isolde%'").rows
    return [row[0] for row in rows or []]


def _meanwhile(directory: Path, act: Callable[[], None]) -> threading.Thread:
    """Acts once the run has begun to record."""

    def watch() -> None:
        while not any((directory / "sessions").glob("0.jsonl")):
            time.sleep(0.01)
        time.sleep(0.3)
        act()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def test_tables_with_names_that_need_quotes_are_dropped(server: Callable[[str], Running], tmp_path: Path) -> None:
    url = server("postgresql").url
    before = _ours(url)
    text = """APPLICATION = application(
        ddl='CREATE TABLE t (k BIGINT PRIMARY KEY, v INT NOT NULL); CREATE TABLE "Or der" (k BIGINT PRIMARY KEY)')"""
    assert run_own(tmp_path, text, url)[::2] == (0, "")
    assert _ours(url) == before


def test_a_server_that_dies_for_good_leaves_what_was_seen(servers: Servers, tmp_path: Path) -> None:
    with servers.private("postgresql") as server:
        thread = _meanwhile(tmp_path / "run", server.kill)
        arguments = ("--workload", "courseware", "--time", "60", "-o", str(tmp_path / "run"), "--json")
        status, out, error = isolde("run", server.url, *arguments)
        thread.join()
    assert status == 4
    assert error.startswith("isolde: the run ended early: ")
    assert "could not be dropped" in error
    assert len(error.strip().splitlines()) == 1
    assert json.loads(out)["run"]["failure"]
    assert (tmp_path / "run" / "history.jsonl").exists()


def test_more_sessions_than_the_server_takes_are_told_at_a_quiet_point(servers: Servers, tmp_path: Path) -> None:
    """All places are taken by sessions, and the look at the invariants finds none."""
    with servers.private("postgresql", max_connections=8, superuser_reserved_connections=0) as server:
        arguments = (
            "--workload",
            "courseware",
            "--sessions",
            "8",
            "--transactions",
            "2000",
            "-o",
            str(tmp_path / "run"),
        )
        status, _, error = isolde("run", server.url, *arguments)
        assert (status, len(error.strip().splitlines())) == (4, 1)
        assert "too many clients" in error
        assert _ours(server.url) == []


def test_a_table_that_somebody_locks_does_not_keep_the_run_for_ever(
    server: Callable[[str], Running], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from isolde.engines.record.application import install

    monkeypatch.setattr(install, "STATEMENT_S", 0.5)
    url = server("postgresql").url
    held: list[closing[SqlConnection]] = []

    def look_and_stay() -> None:
        holder = _session(url)
        session = holder.__enter__()
        session.execute("BEGIN")
        (name,) = (table for table in _ours(url) if table.endswith("_student"))
        session.execute(f"SELECT * FROM {name}")
        held.append(holder)

    thread = _meanwhile(tmp_path / "run", look_and_stay)
    arguments = ("--workload", "courseware", "--time", "2", "--timeout", "0.5", "-o", str(tmp_path / "run"))
    status, out, error = isolde("run", url, *arguments)
    thread.join()
    held[0].__exit__(None, None, None)
    assert status == 0, out + error
    assert "did not answer within 0.5 s; is a table locked?" in error
    for name in _ours(url):
        with _session(url) as session:
            session.execute(f"DROP TABLE IF EXISTS {name} CASCADE")
