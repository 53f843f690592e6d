"""Isolation levels, what each means, and which implies which. Levels are not a ladder: there is no ``<``."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache

from isolde.errors import UsageError


class Level(Enum):
    """An isolation level, by its long name."""

    READ_UNCOMMITTED = "read-uncommitted"
    PL_2 = "pl-2"
    READ_COMMITTED = "read-committed"
    READ_ATOMIC = "read-atomic"
    CAUSAL = "causal"
    PREFIX = "prefix"
    REPEATABLE_READ = "repeatable-read"
    SNAPSHOT_ISOLATION = "snapshot-isolation"
    SERIALIZABLE = "serializable"
    STRICT_SNAPSHOT_ISOLATION = "strict-snapshot-isolation"
    STRICT_SERIALIZABLE = "strict-serializable"
    LINEARIZABLE = "linearizable"


@dataclass(frozen=True, slots=True)
class LevelRow:
    """One level: its short name, what a history must satisfy, who defined it, and how far Isolde decides it."""

    level: Level
    short: str
    meaning: str
    source: str
    decided: str


_SEARCH = "always, by search within a budget"
_ALWAYS = "always; where values repeat, by search within a budget"

# From weak to strong, as far as that makes sense. ``co`` is a total order of the committed transactions.
LEVELS: tuple[LevelRow, ...] = (
    LevelRow(Level.READ_UNCOMMITTED, "ru", "no cycle of overwrites (g0)", "Adya 1999, PL-1", _ALWAYS),
    LevelRow(Level.PL_2, "", "no g0, aborted, intermediate or circular reads (g1)", "Adya 1999, PL-2", _ALWAYS),
    LevelRow(
        Level.READ_COMMITTED,
        "rc",
        "reads see committed versions and never go back within a transaction",
        "Biswas & Enea 2019",
        _ALWAYS,
    ),
    LevelRow(
        Level.READ_ATOMIC,
        "ra",
        "all or nothing of each transaction is seen, and the session's own past",
        "Biswas & Enea 2019",
        _ALWAYS,
    ),
    LevelRow(Level.CAUSAL, "cc", "what was seen brings along all that it depends on", "Biswas & Enea 2019", _ALWAYS),
    LevelRow(Level.PREFIX, "pc", "each transaction sees a prefix of the commit order", "Biswas & Enea 2019", _SEARCH),
    LevelRow(
        Level.REPEATABLE_READ,
        "rr",
        "serializable as far as single items go; predicates are free",
        "Adya 1999, PL-2.99",
        _SEARCH,
    ),
    LevelRow(
        Level.SNAPSHOT_ISOLATION,
        "si",
        "prefix, and of two concurrent writers of a key only one commits",
        "Cerone & Gotsman 2018",
        _SEARCH,
    ),
    LevelRow(
        Level.SERIALIZABLE,
        "ser",
        "some serial order of the transactions explains every read",
        "Adya 1999, PL-3",
        _SEARCH,
    ),
    LevelRow(
        Level.STRICT_SNAPSHOT_ISOLATION,
        "strict-si",
        "snapshot isolation with the snapshot taken at the real start",
        "Adya 1999; Cerone & Gotsman 2018",
        _SEARCH,
    ),
    LevelRow(
        Level.STRICT_SERIALIZABLE,
        "strict-ser",
        "serializable in an order that keeps real time",
        "Adya 1999; Herlihy & Wing 1990",
        _SEARCH,
    ),
    LevelRow(
        Level.LINEARIZABLE,
        "lin",
        "single-key operations take effect one by one, in real time",
        "Herlihy & Wing 1990; Gibbons & Korach 1997",
        "always for single-key transactions, lists included; a search with a budget where values are not unique",
    ),
)


@dataclass(frozen=True, slots=True)
class Implication:
    """Every history that satisfies ``stronger`` satisfies ``weaker``."""

    stronger: Level
    weaker: Level
    source: str


# Absent on purpose: REPEATABLE_READ (PL-2.99) and SNAPSHOT_ISOLATION are unrelated, since write skew on items is allowed
# only by the latter and a phantom only by the former. LINEARIZABLE is asked of single-key operations alone and does not
# know sessions, so it stands apart.
IMPLICATIONS: tuple[Implication, ...] = (
    Implication(Level.STRICT_SERIALIZABLE, Level.SERIALIZABLE, "Adya 1999"),
    Implication(Level.STRICT_SERIALIZABLE, Level.STRICT_SNAPSHOT_ISOLATION, "Cerone & Gotsman 2018"),
    Implication(Level.STRICT_SNAPSHOT_ISOLATION, Level.SNAPSHOT_ISOLATION, "Adya 1999"),
    Implication(Level.SERIALIZABLE, Level.SNAPSHOT_ISOLATION, "Cerone & Gotsman 2018"),
    Implication(Level.SERIALIZABLE, Level.REPEATABLE_READ, "Adya 1999"),
    Implication(Level.REPEATABLE_READ, Level.PL_2, "Adya 1999"),
    Implication(Level.SNAPSHOT_ISOLATION, Level.PREFIX, "Biswas & Enea 2019"),
    Implication(Level.PREFIX, Level.CAUSAL, "Biswas & Enea 2019"),
    Implication(Level.CAUSAL, Level.READ_ATOMIC, "Biswas & Enea 2019"),
    Implication(Level.READ_ATOMIC, Level.READ_COMMITTED, "Biswas & Enea 2019"),
    Implication(Level.READ_COMMITTED, Level.PL_2, "Biswas & Enea 2019"),
    Implication(Level.PL_2, Level.READ_UNCOMMITTED, "Adya 1999"),
)


@cache
def _implied(level: Level) -> frozenset[Level]:
    below = {level}
    for implication in IMPLICATIONS:
        if implication.stronger is level:
            below |= _implied(implication.weaker)
    return frozenset(below)


def implies(stronger: Level, weaker: Level) -> bool:
    """Whether every history that satisfies ``stronger`` satisfies ``weaker``.

    >>> implies(Level.SERIALIZABLE, Level.CAUSAL), implies(Level.REPEATABLE_READ, Level.SNAPSHOT_ISOLATION)
    (True, False)
    """
    return weaker in _implied(stronger)


def row(level: Level) -> LevelRow:
    """The table's row of a level."""
    return next(entry for entry in LEVELS if entry.level is level)


