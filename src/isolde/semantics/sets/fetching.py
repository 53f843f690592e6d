"""What queries of a transaction give: rows that are there, or a result that nothing is known of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from isolde.errors import OutsideFragment
from isolde.levels.specifications import Writes
from isolde.semantics.core.catalog import TableInfo
from isolde.semantics.core.nodes import Apply, Constant, Expression
from isolde.semantics.core.relations import Aggregate, Query, Scan, Statement, query_parts, scans
from isolde.semantics.sets.expressions import Environment
from isolde.semantics.sets.ghosts import Ghosts
from isolde.semantics.sets.passing import met, nobody_updates
from isolde.semantics.sets.path import Path
from isolde.semantics.sets.queries import Tables, alternatives, asks, by_key, free_scans, may_leave_out
from isolde.semantics.sets.state import Base, Book, Key, Universal, View
from isolde.semantics.sets.timeline import Lock
from isolde.semantics.sets.values import ORDERED, RowsValue, Value, outside, terms_of
from isolde.smt import terms as smt
from isolde.smt.terms import Term
from isolde.tx.queries import Lock as LockMode
from isolde.tx.queries import Patience

Found = tuple[Term, tuple[Value, ...]]


class Fetching:
    """Queries of one path. What is outside of the fragment gives any rows at all, which is sound."""

    def __init__(self, ghosts: Ghosts, path: Path) -> None:
        self.ghosts, self.path, self.book = ghosts, path, path.book
        # What is said of all rows is read later, when the path has gone on.
        self.env = path.env.copy()
        self._views: dict[int, View] = {}
        self._inside: View | None = None

    def tables(self, base: Base, book: Book | None = None) -> Tables:
        view = self._views.setdefault(id(base), self.path.view(base))
        return Tables(book or self.book, self.ghosts, view, self.path.timeline.dirty, self._inside)

    def all(self, statement: Statement) -> RowsValue:
        """Rows that a loop may go through: how many there are is not known."""
        if not isinstance(statement, Query):
            raise outside("RETURNING")
        many = self.book.fresh("many")
        self.book.fact(many >= 0)
        types = tuple(output.type for output in statement.outputs)
        if statement.lock is not None:
            self._lock_all(statement)
            return RowsValue(many, types)
        base = self.path.timeline.plain(self.book)
        self.path.read(statement, self.path.env.copy(), base, base)
        return RowsValue(many, types, None if self.path.timeline.dirty else self._chosen(statement, base))

    def _chosen(self, query: Query, base: Base) -> Selected | None:
        if query.grouping is not None or query.distinct is not None or query.source is None:
            return None
        try:
            free = list(free_scans(query))
            if len(free) != 1:
                return None
            # Tried once: what cannot be read is any row.
            tried = self.book.copy()
            Selected(self, query, base, free[0].table).found(tried, tried.fresh_key(free[0].table))
        except OutsideFragment:
            return None
        return Selected(self, query, base, free[0].table)

    def first(self, query: Query) -> Found:
        """Whether there is a row, and the first one."""
        if query.lock is not None:
            search, check = self._locking(query, pointed=_pointed(query))
        else:
            search = check = self.path.timeline.plain(self.book)
            self.path.read(query, self.path.env.copy(), search, search)
            if self.path.timeline.dirty and query.source is not None:
                return self.anything(query)
        try:
            if query.grouping is not None:
                if search is not check and not _pointed(query):
                    raise outside("an aggregate of rows that are locked one after the other")
                return self._aggregated(query, self.tables(search))
            return self._row(query, search, check)
        except OutsideFragment:
            return self.anything(query)

    def anything(self, query: Query) -> Found:
        reader = self.tables(self.path.timeline.commit).reader()
        values = tuple(reader.unknown(output.type, nonnull=output.value.nonnull) for output in query.outputs)
        return self.book.fresh("found", "boolean"), values

    # Groups

    def _aggregated(self, query: Query, tables: Tables) -> Found:
        assert query.grouping is not None
        if not query.grouping.whole or query.grouping.having or query.source is None:
            raise outside("GROUP BY")
        if may_leave_out(query) and not _first_of_one(query):
            raise outside("an aggregate of which not all rows are given")
        env = self.path.env.copy()
        env.aggregates = self._aggregates(query, tables, env)
        reader = tables.reader()
        return smt.TRUE, tuple(reader.value(output.value, env) for output in query.outputs)

    def _aggregates(self, query: Query, tables: Tables, env: Environment) -> Sequence[Value]:
        assert query.grouping is not None
        assert query.source is not None
        aggregates = query.grouping.aggregates
        if by_key(query) is not None:
            there = tables.bound(query.source, query.where, env, _none)
            return [_of_rows(tables, one, [(there, env)]) for one in aggregates]
        if isinstance(query.source, Scan) and len(query.where) == 1:
            keys = alternatives(query.where[0], query.source)
            if keys is not None:
                rows = self._alternatives(query.source, keys, tables, env)
                return [_of_rows(tables, one, rows) for one in aggregates]
        return [tables.grouped(query.source, query.where, env, one) for one in aggregates]

    def _alternatives(
        self, scan: Scan, keys: Sequence[Expression], tables: Tables, env: Environment
    ) -> list[tuple[Term, Environment]]:
        """The rows of several keys, none of them twice."""
        seen: list[Key] = []
        rows = []
        for node in keys:
            value = tables.reader().value(node, env)
            key = terms_of([value])
            row = self.book.row(tables.view, scan.table, key)
            inside = env.copy()
            inside.rows[scan.id] = row.values
            new = smt.every(smt.no(smt.all_equal(key, other)) for other in seen)
            rows.append((smt.both(row.there, smt.no(value.null), new), inside))
            seen.append(key)
        return rows

    # Rows

    def _row(self, query: Query, search: Base, check: Base) -> Found:
        if query.source is None:
            env = self.path.env.copy()
            there = self.tables(search).reader().holds(query.where, env)
            return smt.both(there, self._given(query)), self.outputs(query, search, env)
        free = list(free_scans(query))
        if len(free) > 1:
            raise outside("a join of which two tables are not found by keys")
        key = self.book.fresh_key(free[0].table, "found") if free else None
        # A row that came on the way is met, unless only those of a snapshot are gone through.
        snapshot = self.path.timeline.level.writes is Writes.RECHECK
        there, env = self.matching(query, search if snapshot else check, key)
        found: Term = smt.both(there, self._given(query))
        if key is not None:
            found = self.book.fresh("found", "boolean")
            self.book.fact(smt.implies(found, there))
            if search is check:
                self._nothing_else(query, search, free[0], found, env)
            else:
                self._first_left(query, (search, check), free[0], found, env)
        if query.lock is None:
            return found, self.outputs(query, search, env)
        return self._locked(query, search, check, key, found)

    def _given(self, query: Query) -> Term:
        """Whether the one row that may match is given if it does."""
        return smt.TRUE if not may_leave_out(query) or _first_of_one(query) else self.book.fresh("given", "boolean")

    def matching(self, query: Query, base: Base, key: Key | None, book: Book | None = None) -> tuple[Term, Environment]:
        env = self.env.copy()

        def free(_: Scan) -> Key:
            assert key is not None
            return key

        return self.tables(base, book).bound(query.source, query.where, env, free), env

    def _nothing_else(self, query: Query, base: Base, scan: Scan, found: Term, env: Environment) -> None:
        """Where nothing is found nothing matches; the first row comes before all that match."""
        if query.patience is Patience.SKIP_LOCKED or query.offset is not None or not _limited_to_one(query):
            return
        self.book.universals.append(
            Universal(
                (scan.table,), lambda book, key: smt.either(found, smt.no(self.matching(query, base, key, book)[0]))
            )
        )
        if query.limit is None or not query.order:
            return
        order = query.order[0]
        if not order.key.nonnull or order.key.type.sort not in ORDERED:
            return
        reader = self.tables(base).reader()
        first = reader.value(order.key, env).known

        def before(book: Book, key: Key) -> Term:
            matches, there = self.matching(query, base, key, book)
            other = self.tables(base, book).reader().value(order.key, there).known
            return smt.implies(smt.both(found, matches), first >= other if order.descending else first <= other)

        self.book.universals.append(Universal((scan.table,), before))

    def _first_left(self, query: Query, states: tuple[Base, Base], scan: Scan, found: Term, env: Environment) -> None:
        """The same of a locking read that passes over rows which do not match any more, each at a time of its own.

        Nothing is known unless the conditions are about columns that nobody updates: else a row may have matched before and
        after it was looked at.
        """
        if query.patience is Patience.SKIP_LOCKED or query.offset is not None or not _limited_to_one(query):
            return
        if not isinstance(query.source, Scan) or not nobody_updates(self.path, scan.table, query.where):
            return
        survives = self.path.timeline.survivors(self.book, scan.table, self.path.writes, states)

        def stays(book: Book, key: Key) -> tuple[Term, Environment]:
            matches, there = self.matching(query, states[0], key, book)
            later, _ = self.matching(query, states[1], key, book)
            return smt.both(matches, later, survives(key)), there

        self.book.universals.append(
            Universal((scan.table,), lambda book, key: smt.either(found, smt.no(stays(book, key)[0])))
        )
        order = query.order[0] if query.limit is not None and query.order else None
        if order is None or not order.key.nonnull or order.key.type.sort not in ORDERED:
            return
        if not nobody_updates(self.path, scan.table, [order.key]):
            return
        first, descending, ordered = (
            self.tables(states[1]).reader().value(order.key, env).known,
            order.descending,
            order,
        )

        def before(book: Book, key: Key) -> Term:
            matches, there = stays(book, key)
            other = self.tables(states[0], book).reader().value(ordered.key, there).known
            return smt.implies(smt.both(found, matches), first >= other if descending else first <= other)

        self.book.universals.append(Universal((scan.table,), before))

    def outputs(self, query: Query, base: Base, env: Environment, book: Book | None = None) -> tuple[Value, ...]:
        reader = self.tables(base, book).reader()
        return tuple(reader.value(output.value, env) for output in query.outputs)

    # Locks

    def _locked(self, query: Query, search: Base, check: Base, key: Key | None, found: Term) -> Found:
        """The rows that are found are locked, each as it is when it is locked."""
        again, env = (found, self.matching(query, search, key)[1])
        if check is not search:
            there, env = self.matching(query, check, key)
            again = smt.both(found, there)
        scans_ = [step.source for step in by_key(query) or ()]
        if key is not None:
            free = list(free_scans(query))
            scans_ = [free[0]] if isinstance(query.source, Scan) else []
        if not scans_ or len(scans_) > 1:
            # Which rows of a join are locked is not followed: nothing is relied upon.
            leaves = [leaf.table for leaf in scans(query.source) if isinstance(leaf, Scan)]
            if check is not search and any(map(self.path.timeline.may_return, leaves)):
                again = smt.both(again, self.book.fresh("survives", "boolean"))
            return again, self.outputs(query, check, env)
        scan = scans_[0]
        assert isinstance(scan, Scan)
        if key is None:
            key = self._key_of(query, search)
        if check is not search:
            again = smt.both(again, self.path.timeline.survivors(self.book, scan.table, self.path.writes)(key))
        presence = query.lock is LockMode.KEY_SHARE
        exclusive = query.lock in {LockMode.UPDATE, LockMode.NO_KEY_UPDATE}
        self.path.timeline.keep(self.book, Lock(scan.table, key, again, check, presence, exclusive))
        return again, self.outputs(query, check, env)

    def _locking(self, query: Query, *, pointed: bool) -> tuple[Base, Base]:
        """The states in which a locking read finds its rows and looks at them again.

        Queries inside of it lock nothing: PostgreSQL does not ask them again, InnoDB answers them from the snapshot.
        """
        timeline, nested = self.path.timeline, any(map(asks, query_parts(query)))
        inside = timeline.plain(self.book) if nested and timeline.current else None
        search, check = timeline.changing(self.book) if pointed else timeline.passing(self.book)
        if inside is not None:
            self.path.read(query, self.env, inside, inside)
        if nested:
            self._inside = self.path.view(search if inside is None else inside)
        self.path.read(query, self.env, search, check, pointed=pointed)
        return search, check

    def _key_of(self, query: Query, base: Base) -> Key:
        way = by_key(query)
        assert way is not None
        assert way[0].access is not None
        reader = self.tables(base).reader()
        return terms_of([reader.value(node, self.path.env) for node in way[0].access.keys])

    def _lock_all(self, query: Query) -> None:
        """A locking query whose rows nobody looks at."""
        search, check = self._locking(query, pointed=False)
        if not isinstance(query.source, Scan) or query.lock is LockMode.KEY_SHARE or query.grouping is not None:
            return
        if may_leave_out(query):
            return
        scan = query.source
        tables, again = self.tables(search), self.tables(check)
        conditions = query.where

        def matches(tables: Tables, key: Key) -> Term:
            env = self.env.copy()
            row = tables.view.row(scan.table, key)
            env.rows[scan.id] = row.values
            return smt.both(row.there, tables.reader().holds(conditions, env))

        late = partial(matches, again)
        locked = late if search is check else met(self.path, scan.table, conditions, partial(matches, tables), late)

        def held(_: Book, key: Key) -> Term:
            return locked(key)

        keys = alternatives(conditions[0], scan) if len(conditions) == 1 else None
        if keys is None:
            self.path.timeline.keep_all(self.book, scan.table, check, Universal((scan.table,), held))
            return
        for node in keys:
            key = terms_of([tables.reader().value(node, self.path.env)])
            self.book.point(scan.table, key)
            self.path.timeline.keep(
                self.book, Lock(scan.table, key, held(self.book, key), check, exclusive=query.lock is LockMode.UPDATE)
            )


@dataclass(frozen=True, slots=True)
class Selected:
    """The rows that a query without groups gave, by the keys of the one table that is not found by keys."""

    fetching: Fetching
    query: Query
    base: Base
    table: TableInfo

    def found(self, book: Book, key: Key) -> Found:
        there, env = self.fetching.matching(self.query, self.base, key, book)
        return there, self.fetching.outputs(self.query, self.base, env, book)

    @property
    def all_of_them(self) -> bool:
        return not may_leave_out(self.query)


def _none(scan: Scan) -> Key:
    raise outside(f"a row of {scan.table.table.name} that no key names")


def _of_rows(tables: Tables, aggregate: Aggregate, rows: Sequence[tuple[Term, Environment]]) -> Value:
    """An aggregate of rows that are listed, each of which may be there or not."""
    name = getattr(aggregate.function, "__name__", "")
    if aggregate.distinct is not None or (name not in {"len", "sum_integers", "decimal_total"} and len(rows) > 1):
        raise outside("an aggregate other than COUNT and SUM of listed rows")
    count, total = smt.number(0), smt.number(0)
    for there, env in rows:
        counts = there
        if aggregate.operand is not None:
            value = tables.reader().value(aggregate.operand, env)
            counts = smt.both(there, smt.no(value.null))
            total = total + smt.choose(counts, value.known, smt.number(0))
        count = count + smt.choose(counts, smt.number(1), smt.number(0))
    return Value(count) if name == "len" else Value(total, count == 0)


def _pointed(query: Query) -> bool:
    """Whether each row is found by its key, so that there is at most one of each table."""
    return by_key(query) is not None


def _limited_to_one(query: Query) -> bool:
    return query.limit is None or _limit(query) == 1


def _first_of_one(query: Query) -> bool:
    """Whether a limited query gives at least the first row."""
    limit = 1 if query.limit is None else _limit(query)
    return limit is not None and limit >= 1 and query.offset is None and query.patience is not Patience.SKIP_LOCKED


def _limit(query: Query) -> int | None:
    """The number after LIMIT, if it is one."""
    limit = query.limit
    if isinstance(limit, Apply):
        limit = limit.arguments[0]
    return limit.value if isinstance(limit, Constant) and isinstance(limit.value, int) else None
