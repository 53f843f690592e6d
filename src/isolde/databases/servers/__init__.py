"""Throw-away servers: private instances on free loopback ports, each with a data directory of its own.

with start("postgresql", max_connections=50) as server:
    … server.url …
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from isolde.databases.servers.process import Place, Running, Server
from isolde.errors import DatabaseUnavailable, UsageError

__all__ = ["KINDS", "SPOKEN", "Availability", "Running", "Server", "available", "start"]

# Kind, module, the recipe of one server, and what puts several of them together.
_RECIPES = {
    "postgresql": ("postgresql", "Postgresql", ""),
    "mariadb": ("mariadb", "Mariadb", ""),
    "galera": ("galera", "GaleraNode", "Cluster"),
    "etcd": ("etcd", "Etcd", ""),
    "redis": ("redis", "Redis", ""),
    "valkey": ("redis", "Valkey", ""),
}
KINDS = tuple(_RECIPES)
# Which adapter talks to servers of a kind.
SPOKEN = {kind: "mariadb" if kind == "galera" else kind for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether servers of a kind can be started: the program that was found, or why there is none."""

    kind: str
    program: str | None
    reason: str = ""


def start(kind: str, **settings: Any) -> Running:
    """A new server; ``DatabaseUnavailable`` says why there is none, and how to get its programs.

    Settings are the server's own (``fsync="off"``, ``innodb_snapshot_isolation=True``); ``galera`` also takes the number
    of ``nodes``, and ``postgresql`` the directory of its ``programs``.
    """
    if kind not in _RECIPES:
        raise UsageError(f"no private server of kind '{kind}' can be started; there are {', '.join(KINDS)}")
    module, recipe, cluster = _RECIPES[kind]
    make = _named(module, cluster or recipe)
    try:
        made = make(**settings)
    except TypeError:
        raise UsageError(f"a private {kind} takes no setting {', '.join(settings)}") from None
    running: Running = made if cluster else Server(made)
    return running


def available() -> tuple[Availability, ...]:
    """For each kind, where its program is or why it cannot be started; nothing is started for it."""
    found = []
    for kind, (module, recipe, _) in _RECIPES.items():
        try:
            program = _named(module, recipe)().command(Place(Path("/nonexistent"), 0, None))[0]
        except DatabaseUnavailable as error:
            found.append(Availability(kind, None, str(error)))
        else:
            found.append(Availability(kind, program))
    return tuple(found)


def _named(module: str, name: str) -> Any:
    return getattr(import_module(f"isolde.databases.servers.{module}"), name)
