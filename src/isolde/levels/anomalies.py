"""The catalogue of anomalies: what each is called, what it looks like, and the weakest levels that rule it out."""

from __future__ import annotations

from dataclasses import dataclass

from isolde.levels.lattice import Level, implies


@dataclass(frozen=True, slots=True)
class AnomalyRow:
    """One anomaly. ``ruled_out_from`` are the weakest levels that forbid it; none: it is not about levels.

    They are several where levels that do not imply each other forbid it: repeatable read forbids every cycle of item
    operations, and yet implies neither read committed nor snapshot isolation, which know about predicates; linearizable is
    asked of single-key transactions alone, and forbids what can be seen on one key without sessions.
    """

    name: str
    description: str
    ruled_out_from: tuple[Level, ...]
    source: str


_READS = (Level.PL_2, Level.LINEARIZABLE)
_RR = Level.REPEATABLE_READ
_RC, _RA, _CC = (Level.READ_COMMITTED, _RR), (Level.READ_ATOMIC, _RR), (Level.CAUSAL, _RR)
_PC = (Level.PREFIX, _RR)
_SI = (Level.SNAPSHOT_ISOLATION, _RR, Level.LINEARIZABLE)
_SER = (Level.SERIALIZABLE,)
_WEI = "Wei et al. 2025, table I"

ANOMALIES: tuple[AnomalyRow, ...] = (
    AnomalyRow("thin-air-read", "a value that nobody wrote was read", _READS, _WEI),
    AnomalyRow("aborted-read", "a value of an aborted transaction was read", _READS, "Adya 1999, G1a"),
    AnomalyRow("future-read", "a transaction read a value that it wrote only later", _READS, _WEI),
    AnomalyRow("not-my-last-write", "a transaction read a value of its own that it had overwritten", _READS, _WEI),
    AnomalyRow("not-my-own-write", "a transaction wrote a key and then read somebody else's value", _READS, _WEI),
    AnomalyRow(
        "intermediate-read", "a value was read that its writer overwrote before committing", _READS, "Adya 1999, G1b"
    ),
    AnomalyRow(
        "incompatible-order",
        "two lists of a key were read that no order of the appends gives",
        _READS,
        "Kingsbury 2020, Elle",
    ),
    AnomalyRow(
        "duplicate-element", "a list held an element twice that was appended once", _READS, "Kingsbury 2020, Elle"
    ),
    AnomalyRow(
        "lost-element", "a list lacked an element that came before one that it showed", _READS, "Kingsbury 2020, Elle"
    ),
    AnomalyRow(
        "non-repeatable-read",
        "a transaction read a key twice and saw two values",
        (*_RA, Level.LINEARIZABLE),
        "Biswas & Enea 2019",
    ),
    AnomalyRow(
        "session-guarantee-violation",
        "a transaction missed an earlier one of its own session",
        _RA,
        "Biswas & Enea 2019",
    ),
    AnomalyRow("non-monotonic-read", "after seeing a transaction, an older state was read", _RC, "Biswas & Enea 2019"),
    AnomalyRow("fractured-read", "a part of a transaction was seen, another part was not", _RA, "Biswas & Enea 2019"),
    AnomalyRow("causality-violation", "an effect was seen, but not what it depends on", _CC, "Cerone et al. 2015"),
    AnomalyRow("long-fork", "two readers saw two writes in opposite orders", _PC, "Cerone et al. 2015"),
    AnomalyRow("prefix-violation", "a commit was seen, but not one that came before it", _PC, "Biswas & Enea 2019"),
    AnomalyRow("lost-update", "two transactions read a value and both replaced it", _SI, "Cerone et al. 2015"),
    AnomalyRow("write-skew", "two transactions each read what the other then replaced", (_RR,), "Berenson et al. 1995"),
    AnomalyRow("phantom", "rows that match a predicate appeared or vanished", _SER, "Adya 1999"),
    AnomalyRow("g0", "a cycle of overwrites", (Level.READ_UNCOMMITTED, Level.LINEARIZABLE), "Adya 1999"),
    AnomalyRow("g1c", "a cycle of overwrites, reads and session order", _READS, "Adya 1999"),
    AnomalyRow("g-single", "a cycle with one anti-dependency", _SI, "Adya 1999"),
    AnomalyRow(
        "g-nonadjacent",
        "a cycle with several anti-dependencies, no two of them adjacent",
        _SI,
        "Adya 1999; Cerone 2018",
    ),
    AnomalyRow("g2-item", "a cycle with anti-dependencies on items", (_RR, Level.LINEARIZABLE), "Adya 1999"),
    AnomalyRow("g2", "a cycle with anti-dependencies, predicates included", _SER, "Adya 1999"),
    AnomalyRow(
        "real-time-violation",
        "the order that explains the history contradicts the clock",
        (Level.STRICT_SNAPSHOT_ISOLATION, Level.LINEARIZABLE),
        "Herlihy & Wing 1990",
    ),
    AnomalyRow(
        "g2-item-realtime",
        "a cycle with adjacent anti-dependencies that only real time closes",
        (Level.STRICT_SERIALIZABLE,),
        "Kingsbury 2020, Elle",
    ),
    AnomalyRow(
        "no-linearization",
        "no order of the operations on a key, each at a moment between its start and its end, explains what was read",
        (Level.LINEARIZABLE,),
        "Herlihy & Wing 1990",
    ),
    AnomalyRow(
        "contradictory-versions",
        "what was told of the order of a key's versions contradicts itself (no order follows it, so that no level holds)",
        (),
        "Adya 1999",
    ),
    AnomalyRow(
        "duplicate-write",
        "a value was written twice to a key, so a read of it has no single writer (legal; it can leave a level undecided)",
        (),
        "Biswas & Enea 2019",
    ),
    AnomalyRow(
        "result-set-mismatch",
        "the rows of a query fit no state of the tables",
        (Level.PL_2,),
        "Clark et al. 2024",
    ),
    AnomalyRow(
        "serialization-order-violation",
        "the serial order that was told does not explain what was read (another order may)",
        (),
        "Clark et al. 2024, Enne",
    ),
)


_BY_NAME = {entry.name: entry for entry in ANOMALIES}

# What each level rules out and no weaker one does: the name for a violation of which no more can be said.
WIDEST: dict[Level, str] = {
    Level.READ_UNCOMMITTED: "g0",
    Level.PL_2: "g1c",
    Level.READ_COMMITTED: "non-monotonic-read",
    Level.READ_ATOMIC: "fractured-read",
    Level.CAUSAL: "causality-violation",
    Level.PREFIX: "prefix-violation",
    Level.REPEATABLE_READ: "g2-item",
    Level.SNAPSHOT_ISOLATION: "g-nonadjacent",
    Level.SERIALIZABLE: "g2-item",
    Level.STRICT_SNAPSHOT_ISOLATION: "real-time-violation",
    Level.STRICT_SERIALIZABLE: "g2-item-realtime",
    Level.LINEARIZABLE: "no-linearization",
}


def anomaly(name: str) -> AnomalyRow:
    """The table's row of an anomaly."""
    return _BY_NAME[name]


def rules_out(level: Level, name: str) -> bool:
    """Whether a level forbids an anomaly.

    >>> rules_out(Level.SERIALIZABLE, "write-skew"), rules_out(Level.SNAPSHOT_ISOLATION, "write-skew")
    (True, False)
    """
    return any(implies(level, weakest) for weakest in anomaly(name).ruled_out_from)
