"""What each dialect decides: types of results, conversions, comparisons, errors. One file a dialect, and nowhere else."""

from __future__ import annotations

from isolde.semantics.core.dialects.base import IdSource, Rules
from isolde.semantics.core.dialects.mysql import MySQL
from isolde.semantics.core.dialects.postgresql import PostgreSQL
from isolde.semantics.core.dialects.sqlite import SQLite
from isolde.tx.dialects import Dialect

_QUERYING: dict[Dialect, Rules] = {
    Dialect.POSTGRESQL: PostgreSQL(),
    Dialect.MYSQL: MySQL(),
    Dialect.SQLITE: SQLite(),
}
_CHANGING: dict[Dialect, Rules] = {**_QUERYING, Dialect.MYSQL: MySQL(changing=True)}


def rules_of(dialect: Dialect, changing: bool = False) -> Rules:
    """``changing``: for a statement that changes tables, where MySQL's strict mode makes errors of bad values."""
    return (_CHANGING if changing else _QUERYING)[dialect]


__all__ = ["IdSource", "Rules", "rules_of"]
