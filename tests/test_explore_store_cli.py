"""``isolde explore --store`` and ``--schedule``: models on the command line, and against the servers that they are of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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
