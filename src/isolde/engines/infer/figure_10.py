"""Sets of records in first-order logic: figure 10 of ACIDifier (Kaki et al., "Alone Together", POPL 2018).

A set is a pair: facts about predicates that nothing else is known of, and what it means that a record is in it. A set that
depends on a record of another one (``Bind``) gets a predicate with that record as one more argument. All facts are prenex: two
universal quantifiers before existential ones, as long as a bind is in no other bind but one.

Where the paper gives each half of a bind a name (π), which says whether it holds, it is told here: some predicate satisfies both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from isolde.semantics.core.catalog import TableInfo
from isolde.smt import terms as smt
from isolde.smt.terms import Term

Member = Callable[[TableInfo, Term], Term]
"""A state of the database: whether a record of a table is in it."""


@dataclass(frozen=True, slots=True)
class Held:
    """The records of a table in a state."""

    table: TableInfo
    state: Member


@dataclass(frozen=True, slots=True)
class Such:
    """``{x | says(x)}``."""

    table: TableInfo
    says: Callable[[Term], Term]


@dataclass(frozen=True, slots=True)
class Either:
    """One set or no record, by a condition."""

    condition: Term
    yes: SetOf

    @property
    def table(self) -> TableInfo:
        return self.yes.table


@dataclass(frozen=True, slots=True)
class Bind:
    """``source >>= then``: the union of what each record of a set gives, records of ``table``."""

    source: SetOf
    then: Callable[[Term], SetOf]
    table: TableInfo


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A set that is read from some state of which no more is known than ``known``: exists(Δ, φ, s)."""

    known: Callable[[Member], Sequence[Term]]
    then: Callable[[Member], SetOf]
    table: TableInfo


SetOf = Held | Such | Either | Bind | Forgotten


class Encoding:
    """``kinds``: the sort of the records of each table. ``facts``: what the sets that were encoded rest on."""

    def __init__(self, kinds: dict[int, Any], fresh: Callable[[str], str]) -> None:
        self.kinds, self.fresh = kinds, fresh
        self.facts: list[Term] = []

    def record(self, table: TableInfo, name: str = "r") -> Term:
        return smt.record(self.fresh(name), self.kinds[table.position])

    def state(self, name: str, free: Sequence[tuple[TableInfo, Term]] = ()) -> Member:
        """A state that nothing is known of: another one for each choice of the free records."""
        made: dict[int, Callable[..., Term]] = {}
        label, records = self.fresh(name), [one for _, one in free]

        def member(table: TableInfo, record: Term) -> Term:
            if table.position not in made:
                sorts = [self.kinds[info.position] for info, _ in free]
                made[table.position] = smt.of_records(
                    f"{label}.{table.table.name}", [*sorts, self.kinds[table.position]]
                )
            return made[table.position](*records, record)

        return member

    def encoded(self, found: SetOf, free: Sequence[tuple[TableInfo, Term]] = ()) -> Callable[[Term], Term]:
        """What it means that a record is in a set, where these records stand for any of their sets."""
        match found:
            case Held(table, state):
                return lambda record: state(table, record)
            case Such(_, says):
                return says
            case Either(condition, yes):
                inside = self.encoded(yes, free)
                return lambda record: smt.both(condition, inside(record))
            case Bind():
                return self._bind(found, free)
            case Forgotten(known, then):
                state = self.state("some", free)
                self.facts += [smt.for_all([one for _, one in free], fact) for fact in known(state)]
                return self.encoded(then(state), free)
            case _:
                assert_never(found)

    def _bind(self, bind: Bind, free: Sequence[tuple[TableInfo, Term]]) -> Callable[[Term], Term]:
        records = [one for _, one in free]
        source = self.encoded(bind.source, free)
        a, b = self.record(bind.source.table, "a"), self.record(bind.table, "b")
        given = self.encoded(bind.then(a), [*free, (bind.source.table, a)])
        sorts = [self.kinds[info.position] for info, _ in free]
        union = smt.of_records(self.fresh("bind"), [*sorts, self.kinds[bind.table.position]])
        both = smt.both(source(a), given(b))
        self.facts.append(smt.for_all([*records, a, b], smt.implies(both, union(*records, b))))
        self.facts.append(smt.for_all([*records, b], smt.there_is([a], smt.implies(union(*records, b), both))))
        return lambda record: union(*records, record)
