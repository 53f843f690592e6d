"""One way through a transaction: what is known on it, what variables hold, what was written, which states were met."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from isolde.semantics.core.catalog import TableInfo
from isolde.semantics.core.relations import Insert, Query, Scan, Statement, scans
from isolde.semantics.sets.expressions import Environment
from isolde.semantics.sets.seen import seen
from isolde.semantics.sets.state import Base, Book, Key, View, Write
from isolde.semantics.sets.timeline import Timeline
from isolde.semantics.sets.values import Symbol


def _tables(statement: Statement) -> list[TableInfo]:
    """The tables whose rows a statement finds."""
    if isinstance(statement, Query):
        return [leaf.table for leaf in scans(statement.source) if isinstance(leaf, Scan)]
    return [] if isinstance(statement, Insert) else [statement.scan.table]


@dataclass(frozen=True, slots=True)
class Focus:
    """The round of a loop that is looked at: by its number, or by the key of a row of ``table``."""

    key: Key
    table: TableInfo | None = None


class Read(NamedTuple):
    """A statement that read from a state, over what the transaction had ``written`` before, as far as it was ``shown``.

    ``only_where``: the state only told which rows were to be looked at again in a later one. ``spread``: each row was looked at
    at a time of its own before this state.
    """

    base: Base
    statement: Statement
    env: Environment
    written: tuple[Write, ...]
    shown: tuple[Write, ...]
    only_where: bool = False
    spread: bool = False


class Path:
    """``fresh_rows``: rows that the transaction made, of tables without a key: they are in no state before.

    ``reads``: what was read in which state. ``focus``: the rounds of loops that are looked at; a proof may choose them.
    """

    def __init__(self, book: Book, env: Environment, writes: tuple[Write, ...], timeline: Timeline) -> None:
        self.book, self.env, self.writes, self.timeline = book, env, writes, timeline
        self.fresh_rows: list[tuple[TableInfo, Key]] = []
        self.arguments: list[Symbol] = []
        self.focus: list[Focus] = []
        self.reads: list[Read] = []
        self._views: dict[tuple[int, int], View] = {}

    def copy(self) -> Path:
        new = Path(self.book.copy(), self.env.copy(), self.writes, self.timeline.copy())
        new.focus = list(self.focus)
        new.fresh_rows, new.arguments, new.reads = list(self.fresh_rows), self.arguments, list(self.reads)
        return new

    def read(self, statement: Statement, env: Environment, search: Base, check: Base, *, pointed: bool = True) -> None:
        """A statement found rows in one state and looked at them again in another; ``pointed``: there is at most one."""
        if search is not check:
            self.reads.append(Read(search, statement, env, self.writes, self.writes, True))
        # A row that was deleted while it was waited for is passed over, even if another has its key by then.
        again = any(self.timeline.may_return(info) for info in _tables(statement))
        spread = search is not check and (not pointed or again)
        shown = seen(self.timeline, check, self.writes, self.book)
        self.reads.append(Read(check, statement, env, self.writes, shown, spread=spread))

    def view(self, base: Base) -> View:
        """What the transaction sees of a state: its own writes over it."""
        index = (id(base), len(self.writes))
        if index not in self._views:
            self._views[index] = View(base, seen(self.timeline, base, self.writes, self.book))
            self.book.kept.append(self._views[index])
        return self._views[index]
