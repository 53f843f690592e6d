"""A log is judged while it grows: what is wrong is told as soon as nobody can mend it, and an interruption asks for the verdict so far."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from isolde.campaigns.audit import AuditQuestion
from isolde.campaigns.growing import follow_log
from isolde.errors import UsageError
from isolde.findings import LogSubject, Report

HEADER_OF_ACCOUNTS = {
    "isolde": "history",
    "version": 1,
    "dialect": "postgresql",
    "schema": ["CREATE TABLE t (id INT PRIMARY KEY, a INT)"],
    "rows": {"t": [[1, 0]]},
}


def deposits(many: int, wrong: int = -1) -> list[dict[str, Any]]:
    """Two sessions in turn, each adds one to a row that it reads first; one of them may read something else."""
    return [
        {
            "id": number,
            "session": number % 2,
            "start": 10 * number,
            "end": 10 * number + 8,
            "ops": [
                {"sql": "SELECT a FROM t WHERE id = 1", "rows": [[number + 100 * (number == wrong)]]},
                {"sql": "UPDATE t SET a = a + 1 WHERE id = 1", "count": 1},
            ],
        }
        for number in range(many)
    ]


def followed(path: Path, batches: list[list[dict[str, Any]]], level: str = "strict-si") -> tuple[Report, int]:
    """Appends a batch before each look; the report, and how many batches were there then."""
    path.write_text(json.dumps(HEADER_OF_ACCOUNTS) + "\n", encoding="utf-8")
    written = 0

    def grow(_: float) -> None:
        nonlocal written
        if written < len(batches):
            with path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in batches[written])
            written += 1

    looks = iter(range(len(batches) + 4))
    report = follow_log(str(path), AuditQuestion((level,)), stop=lambda: next(looks, None) is None, sleep=grow)
    return report, written


def test_a_growing_log_that_is_right_is_satisfied_when_somebody_stops(tmp_path: Path) -> None:
    lines = deposits(40)
    report, _ = followed(tmp_path / "log.jsonl", [lines[place : place + 10] for place in range(0, 40, 10)])
    assert report.verdict.value == "satisfied"
    assert isinstance(report.subject, LogSubject)
    assert report.subject.committed == 40


def test_a_wrong_answer_is_told_before_the_log_ends(tmp_path: Path) -> None:
    lines = deposits(400, wrong=15)
    report, written = followed(tmp_path / "log.jsonl", [lines[place : place + 10] for place in range(0, 400, 10)])
    assert report.verdict.value == "violated"
    assert written < 40


def test_what_is_under_way_may_still_explain_an_answer(tmp_path: Path) -> None:
    """A third session's deposit is seen before it is answered: its line comes much later, and nothing is wrong."""
    lines = deposits(40)
    lines.insert(0, {**lines[0], "id": "first", "session": 9, "start": -20, "end": -10, "ops": lines[0]["ops"][:1]})
    late = lines.pop(11)
    late["session"], late["end"] = 9, lines[20]["start"] + 1
    batches = [[one] for one in [*lines[:21], late, *lines[21:]]]
    report, _ = followed(tmp_path / "log.jsonl", batches, "si")
    assert report.verdict.value == "satisfied"


def test_levels_about_whole_logs_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(HEADER_OF_ACCOUNTS) + "\n", encoding="utf-8")
    with pytest.raises(UsageError, match="--follow"):
        follow_log(str(path), AuditQuestion(("postgresql:serializable",)))
