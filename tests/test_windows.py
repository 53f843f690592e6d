"""Windows of a long run: where the next may begin, and what it begins with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from isolde._core import Columns
from isolde.engines.check import check
from isolde.engines.record import Round, Windows
from isolde.findings import Verdict
from isolde.formats import decode
from isolde.levels import Level
from running import ran

Line = tuple[int, list[list[object]], str]


class Recording:
    """The files of two sessions."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._clock = 0
        (directory / "sessions").mkdir()
        (directory / "run.json").write_text('{"isolde": "history", "version": 1, "initial": [[0, 0], [1, 0]]}\n')
        for session in (0, 1):
            self._file(session).touch()

    def _file(self, number: int) -> Path:
        return self.directory / "sessions" / f"{number}.jsonl"

    def add(self, file: int, *ops: list[object], status: str = "committed", session: int | None = None) -> None:
        self._clock += 10
        line = {"session": file if session is None else session, "start": self._clock, "ops": list(ops)}
        with self._file(file).open("a") as out:
            out.write(json.dumps(line | {"status": status, "end": self._clock + 5}, separators=(",", ":")) + "\n")

    def sizes(self) -> dict[str, int]:
        return {self._file(n).name: self._file(n).stat().st_size for n in (0, 1)}

    def look(self, first: tuple[int, int], second: tuple[int, int], *, session: int = 1) -> Round:
        before = self.sizes()
        self.add(0, ["r", 0, first[0]], ["r", 1, first[1]])
        self.add(1, ["r", 0, second[0]], ["r", 1, second[1]], session=session)
        return Round(0, self.sizes(), before)


def closed(windows: Windows, at: Round) -> int:
    windows.close(at)
    return windows.closed


def test_a_window_begins_with_what_all_sessions_read(tmp_path: Path) -> None:
    run, windows = Recording(tmp_path), Windows(tmp_path, 2)
    run.add(0, ["w", 0, 5])
    assert closed(windows, run.look((5, 0), (5, 0))) == 1
    run.add(1, ["r", 0, 5], ["w", 1, 7])
    history = decode(Columns.from_jsonl(windows.history(), "window"))
    assert dict(history.initial) == {0: 5, 1: 0}
    assert len(history.transactions) == 3
    report = check(Columns.from_jsonl(windows.history(), "window"), [Level.SERIALIZABLE])
    assert report.findings[0].verdict is Verdict.SATISFIED


def test_a_window_goes_on_where_it_would_not_stand_alone(tmp_path: Path) -> None:
    run, windows = Recording(tmp_path), Windows(tmp_path, 2)
    assert closed(windows, run.look((0, 0), (0, 1))) == 0, "they did not read the same"
    run.add(0, ["w", 0, 9], status="unknown")
    assert closed(windows, run.look((0, 0), (0, 0))) == 0, "the unknown one may take effect later"


def test_a_session_that_came_back_under_another_name_makes_it_whole_again(tmp_path: Path) -> None:
    run, windows = Recording(tmp_path), Windows(tmp_path, 2)
    assert closed(windows, run.look((0, 0), (0, 0))) == 1
    assert closed(windows, run.look((0, 0), (0, 0), session=3)) == 0
    assert len(decode(Columns.from_jsonl(windows.history(), "window")).transactions) == 4


@pytest.mark.parametrize(("keys", "windows"), [("10", True), ("2000", False)])
def test_a_run_until_a_violation_says_that_it_was_checked_in_windows(keys: str, windows: bool, tmp_path: Path) -> None:
    result = ran(tmp_path / "out", "sqlite:", "--until-violation", "--transactions", "5000", "--keys", keys)
    assert result.status == 0, result.error
    facts = json.loads(result.out)["run"]["windows"]
    assert (facts is not None) is windows
    if windows:
        assert facts["count"] > 1
        assert facts["undecided"] == 0
        assert Path(facts["last"]).is_file()
