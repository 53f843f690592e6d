"""Each anomaly as a schedule: what sessions do, in which order, and what shows that it happened.

A schedule does not hope for a race: it is stepped statement by statement. Keys 0 and 1 hold 10 and 20 at first. Steps are
``session:step``, where a step is ``r0`` (read key 0), ``w0=11``, ``i2=30`` (insert), ``d0`` (delete), ``q[condition]`` (rows that
meet an SQL condition on ``k`` and ``v``), ``x[statement]`` (an SQL change of the table ``{t}``, giving how many rows it touched),
``commit`` or ``abort``. Most follow Hermitage (Martin Kleppmann), whose names are given; the fourteen that mini-transactions
can show are those of table I of "Boosting End-to-End Database Isolation Checking via Mini-Transactions".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from isolde.history import History
from isolde.levels import Level

FIRST = {0: 10, 1: 20}


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a schedule: the answers of each session in order, who committed, and what the table holds.

    ``blocked`` says whether a step did not return at once; ``history`` is there if no step has a predicate.
    """

    answers: Mapping[str, list[Any]]
    committed: frozenset[str]
    final: Mapping[int, int | None]
    blocked: bool = False
    history: History | None = None

    def all_committed(self, *sessions: str) -> bool:
        return self.committed.issuperset(sessions)


@dataclass(frozen=True, slots=True)
class Schedule:
    """One anomaly; ``ruled_out_from`` is the weakest level that forbids it."""

    anomaly: str
    hermitage: str
    ruled_out_from: Level
    steps: str
    seen: Callable[[Played], bool]

    @property
    def predicates(self) -> bool:
        return "[" in self.steps

    @property
    def deletes(self) -> bool:
        return re.search(r":d\d", self.steps) is not None


def _thin_air(played: Played) -> bool:
    return any(
        answer not in (None, 10, 20, 11, 12, 21, 22) for answers in played.answers.values() for answer in answers
    )


