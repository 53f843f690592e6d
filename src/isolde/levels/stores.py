"""What databases do at the levels that they offer: a table, one row a database and level, with where it is said.

A level of the literature says which histories are good. A database has rules: from which state a statement reads, what a write
does about a row that somebody else has changed meanwhile, what reading locks, when it gives up. ``semantics.stores`` runs them.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from isolde.errors import UsageError


class StoreName(StrEnum):
    """A database that has a model."""

    POSTGRESQL = "postgresql"
    MARIADB = "mariadb"
    MYSQL = "mysql"
    SQLITE = "sqlite"


class ReadsFrom(StrEnum):
    """The state that a plain read sees, besides the transaction's own writes."""

    UNCOMMITTED = "the newest rows, committed or not"
    STATEMENT = "what was committed when the statement began"
    TRANSACTION = "what was committed at the transaction's first statement"
    FIRST_READ = "what was committed at the transaction's first plain read"
    LOCKED = "the newest rows, each under a shared lock"


class ChangedRow(StrEnum):
    """What a write or a locking read does about a row that was changed after the state that the transaction reads from."""

    RECHECK = "waits for its writer, then tests the newest version of that row alone"
    FAIL = "fails: the first updater wins"
    CURRENT = "finds its rows in the newest committed state in the first place"
    BUSY = "fails at once if the snapshot is not the newest state"


class ReadLocks(StrEnum):
    """What plain reading leaves behind until the transaction ends."""

    NONE = "nothing"
    PREDICATES = "predicates, by which dangerous structures are found; nobody waits for them"
    SHARED = "shared locks of rows and of the gaps between them"
    DATABASE = "a shared lock of the database"


@dataclass(frozen=True, slots=True)
class StoreLevel:
    """One level of one database. ``gaps``: locking reads and writes lock the gaps between rows, too.

    ``when``: settings that the row is for; the first row that fits is taken.
    """

    store: StoreName
    level: str
    reads: ReadsFrom
    changed_row: ChangedRow
    read_locks: ReadLocks
    gaps: bool
    aborts: str
    source: str
    when: tuple[tuple[str, str], ...] = ()

    def __hash__(self) -> int:
        return hash((self.store, self.level, self.when))


_PG, _SQLITE = StoreName.POSTGRESQL, StoreName.SQLITE
_PG_DEADLOCK = "deadlock (any of those that wait)"
_INNODB_DEADLOCK = "deadlock (the lighter transaction, at once)"
_PG_MANUAL = "PostgreSQL 15 manual"
_MARIADB = "MariaDB knowledge base"
_MYSQL = "MySQL 8.0 manual"
_WAL, _ROLLBACK = (("journal_mode", "wal"),), (("journal_mode", "delete"),)


def _innodb(store: StoreName, manual: str) -> tuple[StoreLevel, ...]:
    on = (("innodb_snapshot_isolation", "on"),)
    rows = [
        StoreLevel(
            store,
            "read-uncommitted",
            ReadsFrom.UNCOMMITTED,
            ChangedRow.CURRENT,
            ReadLocks.NONE,
            False,
            _INNODB_DEADLOCK,
            f"{manual}, InnoDB transaction isolation levels, READ UNCOMMITTED",
        ),
        StoreLevel(
            store,
            "read-committed",
            ReadsFrom.STATEMENT,
            ChangedRow.CURRENT,
            ReadLocks.NONE,
            False,
            _INNODB_DEADLOCK,
            f"{manual}, InnoDB transaction isolation levels, READ COMMITTED (semi-consistent reads of UPDATE)",
        ),
        StoreLevel(
            store,
            "repeatable-read",
            ReadsFrom.FIRST_READ,
            ChangedRow.CURRENT,
            ReadLocks.NONE,
            True,
            _INNODB_DEADLOCK,
            f"{manual}, InnoDB transaction isolation levels, REPEATABLE READ; InnoDB consistent reads",
        ),
        StoreLevel(
            store,
            "serializable",
            ReadsFrom.LOCKED,
            ChangedRow.CURRENT,
            ReadLocks.SHARED,
            True,
            _INNODB_DEADLOCK,
            f"{manual}, InnoDB transaction isolation levels, SERIALIZABLE",
        ),
    ]
    if store is StoreName.MARIADB:
        first_updater = StoreLevel(
            store,
            "repeatable-read",
            ReadsFrom.FIRST_READ,
            ChangedRow.FAIL,
            ReadLocks.NONE,
            True,
            f"{_INNODB_DEADLOCK}; error 1020 for a row that changed after the read view",
            f"{manual}, InnoDB system variables, innodb_snapshot_isolation",
            on,
        )
        rows.insert(2, first_updater)
    return tuple(rows)


