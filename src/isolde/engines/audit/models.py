"""Store models by name: which database, at which of its levels, with which settings; and which of them a log comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isolde.engines.audit.log import Log
from isolde.errors import UsageError
from isolde.levels.stores import STORE_LEVELS, StoreName, store_level, store_settings
from isolde.tx.dialects import Dialect

_DIALECTS = {Dialect.POSTGRESQL: "postgresql", Dialect.MYSQL: "mysql", Dialect.SQLITE: "sqlite"}
PLANNED_LOCKS = frozenset({"mariadb", "mysql"})
"""Stores in which it depends on the plan what a statement locks."""
_NOT_CONSIDERED = "read-uncommitted"
_STRENGTH = {"serializable": 0, "repeatable-read": 1, "read-committed": 2, "immediate": 0, "deferred": 1}


@dataclass(frozen=True, slots=True)
class StoreReading:
    """A store model at one of its levels, with the settings that change what the level does."""

    store: str
    isolation: str
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        return f"{self.store}:{self.isolation}"


def store_reading(name: str, settings: Mapping[str, str]) -> StoreReading:
    """``postgresql:read-committed`` with settings; unknown names are refused."""
    store, _, level = name.partition(":")
    if store not in [one.value for one in StoreName]:
        raise UsageError(f"there is no model of {store!r}; there are {', '.join(one.value for one in StoreName)}")
    if store in PLANNED_LOCKS:
        # Which plan the server had is not in the log: what any plan could have done, it may have done.
        settings = {"index_locks": "needed", **settings}
    found = store_level(store, level, settings)
    return StoreReading(store, found.level, tuple(store_settings(store, settings).items()))


def store_of(log: Log) -> str:
    """The model of the database that a log comes from, by its header."""
    named = log.history.store.split()[:1]
    known = [one.value for one in StoreName]
    return named[0].lower() if named and named[0].lower() in known else _DIALECTS[log.history.dialect]


def readings_of(log: Log, settings: Mapping[str, str]) -> list[StoreReading]:
    """The levels of the log's own database, the strongest first; read uncommitted is not considered.

    A database that has no model has none, whichever dialect it speaks (DuckDB's is PostgreSQL's).
    """
    store = store_of(log)
    if log.history.store and log.history.store.lower().split()[:1] != [store]:
        return []
    known = [row.level for row in STORE_LEVELS if row.store.value == store and row.level != _NOT_CONSIDERED]
    strongest = sorted(dict.fromkeys(known), key=lambda level: _STRENGTH.get(level, 0))
    return [store_reading(f"{store}:{level}", settings) for level in strongest]


def known_settings(store: str, header: Mapping[str, str]) -> dict[str, str]:
    """Those of a log's header that the model of a store knows."""
    if store not in [one.value for one in StoreName]:
        return {}
    known = store_settings(store, {})
    return {name: value for name, value in header.items() if name in known}
