"""INSERT, UPDATE and DELETE of a transaction: what they write, and what must be so for them to succeed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from isolde.levels.specifications import Reads, Writes
from isolde.semantics.core.catalog import TableInfo
from isolde.semantics.core.plan import Visit, plan
from isolde.semantics.core.relations import Delete, Insert, OnConflict, Update
from isolde.semantics.sets.expressions import Environment
from isolde.semantics.sets.ghosts import Ghosts
from isolde.semantics.sets.passing import met as met_rows
from isolde.semantics.sets.path import Path
from isolde.semantics.sets.queries import Tables, asks, equation
from isolde.semantics.sets.state import Base, Book, Key, Universal, View, Write
from isolde.semantics.sets.timeline import Lock
from isolde.semantics.sets.values import Row, Value, key_places, merged, outside, same_row, terms_of
from isolde.smt import terms as smt
from isolde.smt.terms import Term
from isolde.tx.statements import InsertMode


class Changes:
    """Changes of one path."""

    def __init__(self, ghosts: Ghosts, path: Path) -> None:
        self.ghosts, self.path, self.book = ghosts, path, path.book

    def _tables(self, view: View) -> Tables:
        return Tables(self.book, self.ghosts, view, self.path.timeline.dirty)

    # UPDATE and DELETE

    def changed(self, change: Update | Delete) -> Term:
        """Writes what an UPDATE or DELETE writes; gives the number of rows."""
        info = change.scan.table
        if change.returning:
            raise outside("RETURNING")
        if isinstance(change, Update) and {one.place for one in change.sets} & set(key_places(info) or ()):
            raise outside("an UPDATE of a primary key")
        (visit,) = plan(change.scan, change.where).steps
        assert isinstance(visit, Visit)
        access = visit.access
        pointed = access is not None and access.unique == 0 and key_places(info) is not None
        timeline = self.path.timeline
        env, book = self.path.env.copy(), self.book
        before = self._seen_before(change)
        search, check = timeline.changing(self.book) if pointed else timeline.passing(self.book)
        found, again = self.path.view(search), self.path.view(check)
        seen = self._tables(found) if before is None else self._asked_before(change, before, pointed=pointed)

        def matches(view: View, key: Key) -> Term:
            inside = env.copy()
            row = view.row(info, key)
            inside.rows[change.scan.id] = row.values
            return smt.both(row.there, seen.reader().holds(change.where, inside))

        met: Callable[[Key], Term] = partial(matches, again)
        if search is not check:
            met = met_rows(self.path, info, change.where, partial(matches, found), met)
        if search is not check and pointed:
            survives = timeline.survivors(book, info, self.path.writes)
            met = lambda key: smt.both(matches(found, key), matches(again, key), survives(key))  # noqa: E731

        def hit(_: Book, key: Key) -> Term:
            return met(key)

        def after(key: Key) -> Row:
            row = again.row(info, key)
            if isinstance(change, Delete):
                return Row(smt.FALSE, row.values)
            inside = env.copy()
            inside.rows[change.scan.id] = row.values
            values = list(row.values)
            for one in change.sets:
                values[one.place] = seen.reader().value(one.value, inside)
                if one.slot is not None:
                    inside.bound[one.slot] = values[one.place]
            return Row(smt.TRUE, tuple(values))

        columns = None if isinstance(change, Delete) else frozenset(one.place for one in change.sets)
        was = None if isinstance(change, Delete) else partial(again.row, info)
        self.path.read(change, env, search, check, pointed=pointed)
        if pointed:
            assert access is not None
            keys = [seen.reader().value(node, env) for node in access.keys]
            key = terms_of(keys)
            self.book.point(info, key)
            written = smt.both(hit(self.book, key), *(smt.no(value.null) for value in keys))
            new = after(key)
            self._not_null(info, written, new)
            self.path.timeline.keep(self.book, Lock(info, key, written, check))
            self._write(info, key, written, new, columns, was=was)
            return smt.choose(written, smt.number(1), smt.number(0))
        self.path.timeline.keep_all(self.book, info, check, Universal((info,), hit))
        equations = tuple(self._equations(change, seen, env))
        alone = self._alone(info, hit) if key_places(info) is None else None
        self.path.writes += (
            Write(info, lambda key: (hit(book, key), after(key)), None, columns, equations, alone=alone, was=was),
        )
        many = self.book.fresh("many")
        self.book.fact(many >= 0)
        return many

    def _seen_before(self, change: Update | Delete) -> Base | None:
        """The state that queries inside of a change see on InnoDB, which asks them before it waits for a row."""
        nodes = [*change.where, *([one.value for one in change.sets] if isinstance(change, Update) else [])]
        if self.path.timeline.current and any(map(asks, nodes)):
            return self.path.timeline.newest(self.book)
        return None

    def _asked_before(self, change: Update | Delete, before: Base, *, pointed: bool) -> Tables:
        """What answers queries inside of a change from a state before its rows were waited for."""
        self.path.read(change, self.path.env.copy(), before, before)
        seen = self._tables(self.path.view(before))
        # Of several rows each is asked for at a time of its own.
        return seen if pointed else replace(seen, dirty=True)

    def _alone(self, info: TableInfo, hit: Callable[[Book, Key], Term]) -> tuple[Key, Term]:
        """A row such that either no other is hit, or there are two that are."""
        book = self.book
        one, other = book.fresh_key(info, "hit"), book.fresh_key(info, "hit")
        alone = book.fresh("alone", "boolean")
        two = smt.both(hit(book, one), hit(book, other), smt.no(smt.all_equal(one, other)))
        book.fact(smt.either(alone, two))
        book.universals.append(
            Universal(
                (info,),
                lambda inside, key: smt.either(smt.no(alone), smt.no(hit(inside, key)), smt.all_equal(key, one)),
            )
        )
        return one, alone

    @staticmethod
    def _equations(change: Update | Delete, seen: Tables, env: Environment) -> Iterator[tuple[int, Term]]:
        changed = {one.place for one in change.sets} if isinstance(change, Update) else set()
        for node in change.where:
            found = equation(node, {change.scan.id})
            if found is not None and found[0].place not in changed and not asks(found[1]):
                value = seen.reader().value(found[1], env)
                if value.term is not None:
                    yield found[0].place, value.term

    def _not_null(self, info: TableInfo, written: Term, new: Row) -> None:
        nonnull = info.nonnull
        for place, value in enumerate(new.values):
            if nonnull[place]:
                self.book.fact(smt.implies(written, smt.no(value.null)))

    def _write(
        self,
        info: TableInfo,
        key: Key,
        written: Term,
        new: Row,
        columns: frozenset[int] | None,
        replaces: bool = False,
        was: Callable[[Key], Row] | None = None,
    ) -> None:
        def at(other: Key) -> tuple[Term, Row]:
            return smt.both(written, smt.all_equal(key, other)), new

        self.path.writes += (Write(info, at, key, columns, replaces=replaces, was=was),)

    # INSERT

    def inserted(self, change: Insert) -> Term:
        """Writes the rows of an INSERT; gives their number."""
        if change.query is not None or change.batch is not None or change.returning:
            raise outside("INSERT … SELECT and RETURNING")
        if change.mode is not InsertMode.PLAIN:
            raise outside("an INSERT that ignores or replaces")
        plain = self._seen_by_insert(change)
        many: Term = smt.number(0)
        for row in change.rows:
            reader = self._tables(self.path.view(plain)).reader()
            values = tuple(reader.value(node, self.path.env) for node in row)
            many = many + self._insert(change, values)
        return many

    def _seen_by_insert(self, change: Insert) -> Base:
        """The state that queries among the values see. InnoDB locks what they read, where a plain read has a snapshot."""
        timeline = self.path.timeline
        if not change.queries:
            return timeline.commit
        current = timeline.level.reads is Reads.FIRST_READ
        return timeline.newest(self.book) if current else timeline.plain(self.book)

    def _insert(self, change: Insert, values: tuple[Value, ...]) -> Term:
        info = change.table
        places = key_places(info)
        commit = self.path.timeline.commit
        new = Row(smt.TRUE, values)
        if places is None:
            if change.conflict is not None:
                raise outside("ON CONFLICT in a table without a primary key")
            key = self.book.fresh_key(info, "inserted")
            self.path.fresh_rows.append((info, key))
            # Nor is it one that another round of a loop has made.
            self.book.fact(smt.no(self.path.view(commit).row(info, key).there))
            self._not_null(info, smt.TRUE, new)
            self._write(info, key, smt.TRUE, _with_values(info, new), None)
            return smt.number(1)
        key = terms_of([values[place] for place in places])
        self.book.point(info, key)
        if change.conflict is not None:
            return self._resolved(change.conflict, info, key, new)
        self._not_null(info, smt.TRUE, new)
        # A key that is taken fails; one that is free is kept free by the insert.
        self.book.fact(smt.no(self.path.view(commit).row(info, key).there))
        self._write(info, key, smt.TRUE, _with_values(info, new), None)
        return smt.number(1)

    def _resolved(self, conflict: OnConflict, info: TableInfo, key: Key, new: Row) -> Term:
        """ON CONFLICT on the primary key. The row that is there, or the key that is free, stays so until the commit."""
        if conflict.target != (0,):
            raise outside("ON CONFLICT of a key other than the primary one")
        if len(info.uniques) > 1:
            raise outside("ON CONFLICT in a table with several unique keys")
        timeline = self.path.timeline
        commit = timeline.commit
        there = self.path.view(commit).row(info, key)
        if not conflict.sets:
            # The row that is there is not locked: it was there at some time.
            newest = self.path.view(timeline.newest(self.book)).row(info, key)
            taken = newest.there
            self.book.fact(smt.either(taken, smt.no(there.there)))
            self._not_null(info, smt.no(taken), new)
            self._write(info, key, smt.no(taken), new, None)
            return smt.choose(taken, smt.number(0), smt.number(1))
        if conflict.where or any(asks(one.value) for one in conflict.sets):
            raise outside("ON CONFLICT … WHERE, or with a query")
        if timeline.level.reads is Reads.SNAPSHOT and timeline.level.writes is Writes.UNCHANGED:
            old = timeline.plain(self.book).row(info, key)
            base = commit.row(info, key)
            self.book.fact(smt.implies(there.there, same_row(old, base)))
        env = self.path.env.copy()
        env.rows[conflict.old], env.rows[conflict.new] = there.values, new.values
        reader = self._tables(self.path.view(commit)).reader()
        values = list(there.values)
        for one in conflict.sets:
            values[one.place] = reader.value(one.value, env)
        row = Row(
            smt.TRUE,
            tuple(merged(there.there, old, fresh) for old, fresh in zip(values, new.values, strict=True)),
        )
        self._not_null(info, smt.TRUE, row)
        timeline.keep(self.book, Lock(info, key, smt.TRUE, commit))
        self._write(info, key, smt.TRUE, row, None, replaces=True, was=lambda _: there)
        # MySQL and MariaDB count a row that is changed twice, and one that stays as it was not at all.
        many = self.book.fresh("many")
        self.book.fact(smt.both(many >= 0, many <= 2))
        return smt.choose(there.there, many, smt.number(1))


def _with_values(info: TableInfo, row: Row) -> Row:
    """A row that was inserted: where a column takes no null, the value is none."""
    values = zip(row.values, info.nonnull, strict=True)
    return Row(row.there, tuple(Value(one.term) if nonnull else one for one, nonnull in values))
