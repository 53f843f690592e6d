"""How a run went over time, from its history: for reports."""

from __future__ import annotations

from isolde._core import Columns
from isolde.findings import Interval, Pace

_PARTS = 60
_NS = 1_000_000_000
_NS_A_MS = 1_000_000


def pace_of(columns: Columns) -> Pace | None:
    """Throughput, aborts and latency in parts of equal length; ``None`` if the history has no times.

    The times of a recorded run are nanoseconds.
    """
    found = columns.pace(_PARTS)
    if found is None:
        return None
    length, parts = found
    intervals = tuple(
        Interval(
            round(place * length / _NS, 6),
            one.committed,
            one.aborted,
            one.unknown,
            *(_ms(took) for took in one.took or (None, None)),
        )
        for place, one in enumerate(parts)
    )
    return Pace(round(length / _NS, 9), intervals)


def _ms(took: int | None) -> float | None:
    return None if took is None else round(took / _NS_A_MS, 4)
