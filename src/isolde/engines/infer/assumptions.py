"""What may be assumed of the committed states that a transaction meets: keys, invariants, the rely between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from isolde.engines.infer.candidates import Candidate
from isolde.engines.infer.problem import Problem
from isolde.semantics.core.catalog import Catalog, TableInfo
from isolde.semantics.core.relations import Query
from isolde.semantics.sets.ghosts import Ghosts
from isolde.semantics.sets.invariants import Condition, changed_tables, tables_of
from isolde.semantics.sets.path import Path
from isolde.semantics.sets.queries import Tables
from isolde.semantics.sets.state import Base, Book, Key, Universal, View
from isolde.semantics.sets.timeline import Waited
from isolde.semantics.sets.values import key_places, terms_of
from isolde.smt import terms as smt
from isolde.smt.terms import Term


def assume(book: Book, ghosts: Ghosts, condition: Condition, view: View) -> None:
    """A state satisfies an invariant."""
    if condition.twice and not view.writes:
        book.distinct.add((id(view.base), condition.rows[0].table.position, condition.twice))

    def holds(inside: Book, *keys: Key) -> Term:
        return smt.no(condition.violated(Tables(inside, ghosts, view), keys))

    if condition.rows:
        book.universals.append(Universal(tuple(scan.table for scan in condition.rows), holds))
    else:
        book.fact(holds(book))


def assume_rely(book: Book, candidate: Candidate, old: Base, new: Base) -> None:
    """From one state to a later one a candidate holds, if its label does."""
    named = label(candidate.name)

    def holds(inside: Book, key: Key) -> Term:
        return smt.implies(named, candidate.step(inside, old, new, key))

    book.universals.append(Universal((candidate.table,), holds))


def assume_absence(book: Book, candidates: Sequence[Candidate], waited: Waited) -> None:
    """A row that was not there all the time between two states was absent in some state between, to which the rely leads."""
    between: dict[tuple[int, ...], tuple[Key, Base]] = {}
    concerned = [one for one in candidates if one.table is waited.table]

    def absent(inside: Book, key: Key) -> Term:
        index = smt.identity(key)
        if index not in between:
            between[index] = (key, Base(inside.names.fresh("between")))
        middle = between[index][1]
        steps = [
            smt.implies(label(one.name), one.step(inside, old, new, key))
            for one in concerned
            for old, new in ((waited.found, middle), (middle, waited.again))
        ]
        gone = smt.both(smt.no(middle.row(waited.table, key).there), *steps)
        there = smt.both(waited.found.row(waited.table, key).there, waited.again.row(waited.table, key).there)
        return smt.either(smt.no(there), waited.same(*key), gone)

    book.universals.append(Universal((waited.table,), absent))


def assume_constraints(book: Book, problem: Problem, view: View) -> None:
    """What the database itself sees to in every committed state: unique and foreign keys, CHECKs."""
    for check in problem.checks:
        if check.tables & problem.named:
            assume(book, problem.ghosts, check, view)
    for info in problem.catalog.tables:
        for place, unique in enumerate(info.uniques):
            if (place > 0 or key_places(info) is None) and info.position in problem.named:
                book.universals.append(_unique(view, info, unique))
    for universal in _references(problem.catalog, view):
        if any(info.position in problem.named for info in universal.tables):
            book.universals.append(universal)


def label(name: str) -> Term:
    """The truth value that says whether a candidate is part of the rely."""
    return smt.constant(f"rely {name}", "boolean")


def looked(path: Path) -> dict[int, tuple[frozenset[int], bool]]:
    """The tables that were read in each state, and whether groups were: what is known of the rest of it is not needed."""
    found: dict[int, tuple[frozenset[int], bool]] = {}
    grouped = {id(view.base) for view, _, _, _ in path.book.uses.values()}
    for base, statement, *_ in path.reads:
        if isinstance(statement, Query):
            tables = frozenset(tables_of(statement))
            if statement.limit is not None:
                # The first of several rows is the smallest of a group.
                grouped.add(id(base))
        else:
            tables = frozenset(changed_tables(statement))
        found[id(base)] = (found.get(id(base), (frozenset(), False))[0] | tables, id(base) in grouped)
    return found


def counting(info: TableInfo, old: Base, new: Base) -> Universal:
    """Counters of commits only rise."""

    def rise(_: Book, key: Key) -> Term:
        return smt.both(
            old.counter(info, "written", key) <= new.counter(info, "written", key),
            old.counter(info, "locked", key) <= new.counter(info, "locked", key),
        )

    return Universal((info,), rise)


def _unique(view: View, info: TableInfo, places: tuple[int, ...]) -> Universal:
    def distinct(_: Book, one: Key, other: Key) -> Term:
        left, right = view.row(info, one), view.row(info, other)
        parts = [(left.values[place], right.values[place]) for place in places]
        nulls = smt.some(smt.either(a.null, b.null) for a, b in parts)
        equal = smt.every(smt.equal(a.known, b.known) for a, b in parts)
        return smt.implies(smt.both(left.there, right.there, smt.no(nulls), equal), smt.all_equal(one, other))

    return Universal((info, info), distinct)


def _references(catalog: Catalog, view: View) -> Iterator[Universal]:
    for reference in catalog.references:
        child, parent = catalog.tables[reference.child], catalog.tables[reference.parent]
        places = key_places(parent)
        if places is None or set(places) != set(reference.parent_columns):
            continue
        columns = [reference.child_columns[reference.parent_columns.index(place)] for place in places]

        def refers(
            book: Book, key: Key, child: TableInfo = child, parent: TableInfo = parent, columns: list[int] = columns
        ) -> Term:
            row = view.row(child, key)
            values = [row.values[place] for place in columns]
            nulls = smt.some(value.null for value in values)
            return smt.implies(smt.both(row.there, smt.no(nulls)), book.row(view, parent, terms_of(values)).there)

        yield Universal((child,), refers)
