"""The catalogue of anomalies: what each is called, what it looks like, and the weakest level that rules it out."""

from __future__ import annotations

from dataclasses import dataclass

from isolde.levels.lattice import Level


@dataclass(frozen=True, slots=True)
class AnomalyRow:
    """One anomaly. ``ruled_out_from`` is the weakest level that forbids it; ``None``: it is not about levels."""

    name: str
    description: str
    ruled_out_from: Level | None
    source: str


_RC, _RA, _CC, _PC = Level.READ_COMMITTED, Level.READ_ATOMIC, Level.CAUSAL, Level.PREFIX
_PL2 = Level.PL_2
_SI, _SER = Level.SNAPSHOT_ISOLATION, Level.SERIALIZABLE
_WEI = "Wei et al. 2025, table I"

ANOMALIES: tuple[AnomalyRow, ...] = (
    AnomalyRow("thin-air-read", "a value that nobody wrote was read", _RC, _WEI),
    AnomalyRow("aborted-read", "a value of an aborted transaction was read", _RC, "Adya 1999, G1a"),
    AnomalyRow("future-read", "a transaction read a value that it wrote only later", _RC, _WEI),
    AnomalyRow("not-my-last-write", "a transaction read a value of its own that it had overwritten", _RC, _WEI),
    AnomalyRow("not-my-own-write", "a transaction wrote a key and then read somebody else's value", _RC, _WEI),
    AnomalyRow(
        "intermediate-read", "a value was read that its writer overwrote before committing", _RC, "Adya 1999, G1b"
    ),
    AnomalyRow(
        "incompatible-order",
        "two lists of a key were read that no order of the appends gives",
        _PL2,
        "Kingsbury 2020, Elle",
    ),
    AnomalyRow(
        "duplicate-element", "a list held an element twice that was appended once", _PL2, "Kingsbury 2020, Elle"
    ),
    AnomalyRow(
        "lost-element", "a list lacked an element that came before one that it showed", _PL2, "Kingsbury 2020, Elle"
    ),
    AnomalyRow("non-repeatable-read", "a transaction read a key twice and saw two values", _RA, "Biswas & Enea 2019"),
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
    AnomalyRow("lost-update", "two transactions read a value and both replaced it", _SI, "Cerone et al. 2015"),
    AnomalyRow("write-skew", "two transactions each read what the other then replaced", _SER, "Berenson et al. 1995"),
    AnomalyRow("phantom", "rows that match a predicate appeared or vanished", _SER, "Adya 1999"),
    AnomalyRow("g0", "a cycle of overwrites", Level.READ_UNCOMMITTED, "Adya 1999"),
    AnomalyRow("g1c", "a cycle of overwrites, reads and session order", Level.PL_2, "Adya 1999"),
    AnomalyRow("g-single", "a cycle with one anti-dependency", _SI, "Adya 1999"),
    AnomalyRow(
        "g-nonadjacent",
        "a cycle with several anti-dependencies, no two of them adjacent",
        _SI,
        "Adya 1999; Cerone 2018",
    ),
    AnomalyRow("g2-item", "a cycle with anti-dependencies on items", Level.REPEATABLE_READ, "Adya 1999"),
    AnomalyRow("g2", "a cycle with anti-dependencies, predicates included", _SER, "Adya 1999"),
    AnomalyRow(
        "real-time-violation",
        "the order that explains the history contradicts the clock",
        Level.STRICT_SNAPSHOT_ISOLATION,
        "Herlihy & Wing 1990",
    ),
    AnomalyRow(
        "no-linearization",
        "no order of the operations on a key, each at a moment between its start and its end, explains what was read",
        Level.LINEARIZABLE,
        "Herlihy & Wing 1990",
    ),
    AnomalyRow(
        "duplicate-write",
        "a value was written twice to a key, so a read of it has no single writer (legal; it can leave a level undecided)",
        None,
        "Biswas & Enea 2019",
    ),
    AnomalyRow("result-set-mismatch", "the rows of a query fit no state of the tables", _RC, "Clark et al. 2024"),
)


def anomaly(name: str) -> AnomalyRow:
    """The table's row of an anomaly."""
    return next(entry for entry in ANOMALIES if entry.name == name)
