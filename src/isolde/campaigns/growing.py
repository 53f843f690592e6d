"""A log that is judged while it grows: a file that somebody appends to, or the directory of a run.

Lines are read as they come, and every level follows them (``engines.audit.stream``). Where one does not get on, the log is judged
up to a time before which nothing is missing: every session's file of a run has a transaction that ended later, or as much time
has passed since as no transaction takes.

A line is written when its transaction ends, so that an answer may come from one whose line is still to come. Up to such a time T
all that ended by T is judged, and those that were under way at T are there too. What *they* were answered may come from
others that began after T, so they count as transactions of unknown outcome: an explanation may do with them or without.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from isolde._core import AS_USUAL, Columns, Reading
from isolde.campaigns.audit import AuditQuestion, audit_columns
from isolde.engines.audit.audit import explained_stream, streamable
from isolde.engines.audit.stream import NotInOrder, Stream
from isolde.errors import InputError, UsageError
from isolde.findings import Finding, LogSubject, NotProved, Report, Verdict
from isolde.formats import read
from isolde.formats.jsonl import decode_history
from isolde.formats.recording import HEADER, HISTORY, SESSIONS, is_recording
from isolde.formats.tables import sql_history
from isolde.history.json_text import DECODER, json_text

POLL_S = 0.5
"""Between two looks. What is new is taken at the next look, so that lines of other sessions that belong before it are there."""
LONGEST_S = 60.0
"""No transaction of a file takes so long, unless somebody says otherwise: servers give up a wait for a lock after 50 seconds."""
_NEVER = -(2**63)
BEGUN_S = 10.0
"""So long a log is waited for that is not there yet: who writes it may have been started in the same breath."""


@dataclass(slots=True)
class GrowingLog:
    """The lines of a log so far."""

    path: Path
    offsets: dict[Path, int] = field(default_factory=dict)
    latest: dict[Path, int] = field(default_factory=dict)
    """The last end of a transaction in each file."""

    def __post_init__(self) -> None:
        if not self.path.exists():
            raise InputError(f"{self.path}: there is no such log")

    @staticmethod
    def begun(path: Path, sleep: Callable[[float], None] = time.sleep) -> GrowingLog:
        """The log, when its header is there."""
        last = time.monotonic() + BEGUN_S
        while not _has_header(path) and time.monotonic() < last:
            sleep(POLL_S)
        return GrowingLog(path)

    @property
    def is_run(self) -> bool:
        return is_recording(str(self.path))

    @property
    def over(self) -> bool:
        """Whether it is a run that is over; then its sessions' files are gone."""
        return self.is_run and (self.path / HISTORY).is_file()

    def header(self) -> bytes:
        if self.is_run:
            return (self.path / HEADER).read_bytes().strip()
        with self.path.open("rb") as file:
            line = file.readline()
        if not line.endswith(b"\n"):
            raise InputError(f"{self.path}: has no header yet")
        self.offsets[self.path] = len(line)
        return line.strip()

    def new(self) -> list[dict[str, Any]]:
        """The lines that are whole by now and were not given yet."""
        files = sorted((self.path / SESSIONS).glob("*.jsonl")) if self.is_run else [self.path]
        found = []
        for path in files:
            try:
                with path.open("rb") as file:
                    file.seek(self.offsets.get(path, 0))
                    text = file.read()
            except FileNotFoundError:
                continue
            whole = text[: text.rfind(b"\n") + 1]
            self.offsets[path] = self.offsets.get(path, 0) + len(whole)
            lines = [DECODER.decode(line) for line in whole.decode().split("\n") if line.strip()]
            ends = [line["end"] for line in lines if isinstance(line.get("end"), int)]
            self.latest[path] = max([self.latest.get(path, _NEVER), *ends])
            found += lines
        return found

    def columns(self, reading: Reading) -> Columns:
        """All of it so far, checked as any file is."""
        if self.is_run:
            return read(str(self.path), None, reading)
        text = self.path.read_bytes()
        return Columns.from_jsonl(text[: text.rfind(b"\n") + 1], str(self.path))

    def columns_until(self, time: int, reading: Reading) -> Columns:
        """All that ended by ``time``, and as transactions of unknown outcome those that were under way then."""
        header, *lines = self.columns(reading).to_jsonl(None).splitlines()
        kept = [header]
        for number, text in enumerate(lines):
            line = DECODER.decode(text.decode())
            line.setdefault("id", number)
            end, start = line.get("end"), line.get("start")
            if end is not None and end <= time:
                kept.append(json_text(line).encode())
            elif start is not None and start <= time and line.get("status", "committed") != "aborted":
                kept.append(json_text({**line, "status": "unknown"}).encode())
        return Columns.from_jsonl(b"\n".join([*kept, b""]), str(self.path))


