"""What a running statement asks of the database, and what it answers: the seam between statements and concurrency.

A statement is a generator of requests. It computes, and touches nothing shared: every effect is a request, and whether the
request is granted at once, waits, or fails is the store's to say. So a statement that waits is its list of answers, which can be
copied and hashed; it goes on by being run again along them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from isolde.semantics.stores.rows import TransactionId, Version
from isolde.semantics.tables.view import Row
from isolde.tx.queries import Patience

Place = tuple[Any, ...]
"""What is locked: ``("row", table, number)``, ``("gap", table, …)``."""


class Failure(Exception):
    """The database fails a statement. ``word`` is that of the history format; ``ends``: the transaction is rolled back."""

    def __init__(self, word: str, message: str, *, ends: bool = False) -> None:
        super().__init__(message)
        self.word, self.message, self.ends = word, message, ends


@dataclass(frozen=True, slots=True)
class Look:
    """A view of all tables. ``latest``: of what is committed now, whatever the transaction's snapshot is."""

    latest: bool = False


@dataclass(frozen=True, slots=True)
class Examine:
    """The statement has read the rows that these predicates describe. ``latest``: in the newest committed state."""

    predicates: tuple[Any, ...]
    latest: bool = False


@dataclass(frozen=True, slots=True)
class LockRow:
    """A row for this transaction alone, as far as the mode goes. ``seen``: the version that the statement found.

    The answer is the newest version (``None``: the row is gone), or ``SKIPPED``.
    """

    table: int
    number: int
    mode: Any
    seen: Version
    patience: Patience = Patience.WAIT


@dataclass(frozen=True, slots=True)
class FreeKey:
    """Whether another row holds a unique key: the answer is its number and version, or ``None``. Waits where it is open."""

    table: int
    unique: int
    key: Any
    number: int | None


@dataclass(frozen=True, slots=True)
class Visible:
    """The transaction's snapshot has to show this version of a row, where it has one."""

    table: int
    number: int
    version: Version


@dataclass(frozen=True, slots=True)
class Put:
    """Changes, deletes (no row) or adds (no number) a row; the answer is its number."""

    table: int
    number: int | None
    row: Row | None


@dataclass(frozen=True, slots=True)
class Draw:
    """So many generated ids of a table; the answer is the first. ``beyond``: ids up to this one are no longer free."""

    table: int
    count: int
    beyond: int | None = None


class Skipped:
    """The answer for a row that a statement leaves out because it is locked."""

    def __repr__(self) -> str:
        return "SKIPPED"


SKIPPED = Skipped()


@dataclass(frozen=True, slots=True)
class Blocked:
    """A request has to wait for these transactions."""

    by: frozenset[TransactionId]


# What a client gets


@dataclass(frozen=True, slots=True)
class Cut:
    """Rows of which LIMIT and OFFSET leave some, and what each is ordered by: of those with one key, any may be left."""

    every: tuple[Row, ...]
    keys: tuple[Row, ...]
    offset: int
    limit: int | None


@dataclass(frozen=True, slots=True)
class Returned:
    """A statement is done. ``names`` are empty if it gives no rows; ``ordered``: the order of the rows is the statement's.

    ``keys`` gives what each row is ordered by: rows of one key may come in any order. ``cut``: instead of rows, where
    LIMIT leaves open which they are and the model is asked to tell.
    """

    names: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    count: int = 0
    ordered: bool = False
    keys: Callable[[], list[Row]] | None = field(default=None, compare=False)
    cut: Cut | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """A statement failed. ``ended``: the database has rolled the transaction back already."""

    word: str
    message: str = field(default="", compare=False)
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Waits:
    """A statement waits for transactions of these sessions."""

    for_sessions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """COMMIT or ROLLBACK is done. A COMMIT of a failed transaction rolls it back without an error (PostgreSQL)."""

    committed: bool


Result = Returned | Failed | Waits | Ended
Results = Mapping[str, Result]
"""Results by session: of the one that asked, and of those that went on because of it."""
