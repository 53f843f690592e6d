"""What statements of InnoDB ask for besides what all stores know: entries of an index, locks of records and of gaps."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from isolde.semantics.stores.indexes import Entry
from isolde.semantics.tables.view import Row
from isolde.tx.queries import Patience


class Kind(StrEnum):
    """What of an index a lock is for."""

    RECORD = "record"
    NEXT_KEY = "record and the gap before it"
    IMPLICIT = "record that the transaction wrote"


@dataclass(frozen=True, slots=True)
class Held:
    """A lock of a record, shared or exclusive. One that is implicit is no lock yet, as far as weights go.

    ``below``: the shared lock that its holder had before, and has again if this one is given back.
    """

    exclusive: bool
    kind: Kind
    below: Held | None = None


@dataclass(frozen=True, slots=True)
class Next:
    """The entry after this one in an index (or it ``itself``), with the number of its row; ``None`` at the end."""

    table: int
    index: int
    after: Entry
    itself: bool


@dataclass(frozen=True, slots=True)
class LockRecord:
    """An index record. The answer: the row as it is now (``None``: gone, or under another entry), and whether the lock is fresh:
    got without a wait, by somebody who had none like it (``None``: he had one; ``False``: he waited).

    ``current``: the row is read, so that a newer version than the snapshot's is an error with innodb_snapshot_isolation.
    ``duplicate``: it may be a duplicate of a row that is to be inserted; such a lock, and a shared one, is one of the gap if the
    record goes, at all levels.
    """

    table: int
    index: int
    entry: Entry
    number: int
    exclusive: bool
    kind: Kind
    patience: Patience = Patience.WAIT
    current: bool = True
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class LockTable:
    """A table that rows are added to, or locked in, in mode IX, or IS: before anything of it is looked at."""

    table: int
    exclusive: bool = True


@dataclass(frozen=True, slots=True)
class LockGap:
    """The gap that an entry is to come into. Nobody waits for one."""

    table: int
    index: int
    entry: Entry
    exclusive: bool


@dataclass(frozen=True, slots=True)
class Unlock:
    table: int
    index: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class Peek:
    """A row that somebody else has locked, as it was last committed (the semi-consistent read); else ``None``.

    The answer is in a tuple of one: there may be no such row.
    """

    table: int
    entry: Entry
    number: int


@dataclass(frozen=True, slots=True)
class InsertEntry:
    """Waits until nobody else has locked the gap that the entry is to come into. ``instead_of``: the row's entry until now.

    Gives whether nobody else has the entry. ``found_free``: it was seen afterwards that nobody has.
    """

    table: int
    index: int
    entry: Entry
    instead_of: Entry | None = None
    found_free: bool = False


@dataclass(frozen=True, slots=True)
class Candidates:
    """Rows that have, or may come to have, this key in these columns: their numbers, and what each may be."""

    table: int
    columns: tuple[int, ...]
    key: Any


@dataclass(frozen=True, slots=True)
class Guard:
    """From now on, nobody else makes a row match."""

    table: int
    predicate: Any


@dataclass(frozen=True, slots=True)
class Enter:
    """A row is to come, or to become this one: waits for those who guard a condition that it meets."""

    table: int
    row: Row
