"""A log that is judged while it grows: a file that somebody appends to, or the directory of a run.

Lines are read as they come, and every level follows them (``engines.audit.stream``). Where one does not get on, the log so far is
judged as a whole, as soon as nobody can come any more who was under way then: each session has gone on, or nothing comes for a
while.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from isolde._core import AS_USUAL, Columns, Reading
from isolde.campaigns.audit import AuditQuestion, audit_columns
from isolde.engines.audit.audit import explained_stream, streamable
from isolde.engines.audit.stream import NotInOrder, Stream
from isolde.errors import InputError, UsageError
from isolde.findings import LogSubject, Report, Verdict
from isolde.formats import read
from isolde.formats.jsonl import decode_history
from isolde.formats.recording import HEADER, HISTORY, SESSIONS, is_recording
from isolde.formats.tables import sql_history
from isolde.history.json_text import DECODER

POLL_S = 0.5
"""Between two looks. What is new is taken at the next look, so that lines of other sessions that belong before it are there."""
QUIET_S = 5.0
"""A session of which nothing came for so long is taken to be over."""


@dataclass(slots=True)
class GrowingLog:
    """The lines of a log so far."""

    path: Path
    offsets: dict[Path, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.path.exists():
            raise InputError(f"{self.path}: there is no such log")

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
            found += [DECODER.decode(line) for line in whole.decode().split("\n") if line.strip()]
        return found

    def columns(self, reading: Reading) -> Columns:
        """All of it so far, checked as any file is."""
        if self.is_run:
            return read(str(self.path), None, reading)
        text = self.path.read_bytes()
        return Columns.from_jsonl(text[: text.rfind(b"\n") + 1], str(self.path))


@dataclass(slots=True)
class _Follower:
    """What is known of a growing log. ``latest``: when each session ended its last transaction."""

    log: GrowingLog
    question: AuditQuestion
    reading: Reading
    streams: list[Stream]
    pending: list[dict[str, Any]] = field(default_factory=list)
    latest: dict[Any, int] = field(default_factory=dict)
    counts: list[int] = field(default_factory=lambda: [0, 0, 0])
    doubted: int | None = None
    """When the last transaction ended that was there when a level did not get on."""
    judged: int = 0
    """How many transactions there were when all were judged as a whole."""
    seen: dict[Any, float] = field(default_factory=dict)
    """When something of each session came last."""

    def look(self, now: float) -> Report | None:
        """Takes what has come; a report if the log cannot be explained any more."""
        came = self.log.new()
        ready, self.pending = sorted(self.pending, key=_start), came
        for line in ready:
            self._take(line)
        if sum(stream.catch_up() for stream in self.streams) < len(self.streams):
            self._doubt()
        for line in came:
            self.latest[line.get("session")] = line.get("end") or 0
            self.seen[line.get("session")] = now
        if self.doubted is None or not self._settled(now) or self.counts[0] < 2 * self.judged:
            return None
        self.judged, self.doubted = self.counts[0] + len(self.pending), None
        report = audit_columns(self.log.columns(self.reading), self.question, str(self.log.path), self.reading)
        return report if report.verdict is Verdict.VIOLATED else None

    def _take(self, line: dict[str, Any]) -> None:
        status = line.get("status", "committed")
        self.counts[0] += 1
        self.counts[1] += status == "committed"
        self.counts[2] += len(line.get("ops", ()))
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
            self.doubted = max(self.latest.values(), default=0)

    def _settled(self, now: float) -> bool:
        """Whether nobody can come any more who was under way when a level did not get on."""
        return self.doubted is not None and all(
            end > self.doubted or now - self.seen.get(session, now) > QUIET_S for session, end in self.latest.items()
        )

    def verdict(self) -> Report:
        """What can be said of all that has come."""
        for line in sorted([*self.pending, *self.log.new()], key=_start):
            self._take(line)
        self.pending = []
        if self.streams and not self.log.is_run and all(stream.finish() for stream in self.streams):
            subject = LogSubject(str(self.log.path), *self.counts)
            return Report(subject, tuple(explained_stream(stream) for stream in self.streams))
        return audit_columns(self.log.columns(self.reading), self.question, str(self.log.path), self.reading)


def follow_log(
    path: str,
    question: AuditQuestion,
    *,
    reading: Reading = AS_USUAL,
    stop: Callable[[], bool] = lambda: False,
    sleep: Callable[[float], None] = time.sleep,
) -> Report:
    """Judges a log while it grows, until a violation is seen, the run is over, ``stop`` says so, or somebody interrupts.

    A violation is one of the log so far, which nobody can mend any more who was under way. Store models, and the paper's
    definition, are about whole logs, and are refused.
    """
    log = GrowingLog(Path(path))
    options = question.options()
    header = sql_history(decode_history(log.header() + b"\n"), path)
    readings = streamable(header, options)
    if not readings:
        raise UsageError(
            "--follow is for levels of the literature as they are by default, without --encoding, --heuristics, --witness-order,"
            " --skip-unsupported and unknown first values"
        )
    streams = [Stream(header, one, options.session_order) for one in readings]
    follower = _Follower(log, question, reading, streams)
    try:
        while not stop():
            if log.over:
                break
            found = follower.look(time.monotonic())
            if found is not None:
                return found
            sleep(POLL_S)
    except KeyboardInterrupt:
        pass
    if log.over:
        return audit_columns(read(path, None, reading), question, path, reading)
    return follower.verdict()


def _start(line: dict[str, Any]) -> int:
    start = line.get("start")
    return start if isinstance(start, int) else 0
