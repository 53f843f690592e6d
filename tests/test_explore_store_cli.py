"""``isolde explore --store`` and ``--schedule``: models on the command line, and against the servers that they are of."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isolde.databases.servers import Running
from isolde.errors import UsageError
from isolde.levels.stores import store_level
from test_explore_cli import explore, isolde, results

BANK = """
from isolde import Program, transaction

@transaction
def add(tx, account, amount):
    tx.execute("UPDATE accounts SET balance = balance + :amount WHERE id = :account", account=account, amount=amount)

@transaction
def withdraw(tx, account, amount):
    balance = tx.value("SELECT balance FROM accounts WHERE id = :account", account=account)
    if balance < amount:
        tx.abort("not enough")
    tx.execute("UPDATE accounts SET balance = balance - :amount WHERE id = :account", account=account, amount=amount)

TABLES = "CREATE TABLE accounts (id INT PRIMARY KEY, balance INT)"
ROWS = {"accounts": [(1, 100)]}
"""
INCREMENTS = (
    BANK
    + """
PROGRAM = Program(sessions=[[(add, 1, 1)], [(add, 1, 2)]], tables=TABLES, rows=ROWS,
                  invariant="SELECT id FROM accounts WHERE balance <> 103")
"""
)
OVERDRAFT = (
    BANK
    + """
PROGRAM = Program(sessions=[[(withdraw, 1, 80)], [(withdraw, 1, 70)]], tables=TABLES, rows=ROWS,
                  invariant="SELECT id FROM accounts WHERE balance < 0")
