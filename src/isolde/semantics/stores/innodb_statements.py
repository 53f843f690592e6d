"""Statements of InnoDB: how they go through indexes, what they lock on the way, and in which order they write.

A row is written into the clustered index first, then into the others one by one; keys and foreign keys are checked when their
index is come to, so that what waits for a parent has its row in the table already.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from isolde.errors import ExecutionError
from isolde.levels.stores import ReadsFrom
from isolde.semantics.core.catalog import Reference, TableInfo
from isolde.semantics.core.evaluate import Environment
from isolde.semantics.core.nodes import Apply, Column, Constant, Exists, Expression, Logic, Variable, below, query_of
from isolde.semantics.core.plan import Visit, access, depends_on, plan
from isolde.semantics.core.relations import Delete, Insert, Join, Query, Scan, Source, Update, scans
from isolde.semantics.core.types import BOOLEAN, outside
from isolde.semantics.stores.evaluation import Evaluation
from isolde.semantics.stores.indexes import HIGHEST, LOWEST, Entry, Index
from isolde.semantics.stores.innodb_requests import (
    InsertEntry,
    Kind,
    LockGap,
    LockRecord,
    LockTable,
    Next,
    Peek,
    Unlock,
)
from isolde.semantics.stores.machine import Execution, Sent, Transaction, is_ordered, names_of
from isolde.semantics.stores.requests import SKIPPED, Draw, Look, Put, Returned
from isolde.semantics.stores.rows import Version, View
from isolde.semantics.tables.constraints import Checks, Hit, refuse_open_keys
from isolde.semantics.tables.view import Row
from isolde.tx.queries import Lock, Patience
from isolde.tx.statements import InsertMode

if TYPE_CHECKING:
    from isolde.semantics.stores.innodb import InnoDB

Part = Generator[Any, Any, Any]


class InnodbStatement:
    """One statement: a generator of requests."""

    def __init__(self, model: InnoDB, sent: Sent, transaction: Transaction) -> None:
        self.model, self.sent = model, sent
        self.catalog = model.catalog
        self.level = transaction.level
        self.gaps = transaction.level.gaps
        self.autocommit = transaction.autocommit
        self.env = Environment(variables=dict(enumerate(sent.values)))
        self.range_kind = Kind.NEXT_KEY if self.gaps else Kind.RECORD

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
            rows = run.rows(query, self.env)
            return Returned(names_of(query), tuple(map(tuple, rows)), len(rows), is_ordered(query))
        return (yield from self._locking(query, lock is Lock.UPDATE, patience))

    def _locking(self, query: Query, exclusive: bool, patience: Patience) -> Execution:
        """What the query goes through is locked, and read again if anything changed meanwhile, until nothing does."""
        query = _planned(query)
        skipped: dict[tuple[int, int], None] = {}
        locked: dict[Any, None] = {}
        while True:
            views = yield Look(latest=True)
            run = self.evaluation(_without(self.model, views, skipped), notes_reads=True)
            rows = run.rows(query, self.env)
            missing = [visit for visit in run.visits if _visit_key(visit) not in locked]
            if not missing:
                return Returned(names_of(query), tuple(map(tuple, rows)), len(rows), is_ordered(query))
            for visit in missing:
                locked[_visit_key(visit)] = None
                table = visit[0].table.position
                gone = yield from self._scan(visit, run, exclusive, patience, stop=self._cut(query, run))
                skipped.update({(table, number): None for number in gone})

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
            visits = [visit for visit in run.visits if visit[0] is not own and _visit_key(visit) not in locked]
            if not visits:
                return views
            for visit in visits:
                locked[_visit_key(visit)] = None
                yield from self._scan(visit, run, False, Patience.WAIT)

    def _cut(self, query: Query, run: Evaluation) -> int | None:
        """After how many rows LIMIT ends the scan: where rows come in the order of the primary key, as they are asked for."""
        if not isinstance(query.source, Scan) or query.limit is None or query.grouping or query.distinct:
            return None
        primary = self.model.indexes[query.source.table.position][0].columns
        keys = [
            order.key.place if isinstance(order.key, Column) and not order.descending else -1 for order in query.order
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
        scan, way, env = visit
        info = scan.table
        assert way.access is not None
        keys = tuple(run.value(key, env) for key in way.access.keys)
        index, probe = self._way(info, way, keys)
        skipped: list[int] = []

        def matches(row: Row) -> bool:
            env.rows[scan.id] = row
            return all(run.value(condition, env) is True for condition in way.conditions)

        table = info.position
        # Values of only the first columns of a unique key may be those of several rows.
        point = probe is not None and index.unique is not None and len(probe) == len(index.columns)
        low, high = (probe, (*probe, HIGHEST[0])) if probe is not None else _bounds(index, way.conditions, run, env)
        at, first = low, True
        while True:
            found = yield Next(table, index.place, at, first)
            if found is None or found[0] >= high:
                break
            (at, number), first = found, False
            if semi and not point and index.place == 0:
                seen = yield Peek(table, at, number)
                if seen is not None and (seen[0] is None or not matches(seen[0].row)):
                    continue
            kind = Kind.RECORD if point else self.range_kind
            got = yield LockRecord(table, index.place, at, number, exclusive, kind, patience, index.place == 0)
            if got is SKIPPED:
                skipped.append(number)
                continue
            version, fresh = got
            clustered = None
            if version is not None and index.place:
                clustered = self.model.indexes[table][0].entry(version.row, number)
                got = yield LockRecord(table, 0, clustered, number, exclusive, Kind.RECORD, patience)
                if got is SKIPPED:
                    skipped.append(number)
                    continue
                version = got[0]
                fresh_too = got[1]
            if version is not None and matches(version.row):
                if apply is not None:
                    yield from apply(number, version)
                stop = None if stop is None else stop - 1
                if point or stop == 0:
                    return skipped
            elif not self.gaps:
                if fresh:
                    yield Unlock(table, index.place, at)
                if clustered is not None and fresh_too:
                    yield Unlock(table, 0, clustered)
        if self.gaps:
            if found is None or probe is not None:
                yield LockGap(table, index.place, high if probe is not None else HIGHEST, exclusive)
            else:
                current = index.place == 0
                yield LockRecord(table, index.place, found[0], found[1], exclusive, Kind.NEXT_KEY, patience, current)
        elif found is not None and probe is None and not semi:
            # The record that ends the range is locked before it is known to be outside.
            got = yield LockRecord(table, index.place, found[0], found[1], exclusive, Kind.RECORD, patience, False)
            if got is not SKIPPED and got[1]:
                yield Unlock(table, index.place, found[0])
        return skipped

    def _way(self, info: TableInfo, way: Visit, keys: tuple[Any, ...]) -> tuple[Index, Entry | None]:
        """The index by which rows are found, and what their entries begin with, if it is that."""
        indexes = self.model.indexes[info.position]
        access = way.access
        assert access is not None
        by_column = dict(zip(access.columns, keys, strict=True))
        if any(key is None for key in keys):
            return indexes[0], HIGHEST
        for index in indexes:
            if index.unique is not None and index.columns and all(column in by_column for column in index.columns):
                return index, index.probe([by_column[column] for column in index.columns])
        for index in indexes:
            first = 0
            while first < len(index.columns) and index.columns[first] in by_column:
                first += 1
            if first:
                return index, index.probe([by_column[column] for column in index.columns[:first]])
        return indexes[0], None

    # UPDATE and DELETE

    def _target(self, change: Update | Delete) -> tuple[Scan, Visit, Environment]:
        (visit,) = plan(change.scan, change.where).steps
        assert isinstance(visit, Visit)
        return change.scan, visit, self.env

    def _update(self, change: Update) -> Execution:
        info, table = change.scan.table, change.scan.table.position
        where = [*change.where, *change.rereading]
        run = self.evaluation(
            (yield from self._lock_reads(where, lambda run: _hits(run, change, self.env), change.scan))
        )
        values = run
        # A row that is found by a whole key is read while the statement is planned, before anything is waited for.
        values_locked = not self.gaps and all(
            _by_whole_key(query)
            for assigned in change.sets
            for part in below(assigned.value)
            if (query := query_of(part)) is not None
        )
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
                sets = [assigned.value for assigned in change.sets]
                values = self.evaluation(
                    (yield from self._lock_reads(sets, lambda run: _new_row(run, change, old.row, self.env), None))
                )
            new = values.new_row(change, old.row, self.env)
            done.append((old.row, new))
            if new == old.row:
                return
            if checks.row is not None:
                checks.row(new)
            yield from self._write(info, checks, number, old.row, new)

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
        where = [*change.where, *change.rereading]
        run = self.evaluation(
            (yield from self._lock_reads(where, lambda run: _hits(run, change, self.env), change.scan))
        )
        done: list[Row] = []

        def one(number: int, old: Version) -> Part:
            yield Put(table, number, None)
            for index in self.model.indexes[table][1:]:
                yield _marked(change.scan.table, index, index.entry(old.row, number), number)
            for reference in self.catalog.references:
                if reference.parent == table:
                    yield from self._children(reference, old.row)
            done.append(old.row)

        yield from self._scan(self._target(change), run, True, Patience.WAIT, one)
        return Returned(names_of(change), run.returned(change, done, self.env), len(done))

    # Keys

    def _taken(self, info: TableInfo, new: Row, *, exclusive: bool) -> Part:
        """The first row that holds a unique key of a new one, locked, or ``None``."""
        for index in self.model.indexes[info.position]:
            if index.unique is not None and info.unique_keys[index.unique](new) is not None:
                holder = yield from self._holder(info, index, new, None, exclusive=exclusive)
                if holder is not None:
                    return holder
        return None

    def _write(self, info: TableInfo, checks: Checks, number: int | None, old: Row | None, new: Row) -> Part:
        """Adds a row, or replaces one, index by index."""
        for index in self.model.indexes[info.position]:
            before = None if old is None or number is None else index.entry(old, number)
            entry = index.entry(new, -1 if number is None else number)
            if before != entry:
                if before is not None and number is not None and index.place:
                    yield _marked(info, index, before, number)
                for reference in checks.outgoing:
                    key = reference.child_key(new)
                    same = old is not None and reference.child_key(old) == key
                    if (
                        key is not None
                        and not same
                        and self._index_for(info.position, reference.child_columns) is index
                    ):
                        yield from self._parent(reference, key)
                while True:
                    if (yield from self._holder(info, index, new, number, exclusive=False)) is not None:
                        names = ", ".join(info.table.columns[column].name for column in index.columns)
                        raise ExecutionError("unique", f"{info.table.name} has already a row with this ({names})")
                    yield InsertEntry(info.position, index.place, entry, before)
                    # While it waited for the gap, another may have come into it.
                    if (yield from self._free(info, index, new, number)):
                        break
            if index.place == 0:
                number = yield Put(info.position, number, new)
                for reference in checks.incoming:
                    if old is not None and reference.parent_key(old) != reference.parent_key(new):
                        yield from self._children(reference, old)

    def _free(self, info: TableInfo, index: Index, new: Row, number: int | None) -> Part:
        """Whether no other entry has this unique key, dead or alive."""
        if index.unique is None or info.unique_keys[index.unique](new) is None:
            return True
        probe = index.probe([new[column] for column in index.columns])
        at, first = probe, True
        while True:
            found = yield Next(info.position, index.place, at, first)
            if found is None or found[0][: len(probe)] != probe:
                return True
            (at, other), first = found, False
            if other != number:
                version, _ = yield LockRecord(info.position, index.place, at, other, False, Kind.RECORD)
                if version is not None:
                    return False

    def _holder(self, info: TableInfo, index: Index, new: Row, number: int | None, *, exclusive: bool) -> Part:
        if index.unique is None or info.unique_keys[index.unique](new) is None:
            return None
        probe = index.probe([new[column] for column in index.columns])
        at, first = probe, True
        while True:
            found = yield Next(info.position, index.place, at, first)
            if found is None or found[0][: len(probe)] != probe:
                return None
            (at, other), first = found, False
            if other == number:
                continue
            # An entry of another index does not tell when its row was changed.
            current = index.place == 0
            version, _ = yield LockRecord(
                info.position, index.place, at, other, exclusive, self.range_kind, current=current
            )
            if version is not None:
                if exclusive and index.place:
                    clustered = self.model.indexes[info.position][0].entry(version.row, other)
                    version, _ = yield LockRecord(info.position, 0, clustered, other, True, Kind.RECORD)
                if version is not None:
                    return other, version

    def _index_for(self, table: int, columns: tuple[int, ...]) -> Index:
        """The index by which a foreign key finds rows."""
        return next(one for one in self.model.indexes[table] if one.columns[: len(columns)] == columns)

    # Foreign keys, row by row

    def _parent(self, reference: Reference, key: Any) -> Part:
        """The parent's record is locked in share mode: whoever wants to change any column of it waits."""
        info = self.catalog.tables[reference.parent]
        found = yield from self._referred(reference.parent, reference.parent_columns, key, current=True)
        if found is None:
            child = self.catalog.tables[reference.child].table.name
            raise ExecutionError("foreign-key", f"{child} refers to {key!r}, which is not in {info.table.name}")

    def _children(self, reference: Reference, row: Row) -> Part:
        key = reference.parent_key(row)
        if key is None:
            return
        # Children count as they are now, also with innodb_snapshot_isolation; a parent that is newer than the snapshot fails.
        found = yield from self._referred(reference.child, reference.child_columns, key, current=False)
        if found is not None:
            child, parent = self.catalog.tables[reference.child], self.catalog.tables[reference.parent]
            raise ExecutionError("foreign-key", f"{child.table.name} still refers to {key!r} of {parent.table.name}")

    def _referred(self, table: int, columns: tuple[int, ...], key: Any, *, current: bool) -> Part:
        """A row with this key, its record locked in share mode; the gap where it would be, if there is none."""
        index = self._index_for(table, columns)
        values = key if len(columns) > 1 else (key,)
        probe = tuple((1, value) for value in values)
        at: Entry = probe
        first = True
        while True:
            found = yield Next(table, index.place, at, first)
            if found is None or found[0][: len(probe)] != probe:
                if self.gaps:
                    yield LockGap(table, index.place, (*probe, HIGHEST[0]), False)
                return None
            (at, number), first = found, False
            version, _ = yield LockRecord(table, index.place, at, number, False, Kind.RECORD, current=current)
            if version is not None:
                return number

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
                holder = yield from self._taken(info, new, exclusive=updates)
                if holder is not None:
                    count += (yield from self._on_duplicate(change, run, holder, new)) if updates else 0
                    continue
            yield from self._write(info, checks, None, None, new)
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
        yield from self._write(info, checks, number, old.row, changed)
        return 2


