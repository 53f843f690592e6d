"""Throw-away servers: private instances on free loopback ports, each with a data directory of its own.

with start("postgresql") as server:
    … server.url …
"""

from __future__ import annotations

from importlib import import_module

from isolde.databases.servers.process import Server
from isolde.errors import UsageError

__all__ = ["KINDS", "Server", "start"]

# Kind, module, recipe.
_RECIPES = {
    "etcd": ("etcd", "Etcd"),
    "redis": ("redis", "Redis"),
    "valkey": ("redis", "Valkey"),
}
KINDS = tuple(_RECIPES)


def start(kind: str) -> Server:
    """A new server; ``DatabaseUnavailable`` says why there is none, and how to get its programs."""
    if kind not in _RECIPES:
        raise UsageError(f"no private server of kind '{kind}' can be started; there are {', '.join(KINDS)}")
    module, recipe = _RECIPES[kind]
    return Server(getattr(import_module(f"isolde.databases.servers.{module}"), recipe)())
