"""Serializable snapshot isolation as PostgreSQL does it: reads are remembered, and a dangerous structure is cut.

T1 → T2 → T3 are read-write conflicts (the first read what the second wrote, as it was before) of overlapping serializable
transactions. If T3 was the first of them to commit, somebody fails: T2, the pivot, as a rule, or whoever is just doing something
if T2 has committed already. A read-only T1 counts only if T3 committed before T1's snapshot. Ports and Grittner, "Serializable
Snapshot Isolation in PostgreSQL", VLDB 2012; the steps and their order are those of the server's predicate.c.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from isolde.semantics.stores.requests import Failure
from isolde.semantics.stores.rows import TransactionId
from isolde.semantics.tables.view import Row

Write = tuple[int, Row | None, Row | None]
"""A table, a row before and after."""
_NONE: frozenset[Any] = frozenset()


@dataclass(frozen=True, slots=True)
class Serializable:
    """A serializable transaction. ``outs``: who wrote what it had read; ``ins``: who had read what it wrote.

    ``seen``: how many commits there were at its snapshot; ``prepared`` and ``committed``: its own places among them.
    ``early_out``: it committed, and the place of the first commit among its ``outs`` that came before its own.
    """

    seen: int
    read_only: bool
    reads: frozenset[Any] = _NONE
    writes: frozenset[Write] = _NONE
    ins: frozenset[TransactionId] = _NONE
    outs: frozenset[TransactionId] = _NONE
    doomed: bool = False
    prepared: int | None = None
    committed: int | None = None
    early_out: int | None = None


@dataclass(frozen=True, slots=True)
class Conflicts:
    """All serializable transactions that still matter; a value."""

    known: tuple[tuple[TransactionId, Serializable], ...] = ()
    commits: int = 0


class Watch:
    """What may be done to the conflicts of one state; ``conflicts`` is the value after it."""

    def __init__(self, conflicts: Conflicts) -> None:
        self.known: dict[TransactionId, Serializable] = dict(conflicts.known)
        self.commits = conflicts.commits

    @property
    def conflicts(self) -> Conflicts:
        return Conflicts(tuple(sorted(self.known.items(), key=lambda entry: entry[0])), self.commits)

    def begin(self, me: TransactionId, *, read_only: bool) -> None:
        """At the snapshot."""
        self.known[me] = Serializable(self.commits, read_only)

    def reads(self, me: TransactionId, predicates: Iterable[Any], *, latest: bool = False) -> None:
        """``latest``: in the newest committed state, not in the snapshot: only those who are open were not seen."""
        predicates = list(predicates)
        if not predicates:
            return
        self._not_doomed(me, "during conflict out checking")
        mine = self.known[me]
        self.known[me] = replace(mine, reads=mine.reads | set(predicates))
        for other, theirs in list(self.known.items()):
            if other == me or other in self.known[me].outs or not _overlaps(mine, theirs):
                continue
            if latest and theirs.committed is not None:
                continue
            if any(_touches(predicate, write) for write in theirs.writes for predicate in predicates):
                if mine.read_only and theirs.committed is not None:
                    early = theirs.early_out
                    if early is None or mine.seen < early:
                        # The reader will appear to run first.
                        continue
                self._conflict(me, reader=me, writer=other)

    def writes(self, me: TransactionId, write: Write) -> None:
        self._not_doomed(me, "during conflict in checking")
        mine = self.known[me]
        self.known[me] = replace(mine, writes=mine.writes | {write})
        for other, theirs in list(self.known.items()):
            if other == me or other in self.known[me].ins or theirs.doomed or not _overlaps(mine, theirs):
                continue
            if any(_touches(predicate, write) for predicate in theirs.reads):
                self._conflict(me, reader=other, writer=me)

    def _not_doomed(self, me: TransactionId, when: str) -> None:
        if self.known[me].doomed:
            _refuse(f"canceled on identification as a pivot, {when}")

    def not_doomed(self, me: TransactionId) -> None:
        """What the server asks before it reports a taken key, so that a retry is worth while."""
        self._not_doomed(me, "during conflict in checking")

    def _conflict(self, me: TransactionId, *, reader: TransactionId, writer: TransactionId) -> None:
        self._check(me, reader, writer)
        self.known[reader] = replace(self.known[reader], outs=self.known[reader].outs | {writer})
        self.known[writer] = replace(self.known[writer], ins=self.known[writer].ins | {reader})

    def _check(self, me: TransactionId, reader: TransactionId, writer: TransactionId) -> None:
        """Whether the new conflict closes a dangerous structure; then the writer, or who is just doing something, fails."""
        first, second = self.known[reader], self.known[writer]
        failure = second.committed is not None and second.early_out is not None
        for third in [] if failure else [self.known[one] for one in second.outs if one in self.known]:
            if (
                third.prepared is not None
                and (first.committed is None or third.prepared <= first.committed)
                and (second.committed is None or third.prepared <= second.committed)
                and (not first.read_only or third.prepared <= first.seen)
            ):
                failure = True
        if not failure and second.prepared is not None and not first.read_only:
            for zeroth in [self.known[one] for one in first.ins if one in self.known]:
                if (
                    not zeroth.doomed
                    and (zeroth.committed is None or zeroth.committed >= second.prepared)
                    and (not zeroth.read_only or zeroth.seen >= second.prepared)
                ):
                    failure = True
        if not failure:
            return
        if me == writer:
            _refuse("canceled on identification as a pivot, during write")
        if second.prepared is not None:
            _refuse("canceled on conflict out to a pivot, during read")
        self.known[writer] = replace(second, doomed=True)

    def commit(self, me: TransactionId) -> None:
        """Before a commit: fails a transaction that is to die, and dooms pivots that would become dangerous."""
        self._not_doomed(me, "during commit attempt")
        for near in self.known[me].ins:
            pivot = self.known.get(near)
            if pivot is None or pivot.committed is not None or pivot.doomed:
                continue
            for far in pivot.ins:
                reader = self.known.get(far)
                if far == me or (
                    reader is not None and reader.committed is None and not reader.read_only and not reader.doomed
                ):
                    self.known[near] = replace(pivot, doomed=True)
                    break
        mine = self.known[me]
        prepared = self.commits + 1
        self.commits = prepared + 1
        early = [place for one in mine.outs if one in self.known and (place := self.known[one].prepared) is not None]
        read_only = mine.read_only or not mine.writes
        self.known[me] = replace(
            mine,
            prepared=prepared,
            committed=self.commits,
            early_out=min(early) if early and not read_only else None,
            read_only=read_only,
        )
        self._forget()

    def gone(self, me: TransactionId) -> None:
        """After a rollback: it never was."""
        if me in self.known:
            del self.known[me]
            for other, theirs in self.known.items():
                if me in theirs.ins or me in theirs.outs:
                    self.known[other] = replace(theirs, ins=theirs.ins - {me}, outs=theirs.outs - {me})
            self._forget()

    def _forget(self) -> None:
        """Lets go of those that no transaction overlaps any more that is still open."""
        oldest = min((one.seen for one in self.known.values() if one.committed is None), default=self.commits)
        for one in [
            one for one, entry in self.known.items() if entry.committed is not None and entry.committed <= oldest
        ]:
            del self.known[one]


def _overlaps(mine: Serializable, theirs: Serializable) -> bool:
    """Whether my snapshot does not show what the other has done. Only who is open asks."""
    return theirs.committed is None or theirs.committed > mine.seen


def _touches(predicate: Any, write: Write) -> bool:
    table, before, after = write
    return bool(predicate.table == table and (predicate.matches(before) or predicate.matches(after)))


def _refuse(reason: str) -> NoReturn:
    raise Failure("serialization-failure", f"could not serialize access: {reason}")
