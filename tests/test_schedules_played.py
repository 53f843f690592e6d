"""Schedules on real databases: the known ones answer as they always do, and the laws of waiting hold for random ones."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from isolde.databases import Kind, Table, open_database
from isolde.databases.servers import Running
from isolde.engines.play import Player, history_of
from isolde.errors import StatementFailed, UsageError
from isolde.formats import decode, read
from isolde.formats.schedules import schedule_of
from isolde.history.schedule import Ended, Failure, Played, Schedule, ScheduleStep
from isolde.report.schedule import PlayedSchedule, render_schedule
from known_schedules import FAST, STORES, answers_of, levels_of, names, played_at, stores_of, url_at
from running import ISOLDE, as_user, fresh_signals, isolde

SCHEMA = {"schema": ["create table test (id int primary key, value int)"], "rows": {"test": [[1, 10], [2, 20]]}}


@pytest.fixture(scope="module")
def fast(servers: object) -> Iterator[Callable[[str], Running]]:
    """Servers that need not wait for a disk, each started once."""
    started: dict[str, Running] = {}

    def get(kind: str) -> Running:
        if kind not in started:
            started[kind] = servers.private(kind, **FAST[kind])  # type: ignore[attr-defined]
        return started[kind]

    yield get
    for server in started.values():
        server.stop()


@pytest.mark.parametrize("store", STORES)
def test_the_known_schedules_answer_as_recorded(fast: Callable[[str], Running], store: str) -> None:
    server = fast(store)
    for level in levels_of(store):
        adapter, database = open_database(url_at(server.url, level))
        with closing(database), Player(adapter, database) as player:
            for name in names():
                if store in stores_of(name):
                    known = answers_of(name, store)[level]
                    for seen in played_at(player, name, level, 1):
                        assert seen in known, f"{name} on {store} at {level}: {json.dumps(seen)}"


def _random_schedule(chance: random.Random) -> Schedule:
    texts = [
        "select * from test order by id",
        "select * from test where id = 1 for update",
        "update test set value = value + 1 where id = 1",
        "update test set value = value + 1 where id = 2",
        "insert into test values (3, 30)",
        "delete from test where id = 2",
    ]
    sessions = ["A", "B", "C"][: chance.randint(2, 3)]
    left = {
        name: ["begin", *chance.sample(texts, chance.randint(1, 3)), chance.choice(["commit", "commit", "rollback"])]
        for name in sessions
    }
    steps = []
    while left:
        name = chance.choice(list(left))
        steps.append(ScheduleStep(name, left[name].pop(0)))
        if not left[name]:
            del left[name]
    document = SCHEMA | {"steps": [[step.session, step.sql] for step in steps]}
    return schedule_of(document)


def _check_laws(played: Played) -> None:
    """Nothing returns before it was sent; a session's steps return in order; who waits is freed by somebody else's step."""
    last: dict[str, int | None] = {}
    for number, step in enumerate(played.steps):
        after = step.returned_after
        assert after is None or number <= after < len(played.steps)
        if step.session in last:
            before = last[step.session]
            assert before is not None or after is None
            assert before is None or after is None or after >= before
            if before is not None and before < number and after is not None and after > number:
                assert played.steps[after].session != step.session
        last[step.session] = after
        if after is None:
            assert step.error is None
            assert step.rows is None
        assert step.returned_after != number or not step.waited_for
        assert step.session not in step.waited_for


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("level", ["read-committed", "repeatable-read", "serializable"])
def test_random_schedules_keep_the_laws_of_waiting(fast: Callable[[str], Running], store: str, level: str) -> None:
    chance = random.Random(f"{store} {level}")
    adapter, database = open_database(fast(store).url)
    waits = 0
    with closing(database), Player(adapter, database) as player:
        for _ in range(40):
            schedule = _random_schedule(chance)
            schedule = schedule_of(
                SCHEMA
                | {
                    "sessions": dict.fromkeys(schedule.sessions, level),
                    "steps": [[step.session, step.sql] for step in schedule.steps],
                }
            )
            played = player.play(schedule)
            _check_laws(played)
            waits += any(step.returned_after != number for number, step in enumerate(played.steps))
            # What nobody committed is not there. (After a deadlock in InnoDB there is no transaction any more, and each statement
            # commits by itself.)
            if not any(step.ended is Ended.COMMITTED or step.error for step in played.steps):
                assert played.rows == {"test": ((1, 10), (2, 20))}
    assert waits > 3


@pytest.mark.parametrize("store", STORES)
def test_who_waits_for_whom_is_told(fast: Callable[[str], Running], store: str) -> None:
    steps = [
        ["T1", "begin"],
        ["T1", "update test set value = 11 where id = 1"],
        ["T2", "begin"],
        ["T2", "update test set value = 12 where id = 1; select * from test order by id"],
        ["T2", "commit"],
        ["T1", "commit"],
    ]
    adapter, database = open_database(fast(store).url)
    schedule = schedule_of(SCHEMA | {"sessions": {"T1": "read committed", "T2": "read committed"}, "steps": steps})
    with closing(database), Player(adapter, database, whom=True) as player:
        recorded = player.record(schedule)
    waiting = recorded.played.steps[3]
    assert (waiting.waited_for, waiting.returned_after, waiting.count) == (("T1",), 5, 1)
    assert waiting.rows == ((1, 12), (2, 20))
    assert recorded.played.steps[4].returned_after == 5
    history = history_of(recorded)
    # T2 may be through before the answer to T1's commit is heard.
    assert sorted((t.session, t.status.value, len(t.ops)) for t in history.transactions) == [
        ("T1", "committed", 1),
        ("T2", "committed", 2),
    ]
    shown = render_schedule(
        player.store, PlayedSchedule("two", schedule, recorded.played, recorded.levels, 0.1), width=100
    )
    assert "… waits for T1" in shown
    assert "… queued behind step 3" in shown
    assert "(step 3 returned after step 5)" in shown


def test_nothing_is_left_and_nothing_of_the_user_is_touched(fast: Callable[[str], Running]) -> None:
    """A schedule that names a table of the user's own without making it does not reach it."""
    for store, listed in (
        ("postgresql", "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'isolde%'"),
        ("mariadb", "SHOW DATABASES LIKE 'isolde%'"),
    ):
        adapter, database = open_database(fast(store).url)
        connection: Any = database.connect(Table("", Kind.REGISTERS, 0))
        connection.execute("create table mine (id int)")
        connection.execute("insert into mine values (1)")
        with Player(adapter, database) as player:
            played = player.play(schedule_of({"steps": [["a", "delete from mine"]]}))
            assert played.steps[0].error is Failure.OTHER
            with pytest.raises(StatementFailed):
                player.play(schedule_of({"schema": ["create tabel t"], "steps": [["a", "select 1"]]}))
            # The player is as good as before.
            assert player.play(schedule_of({"steps": [["a", "select 1"]]})).steps[0].rows == ((1,),)
        assert connection.execute("select * from mine").rows == [(1,)]
        assert list(connection.execute(listed).rows or []) == []
        connection.execute("drop table mine")
        connection.close()
        database.close()


