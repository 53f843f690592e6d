"""An exploration whose subtrees are walked by workers.

It begins here; what is left after some calls of EXPLORE is handed out in shares. A share comes back after some seconds, with what
it found and with what there was no time for, which is cut into as many shares as there are idle workers. Subtrees have very
different sizes, so that cutting them up once would leave most workers waiting for one.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from isolde.campaigns.explore import Ask
from isolde.engines.explore.checkpoint import Checkpoint
from isolde.engines.explore.evidence import executed
from isolde.engines.explore.explore import Explored, Explorer, Listening
from isolde.engines.explore.files import program_again
from isolde.engines.explore.program import Origin
from isolde.engines.explore.question import Question
from isolde.engines.explore.search import INTERRUPTED, Limits, Progress
from isolde.engines.explore.shares import Executions, Joining, Share, ShareFound, explored_share
from isolde.errors import UsageError
from isolde.scale.workers import Workers, spread

FIRST_CALLS = 20_000
"""Calls of EXPLORE here, before anything is handed out: small programs are done by then."""
SHARE = Limits(seconds=3.0)
"""When a share comes back."""


@dataclass(frozen=True, slots=True)
class _Job:
    """A share with the program that it is of. ``text``: that of the program's file, which another machine may not have."""

    origin: Origin
    text: bytes | None
    model: Literal["rows", "set"]
    question: Question
    share: Share
    limits: Limits
    listing: bool


def exploring(workers: Workers, first_calls: int = FIRST_CALLS, share: Limits = SHARE) -> Ask:
    """Walks through programs as ``Explorer.ask`` does, by these workers."""

    def ask(
        explorer: Explorer, question: Question, limits: Limits, listening: Listening, resumed: Checkpoint | None
    ) -> Explored:
        if explorer.program.origin is None:
            raise UsageError("workers read the program again: it has to come from a file, or from an application")
        begun = time.monotonic()
        calls = first_calls if limits.calls_max is None else min(first_calls, limits.calls_max)
        first = explorer.ask(question, replace(limits, calls_max=calls), listening, resumed)
        spent = limits.calls_max is not None and calls >= limits.calls_max
        if first.left is None or spent or first.stopped == INTERRUPTED or _over(limits, begun):
            return first
        return _Exploring(workers, explorer, first, limits, listening, begun, share).whole()

    return ask


def _over(limits: Limits, begun: float) -> bool:
    return limits.seconds is not None and time.monotonic() - begun >= limits.seconds


class _Exploring:
    """One exploration while its shares are out."""

    def __init__(
        self,
        workers: Workers,
        explorer: Explorer,
        first: Explored,
        limits: Limits,
        listening: Listening,
        begun: float,
        share: Limits,
    ) -> None:
        self._workers, self._explorer, self._limits, self._listening = workers, explorer, limits, listening
        self._first, self._share = first, share
        self._begun = begun - (first.left.left.seconds if first.left is not None else 0.0)
        self._joining = Joining(explorer, first)
        self._out = [*cut(self._joining.executions, workers.count)]
        """Shares that nobody has come back from. They are what is left if somebody interrupts."""
        self._stopped = ""

    def whole(self) -> Explored:
        """Hands out shares until nothing is left, or a limit is reached."""
        jobs = [self._job(executions) for executions in self._out]
        try:
            for _job, found in spread(self._workers, _walked, jobs, self._more):
                self._tell(found)
        except KeyboardInterrupt:
            self._stopped = INTERRUPTED
        left = tuple(one for executions in self._out for one in executions)
        return self._joining.whole(self._stopped if left else "", time.monotonic() - self._begun, left)

    def _job(self, executions: Executions) -> _Job:
        explorer, limits = self._explorer, self._limits
        origin = explorer.program.origin
        assert origin is not None
        seconds, calls = self._share.seconds, self._share.calls_max
        if limits.seconds is not None:
            left_s = max(0.0, limits.seconds - (time.monotonic() - self._begun))
            seconds = left_s if seconds is None else min(seconds, left_s)
        if limits.calls_max is not None:
            own = max(1, (limits.calls_max - self._joining.counts.explored) // max(1, len(self._out)))
            calls = own if calls is None else min(calls, own)
        share = Share(executions, self._joining.rounds)
        listing = self._listening.listed is not None
        question = self._first.question
        return _Job(origin, _text(origin), explorer.model, question, share, Limits(calls, seconds, 1), listing)

    def _more(self, job: _Job, found: ShareFound, idle: int) -> Iterator[_Job]:
        """Takes what came of a share, and hands out what it left unless a limit is reached."""
        self._joining.add(found)
        self._out.remove(job.share.executions)
        shares = list(cut(found.left, max(1, idle))) if found.left else []
        self._out += shares
        spent = self._limits.calls_max is not None and self._joining.counts.explored >= self._limits.calls_max
        if self._listening.stop():
            self._stopped = INTERRUPTED
        elif spent:
            self._stopped = f"the budget of {self._limits.calls_max:,} calls is spent"
        elif _over(self._limits, self._begun):
            self._stopped = f"the time of {self._limits.seconds:g} s is over"
        if not self._stopped:
            yield from map(self._job, shares)

    def _tell(self, found: ShareFound) -> None:
        if self._listening.listed is not None:
            for sources in found.listed:
                self._listening.listed(executed(self._explorer.behaviours, sources))
        seconds = time.monotonic() - self._begun
        self._listening.progress(Progress(self._joining.counts, seconds, found.bodies, None))


def cut(executions: Executions, count: int) -> Iterator[Executions]:
    """In at most so many shares. Those next to each other go to different ones: they are of about the same size."""
    for first in range(min(count, len(executions))):
        yield executions[first::count]


def _text(origin: Origin) -> bytes | None:
    return Path(origin.path).read_bytes() if origin.path.endswith(".py") else None


def _walked(job: _Job) -> ShareFound:
    """What a worker does."""
    explorer = _explorer(job.origin, job.text, job.model)
    return explored_share(explorer, job.question, job.share, job.limits, listing=job.listing)


@lru_cache(maxsize=4)
def _explorer(origin: Origin, text: bytes | None, model: Literal["rows", "set"]) -> Explorer:
    if text is None or _is_here(origin, text):
        return Explorer(program_again(origin), model)
    with tempfile.TemporaryDirectory(prefix="isolde-") as directory:
        path = Path(directory, Path(origin.path).name)
        path.write_bytes(text)
        return Explorer(program_again(replace(origin, path=str(path))), model)


def _is_here(origin: Origin, text: bytes) -> bool:
    try:
        return Path(origin.path).read_bytes() == text
    except OSError:
        return False