"""
)
TWO_TERMINALS = {
    "schema": ["create table test (id int primary key, value int)"],
    "rows": {"test": [[1, 10], [2, 20]]},
    "sessions": {"T1": "read committed", "T2": "read committed"},
    "steps": [
        ["T1", "begin"],
        ["T2", "begin"],
        ["T1", "update test set value = 11 where id = 1", "w1"],
        ["T2", "update test set value = value + 1 where id = 1"],
        ["T1", "commit"],
        ["T2", "commit"],
    ],
}


def test_increments_are_lost_in_the_literature_and_not_on_postgresql(tmp_path: Path) -> None:
    words = ["--level", "rc", "--store", "postgresql", "--isolation", "read-committed", "--json"]
    done = explore(tmp_path, *words, text=INCREMENTS)
    literature, store = results(done)
    assert (literature["verdict"], store["verdict"]) == ("violated", "satisfied")
    assert (store["store"], store["isolation"]) == ("postgresql", "read committed")
    assert store["outcomes"] >= 1
    assert store["schedules"] >= store["outcomes"]
    (remark,) = json.loads(done.stdout)["remarks"]
    assert "safe on postgresql at read committed" in remark


@pytest.mark.parametrize("isolation", ["read-committed", "repeatable-read", "serializable"])
def test_an_account_is_overdrawn_at_read_committed_alone(tmp_path: Path, isolation: str) -> None:
    (found,) = results(explore(tmp_path, "--store", "postgresql", "--isolation", isolation, "--json", text=OVERDRAFT))
    assert found["verdict"] == ("violated" if isolation == "read-committed" else "satisfied")
    if found["violations"]:
        (violation,) = found["violations"]
        assert violation["state"] == {"accounts": [[1, -50]]}
        assert set(violation["schedule"]) == {"schema", "rows", "sessions", "steps"}


def test_the_schedule_of_a_violation_is_a_file_that_can_be_played(tmp_path: Path) -> None:
    (found,) = results(
        explore(tmp_path, "--store", "postgresql", "--isolation", "read-committed", "--json", text=OVERDRAFT)
    )
    (tmp_path / "schedule.json").write_text(json.dumps(found["violations"][0]["schedule"]))
    done = isolde(tmp_path, "explore", "--schedule", "schedule.json", "--store", "postgresql", "--json")
    (played,) = results(done)
    assert played["rows"] == {"accounts": [[1, -50]]}


def test_a_program_of_another_dialect_is_translated_for_the_store(tmp_path: Path) -> None:
    words = ["--store", "mariadb", "--isolation", "repeatable-read", "--json"]
    (found,) = results(explore(tmp_path, *words, text=OVERDRAFT))
    assert found["verdict"] == "violated"
    assert "accounts" in found["violations"][0]["state"]


def test_a_schedule_on_a_model_tells_what_waited(tmp_path: Path) -> None:
    (tmp_path / "two.json").write_text(json.dumps(TWO_TERMINALS))
    (played,) = results(isolde(tmp_path, "explore", "--schedule", "two.json", "--store", "postgresql", "--json"))
    assert [step["returned_after"] for step in played["steps"]] == [0, 1, 2, 4, 4, 5]
    assert played["rows"] == {"test": [[1, 12], [2, 20]]}
    drawn = isolde(tmp_path, "explore", "--schedule", "two.json", "--store", "mariadb").stdout
    assert "waits for T1" in drawn


def test_a_step_that_the_language_cannot_say_leaves_its_schedule_undecided(tmp_path: Path) -> None:
    odd = {**TWO_TERMINALS, "steps": [["T1", "begin"], ["T1", "select pg_advisory_lock(1)"], ["T1", "commit"]]}
    (tmp_path / "odd.json").write_text(json.dumps(odd))
    done = isolde(tmp_path, "explore", "--schedule", "odd.json", "--store", "postgresql", "--json")
    (played,) = results(done)
    assert (done.returncode, played["verdict"]) == (3, "unknown")
    assert played["reason"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--isolation", "read-committed"], "go with --store"),
        (["--store", "postgresql", "--isolation", "rare"], "rare"),
        (["--store", "postgresql", "--setting", "x"], "NAME=VALUE"),
        (["--both", "postgresql://localhost/x"], "--schedule"),
    ],
)
def test_wrong_options_of_stores_are_told_in_one_line(tmp_path: Path, words: list[str], told: str) -> None:
    done = explore(tmp_path, *words, text=OVERDRAFT)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert told in done.stderr


@pytest.mark.server
@pytest.mark.parametrize("store", ["postgresql", "mariadb"])
def test_a_schedule_is_played_on_the_model_and_on_the_server_alike(tmp_path: Path, store: str) -> None:
    (tmp_path / "two.json").write_text(json.dumps(TWO_TERMINALS))
    words = ["--schedule", "two.json", "--store", store, "--start", store, "--json"]
    (played,) = results(isolde(tmp_path, "explore", *words))
    assert played["differs"] == []


@pytest.mark.server
def test_a_violation_is_reproduced_on_the_server(tmp_path: Path) -> None:
    words = ["--store", "postgresql", "--isolation", "read-committed", "--start", "postgresql"]
    done = explore(tmp_path, *words, text=OVERDRAFT)
    assert done.returncode == 1
    assert "the same happened there" in done.stdout


BOOKINGS: dict[str, Any] = {
    "schema": [
        "create table booking (day date primary key, guest varchar(9), made timestamp null, paid decimal(5, 2))"
    ],
    "rows": {"booking": [["2026-01-01", "ann", "2025-12-01 10:00:00", 10]]},
    "sessions": {"A": "read committed", "B": "repeatable read"},
    "steps": [
        ["A", "begin"],
        ["B", "begin"],
        ["B", "select max(day), min(made) from booking"],
        ["A", "select * from booking where day = '2026-01-01' for update"],
        ["B", "update booking set guest = 'bob', made = timestamp '2025-12-31 23:00:00' where day = date '2026-01-01'"],
        ["A", "insert into booking values ('2026-01-02', 'cy', '2025-12-02 12:00', 1)"],
        ["A", "commit"],
        ["B", "insert into booking values ('2026-01-02', 'bob', null, 1)"],
        ["B", "select * from booking where day between '2025-12-31' and '2026-02-01' order by made"],
        ["B", "commit"],
    ],
}


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_dates_and_times_of_a_schedule_are_those_of_the_server(
    tmp_path: Path, kind: str, server: Callable[[str], Running]
) -> None:
    file = tmp_path / "bookings.json"
    (schema,) = BOOKINGS["schema"]
    if kind == "postgresql":
        schema = schema.replace("timestamp null", "timestamp with time zone")
    file.write_text(json.dumps({**BOOKINGS, "schema": [schema]}))
    run = isolde(tmp_path, "explore", "--schedule", str(file), "--store", kind, "--both", server(kind).url, "--json")
    (result,) = results(run)
    zone = "+00:00" if kind == "postgresql" else ""
    assert result["differs"] == []
    assert result["steps"][2]["rows"] == [["2026-01-01", f"2025-12-01 10:00:00{zone}"]]
    assert result["rows"]["booking"][1] == ["2026-01-02", "cy", f"2025-12-02 12:00:00{zone}", 1.0]


BOOKED = """
from datetime import date
from isolde import Program, transaction

