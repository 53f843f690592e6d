"""Options of ``isolde infer``: counterexamples executed on servers, kept answers, questions that another solver can check."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from isolde.cli.main import cli
from isolde.databases.servers import start
from isolde.errors import UsageError
from isolde.levels.specifications import CANDIDATES

RC, RR, SER = CANDIDATES
APPLICATIONS = Path(__file__).parent / "applications"
WITHDRAWALS = str(APPLICATIONS / "withdrawals.py")


def _infer(*arguments: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(cli, ["infer", *arguments, "--json"], standalone_mode=False)
    assert result.exception is None, result.exception
    return result.return_value, json.loads(result.stdout)


def _levels(document: dict[str, Any]) -> dict[str, str | None]:
    return {one["transaction"]: one["level"] for one in document["results"]}


# Servers


@pytest.mark.server
@pytest.mark.parametrize("database", ["postgresql", "mariadb"])
def test_counterexamples_are_executed_on_a_server(database: str) -> None:
    status, document = _infer(WITHDRAWALS, "--database", database, "--start", database)
    assert status == 0
    refused = [one for result in document["results"] for one in result["weaker"] + result["refused_above"]]
    assert refused
    assert {one["confirmed"] for one in refused} == {"executed"}
    assert "remarks" not in document


@pytest.mark.server
def test_what_does_not_happen_on_the_server_is_said() -> None:
    server = start("mariadb", innodb_snapshot_isolation="ON")
    try:
        _, document = _infer(WITHDRAWALS, "--database", "mariadb", "--confirm", server.url)
    finally:
        server.stop()
    found = {one["level"]: one["confirmed"] for one in document["results"][0]["weaker"]}
    assert found == {RC: "executed", RR: "explored"}
    assert all("innodb_snapshot_isolation is on there" in remark for remark in document["remarks"])


@pytest.mark.server
@pytest.mark.parametrize("database", ["postgresql", "mariadb"])
def test_a_row_that_comes_again_is_passed_over_by_postgresql_alone(database: str, tmp_path: Path) -> None:
    schedule = {
        "schema": ["create table b (id int primary key, v int)"],
        "rows": {"b": [[1, 2]]},
        "sessions": {"T1": RC, "T2": RC},
        "steps": [
            ["T2", "begin"], ["T2", "delete from b where id = 1"], ["T1", "begin"],
            ["T1", "update b set v = v + 1 where id = 1"], ["T2", "insert into b values (1, 2)"], ["T2", "commit"], ["T1", "commit"],
        ],
    }  # fmt: skip
    file = tmp_path / "again.json"
    file.write_text(json.dumps(schedule))
    result = CliRunner().invoke(
        cli,
        ["explore", "--schedule", str(file), "--store", database, "--start", database, "--json"],
        standalone_mode=False,
    )
    (found,) = json.loads(result.stdout)["results"]
    assert found["differs"] == []
    assert found["rows"] == {"b": [[1, 2 if database == "postgresql" else 3]]}


def test_a_server_of_another_kind_is_refused() -> None:
    for arguments in (("postgresql", "--start", "mariadb"), ("paper-mysql", "--start", "mariadb")):
        with pytest.raises(UsageError, match=r"another database|runs anywhere"):
            CliRunner().invoke(
                cli, ["infer", WITHDRAWALS, "--database", *arguments], standalone_mode=False, catch_exceptions=False
            )


# Answers and questions


def test_answers_are_kept_and_corrupt_ones_ignored(tmp_path: Path) -> None:
    asked = (WITHDRAWALS, "--database", "postgresql", "--cache", str(tmp_path))
    first = _infer(*asked)
    kept = sorted(tmp_path.glob("*.json"))
    assert kept
    before = {path: path.read_text() for path in kept}
    for path in kept[::2]:
        path.write_text("[]")
    second = _infer(*asked)
    assert _without_times(first) == _without_times(second)
    assert {path: path.read_text() for path in sorted(tmp_path.glob("*.json"))} == before


def _without_times(found: tuple[int, dict[str, Any]]) -> tuple[int, list[dict[str, Any]]]:
    return found[0], [{key: value for key, value in one.items() if key != "seconds"} for one in found[1]["results"]]


def test_another_process_confirms_the_proof_from_its_questions(tmp_path: Path) -> None:
    _infer(WITHDRAWALS, "--database", "mariadb", "--candidates", "ser", "--smtlib", str(tmp_path))
    texts = sorted(tmp_path.glob("*.smt2"))
    assert texts
    checker = "import sys, z3\nfor path in sys.argv[1:]:\n    s = z3.Solver(); s.from_file(path); print(s.check())"
    done = subprocess.run(
        [sys.executable, "-c", checker, *map(str, texts)], capture_output=True, text=True, timeout=120, check=True
    )
    answers = done.stdout.split()
    assert len(answers) == len(texts)
    # Candidates for the rely may be dropped; the questions about invariants are what the proof rests on.
    asked = [answer for path, answer in zip(texts, answers, strict=True) if "not-negative" in path.name]
    assert asked
    assert set(asked) == {"unsat"}


# First rows


def test_first_rows_may_be_all_that_counts() -> None:
    """From any state, a number that is taken already breaks it; from the first rows none ever is."""
    path = str(APPLICATIONS / "tickets.py")
    status, anywhere = _infer(path, "--database", "postgresql")
    assert (status, anywhere["results"][0]["serially"]) == (1, True)
    status, document = _infer(path, "--database", "postgresql", "--from-populate")
    assert status == 0
    assert _levels(document) == {"take": RC}
    assert "first rows" in document["subject"]["assumptions"][0]


# Levels and time


def test_what_is_read_at_read_uncommitted_is_anything() -> None:
    """An amount that is read and written back is lost; one that is changed in place, and tested there, is not."""
    status, document = _infer(WITHDRAWALS, "--database", "mariadb", "--candidates", "ru,rc,ser")
    assert (status, document["complete"]) == (0, True)
    assert _levels(document) == {"look_first": "serializable", "in_place": "read-uncommitted"}
    assert document["results"][1]["means"] == "uncommitted reads, current writes"
    status, document = _infer(WITHDRAWALS, "--database", "postgresql", "--candidates", "ru,rc,rr")
    assert _levels(document) == {"look_first": "repeatable-read", "in_place": "read-uncommitted"}
    assert document["results"][1]["means"] == "read-committed"


def test_what_there_was_no_time_for_is_not_proved() -> None:
    status, document = _infer(WITHDRAWALS, "--database", "postgresql", "--time", "0.001")
    assert status in {0, 3}
    assert not document["complete"]
    for result in document["results"]:
        assert {one["status"] for one in result["weaker"]} <= {"not-proved"}
