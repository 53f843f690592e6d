"""Which of its own changes a transaction sees in an old snapshot.

InnoDB makes no new version of a row that an UPDATE leaves as it is. Where the snapshot is older than the row, a plain read after
such an UPDATE gives the old version, not what was assigned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from isolde.levels.specifications import Reads, Writes
from isolde.semantics.core.types import Sort
from isolde.semantics.sets.state import Base, Book, Key, Write
from isolde.semantics.sets.timeline import Timeline
from isolde.semantics.sets.values import Row, key_size, same_row
from isolde.smt import terms as smt
from isolde.smt.terms import Term

_SPELLED = frozenset({Sort.TEXT, Sort.UNKNOWN, Sort.ANY})
"""Two values of these may be equal for the database, and yet be written in different ways."""

Changed = Callable[[Key], Term]


def seen(timeline: Timeline, base: Base, writes: tuple[Write, ...], book: Book) -> tuple[Write, ...]:
    """The writes of a transaction as it sees them over a committed state."""
    level = timeline.level
    mixed = level.reads is Reads.FIRST_READ and level.writes is Writes.CURRENT
    if not mixed or base is not timeline.snapshot or all(write.was is None for write in writes):
        return writes
    found: list[Write] = []
    for write in writes:
        if write.rest is None:
            mine = [one for one in found if one.table is write.table and one.rest is None]
            found.append(replace(write, at=_shown(write, mine, _perhaps(write, book))))
        else:
            found.append(write)
    return tuple(found)


def _perhaps(write: Write, book: Book) -> Changed | None:
    """Whether a row changed of which that is not known: a text may have got another spelling."""
    columns = range(len(write.table.types)) if write.changed is None else write.changed
    if write.was is None or not any(write.table.types[place].sort in _SPELLED for place in columns):
        return None
    return smt.function(book.names.fresh("changed"), key_size(write.table), "boolean")


def _shown(write: Write, mine: list[Write], perhaps: Changed | None) -> Callable[[Key], tuple[Term, Row]]:
    """The row of a key is the transaction's own if this write changes it, or one before did."""

    def at(key: Key) -> tuple[Term, Row]:
        hit, new = write.at(key)
        if write.was is None:
            return hit, new
        changed = smt.no(same_row(write.was(key), new))
        before = smt.some(one.at(key)[0] for one in mine)
        unknown = smt.FALSE if perhaps is None else perhaps(*key)
        return smt.both(hit, smt.either(changed, before, unknown)), new

    return at
