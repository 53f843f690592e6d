"""InnoDB, as MariaDB 10.11 and MySQL 8.0 have it: snapshots for plain reads, locks of index records and gaps for the rest.

A change, or a locking read, goes through an index entry by entry in the newest state: it locks each (from REPEATABLE READ on with
the gap before it), waits where somebody else holds it, and then tests the row as it is. So writes see what the transaction's own
plain reads do not. A deadlock is found when the last one begins to wait, and the lighter transaction is rolled back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from isolde.levels.stores import ChangedRow, ReadsFrom
from isolde.semantics.stores.indexes import HIGHEST, Entries, EntriesOver, indexes_of
from isolde.semantics.stores.innodb_requests import (
    Candidates,
    Enter,
    Guard,
    Held,
    InsertEntry,
    Kind,
    LockGap,
    LockRecord,
    LockTable,
    Next,
    Peek,
    Unlock,
)
from isolde.semantics.stores.innodb_statements import InnodbStatement
from isolde.semantics.stores.machine import Execution, Model, Sent, State, Transaction
from isolde.semantics.stores.requests import SKIPPED, Blocked, Draw, Failure, Look, Place, Put
from isolde.semantics.stores.rows import Changes, TransactionId, Version, View, overlaid
from isolde.semantics.tables.view import Row
from isolde.tx.dialects import Dialect
from isolde.tx.queries import Patience

_MISSING = object()


class InnoDB(Model):
    """MariaDB's or MySQL's InnoDB. ``index_locks`` is what a scan locks. ``planned``: all that it passes, by a guessed plan.

    ``needed``: the rows that match and, from REPEATABLE READ on, its condition, which no plan can do with less: others have to
    wait before they make a row match.
    """

    dialect = Dialect.MYSQL
    deadlock_ends = True

    def prepared(self) -> None:
        self.indexes = tuple(indexes_of(self.catalog, info) for info in self.catalog.tables)
        self.needed = self.settings["index_locks"] == "needed"

    def execution(self, sent: Sent, transaction: Transaction) -> Execution:
        return InnodbStatement(self, sent, transaction).run()

    # Requests

    def answer(self, state: State, transaction: Transaction, request: Any) -> Any:
        match request:
            case Look():
                return self._look(state, transaction, request)
            case Next():
                return self.entries(state, transaction, request.table, request.index).after(
                    request.after, itself=request.itself
                )
            case LockRecord():
                return self._lock_record(state, transaction, request)
            case LockTable():
                return _intended(state, transaction.id, request.table, exclusive=request.exclusive)
            case LockGap():
                low, high = self.entries(state, transaction, request.table, request.index).gap(request.entry)
                state.hold(("gap", request.table, request.index, low, high), transaction.id, "gap")
                # What is locked after the last record has the form of a record with its gap.
                kind = Kind.NEXT_KEY if high == HIGHEST else "gap"
                _structure(state, transaction.id, request.table, request.index, request.exclusive, kind)
                return None
            case Unlock():
                _unlock(state, transaction.id, ("rec", request.table, request.index, request.entry))
                return None
            case Peek():
                return self._peek(state, transaction, request)
            case Candidates():
                return self._candidates(state, request)
            case Guard():
                state.hold(("guard", request.table, request.predicate), transaction.id, "guard")
                return None
            case Enter():
                by = self.blocked_by(state, transaction, request)
                return Blocked(by) if by else None
            case InsertEntry():
                by = self.blocked_by(state, transaction, request)
                return Blocked(by) if by else self._entered(state, transaction, request)
            case Put():
                return self._put(state, transaction, request)
            case Draw():
                return self.draw(state, request.table, request.count, request.beyond)
        raise AssertionError(request)

    def blocked_by(self, state: State, transaction: Transaction, request: Any) -> frozenset[TransactionId]:
        match request:
            case LockRecord():
                return frozenset(self._record_blockers(state, transaction, request))
            case InsertEntry() if not self.needed and not request.found_free:
                return frozenset(self._gap_blockers(state, transaction, request))
            case Enter():
                return frozenset(self._guards(state, transaction, request))
        return frozenset()

    def _look(self, state: State, transaction: Transaction, request: Look) -> tuple[View, ...]:
        base = state.committed
        reads = transaction.level.reads
        if reads is ReadsFrom.UNCOMMITTED and not request.latest:
            others = [
                overlaid([*(one.own[table] for one in state.open.values() if one.id != transaction.id), own])
                for table, own in enumerate(transaction.own)
            ]
            return self.views(base, others)
        if reads is ReadsFrom.FIRST_READ and not request.latest:
            if transaction.snapshot is None:
                state.open[transaction.id.session] = replace(transaction, snapshot=base)
            else:
                base = transaction.snapshot
        return self.views(base, transaction.own)

    # Indexes

    def entries(self, state: State, transaction: Transaction, table: int, index: int) -> Entries | EntriesOver:
        """What an index holds, for a transaction: rows that its snapshot shows are not taken away from under it."""
        writers: list[Changes] = [one.own[table] for one in state.open.values() if one.own[table]]
        kept = transaction.snapshot if transaction.level.changed_row is ChangedRow.FAIL else None
        rows = state.committed[table]
        base = rows.entries(self.indexes[table][index])
        there = kept is not None and kept[table] is not rows
        if not writers and not there:
            return base
        versions: list[tuple[int, Version]] = []
        if kept is not None and there:
            numbers = kept[table].versions.keys() - rows.versions.keys()
            versions = [(number, kept[table].versions[number]) for number in sorted(numbers)]
            if numbers:
                # A row that came in the place of one that is gone is the later one.
                own = self.indexes[table][index].entry
                versions = [one for one in versions if not base.holds(own(one[1].row, one[0]))]
        for changes in writers:
            versions += [(number, version) for number, version in changes.items() if version is not None]
        return EntriesOver(base, Entries(self.indexes[table][index], versions)) if versions else base

    def _newest(self, state: State, transaction: Transaction, table: int, number: int) -> Version | None:
        own: Any = transaction.own[table].get(number, _MISSING)
        return state.committed[table].versions.get(number) if own is _MISSING else own

    # Records and gaps

    def _lock_record(self, state: State, transaction: Transaction, request: LockRecord) -> Any:
        place: Place = ("rec", request.table, request.index, request.entry)
        by = self._record_blockers(state, transaction, request)
        if by:
            if request.current and not any(request.number in _own(state, one, request.table) for one in by):
                # A row that nobody else has changed is looked at before it is waited for.
                self._refuse_newer(transaction, request, state.committed[request.table].versions.get(request.number))
            # Who waits for a record has locked its table.
            _intended(state, transaction.id, request.table, exclusive=request.exclusive)
            self._make_explicit(state, place, by)
            if request.patience is Patience.NOWAIT:
                raise Failure("lock-timeout", "Lock wait timeout exceeded")
            return SKIPPED if request.patience is Patience.SKIP_LOCKED else Blocked(frozenset(by))
        mine = state.locks.get(place, {}).get(transaction.id)
        if mine is None or (request.exclusive and not mine.exclusive) or mine.kind is Kind.IMPLICIT:
            exclusive = request.exclusive or (mine is not None and mine.exclusive)
            if mine is None or mine.kind is not Kind.IMPLICIT:
                state.hold(place, transaction.id, Held(exclusive, request.kind, mine))
        if request.kind is Kind.NEXT_KEY:
            low, high = self.entries(state, transaction, request.table, request.index).gap(request.entry)
            state.hold(("gap", request.table, request.index, low, high), transaction.id, "next-key")
        if mine is None or mine.kind is not Kind.IMPLICIT:
            covered = (
                mine is not None and (mine.exclusive or not request.exclusive) and request.kind is not Kind.NEXT_KEY
            )
            kind = None if covered or request.kind is Kind.IMPLICIT else request.kind
            _structure(state, transaction.id, request.table, request.index, request.exclusive, kind)
        version = self._newest(state, transaction, request.table, request.number)
        if request.current:
            self._refuse_newer(transaction, request, version)
        if version is not None:
            entry = self.indexes[request.table][request.index].entry(version.row, request.number)
            version = version if entry == request.entry else None
        if transaction.id.session in state.waiting:
            return version, False
        # An exclusive lock over a shared one is a lock of its own.
        return version, True if mine is None or (request.exclusive and not mine.exclusive) else None

    @staticmethod
    def _refuse_newer(transaction: Transaction, request: LockRecord, version: Version | None) -> None:
        """innodb_snapshot_isolation: error 1020 for a row that is not as the snapshot has it."""
        if transaction.level.changed_row is not ChangedRow.FAIL or transaction.snapshot is None:
            return
        if request.number in transaction.own[request.table]:
            return
        if transaction.snapshot[request.table].versions.get(request.number) != version:
            raise Failure("serialization-failure", "Record has changed since last read", ends=True)

    def _record_blockers(self, state: State, transaction: Transaction, request: LockRecord) -> set[TransactionId]:
        place = ("rec", request.table, request.index, request.entry)
        held = state.locks.get(place, {})
        mine = held.get(transaction.id)
        if mine is not None and (mine.exclusive or not request.exclusive):
            return set()
        by = {one for one, lock in held.items() if one != transaction.id and (lock.exclusive or request.exclusive)}
        for other in self.earlier_waiters(state, transaction.id.session):
            asked = other.running.request if other.running is not None else None
            if (
                isinstance(asked, LockRecord)
                and ("rec", asked.table, asked.index, asked.entry) == place
                and other.id != transaction.id
                and (asked.exclusive or request.exclusive)
            ):
                by.add(other.id)
        return by

    def grant(self, state: State, ready: list[str]) -> None:
        # Two who waited for a shared lock both have it, before the first of them can want more.
        for session in ready:
            transaction = state.open[session]
            asked = transaction.running.request if transaction.running is not None else None
            if isinstance(asked, LockRecord):
                place = ("rec", asked.table, asked.index, asked.entry)
                mine = state.locks.get(place, {}).get(transaction.id)
                if mine is None or (asked.exclusive and not mine.exclusive):
                    state.hold(place, transaction.id, Held(asked.exclusive, asked.kind, mine))
                    _structure(
                        state, transaction.id, asked.table, asked.index, asked.exclusive, asked.kind, waited=asked.entry
                    )

    def _make_explicit(self, state: State, place: Place, by: Iterable[TransactionId]) -> None:
        """Who waits for a record that somebody wrote makes a lock of it."""
        held = state.locks.get(place, {})
        for one in by:
            lock = held.get(one)
            if lock is not None and lock.kind is Kind.IMPLICIT:
                state.hold(place, one, Held(True, Kind.RECORD, lock.below))
                _structure(state, one, place[1], place[2], True, Kind.RECORD)

    def _gap_blockers(self, state: State, transaction: Transaction, request: InsertEntry) -> set[TransactionId]:
        by: set[TransactionId] = set()
        entries = self.entries(state, transaction, request.table, request.index)
        index = self.indexes[request.table][request.index]
        # The entry of a row that waits to get into an index that is not unique is its own: who looked meanwhile saw a gap.
        there = entries.holds(request.entry) and not (index.place and index.unique is None)
        for place, held in state.locks.items():
            if place[1:3] != (request.table, request.index):
                continue
            covers = (
                place[3] < request.entry < place[4]
                if place[0] == "gap"
                # The lock of a record that is gone is one of the gap where it was.
                else place[3] == request.entry and not there
            )
            if covers:
                by |= {one for one in held if one != transaction.id}
        for other in self.earlier_waiters(state, transaction.id.session):
            asked = other.running.request if other.running is not None else None
            if (
                isinstance(asked, LockRecord)
                and (asked.table, asked.index) == (request.table, request.index)
                and other.id != transaction.id
            ):
                low, high = entries.gap(asked.entry)
                gone = not there and asked.entry == request.entry and (asked.duplicate or not asked.exclusive)
                if gone or (asked.kind is Kind.NEXT_KEY and low < request.entry < high):
                    by.add(other.id)
        return by

    @staticmethod
    def _candidates(state: State, request: Candidates) -> tuple[tuple[int, tuple[Row, ...]], ...]:
        """Rows by number, with what they may be: as committed, and as an open transaction has them."""
        rows, open_changes = state.committed[request.table], [one.own[request.table] for one in state.open.values()]
        numbers = set(rows.versions if not request.columns else rows.having(request.columns, request.key))
        numbers.update(number for changes in open_changes for number in changes)
        found = []
        for number in sorted(numbers):
            versions = [rows.versions.get(number), *(changes.get(number) for changes in open_changes)]
            found.append((number, tuple(dict.fromkeys(version.row for version in versions if version is not None))))
        return tuple(found)

    @staticmethod
    def _guards(state: State, transaction: Transaction, request: Enter) -> set[TransactionId]:
        """Those who have asked for rows like one that is to come."""
        by: set[TransactionId] = set()
        for place, held in state.locks.items():
            if place[0] == "guard" and place[1] == request.table and place[2].matches(request.row):
                by |= {one for one in held if one != transaction.id}
        return by

    def _peek(self, state: State, transaction: Transaction, request: Peek) -> tuple[Version | None] | None:
        wanted = LockRecord(request.table, 0, request.entry, request.number, True, Kind.RECORD)
        if self._record_blockers(state, transaction, wanted):
            return (state.committed[request.table].versions.get(request.number),)
        return None

    def _put(self, state: State, transaction: Transaction, request: Put) -> int:
        table, number = request.table, request.number
        before = None
        if number is None:
            number = self._deleted(state, transaction, table, request.row)
            if not self.indexes[table][0].columns:
                number = self._last(state, table) + 1
        else:
            before = self._newest(state, transaction, table, number)
        number = self.write(state, transaction, table, number, request.row)
        # The clustered index now; the others when the statement comes to them.
        clustered = self.indexes[table][0]
        for row in (None if before is None else before.row, request.row):
            if row is not None:
                self._wrote(state, transaction, ("rec", table, clustered.place, clustered.entry(row, number)))
        return number

    def _deleted(self, state: State, transaction: Transaction, table: int, row: Row | None) -> int | None:
        """The record that the transaction has deleted under the same primary key: a new row takes its place, and its locks."""
        clustered = self.indexes[table][0]
        if row is None or not clustered.columns:
            return None
        for number, own in transaction.own[table].items():
            old = state.committed[table].versions.get(number) if own is None else None
            if old is not None and clustered.entry(old.row, number) == clustered.entry(row, number):
                return number
        return None

    @staticmethod
    def _last(state: State, table: int) -> int:
        """The highest number of a row: without a primary key, rows come in the order in which they were inserted."""
        open_ = (number for one in state.open.values() for number in one.own[table])
        return max((*state.committed[table].versions, *open_), default=0)

    def _entered(self, state: State, transaction: Transaction, request: InsertEntry) -> bool:
        """Whether the new entry is this transaction's: another may have come into the gap while this one waited for it."""
        free = True
        for entry in (request.entry, request.instead_of):
            if entry is None:
                continue
            _intended(state, transaction.id, request.table, exclusive=True)
            place: Place = ("rec", request.table, request.index, entry)
            if not self.indexes[request.table][request.index].columns:
                # Without a key, everybody's row has a place of its own at the end, which it gets with its number.
                continue
            if request.found_free or not set(state.locks.get(place, {})) - {transaction.id}:
                self._wrote(state, transaction, place)
            else:
                free = False
        return free

    @staticmethod
    def _wrote(state: State, transaction: Transaction, place: Place) -> None:
        """Who wrote a record has it, without a lock in the table of locks until somebody waits for it."""
        mine = state.locks.get(place, {}).get(transaction.id)
        if mine is None or not mine.exclusive:
            state.hold(place, transaction.id, Held(True, Kind.IMPLICIT, mine))

    # Ends

    def failed(self, state: State, transaction: Transaction) -> None:
        """The statement is taken back; the transaction stays, and keeps its locks, but for records that were never there."""
        back = replace(transaction, own=transaction.before, changed=transaction.changed_before)
        state.open[transaction.id.session] = back
        for place in [place for place, held in state.locks.items() if transaction.id in held and place[0] == "rec"]:
            if state.locks[place][transaction.id].kind is not Kind.IMPLICIT:
                continue
            written = [
                version
                for number, version in back.own[place[1]].items()
                for version in (version, state.committed[place[1]].versions.get(number))
                if version is not None and self.indexes[place[1]][place[2]].entry(version.row, number) == place[3]
            ]
            if not written:
                _unlock(state, transaction.id, place)

    def victims(self, state: State, circle: list[str]) -> list[str]:
        lightest = min(self._weight(state, state.open[session]) for session in circle)
        light = [session for session in circle if self._weight(state, state.open[session]) == lightest]
        # On a tie it is the one that closed the circle, and that is the one that began to wait last.
        return light[-1:] if circle[-1] in light else light[:1]

    @staticmethod
    def _weight(state: State, transaction: Transaction) -> int:
        """Rows changed and lock structures; a request that waits has one, too."""
        return transaction.changed + len(state.locks.get(_STRUCTURES, {}).get(transaction.id, ())) + 1