def test_a_spec_file_of_several_permutations_is_played(fast: Callable[[str], Running], tmp_path: Path) -> None:
    spec = tmp_path / "skew.spec"
    spec.write_text(
        """
        setup { CREATE TABLE d (id int PRIMARY KEY, on_call boolean); INSERT INTO d VALUES (1, true), (2, true); }
        teardown { DROP TABLE d; }
        session s1
        setup { BEGIN ISOLATION LEVEL SERIALIZABLE; SET enable_seqscan = on; }
        step r1 { SELECT count(*) FROM d WHERE on_call; }
        step w1 { UPDATE d SET on_call = false WHERE id = 1; }
        step c1 { COMMIT; }
        session s2
        setup { BEGIN ISOLATION LEVEL SERIALIZABLE; }
        step r2 { SELECT count(*) FROM d WHERE on_call; }
        step w2 { UPDATE d SET on_call = false WHERE id = 2; }
        step c2 { COMMIT; }
        permutation r1 r2 w1 w2 c1 c2
        permutation r1 w1 c1 r2 w2 c2
        """
    )
    status, out, error = isolde(
        "run", "--schedule", str(spec), fast("postgresql").url, "--json", "-o", str(tmp_path / "o")
    )
    assert (status, error) == (0, "")
    document = json.loads(out)
    assert document["subject"]["schedules"] == 2
    skew, serial = document["results"]
    assert skew["name"] == "r1 r2 w1 w2 c1 c2"
    assert skew["steps"][5] | {"message": ""} == {
        "session": "s2",
        "step": "c2",
        "sql": "COMMIT;",
        "rows": None,
        "count": None,
        "error": "serialization-failure",
        "returned_after": 5,
        "sqlstate": "40001",
        "message": "",
        "ended": "rolled-back",
    }
    assert skew["rows"] == {"d": [[1, False], [2, True]]}
    assert [step["error"] for step in serial["steps"]] == [None] * 6
    history = decode(read(skew["history"]))
    assert history.extra["rows"] == {"d": [[1, True], [2, True]]}
    assert {t.level for t in history.transactions} == {"SERIALIZABLE"}


