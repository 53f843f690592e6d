"""Parts of a log that have no table and no session in common: each is explained by itself, or the log is not.

The levels of the literature ask for an order (and for snapshots in it) in which every answer is right. What a statement
answers depends on its tables alone, so that orders of such parts explain the log side by side; real time does not change that:
each part's order fits into the times of its own transactions. Store models have locks and times of their own, and are asked about
whole logs.
"""

from __future__ import annotations

from isolde.engines.audit.audit import AuditOptions
from isolde.engines.audit.log import Refused, log_of
from isolde.engines.audit.readings import Reading
from isolde.engines.audit.unknowns import has_unknowns
from isolde.formats.tables import SqlHistory


def parts_by_tables(history: SqlHistory, options: AuditOptions, most: int) -> list[list[int]] | None:
    """At most so many parts of about equal size, as the places of their transactions; ``None``: the log is all one."""
    asked = [options.asked(level, history.settings) for level in options.levels]
    whole = options.order or options.skip_unsupported or options.encoding is not None or options.paper
    if whole or has_unknowns(history) or not all(isinstance(one, Reading) for one in asked):
        return None
    try:
        log = log_of(history, session_order=options.session_order)
    except Refused:
        return None
    if log.tables_change:
        return None
    joined = _Joined()
    tables = log.store.catalog.tables
    for reference in log.store.catalog.references:
        joined.join(("table", tables[reference.child].table.name), ("table", tables[reference.parent].table.name))
    for entry in log.entries:
        own = ("transaction", entry.number)
        for table in entry.tables:
            joined.join(own, ("table", table))
        if options.session_order:
            joined.join(own, ("session", entry.session))
    sets: dict[object, list[int]] = {}
    places = {one.id: place for place, one in enumerate(history.transactions)}
    for entry in log.entries:
        sets.setdefault(joined.root(("transaction", entry.number)), []).append(places[entry.id])
    bins: list[list[int]] = [[] for _ in range(min(most, len(sets)))]
    for one in sorted(sets.values(), key=len, reverse=True):
        min(bins, key=len).extend(one)
    return [sorted(one) for one in bins] if len(bins) > 1 else None


class _Joined:
    """Sets of things that can be joined."""

    def __init__(self) -> None:
        self._parents: dict[object, object] = {}

    def root(self, thing: object) -> object:
        while (parent := self._parents.get(thing, thing)) != thing:
            self._parents[thing] = self._parents.get(parent, parent)
            thing = parent
        return thing

    def join(self, one: object, other: object) -> None:
        self._parents[self.root(one)] = self.root(other)
