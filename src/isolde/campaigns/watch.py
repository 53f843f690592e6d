"""A history of keys or lists that is checked while it grows: a file that somebody appends to, or the directory of a run.

What is judged on the way is a part of the history: the last transactions (``WINDOW``), without reads whose writers are not among
them. A writer may be gone from the window, or its line has still to come. Whatever explains a history explains such a part,
so that what no order explains of it, no order explains of the whole. It must be sure who wrote what is read: keys of which
two writes may have the same value are left out.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from isolde._core import AS_USUAL, Columns
from isolde.campaigns.check import CheckOptions, check_columns, check_file
from isolde.campaigns.growing import GrowingLog
from isolde.campaigns.partial import elements, kept, keys, spelled, writes
from isolde.campaigns.seen import Seen
from isolde.errors import UsageError
from isolde.findings import Finding, NotProved, Report, Verdict
from isolde.formats.jsonl import decode_history
from isolde.history.json_text import json_text

POLL_S = 0.5
_GROWN = 1.25
"""A look judges when there is so much more than the last time: all looks together cost a few times what the last one does."""
_LEAST = 50
_AT_LEAST_S = 3.0
"""And it judges after so many seconds if anything is new, unless looks take a good part of that themselves."""
WINDOW = 50_000
"""Transactions that are kept."""


@dataclass(slots=True)
class _Watched:
    """The last lines so far; ``told`` are those of the database about versions."""

    log: GrowingLog
    header: bytes
    initial: set[str]
    window: int
    lines: deque[dict[str, Any]] = field(default_factory=deque)
    told: list[dict[str, Any]] = field(default_factory=list)
    came: int = 0
    judged: int = 0
    values: Seen = field(default_factory=Seen)
    doubtful: set[str] = field(default_factory=set)
    """Keys of which two writes may have the same value."""

    def __post_init__(self) -> None:
        for one in self.initial:
            self.values.add(one)

    @property
    def whole(self) -> bool:
        """Whether everything that came is kept."""
        return self.came == len(self.lines)

    def take(self) -> None:
        """Adds what has come."""
        for line in self.log.new():
            if any(isinstance(op, dict) for op in line.get("ops", ())):
                raise UsageError(
                    "the history has SQL statements; 'isolde audit LOG --follow' judges them while it grows"
                )
            if "session" not in line:
                self.told.append(line)
                continue
            line.setdefault("id", self.came)
            self.came += 1
            self.lines.append(line)
            for key, value in writes(line):
                if self.values.add(spelled(key, value)):
                    self.doubtful.add(json_text(key))
        while len(self.lines) > self.window:
            self.lines.popleft()

    def part(self) -> list[dict[str, Any]]:
        """What can be judged by now."""
        written = {spelled(key, value) for line in self.lines for key, value in writes(line)} | self.initial
        return [{**line, "ops": kept(line, written, self.doubtful)} for line in self.lines]

    def due(self, seconds: float) -> bool:
        """Whether enough has come to judge again, so long after the last look."""
        new = self.came - self.judged
        enough = max(_LEAST, min(int(self.judged * (_GROWN - 1)), self.window // 4))
        return new >= enough or (new > 0 and seconds >= _AT_LEAST_S)


def watch_history(
    path: str,
    options: CheckOptions,
    *,
    window: int = WINDOW,
    told: Callable[[str], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
    sleep: Callable[[float], None] = time.sleep,
) -> Report:
    """Checks a history while it grows, until a violation is seen, a run is over, ``stop`` says so, or somebody interrupts.

    On the way so many transactions are kept as ``window`` says. Without a violation the report is about everything that came.
    """
    log = GrowingLog.begun(Path(path), sleep)
    header = log.header()
    initial = decode_history(header + b"\n").initial
    known = {spelled(key, one) for name, value in initial.items() for key in keys(name) for one in elements(value)}
    watched = _Watched(log, header, known, window)
    looked, took = time.monotonic(), 0.0
    try:
        while not (stop() or log.over):
            watched.take()
            if watched.due(time.monotonic() - looked - 4 * took):
                began = time.monotonic()
                watched.judged = watched.came
                found = _judged(watched, watched.part(), options, path)
                if found.verdict is Verdict.VIOLATED:
                    return found
                told(f"{watched.came:,} transactions have come, and nothing is violated so far")
                looked = time.monotonic()
                took = looked - began
            sleep(POLL_S)
    except KeyboardInterrupt:
        pass
    if log.over:
        return check_file(path, options).report
    watched.take()
    return _so_far(watched, options, path)


def _so_far(watched: _Watched, options: CheckOptions, path: str) -> Report:
    """The verdict on what has come; a violation that rests on somebody who may still come is none yet."""
    if watched.whole:
        whole = _judged(watched, [*watched.lines, *watched.told], options, path)
    else:
        whole = check_columns(watched.log.columns(AS_USUAL), options, path).report
    if whole.verdict is not Verdict.VIOLATED:
        return whole
    certain = _judged(watched, watched.part(), options, path)
    findings = [
        seen if seen.verdict is Verdict.VIOLATED else _open(entire) if entire.verdict is Verdict.VIOLATED else entire
        for entire, seen in zip(whole.findings, certain.findings, strict=True)
    ]
    transactions = {one.id: one for one in (*whole.exhibit, *certain.exhibit)}
    return replace(whole, findings=tuple(findings), exhibit=tuple(transactions.values()), facts=())


def _open(finding: Finding) -> Finding:
    """A violation that somebody who is still to come might explain."""
    reason = (
        "what is wrong so far may be explained by transactions that are still to come; when all are there, 'isolde check'"
        " decides"
    )
    return replace(finding, verdict=Verdict.UNDECIDED, evidence=(NotProved(reason),))


def _judged(watched: _Watched, part: list[dict[str, Any]], options: CheckOptions, path: str) -> Report:
    text = b"\n".join([watched.header, *(json_text(line).encode() for line in part), b""])
    return check_columns(Columns.from_jsonl(text, path), options, path).report