ALSO_CALLED: Mapping[str, Level] = {
    "pl-1": Level.READ_UNCOMMITTED,
    "pl-2.99": Level.REPEATABLE_READ,
    "pl-si": Level.SNAPSHOT_ISOLATION,
    "snapshot": Level.SNAPSHOT_ISOLATION,
    "pl-3": Level.SERIALIZABLE,
    "pl-ss": Level.STRICT_SERIALIZABLE,
    "tcc": Level.CAUSAL,
    "transactional-causal-consistency": Level.CAUSAL,
    "causal-consistency": Level.CAUSAL,
    "prefix-consistency": Level.PREFIX,
    "serializability": Level.SERIALIZABLE,
    "sser": Level.STRICT_SERIALIZABLE,
    "strict-serializability": Level.STRICT_SERIALIZABLE,
    "strong-serializable": Level.STRICT_SERIALIZABLE,
    "strong-snapshot-isolation": Level.STRICT_SNAPSHOT_ISOLATION,
    # The order inside a session is kept unless --no-session-order says otherwise.
    "strong-session-snapshot-isolation": Level.SNAPSHOT_ISOLATION,
    "strong-session-serializable": Level.SERIALIZABLE,
    "linearizability": Level.LINEARIZABLE,
}
"""What Adya, Jepsen, Elle, Cobra, PolySI and MTC call a level."""

_NOT_DECIDED: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("cursor-stability", "pl-cs"),
        "it speaks of cursors, which histories do not show; repeatable-read and snapshot-isolation imply it",
    ),
    (
        ("monotonic-atomic-view", "monotonic-view", "pl-2l", "strong-session-read-committed"),
        "it lies between pl-2 and read-atomic, which implies it",
    ),
    (("consistent-view", "pl-2+"), "it lies between pl-2 and snapshot-isolation, which implies it"),
    (("forward-consistent-view", "pl-fcv"), "it lies between pl-2 and strict-snapshot-isolation, which implies it"),
    (("update-serializable", "pl-3u"), "it lies between pl-2 and serializable, which implies it"),
    (("parallel-snapshot-isolation", "psi"), "it lies between causal and snapshot-isolation, which implies it"),
)
"""Levels of the literature that have no decision procedure here, and what to ask instead."""


def level_named(name: str) -> Level:
    """The level with this long or short name, or with the name that another tool has for it.

    >>> level_named("si"), level_named("PL-3")
    (<Level.SNAPSHOT_ISOLATION: 'snapshot-isolation'>, <Level.SERIALIZABLE: 'serializable'>)
    """
    wanted = name.strip().lower().replace("_", "-").replace(" ", "-")
    for entry in LEVELS:
        if wanted and wanted in (entry.level.value, entry.short):
            return entry.level
    if wanted in ALSO_CALLED:
        return ALSO_CALLED[wanted]
    for others, instead in _NOT_DECIDED:
        if wanted in others:
            raise UsageError(f"the level {name!r} is not decided: {instead}")
    names = [entry.level.value for entry in LEVELS]
    close = difflib.get_close_matches(wanted, names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "'isolde levels' lists them"
    raise UsageError(f"unknown isolation level {name!r}; {hint}")
