"""The pytest plugin: each way to say what is explored, what a failure prints, and what is kept; in sessions of pytest of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

WITHDRAW = """
import pytest
from isolde import Program, transaction

def withdraw(tx, key, amount):
    if tx.read("x") + tx.read("y") >= amount:
        tx.write(key, tx.read(key) - amount)

SKEW = [[(withdraw, "x", 150)], [(withdraw, "y", 150)]]
FULL = {"x": 100, "y": 100}
"""


def ran(place: Path, text: str, *options: str) -> tuple[int, str]:
    """A session of pytest over one file, without what other plugins print."""
    (place / "test_it.py").write_text(WITHDRAW + text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "test_it.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=place)
    return done.returncode, done.stdout + done.stderr


def test_a_test_is_the_invariant_of_the_sessions_that_its_mark_names(tmp_path: Path) -> None:
    status, out = ran(
        tmp_path,
        """
@pytest.mark.isolation("serializable", "snapshot-isolation", sessions=SKEW, initial=FULL)
def test_total(state):
    assert state["x"] + state["y"] >= 0
""",
    )
    assert status == 1
    assert "1 failed, 1 passed" in out
    assert "test_total[snapshot-isolation]" in out
    assert "write-skew" in out
    assert "1.0  write y = -50" in out
    assert "Traceback" not in out


def test_a_test_that_returns_a_program_is_explored_as_the_database_runs_it(tmp_path: Path) -> None:
    status, out = ran(
        tmp_path,
        """
@transaction
def buy(tx, item: int, wanted: int):
    row = tx.one("SELECT stock FROM item WHERE id = :item", item=item)
    if row.stock >= wanted:
        tx.execute("UPDATE item SET stock = stock - :wanted WHERE id = :item", wanted=wanted, item=item)

@pytest.mark.isolation("postgresql:read-committed")
@pytest.mark.isolation("postgresql:repeatable-read")
def test_stock():
    return Program(
        sessions=[[(buy, 1, 2)], [(buy, 1, 2)]],
        tables="CREATE TABLE item (id INT PRIMARY KEY, stock INT NOT NULL)",
        rows={"item": [[1, 3]]},
        invariant="SELECT id FROM item WHERE stock < 0",
    )
""",
    )
    assert status == 1
    assert "1 failed, 1 passed" in out
    assert "test_stock[postgresql:read-committed]" in out
    assert "T2  UPDATE item SET stock = stock - 2 WHERE id = 1" in out


def test_arguments_may_come_from_hypothesis_and_fixtures(tmp_path: Path) -> None:
    status, out = ran(
        tmp_path,
        """
from hypothesis import given, settings, strategies as st

@pytest.fixture(scope="module")
def first():
    return FULL

@pytest.mark.isolation("si")
@settings(deadline=None, max_examples=20, database=None)
@given(amount=st.integers(90, 110))
def test_any(isolation, first, amount):
    isolation(
        Program(
            sessions=[[(withdraw, "x", amount)], [(withdraw, "y", amount)]],
            initial=first,
            invariant=lambda state: state["x"] + state["y"] >= 0,
        )
    )
""",
    )
    assert status == 1
    assert "write-skew" in out
    # Hypothesis shrinks to the smallest amount that breaks it.
    assert "amount=101" in out


def test_hypothesis_names_the_arguments_and_the_report_has_the_smallest_of_each_test(tmp_path: Path) -> None:
    kept = tmp_path / "kept.sarif"
    _, out = ran(
        tmp_path,
        """
from hypothesis import given, settings, strategies as st

@pytest.mark.isolation("si")
@pytest.mark.parametrize("account", ["y", "z"])
@settings(deadline=None, max_examples=20, database=None)
@given(amount=st.integers(90, 110))
def test_any(isolation, account, amount):
    initial = {"x": 100, account: 100}
    programs = [[(lambda tx, own: tx.write(own, tx.read("x") + tx.read(account) - 100 - amount), own)] for own in initial]
    isolation(Program(sessions=programs, initial=initial, invariant=lambda state: sum(state.values()) >= 0))
""",
        "--isolde-report",
        str(kept),
    )
    assert "isolation=Isolation(level='si'" in out
    assert "Finding(" not in out
    results = json.loads(kept.read_text())["runs"][0]["results"]
    assert len(results) == 2
    places = {one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in results}
    assert places == {"test_it.py"}


def test_what_stays_undecided_is_no_pass(tmp_path: Path) -> None:
    status, out = ran(
        tmp_path,
        """
@pytest.mark.isolation("serializable", sessions=SKEW, initial=FULL, budget=3)
def test_total(state):
    assert state["x"] + state["y"] >= 0
""",
    )
    assert status == 1
    assert "undecided at serializable" in out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('@pytest.mark.isolation("si")\ndef test_it():\n    pass\n', "returns an isolde.Program"),
        (
            '@pytest.mark.isolation("snapshoot")\ndef test_it():\n    return Program(sessions=SKEW)\n',
            "unknown isolation level",
        ),
        ('@pytest.mark.isolation("si", sessions=SKEW)\ndef test_it():\n    pass\n', "has to take 'state'"),
        ('@pytest.mark.isolation("si", session=SKEW)\ndef test_it(state):\n    pass\n', "knows no session"),
        ("@pytest.mark.isolation\ndef test_it():\n    pass\n", "names no level"),
        ('@pytest.mark.isolation("oracle:rc")\ndef test_it():\n    return Program(sessions=SKEW)\n', "oracle"),
    ],
)
def test_mistakes_are_said_in_a_line(tmp_path: Path, text: str, said: str) -> None:
    status, out = ran(tmp_path, text)
    assert status != 0
    assert said in out
    assert "INTERNALERROR" not in out


def test_what_was_found_is_kept_also_by_several_processes(tmp_path: Path) -> None:
    text = """
@pytest.mark.isolation("serializable", "si", sessions=SKEW, initial=FULL)
def test_total(state):
    assert state["x"] + state["y"] >= 0
"""
    for options in ((), ("-n", "2")):
        page = tmp_path / f"report{len(options)}.html"
        _, out = ran(tmp_path, text, "--isolde-report", str(page), *options)
        assert f"2 explorations are in {page}" in out
        assert page.read_text().count('<section id="finding-') == 2
    status, out = ran(tmp_path, text, "--isolde-report", "r.json")
    assert status == 4
    assert "has to end in .html" in out


def test_tests_without_the_mark_are_left_alone(tmp_path: Path) -> None:
    status, out = ran(tmp_path, "\ndef test_plain():\n    assert FULL\n")
    assert (status, "1 passed" in out) == (0, True)


@pytest.mark.server
def test_servers_are_there_for_tests(tmp_path: Path) -> None:
    status, out = ran(
        tmp_path,
        """
def test_both(isolde_postgresql, isolde_mariadb):
    import psycopg
    with psycopg.connect(isolde_postgresql.url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert isolde_mariadb.url.startswith("mariadb://")
""",
    )
    assert (status, "1 passed" in out) == (0, True), out
