"""Jobs in processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from isolde.errors import IsoldeError
from isolde.scale.workers import Answer, Workers, answered, version_here

_LOST_MAX = 3
"""A job that took its process with it so often will do so again."""


class _Processes:
    """A pool of processes, made anew when one of them dies."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool = self._made()
        self._jobs: dict[int, tuple[Callable[[Any], Any], Any]] = {}
        self._futures: dict[Future[Answer], int] = {}
        self._lost: dict[int, int] = {}
        self._started = 0

    def _made(self) -> ProcessPoolExecutor:
        # Started anew, not forked: the solver and drivers have threads of their own.
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.count, context, initializer=_leave_interrupts)

    def start(self, job: Callable[[Any], Any], argument: Any) -> int:
        number = self._started
        self._started += 1
        self._jobs[number] = (job, argument)
        self._submit(number)
        return number

    def _submit(self, number: int) -> None:
        job, argument = self._jobs[number]
        try:
            future = self._pool.submit(answered, job, argument, version_here())
        except BrokenProcessPool:
            self._again()
            return
        self._futures[future] = number

    def ended(self) -> tuple[int, Answer]:
        while True:
            done, _ = wait(self._futures, return_when=FIRST_COMPLETED)
            for future in done:
                number = self._futures[future]
                try:
                    answer = future.result()
                except BrokenProcessPool:
                    # One of the running jobs took its process with it; nobody knows which, so all of them count.
                    self._again()
                    break
                del self._futures[future]
                del self._jobs[number]
                return number, answer

    def _again(self) -> None:
        """Makes a new pool, which runs all that have no result yet."""
        self._futures.clear()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = self._made()
        for number in self._jobs:
            self._lost[number] = self._lost.get(number, 0) + 1
            if self._lost[number] > _LOST_MAX:
                raise IsoldeError(
                    f"a worker died {_LOST_MAX} times at the same job; if memory ran out, start fewer with --workers"
                )
        for number in self._jobs:
            self._submit(number)

    def close(self) -> None:
        """Ends the processes, whatever they are doing."""
        running = list((self._pool._processes or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in running:
            process.kill()


def _leave_interrupts() -> None:
    """Ctrl-C reaches every process of a terminal; the one that gave the jobs decides what it means."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def processes(count: int | None) -> Iterator[Workers]:
    """As many processes as there are cores, unless ``count`` is given."""
    workers = _Processes(count or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else count or 1)
    try:
        yield workers
    finally:
        workers.close()
