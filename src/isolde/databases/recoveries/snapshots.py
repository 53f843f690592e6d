"""PostgreSQL's snapshots against the order of commits: which committed transactions a statement could see.

A snapshot is told as ``xmin:xmax:xip,xip``: everything below ``xmin`` had ended, nothing from ``xmax`` on had begun, and those
listed were under way. What it shows is nearly the first so many commits of the log: a transaction becomes visible a moment after
its commit record is written, so that two may change places. The difference is told transaction by transaction.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

from isolde.history.certificate import Sees


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Transaction ids of 64 bits."""

    xmin: int
    xmax: int
    under_way: frozenset[int]

    @classmethod
    def of(cls, text: str) -> Snapshot:
        """
        >>> Snapshot.of("10:20:10,14").shows(12), Snapshot.of("10:20:10,14").shows(14), Snapshot.of("10:10:").shows(9)
        (True, False, True)
        """
        xmin, xmax, others = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(int(xid) for xid in others.split(",") if xid))

    def shows(self, xid: int) -> bool:
        """Whether what the transaction committed is visible."""
        return xid < self.xmin or (xid < self.xmax and xid not in self.under_way)


class Commits:
    """Committed transactions in the order of their commit records, each with its id in the database and in the history."""

    def __init__(self, commits: Sequence[tuple[int, str]]) -> None:
        self.names = tuple(name for _, name in commits)
        self._xids = [xid for xid, _ in commits]
        self.place = {xid: place for place, xid in enumerate(self._xids)}
        self.place_of = {name: place for place, name in enumerate(self.names)}
        self._sorted = sorted(self._xids)
        # By rank of id: the first place among those from it on.
        self._first_from = [len(commits)] * (len(commits) + 1)
        for rank in range(len(commits) - 1, -1, -1):
            self._first_from[rank] = min(self._first_from[rank + 1], self.place[self._sorted[rank]])

    def sees(self, snapshot: Snapshot, own: int | None) -> Sees:
        """What the snapshot shows of others, as a number of commits and the few exceptions.

        A transaction's own id is not among those under way; that its versions are there goes without saying.
        """
        if own is not None and snapshot.shows(own):
            snapshot = replace(snapshot, xmin=min(snapshot.xmin, own), under_way=snapshot.under_way | {own})
        begun = bisect_left(self._sorted, snapshot.xmax)
        hidden = [self.place[xid] for xid in snapshot.under_way if xid in self.place]
        # As many as it shows; so of the first ones as many are missing as others are there.
        first = begun - len(hidden)
        missing = [place for place in hidden if place < first]
        missing += [place for place in range(self._first_from[begun], first) if self._xids[place] >= snapshot.xmax]
        also: list[int] = []
        place = first
        while len(also) < len(missing):
            if snapshot.shows(self._xids[place]):
                also.append(place)
            place += 1
        return Sees(first, self._named(sorted(missing)), self._named(also))

    def _named(self, places: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.names[place] for place in places)
