"""Writes of which only the table is known: of loops, and of branches that no invariant looks at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from isolde.semantics.core import steps as core
from isolde.semantics.core.catalog import TableInfo
from isolde.semantics.core.relations import Delete, Insert, Query, Statement, Update
from isolde.semantics.sets.state import Book, Key, Rest, Write
from isolde.semantics.sets.values import Row, Value, column_sort, key_places, key_size
from isolde.smt import terms as smt
from isolde.smt.terms import Term

Written = dict[int, tuple[TableInfo, frozenset[int] | None]]
"""By position: a table and the columns of it that are updated, ``None`` if rows may come or go."""


def all_steps(steps: Sequence[core.Step]) -> Iterator[core.Step]:
    """Steps with those inside of them."""
    for step in steps:
        yield step
        match step:
            case core.If(branches, otherwise):
                for _, body in branches:
                    yield from all_steps(body)
                yield from all_steps(otherwise)
            case core.ForEach() | core.ForRange() | core.While():
                yield from all_steps(step.body)
            case _:
                pass


def statements(steps: Sequence[core.Step]) -> Iterator[Statement]:
    """The statements of steps and of those inside of them."""
    for step in all_steps(steps):
        if isinstance(step, core.Run | core.Fetch | core.FetchAll):
            yield step.statement
        elif isinstance(step, core.ForEach) and not isinstance(step.rows, int):
            yield step.rows


def written(steps: Sequence[core.Step]) -> Written:
    """What steps may write."""
    found: Written = {}
    for statement in statements(steps):
        if isinstance(statement, Query):
            continue
        info, columns = _changed(statement)
        before = found.get(info.position, (info, frozenset[int]()))[1]
        found[info.position] = (info, None if columns is None or before is None else before | columns)
    return found


def _changed(statement: Insert | Update | Delete) -> tuple[TableInfo, frozenset[int] | None]:
    if isinstance(statement, Insert):
        return statement.table, None
    columns = frozenset(one.place for one in statement.sets) if isinstance(statement, Update) else None
    return statement.scan.table, columns


def anything(book: Book, parts: Written) -> tuple[Write, ...]:
    """That some rows were written, whichever they are and whatever they hold now."""
    return tuple(_anything(book, info, columns) for info, columns in parts.values())


def _anything(book: Book, info: TableInfo, columns: frozenset[int] | None) -> Write:
    name, size = book.names.fresh("written"), key_size(info)
    hit = smt.function(f"{name}.hit", size, "boolean")
    stays = smt.function(f"{name}.there", size, "boolean")
    own = key_places(info) or ()
    places = [place for place in range(len(info.types)) if columns is None or place in columns]
    values = {
        place: (
            smt.function(f"{name}.{place}", size, column_sort(info, place)),
            None if info.nonnull[place] else smt.function(f"{name}.{place}.null", size, "boolean"),
        )
        for place in places
        if place not in own
    }

    def at(key: Key, before: Row) -> tuple[Term, Row]:
        new = list(before.values)
        for place, (made, null) in values.items():
            new[place] = Value(made(*key), smt.FALSE if null is None else null(*key))
        if columns is not None:
            return smt.both(hit(*key), before.there), Row(before.there, tuple(new))
        return hit(*key), Row(stays(*key), tuple(new))

    return Write(info, at, None, columns, (), Rest({}, {}, None))


def silent(
    steps: Sequence[core.Step], named: frozenset[int], looked: frozenset[tuple[int, int]], nesting: int
) -> Written | None:
    """What steps write, if no invariant looks at it (``named`` tables, ``looked`` columns), no lock is asked for and they always
    go on with what follows. Then it does not matter which way through them is taken. ``nesting``: how many loops are around them.
    """
    for step in all_steps(steps):
        match step:
            case core.Abort() | core.Wrong() | core.Return() | core.Call() | core.OpenCursor() | core.FetchCursor():
                return None
            case core.Jump(depth):
                if depth < nesting:
                    return None
            case _:
                pass
    for statement in statements(steps):
        if isinstance(statement, Query):
            if statement.lock is not None:
                return None
        elif not _unlooked(statement, named, looked):
            return None
    return written(steps)


def _unlooked(statement: Insert | Update | Delete, named: frozenset[int], looked: frozenset[tuple[int, int]]) -> bool:
    info, columns = _changed(statement)
    if statement.returning:
        return False
    if info.position not in named:
        return True
    if columns is None or columns & set(key_places(info) or ()):
        return False
    return not any((info.position, place) in looked for place in columns)
