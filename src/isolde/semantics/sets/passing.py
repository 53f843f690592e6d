"""Which rows a statement meets that goes through several, while others commit: it looks at each row at a time of its own.

PostgreSQL at READ COMMITTED goes through the rows that match in its snapshot and looks again at those that it had to wait for.
InnoDB goes through the newest rows: one that comes where it has been already is not met, and one that came later may be. What is
certain is said of rows that match in both states, before and after, on columns that nobody updates; the rest may be met or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from isolde.levels.specifications import Writes
from isolde.semantics.core.catalog import TableInfo
from isolde.semantics.core.nodes import Column, Exists, Expression, Member, Scalar, below
from isolde.semantics.sets.path import Path
from isolde.semantics.sets.state import Key
from isolde.semantics.sets.values import key_size
from isolde.smt import terms as smt
from isolde.smt.terms import Term

Matches = Callable[[Key], Term]


def met(path: Path, info: TableInfo, where: Sequence[Expression], early: Matches, late: Matches) -> Matches:
    """Whether a row is met, and matches then; ``early`` and ``late``: whether it matches in the first state and in the last."""
    timeline = path.timeline
    survives = timeline.survivors(path.book, info, path.writes)
    held = timeline.held(info, path.writes)
    steady = smt.truth(nobody_updates(path, info, where))
    perhaps = smt.function(path.book.names.fresh("met"), key_size(info), "boolean")

    def recheck(key: Key) -> Term:
        certain = smt.either(held(key), smt.both(steady, survives(key)))
        return smt.both(early(key), late(key), smt.either(certain, perhaps(*key)))

    def current(key: Key) -> Term:
        certain = smt.either(held(key), smt.both(early(key), steady, survives(key)))
        return smt.both(late(key), smt.either(certain, perhaps(*key)))

    return recheck if timeline.level.writes is Writes.RECHECK else current


def nobody_updates(path: Path, info: TableInfo, nodes: Sequence[Expression]) -> bool:
    """Whether what these expressions say of a row of a table cannot change as long as the row is there."""
    updated = path.timeline.others.updated
    for node in nodes:
        for part in below(node):
            if isinstance(part, Exists | Member | Scalar):
                return False
            if isinstance(part, Column) and (info.position, part.place) in updated:
                return False
    return True
