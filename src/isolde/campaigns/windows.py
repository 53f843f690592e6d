"""``--until-violation`` in windows: each is checked by itself and forgotten, so that a run may last."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from isolde._core import Columns
from isolde.engines.check import check as decide
from isolde.engines.record import Round, Windows
from isolde.engines.record.journal import write_private
from isolde.errors import not_written
from isolde.findings import Finding, NotProved, Report, Verdict, WindowFacts
from isolde.levels import Level

_LAST = "window.jsonl"


class WindowCheck:
    """Checks the windows of a run one after the other, and remembers what stayed undecided."""

    def __init__(self, directory: Path, sessions: int, asked: list[Level], budget: int) -> None:
        self._directory, self._asked, self._budget = directory, asked, budget
        self._windows = Windows(directory, sessions)
        self._undecided: Counter[Level] = Counter()
        self._undecided_windows = 0

    def violated(self, at: Round) -> bool:
        """Whether the window until this quiet point violates a level; if not, the next one may begin."""
        columns = Columns.from_jsonl(self._windows.history(at.sizes), str(self._directory))
        report = decide(columns, self._asked, budget=self._budget)
        if any(finding.verdict is Verdict.VIOLATED for finding in report.findings):
            return True
        before = self._windows.closed
        self._windows.close(at)
        undecided = [f.level for f in report.findings if f.verdict is Verdict.UNDECIDED]
        if self._windows.closed == 0 and before:
            # It is whole again, and will be asked about as a whole.
            self._undecided.clear()
            self._undecided_windows = 0
        elif self._windows.closed > before:
            self._undecided.update(undecided)
            self._undecided_windows += bool(undecided)
        return False

    def keep_last(self) -> Path:
        """Writes the window that the run ended in to a file of its own, before the sessions' files are put together."""
        path = self._directory / _LAST
        try:
            write_private(path, self._windows.history())
        except OSError as error:
            raise not_written(f"{path}: {error.strerror}; choose another place with --output", error) from None
        return path

    def with_earlier(self, report: Report) -> Report:
        """The report of the last window, in which nothing is satisfied that an earlier one left undecided."""

        def finding(found: Finding) -> Finding:
            left = self._undecided[found.level]
            if found.verdict is not Verdict.SATISFIED or not left:
                return found
            windows = "1 earlier window" if left == 1 else f"{left:,} earlier windows"
            reason = f"{windows} of this run stayed undecided; fewer keys or sessions would help"
            return replace(found, verdict=Verdict.UNDECIDED, evidence=(NotProved(reason),))

        return replace(report, findings=tuple(finding(found) for found in report.findings))

    def facts(self, last: Path | None) -> WindowFacts | None:
        """What the report says of windows; nothing if there was only one."""
        if last is None or not self._windows.closed:
            return None
        return WindowFacts(self._windows.closed + 1, self._undecided_windows, str(last))
