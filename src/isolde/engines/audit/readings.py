"""What the levels mean for a log: who reads what, and what may not happen in between (``docs/audit.md``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from isolde.errors import UsageError
from isolde.levels import Level


class Reads(Enum):
    """The states that a transaction reads."""

    LATEST = "the state just before it"
    ONE_SNAPSHOT = "one state before it, for all statements"
    EACH_STATEMENT = "a state before it for each statement, never an older one than the statement before"


@dataclass(frozen=True, slots=True)
class Reading:
    """One level. ``strict``: real time is kept. ``first_committer``: nobody may write a row of it after its snapshot.

    ``paper``: as section 6 of the paper has it (``paper.py``), in the order of ``end``.
    """

    level: Level
    reads: Reads
    strict: bool
    first_committer: bool
    paper: bool = False

    def allows(self, states: Sequence[int], lowest: int, place: int) -> bool:
        """Whether a transaction at this place may read these states; it must not miss what state ``lowest`` holds."""
        if lowest > place:
            return False
        match self.reads:
            case Reads.LATEST:
                return all(state == place for state in states)
            case Reads.ONE_SNAPSHOT:
                return len(set(states)) <= 1 and all(lowest <= state <= place for state in states)
            case Reads.EACH_STATEMENT:
                return list(states) == sorted(states) and all(state <= place for state in states)


READINGS = {
    reading.level: reading
    for reading in (
        Reading(Level.STRICT_SERIALIZABLE, Reads.LATEST, True, False),
        Reading(Level.SERIALIZABLE, Reads.LATEST, False, False),
        Reading(Level.STRICT_SNAPSHOT_ISOLATION, Reads.ONE_SNAPSHOT, True, True),
        Reading(Level.SNAPSHOT_ISOLATION, Reads.ONE_SNAPSHOT, False, True),
        Reading(Level.READ_COMMITTED, Reads.EACH_STATEMENT, False, False),
    )
}
"""The levels that a log is judged by, the strongest first."""

WEAKER = {
    Level.STRICT_SERIALIZABLE: (Level.SERIALIZABLE, Level.STRICT_SNAPSHOT_ISOLATION),
    Level.SERIALIZABLE: (Level.SNAPSHOT_ISOLATION,),
    Level.STRICT_SNAPSHOT_ISOLATION: (Level.SNAPSHOT_ISOLATION,),
    Level.SNAPSHOT_ISOLATION: (Level.READ_COMMITTED,),
    Level.READ_COMMITTED: (),
}
"""The levels just below each: what a level explains, these explain as well."""


def reading_of(level: Level) -> Reading:
    """The reading of a level; a level that says nothing about SQL statements is refused."""
    found = READINGS.get(level)
    if found is None:
        offered = ", ".join(one.value for one in READINGS)
        raise UsageError(f"{level.value} is defined for keys, not for SQL statements; audit judges {offered}")
    return found
