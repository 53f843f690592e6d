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
from isolde.formats.recording import HEADER

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


def followed(
    path: Path, batches: list[list[dict[str, Any]]], level: str = "strict-si", longest: float = 1.5, idle: int = 4
) -> tuple[Report, int]:
    """Appends a batch before each look, one a second, and then looks some more; the report, and how many batches were there."""
    path.write_text(json.dumps(HEADER_OF_ACCOUNTS) + "\n", encoding="utf-8")
    written = 0
    seconds = 0

    def grow(_: float) -> None:
        nonlocal written, seconds
        seconds += 1
        if written < len(batches):
            with path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in batches[written])
            written += 1

    looks = iter(range(len(batches) + idle))
    report = follow_log(
        str(path),
        AuditQuestion((level,)),
        longest=longest,
        stop=lambda: next(looks, None) is None,
        sleep=grow,
        clock=lambda: seconds,
    )
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
    report, _ = followed(tmp_path / "log.jsonl", batches, "si", longest=10)
    assert report.verdict.value == "satisfied"


def late_deposit(many: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Deposits, and one of a session of its own that all others saw, whose line comes after them."""
    lines = deposits(many)
    late = lines.pop(11)
    late["session"], late["end"] = 9, lines[-1]["end"] + 1
    return lines, late


def test_a_session_that_nobody_has_heard_of_may_still_come(tmp_path: Path) -> None:
    lines, late = late_deposit(40)
    batches = [lines[place : place + 5] for place in range(0, len(lines), 5)]
    report, _ = followed(tmp_path / "log.jsonl", [*batches, [late]], "si", longest=20)
    assert report.verdict.value == "satisfied"


def test_what_may_still_be_explained_when_somebody_stops_is_undecided(tmp_path: Path) -> None:
    lines, _ = late_deposit(40)
    batches = [lines[place : place + 5] for place in range(0, len(lines), 5)]
    report, _ = followed(tmp_path / "log.jsonl", batches, "si", longest=100)
    assert report.verdict.value == "unknown"
    report, _ = followed(tmp_path / "log.jsonl", batches, "si", longest=3, idle=6)
    assert report.verdict.value == "violated"


def test_answers_of_transactions_under_way_count_when_all_that_they_may_rest_on_is_there(tmp_path: Path) -> None:
    """The lines up to 20 are settled and right; the newest rest on a deposit that is not there, and are not judged yet."""
    lines, _ = late_deposit(40)
    early = {**deposits(1)[0], "id": "wrong", "session": 5, "start": 20, "end": 28}
    early["ops"] = [{"sql": "SELECT a FROM t WHERE id = 1", "rows": [[77]]}]
    report, _ = followed(tmp_path / "log.jsonl", [[*lines[:3], early], [], [], lines[3:]], "si", longest=1.5, idle=0)
    assert report.verdict.value == "violated"
    assert isinstance(report.subject, LogSubject)
    assert report.subject.transactions == 4


def run_directory(path: Path, files: dict[str, list[dict[str, Any]]]) -> Path:
    (path / "sessions").mkdir(parents=True)
    (path / HEADER).write_text(json.dumps(HEADER_OF_ACCOUNTS) + "\n", encoding="utf-8")
    for name, lines in files.items():
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        (path / "sessions" / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return path


def test_sessions_of_a_run_that_have_gone_on_settle_a_violation_at_once(tmp_path: Path) -> None:
    """No time passes here: each session's file has later transactions, so that nothing can come any more."""
    lines = deposits(60, wrong=15)
    whole = run_directory(tmp_path / "whole", {"0": lines[0::2], "1": lines[1::2]})
    looks = iter(range(6))
    report = follow_log(
        str(whole),
        AuditQuestion(("si",)),
        stop=lambda: next(looks, None) is None,
        sleep=lambda _: None,
        clock=lambda: 0.0,
    )
    assert report.verdict.value == "violated"


def test_a_silent_session_of_a_run_may_have_something_under_way(tmp_path: Path) -> None:
    lines, _ = late_deposit(60)
    waits = run_directory(tmp_path / "waits", {"0": lines[0::2], "1": lines[1::2], "2": []})
    looks = iter(range(6))
    report = follow_log(
        str(waits),
        AuditQuestion(("si",)),
        stop=lambda: next(looks, None) is None,
        sleep=lambda _: None,
        clock=lambda: 0.0,
    )
    assert report.verdict.value == "unknown"


def test_levels_about_whole_logs_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(HEADER_OF_ACCOUNTS) + "\n", encoding="utf-8")
    with pytest.raises(UsageError, match="--follow"):
        follow_log(str(path), AuditQuestion(("postgresql:serializable",)))
