"""Sums and counts over two tables that are joined by equations: of each row of the one, what the rows that it finds add up to.

``SUM(l.amount) FROM orders o JOIN line l ON l.order = o.id GROUP BY o.customer`` is, of the orders of a customer, the sum of the
sums of the lines of each (``each``). A new order adds what its lines add up to. Lines of a number add to the customer whose order
it is, where there is one order of that number (``matching`` counts them); where there are more, they are not followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from isolde.semantics.core.nodes import Column
from isolde.semantics.sets.aggregates import Ghost, Part, added
from isolde.semantics.sets.expressions import Environment, Reader
from isolde.semantics.sets.state import Book, Key, View, Write
from isolde.semantics.sets.values import terms_of
from isolde.smt import terms as smt
from isolde.smt.terms import Term

Use = tuple[View, Ghost, Key]


@dataclass(eq=False)
class Joined(Ghost):
    """``scan`` is the table that the groups are of; ``links``: columns of it that the groups of ``each`` are equal to, in order.

    ``matching`` counts the rows of a group (the first parts) that find the rows of a group of ``each`` (the others).
    """

    links: tuple[Column, ...] = ()
    each: Ghost | None = None
    matching: Ghost | None = None
    _asked: dict[tuple[int, tuple[int, ...]], list[Use]] = field(default_factory=dict)

    @property
    def sort(self) -> smt.Sort:
        assert self.each is not None
        return self.each.sort

    def term(self, book: Book, view: View, group: Key) -> Term:
        index = (id(view), smt.identity(group))
        if index not in self._values:
            self._asked[index] = []
            self._values[index] = (view, group, self._after(book, view, group, self._asked[index]))
        # Who asks for it asks for what it is made of.
        for use in self._asked[index]:
            book.use(*use)
        return self._values[index][2]

    def part(self, book: Book, view: View, key: Key) -> Part:
        part, use = self._part(book, view, key)
        book.use(*use)
        return part

    def _part(self, book: Book, view: View, key: Key) -> tuple[Part, Use]:
        assert self.each is not None
        row = view.row(self.table, key)
        env, reader = Environment(rows={self.scan.id: row.values}), Reader(book)
        (step,) = self.way.steps
        links, groups = ([reader.value(node, env) for node in nodes] for nodes in (self.links, self.groups))
        nulls = (smt.no(value.null) for value in (*links, *groups))
        counts = smt.both(row.there, reader.holds([*step.conditions, *self.way.last], env), *nulls)
        use = (view, self.each, terms_of(links))
        return Part(counts, terms_of(groups), self.each.term(book, *use[::2])), use

    def _after(self, book: Book, view: View, group: Key, asked: list[Use]) -> Term:
        if not view.writes or not self.touched(view):
            return self._function(view.base, view.base.name)(*group)
        write = view.writes[-1]
        before = self.term(book, view.before, group)
        asked += self._asked[id(view.before), smt.identity(group)]
        if not self._looks_at(write.table, write.changed):
            return before
        unknown = self._function(view, f"{view.name}.{id(view)}")(*group)
        if write.table is self.table:
            return self._of_rows(book, view, group, (before, unknown), asked)
        return self._of_found(book, view, group, (before, unknown), asked)

    def _of_rows(self, book: Book, view: View, group: Key, known: tuple[Term, Term], asked: list[Use]) -> Term:
        """A row of the grouped table comes, goes or changes."""
        write, (before, unknown) = view.writes[-1], known
        if write.rest is not None:
            named = {
                node.place: term for node, term in zip(self.groups, group, strict=True) if isinstance(node, Column)
            }
            return smt.choose(_out_of_reach(write, named), before, unknown)
        key = write.key if write.alone is None else write.alone[0]
        if key is None:
            return unknown
        (old, first), (new, second) = self._part(book, view.before, key), self._part(book, view, key)
        asked += [first, second]
        changed = before + added(new, group) - added(old, group)
        return changed if write.alone is None else smt.choose(write.alone[1], changed, unknown)

    def _of_found(self, book: Book, view: View, group: Key, known: tuple[Term, Term], asked: list[Use]) -> Term:
        """Rows of the other table come, go or change: all that one of its groups has, as far as can be told."""
        write, (before, unknown) = view.writes[-1], known
        each, matching = self.each, self.matching
        assert each is not None
        assert matching is not None
        if write.rest is not None:
            if each.never_counts(book, view, write):
                return before
            named = dict(self._as_columns_of_each(group))
            return smt.choose(_out_of_reach(write, named), before, unknown)
        found = self._one_group(book, view, write)
        if found is None:
            return unknown
        if smt.is_false(found[1]):
            return before
        place, _ = found
        uses: list[Use] = [(view, each, place), (view.before, each, place), (view.before, matching, (*group, *place))]
        asked += uses
        new, old, many = (ghost.term(book, one, key) for one, ghost, key in uses)
        there = smt.choose(many == 1, before + new - old, unknown)
        return smt.choose(smt.either(many == 0, smt.equal(new, old)), before, there)

    def _as_columns_of_each(self, group: Key) -> Iterator[tuple[int, Term]]:
        """What columns of the other table are in the rows that a group finds."""
        assert self.each is not None
        for node, term in zip(self.groups, group, strict=True):
            for link, found in zip(self.links, self.each.groups, strict=True):
                if link == node and isinstance(found, Column):
                    yield found.place, term

    def _one_group(self, book: Book, view: View, write: Write) -> tuple[Key, Term] | None:
        """The group of ``each`` that a write is about, and whether anything counts in it."""
        each = self.each
        assert each is not None
        if write.key is None:
            named = dict(write.equations)
            places = [node.place for node in each.groups if isinstance(node, Column)]
            if not all(place in named for place in places):
                return None
            return tuple(named[place] for place in places), smt.TRUE
        old, new = each.part(book, view.before, write.key), each.part(book, view, write.key)
        book.point(each.table, write.key)
        if write.changed is None and smt.is_true(write.at(write.key)[1].there) and not write.replaces:
            return new.group, new.counts
        if not all(smt.same_term(one, other) for one, other in zip(old.group, new.group, strict=True)):
            return None
        return old.group, smt.either(old.counts, new.counts)


def _out_of_reach(write: Write, named: dict[int, Term]) -> Term:
    """That a group with these columns is none of those that other rounds of a loop may write to."""
    assert write.rest is not None
    fixed = [smt.equal(term, write.rest.fixed[place]) for place, term in named.items() if place in write.rest.fixed]
    numbered = [
        smt.equal(term, write.rest.numbered[place]) for place, term in named.items() if place in write.rest.numbered
    ]
    return smt.either(smt.no(smt.every(fixed)), *numbered)
