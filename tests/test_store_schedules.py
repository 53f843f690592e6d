"""What schedules say of levels and transactions, on store models; the answers were seen on PostgreSQL 15 and MariaDB 10.11."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from isolde.formats.schedules import schedule_of
from isolde.history.schedule import Played
from isolde.report.schedule import PlayedSchedule, render_schedule
from isolde.semantics.stores.play import play
from running import isolde

TABLE = {"schema": ["create table test (id int primary key, value int)"], "rows": {"test": [[1, 10], [2, 20]]}}


def ways(store: str, *steps: str, **fields: Any) -> tuple[Played, ...]:
    """Plays steps written as ``session: SQL``."""
    listed = [step.split(": ", 1) for step in steps]
    return play(schedule_of(TABLE | {"steps": listed} | fields), store).played


def way(store: str, *steps: str) -> list[Any]:
    """Of the only way, what each step returned: rows, a count, an error's word, or how a transaction ended."""
    (one,) = ways(store, *steps)
    return [
        step.error.value
        if step.error
        else step.ended.value
        if step.ended
        else [list(row) for row in step.rows]
        if step.rows is not None
        else step.count
        for step in one.steps
    ]


READ_TWICE = ("A: select value from test where id = 1", "B: update test set value = 11 where id = 1")
AGAIN = ("A: select value from test where id = 1", "A: commit")


def test_set_transaction_gives_an_open_transaction_of_postgresql_its_level() -> None:
    one = way("postgresql", "A: begin; set transaction isolation level repeatable read", *READ_TWICE, *AGAIN)
    assert one == [None, [[10]], 1, [[10]], "committed"]
    assert way("postgresql", "A: begin", *READ_TWICE, *AGAIN) == [None, [[10]], 1, [[11]], "committed"]
    outside = way("postgresql", "A: set transaction isolation level repeatable read", "A: begin", *READ_TWICE, *AGAIN)
    assert outside == [None, None, [[10]], 1, [[11]], "committed"]


def test_set_transaction_gives_the_next_transaction_of_mariadb_its_level() -> None:
    said = "A: set transaction isolation level read committed"
    once = way(
        "mariadb", said, "A: begin", *READ_TWICE, *AGAIN, "A: begin", *READ_TWICE[:1], "B: delete from test", *AGAIN
    )
    assert once == [None, None, [[10]], 1, [[11]], "committed", None, [[11]], 2, [[11]], "committed"]


def test_a_session_keeps_the_level_that_it_sets() -> None:
    for store, said in (
        ("postgresql", "A: set session characteristics as transaction isolation level serializable"),
        ("mariadb", "A: set session transaction isolation level read committed; begin"),
    ):
        later = 11 if store == "mariadb" else 10
        begin = () if store == "mariadb" else ("A: begin",)
        seen = way(store, said, *begin, *READ_TWICE, *AGAIN)
        assert seen[-2:] == [[[later]], "committed"]


def test_a_level_that_the_store_does_not_have_or_that_comes_too_late_is_refused(tmp_path: Path) -> None:
    late = ["A: begin", "A: select * from test", "A: set transaction isolation level serializable"]
    for store in ("postgresql", "mariadb"):
        assert "before the first statement" in _reason(tmp_path, store, late)


def test_a_step_that_is_no_sql_leaves_its_schedule_alone_undecided(tmp_path: Path) -> None:
    assert "for share" in _reason(tmp_path, "mariadb", ["A: begin", "A: select * from test for share"])


def _reason(folder: Path, store: str, steps: list[str]) -> str:
    file = folder / "schedule.json"
    file.write_text(json.dumps(TABLE | {"steps": [step.split(": ", 1) for step in steps]}))
    code, out, _ = isolde("explore", "--schedule", str(file), "--store", store, "--json")
    assert code == 3
    (result,) = json.loads(out)["results"]
    assert result["verdict"] == "unknown"
    return str(result["reason"])


def test_a_read_only_transaction_refuses_changes_and_locks() -> None:
    begin, lock, change = "A: begin read only", "A: select * from test for update", "A: update test set value = 0"
    read, commit = "A: select value from test where id = 1", "A: commit"
    assert way("postgresql", begin, read, change, read, commit) == [
        None, [[10]], "other", "transaction-failed", "rolled-back",
    ]  # fmt: skip
    assert way("postgresql", begin, "A: select * from test for share", commit) == [None, "other", "rolled-back"]
    start = "A: start transaction read only"
    assert way("mariadb", start, lock, change, read, commit) == [None, "other", "other", [[10]], "committed"]


def test_a_consistent_snapshot_is_taken_at_once() -> None:
    change = "B: update test set value = 11 where id = 1"
    for begin, seen in (("start transaction with consistent snapshot", 10), ("begin", 11)):
        assert way("mariadb", f"A: {begin}", change, *AGAIN) == [None, 1, [[seen]], "committed"]


def test_sessions_that_are_set_free_at_once_may_go_on_in_any_order() -> None:
    """B's commit sets C free, whose commit sets A free; what A and C have still to send is sent side by side."""
    found = ways(
        "postgresql",
        "B: begin",
        "B: select * from test where id = 2 for share",
        "C: begin",
        "C: update test set value = 11 where id = 1",
        "C: update test set value = 21 where id = 2",
        "A: begin",
        "A: update test set value = value + 1 where id = 1",
        "A: commit",
        "C: commit",
        "C: begin",
        "C: delete from test",
        "B: commit",
        "C: commit",
        sessions={"A": "read committed", "C": "repeatable read"},
    )
    ends = sorted((step.error is not None, one.rows["test"]) for one in found for step in one.steps[10:11])
    assert ends == [(False, ()), (True, ((1, 12), (2, 21)))]


def test_a_session_is_headed_by_the_level_that_it_begins_at() -> None:
    schedule = schedule_of(
        TABLE | {"before": {"A": ["begin isolation level serializable"]}, "steps": [["A", "commit"], ["B", "select 1"]]}
    )
    (one,) = play(schedule, "postgresql").played
    shown = render_schedule("the model", PlayedSchedule("one", schedule, one, dict(schedule.sessions), 0.0))
    assert "A (serializable)" in shown
    assert "B (default level)" in shown