SCHEDULES = (
    Schedule(
        "dirty-write",
        "G0",
        Level.READ_UNCOMMITTED,
        "A:w0=11 B:w0=12 A:w1=21 A:commit B:w1=22 B:commit",
        lambda p: p.all_committed("A", "B") and (p.final[0], p.final[1]) not in ((11, 21), (12, 22)),
    ),
    Schedule(
        "thin-air-read",
        "",
        Level.READ_COMMITTED,
        "A:w0=11 B:r0 B:r1 A:w1=21 B:r0 A:abort B:r1 C:w0=12 C:w1=22 B:r0 C:commit B:r1 B:commit",
        _thin_air,
    ),
    Schedule(
        "aborted-read",
        "G1a",
        Level.READ_COMMITTED,
        "A:w0=11 B:r0 A:abort B:r0 B:commit",
        lambda p: p.all_committed("B") and 11 in p.answers["B"],
    ),
    Schedule(
        "intermediate-read",
        "G1b",
        Level.READ_COMMITTED,
        "A:w0=11 B:r0 A:w0=12 A:commit B:r0 B:commit",
        lambda p: p.all_committed("A", "B") and 11 in p.answers["B"],
    ),
    Schedule(
        "future-read",
        "",
        Level.READ_COMMITTED,
        "A:r0 A:w0=11 A:commit",
        lambda p: p.answers["A"] == [11],
    ),
    Schedule(
        "not-my-last-write",
        "",
        Level.READ_COMMITTED,
        "A:w0=11 B:r0 A:w0=12 A:r0 A:commit B:commit",
        lambda p: p.all_committed("A") and p.answers["A"] == [11],
    ),
    Schedule(
        "not-my-own-write",
        "",
        Level.READ_COMMITTED,
        "A:r1 A:w0=11 B:w0=12 A:r0 A:commit B:commit",
        lambda p: p.all_committed("A") and p.answers["A"] != [20, 11],
    ),
    Schedule(
        "circular-information-flow",
        "G1c",
        Level.PL_2,
        "A:w0=11 B:w1=22 A:r1 B:r0 A:commit B:commit",
        lambda p: p.all_committed("A", "B") and p.answers["A"] == [22] and p.answers["B"] == [11],
    ),
    Schedule(
        "observed-transaction-vanishes",
        "OTV",
        Level.READ_COMMITTED,
        "A:w0=11 A:w1=19 B:w0=12 A:commit C:r0 C:r1 B:w1=18 C:r0 C:r1 B:commit C:r0 C:r1 C:commit",
        lambda p: p.all_committed("A", "B", "C") and _old_after_new(p.answers["C"], new=(0, 12), old=(1, 19)),
    ),
    Schedule(
        "non-monotonic-read",
        "",
        Level.READ_COMMITTED,
        "B:w0=11 A:r0 A:r1 B:w1=21 B:commit A:commit",
        lambda p: p.all_committed("A", "B") and p.answers["A"] == [11, 20],
    ),
    Schedule(
        "non-repeatable-read",
        "",
        Level.READ_ATOMIC,
        "A:r0 B:w0=11 B:commit A:r0 A:commit",
        lambda p: p.all_committed("A", "B") and p.answers["A"] == [10, 11],
    ),
    Schedule(
        "fractured-read",
        "G-single",
        Level.READ_ATOMIC,
        "A:r0 B:r0 B:r1 B:w0=12 B:w1=18 B:commit A:r1 A:commit",
        lambda p: p.all_committed("A", "B") and p.answers["A"] == [10, 18],
    ),
    Schedule(
        "session-guarantee-violation",
        "",
        Level.READ_ATOMIC,
        "A:r0 A:w0=11 A:commit A:r0 A:commit",
        lambda p: p.all_committed("A") and p.answers["A"] != [10, 11],
    ),
    Schedule(
        "causality-violation",
        "",
        Level.CAUSAL,
        "A:r0 B:r0 B:w0=11 B:commit C:r0 C:r1 C:w1=21 C:commit A:r1 A:commit",
        lambda p: p.all_committed("A", "B", "C") and p.answers["A"] == [10, 21] and p.answers["C"][0] == 11,
    ),
    Schedule(
        "long-fork",
        "",
        Level.PREFIX,
        "A:r1 B:r0 C:r0 C:w0=11 C:commit D:r1 D:w1=21 D:commit A:r0 B:r1 A:commit B:commit",
        lambda p: p.all_committed("A", "B", "C", "D") and p.answers["A"] == [20, 11] and p.answers["B"] == [10, 21],
    ),
    Schedule(
        "lost-update",
        "P4",
        Level.SNAPSHOT_ISOLATION,
        "A:r0 B:r0 A:w0=11 B:w0=12 A:commit B:commit",
        lambda p: p.all_committed("A", "B") and p.answers["A"] == p.answers["B"] == [10],
    ),
    # Databases treat a row that goes, or that comes back under its old key, in other ways than one that changes.
    Schedule(
        "lost-update-by-delete",
        "",
        Level.SNAPSHOT_ISOLATION,
        "A:r0 B:r0 A:w0=11 B:d0 A:commit B:commit",
        lambda p: p.all_committed("A", "B") and p.answers["A"] == p.answers["B"] == [10] and p.final[0] is None,
    ),
    Schedule(
        "lost-update-after-delete",
        "",
        Level.SNAPSHOT_ISOLATION,
        "A:r0 B:r0 A:d0 B:w0=12 A:commit B:commit",
        lambda p: p.all_committed("A", "B") and p.answers["A"] == p.answers["B"] == [10],
    ),
    Schedule(
        "lost-insert",
        "",
        Level.SNAPSHOT_ISOLATION,
        "A:r2 B:r2 A:i2=30 B:i2=31 A:commit B:commit",
        lambda p: p.all_committed("A", "B") and p.answers["A"] == p.answers["B"] == [None],
    ),
    Schedule(
        "lost-update-by-reinsert",
        "",
        Level.SNAPSHOT_ISOLATION,
        "A:r0 B:r0 B:d0 B:i0=12 B:commit A:w0=11 A:commit",
        lambda p: p.all_committed("A", "B") and p.answers["A"] == p.answers["B"] == [10],
    ),
    Schedule(
        "write-skew",
        "G2-item",
        Level.SERIALIZABLE,
        "A:r0 A:r1 B:r0 B:r1 A:w0=11 B:w1=21 A:commit B:commit",
        lambda p: p.all_committed("A", "B") and p.answers["A"] == p.answers["B"] == [10, 20],
    ),
    Schedule(
        "read-only-anomaly",
        "",
        Level.SERIALIZABLE,
        "A:r0 A:r1 B:r1 B:w1=25 B:commit C:r0 C:r1 C:commit A:w0=11 A:commit",
        lambda p: p.all_committed("A", "B", "C") and p.answers["A"] == [10, 20] and p.answers["C"] == [10, 25],
    ),
    Schedule(
        "phantom",
        "PMP",
        Level.SNAPSHOT_ISOLATION,
        "A:q[v = 30] B:i2=30 B:commit A:q[v % 3 = 0] A:commit",
        lambda p: p.all_committed("A", "B") and p.answers["A"] == [[], [(2, 30)]],
    ),
    Schedule(
        "phantom-by-write",
        "PMP-write",
        Level.SNAPSHOT_ISOLATION,
        "B:q[v = 20] A:x[UPDATE {t} SET v = v + 10] B:x[DELETE FROM {t} WHERE v = 20] A:commit B:commit",
        # A count of rows misses it where the delete takes the other row: what matters is that the one seen is still there.
        lambda p: p.all_committed("A", "B") and p.answers["B"][0] == [(1, 20)] and p.final[1] is not None,
    ),
    Schedule(
        "read-skew-by-predicate",
        "G-single-pred",
        Level.SNAPSHOT_ISOLATION,
        "A:q[v % 5 = 0] B:x[UPDATE {t} SET v = 12 WHERE v = 10] B:commit A:q[v % 3 = 0] A:commit",
        lambda p: p.all_committed("A", "B") and (0, 12) in p.answers["A"][1],
    ),
    Schedule(
        "read-skew-by-write",
        "G-single-write",
        Level.SNAPSHOT_ISOLATION,
        "A:r0 B:w0=12 B:w1=18 B:commit A:x[DELETE FROM {t} WHERE v = 20] A:commit",
        lambda p: p.all_committed("A", "B") and p.answers["A"] == [10, 0],
    ),
    Schedule(
        "write-skew-by-predicate",
        "G2",
        Level.SERIALIZABLE,
        "A:q[v % 3 = 0] B:q[v % 3 = 0] A:i2=30 B:i3=42 A:commit B:commit",
        lambda p: p.all_committed("A", "B") and p.answers["A"][0] == p.answers["B"][0] == [],
    ),
    Schedule(
        "read-only-anomaly-by-predicate",
        "G2-two-edges",
        Level.SERIALIZABLE,
        "A:q[v > 0] B:x[UPDATE {t} SET v = v + 5 WHERE k = 1] B:commit C:q[v > 0] C:commit A:w0=11 A:commit",
        lambda p: (
            p.all_committed("A", "B", "C")
            and p.answers["A"][0] == [(0, 10), (1, 20)]
            and p.answers["C"][0] == [(0, 10), (1, 25)]
        ),
    ),
)


def _old_after_new(answers: list[Any], *, new: tuple[int, int], old: tuple[int, int]) -> bool:
    """Whether the reader, who reads keys 0 and 1 in turn, saw the new value of one and then the old one of the other."""
    reads = [(place % 2, value) for place, value in enumerate(answers)]
    return new in reads and old in reads[reads.index(new) :]