def test_an_interrupted_schedule_leaves_nothing_behind(fast: Callable[[str], Running], tmp_path: Path) -> None:
    for store, sleep, listed in (
        ("postgresql", "select pg_sleep(60)", "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'isolde%'"),
        ("mariadb", "select sleep(60)", "SHOW DATABASES LIKE 'isolde%'"),
    ):
        file = tmp_path / f"{store}.json"
        steps = [["A", "begin"], ["A", "update test set id = 5 where id = 1"], ["B", "delete from test"], ["A", sleep]]
        file.write_text(json.dumps(SCHEMA | {"steps": steps}))
        command = [*ISOLDE, "run", "--schedule", str(file), fast(store).url, "-o", str(tmp_path / store)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=fresh_signals)
        _, database = open_database(fast(store).url)
        connection: Any = database.connect(Table("", Kind.REGISTERS, 0))
        deadline = time.monotonic() + 30
        while not connection.execute(listed).rows and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=30)
        assert (process.returncode, out, error.strip()) == (130, b"", b"isolde: interrupted")
        assert not connection.execute(listed).rows
        connection.close()
        database.close()


def test_a_server_that_does_not_tell_who_waits_is_waited_for_with_patience(fast: Callable[[str], Running]) -> None:
    adapter, database = open_database(fast("mariadb").url)
    connection: Any = database.connect(Table("", Kind.REGISTERS, 0))
    connection.execute("CREATE USER plain@localhost IDENTIFIED BY 'x'")
    connection.execute("CREATE USER plain@'127.0.0.1' IDENTIFIED BY 'x'")
    for host in ("localhost", "127.0.0.1"):
        connection.execute(f"GRANT CREATE, DROP, SELECT, INSERT, UPDATE, DELETE ON *.* TO plain@'{host}'")
    steps = [["A", "begin"], ["A", "delete from test"], ["B", "delete from test"], ["A", "commit"]]
    adapter, limited = open_database(as_user(fast("mariadb").url, "plain", "x"))
    with closing(limited), Player(adapter, limited) as player:
        played = player.play(schedule_of(SCHEMA | {"steps": steps}))
    assert [step.returned_after for step in played.steps] == [0, 1, 3, 3]
    connection.execute("DROP USER plain@localhost, plain@'127.0.0.1'")
    connection.close()
    database.close()


