"""The dialects of SQL whose meaning Isolde knows."""

from __future__ import annotations

from enum import StrEnum


class Dialect(StrEnum):
    """``MYSQL`` is MySQL's and MariaDB's, with the strict SQL mode that both have by default."""

    POSTGRESQL = "postgresql"
    MYSQL = "mysql"
    SQLITE = "sqlite"
