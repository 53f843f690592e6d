"""`isolde explore` as a person meets it: what it prints, what it refuses, how it goes on."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from isolde.cli.main import main

DEPOSITS = """
from isolde import Program

def deposit(tx, amount):
    tx.write("x", tx.read("x") + amount)

PROGRAM = Program(sessions=[[(deposit, 10)], [(deposit, 20)]], initial={"x": 0}, invariant=lambda s: s["x"] == 30)
"""


@dataclass(frozen=True)
class Done:
    """What the program printed, and its status."""

    returncode: int
    stdout: str
    stderr: str


def isolde(where: Path, *words: str) -> Done:
    """The program in this process: it starts no faster elsewhere, and these tests start it often."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.chdir(where)
        patch.setattr(sys, "argv", ["isolde", *words])
        with pytest.raises(SystemExit) as ended:
            main()
    assert isinstance(ended.value.code, int)
    return Done(ended.value.code, out.getvalue(), err.getvalue())


def explore(where: Path, *words: str, text: str = DEPOSITS) -> Done:
    (where / "program.py").write_text(text)
    program = [] if words and not words[0].startswith("-") else ["program.py"]
    return isolde(where, "explore", *program, *words)


def results(done: Done) -> list[dict[str, Any]]:
    assert "Traceback" not in done.stderr, done.stderr
    return json.loads(done.stdout)["results"]  # type: ignore[no-any-return]


def test_the_lost_deposit_is_found_at_read_committed_and_not_above(tmp_path: Path) -> None:
    done = explore(tmp_path, "--level", "rc", "--level", "si", "--level", "ser", "--json")
    assert done.returncode == 1
    rc, si, ser = results(done)
    assert (rc["histories"], rc["end_states"], rc["explored"], rc["filtered"]) == (3, 3, 15, 0)
    assert [one["verdict"] for one in (rc, si, ser)] == ["violated", "satisfied", "satisfied"]
    (violation,) = rc["violations"]
    assert violation["check"] == "invariant"
    assert violation["state"]["x"] in (10, 20)
    assert violation["schedule"][0] == ["0.0", "begin"]
    assert {one["id"] for one in violation["history"]} == {"0.0", "1.0"}
    assert (si["histories"], si["end_states"], si["filtered"]) == (2, 3, 1)


def test_the_history_of_a_violation_can_be_checked(tmp_path: Path) -> None:
    (violation,) = results(explore(tmp_path, "--json"))[0]["violations"]
    lines = [{"isolde": "history", "version": 1, "initial": {"x": 0}}, *violation["history"]]
    (tmp_path / "history.jsonl").write_text("\n".join(map(json.dumps, lines)))
    done = isolde(tmp_path, "check", "--level", "rc", "--level", "ser", "--json", "history.jsonl")
    assert [one["verdict"] for one in json.loads(done.stdout)["results"]] == ["satisfied", "violated"]


def test_without_a_check_histories_are_counted_and_compared(tmp_path: Path) -> None:
    text = DEPOSITS.replace(', invariant=lambda s: s["x"] == 30', "")
    (count,) = results(explore(tmp_path, "--json", text=text))
    assert (count["question"], count["verdict"], count["histories"]) == ("count", "satisfied", 3)
    count, robust = results(explore(tmp_path, "--against", "ser", "--json", text=text))
    assert (robust["question"], robust["verdict"], len(robust["violations"])) == ("robustness", "violated", 1)
    _, robust = results(explore(tmp_path, "--level", "si", "--against", "ser", "--json", text=text))
    assert robust["verdict"] == "satisfied"


def test_several_programs_in_a_file_are_a_document_each(tmp_path: Path) -> None:
    text = DEPOSITS + '\nOTHER = Program(sessions=[[lambda tx: tx.read("y")]])\n'
    done = explore(tmp_path, "--json", text=text)
    assert done.returncode == 1
    assert [json.loads(line)["subject"]["name"] for line in done.stdout.splitlines()] == ["PROGRAM", "OTHER"]


