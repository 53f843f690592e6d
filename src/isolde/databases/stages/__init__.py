"""Private places in databases, one file a kind of database."""

from __future__ import annotations

from importlib import import_module

from isolde.databases.contract import Adapter, Database
from isolde.databases.stage import Stage
from isolde.errors import UsageError

_KINDS = ("postgresql", "mariadb", "sqlite", "duckdb")


def open_stage(adapter: Adapter, database: Database) -> Stage:
    """A new private place in the database."""
    if adapter.name not in _KINDS:
        raise UsageError(f"schedules are SQL, and can be played on {', '.join(_KINDS)}; {adapter.name} is none of them")
    stage: Stage = import_module(f"isolde.databases.stages.{adapter.name}").open_stage(database)
    return stage
