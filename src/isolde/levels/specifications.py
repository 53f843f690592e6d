"""Isolation levels as proofs use them: from which committed state a statement reads, what a write does, what is protected.

The rows for databases follow from what they do (``stores.py``, with its sources). Those of the literature are the specifications
of Kaki et al., "Alone Together" (POPL 2018), section 3.1: ``I_ss`` (nothing was committed meanwhile), ``I_ww`` (rows that are
written were not changed meanwhile), or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from isolde.errors import UsageError
from isolde.levels.stores import ChangedRow, ReadLocks, ReadsFrom, StoreName, store_level


class Reads(Enum):
    """The committed state that a plain read sees, under the transaction's own writes."""

    STATEMENT = "a state for each statement"
    SNAPSHOT = "one state for the transaction"
    FIRST_READ = "one state, that of the first plain read"
    COMMIT = "the state that the transaction commits to"
    DIRTY = "rows that may never be committed: anything"


class Writes(Enum):
    """Where a write finds its rows, and what holds of them until the transaction commits."""

    RECHECK = "in the statement's state, then tests the newest version; rows stay as they are"
    CURRENT = "in the newest state; rows stay as they are"
    UNCHANGED = "in the snapshot; fails if they changed; rows stay as they are"
    CURRENT_UNCHANGED = "in the newest state; fails if they changed since the first plain read; rows stay as they are"
    LOOSE = "where plain reads see them; nothing keeps others from changing them"
    COMMIT = "in the state that the transaction commits to"


@dataclass(frozen=True, slots=True)
class Specification:
    """One level. ``mutual``: transactions that run at it are serializable among each other, and only among each other."""

    database: str
    level: str
    reads: Reads
    writes: Writes
    mutual: bool
    means: str
    source: str


_READS = {
    ReadsFrom.STATEMENT: Reads.STATEMENT,
    ReadsFrom.TRANSACTION: Reads.SNAPSHOT,
    ReadsFrom.FIRST_READ: Reads.FIRST_READ,
    ReadsFrom.LOCKED: Reads.COMMIT,
    ReadsFrom.UNCOMMITTED: Reads.DIRTY,
}
_PAPER = "Kaki et al., Alone Together (POPL 2018), section 3.1"
_PAPER_LEVELS = {
    "paper-postgresql": {
        "read-committed": (Reads.STATEMENT, Writes.LOOSE, "read committed: (true, true)"),
        "repeatable-read": (Reads.SNAPSHOT, Writes.UNCHANGED, "snapshot isolation: (I_ss, I_ww)"),
        "serializable": (Reads.COMMIT, Writes.COMMIT, "serializable: (I_ss, I_ss)"),
    },
    "paper-mysql": {
        "read-committed": (Reads.STATEMENT, Writes.LOOSE, "read committed: (true, true)"),
        "repeatable-read": (Reads.SNAPSHOT, Writes.LOOSE, "repeatable read as a snapshot: (I_ss, true)"),
        "serializable": (Reads.COMMIT, Writes.COMMIT, "serializable: (I_ss, I_ss)"),
    },
}
CANDIDATES = ("read-committed", "repeatable-read", "serializable")
"""The levels that are tried, weakest first."""
DATABASES = ("postgresql", "mysql", "mariadb", *_PAPER_LEVELS)


def specification(database: str, level: str, settings: Mapping[str, str] | None = None) -> Specification:
    """What a level of a database means to a proof.

    >>> specification("mariadb", "repeatable-read").means
    'snapshot reads, current writes'
    """
    if database in _PAPER_LEVELS:
        found = _PAPER_LEVELS[database].get(level)
        if found is None:
            raise UsageError(
                f"{database} has no isolation level {level!r}; it has {', '.join(_PAPER_LEVELS[database])}"
            )
        if settings:
            raise UsageError(f"{database} has no settings")
        return Specification(database, level, found[0], found[1], False, found[2], _PAPER)
    if database not in DATABASES:
        raise UsageError(f"proofs know no database {database!r}; they know {', '.join(DATABASES)}")
    row = store_level(database, level, settings)
    reads = _READS[row.reads]
    mutual = row.read_locks is ReadLocks.PREDICATES
    if reads is Reads.COMMIT:
        return Specification(database, row.level, reads, Writes.COMMIT, False, "serializable", row.source)
    writes = {
        ChangedRow.RECHECK: Writes.RECHECK,
        ChangedRow.CURRENT: Writes.CURRENT,
        ChangedRow.FAIL: Writes.UNCHANGED if reads is Reads.SNAPSHOT else Writes.CURRENT_UNCHANGED,
    }[row.changed_row]
    return Specification(
        database, row.level, reads, writes, mutual, _means(row.store, reads, writes, mutual), row.source
    )


def _means(store: StoreName, reads: Reads, writes: Writes, mutual: bool) -> str:
    if mutual:
        return "serializable (towards transactions at the same level)"
    if reads is Reads.STATEMENT:
        return "read-committed"
    if reads is Reads.DIRTY:
        return "uncommitted reads, current writes"
    if store is not StoreName.POSTGRESQL and writes is Writes.CURRENT:
        return "snapshot reads, current writes"
    return "snapshot-isolation"
