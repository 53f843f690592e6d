"""One statement on its tables: its answer, the rows that it used, and those that it wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from isolde.engines.certify.answers import Answer
from isolde.engines.certify.fit import Place
from isolde.engines.certify.statements import Asked
from isolde.engines.certify.views import Few, Overlay, WithNumbers
from isolde.engines.certify.world import Undecidable, World
from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.concrete.store import Store
from isolde.semantics.tables.memory import MemoryTable
from isolde.semantics.tables.view import Numbered, Row, TableView, Undo, take_back


@dataclass(slots=True)
class Evaluated:
    """``used`` are rows that were read, with the version of each (``None``: the initial one); own versions are left out.

    ``written`` are rows after the statement, ``before`` the same before it; ``wrong`` says how the answer differs.
    """

    used: list[tuple[int, Place | None]] = field(default_factory=list)
    written: dict[int, Row | None] = field(default_factory=dict)
    before: dict[int, Row | None] = field(default_factory=dict)
    wrong: str = ""


class Running:
    """One statement, with what lies over the tables for it."""

    def __init__(
        self,
        world: World,
        asked: Asked,
        store: Store,
        tables: Sequence[MemoryTable],
        changes: list[dict[int, Row | None]],
    ) -> None:
        self.world, self.asked, self.form, self.store = world, asked, asked.form, store
        self.log: Undo = []
        self.answer: Answer | None = None
        numbering = world.objects.number
        # A statement that looks at rows, or replaces those that it found, needs no tables of its own if it sees what all see.
        form = asked.form
        writes = form.what == "insert" or (form.what in ("update", "delete") and (form.rekeys or not form.simple))
        self.views: list[Any] = [
            Overlay(table, world.catalog, changes[position], self.log, numbering)
            if position in self.form.tables and (changes[position] or writes)
            else table
            for position, table in enumerate(tables)
        ]
        store.tables, store.undo = self.views, self.log

    def evaluated(self) -> Evaluated:
        """Runs it; what the statement cannot do on these tables is wrong, what cannot be computed at all is undecidable."""
        try:
            return self._evaluated()
        except ExecutionError as error:
            return Evaluated(wrong=f"on the versions that it saw it fails: {error}")
        except OutsideFragment as error:
            raise Undecidable(f"'{self.asked.sql}': {error}") from None

    def _evaluated(self) -> Evaluated:
        match self.form.what:
            case "query":
                return self._query()
            case "update" | "delete":
                return self._change()
            case "insert":
                return self._insert()

    def _query(self) -> Evaluated:
        form, values = self.form, self.asked.values
        if form.found is not None:
            pairs = form.found(self.store, *values)
            self._narrow(pairs)
            rows = form.run(self.store, *values)
            numbers = [number for number, _ in pairs]
        else:
            rows = form.run(self.store, *values)
            numbers = self.sources()
        self.answer = Answer(rows, len(rows), len(rows))
        return Evaluated([(number, None) for number in numbers] if form.reads_rows else [])

    def _narrow(self, pairs: list[Numbered]) -> None:
        """Rows that match are all that a simple statement looks at."""
        (position,) = self.form.source_tables
        few: TableView = Few(self.world.catalog.tables[position], pairs, self.log)
        self.store.tables = [few if at == position else view for at, view in enumerate(self.views)]

    def sources(self) -> list[int]:
        """The numbers of the rows that a result is made of."""
        form = self.form
        if form.sources is None:
            return []
        self.store.tables = [WithNumbers(view) for view in self.views]
        found: dict[int, None] = {}
        for row in form.sources(self.store, *self.asked.values):
            found.update((number, None) for number in row if number is not None)
        for inner in form.inner:
            way = inner.sources
            if way is not None:
                for row in way(self.store, *self.asked.values):
                    found.update((number, None) for number in row if number is not None)
            elif inner.found is not None:
                found.update((number, None) for number, _ in inner.found(self.store, *self.asked.values))
        self.store.tables = self.views
        return list(found)

    def _change(self) -> Evaluated:
        form, values = self.form, self.asked.values
        assert form.found is not None
        pairs = form.found(self.store, *values)
        if form.simple and not form.rekeys:
            self._narrow(pairs)
        _, rows = form.run(self.store, *values)
        evaluated = self._written([(number, None) for number, _ in pairs])
        changed = sum(evaluated.written[number] != evaluated.before[number] for number in evaluated.written)
        found = len(pairs)
        self.answer = Answer(rows, found, found if form.what == "delete" else min(changed, found))
        return evaluated

    def _insert(self) -> Evaluated:
        form, values = self.form, self.asked.values
        used = [(number, None) for number in self.sources()]
        self.store.counts_found = False
        changed, rows = form.run(self.store, *values)
        evaluated = self._written(used)
        found = changed
        if form.upsert and self.store.rules.counts_replaced:
            take_back(self.log, 0)
            self.store.counts_found = True
            found, _ = form.run(self.store, *values)
            self.store.counts_found = False
        self.answer = Answer(rows, found, changed)
        evaluated.used += [(number, None) for number, row in evaluated.before.items() if row is not None]
        return evaluated

    def _written(self, used: list[tuple[int, Any]]) -> Evaluated:
        """What is in the log: rows as they were before the first change of each, and as they are now."""
        evaluated = Evaluated(used)
        numbers: dict[int, Any] = {}
        for view, number, before in self.log:
            if number not in numbers:
                numbers[number] = view
                known = before if before is None or isinstance(before, tuple) else self._base_row(view, number)
                evaluated.before[number] = known
        for number, view in numbers.items():
            row = view.changes[number] if isinstance(view, Overlay) else view.rows[number]
            if row is None:
                evaluated.written.setdefault(number, None)
                continue
            real = self.world.objects.number(view.info.position, row)
            if real != number:
                # The statement gave the row another key: the old object dies, another one lives.
                evaluated.written.setdefault(number, None)
                evaluated.before.setdefault(real, None)
            evaluated.written[real] = row
        return evaluated

    @staticmethod
    def _base_row(view: Any, number: int) -> Row | None:
        return view.shared_row(number) if isinstance(view, Overlay) else None