def test_transactions_may_have_levels_of_their_own(tmp_path: Path) -> None:
    text = DEPOSITS.replace("[(deposit, 20)]", "[(again, 20)]").replace(
        "PROGRAM", "def again(tx, amount):\n    deposit(tx, amount)\n\nPROGRAM", 1
    )
    (mixed,) = results(explore(tmp_path, "--level", "rc", "--level", "again=ser", "--json", text=text))
    assert mixed["levels"] == {"again": "serializable"}
    assert mixed["verdict"] == "violated"
    (both,) = results(explore(tmp_path, "--level", "ser", "--level", "again=si", "--json", text=text))
    assert both["verdict"] == "satisfied"
    done = explore(tmp_path, "--level", "nobody=ser", text=text)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "nobody" in done.stderr


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("tx.write('x', 1 / 0)", "ZeroDivisionError"),
        ("tx.read(['x'])", "not hashable"),
        ("tx.write('x', {})", "not hashable"),
        ("open('/etc/hostname').read()", "opens the file"),
        ("while True:\n        tx.write('x', 1)", "loop for ever"),
        ("import random; tx.write('x', random.random())", "not deterministic"),
        ("import time; tx.write('x', time.perf_counter_ns())", "not deterministic"),
        ("tx.write('x', ''.join({'alpha', 'beta', 'gamma', 'delta', 'epsilon'}))", "not deterministic"),
        ("tx.nothing()", "AttributeError"),
        ("import sys; sys.exit(3)", "SystemExit"),
        ("import os; os.system('true')", "os.system"),
        ("yield tx.read('x')", "generator"),
        (
            "while True:\n        try:\n            tx.read('x')\n        except:\n            continue\n        break",
            "loop for ever",
        ),
    ],
)
def test_a_body_that_cannot_be_explored_is_named_in_one_line(tmp_path: Path, body: str, told: str) -> None:
    text = (
        f"from isolde import Program\n\ndef broken(tx, n):\n    {body}\n\nPROGRAM = Program(sessions=[[(broken, 7)]])\n"
    )
    done = explore(tmp_path, text=text)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
    assert told in done.stderr
    assert "broken(7)" in done.stderr


def test_what_one_body_leaves_behind_for_another_is_not_deterministic(tmp_path: Path) -> None:
    text = """
from isolde import Program

RUNS = []

def counts(tx):
    RUNS.append(1)
    tx.write("x", 1)

def looks(tx):
    tx.write("y", len(RUNS))

PROGRAM = Program(sessions=[[counts], [looks]])
"""
    done = explore(tmp_path, text=text)
    assert done.returncode == 2
    assert "looks() is not deterministic" in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


