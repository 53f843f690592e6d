"""Real databases: one file an adapter, a contract of few methods, a conformance suite, throw-away servers."""

from isolde.databases.contract import (
    Ability,
    Adapter,
    Connection,
    Database,
    Feature,
    Kind,
    Offer,
    Rows,
    SqlConnection,
    Swap,
    Table,
    answer,
    list_answer,
)
from isolde.databases.pep249 import open_driver
from isolde.databases.registry import adapter_named, adapters, offer_named, open_database

__all__ = [
    "Ability",
    "Adapter",
    "Connection",
    "Database",
    "Feature",
    "Kind",
    "Offer",
    "Rows",
    "SqlConnection",
    "Swap",
    "Table",
    "adapter_named",
    "adapters",
    "answer",
    "list_answer",
    "offer_named",
    "open_database",
    "open_driver",
]
