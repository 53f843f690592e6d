"""Store models: what PostgreSQL, MariaDB, MySQL and SQLite do, statement by statement, as an operational semantics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from isolde.levels.stores import StoreName
from isolde.semantics.stores.innodb import InnoDB
from isolde.semantics.stores.machine import Model, State, Step
from isolde.semantics.stores.postgresql import PostgreSQL
from isolde.semantics.stores.requests import Cut, Ended, Failed, Result, Returned, Waits
from isolde.semantics.stores.sqlite import Sqlite
from isolde.tx.schema import Schema

__all__ = ["Cut", "Ended", "Failed", "Model", "Result", "Returned", "State", "Step", "Waits", "store_model"]


def store_model(
    store: str,
    schema: Schema,
    rows: Mapping[str, Iterable[Sequence[Any]]],
    settings: Mapping[str, str] | None = None,
    *,
    counts_found: bool = False,
) -> Model:
    """The model of a database by its name, over a schema and the rows to start from."""
    return _MODELS[StoreName(store)](schema, rows, settings, store=store, counts_found=counts_found)


_MODELS: dict[StoreName, type[Model]] = {
    StoreName.POSTGRESQL: PostgreSQL,
    StoreName.MARIADB: InnoDB,
    StoreName.MYSQL: InnoDB,
    StoreName.SQLITE: Sqlite,
}
