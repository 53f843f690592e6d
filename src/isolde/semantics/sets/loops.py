"""Loops that write: one round as it is, and all the others by what they may write.

Whatever number is looked at (``focus``), either the loop has a round of that number, which is run, or it has not. The rounds
before and after it write some rows of the tables that the body writes: where a part of the key is the number of the round, only
rows of other numbers; where it is the same in all rounds, only rows that have it. Which of those, and what they hold then, is not
known; a table into which every round inserts one row has that many more. A proof may choose ``focus`` as it likes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from isolde.semantics.core import steps as core
from isolde.semantics.core.catalog import TableInfo
from isolde.semantics.core.nodes import Apply, Coalesce, Constant, Expression, Variable
from isolde.semantics.sets.state import At, Book, Key, Rest, Write
from isolde.semantics.sets.values import Row, Value, column_sort, key_size
from isolde.smt import terms as smt
from isolde.smt.terms import Term

_NUMBER = re.compile(r"!(\d+)")


@dataclass(frozen=True, slots=True)
class Rounds:
    """How often a loop runs (``many``), and the number of the round that is looked at, from 0."""

    many: Term
    number: Term

    @property
    def inside(self) -> Term:
        """That there is a round of this number."""
        return smt.both(self.number >= 0, self.number < self.many)


def counters(body: Sequence[core.Step]) -> dict[int, int]:
    """Variables to which every round adds the same number, by slot; nothing else is assigned to them."""
    found: dict[int, int] = {}
    for step in body:
        if isinstance(step, core.Assign):
            added = _added(step.slot, step.value)
            if added is not None and step.slot not in found:
                found[step.slot] = added
            else:
                found.pop(step.slot, None)
    return found


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
    book: Book, ways: Sequence[Sequence[Write]], since: int, index: Sequence[Term], many: Term | None
) -> list[Write]:
    """What other rounds write, from the ways through one of them. ``since``: symbols with a larger number are a round's own.

    ``index``: terms that are another number in each round. ``many``: how many rounds these are, if all run to their end.
    """
    found: dict[tuple[object, ...], Write] = {}
    for way in ways:
        for write in way:
            parts = dict(enumerate(write.key)) if write.key is not None else dict(write.equations)
            fixed = {place: term for place, term in parts.items() if _before(term, since)}
            numbered = {place: term for place, term in parts.items() if any(smt.same_term(term, one) for one in index)}
            alone = many is not None and all(_inserts_once(one, write.table) for one in ways)
            like = (write.table.position, write.changed, _inserted(write), _named(fixed), _named(numbered))
            if like not in found:
                name = book.names.fresh("others")
                rest = Rest(fixed, numbered, many if alone else None)
                found[like] = Write(write.table, _any_rows(write, name, rest), None, write.changed, (), rest)
    several = {one.table.position for one in found.values() if sum(o.table is one.table for o in found.values()) > 1}
    # Where ways through a round insert in different places, it is not known how many rows come to which.
    return [
        one
        if one.rest is None or one.table.position not in several
        else replace(one, rest=replace(one.rest, many=None))
        for one in found.values()
    ]


def _inserted(write: Write) -> bool:
    return write.changed is None and write.key is not None and smt.is_true(write.at(write.key)[1].there)


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
        # A key that is taken fails.
        fits = before.there if write.changed is not None else smt.no(before.there) if comes else smt.TRUE
        may = smt.both(hit(*key), rest.may(key), fits)
        there = before.there if write.changed is not None else smt.truth(comes)
        return may, Row(there, tuple(new))

    return at


def _in_key(info: TableInfo, place: int) -> bool:
    return bool(info.table.primary_key) and place in info.uniques[0]
