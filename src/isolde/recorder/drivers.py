"""What a recorder has to know of a driver: dialect, placeholders, whether a transaction is open, why statements fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from isolde.databases.error_words import OTHER, of_mysql, of_sqlite, of_sqlstate
from isolde.errors import UsageError
from isolde.recorder.parameters import colon_style, percent_style
from isolde.tx.dialects import Dialect

_IN_TRANSACTION = 1
"""SERVER_STATUS_IN_TRANS of MySQL's protocol."""
_FOUND_ROWS = 2
"""CLIENT_FOUND_ROWS of MySQL's protocol."""


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """A driver; ``open`` tells whether a connection is inside a transaction, ``version`` what its server is."""

    dialect: Dialect
    placeholders: Callable[[str, Any], tuple[str, list[Any]]]
    open: Callable[[Any], bool]
    word: Callable[[BaseException], str]
    version: Callable[[Any], str]
    counts: Callable[[Any], str | None]


def facts_of(connection: Any) -> DriverFacts:
    """The facts about the driver that a connection belongs to."""
    module = type(connection).__module__.partition(".")[0]
    found = _DRIVERS.get(module)
    if found is None:
        raise UsageError(
            f"connections of {module} are not recorded; those of {', '.join(sorted(_DRIVERS))} and engines of SQLAlchemy are"
        )
    if type(connection).__name__.startswith("Async"):
        raise UsageError(f"{module}: asynchronous connections are not recorded; use a {module}.Connection")
    return found


def _psycopg_open(connection: Any) -> bool:
    return int(connection.info.transaction_status) != 0


def _psycopg2_open(connection: Any) -> bool:
    return int(connection.get_transaction_status()) != 0


def _sqlite_open(connection: Any) -> bool:
    return bool(connection.in_transaction)


def _pymysql_open(connection: Any) -> bool:
    # The status comes with answers without rows only; a query begins a transaction, too, where nothing is committed by itself.
    queried = getattr(getattr(connection, "_result", None), "description", None) is not None
    return bool(connection.server_status & _IN_TRANSACTION) or (queried and not connection.get_autocommit())


def _state(error: BaseException) -> str:
    return of_sqlstate(str(getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or ""))


def _sqlite_word(error: BaseException) -> str:
    code = getattr(error, "sqlite_errorcode", None)
    return OTHER if code is None else of_sqlite(code)


def _mysql_word(error: BaseException) -> str:
    code = error.args[0] if error.args else None
    return of_mysql(code) if isinstance(code, int) else OTHER


def _psycopg_version(connection: Any) -> str:
    number = int(connection.info.server_version)
    return f"postgresql {number // 10000}.{number % 10000}"


def _sqlite_version(connection: Any) -> str:
    return f"sqlite {connection.execute('SELECT sqlite_version()').fetchone()[0]}"


def _mysql_version(connection: Any) -> str:
    text = str(connection.get_server_info())
    kind = "mariadb" if "mariadb" in text.lower() else "mysql"
    # MariaDB says first what old replicas want to hear.
    return f"{kind} {text.removeprefix('5.5.5-').split('-')[0]}"


def _found_or_changed(connection: Any) -> str | None:
    return "found" if int(getattr(connection, "client_flag", 0)) & _FOUND_ROWS else "changed"


_DRIVERS = {
    "psycopg": DriverFacts(
        Dialect.POSTGRESQL, percent_style, _psycopg_open, _state, _psycopg_version, lambda _: "found"
    ),
    "psycopg2": DriverFacts(
        Dialect.POSTGRESQL, percent_style, _psycopg2_open, _state, _psycopg_version, lambda _: "found"
    ),
    "sqlite3": DriverFacts(Dialect.SQLITE, colon_style, _sqlite_open, _sqlite_word, _sqlite_version, lambda _: "found"),
    "pymysql": DriverFacts(Dialect.MYSQL, percent_style, _pymysql_open, _mysql_word, _mysql_version, _found_or_changed),
}