def test_a_number_and_its_text_are_two_keys_of_a_state(tmp_path: Path) -> None:
    text = """
from isolde import Program

def writes(tx):
    tx.write(1, 10)
    tx.write("1", 20)

PROGRAM = Program(sessions=[[writes]], invariant=lambda state: False)
"""
    (result,) = results(explore(tmp_path, "--json", text=text))
    assert result["violations"][0]["state"] == {"1": 10, "'1'": 20}


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("Program(sessions=[[(deposit,)]])", "deposit()"),
        ("Program(sessions=[[(deposit, 1, 2)]])", "deposit(1, 2)"),
        ("Program(sessions=[[7]])", "call 0 of session 0 is 7"),
        ("Program(sessions=[])", "no transactions"),
        ("Program(sessions=[[(deposit, 1)]], levels={'x': 'si'})", "levels name x"),
        ("Program(sessions=[[(deposit, 1)]], invariant=lambda state: 1 / 0)", "ZeroDivisionError"),
        (
            "Program(sessions=[[(deposit, 1)]], tables='CREATE TABLE t (id INT PRIMARY KEY)')",
            "no @transaction function",
        ),
        ("7", "holds no Program"),
        (
            "Program(sessions=[[sql]], tables='CREATE TABLE t (a INT PRIMARY KEY, b INT)', rows={'t': [(1,)]})",
            "2 columns",
        ),
        ("Program(sessions=[[sql]], tables='CREATE TABLE t (a INT PRIMARY KEY)', rows={'t': [(None,)]})", "not null"),
        ("Program(sessions=[[sql]], tables='CREATE TABLE t (a INT PRIMARY KEY)', initial={'x': 1})", "give rows"),
    ],
)
def test_a_program_that_is_none_is_told_in_one_line(tmp_path: Path, program: str, told: str) -> None:
    text = DEPOSITS[: DEPOSITS.index("PROGRAM")] + f"PROGRAM = {program}\n"
    text = text.replace('tx.read("x") + amount', "amount")
    text = text.replace(
        "PROGRAM =", "from isolde import transaction\n\n@transaction\ndef sql(tx):\n    pass\n\nPROGRAM ="
    )
    done = explore(tmp_path, text=text)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert told in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--level", "linearizable"], "cannot be explored"),
        (["--level", "nonsense"], "unknown isolation level"),
        (["--base", "si"], "cannot be a base"),
        (["--level", "rc", "--base", "cc"], "forbids histories"),
        (["nothing.py"], "no such file"),
        (["courseware"], "--sessions"),
        (["nothing"], "no Python file"),
        (["courseware", "--sessions", "enroll(1"], "no call of a transaction"),
        (["courseware", "--sessions", "sleep(1)"], "no transaction sleep"),
        (["courseware", "--sessions", "leave(1, 2, 3)"], "does not fit"),
        (["--scale", "students=3"], "--sessions"),
    ],
)
def test_wrong_options_are_told_in_one_line(tmp_path: Path, words: list[str], told: str) -> None:
    done = explore(tmp_path, *words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert told in done.stderr


MANY = """
from isolde import Program

def touch(tx, *keys):
    for key in keys:
        tx.write(key, (tx.read(key) or 0) + 1)

PROGRAM = Program(sessions=[[(touch, "x", "y"), (touch, "y", "z")] for _ in range(4)], invariant=lambda state: state["x"] < 5)
"""


def test_a_budget_leaves_it_undecided_and_a_checkpoint_goes_on(tmp_path: Path) -> None:
    small = MANY.replace("range(4)", "range(3)")
    (whole,) = results(explore(tmp_path, "--level", "cc", "--json", text=small))
    done = explore(tmp_path, "--level", "cc", "--budget", "500", "--checkpoint", "left.json", "--json", text=small)
    (part,) = results(done)
    assert (done.returncode, part["verdict"]) == (3, "unknown")
    assert "left.json" in part["reason"]
    rest = results(explore(tmp_path, "--level", "cc", "--checkpoint", "left.json", "--json", text=small))[0]
    keys = ("histories", "end_states", "explored", "verdict")
    assert [rest[key] for key in keys] == [whole[key] for key in keys]
    done = explore(tmp_path, "--level", "rc", "--checkpoint", "left.json", text=small)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_a_walk_that_has_found_violations_goes_on(tmp_path: Path) -> None:
    text = DEPOSITS.replace("[(deposit, 20)]]", "[(deposit, 20)], [(deposit, 40)]]").replace("== 30", "== 70")
    (whole,) = results(explore(tmp_path, "--json", text=text))
    words = ["--budget", "30", "--checkpoint", "left.json", "--list", "all.jsonl", "--json"]
    for _ in range(10):
        (part,) = results(explore(tmp_path, *words, text=text))
        if part["histories"] == whole["histories"]:
            break
    keys = ("histories", "explored", "verdict")
    assert [part[key] for key in keys] == [whole[key] for key in keys]
    assert part["violations"][0]["state"] == whole["violations"][0]["state"]
    assert len((tmp_path / "all.jsonl").read_text().splitlines()) == whole["histories"]


@pytest.mark.parametrize(
    "body",
    [
        "try:\n        tx.abort()\n    except BaseException:\n        pass\n    tx.write('x', 9)",
        "tx.write('x', 9)\n    try:\n        tx.abort()\n    finally:\n        return",
    ],
)
def test_a_transaction_that_gave_up_has_given_up_whatever_it_catches(tmp_path: Path, body: str) -> None:
    text = f"from isolde import Program\n\ndef f(tx):\n    {body}\n\n"
    text += "PROGRAM = Program(sessions=[[f]], invariant=lambda state: state['x'] is None)\n"
    assert results(explore(tmp_path, "--json", text=text))[0]["verdict"] == "satisfied"


@pytest.mark.parametrize(
    "value", ["1.5", "-0.0", "float('inf')", "10**5000", "'\\ud800'", "frozenset({1})", "(1, (2,))"]
)
def test_any_hashable_value_can_be_shown(tmp_path: Path, value: str) -> None:
    text = f"from isolde import Program\n\ndef f(tx):\n    tx.write('x', {value})\n\n"
    text += "PROGRAM = Program(sessions=[[f]], invariant=lambda state: False)\n"
    done = explore(tmp_path, "--json", text=text)
    assert (done.returncode, results(done)[0]["verdict"]) == (1, "violated"), done.stderr
    assert explore(tmp_path, text=text).returncode == 1


def test_what_a_program_prints_is_no_part_of_the_answer(tmp_path: Path) -> None:
    text = DEPOSITS.replace("    tx.write", "    print('hello')\n    tx.write") + "print('module')\n"
    assert results(explore(tmp_path, "--json", text=text))[0]["histories"] == 3


def test_ctrl_c_prints_what_was_explored_and_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(MANY.replace("range(4)", "range(6)").replace("< 5", "< 50"))
    command = [sys.executable, "-m", "isolde", "explore", "program.py", "--level", "cc", "--checkpoint", "left.json"]
    child = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(4)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130, (out, err)
    assert "undecided" in out
    assert "left.json" in out
    assert "interrupted" in err
    assert (tmp_path / "left.json").exists()


def test_every_history_can_be_listed(tmp_path: Path) -> None:
    explore(tmp_path, "--list", "all.jsonl")
    listed = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert len(listed) == 3
    assert all({one["id"] for one in entry["history"]} == {"0.0", "1.0"} for entry in listed)


def test_invariants_after_each_commit_look_at_states_on_the_way(tmp_path: Path) -> None:
    text = """
from isolde import Program

def up(tx):
    tx.write("x", tx.read("x") + 1)

def down(tx):
    tx.write("x", tx.read("x") - 1)

PROGRAM = Program(sessions=[[up, down]], initial={"x": 0}, invariant=lambda state: state["x"] == 0)
"""
    assert results(explore(tmp_path, "--level", "ser", "--json", text=text))[0]["verdict"] == "satisfied"
    (found,) = results(explore(tmp_path, "--level", "ser", "--invariant-after-each-commit", "--json", text=text))
    assert found["violations"][0]["state"] == {"x": 1}


def test_an_application_is_explored_by_its_sessions(tmp_path: Path) -> None:
    words = [
        "courseware",
        "--sessions",
        "enroll(1,1)",
        "--sessions",
        "deregister(1)",
        "--level",
        "si",
        "--level",
        "ser",
    ]
    si, ser = results(explore(tmp_path, *words, "--json"))
    assert (si["verdict"], ser["verdict"]) == ("violated", "satisfied")
    schedule = si["violations"][0]["schedule"]
    assert schedule["sessions"] == {"T1": "repeatable read", "T2": "repeatable read"}
    assert any(step[1].startswith("INSERT INTO enrollment") for step in schedule["steps"])
    assert "enrollment" in si["violations"][0]["state"]


def test_the_models_of_tables_find_the_same_violation(tmp_path: Path) -> None:
    words = ["courseware", "--sessions", "enroll(1,1)", "--sessions", "deregister(1)", "--level", "si", "--json"]
    (rows,) = results(explore(tmp_path, *words))
    (sets,) = results(explore(tmp_path, *words, "--tables", "set"))
    assert rows["verdict"] == sets["verdict"] == "violated"
    assert sets["explored"] > rows["explored"]


def test_a_report_is_kept_and_shown_again(tmp_path: Path) -> None:
    shown = explore(tmp_path, "--report", "result.json")
    again = isolde(tmp_path, "show", "result.json")
    assert again.stdout == shown.stdout
