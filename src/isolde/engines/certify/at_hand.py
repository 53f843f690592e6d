"""Statements of one table that see the shared state and their transaction's own writes: most of a history.

They find their rows by the table's indexes, and what they read, answer and write follows from those rows alone. Nothing is
written anywhere, so that nothing has to be taken back. What is not as plain as that, or fails, is left to ``running.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from isolde.engines.certify.answers import Answer, difference
from isolde.engines.certify.fit import Place
from isolde.engines.certify.running import Evaluated
from isolde.engines.certify.shared import Shared
from isolde.engines.certify.views import Few, Overlay
from isolde.engines.certify.world import World
from isolde.errors import ExecutionError, OutsideFragment
from isolde.history import Sql
from isolde.semantics.concrete.store import Store
from isolde.semantics.tables.view import Numbered, Row


@dataclass(slots=True)
class Laid:
    """What lies over the shared state for one statement: versions by object, and those that are its transaction's own."""

    versions: dict[int, Place | None] = field(default_factory=dict)
    own: dict[int, Row | None] = field(default_factory=dict)


class AtHand:
    """The statements of one history that can be run on the shared state as it is."""

    def __init__(self, world: World, store: Store, shared: Shared) -> None:
        self.world, self.store, self.shared = world, store, shared

    def evaluated(self, place: Place, laid: Laid) -> Evaluated | None:
        """What a statement does on the shared state under its transaction's own writes; ``None`` if it is not that plain."""
        world, shared, store = self.world, self.shared, self.store
        asked = world.asked[place]
        form = asked.form
        if not form.plain:
            return None
        (position,) = form.tables
        own, table = laid.own, shared.tables[position]
        tables: list[Any] = list(shared.tables)
        if own:
            tables[position] = Overlay(table, world.catalog, own, [], world.objects.number)
        store.tables = tables
        try:
            pairs = form.found(store, *asked.values)  # type: ignore[misc]
            if form.what == "query":
                tables[position] = Few(table.info, pairs, [])
                rows = form.run(store, *asked.values)
                evaluated, answer = Evaluated(), Answer(rows, len(rows), len(rows))
            elif form.after is None:
                evaluated, answer = Evaluated([], dict.fromkeys([number for number, _ in pairs]), dict(pairs)), None
            else:
                evaluated, answer = _updated(form.after(store, *asked.values, pairs))
        except (ExecutionError, OutsideFragment):
            return None
        if answer is None:
            answer = Answer([], len(pairs), len(pairs))
        if form.reads_rows:
            evaluated.used = self._used(pairs, own)
        op = world.history.transactions[place[0]].ops[place[1]]
        assert isinstance(op, Sql)
        evaluated.wrong = difference(op.content, form, answer, world.sql.counts)
        return evaluated

    def _used(self, pairs: list[Numbered], own: dict[int, Row | None]) -> list[tuple[int, Place | None]]:
        version = self.shared.versions.get
        if own:
            return [(number, version(number)) for number, _ in pairs if number not in own]
        return [(number, version(number)) for number, _ in pairs]


def _updated(hits: list[tuple[int, Row, Row]]) -> tuple[Evaluated, Answer]:
    written: dict[int, Row | None] = {}
    before: dict[int, Row | None] = {}
    changed = 0
    for number, old, new in hits:
        written[number], before[number] = new, old
        changed += old != new
    return Evaluated([], written, before), Answer([], len(hits), changed)
