"""What was asked, as a closed union: a verb that asks something new adds its question here, and every reader has to know it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from isolde.levels import Level


@dataclass(frozen=True, slots=True)
class AtLevel:
    """Transactions run at a level of the literature; ``own`` are those that have one of their own, by name."""

    level: Level
    own: tuple[tuple[str, Level], ...] = ()


@dataclass(frozen=True, slots=True)
class OnStore:
    """Transactions run as a database runs them, at an isolation level by its name there.

    ``own`` are the transactions that have a level of their own; ``settings`` change what a level does.
    """

    store: str
    isolation: str
    own: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()


Under = AtLevel | OnStore


@dataclass(frozen=True, slots=True)
class HistoryLevel:
    """Does the history satisfy the level? (``isolde check``, ``isolde run``)"""

    level: Level


@dataclass(frozen=True, slots=True)
class ClaimKept:
    """Does the database, at what it calls ``isolation``, forbid all that ``level`` forbids? (``isolde run --matrix``)"""

    isolation: str
    level: Level


@dataclass(frozen=True, slots=True)
class RunHealth:
    """Is everything that was committed still there after the faults, do the invariants hold that the run looked at, or were all
    increments counted?
    """

    about: Literal["durability", "invariants", "counters"]


@dataclass(frozen=True, slots=True)
class LogExplained:
    """Could a correct database have given these answers? (``isolde audit``)"""

    under: Under


@dataclass(frozen=True, slots=True)
class InvariantKept:
    """Does an invariant, or every check of a program, hold whatever happens?

    Without ``under`` it is asked of what happened: of a run, whose levels are among its facts. ``name`` is empty if all checks
    of a program are meant.
    """

    name: str
    under: Under | None = None


@dataclass(frozen=True, slots=True)
class Robust:
    """Does the program behave no differently than under ``against``?"""

    under: Under
    against: Under


@dataclass(frozen=True, slots=True)
class HowMany:
    """How many histories does the program have? Nothing is judged."""

    under: Under


@dataclass(frozen=True, slots=True)
class SchedulePlayed:
    """What comes of one given interleaving?"""

    name: str
    under: Under | None = None


@dataclass(frozen=True, slots=True)
class WeakestLevel:
    """Which is the weakest level at which the transaction is safe? (``isolde infer``)"""

    transaction: str


Question = (
    HistoryLevel
    | ClaimKept
    | RunHealth
    | LogExplained
    | InvariantKept
    | Robust
    | HowMany
    | SchedulePlayed
    | WeakestLevel
)
