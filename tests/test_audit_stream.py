"""Logs that are judged as they are read have the verdicts of logs in memory; and what store models may and may not explain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import isolde
from audit_logs import log, verdict
from isolde.campaigns import audit as campaign
from isolde.history import Sql, Status, Transaction
from test_audit_large import large_log, whole, with_answer


@pytest.mark.parametrize("level", ["strict-si", "rc"])
@pytest.mark.parametrize("wrong", [False, True])
def test_a_log_that_is_not_held_in_memory_has_the_same_verdict(
    level: str, wrong: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions = large_log(3)
    if wrong:
        transactions[200] = with_answer(transactions[200], 1)
    path = tmp_path / "log.jsonl"
    isolde.write(whole(transactions), path)
    monkeypatch.setattr(campaign, "STREAMED_MIN", 1)
    monkeypatch.setattr(campaign, "CHUNK", 70)
    assert isolde.audit(path, level).verdict.value == ("violated" if wrong else "satisfied")


def timed(id: str, session: str, *ops: tuple[str, int, int, dict[str, Any]], status: str = "committed") -> Transaction:
    """Statements with the times of their answers; the transaction begins with the first and ends soon after the last."""
    content = tuple(
        Sql({"sql": text, "params": [], "rows": None, "start": start, "end": end, **answer})
        for text, start, end, answer in ops
    )
    return Transaction(id, session, content, Status(status), start=ops[0][1] - 1, end=ops[-1][2] + 2)


def test_what_was_read_at_serializable_stays_as_it_is_whatever_the_plan() -> None:
    """An insert that a range was read without has to wait for the reader; here it was answered before the reader read again."""
    read = "SELECT id FROM t WHERE a > 5"
    history = log(
        timed("t1", "s1", (read, 1, 2, {"rows": []}), (read, 9, 10, {"rows": [[3]]})),
        timed("t2", "s2", ("INSERT INTO t (id, a, b) VALUES (3, 7, 0)", 3, 4, {"count": 1})),
        dialect="mysql",
        store="mariadb 10.11",
    )
    assert verdict(history, "mariadb:read-committed") == "satisfied"
    assert verdict(history, "mariadb:serializable") != "satisfied"


def test_an_aborted_row_is_seen_at_read_uncommitted_alone() -> None:
    history = log(
        timed("t1", "s1", ("UPDATE t SET a = 7 WHERE id = 1", 1, 2, {"count": 1}), status="aborted"),
        timed("t2", "s2", ("SELECT a FROM t WHERE id = 1", 3, 4, {"rows": [[7]]})),
        dialect="mysql",
        store="mariadb 10.11",
    )
    assert verdict(history, "mariadb:read-uncommitted") == "satisfied"
    assert verdict(history, "mariadb:read-committed") == "violated"


@pytest.mark.parametrize(("rows", "expected"), [([[2]], "satisfied"), ([[1]], "satisfied"), ([[3]], "violated")])
def test_any_row_that_limit_may_leave_is_right_on_a_model(rows: list[list[int]], expected: str) -> None:
    history = log(timed("t1", "s1", ("SELECT id FROM t ORDER BY a LIMIT 1", 1, 2, {"rows": rows})))
    assert verdict(history, "postgresql:read-committed") == expected