def _planned(query: Query) -> Query:
    """The query with its tables in the order of MariaDB's plan: first those whose key is known."""
    leaves = list(scans(query.source))
    if len(leaves) < 2 or not all(isinstance(leaf, Scan) for leaf in leaves):
        return query
    conditions = list(query.where)
    if not _inner(query.source, conditions):
        return query
    left = [leaf for leaf in leaves if isinstance(leaf, Scan)]
    ordered: list[Scan] = []
    while left:
        unbound = {leaf.id for leaf in left}
        found = [(leaf, access(leaf, conditions, unbound)) for leaf in left]
        best = next((leaf for leaf, way in found if way.unique is not None), None)
        best = best or next((leaf for leaf, way in found if way.columns), None) or left[0]
        ordered.append(best)
        left = [leaf for leaf in left if leaf is not best]
    source: Source = ordered[0]
    for leaf in ordered[1:]:
        source = Join(False, source, leaf, ())
    return replace(query, source=source, where=tuple(conditions))


def _inner(source: Source | None, conditions: list[Expression]) -> bool:
    """Whether all joins are inner ones; their conditions are added."""
    if not isinstance(source, Join):
        return True
    conditions.extend(source.on)
    return not source.outer and _inner(source.left, conditions) and _inner(source.right, conditions)