def _unlock(state: State, holder: TransactionId, place: Place) -> None:
    """Gives a lock back; a shared one that lies below it stays."""
    below = state.locks[place][holder].below
    left = {one: held for one, held in state.locks[place].items() if one != holder}
    if below is not None:
        left[holder] = below
    if left:
        state.locks[place] = left
    else:
        del state.locks[place]


def _own(state: State, one: TransactionId, table: int) -> Changes:
    """What a transaction that is still open has changed of a table."""
    return state.open[one.session].own[table]


_STRUCTURES: Place = ("structures",)
"""Where the lock structures of each transaction are noted, by which InnoDB weighs transactions; nobody waits for one.

A structure is for all records of an index (of one page) in one mode, and stays when a record is unlocked.
"""


def _noted(state: State, holder: TransactionId) -> frozenset[Any]:
    found: frozenset[Any] = state.locks.get(_STRUCTURES, {}).get(holder, frozenset())
    return found


def _intended(state: State, holder: TransactionId, table: int, *, exclusive: bool) -> None:
    """A table is locked before its records: in mode IX, which stands for IS as well, or IS."""
    noted = _noted(state, holder)
    if (table, True) not in noted and (table, exclusive) not in noted:
        state.hold(_STRUCTURES, holder, noted | {(table, exclusive)})


def _structure(
    state: State, holder: TransactionId, table: int, index: int, exclusive: bool, kind: str | None, waited: Any = None
) -> None:
    """Notes the lock of a record or gap, without a ``kind`` only that of the table. What was waited for joins no other."""
    _intended(state, holder, table, exclusive=exclusive)
    if kind is not None:
        noted, structure = _noted(state, holder), (table, index, exclusive, kind)
        state.hold(_STRUCTURES, holder, noted | {(*structure, waited) if structure in noted and waited else structure})
