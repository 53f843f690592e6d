"""A history of keys or lists that is checked while it grows: a file that somebody appends to, or the directory of a run.

A transaction may read from one whose line has not come yet. So what is judged on the way is the history with those reads left out
whose writers are not there. Where no two writes of a key have one value, nobody who is still to come wrote what is read in
that part, so that what no order explains of it, no order explains of the whole.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from isolde._core import Columns
from isolde.campaigns.check import CheckOptions, check_columns, check_file
from isolde.campaigns.growing import GrowingLog
from isolde.errors import UsageError
from isolde.findings import Finding, NotProved, Report, Verdict
from isolde.formats.jsonl import decode_history
from isolde.history.json_text import json_text

POLL_S = 0.5
_GROWN = 1.25
"""A look judges when there is so much more than the last time: all looks together cost a few times what the last one does."""
_LEAST = 50


@dataclass(slots=True)
class _Watched:
    """The lines so far; ``told`` are those of the database about versions."""

    log: GrowingLog
    header: bytes
    initial: set[str]
    lines: list[dict[str, Any]] = field(default_factory=list)
    told: list[dict[str, Any]] = field(default_factory=list)
    judged: int = 0

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
            line.setdefault("id", len(self.lines))
            self.lines.append(line)

    def part(self) -> list[dict[str, Any]]:
        """What can be judged by now; nothing where values repeat, as then nobody knows who is still to come."""
        writes = [_spelled(key, value) for line in self.lines for key, value in _writes(line)]
        written = {*writes, *self.initial}
        if len(written) < len(writes) + len(self.initial):
            return []
        return [{**line, "ops": _kept(line, written)} for line in self.lines]


def _writes(line: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    for op in line.get("ops", ()):
        match op:
            case ["w" | "a", key, value] | ["cas", key, _, value, True, *_]:
                yield key, value
            case _:
                pass


def _kept(line: dict[str, Any], written: set[str]) -> list[Any]:
    """Its operations, without reads of what nobody wrote so far, and of nothing: who deleted may be still to come."""
    ops: list[Any] = []
    for op in line.get("ops", ()):
        match op:
            case ["r", key, value]:
                seen = value if isinstance(value, list) else [value]
                if all(one is not None and _spelled(key, one) in written for one in seen):
                    ops.append(op)
            case ["cas", key, expected, new, applied, *_]:
                if applied and expected is not None and _spelled(key, expected) in written:
                    ops.append(op)
                elif applied:
                    ops.append(["w", key, new])
            case _:
                ops.append(op)
    return ops


def _keys(name: Any) -> tuple[Any, ...]:
    """An object of JSON has texts as keys: "1" may be the number, which only the operations tell."""
    return (name, int(name)) if isinstance(name, str) and re.fullmatch(r"0|-?[1-9]\d*", name) else (name,)


def _elements(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _spelled(key: Any, value: Any) -> str:
    return json_text([key, value])


def watch_history(
    path: str,
    options: CheckOptions,
    *,
    told: Callable[[str], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
    sleep: Callable[[float], None] = time.sleep,
) -> Report:
    """Checks a history while it grows, until a violation is seen, a run is over, ``stop`` says so, or somebody interrupts.

    Without a violation the report is about everything that came. All lines are kept: memory grows with the history.
    """
    log = GrowingLog(Path(path))
    header = log.header()
    initial = decode_history(header + b"\n").initial
    known = {_spelled(key, one) for name, value in initial.items() for key in _keys(name) for one in _elements(value)}
    watched = _Watched(log, header, known)
    try:
        while not (stop() or log.over):
            watched.take()
            if len(watched.lines) >= max(_LEAST, int(watched.judged * _GROWN)):
                watched.judged = len(watched.lines)
                found = _judged(watched, watched.part(), options, path)
                if found.verdict is Verdict.VIOLATED:
                    return found
                told(f"{watched.judged:,} transactions have come, and nothing is violated so far")
            sleep(POLL_S)
    except KeyboardInterrupt:
        pass
    if log.over:
        return check_file(path, options).report
    watched.take()
    return _so_far(watched, options, path)


def _so_far(watched: _Watched, options: CheckOptions, path: str) -> Report:
    """The verdict on what has come; a violation that rests on somebody who may still come is none yet."""
    whole = _judged(watched, [*watched.lines, *watched.told], options, path)
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