@pytest.mark.parametrize("url", ["sqlite:", "duckdb:"])
def test_embedded_databases_play_schedules(url: str, tmp_path: Path) -> None:
    file = tmp_path / "two.json"
    steps = [["T1", "begin"], ["T1", "update test set value = 11 where id = 1"], ["T2", "begin"]]
    steps += [["T2", "update test set value = 12 where id = 1"], ["T1", "commit"], ["T2", "commit"]]
    file.write_text(json.dumps(SCHEMA | {"steps": steps}))
    status, out, error = isolde("run", "--schedule", str(file), url, "--json", "-o", str(tmp_path / "out"))
    assert (status, error) == (0, "")
    (result,) = json.loads(out)["results"]
    conflict = result["steps"][3]
    if url == "sqlite:":
        assert (conflict["returned_after"], conflict["error"]) == (4, None)
        assert result["rows"] == {"test": [[1, 12], [2, 20]]}
    else:
        assert (conflict["returned_after"], conflict["error"]) == (3, "serialization-failure")
        assert result["steps"][5]["ended"] == "rolled-back"
    assert read(result["history"]) is not None


def test_sqlite_refuses_at_once_who_has_read_and_waits_for_an_immediate_one() -> None:
    adapter, database = open_database("sqlite:")
    read_first = [
        ["A", "begin"],
        ["A", "select * from test"],
        ["B", "begin immediate"],
        ["A", "delete from test"],
        ["B", "commit"],
    ]
    waits = [["A", "begin immediate"], ["B", "begin immediate"], ["A", "commit"], ["B", "commit"]]
    with closing(database), Player(adapter, database) as player:
        refused = player.play(schedule_of(SCHEMA | {"steps": read_first}))
        assert (refused.steps[3].error, refused.steps[3].returned_after) == (Failure.LOCK_TIMEOUT, 3)
        waited = player.play(schedule_of(SCHEMA | {"steps": waits}))
        assert [step.returned_after for step in waited.steps] == [0, 2, 2, 3]
        by_level = {"sessions": {"A": "immediate", "B": "immediate"}, "steps": [[s, t.split()[0]] for s, t in waits]}
        assert [s.returned_after for s in player.play(schedule_of(SCHEMA | by_level)).steps] == [0, 2, 2, 3]
        never = player.play(schedule_of(SCHEMA | {"steps": waits[:2]}))
        assert never.steps[1].returned_after is None
        with pytest.raises(UsageError, match="no isolation level 'weird'"):
            player.play(schedule_of({"sessions": {"A": "weird"}, "steps": [["A", "select 1"]]}))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--schedule", "{missing}"], "No such file or directory"),
        (["--schedule", "{broken}"], "broken.json:1: "),
        (["--schedule", "{good}", "--matrix"], "--schedule plays one given interleaving; it does not go with --matrix"),
        (["--schedule", "{good}", "--isolation", "weird"], "offers no isolation level 'weird'"),
        (["--schedule", "{tables}"], "the tables cannot be made: the database refused 'create tabel t'"),
        (["--schedule", "{good}", "--driver", "sqlite3"], "does not go with --driver"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], said: str, tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.json" for name in ("missing", "broken", "good", "tables")}
    files["broken"].write_text('{"steps": 7}')
    files["good"].write_text('{"steps": [["A", "select 1"]]}')
    files["tables"].write_text('{"schema": ["create tabel t"], "steps": [["A", "select 1"]]}')
    shown = [argument.format(**files) for argument in arguments]
    status, out, error = isolde("run", *shown, "-o", str(tmp_path / "out"))
    assert (status, out) == (2, "")
    assert said in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("width", [20, 40, 60, 200])
def test_the_table_fits_the_terminal_and_escapes_what_it_shows(width: int) -> None:
    adapter, database = open_database("duckdb:")
    steps = [[name, f"select '{name}\x1b[31m' || repeat('x', 90)", "a\x07b"] for name in ("first", "second")]
    with closing(database), Player(adapter, database) as player:
        recorded = player.record(schedule_of({"steps": steps}))
    shown = render_schedule(
        "duckdb", PlayedSchedule("wide", recorded.schedule, recorded.played, recorded.levels, 0.1), width
    )
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert all(len(line) <= max(width, 24) for line in shown.splitlines())
