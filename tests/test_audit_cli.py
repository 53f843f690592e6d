"""``isolde audit`` on the command line and in the library: documents, exit codes, and what is said when it cannot judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import isolde
from isolde.cli.main import cli

HEADER = {
    "isolde": "history",
    "version": 1,
    "dialect": "postgresql",
    "schema": ["CREATE TABLE accounts (id INT PRIMARY KEY, balance INT)"],
    "rows": {"accounts": [[1, 100], [2, 300]]},
}
READ = "SELECT balance FROM accounts WHERE id = ?"
ADD = "UPDATE accounts SET balance = balance + ? WHERE id = ?"


def log(tmp_path: Path, *transactions: dict[str, Any], name: str = "log.jsonl", **header: Any) -> str:
    path = tmp_path / name
    path.write_text("\n".join(json.dumps(line) for line in ({**HEADER, **header}, *transactions)) + "\n")
    return str(path)


def txn(id: str, *ops: tuple[Any, ...], **more: Any) -> dict[str, Any]:
    names = ("sql", "params", "rows", "count")
    content = [dict(zip(names, op, strict=False)) for op in ops]
    return {"id": id, "session": more.pop("session", id), "ops": content, **more}


def audited(*arguments: str) -> tuple[int, list[dict[str, Any]]]:
    result = CliRunner().invoke(cli, ["audit", "--json", *arguments], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value, [json.loads(line) for line in result.stdout.splitlines()]


def test_an_answer_that_no_order_gives_is_violated_with_what_would_have_been_right(tmp_path: Path) -> None:
    path = log(
        tmp_path,
        txn("t1", (ADD, [10, 2], None, 1), start=1, end=2),
        txn("t2", (ADD, [100, 2], None, 1), start=3, end=4),
        txn("t3", (READ, [2], [[420]]), start=5, end=6),
    )
    status, (document,) = audited(path, "--level", "strict-si")
    (result,) = document["results"]
    assert status == 1
    assert document["subject"] == {"name": path, "transactions": 3, "committed": 3, "statements": 3}
    assert (result["question"], result["level"], result["verdict"]) == (
        "explanation",
        "strict-snapshot-isolation",
        "violated",
    )
    assert (result["prefix"], result["transaction"], result["statement"]) == (3, "t3", 0)
    assert (result["expected"], result["observed"]) == ([[410]], [[420]])
    assert (result["kind"], result["explained_by"]) == ("semantic", [])
    assert result["core"] == ["t3"]
    assert "returned 420" in result["explanation"]
    assert "410" in result["explanation"]


def test_an_answer_that_a_weaker_level_gives_is_a_matter_of_isolation(tmp_path: Path) -> None:
    path = log(
        tmp_path,
        txn("t1", (READ, [1], [[100]]), (ADD, [1, 2], None, 1)),
        txn("t2", (READ, [2], [[300]]), (ADD, [1, 1], None, 1)),
    )
    status, (document,) = audited(path, "--level", "ser", "--level", "si")
    serializable, snapshot = document["results"]
    assert status == 1
    assert (serializable["verdict"], serializable["kind"]) == ("violated", "isolation")
    assert "snapshot-isolation" in serializable["explained_by"]
    assert serializable["core"] == ["t1", "t2"]
    assert snapshot["verdict"] == "satisfied"


def test_the_order_that_explains_a_log_is_named(tmp_path: Path) -> None:
    path = log(
        tmp_path,
        txn("t1", (READ, [1], [[105]]), start=1, end=9),
        txn("t2", (ADD, [5, 1], None, 1), start=2, end=10),
    )
    status, (document,) = audited(path, "--witness-order")
    (result,) = document["results"]
    assert (status, result["order"], result["snapshots"]) == (0, ["t2", "t1"], [[0], [1]])


def test_strict_levels_need_times(tmp_path: Path) -> None:
    status, (document,) = audited(log(tmp_path, txn("t1", (READ, [1], [[100]]))), "--level", "strict-ser")
    assert status == 3
    assert document["results"][0]["verdict"] == "unknown"
    assert "start and end" in document["results"][0]["reason"]


def test_what_the_language_cannot_say_is_named_or_left_out(tmp_path: Path) -> None:
    window = "SELECT balance, rank() OVER (ORDER BY balance) FROM accounts"
    path = log(tmp_path, txn("t1", (window, [], [[1, 1]]), (READ, [1], [[100]])))
    status, (document,) = audited(path)
    assert status == 3
    assert "statement 0 of t1" in document["results"][0]["reason"]
    status, (document,) = audited(path, "--skip-unsupported")
    assert status == 0
    assert len(document["results"][0]["except"]) == 1


def test_several_logs_give_a_line_each_and_the_most_serious_status(tmp_path: Path) -> None:
    right = log(tmp_path, txn("t1", (READ, [1], [[100]])))
    wrong = log(tmp_path, txn("t1", (READ, [1], [[1]])), name="wrong.jsonl")
    status, documents = audited(right, wrong, str(tmp_path / "missing.jsonl"))
    assert status == 2
    assert [one["file"] for one in documents] == [right, wrong, str(tmp_path / "missing.jsonl")]
    assert [one["results"][0]["verdict"] for one in documents[:2]] == ["satisfied", "violated"]
    assert "error" in documents[2]


def test_the_library_judges_files_and_histories(tmp_path: Path) -> None:
    path = log(tmp_path, txn("t1", (READ, [1], [[100]])))
    assert isolde.audit(path).satisfied
    assert isolde.audit(isolde.read(path), ["si", "rc"], definition="paper").satisfied


def test_levels_of_keys_alone_are_refused(tmp_path: Path) -> None:
    path = log(tmp_path, txn("t1", (READ, [1], [[100]])))
    with pytest.raises(isolde.IsoldeError, match="defined for keys"):
        audited(path, "--level", "causal")
