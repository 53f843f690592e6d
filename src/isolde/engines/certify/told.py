"""What comes out of a certificate: everything that ``check`` needs to decide, name and explain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from isolde._core import Columns
from isolde.engines.certify.fit import Place
from isolde.findings.model import Kind


@dataclass(frozen=True, slots=True)
class Fault:
    """An anomaly without a cycle: its name, the transactions that it is about by position, the sentence."""

    name: str
    positions: tuple[int, ...]
    sentence: str


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """What differs when an order of the dependency graph is replayed, in words; empty if nothing does. ``exact``: nothing can,
    unless Isolde is mistaken."""

    differs: str
    exact: bool


@dataclass(frozen=True, slots=True)
class Told:
    """``columns`` are the transactions as their item operations, at the same positions as in the history; ``versions`` the order
    of the versions of each key by the operations of ``columns``. ``edges`` come with their sentences. ``undecided`` says why all
    but read uncommitted is left open; empty if it is not. ``complete``: the order of every key's versions is told as a whole, so
    that nothing is left to search for but who wrote what was read. ``second``: what the replay of an order of the dependency
    graph says, where there is one. ``by_reads``: more edges, which follow from what was read: read uncommitted, which judges no
    reads, does not know them. ``readable``: the same columns with values that a person reads, made when something is to be
    shown."""

    columns: Columns
    edges: Sequence[tuple[int, int, Kind, str]] = ()
    versions: Sequence[Sequence[Place | None]] = ()
    faults: Sequence[Fault] = ()
    undecided: str = ""
    complete: bool = False
    second: SecondOpinion | None = None
    readable: Callable[[], Columns] | None = None
    by_reads: Sequence[tuple[int, int, Kind, str]] = ()