@transaction
def book(tx, day, guest):
    if tx.value("SELECT COUNT(*) FROM booking WHERE day = :day", day=day) == 0:
        tx.execute("INSERT INTO booking (id, day, guest) VALUES (:guest, :day, :guest)", day=day, guest=guest)

PROGRAM = Program(sessions=[[(book, date(2026, 1, 2), 1)], [(book, date(2026, 1, 2), 2)]],
                  tables="CREATE TABLE booking (id INT PRIMARY KEY, day DATE, guest INT)",
                  rows={"booking": [(0, "2026-01-01", 0)]},
                  invariant="SELECT day FROM booking GROUP BY day HAVING COUNT(*) > 1")
"""


def test_a_day_that_is_booked_twice_is_found_at_levels_and_on_stores(tmp_path: Path) -> None:
    run = explore(tmp_path, "--level", "si", "--level", "ser", "--json", text=BOOKED)
    assert [one["verdict"] for one in results(run)] == ["violated", "satisfied"]
    assert results(run)[0]["violations"][0]["state"]["booking"][1] == [1, "2026-01-02", 1]
    for store in ("postgresql", "mariadb"):
        run = explore(tmp_path, "--store", store, "--isolation", "repeatable-read", "--json", text=BOOKED)
        assert results(run)[0]["verdict"] == "violated"
    run = explore(tmp_path, "--store", "sqlite", "--json", text=BOOKED)
    assert results(run)[0]["verdict"] == "satisfied"


SHARED = """
from isolde import Program, transaction

{state}

@transaction
def first(tx):
    {first}
    tx.execute("UPDATE t SET v = v + 1 WHERE id = 1")

@transaction
def second(tx):
    v = tx.value("SELECT v FROM t WHERE id = 1")
    tx.execute("UPDATE t SET v = :v WHERE id = 2", v={second})

PROGRAM = Program(sessions=[[first], [second]], tables="CREATE TABLE t (id INT PRIMARY KEY, v INT)", rows={{"t": [(1, 0), (2, 0)]}})
"""


@pytest.mark.parametrize(
    ("state", "first", "second"),
    [
        ("CALLS = []", "CALLS.append(1)", "v + len(CALLS)"),
        (
            "NAMES = {'ann', 'bob', 'cy', 'dan', 'eve', 'flo', 'gus', 'hal'}",
            "pass",
            "int(''.join(str(ord(name[0]) % 10) for name in NAMES))",
        ),
        ("import time", "pass", "v + time.perf_counter_ns()"),
    ],
)
def test_a_body_that_depends_on_more_than_its_answers_is_told_on_a_store(
    tmp_path: Path, state: str, first: str, second: str
) -> None:
    text = SHARED.format(state=state, first=first, second=second)
    done = explore(tmp_path, "--store", "postgresql", "--json", text=text)
    assert done.returncode == 2
    assert "second() is not deterministic" in done.stderr
    assert "one run does (UPDATE t SET v = :v WHERE id = 2 with v = " in done.stderr


@pytest.mark.parametrize(
    ("store", "word", "level"),
    [
        ("postgresql", "rc", "read-committed"),
        ("postgresql", "SI", "repeatable-read"),
        ("postgresql", "snapshot", "repeatable-read"),
        ("mariadb", "rr", "repeatable-read"),
        ("sqlite", "serializable", "deferred"),
    ],
)
def test_the_usual_words_for_a_level_name_that_of_the_database(store: str, word: str, level: str) -> None:
    assert store_level(store, word).level == level


def test_a_level_that_a_database_does_not_have_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'repeatable-read'"):
        store_level("mariadb", "repeatable red")
    with pytest.raises(UsageError, match="mariadb has no isolation level 'si'"):
        store_level("mariadb", "si")
