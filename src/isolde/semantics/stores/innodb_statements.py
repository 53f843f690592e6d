"""Statements of InnoDB: how they go through indexes, what they lock on the way, and in which order they write.

A row is written into the clustered index first, then into the others one by one; keys and foreign keys are checked when their
index is come to, so that what waits for a parent has its row in the table already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from isolde.errors import ExecutionError
from isolde.levels.stores import ReadsFrom
from isolde.semantics.core.catalog import TableInfo
from isolde.semantics.core.evaluate import Environment
from isolde.semantics.core.nodes import Column, Exists, Expression, below, query_of
from isolde.semantics.core.plan import Visit, depends_on, plan
from isolde.semantics.core.relations import Delete, Insert, Query, Scan, Update
from isolde.semantics.core.types import BOOLEAN, outside
from isolde.semantics.stores.evaluation import Evaluation, Predicate, returned_by
from isolde.semantics.stores.indexes import HIGHEST, Entry, Index
from isolde.semantics.stores.innodb_plans import (
    Going,
    Span,
    bare,
    by_whole_key,
    covering,
    planned,
    spans,
    visit_key,
    way_in,
)
from isolde.semantics.stores.innodb_requests import (
    Candidates,
    Guard,
    Kind,
    LockGap,
    LockRecord,
    LockTable,
    Next,
    Peek,
    Unlock,
)
from isolde.semantics.stores.innodb_writes import Part, Writing, marked
from isolde.semantics.stores.machine import Execution, Sent, Transaction, names_of
from isolde.semantics.stores.requests import SKIPPED, Draw, Look, Put, Returned
from isolde.semantics.stores.rows import Version, View
from isolde.semantics.tables.constraints import Hit, refuse_open_keys
from isolde.semantics.tables.view import Row
from isolde.tx.queries import Lock, Patience
from isolde.tx.statements import InsertMode

if TYPE_CHECKING:
    from isolde.semantics.stores.innodb import InnoDB


class InnodbStatement(Writing):
    """One statement: a generator of requests."""

    def __init__(self, model: InnoDB, sent: Sent, transaction: Transaction) -> None:
        super().__init__(model, transaction)
        self.sent, self.level = sent, transaction.level
        self.autocommit = transaction.autocommit
        self.env = Environment(variables=dict(enumerate(sent.values)))

    def run(self) -> Execution:
        core = self.sent.core
        match core:
            case Query():
                return (yield from self._query(core))
            case Update():
                return (yield from self._update(core))
            case Delete():
                return (yield from self._delete(core))
            case Insert():
                return (yield from self._insert(core))
        raise AssertionError(core)

    def evaluation(self, views: tuple[View, ...], *, notes_reads: bool = False) -> Evaluation:
        return Evaluation(self.catalog, views, notes_reads=notes_reads, counts_found=self.model.counts_found)

    # Queries

    def _query(self, query: Query) -> Execution:
        lock, patience = query.lock, query.patience
        if lock is None and self.level.reads is ReadsFrom.LOCKED and not self.autocommit:
            lock = Lock.SHARE
        if lock is None:
            run = self.evaluation((yield Look()))
            return returned_by(run, query, self.env, tells_cuts=self.model.tells_cuts)
        return (yield from self._locking(query, lock is Lock.UPDATE, patience))

    def _locking(self, query: Query, exclusive: bool, patience: Patience) -> Execution:
        """What the query goes through is locked, and read again if anything changed meanwhile, until nothing does."""
        query = planned(query)
        skipped: dict[tuple[int, int], None] = {}
        locked: dict[Any, None] = {}
        while True:
            views = yield Look(latest=True)
            run = self.evaluation(_without(self.model, views, skipped), notes_reads=True)
            returned = returned_by(run, query, self.env, tells_cuts=self.model.tells_cuts)
            if not self.gaps and isinstance(query.source, Scan) and len(run.visits) == 1:
                return (yield from self._as_scanned(query, run, exclusive, patience))
            missing = [visit for visit in run.visits if visit_key(visit) not in locked]
            if not missing:
                return returned
            for visit in missing:
                locked[visit_key(visit)] = None
                table = visit[0].table.position
                gone = yield from self._scan(visit, run, exclusive, patience, stop=self._cut(query, run))
                skipped.update({(table, number): None for number in gone})

    def _as_scanned(self, query: Query, run: Evaluation, exclusive: bool, patience: Patience) -> Execution:
        """Below REPEATABLE READ rows that do not match stay free: each is as it was when the scan came to it."""
        (visit,), taken = run.visits, dict[int, Version | None]()

        def take(number: int, version: Version) -> Part:
            taken[number] = version
            yield from ()

        yield from self._scan(visit, run, exclusive, patience, take, stop=self._cut(query, run))
        views = yield Look(latest=True)
        over = [dict(view.over) for view in views]
        table = visit[0].table.position
        over[table] = dict.fromkeys((*views[table].base.versions, *over[table])) | taken
        scanned = self.evaluation(self.model.views(tuple(view.base for view in views), over))
        return returned_by(scanned, query, self.env, tells_cuts=self.model.tells_cuts)

    def _lock_reads(self, nodes: Iterable[Expression], compute: Callable[[Evaluation], None], own: Scan | None) -> Part:
        """The view that queries inside of a change read: of rows that are locked, where the level locks what it reads.

        ``compute`` computes the expressions, so that it is learned what they read; ``own`` is the scan of the changed table.
        """
        nested = any(query_of(part) is not None for node in nodes for part in below(node))
        core = self.sent.core
        # Below REPEATABLE READ, only UPDATE and INSERT … SELECT read without locks.
        locks = self.gaps or isinstance(core, Delete) or (isinstance(core, Insert) and core.query is None)
        if not nested or not locks:
            return (yield Look(latest=self.gaps))
        locked: dict[Any, None] = {}
        while True:
            views = yield Look(latest=True)
            run = self.evaluation(views, notes_reads=True)
            with suppress(ExecutionError):
                compute(run)
            visits = [visit for visit in run.visits if visit[0] is not own and visit_key(visit) not in locked]
            if not visits:
                return views
            for visit in visits:
                locked[visit_key(visit)] = None
                yield from self._scan(visit, run, False, Patience.WAIT)

    def _cut(self, query: Query, run: Evaluation) -> int | None:
        """After how many rows LIMIT ends the scan: where rows come in the order of the primary key, as they are asked for."""
        if not isinstance(query.source, Scan) or query.limit is None or query.grouping or query.distinct:
            return None
        (visit,) = plan(query.source, query.where).steps
        given = visit.access.columns if isinstance(visit, Visit) and visit.access is not None else ()
        primary = self.model.indexes[query.source.table.position][0].columns
        # Columns of one value do not count in an order.
        primary = tuple(column for column in primary if column not in given)
        keys = [
            key.place if isinstance(key := bare(order.key), Column) and not order.descending else -1
            for order in query.order
        ]
        if tuple(keys) != primary[: len(keys)]:
            return None
        limit = run.value(query.limit, self.env)
        offset = 0 if query.offset is None else run.value(query.offset, self.env) or 0
        return None if limit is None else int(limit) + int(offset)

    # Scans that lock

    def _scan(
        self,
        visit: tuple[Scan, Visit, Environment],
        run: Evaluation,
        exclusive: bool,
        patience: Patience,
        apply: Callable[[int, Version], Part] | None = None,
        *,
        semi: bool = False,
        stop: int | None = None,
    ) -> Part:
        """Goes through an index, locks, and does something with the rows that match; the numbers of those that were skipped."""
        if self.model.needed:
            return (yield from self._needed(visit, run, exclusive, patience, apply, stop))
        scan, way, env = visit
        assert way.access is not None
        table = scan.table.position
        index = way_in(self.model.indexes[table], way.access)
        # A query reads what it finds by a whole key before it looks at its other conditions.
        constant = (
            isinstance(self.sent.core, Query)
            and index.unique is not None
            and set(index.columns) <= set(way.access.columns)
            and not any(map(depends_on, way.access.keys))
        )
        alone = covering(self.model.indexes[table], self.sent.core) if isinstance(self.sent.core, Query) else None
        index = index if alone is None else alone
        # An exclusive lock is always one of the row, too.
        going = Going(scan, way, env, run, exclusive, patience, apply, semi, stop, constant, alone is None or exclusive)
        yield LockTable(table, exclusive)
        for span in spans(index, scan, way, run, env):
            if going.left == 0:
                break
            yield from self._through(index, span, going)
        return going.skipped

    def _through(self, index: Index, span: Span, going: Going) -> Part:
        """The part of a scan in one span of an index."""
        table, exclusive, patience = going.scan.table.position, going.exclusive, going.patience
        # Values of only the first columns of a unique key may be those of several rows.
        point = span.probe is not None and index.unique is not None and len(span.probe) == len(index.columns)
        at, first = span.low, True
        looked_again: set[int] = set()
        while True:
            found = yield Next(table, index.place, at, first)
            if found is None or found[0] >= span.high:
                break
            (at, number), first = found, False
            if going.semi and not point and index.place == 0:
                seen = yield Peek(table, at, number)
                if seen is not None and (seen[0] is None or not going.matches(seen[0].row)):
                    continue
            kind = Kind.RECORD if point else self.range_kind
            got = yield LockRecord(table, index.place, at, number, exclusive, kind, patience, index.place == 0)
            if got is SKIPPED:
                going.skipped.append(number)
                continue
            version, fresh = got
            if version is None and fresh is False and number not in looked_again:
                # A row that came under the key of the one that was waited for is in its record.
                looked_again.add(number)
                first = True
                continue
            if version is not None and index.place and going.whole:
                clustered = self.model.indexes[table][0].entry(version.row, number)
                got = yield LockRecord(table, 0, clustered, number, exclusive, Kind.RECORD, patience)
                if got is SKIPPED:
                    going.skipped.append(number)
                    continue
                version = got[0]
            if version is not None and going.matches(version.row):
                if going.apply is not None:
                    yield from going.apply(number, version)
                going.left = None if going.left is None else going.left - 1
                if going.left == 0:
                    return
            elif not self.gaps and fresh and not (going.constant and version is not None):
                # A row that another index led to stays locked; so does what was waited for, which is not fresh.
                yield Unlock(table, index.place, at)
            if point and version is not None:
                # There is no second row with this key, so that the gap behind it is none of the search's business.
                return
        yield from self._behind(index, span, found, going)

    def _behind(self, index: Index, span: Span, found: tuple[Entry, int] | None, going: Going) -> Part:
        """What is locked where a span ends; ``found``: the entry that comes after it."""
        table, exclusive, patience = going.scan.table.position, going.exclusive, going.patience
        if self.gaps:
            if found is None or span.probe is not None:
                yield LockGap(table, index.place, span.high if span.probe is not None else HIGHEST, exclusive)
            else:
                current = index.place == 0
                yield LockRecord(table, index.place, found[0], found[1], exclusive, Kind.NEXT_KEY, patience, current)
        elif found is not None and span.probe is None and not going.semi:
            # The record that ends the range is locked before it is known to be outside.
            got = yield LockRecord(table, index.place, found[0], found[1], exclusive, Kind.RECORD, patience, False)
            if got is not SKIPPED and got[1]:
                yield Unlock(table, index.place, found[0])

    def _needed(
        self,
        visit: tuple[Scan, Visit, Environment],
        run: Evaluation,
        exclusive: bool,
        patience: Patience,
        apply: Callable[[int, Version], Part] | None,
        stop: int | None,
    ) -> Part:
        """The same with locks of the rows that match alone, and a guard of the condition, whichever index is gone through."""
        scan, way, env = visit
        table, clustered = scan.table.position, self.model.indexes[scan.table.position][0]
        assert way.access is not None
        key = tuple(run.value(key, env) for key in way.access.keys)
        ask = Candidates(table, way.access.columns, key[0] if len(key) == 1 else key)
        if way.access.columns and any(value is None for value in key):
            return []

        def matches(row: Row) -> bool:
            env.rows[scan.id] = row
            return all(run.value(condition, env) is True for condition in way.conditions)

        skipped: list[int] = []
        visited: set[Entry] = set()
        again = True
        yield LockTable(table, exclusive)
        if self.gaps and stop is None:
            yield Guard(table, Predicate(scan, way.conditions, env))
        while again:
            # Where it waited, others may have come meanwhile.
            again = False
            candidates = yield ask
            # A row that the transaction has changed is there twice, as it was and as it is.
            found = {
                (clustered.entry(row, number), number) for number, rows in candidates for row in rows if matches(row)
            }
            for entry, number in sorted(one for one in found if one[0] not in visited):
                visited.add(entry)
                got = yield LockRecord(table, 0, entry, number, exclusive, Kind.RECORD, patience)
                if got is SKIPPED:
                    skipped.append(number)
                    continue
                version, fresh = got
                if version is not None and matches(version.row):
                    if apply is not None:
                        yield from apply(number, version)
                    stop = None if stop is None else stop - 1
                    if stop == 0:
                        return skipped
                elif not self.gaps and fresh:
                    yield Unlock(table, 0, entry)
                if fresh is False:
                    again = True
                    break
        return skipped

    # UPDATE and DELETE

    def _target(self, change: Update | Delete) -> tuple[Scan, Visit, Environment]:
        (visit,) = plan(change.scan, change.where).steps
        assert isinstance(visit, Visit)
        return change.scan, visit, self.env

    def _update(self, change: Update) -> Execution:
        info, table = change.scan.table, change.scan.table.position
        where = change.where
        run = self.evaluation(
            (yield from self._lock_reads(where, lambda run: _hits(run, change, self.env), change.scan))
        )
        values, sets = run, [assigned.value for assigned in change.sets]
        queries = [query for node in sets for part in below(node) if (query := query_of(part)) is not None]
        # A row that is found by a whole key is read while the statement is planned, before anything else is waited for.
        keyed = [query for query in queries if by_whole_key(query)]
        values_locked = len(keyed) == len(queries)
        if keyed and self.gaps:
            values = self.evaluation((yield from self._lock_reads(sets, lambda run: _read(run, keyed, self.env), None)))
        checks = run.update_checks(change)
        places = {assigned.place for assigned in change.sets}
        rekeys = any(places & set(unique) for unique in info.uniques)
        if rekeys:
            found = run.hits(change, self.env)
            if len(found) > 1:
                hits: list[Hit] = [(number, old.row, run.new_row(change, old.row, self.env)) for number, old in found]
                refuse_open_keys(run.views[table], hits)
        done: list[tuple[Row, Row]] = []
        todo: list[tuple[int, Version]] = []

        def one(number: int, old: Version) -> Part:
            nonlocal values, values_locked
            if not values_locked:
                # Queries among the new values are asked when the first row is found.
                values_locked = True
                values = self.evaluation(
                    (yield from self._lock_reads(sets, lambda run: _new_row(run, change, old.row, self.env), None))
                )
            new = values.new_row(change, old.row, self.env)
            done.append((old.row, new))
            if new == old.row:
                return
            if checks.row is not None:
                checks.row(new)
            yield from self.write(info, checks, number, old.row, new)

        def later(number: int, old: Version) -> Part:
            todo.append((number, old))
            yield from ()

        # Rows that would move in the index that finds them are found first.
        yield from self._scan(
            self._target(change), run, True, Patience.WAIT, later if rekeys else one, semi=not self.gaps
        )
        for number, old in todo:
            yield from one(number, old)
        count = len(done) if self.model.counts_found else sum(old != new for old, new in done)
        return Returned(names_of(change), run.returned(change, [new for _, new in done], self.env), count)

    def _delete(self, change: Delete) -> Execution:
        table = change.scan.table.position
        where = change.where
        run = self.evaluation(
            (yield from self._lock_reads(where, lambda run: _hits(run, change, self.env), change.scan))
        )
        incoming = [reference for reference in self.catalog.references if reference.parent == table]
        done: list[Row] = []

        def one(number: int, old: Version) -> Part:
            yield Put(table, number, None)
            for index in self.model.indexes[table]:
                if index.place:
                    yield marked(change.scan.table, index, index.entry(old.row, number), number)
                yield from self.left_behind(change.scan.table, index, incoming, old.row, None)
            done.append(old.row)

        yield from self._scan(self._target(change), run, True, Patience.WAIT, one)
        return Returned(names_of(change), run.returned(change, done, self.env), len(done))

    # INSERT

    def _insert(self, change: Insert) -> Execution:
        info = change.table
        if change.mode is InsertMode.REPLACE:
            raise outside("REPLACE in a store model", "use INSERT … ON DUPLICATE KEY UPDATE")
        cells_all = [cell for row in change.rows for cell in row]
        if change.query is not None:
            # What the rows are made from is a query, which is nested in nothing.
            cells_all.append(Exists(change.query, BOOLEAN))
        run = self.evaluation(
            (yield from self._lock_reads(cells_all, lambda run: _to_insert(run, change, self.env), None))
        )
        yield LockTable(info.position)
        checks = run.insert_checks(change)
        updates = change.conflict is not None and bool(change.conflict.sets)
        done: list[Row] = []
        count = 0
        for cells, source in run.to_insert(change, self.env):
            new = run.inserted_row(change, cells, source, self.env)
            new = yield from self._with_id(info, new)
            if checks.row is not None:
                checks.row(new)
            if updates or change.mode is InsertMode.IGNORE:
                holder = yield from self.taken(info, new, exclusive=updates)
                if holder is not None:
                    count += (yield from self._on_duplicate(change, run, holder, new)) if updates else 0
                    continue
            yield from self.write(info, checks, None, None, new)
            done.append(new)
            count += 1
        return Returned(names_of(change), run.returned(change, done, self.env), count)

    def _with_id(self, info: TableInfo, row: Row) -> Part:
        place = info.generated
        if place is None:
            return row
        if not row[place]:
            drawn = yield Draw(info.position, 1)
            return (*row[:place], drawn, *row[place + 1 :])
        yield Draw(info.position, 0, row[place])
        return row

    def _on_duplicate(self, change: Insert, run: Evaluation, holder: tuple[int, Version], new: Row) -> Part:
        """ON DUPLICATE KEY UPDATE: 2 for a row that changed, 0 for another."""
        info, (number, old) = change.table, holder
        assert change.conflict is not None
        changed = run.resolved(change.conflict, old.row, new, self.env)
        if changed is None or changed == old.row:
            return int(self.model.counts_found)
        checks = run.insert_checks(change)
        if checks.row is not None:
            checks.row(changed)
        yield from self.write(info, checks, number, old.row, changed)
        return 2


def _without(model: InnoDB, views: tuple[View, ...], skipped: Iterable[tuple[int, int]]) -> tuple[View, ...]:
    """The views without rows that SKIP LOCKED leaves out."""
    over = [dict(view.over) for view in views]
    for table, number in skipped:
        over[table][number] = None
    return model.views(tuple(view.base for view in views), over) if skipped else views


def _hits(run: Evaluation, change: Update | Delete, env: Environment) -> None:
    run.hits(change, env)


def _new_row(run: Evaluation, change: Update, row: Row, env: Environment) -> None:
    run.new_row(change, row, env)


def _read(run: Evaluation, queries: Iterable[Query], env: Environment) -> None:
    for query in queries:
        run.rows(query, env)


def _to_insert(run: Evaluation, change: Insert, env: Environment) -> None:
    for cells, source in run.to_insert(change, env):
        run.inserted_row(change, cells, source, env)
