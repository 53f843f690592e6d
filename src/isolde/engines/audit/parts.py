"""Parts of a log that stand on their own: the statements on a few rows, whatever happens to others.

Where a statement finds its rows by primary key and given values, what it does to these rows depends on nothing else but the rows
that they refer to, and those that refer to them if they go. So take some rows, all statements that change them, the rows that
these look at, and so on, and then all other statements that look at nothing else: if no order explains this part of a log, none
explains the log. Such a part is small where the log is large.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from isolde.engines.audit.answers import CONCURRENCY
from isolde.engines.audit.compiling import Ask, Form
from isolde.engines.audit.log import Entry, Log, relinked
from isolde.engines.audit.readings import Reading
from isolde.engines.audit.replay import Mismatch, Replay
from isolde.engines.audit.search import Allowance, End, Search
from isolde.engines.audit.tables import Name, NamedStore
from isolde.engines.audit.timeline import Timeline
from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.core.catalog import TableInfo
from isolde.semantics.core.nodes import Column, below
from isolde.semantics.core.plan import Visit, plan
from isolde.semantics.core.relations import Delete, Insert, Query, Scan, Update
from isolde.semantics.tables.recording import Recorder, RecordingView
from isolde.tx.queries import Select, TableSource
from isolde.tx.statements import InsertMode, Statement
from isolde.tx.walk import parts as parts_of_node

PART_MAX = 3_000
"""Transactions of a part that is searched."""
PART_STEPS = 50_000
PART_RUNS = 500_000


@dataclass(frozen=True, slots=True)
class _There:
    """In the place of a key: that the row of this key is there."""

    key: Any


@dataclass(frozen=True, slots=True)
class Footprint:
    """The rows and whole tables that a statement looks at. If it changes anything, it is among ``rows`` and ``tables``.

    That a row is there has a name of its own (``there``): a row that refers to it depends on nothing else of it.
    """

    rows: tuple[Name, ...]
    tables: tuple[int, ...]
    changes: bool
    looked_rows: tuple[Name, ...] = ()
    looked_tables: tuple[int, ...] = ()

    @property
    def all_rows(self) -> tuple[Name, ...]:
        return self.rows + self.looked_rows

    @property
    def all_tables(self) -> tuple[int, ...]:
        return self.tables + self.looked_tables


def there(name: Name) -> Name:
    """The name of the fact that a row is there."""
    return name[0], _There(name[1])


def row_of(name: Name) -> Name:
    """The row of a name, or that it is about."""
    return (name[0], name[1].key) if isinstance(name[1], _There) else name


@dataclass(frozen=True, slots=True)
class Part:
    """How the search of a part ended; ``entries`` are its transactions, with those of their statements that belong to it."""

    end: End
    entries: tuple[Entry, ...] = ()


@dataclass(slots=True)
class Parts:
    """Who looks at which rows of a log. Only the first ``known`` entries were looked at so far."""

    log: Log
    known: int = 0
    _rowwise: dict[int, tuple[Form, bool]] = field(default_factory=dict)
    _by_row: dict[Name, list[tuple[int, int]]] = field(default_factory=dict)
    _by_table: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    _changers: dict[Name, list[tuple[int, int]]] = field(default_factory=dict)
    """Statements that may change a row, by its name; those that may change any row of a table are in ``_whole``."""
    _table_changers: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    _whole: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    _empty: NamedStore = field(init=False)
    _recorder: Recorder = field(default_factory=Recorder)
    _replay: Replay | None = None

    def __post_init__(self) -> None:
        store = self.log.store
        self._empty = NamedStore(store.schema, store.dialect, store.there.rows)
        self._empty.tables = [RecordingView(table, self._recorder) for table in self._empty.named]

    def searched(self, seeds: Sequence[tuple[Entry, int]], length: int, reading: Reading, allowance: Allowance) -> Part:
        """Whether an order explains the part around these statements."""
        entries = self.around(seeds, length)
        if not entries:
            return Part(End.SPENT)
        if self._replay is None:
            self._replay = Replay(self.log.apart())
        self._replay.refused = None
        search = Search(self._replay, reading, entries, allowance)
        end = search.run()
        if self._replay.refused is not None and end is End.NONE:
            end = End.SPENT
        return Part(end, tuple(entries))

    def around(self, seeds: Iterable[tuple[Entry, int]], length: int) -> list[Entry] | None:
        """The part of the first ``length`` entries around these statements; ``None``: it is too large, or cannot be told."""
        if self.log.tables_change:
            return None
        self._learn(length)
        rows, tables = self._closed(seeds, length)
        chosen: dict[int, set[int]] = {}
        looked = {place for name in rows for place in self._by_row.get(name, ())}
        looked |= {place for table in tables for place in self._by_table.get(table, ())}
        for number, place in looked:
            if number < length:
                foot = self.footprint(self.log.entries[number].asks[place])
                named = all(name in rows or name[0] in tables for name in foot.all_rows)
                if named and tables.issuperset(foot.all_tables):
                    chosen.setdefault(number, set()).add(place)
                    if len(chosen) > PART_MAX:
                        return None
        found = []
        for number in sorted(chosen):
            entry = self.log.entries[number]
            found.append(replace(entry, asks=tuple(entry.asks[place] for place in sorted(chosen[number]))))
        return relinked(found) if self.log.session_order else found

    def _closed(self, seeds: Iterable[tuple[Entry, int]], length: int) -> tuple[set[Name], set[int]]:
        """The rows and tables of these statements, and all that decides what becomes of them."""
        rows: set[Name] = set()
        tables: set[int] = set()
        todo = [self.footprint(entry.asks[place]) for entry, place in seeds]
        seen: set[tuple[int, int]] = set()
        while todo:
            foot = todo.pop()
            statements: list[tuple[int, int]] = []
            for name in foot.all_rows:
                if name not in rows:
                    rows.add(name)
                    statements += self._changers.get(name, ())
                    statements += self._whole.get(name[0], ())
            for table in foot.all_tables:
                if table not in tables:
                    tables.add(table)
                    statements += self._table_changers.get(table, ())
            for number, place in statements:
                if number < length and (number, place) not in seen:
                    seen.add((number, place))
                    todo.append(self.footprint(self.log.entries[number].asks[place]))
        return rows, tables

    def _learn(self, length: int) -> None:
        for number in range(self.known, length):
            for place, ask in enumerate(self.log.entries[number].asks):
                if ask.error is not None and ask.error in CONCURRENCY:
                    continue
                foot, at = self.footprint(ask), (number, place)
                for name in foot.all_rows:
                    self._by_row.setdefault(name, []).append(at)
                for table in {name[0] for name in foot.all_rows} | set(foot.all_tables):
                    self._by_table.setdefault(table, []).append(at)
                if not foot.changes:
                    continue
                for name in foot.rows:
                    self._changers.setdefault(name, []).append(at)
                for table in {name[0] for name in foot.rows} | set(foot.tables):
                    self._table_changers.setdefault(table, []).append(at)
                for table in foot.tables:
                    self._whole.setdefault(table, []).append(at)
        self.known = max(self.known, length)

    # One statement

    def footprint(self, ask: Ask) -> Footprint:
        form = ask.form
        # A statement that failed changed nothing.
        changes = not form.is_query and ask.error is None
        known = self._rowwise.get(id(form))
        if known is None:
            known = self._rowwise[id(form)] = (form, self._is_rowwise(form))
        if known[1]:
            found = self._sought(ask, changes)
            if found is not None:
                return found
        catalog = self.log.store.catalog
        return Footprint((), tuple(catalog.table(name).position for name in form.tables), changes)

    def _sought(self, ask: Ask, changes: bool) -> Footprint | None:
        """The rows that a statement looks for, and whole tables: the same ones on any state, so there need not be any."""
        store, recorder = self._empty, self._recorder
        recorder.sought.clear()
        assert ask.form.code is not None
        own = self._target(ask.form.code.node)
        try:
            ask.form.function(store, *ask.values)
        except (ExecutionError, OutsideFragment) as error:
            # A row that refers to another has been put there before that one is looked for.
            if not (isinstance(error, ExecutionError) and error.kind == "foreign-key" and recorder.written):
                return None
        finally:
            written = [row for table, _, _, row in recorder.written if table == own.position and row is not None]
            store.undone(0)
            recorder.read.clear()
            recorder.written.clear()
            recorder.known.clear()
        names: list[Name] = [(one.table, one.key) for one in recorder.sought if one.table == own.position]
        core = ask.form.code.core
        if isinstance(core, Insert | Delete):
            names += list(map(there, names))
        parents: list[Name] = []
        tables: set[int] = set()
        moved = {one.place for one in core.sets} if isinstance(core, Update) else set()
        for reference in self.log.store.catalog.references:
            parent = self.log.store.catalog.tables[reference.parent]
            primary = bool(parent.table.primary_key) and parent.uniques[0] == reference.parent_columns
            if reference.child == own.position and isinstance(core, Insert) and primary:
                keys = [reference.child_key(row) for row in written]
                parents += [there((reference.parent, key)) for key in keys if key is not None]
            elif reference.child == own.position and (isinstance(core, Insert) or moved & {*reference.child_columns}):
                tables.add(reference.parent)
            if reference.parent == own.position and (isinstance(core, Delete) or moved & {*reference.parent_columns}):
                tables.add(reference.child)
        return Footprint(tuple(dict.fromkeys(names)), (), changes, tuple(parents), tuple(sorted(tables)))

    def _target(self, node: Statement) -> TableInfo:
        """The table that a statement is about."""
        names = {part.table for part in parts_of_node(node) if isinstance(part, TableSource)}
        return self.log.store.catalog.table(next(iter(names)) if isinstance(node, Select) else node.table)

    def _is_rowwise(self, form: Form) -> bool:
        """Whether statements of a form look at rows of one table, by primary key and given values alone."""
        code = form.code
        if code is None or (isinstance(code.node, Select) and len(form.tables) != 1):
            return False
        info = self._target(code.node)
        if not info.table.primary_key or len(info.uniques) != 1:
            return False
        inside = sum(isinstance(part, Select) for part in parts_of_node(code.node))
        core = code.core
        if inside > isinstance(core, Query):
            return False
        match core:
            case Query(source=Scan()):
                return _by_primary_key(plan(core.source, core.where).steps)
            case Update():
                moved = any(one.place in info.uniques[0] for one in core.sets)
                return not moved and _by_primary_key(plan(core.scan, core.where).steps)
            case Delete():
                return _by_primary_key(plan(core.scan, core.where).steps)
            case Insert():
                plain = core.query is None and core.conflict is None and core.mode is InsertMode.PLAIN
                refers = any(one.child == info.position for one in self.log.store.catalog.references)
                # Of several rows only the first is looked at where what it refers to is not there.
                return plain and (len(core.rows) == 1 or not refers)
        return False


def _by_primary_key(steps: Sequence[Any]) -> bool:
    if len(steps) != 1 or not isinstance(steps[0], Visit):
        return False
    access = steps[0].access
    if access is None or access.unique != 0:
        return False
    return not any(isinstance(part, Column) for key in access.keys for part in below(key))


def parts_of(log: Log) -> Parts:
    """The parts of a log, or of one that it is a beginning of."""
    found = log.learned.get("parts")
    if not isinstance(found, Parts) or len(found.log.entries) < len(log.entries):
        found = log.learned["parts"] = Parts(log)
    return found


def refuted(
    log: Log, reading: Reading, stuck: Iterable[tuple[Entry, int | None]], length: int, allowance: Allowance
) -> Part | None:
    """A part of the first ``length`` entries that no order explains, around what could not be placed (with the statement that
    answered something else, if one did).
    """
    parts = parts_of(log)
    tries = [(entry, [place]) for entry, place in stuck if place is not None]
    tries += [(entry, list(range(len(entry.asks)))) for entry, _ in stuck]
    for entry, places in tries:
        steps = Allowance(min(allowance.steps, PART_STEPS), allowance.deadline, PART_RUNS)
        part = parts.searched([(entry, place) for place in places], length, reading, steps)
        allowance.spent += steps.spent
        if part.end is End.NONE:
            return part
    return None


def failures(timeline: Timeline, entries: Iterable[Entry]) -> list[tuple[Entry, int | None]]:
    """Each entry with its statement that answers something else on the last state."""
    found: list[tuple[Entry, int | None]] = []
    for entry in entries:
        effects = timeline.whole(entry, len(timeline))
        found.append((entry, effects.statement if isinstance(effects, Mismatch) else None))
    return sorted(found, key=lambda one: one[1] is None)
