"""Jobs on a Ray cluster."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from isolde.errors import IsoldeError, UsageError
from isolde.scale.workers import Answer, Workers, answered, version_here

_PATIENCE_S = 10.0


class _Cluster:
    """Tasks of Ray. One whose machine is gone is run again on another one, as often as it takes."""

    def __init__(self, ray: Any, count: int) -> None:
        self.count = count
        self._ray = ray
        self._task = ray.remote(max_retries=-1, num_cpus=1)(answered)
        self._running: dict[Any, int] = {}
        self._started = 0

    def start(self, job: Callable[[Any], Any], argument: Any) -> int:
        number = self._started
        self._started += 1
        self._running[self._task.remote(job, argument, version_here())] = number
        return number

    def ended(self) -> tuple[int, Answer]:
        ready, _ = self._ray.wait(list(self._running), num_returns=1)
        number = self._running.pop(ready[0])
        try:
            answer = self._ray.get(ready[0])
        except self._ray.exceptions.RayError as error:
            raise IsoldeError(f"the Ray cluster lost a job: {_last_line(error)}") from None
        assert isinstance(answer, Answer)
        return number, answer

    def close(self) -> None:
        for task in self._running:
            self._ray.cancel(task, force=True)


def _last_line(error: BaseException) -> str:
    """What went wrong: above it is where."""
    return str(error).strip().rpartition("\n")[2]


def _refuse_nobody(address: str) -> None:
    """Ray itself waits for minutes for a cluster that is not there."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE_S).close()
    except (OSError, ValueError) as error:
        raise UsageError(f"no Ray cluster at {address}: {error}") from None


@contextmanager
def cluster(address: str | None, count: int | None) -> Iterator[Workers]:
    """The cluster at ``address``, or one of this machine alone. Of its cores as many as ``count`` says; else all."""
    try:
        import ray
    except ImportError:
        raise UsageError("--engine ray needs Ray: pip install 'isolde[ray]'") from None
    ours = not ray.is_initialized()
    if ours:
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
        if address is None:
            options |= {"include_dashboard": False, "num_cpus": count}
        else:
            _refuse_nobody(address)
        try:
            ray.init(address=address, **options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            where = address or "this machine"
            raise UsageError(f"no Ray cluster at {where}: {_last_line(error)}") from None
    cores: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    workers = _Cluster(ray, count or max(1, int(cores.get("CPU", 1))))
    try:
        yield workers
    finally:
        workers.close()
        if ours:
            ray.shutdown()
