"""PostgreSQL: snapshots, row locks in four modes, rows that are tested again, keys that wait, serializable conflicts.

A plain read never waits. A change finds its rows in the snapshot and then comes to them one by one: it waits for whoever holds a
row, and what it finds there afterwards is tested again (READ COMMITTED) or ends the statement (from REPEATABLE READ on). A
transaction whose statement failed has let go of everything it held, and only its end is accepted.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from enum import IntEnum
from typing import Any

from isolde.errors import ExecutionError
from isolde.levels.stores import ChangedRow, ReadLocks, ReadsFrom
from isolde.semantics.core.catalog import Reference, TableInfo
from isolde.semantics.core.evaluate import Environment
from isolde.semantics.core.relations import Delete, Insert, Query, Update
from isolde.semantics.core.relations import Statement as CoreStatement
from isolde.semantics.stores.evaluation import Evaluation, KeyPredicate, WholeTable, drawn, locked_tables, returned_by
from isolde.semantics.stores.machine import Execution, Model, Sent, State, Transaction, is_ordered, names_of
from isolde.semantics.stores.requests import (
    SKIPPED,
    Blocked,
    Draw,
    Examine,
    Failure,
    FreeKey,
    LockRow,
    Look,
    Put,
    Returned,
    Skipped,
    Visible,
)
from isolde.semantics.stores.rows import TransactionId, Version, View
from isolde.semantics.stores.ssi import Conflicts, Watch
from isolde.semantics.tables.constraints import Hit, refuse_open_keys
from isolde.semantics.tables.view import Row
from isolde.tx.dialects import Dialect
from isolde.tx.queries import Lock, Patience


class Mode(IntEnum):
    """Row locks from weak to strong (manual, 13.3.2)."""

    KEY_SHARE = 0
    SHARE = 1
    NO_KEY_UPDATE = 2
    UPDATE = 3


# Manual, table 13.3 "Conflicting Row-Level Locks": those whose places add up to three or more.
def conflict(one: Mode, other: Mode) -> bool:
    """Whether two transactions cannot hold these locks of one row.

    >>> [other.name for other in Mode if conflict(Mode.SHARE, other)]
    ['NO_KEY_UPDATE', 'UPDATE']
    """
    return one + other >= 3


_MODES = {
    Lock.UPDATE: Mode.UPDATE,
    Lock.NO_KEY_UPDATE: Mode.NO_KEY_UPDATE,
    Lock.SHARE: Mode.SHARE,
    Lock.KEY_SHARE: Mode.KEY_SHARE,
}
Part = Generator[Any, Any, None]
_MISSING = object()


class PostgreSQL(Model):
    """PostgreSQL 15. ``predicate_locks``: what a read at SERIALIZABLE remembers. ``exact``: its conditions. ``table``: the table,
    as the server does it for a sequential scan; more transactions fail.
    """

    dialect = Dialect.POSTGRESQL
    sets_level_of_open = True
    deadlock_ends = False

    @property
    def whole(self) -> bool:
        """Whether a read remembers the whole table."""
        return self.settings["predicate_locks"] == "table"

    def initial(self) -> State:
        state = super().initial()
        state.extra = Conflicts()
        return state

    # Statements

    def execution(self, sent: Sent, transaction: Transaction) -> Execution:
        return _Statement(self, sent, transaction).run()

    # Requests

    def answer(self, state: State, transaction: Transaction, request: Any) -> Any:
        match request:
            case Look():
                return self._look(state, transaction, request)
            case Examine():
                if request.predicates:
                    watch = Watch(state.extra)
                    watch.reads(transaction.id, request.predicates, latest=request.latest)
                    state.extra = watch.conflicts
                return None
            case LockRow():
                return self._lock_row(state, transaction, request)
            case FreeKey():
                by = self.blocked_by(state, transaction, request)
                return Blocked(by) if by else self._key_holder(state, transaction, request)
            case Visible():
                return self._visible(state, transaction, request)
            case Put():
                return self._put(state, transaction, request)
            case Draw():
                return self.draw(state, request.table, request.count, request.beyond)
        raise AssertionError(request)

    def blocked_by(self, state: State, transaction: Transaction, request: Any) -> frozenset[TransactionId]:
        match request:
            case LockRow():
                if self._changed(state, transaction, request):
                    # It fails, and waits for nobody before.
                    return frozenset()
                return frozenset(self._row_blockers(state, transaction, request))
            case FreeKey():
                return frozenset(self._key_blockers(state, transaction, request))
        return frozenset()

    def _look(self, state: State, transaction: Transaction, request: Look) -> tuple[View, ...]:
        base = state.committed
        if transaction.level.reads is ReadsFrom.TRANSACTION:
            if transaction.snapshot is None:
                state.open[transaction.id.session] = replace(transaction, snapshot=base)
                if transaction.level.read_locks is ReadLocks.PREDICATES:
                    watch = Watch(state.extra)
                    watch.begin(transaction.id, read_only=transaction.read_only)
                    state.extra = watch.conflicts
            elif not request.latest:
                base = transaction.snapshot
        return self.views(base, transaction.own)

    # Row locks

    def _lock_row(self, state: State, transaction: Transaction, request: LockRow) -> Version | Blocked | Skipped | None:
        if self._changed(state, transaction, request):
            raise Failure("serialization-failure", "could not serialize access due to concurrent update")
        by = self._row_blockers(state, transaction, request)
        if by:
            if request.patience is Patience.NOWAIT:
                raise Failure("lock-timeout", "could not obtain lock on row")
            return SKIPPED if request.patience is Patience.SKIP_LOCKED else Blocked(frozenset(by))
        place = ("row", request.table, request.number)
        held = state.locks.get(place, {}).get(transaction.id)
        if held is None or held < request.mode:
            state.hold(place, transaction.id, request.mode)
        newest = self._newest(state, transaction, request)
        if newest is None or newest == request.seen:
            return newest
        info = state.committed[request.table].info
        # A lock that leaves everything but keys to others is content with the version that it found.
        return (
            request.seen
            if request.mode is Mode.KEY_SHARE and _same_keys(info, newest.row, request.seen.row)
            else newest
        )

    @staticmethod
    def _newest(state: State, transaction: Transaction, request: LockRow) -> Version | None:
        own: Any = transaction.own[request.table].get(request.number, _MISSING)
        return state.committed[request.table].versions.get(request.number) if own is _MISSING else own

    def _changed(self, state: State, transaction: Transaction, request: LockRow) -> bool:
        """Whether the first updater has won already: rows that were only locked do not count."""
        if transaction.level.changed_row is not ChangedRow.FAIL:
            return False
        newest = self._newest(state, transaction, request)
        if newest is not None and newest.by == request.seen.by:
            return False
        info = state.committed[request.table].info
        passes = (
            request.mode is Mode.KEY_SHARE and newest is not None and _same_keys(info, newest.row, request.seen.row)
        )
        return not passes

    def _row_blockers(self, state: State, transaction: Transaction, request: LockRow) -> set[TransactionId]:
        place = ("row", request.table, request.number)
        held = state.locks.get(place, {})
        mine = held.get(transaction.id)
        if mine is not None and mine >= request.mode:
            return set()
        by = {one for one, mode in held.items() if one != transaction.id and conflict(mode, request.mode)}
        session = transaction.id.session
        if by or session in state.waiting:
            # Who comes anew overtakes those who wait; who waits keeps behind those who came before.
            for other in self.earlier_waiters(state, session):
                asked = other.running.request if other.running is not None else None
                if (
                    isinstance(asked, LockRow)
                    and (asked.table, asked.number) == (request.table, request.number)
                    and conflict(asked.mode, request.mode)
                ):
                    by.add(other.id)
        return by

    # Unique keys

    def _key_blockers(self, state: State, transaction: Transaction, request: FreeKey) -> set[TransactionId]:
        """Those who have added, changed or deleted a row with this key, and are not done yet: also if it is gone again."""
        rows = state.committed[request.table]
        key_of = rows.info.unique_keys[request.unique]
        left = state.locks.get(("left", request.table, request.unique, request.key), {})
        by = {one for one in left if one != transaction.id}
        for other in state.open.values():
            if other.id == transaction.id:
                continue
            asked = other.running.request if other.running is not None else None
            for number, version in other.own[request.table].items():
                before = rows.versions.get(number)
                if isinstance(asked, FreeKey) and (asked.table, asked.number) == (request.table, number):
                    # A row comes into an index when its key was found free there: one that waits for that is not in it.
                    version = None if request.unique >= asked.unique else version
                if any(one is not None and key_of(one.row) == request.key for one in (version, before)):
                    by.add(other.id)
        return by

    def _key_holder(self, state: State, transaction: Transaction, request: FreeKey) -> tuple[int, Version] | None:
        view = self.views(state.committed, transaction.own)[request.table]
        for number, _ in view.by_key(request.unique, request.key):
            if number != request.number:
                if transaction.id in dict(state.extra.known):
                    Watch(state.extra).not_doomed(transaction.id)
                version = view.version(number)
                assert version is not None
                return number, version
        return None

    @staticmethod
    def _visible(state: State, transaction: Transaction, request: Visible) -> None:
        if transaction.level.changed_row is not ChangedRow.FAIL or request.version.by == transaction.id:
            return
        snapshot = transaction.snapshot or state.committed
        if snapshot[request.table].versions.get(request.number) != request.version:
            raise Failure("serialization-failure", "could not serialize access due to concurrent update")

    def _put(self, state: State, transaction: Transaction, request: Put) -> int:
        before = None
        if request.number is not None:
            newest = self.views(state.committed, transaction.own)[request.table].version(request.number)
            before = None if newest is None else newest.row
            if newest is not None and newest.by == transaction.id:
                self._leave_keys(state, transaction, request, newest.row)
        if transaction.level.read_locks is ReadLocks.PREDICATES:
            watch = Watch(state.extra)
            watch.writes(transaction.id, (request.table, before, request.row))
            state.extra = watch.conflicts
        return self.write(state, transaction, request.table, request.number, request.row)

    def _leave_keys(self, state: State, transaction: Transaction, request: Put, old: Row) -> None:
        """A key that the transaction gave a row and takes away again: who finds its entry still waits for the transaction."""
        for place, key_of in enumerate(state.committed[request.table].info.unique_keys):
            key = key_of(old)
            if key is not None and (request.row is None or key_of(request.row) != key):
                state.hold(("left", request.table, place, key), transaction.id, True)

    # Ends

    def failed(self, state: State, transaction: Transaction) -> None:
        self.ended(state, transaction, committed=False)
        state.release(transaction.id)
        nothing: tuple[Any, ...] = ({},) * len(state.committed)
        state.open[transaction.id.session] = replace(
            transaction, failed=True, own=nothing, before=nothing, snapshot=None
        )

    def writes(self, core: CoreStatement) -> bool:
        return not isinstance(core, Query) or core.lock is not None

    def victims(self, state: State, circle: list[str]) -> list[str]:  # noqa: ARG002
        # Each waiter looks for a circle once, a second after it began to wait: which of them sees it first is a race.
        return circle

    def committing(self, state: State, transaction: Transaction) -> None:
        if transaction.level.read_locks is ReadLocks.PREDICATES and transaction.snapshot is not None:
            watch = Watch(state.extra)
            watch.commit(transaction.id)
            state.extra = watch.conflicts

    def ended(self, state: State, transaction: Transaction, *, committed: bool) -> None:
        if not committed and transaction.level.read_locks is ReadLocks.PREDICATES:
            watch = Watch(state.extra)
            watch.gone(transaction.id)
            state.extra = watch.conflicts

    def noted(self, run: Evaluation) -> tuple[Any, ...]:
        """The predicates of what a statement has read."""
        return tuple({WholeTable(one.table): None for one in run.reads} if self.whole else run.reads)


def _update_mode(info: TableInfo, old: Row, new: Row) -> Mode:
    return Mode.NO_KEY_UPDATE if _same_keys(info, old, new) else Mode.UPDATE


def _same_keys(info: TableInfo, one: Row, other: Row) -> bool:
    return all(key(one) == key(other) for key in info.unique_keys)


class _Statement:
    """One statement: a generator of requests."""

    def __init__(self, model: PostgreSQL, sent: Sent, transaction: Transaction) -> None:
        self.model, self.sent = model, sent
        self.catalog = model.catalog
        self.notes_reads = transaction.level.read_locks is ReadLocks.PREDICATES
        self.env = Environment(variables=dict(enumerate(sent.values)))
        self._examined = 0

    def _examine(self, run: Evaluation) -> Part:
        """Conflicts of what was read since the last time: also queries among new values read, row by row."""
        if len(run.reads) > self._examined:
            self._examined = len(run.reads)
            yield Examine(self.model.noted(run))

    def run(self) -> Execution:
        core = self.sent.core
        views = yield Look()
        run = self.evaluation(views)
        match core:
            case Query():
                if core.lock is None:
                    returned = returned_by(run, core, self.env, tells_cuts=self.model.tells_cuts)
                    yield from self._examine(run)
                    return returned
                return (yield from self._locking(core, run))
            case Update():
                return (yield from self._update(core, run))
            case Delete():
                return (yield from self._delete(core, run))
            case Insert():
                return (yield from self._insert(core, run))
        raise AssertionError(core)

    def evaluation(self, views: tuple[View, ...]) -> Evaluation:
        return Evaluation(self.catalog, views, notes_reads=self.notes_reads, counts_found=self.model.counts_found)

    # SELECT … FOR …

    def _locking(self, query: Query, run: Evaluation) -> Execution:
        assert query.lock is not None
        mode = _MODES[query.lock]
        tables = locked_tables(query)
        found, offset, limit = run.matches(query, self.env)
        yield from self._examine(run)
        rows: list[Row] = []
        passed = 0
        for match in found:
            if limit is not None and passed == offset + limit:
                break
            now: dict[int, Row] = dict(match.rows)
            there, changed = True, False
            for scan in tables:
                seen = run.views[scan.table.position].version(match.numbers[scan.id])
                assert seen is not None
                got = yield LockRow(scan.table.position, match.numbers[scan.id], mode, seen, query.patience)
                if got is SKIPPED or got is None:
                    there = False
                    break
                changed = changed or got != seen
                now[scan.id] = got.row
            # The rows that changed are tested again, with the others as they were; nothing is searched or sorted anew.
            if there and (not changed or run.still_matches(query, now, self.env)):
                passed += 1
                if passed > offset:
                    rows.append(run.output(query, now, self.env))
        return Returned(names_of(query), tuple(rows), len(rows), is_ordered(query))

    # UPDATE and DELETE

    def _update(self, change: Update, run: Evaluation) -> Execution:
        info, table = change.scan.table, change.scan.table.position
        checks = run.update_checks(change)
        found = run.hits(change, self.env)
        yield from self._examine(run)
        places = {assigned.place for assigned in change.sets}
        rekeys = any(places & set(unique) for unique in info.uniques)
        if rekeys and len(found) > 1:
            hits: list[Hit] = [(number, old.row, run.new_row(change, old.row, self.env)) for number, old in found]
            refuse_open_keys(run.views[table], hits)
        done: list[tuple[Row, Row]] = []
        for number, seen in found:
            new = run.new_row(change, seen.row, self.env)
            yield from self._examine(run)
            old = yield LockRow(table, number, _update_mode(info, seen.row, new), seen)
            if old is not None and old != seen:
                # It is locked as the columns that are set demand, before it is known what they become.
                old = yield LockRow(table, number, Mode.UPDATE if rekeys else Mode.NO_KEY_UPDATE, old)
                if old is not None:
                    if not run.still_hit(change, old.row, self.env):
                        continue
                    new = run.new_row(change, old.row, self.env)
                    yield from self._examine(run)
            if old is None:
                continue
            if checks.row is not None:
                checks.row(new)
            yield Put(table, number, new)
            yield from self._keys(info, number, old.row, new)
            done.append((old.row, new))
        for reference in checks.outgoing:
            for before, after in done:
                key = reference.child_key(after)
                if key is not None and key != reference.child_key(before):
                    yield from self._parent(reference, key)
        for reference in checks.incoming:
            yield from self._children(reference, [(before, after) for before, after in done])
        returned = run.returned(change, [after for _, after in done], self.env)
        yield from self._examine(run)
        return Returned(names_of(change), returned, len(done))

    def _delete(self, change: Delete, run: Evaluation) -> Execution:
        table = change.scan.table.position
        found = run.hits(change, self.env)
        yield from self._examine(run)
        done: list[Row] = []
        for number, seen in found:
            old = yield LockRow(table, number, Mode.UPDATE, seen)
            if old is None or (old != seen and not run.still_hit(change, old.row, self.env)):
                continue
            yield Put(table, number, None)
            done.append(old.row)
        for reference in self.catalog.references:
            if reference.parent == table:
                yield from self._children(reference, [(row, None) for row in done])
        returned = run.returned(change, done, self.env)
        yield from self._examine(run)
        return Returned(names_of(change), returned, len(done))

    def _keys(self, info: TableInfo, number: int, old: Row | None, new: Row) -> Part:
        """No other row holds the unique keys of the new row."""
        for place, key_of in enumerate(info.unique_keys):
            key = key_of(new)
            if key is None or (old is not None and key_of(old) == key):
                continue
            holder = yield FreeKey(info.position, place, key, number)
            if holder is not None:
                names = ", ".join(info.table.columns[column].name for column in info.uniques[place])
                raise ExecutionError("unique", f"{info.table.name} has already a row with ({names}) = {key!r}")

    # Foreign keys, at the end of the statement

    def _parent(self, reference: Reference, key: Any) -> Part:
        """The parent is there, and stays: it is locked FOR KEY SHARE."""
        views = yield Look()
        parent = views[reference.parent]
        missing = ExecutionError(
            "foreign-key",
            f"{self.catalog.tables[reference.child].table.name} refers to {key!r}, which is not in"
            f" {parent.info.table.name}",
        )
        yield Examine(self._noted_key(reference.parent, reference.parent_columns, key))
        for number, _ in parent.by_equal(reference.parent_columns, key):
            seen = parent.version(number)
            assert seen is not None
            got = yield LockRow(reference.parent, number, Mode.KEY_SHARE, seen)
            if got is not None and reference.parent_key(got.row) == key:
                return
        raise missing

    def _children(self, reference: Reference, changes: list[tuple[Row, Row | None]]) -> Part:
        """Nobody refers to a key that is gone; the newest rows count, whatever the snapshot shows."""
        for before, after in changes:
            key = reference.parent_key(before)
            if key is None or (after is not None and reference.parent_key(after) == key):
                continue
            views = yield Look(latest=True)
            if views[reference.parent].by_equal(reference.parent_columns, key):
                continue
            child = views[reference.child]
            yield Examine(self._noted_key(reference.child, reference.child_columns, key), latest=True)
            for number, _ in child.by_equal(reference.child_columns, key):
                seen = child.version(number)
                assert seen is not None
                got = yield LockRow(reference.child, number, Mode.KEY_SHARE, seen)
                if got is not None and reference.child_key(got.row) == key:
                    parent = self.catalog.tables[reference.parent].table.name
                    raise ExecutionError("foreign-key", f"{child.info.table.name} still refers to {key!r} of {parent}")

    def _noted_key(self, table: int, columns: tuple[int, ...], key: Any) -> tuple[Any, ...]:
        if not self.notes_reads:
            return ()
        return (WholeTable(table) if self.model.whole else KeyPredicate(self.catalog, table, columns, key),)

    # INSERT

    def _insert(self, change: Insert, run: Evaluation) -> Execution:
        info, table = change.table, change.table.position
        checks = run.insert_checks(change)
        rows = run.to_insert(change, self.env)
        yield from self._examine(run)
        done: list[Row] = []
        ours: set[int] = set()
        for cells, source in rows:
            count = drawn(cells)
            if count:
                run.views[table].ids.next = yield Draw(table, count)
            new = run.inserted_row(change, cells, source, self.env)
            yield from self._examine(run)
            if checks.row is not None:
                checks.row(new)
            if change.conflict is not None:
                settled = yield from self._conflict(change, run, new, ours)
                if settled is not None:
                    done.extend(row for row in settled)
                    continue
            number = yield Put(table, None, new)
            ours.add(number)
            yield from self._keys(info, number, None, new)
            done.append(new)
        for reference in checks.outgoing:
            for row in done:
                key = reference.child_key(row)
                if key is not None:
                    yield from self._parent(reference, key)
        returned = run.returned(change, done, self.env)
        yield from self._examine(run)
        return Returned(names_of(change), returned, len(done))

    def _conflict(
        self, change: Insert, run: Evaluation, new: Row, ours: set[int]
    ) -> Generator[Any, Any, tuple[Row, ...] | None]:
        """ON CONFLICT: the rows that it changed, or ``None`` where nothing is in the way."""
        conflict, info = change.conflict, change.table
        assert conflict is not None
        table = info.position
        while True:
            holder = None
            for place in conflict.target:
                key = info.unique_keys[place](new)
                if key is not None:
                    holder = yield FreeKey(table, place, key, None)
                    if holder is not None:
                        break
            if holder is None:
                return None
            number, there = holder
            if not conflict.sets:
                yield Visible(table, number, there)
                return ()
            if number in ours:
                raise ExecutionError("cardinality", "ON CONFLICT DO UPDATE cannot affect a row a second time")
            places = {assigned.place for assigned in conflict.sets}
            rekeys = any(places & set(unique) for unique in info.uniques)
            old = yield LockRow(table, number, Mode.UPDATE if rekeys else Mode.NO_KEY_UPDATE, there)
            if old is None or old != there:
                continue
            yield Visible(table, number, there)
            changed = run.resolved(conflict, old.row, new, self.env)
            yield from self._examine(run)
            if changed is None:
                return ()
            checks = run.insert_checks(change)
            if checks.row is not None:
                checks.row(changed)
            yield Put(table, number, changed)
            ours.add(number)
            yield from self._keys(info, number, old.row, changed)
            for reference in checks.incoming:
                yield from self._children(reference, [(old.row, changed)])
            return (changed,)
