"""Workers by the name of what runs them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Literal

from isolde.errors import UsageError
from isolde.scale.workers import Workers

Engine = Literal["local", "ray"]


def opened_workers(engine: Engine, count: int | None, address: str | None = None) -> AbstractContextManager[Workers]:
    """Workers for as long as the context lasts. ``count``: how many; if not given, a core each."""
    if engine == "ray":
        from isolde.scale.cluster import cluster

        return cluster(address, count)
    if address is not None:
        raise UsageError("--ray-address goes with --engine ray")
    from isolde.scale.processes import processes

    return processes(count)
