"""What a group's aggregate has to do with single rows."""

from __future__ import annotations

from isolde.semantics.core.nodes import Column
from isolde.semantics.sets.aggregates import Ghost, added
from isolde.semantics.sets.joined import Joined
from isolde.semantics.sets.state import Book, Key, Universal, View
from isolde.semantics.sets.values import key_places
from isolde.smt import terms as smt
from isolde.smt.terms import Term


def ties(book: Book, view: View, ghost: Ghost, group: Key, *, near: bool) -> None:
    """What a group's aggregate has to do with single rows, as facts and as facts about all rows.

    ``near``: the transaction or the goal asks for it; of others, counts and sums are not told which rows they are of.
    """
    count = ghost.count or ghost
    many = count.term(book, view, group)
    book.fact(many >= 0)
    value = ghost.term(book, view, group)
    if isinstance(ghost, Joined):
        # Its rows are pairs; what they have to do with it is said of the aggregates of which it is made.
        book.fact(smt.implies(many == 0, value == 0))
        return

    def belongs(inside: Book, key: Key) -> Term:
        part = count.part(inside, view, key)
        return smt.both(part.counts, smt.all_equal(part.group, group))

    book.universals.append(Universal((ghost.table,), lambda inside, key: smt.implies(belongs(inside, key), many >= 1)))

    if not near and ghost.kind in {"count", "sum"}:
        book.fact(smt.implies(many == 0, value == 0))
        return
    witness = book.fresh_key(ghost.table, "witness")
    book.fact(smt.implies(many >= 1, belongs(book, witness)))

    def two(inside: Book, one: Key, other: Key) -> Term:
        return smt.implies(
            smt.both(belongs(inside, one), belongs(inside, other), smt.no(smt.all_equal(one, other))), many >= 2
        )

    match ghost.kind:
        case "count":
            book.universals.append(Universal((ghost.table, ghost.table), two))
            other = book.fresh_key(ghost.table, "witness")
            book.fact(smt.implies(many >= 2, smt.both(belongs(book, other), smt.no(smt.all_equal(other, witness)))))
        case "sum":
            book.fact(smt.implies(many == 0, value == 0))
            alone = ghost.part(book, view, witness).measure
            book.fact(smt.implies(many == 1, value == alone))
        case "max" | "min":
            least = ghost.kind == "min"

            def bounded(inside: Book, key: Key) -> Term:
                measure = ghost.part(inside, view, key).measure
                return smt.implies(belongs(inside, key), measure >= value if least else measure <= value)

            book.universals.append(Universal((ghost.table,), bounded))
            if ghost.opposite is not None:
                _dense(book, view, ghost, group, many)
            book.fact(smt.implies(many >= 1, ghost.part(book, view, witness).measure == value))


def _dense(book: Book, view: View, ghost: Ghost, group: Key, many: Term) -> None:
    """There are no more rows than numbers from the smallest to the largest; if there are as many, all of them are there."""
    assert ghost.opposite is not None
    book.use(view, ghost.opposite, group)
    one, other = ghost.term(book, view, group), ghost.opposite.term(book, view, group)
    low, high = (one, other) if ghost.kind == "min" else (other, one)
    assert isinstance(ghost.operand, Column)
    places = key_places(ghost.table)
    if places is None:
        _dense_if_distinct(book, view, ghost, group, (low, high, many))
        return
    book.fact(smt.implies(many >= 1, many <= high - low + 1))
    named = {node.place: term for node, term in zip(ghost.groups, group, strict=True) if isinstance(node, Column)}
    number = places.index(ghost.operand.place)

    def there(_: Book, key: Key) -> Term:
        alike = smt.every(smt.equal(key[places.index(place)], term) for place, term in named.items())
        between = smt.both(low <= key[number], key[number] <= high, many == high - low + 1, many >= 1)
        return smt.implies(smt.both(alike, between), view.row(ghost.table, key).there)

    book.universals.append(Universal((ghost.table,), there))
    for term in (low + 1, high):
        book.point(ghost.table, tuple(named.get(place, term) for place in places))


def _dense_if_distinct(book: Book, view: View, ghost: Ghost, group: Key, told: tuple[Term, Term, Term]) -> None:
    """The same of a table without a key, where no two rows of a group have the same number."""
    nodes = [*ghost.groups, ghost.operand]
    places = frozenset(node.place for node in nodes if isinstance(node, Column))
    alone = (id(view.base), ghost.table.position, places) in book.distinct
    if not alone or any(write.table is ghost.table for write in view.writes):
        return
    low, high, many = told
    part = ghost.part(book, view, book.fresh_key(ghost.table, "next"))
    book.fact(smt.implies(many >= 1, many <= high - low + 1))
    full = smt.both(many >= 2, many == high - low + 1)
    there = smt.both(part.counts, smt.all_equal(part.group, group), smt.equal(part.measure, low + 1))
    book.fact(smt.implies(full, there))


def compared(book: Book, one: tuple[View, Ghost, Key], other: tuple[View, Ghost, Key]) -> None:
    """Two sums (or counts) over rows of one table are equal, unless some row adds another amount to one of them."""
    row = book.fresh_key(one[1].table, "differs")
    terms = [ghost.term(book, view, group) for view, ghost, group in (one, other)]
    adds = [added(ghost.part(book, view, row), group) for view, ghost, group in (one, other)]
    book.fact(smt.either(smt.equal(*terms), smt.no(smt.equal(*adds))))
