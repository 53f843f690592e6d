"""What a database tells of its own order: listened for beside a run, and put together into a certificate afterwards.

A *recovery* is begun when the tables are there and before the first transaction: it looks first whether the server can tell at
all, and asks in one line for what is missing. Its connections are the adapter's own, which also listen: after each operation and
after the commit, ``heard`` gives what the server said beside the answer. The client keeps that by the operation's place in the
history (``Account``); when the run is over, ``recover`` makes a ``Certificate`` of all accounts and of what the server's own log
says. ``isolde.databases.recoveries`` has one file a kind of database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from isolde.databases.contract import Connection, Rows, SqlConnection, Table
from isolde.history.certificate import Certificate


class Ended(StrEnum):
    """How a transaction ended, as its client knows it."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Account:
    """What one transaction of the run heard: of its operations, by their places in ``ops``, and of its commit.

    ``begun`` is when it began, on the clock of all clients.
    """

    transaction: str
    ended: Ended
    begun: int
    operations: tuple[tuple[int, object], ...]
    commit: object | None = None


@dataclass(frozen=True, slots=True)
class Followed:
    """A table whose versions are followed: its name in the history and its primary key; no name for a history of keys."""

    name: str | None
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """The tables of a run, by their names in the database. ``faults``: its servers are killed meanwhile, or connections cut."""

    tables: Mapping[str, Followed]
    faults: bool = False

    @classmethod
    def of_keys(cls, table: Table, *, faults: bool = False) -> Scope:
        """The one table of a workload on keys."""
        return cls({table.name: Followed(None, ("k",))}, faults)


class Listening(Connection, Protocol):
    """A connection that listens to what the server says beside its answers."""

    def heard(self) -> object | None:
        """What was said of the last operation, or of the commit; ``None`` if nothing. Whoever asks again hears nothing."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """A query for the primary keys of the rows that a statement finds, with its parameters; ``table`` as in the history.

    ``keys`` are those primary keys if the statement names them itself: nothing else can it change. ``partly`` are the columns
    of the primary key that a condition names, by their places in it.
    """

    text: str
    parameters: Sequence[object]
    table: str
    keys: tuple[tuple[Any, ...], ...] | None = None
    partly: tuple[tuple[int, Any], ...] = ()


class ListeningSql(SqlConnection, Protocol):
    """The same for SQL."""

    def heard(self) -> object | None: ...

    def execute_found(self, statement: str, parameters: Sequence[Any], lookup: Lookup | None) -> Rows:
        """Runs a statement that changes or locks rows.

        Where the database may look at a row again after it waited for a lock, the rows are looked up in the same statement.
        Without a ``lookup`` nobody can say which rows it finds.
        """


class Recovery(Protocol):
    """What is listened for in one run. ``close`` gives back whatever was made on the server, however the run ended."""

    @property
    def only_last(self) -> bool:
        """Of the versions that one transaction makes of a row, only the last is told."""

    def connect(self, table: Table) -> Connection:
        """A new connection that works on the table and listens (``Listening``; ``ListeningSql`` where there is SQL)."""

    def recover(self, accounts: Sequence[Account]) -> Certificate:
        """The order so far, while nobody is at work; ``DatabaseUnavailable`` with the reason if it cannot be told."""

    def close(self) -> None:
        """Gives everything back; never raises."""
