"""Which transactions are behind a broken invariant: those that wrote its rows last."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from isolde import load, read
from isolde.databases.servers import Running
from isolde.engines.audit.last_changes import last_changes
from isolde.findings import BrokenInvariant
from isolde.formats import decode
from isolde.formats import read as read_columns
from isolde.formats.tables import sql_history
from isolde.history import Status
from running import isolde

HEADER = {
    "isolde": "history",
    "version": 1,
    "dialect": "postgresql",
    "schema": ["CREATE TABLE t (k INTEGER NOT NULL, v INTEGER NOT NULL, PRIMARY KEY (k))"],
    "rows": {"t": [[1, 0], [2, 0]]},
}


def line(name: str, moment: int, sql: str, params: list[Any], status: str = "committed", count: int = 1) -> str:
    content = {"sql": sql, "params": params, "count": count, "rows": None}
    return json.dumps(
        {"id": name, "session": name, "status": status, "start": moment, "end": moment + 5, "ops": [content]}
    )


def written(tmp_path: Path, until: int | None = None, most: int = 2) -> dict[Any, Any]:
    lines = [
        json.dumps(HEADER),
        line("first", 10, "UPDATE t SET v = ? WHERE k = ?", [1, 1]),
        line("undone", 20, "UPDATE t SET v = ? WHERE k = ?", [2, 1], "aborted"),
        line("unknown", 25, "UPDATE t SET v = ? WHERE k = ?", [3, 1], "unknown"),
        line("other", 30, "UPDATE t SET v = ? WHERE k = ?", [4, 2]),
        # It says that it changed two rows, where its log has one: an answer that no order explains.
        line("second", 40, "UPDATE t SET v = v + 1 WHERE k = ?", [1], count=2),
        line("nothing", 50, "UPDATE t SET v = ? WHERE k = ? AND v > 100", [5, 1], count=0),
        line("third", 60, "INSERT INTO t (k, v) VALUES (?, ?)", [3, 0]),
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    history = sql_history(decode(read_columns(str(path), None)))
    return last_changes(history, {("t", ("1",)), ("t", ("3",)), ("t", ("4",))}, until, most)


def test_those_that_wrote_a_row_last_are_named_and_only_those_that_committed(tmp_path: Path) -> None:
    assert written(tmp_path) == {("t", ("1",)): ("first", "second"), ("t", ("3",)): ("third",)}
    assert written(tmp_path, most=1) == {("t", ("1",)): ("second",), ("t", ("3",)): ("third",)}


def test_what_came_after_the_look_is_not_named(tmp_path: Path) -> None:
    assert written(tmp_path, until=35) == {("t", ("1",)): ("first",)}


def test_a_run_names_the_transactions_behind_a_broken_invariant(
    server: Callable[[str], Running], tmp_path: Path
) -> None:
    place, report = tmp_path / "run", str(tmp_path / "report.json")
    size = ("--scale", "accounts=6", "--scale", "pairs=2", "--until-violation", "--time", "50")
    options = ("--workload", "bank", "--isolation", "read-committed", *size, "-o", str(place), "--report", report)
    status, out, _ = isolde("run", server("postgresql").url, *options, "--json")
    assert status == 1
    committed = {one.id for one in read(place / "history.jsonl").transactions if one.status is Status.COMMITTED}
    broken = [entry for invariant in json.loads(out)["invariants"] for entry in invariant["broken"]]
    named = [writer for entry in broken for row in entry["last"] for writer in row]
    assert named
    assert {writer["transaction"] for writer in named} <= committed
    assert {writer["name"] for writer in named} <= {"deposit", "withdraw", "transfer", "withdraw_overdraft"}
    kept = load(report)
    exhibit = {one.id for one in kept.exhibit}
    parts = [one for finding in kept.findings for one in finding.evidence if isinstance(one, BrokenInvariant)]
    assert {name for one in parts for row in one.last for name, _ in row} == exhibit
    _, shown, _ = isolde("show", report)
    assert "written last by" in " ".join(shown.split())