@dataclass(slots=True)
class _Follower:
    """What is known of a growing log. ``longest``: no transaction takes more seconds."""

    log: GrowingLog
    question: AuditQuestion
    reading: Reading
    streams: list[Stream]
    pending: list[dict[str, Any]] = field(default_factory=list)
    longest: float = LONGEST_S
    counts: list[int] = field(default_factory=lambda: [0, 0, 0])
    taken: int = _NEVER
    """The last end of a transaction that the levels were given."""
    doubted: int | None = None
    """The same, when a level did not get on."""
    judged: int = 0
    """How many transactions there were when all were judged as a whole."""
    ended: deque[tuple[float, int]] = field(default_factory=deque)
    """When somebody looked, and the last end that was there then; of looks longer ago than ``longest``, the latest."""

    def look(self, now: float) -> Report | None:
        """Takes what has come; a report if the log cannot be explained any more."""
        came = self.log.new()
        ready, self.pending = sorted(self.pending, key=_start), came
        for line in ready:
            self._take(line)
        if sum(stream.catch_up() for stream in self.streams) < len(self.streams):
            self._doubt()
        if came:
            self.ended.append((now, max(self.log.latest.values())))
        settled = self.settled(now)
        if self.doubted is None or settled < self.doubted or self.counts[0] < 2 * self.judged:
            return None
        doubted, self.judged, self.doubted = self.doubted, self.counts[0] + len(self.pending), None
        return self.violation(doubted) or (self.violation(settled) if settled > doubted else None)

    def settled(self, now: float) -> int:
        """A time of the log's clock: what was under way then is there."""
        while len(self.ended) > 1 and now - self.ended[1][0] > self.longest:
            self.ended.popleft()
        waited = self.ended[0][1] if self.ended and now - self.ended[0][0] > self.longest else _NEVER
        return max(waited, min(self.log.latest.values(), default=_NEVER)) if self.log.is_run else waited

    def violation(self, settled: int) -> Report | None:
        """The report of what was settled by this time, if nothing explains it."""
        if settled == _NEVER:
            return None
        part = self.log.columns_until(settled, self.reading)
        report = audit_columns(part, self.question, str(self.log.path), self.reading)
        return report if report.verdict is Verdict.VIOLATED else None

    def _take(self, line: dict[str, Any]) -> None:
        status = line.get("status", "committed")
        self.counts[0] += 1
        self.counts[1] += status == "committed"
        self.counts[2] += len(line.get("ops", ()))
        if isinstance(line.get("end"), int):
            self.taken = max(self.taken, line["end"])
        try:
            for stream in self.streams:
                if not stream.add(line):
                    self.streams = []
        except NotInOrder:
            self.streams = []
        if not self.streams:
            self._doubt()

    def _doubt(self) -> None:
        """A level did not get on: all will be judged as a whole."""
        self.streams = []
        if self.doubted is None:
            self.doubted = self.taken

    def verdict(self, now: float) -> Report:
        """What can be said of all that has come: a violation only if nobody who is still to come can explain it."""
        for line in sorted([*self.pending, *self.log.new()], key=_start):
            self._take(line)
        self.pending = []
        if self.streams and not self.log.is_run and all(stream.finish() for stream in self.streams):
            subject = LogSubject(str(self.log.path), *self.counts)
            return Report(subject, tuple(explained_stream(stream) for stream in self.streams))
        whole = audit_columns(self.log.columns(self.reading), self.question, str(self.log.path), self.reading)
        settled = self.settled(now)
        if whole.verdict is not Verdict.VIOLATED or _NEVER < max(self.log.latest.values()) <= settled:
            return whole
        return self.violation(settled) or replace(whole, findings=tuple(map(_open, whole.findings)), exhibit=())


def _open(finding: Finding) -> Finding:
    """A violation that somebody who is still to come might explain is none yet."""
    if finding.verdict is not Verdict.VIOLATED:
        return finding
    reason = (
        "what is wrong so far may be explained by transactions that are still to come; when all are there,"
        " 'isolde audit LOG' without --follow decides"
    )
    return replace(finding, verdict=Verdict.UNDECIDED, evidence=(NotProved(reason),))


def follow_log(
    path: str,
    question: AuditQuestion,
    *,
    reading: Reading = AS_USUAL,
    longest: float = LONGEST_S,
    stop: Callable[[], bool] = lambda: False,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Report:
    """Judges a log while it grows, until a violation is seen, the run is over, ``stop`` says so, or somebody interrupts.

    A violation is one of the log so far, which nobody can mend any more who was under way; ``longest`` says how many seconds a
    transaction takes at most. Store models, and the paper's definition, are about whole logs, and are refused.
    """
    log = GrowingLog.begun(Path(path), sleep)
    options = question.options()
    header = sql_history(decode_history(log.header() + b"\n"), path)
    readings = streamable(header, options)
    if not readings:
        raise UsageError(
            "--follow is for levels of the literature as they are by default, without --encoding, --heuristics, --witness-order,"
            " --skip-unsupported and unknown first values"
        )
    streams = [Stream(header, one, options.session_order) for one in readings]
    follower = _Follower(log, question, reading, streams, longest=longest)
    try:
        while not stop():
            if log.over:
                break
            found = follower.look(clock())
            if found is not None:
                return found
            sleep(POLL_S)
    except KeyboardInterrupt:
        pass
    if log.over:
        return audit_columns(read(path, None, reading), question, path, reading)
    return follower.verdict(clock())


def _has_header(path: Path) -> bool:
    if path.is_dir():
        return is_recording(str(path))
    try:
        with path.open("rb") as file:
            return file.readline().endswith(b"\n")
    except FileNotFoundError:
        return False


def _start(line: dict[str, Any]) -> int:
    start = line.get("start")
    return start if isinstance(start, int) else 0
