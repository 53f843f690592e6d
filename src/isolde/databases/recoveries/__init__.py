"""How databases are asked for their order, one file a kind of database."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from isolde.databases.contract import Adapter, Database, Feature, Offer
from isolde.databases.recovery import Recovery, Scope
from isolde.errors import UsageError

_KINDS = ("postgresql", "mariadb", "etcd", "redis", "sqlite")
_NAMED = {"TiDB ": "tidb", "CockroachDB ": "cockroachdb"}

# What a server that is started for a run is started with, so that it can tell.
_STARTED_WITH: Mapping[str, Mapping[str, object]] = {
    "postgresql": {"wal_level": "logical"},
    "mariadb": {
        "log_bin": "isolde",
        "binlog_format": "ROW",
        "binlog_annotate_row_events": True,
        "server_id": 1,
        "log_bin_trust_function_creators": True,
    },
}


def refuse_silent(adapter: Adapter) -> None:
    """Refuses a database that tells no order, with the reason."""
    ability = adapter.able(Feature.ORDER)
    if not ability.able or adapter.name not in _KINDS:
        raise UsageError(f"{adapter.name} cannot tell the order of its transactions: {ability.how}")


def begin_recovery(adapter: Adapter, database: Database, scope: Scope, offers: tuple[Offer, ...]) -> Recovery:
    """Begins to listen to the database; the tables are there, and the run's transactions have one of these levels."""
    refuse_silent(adapter)
    # Who speaks the protocol of another database has an order of its own.
    kind = next((kind for name, kind in _NAMED.items() if database.version().startswith(name)), adapter.name)
    module = import_module(f"isolde.databases.recoveries.{kind}")
    recovery: Recovery = module.begin_recovery(database, scope, offers)
    return recovery


def started_with(kind: str) -> Mapping[str, object]:
    """Settings that a private server of this kind needs to tell its order."""
    return _STARTED_WITH.get(kind, {})
