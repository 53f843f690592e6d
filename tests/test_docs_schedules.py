"""What the documentation of schedules shows is what happens."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from isolde.databases.servers import Running
from isolde.formats.schedules import parse_schedules
from running import isolde

TEXT = (Path(__file__).resolve().parent.parent / "docs" / "schedules.md").read_text("utf-8")


def _block(kind: str) -> str:
    (block,) = re.findall(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)
    return str(block)


def test_the_example_in_python_runs() -> None:
    exec(_block("python"), {})


def test_the_spec_file_is_one() -> None:
    (schedule,) = parse_schedules(_block("spec")).schedules
    assert schedule.name == "r1 r2 w1 w2 c1 c2"


def test_the_table_of_steps_is_what_postgresql_gives(
    server: Callable[[str], Running], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("two_terminals.json").write_text(_block("json"))
    status, out, error = isolde("run", "--schedule", "two_terminals.json", server("postgresql").url)
    assert (status, error) == (0, "")
    shown = re.sub(r"(?m)^history: .*\n", "", re.sub(r"on postgresql [\d.]+", "on postgresql", out))
    assert shown == _block("text")
    assert len(list(Path("isolde-runs").glob("postgresql-schedule-*/history.jsonl"))) == 1
