"""Loops that write: one round as it is, and all the others by what they may write.

Whatever number is looked at (``focus``), either the loop has a round of that number, which is run, or it has not. The rounds
before and after it write some rows of the tables that the body writes: where a part of the key is the number of the round, only
rows of other numbers; where it is the same in all rounds, only rows that have it. Which of those, and what they hold then, is not
known; a table into which every round inserts one row has that many more. A proof may choose ``focus`` as it likes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from isolde.semantics.core import steps as core
from isolde.semantics.core.catalog import TableInfo
from isolde.semantics.core.nodes import Apply, Coalesce, Constant, Expression, Variable
from isolde.semantics.core.relations import Query
from isolde.semantics.core.types import Sort, ValueType
from isolde.semantics.sets.havoc import all_steps
from isolde.semantics.sets.state import At, Book, Key, Rest, Write
from isolde.semantics.sets.values import Row, Value, column_sort, key_places, key_size
from isolde.smt import terms as smt
from isolde.smt.terms import Term

_NUMBER = re.compile(r"!(\d+)")


@dataclass(frozen=True, slots=True)
class Rounds:
    """How often a loop runs (``many``); the round that is looked at by its number from 0, and by what tells it (``focus``).

    ``inside``: that there is such a round.
    """

    many: Term
    number: Term
    focus: Term
    inside: Term


def counters(body: Sequence[core.Step]) -> dict[int, int]:
    """Variables to which every round adds the same number, by slot; nothing else is assigned to them."""
    if any(isinstance(one, core.Jump) for one in all_steps(body)):
        # A round may end before it adds.
        return {}
    found: dict[int, int] = {}
    for step in body:
        if isinstance(step, core.Assign):
            added = _added(step.slot, step.value)
            if added is not None:
                found[step.slot] = added
    often = Counter(slot for slot, _ in assigned(body))
    return {slot: added for slot, added in found.items() if often[slot] == 1}


def assigned(steps: Sequence[core.Step]) -> Iterator[tuple[int, ValueType]]:
    """The variables that steps and those inside of them assign to, with the types that they get, as often as they are named."""
    for one in all_steps(steps):
        match one:
            case core.Assign(slot, value):
                yield slot, value.type
            case core.AssignRow(slot):
                yield slot, ValueType(Sort.ROW)
            case core.Fetch() | core.FetchCursor():
                for assign in one.assigns:
                    kind = assign.value.type if isinstance(assign, core.Assign) else _row_type(one)
                    yield assign.slot, kind
                if one.found is not None:
                    yield one.found.slot, one.found.value.type
            case core.FetchAll(_, slot):
                yield slot, ValueType(Sort.ROWS)
            case core.Draw() | core.Pick():
                yield one.assign.slot, one.assign.value.type
            case core.Run(_, _, assign) if assign is not None:
                yield assign.slot, assign.value.type
            case core.ForRange(slot, first):
                yield slot, first.type
            case core.ForEach():
                for given in (*one.before, *one.assigns):
                    yield given.slot, given.value.type if isinstance(given, core.Assign) else ValueType(Sort.ROW)
            case _:
                pass


def _row_type(step: core.Fetch | core.FetchCursor) -> ValueType:
    if isinstance(step, core.Fetch) and isinstance(step.statement, Query):
        return ValueType(Sort.ROW, columns=tuple((one.name, one.type) for one in step.statement.outputs))
    return ValueType(Sort.ROW)


def _added(slot: int, node: Expression) -> int | None:
    if isinstance(node, Coalesce):
        node = node.arguments[0]
    match node:
        case Apply(primitive, (Variable(slot=read), Constant(value=int(number)))) if (
            primitive.smt == "+" and read == slot
        ):
            return number
        case _:
            return None


def others(
    book: Book, ways: Sequence[Sequence[Write]], since: int, index: Sequence[Key], many: Term | None
) -> list[Write]:
    """What other rounds write, from the ways through one of them. ``since``: symbols with a larger number are a round's own.

    ``index``: terms that together are something else in each round. ``many``: how many rounds these are, if all run to their end.
    """
    found: dict[tuple[object, ...], Write] = {}
    for way in ways:
        for write in way:
            given = _given(write, ways, since)
            parts = _parts(write, ways)
            fixed = {place: term for place, term in parts.items() if _before(term, since)}
            apart = tuple(found_ for one in index if (found_ := _places(parts, one)) is not None)
            numbered = {place: term for one in apart if len(one) == 1 for place, term in one.items()}
            alone = many is not None and all(_inserts_once(one, write.table) for one in ways)
            like = (write.table.position, write.changed, _inserted(write), _named(fixed), *map(_named, apart))
            like += (tuple((place, *smt.identity([one.term, one.null])) for place, one in given.items()),)
            if like not in found:
                name = book.names.fresh("others")
                rest = Rest(
                    fixed, numbered, many if alone else None, tuple(one for one in apart if len(one) > 1), given
                )
                found[like] = Write(write.table, _any_rows(write, name, rest), None, write.changed, (), rest)
    several = {one.table.position for one in found.values() if sum(o.table is one.table for o in found.values()) > 1}
    # Where ways through a round insert in different places, it is not known how many rows come to which.
    return [
        one
        if one.rest is None or one.table.position not in several
        else replace(one, rest=replace(one.rest, many=None))
        for one in found.values()
    ]


def _parts(write: Write, ways: Sequence[Sequence[Write]]) -> dict[int, Term]:
    """Columns of the rows that a statement of a round writes, by place, as far as they are the same as long as the loop runs."""
    places = key_places(write.table)
    keyed = dict(zip(places, write.key, strict=True)) if places is not None and write.key is not None else {}
    if write.key is None:
        mine = [one for way in ways for one in way if one.table is write.table]
        updated = set[int]().union(*(one.changed for one in mine if one.changed is not None))
        if any(one.replaces for one in mine):
            # INSERT … ON CONFLICT changes any column, but for those of the key.
            updated |= set(range(len(write.table.types))) - set(places or ())
        return {place: term for place, term in write.equations if place not in updated}
    if _inserted(write) and _inserts_alone(write.table, ways):
        values = write.at(write.key)[1].values
        named = {place: one.term for place, one in enumerate(values) if smt.is_false(one.null) and one.term is not None}
        return named | keyed
    return keyed


def _given(write: Write, ways: Sequence[Sequence[Write]], since: int) -> dict[int, Value]:
    """What every round puts into a column, where rows are inserted and not changed any more."""
    if write.key is None or not _inserted(write) or not _inserts_alone(write.table, ways):
        return {}
    values = enumerate(write.at(write.key)[1].values)
    return {
        place: one
        for place, one in values
        if one.term is not None
        and not _in_key(write.table, place)
        and _before(one.term, since)
        and _before(one.null, since)
    }


def _inserts_alone(table: TableInfo, ways: Sequence[Sequence[Write]]) -> bool:
    return all(_inserted(one) for way in ways for one in way if one.table is table)


def _places(parts: Mapping[int, Term], key: Key) -> dict[int, Term] | None:
    """Where in a written key all of these terms are."""
    found = {}
    for term in key:
        place = next((place for place, one in parts.items() if smt.same_term(one, term)), None)
        if place is None:
            return None
        found[place] = term
    return found


def _inserted(write: Write) -> bool:
    if write.changed is not None or write.key is None or write.replaces:
        return False
    return smt.is_true(write.at(write.key)[1].there)


def _inserts_once(way: Sequence[Write], table: TableInfo) -> bool:
    mine = [write for write in way if write.table is table]
    return len(mine) == 1 and _inserted(mine[0]) and smt.is_true(mine[0].at(mine[0].key)[0])


def _named(parts: Mapping[int, Term]) -> tuple[object, ...]:
    return tuple(sorted((place, *smt.identity([term])) for place, term in parts.items()))


def _before(term: Term, since: int) -> bool:
    return all(int(number) <= since for name in smt.symbols(term) for number in _NUMBER.findall(name))


def _any_rows(write: Write, name: str, rest: Rest) -> At:
    info = write.table
    size = key_size(info)
    hit = smt.function(f"{name}.hit", size, "boolean")
    places = range(len(info.types)) if write.changed is None else sorted(write.changed)
    values = {
        place: (
            smt.function(f"{name}.{place}", size, column_sort(info, place)),
            None if info.nonnull[place] else smt.function(f"{name}.{place}.null", size, "boolean"),
        )
        for place in places
    }
    comes = _inserted(write)

    def at(key: Key, before: Row | None = None) -> tuple[Term, Row]:
        assert before is not None
        new = list(before.values)
        for place, (made, null) in values.items():
            if not _in_key(info, place):
                new[place] = Value(made(*key), smt.FALSE if null is None else null(*key))
        for place, value in rest.given.items():
            new[place] = value
        # A key that is taken fails.
        fits = before.there if write.changed is not None else smt.no(before.there) if comes else smt.TRUE
        may = smt.both(hit(*key), rest.may(new if comes else before.values), fits)
        there = before.there if write.changed is not None else smt.truth(comes or write.replaces)
        return may, Row(there, tuple(new))

    return at


def _in_key(info: TableInfo, place: int) -> bool:
    return place in (key_places(info) or ())