def _by_whole_key(query: Query) -> bool:
    """Whether a query reads one row of one table, by values that depend on no other row."""
    steps = plan(query.source, query.where).steps
    if len(steps) != 1 or not isinstance(steps[0], Visit) or not isinstance(query.source, Scan):
        return False
    way = steps[0].access
    return (
        way is not None
        and any(set(unique) <= set(way.columns) for unique in query.source.table.uniques)
        and not any(depends_on(key) for key in way.keys)
    )


def _marked(info: TableInfo, index: Index, entry: Entry, number: int) -> LockRecord:
    """An entry of a secondary index is marked as deleted: whoever has locked it is waited for, and no lock comes of it."""
    return LockRecord(info.position, index.place, entry, number, True, Kind.IMPLICIT, current=False)


def _visit_key(visit: tuple[Scan, Visit, Environment]) -> Any:
    scan, way, env = visit
    return (
        scan.id,
        tuple(id(condition) for condition in way.conditions),
        tuple(sorted((source, tuple(row)) for source, row in env.rows.items() if source != scan.id)),
    )


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


def _to_insert(run: Evaluation, change: Insert, env: Environment) -> None:
    for cells, source in run.to_insert(change, env):
        run.inserted_row(change, cells, source, env)


def _bounds(index: Index, conditions: Sequence[Expression], run: Evaluation, env: Environment) -> tuple[Entry, Entry]:
    """The range of a clustered index that comparisons of its first column with constants leave, its end excluded."""
    low, high = LOWEST, HIGHEST
    if not index.columns:
        return low, high
    for condition in _conjuncts(conditions):
        if not isinstance(condition, Apply) or len(condition.arguments) != 2:
            continue
        left, right = condition.arguments
        name = condition.primitive.name
        if isinstance(right, Column) and isinstance(left, Constant | Variable):
            left, right, name = right, left, {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(name, name)
        if not (isinstance(left, Column) and left.place == index.columns[0] and isinstance(right, Constant | Variable)):
            continue
        value = run.value(right, env)
        if value is None or name not in {"<", "<=", ">", ">="}:
            continue
        probe = index.probe([value])
        if name == "<":
            high = min(high, probe)
        elif name == "<=":
            high = min(high, (*probe, HIGHEST[0]))
        elif name == ">":
            low = max(low, (*probe, HIGHEST[0]))
        else:
            low = max(low, probe)
    return low, high


def _conjuncts(conditions: Iterable[Expression]) -> list[Expression]:
    found: list[Expression] = []
    for condition in conditions:
        if isinstance(condition, Logic) and not condition.decides:
            found += _conjuncts([condition.left, condition.right])
        else:
            found.append(condition)
    return found