STORE_LEVELS: tuple[StoreLevel, ...] = (
    # READ UNCOMMITTED is READ COMMITTED there: the manual says so in the same section.
    *(
        StoreLevel(
            _PG,
            name,
            ReadsFrom.STATEMENT,
            ChangedRow.RECHECK,
            ReadLocks.NONE,
            False,
            _PG_DEADLOCK,
            f"{_PG_MANUAL}, 13.2.1 Read Committed Isolation Level",
        )
        for name in ("read-committed", "read-uncommitted")
    ),
    StoreLevel(
        _PG,
        "repeatable-read",
        ReadsFrom.TRANSACTION,
        ChangedRow.FAIL,
        ReadLocks.NONE,
        False,
        f"{_PG_DEADLOCK}; a row that changed after the snapshot",
        f"{_PG_MANUAL}, 13.2.2 Repeatable Read Isolation Level",
    ),
    StoreLevel(
        _PG,
        "serializable",
        ReadsFrom.TRANSACTION,
        ChangedRow.FAIL,
        ReadLocks.PREDICATES,
        False,
        f"{_PG_DEADLOCK}; a row that changed after the snapshot; two conflicts in a row, the last to be reached committed first",
        f"{_PG_MANUAL}, 13.2.3 Serializable Isolation Level; Ports & Grittner 2012",
    ),
    *_innodb(StoreName.MARIADB, _MARIADB),
    *_innodb(StoreName.MYSQL, _MYSQL),
    StoreLevel(
        _SQLITE,
        "deferred",
        ReadsFrom.TRANSACTION,
        ChangedRow.BUSY,
        ReadLocks.NONE,
        False,
        "SQLITE_BUSY where another writer is, SQLITE_BUSY_SNAPSHOT where another has written since the first read",
        "SQLite, Write-Ahead Logging, Concurrency; Transaction, Read transactions versus write transactions",
        _WAL,
    ),
    StoreLevel(
        _SQLITE,
        "immediate",
        ReadsFrom.TRANSACTION,
        ChangedRow.CURRENT,
        ReadLocks.NONE,
        False,
        "SQLITE_BUSY at BEGIN after the timeout, where another writer is",
        "SQLite, Transaction, Deferred, immediate, and exclusive transactions",
        _WAL,
    ),
    StoreLevel(
        _SQLITE,
        "deferred",
        ReadsFrom.TRANSACTION,
        ChangedRow.BUSY,
        ReadLocks.DATABASE,
        False,
        "SQLITE_BUSY where another writer is, and at COMMIT where somebody reads",
        "SQLite, File locking and concurrency in SQLite version 3",
        _ROLLBACK,
    ),
    StoreLevel(
        _SQLITE,
        "immediate",
        ReadsFrom.TRANSACTION,
        ChangedRow.CURRENT,
        ReadLocks.DATABASE,
        False,
        "SQLITE_BUSY at BEGIN after the timeout, where another writer is, and at COMMIT where somebody reads",
        "SQLite, File locking and concurrency in SQLite version 3",
        _ROLLBACK,
    ),
)

DEFAULT_LEVELS = {
    StoreName.POSTGRESQL: "read-committed",
    StoreName.MARIADB: "repeatable-read",
    StoreName.MYSQL: "repeatable-read",
    StoreName.SQLITE: "deferred",
}
_SETTINGS = {
    StoreName.POSTGRESQL: {"predicate_locks": ("exact", "table")},
    StoreName.MARIADB: {"innodb_snapshot_isolation": ("off", "on"), "index_locks": ("planned", "needed")},
    StoreName.MYSQL: {"index_locks": ("planned", "needed")},
    StoreName.SQLITE: {"journal_mode": ("wal", "delete")},
}
"""Settings of a store that change what its levels do, each with its values; the first is the default."""


def store_settings(store: str, given: Mapping[str, str]) -> dict[str, str]:
    """All settings of a store that its model knows, in small letters.

    >>> store_settings("mariadb", {"innodb_snapshot_isolation": "ON"})
    {'innodb_snapshot_isolation': 'on', 'index_locks': 'planned'}
    """
    known = _SETTINGS[StoreName(store)]
    found = {name: values[0] for name, values in known.items()}
    for name, value in given.items():
        if name not in known:
            listed = ", ".join(known) or "none"
            raise UsageError(f"the model of {store} has no setting {name!r}; it has {listed}")
        text = {"1": "on", "0": "off"}.get(value.lower(), value.lower())
        if text not in known[name]:
            raise UsageError(f"{name} is {value!r}; the model of {store} knows {' and '.join(known[name])}")
        found[name] = text
    return found


_ALSO_CALLED = {
    "ru": "read-uncommitted",
    "rc": "read-committed",
    "rr": "repeatable-read",
    "si": "snapshot-isolation",
    "snapshot": "snapshot-isolation",
    "ser": "serializable",
}
"""The usual words for levels."""
_PROVIDED_BY = {
    (StoreName.POSTGRESQL, "snapshot-isolation"): "repeatable-read",
    (StoreName.SQLITE, "serializable"): "deferred",
}
"""The level of a store that gives what the literature calls so, where the store has another name for it."""


def store_level(store: str, level: str = "", settings: Mapping[str, str] | None = None) -> StoreLevel:
    """A level of a store by its name (``read committed``, ``read-committed``, ``rc``), by default the one that it has by itself.

    >>> store_level("postgresql", "REPEATABLE READ").changed_row.name
    'FAIL'
    """
    name = StoreName(store)
    asked = "-".join(level.lower().replace("_", " ").split()) or DEFAULT_LEVELS[name]
    asked = _ALSO_CALLED.get(asked, asked)
    wanted = _PROVIDED_BY.get((name, asked), asked)
    values = store_settings(store, settings or {})
    for row in STORE_LEVELS:
        if row.store is name and row.level == wanted and all(values.get(key) == value for key, value in row.when):
            return row
    offered = dict.fromkeys(row.level for row in STORE_LEVELS if row.store is name)
    close = difflib.get_close_matches(asked, offered, 1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise UsageError(f"{store} has no isolation level {level!r}; it has {', '.join(offered)}{hint}")
