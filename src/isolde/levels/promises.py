"""What the names of isolation levels promise, by themselves: in the SQL standard, and in the literature.

Databases give the names other meanings (MariaDB's REPEATABLE READ loses updates, which neither PostgreSQL's nor Adya's does), and
people choose a level by its name. What an adapter says of its database's level is another matter: ``Offer.claims``.
"""

from __future__ import annotations

from dataclasses import dataclass

from isolde.levels.lattice import Level


@dataclass(frozen=True, slots=True)
class NamePromise:
    """What a name of a level promises: the phenomena that SQL:1992 rules out, and the level of the literature with its source."""

    name: str
    standard: str
    literature: Level
    source: str


PROMISES = (
    NamePromise("read-uncommitted", "nothing about reads", Level.READ_UNCOMMITTED, "Adya's PL-1"),
    NamePromise("read-committed", "no dirty reads", Level.PL_2, "Adya's PL-2"),
    NamePromise(
        "repeatable-read",
        "no dirty and no non-repeatable reads",
        Level.REPEATABLE_READ,
        "Adya's PL-2.99, without predicates",
    ),
    NamePromise("snapshot", "not in the standard", Level.SNAPSHOT_ISOLATION, "Berenson et al. 1995"),
    NamePromise(
        "serializable", "executions as if one after the other", Level.SERIALIZABLE, "Papadimitriou 1979, Adya's PL-3"
    ),
)


def promise_of(name: str) -> NamePromise | None:
    """What the name promises, in the spelling of ``--isolation``; ``None`` of names that only one database has."""
    return next((one for one in PROMISES if one.name == name), None)
