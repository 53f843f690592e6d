"""Bodies over SQL tables: rows are the keys, and a statement reads a version of every row that it may depend on.

Rows that no transaction writes have one version, the initial one, and are no matter of choice: only *contested* rows are read
event by event. Which rows are contested, and which versions they can have, is found out in rounds: each round explores with
what the rounds before have seen written, until a round sees nothing new. A scan leaves a contested row alone if none of its
versions satisfies the conditions that the scan has for this table alone: whichever version it read, the answer is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, NoReturn, cast

from isolde.engines.explore.bodies import Accesses, Trace, ended
from isolde.engines.explore.program import Call
from isolde.errors import ExecutionError, UsageError
from isolde.semantics.concrete import Store
from isolde.semantics.core.catalog import Catalog, TableInfo
from isolde.semantics.core.elaborate_statements import columns_of, elaborated
from isolde.semantics.core.evaluate import Environment
from isolde.semantics.core.given import given_rows
from isolde.semantics.core.nodes import below, query_of
from isolde.semantics.core.plan import Visit
from isolde.semantics.core.relations import Scan
from isolde.semantics.core.relations import Statement as CoreStatement
from isolde.semantics.core.scope import Variables
from isolde.semantics.events.interpreter import Interpreter
from isolde.semantics.tables.memory import MemoryTable
from isolde.semantics.tables.view import IdCounter, Numbered, Row, TableView, Undo, take_back
from isolde.tx.dialects import Dialect
from isolde.tx.python.handle import Answer, Handle
from isolde.tx.python.handle import Row as NamedRow
from isolde.tx.schema import Schema
from isolde.tx.sql import statement as read_statement
from isolde.tx.statements import Statement

Model = Literal["rows", "set"]
IDS_EACH = 1_000
"""Generated ids of a table that each transaction has for itself, so that they do not depend on the order of transactions."""
NOW = datetime(2024, 1, 1, 12)
"""What the clock shows: one moment, since a transaction may only depend on what it reads."""
_UNWRITTEN = object()


@dataclass(frozen=True, slots=True)
class RowKey:
    """A row by its table and primary key (or by who inserted it, in a table without one)."""

    table: str
    key: Any

    def shown(self) -> str:
        key = ", ".join(map(repr, self.key)) if isinstance(self.key, tuple) else repr(self.key)
        return f"{self.table}[{key}]"


@dataclass(frozen=True, slots=True)
class SetKey:
    """The set of the primary keys of a table's rows (the coarser model of the paper, section 7.2)."""

    table: str

    def shown(self) -> str:
        return f"{self.table}[*]"


@dataclass(frozen=True, slots=True)
class Ran:
    """One statement of a body: what it gave, or how it failed; its events are those from ``first`` to ``last``, excluded."""

    sql: str
    dialect: Dialect
    parameters: Mapping[str, Any]
    rows: tuple[Row, ...] | None
    count: int | None
    error: str
    message: str
    first: int
    last: int


@dataclass(slots=True)
class Contested:
    """Rows of one table that some transaction writes: their numbers, and the versions that they can have besides absence."""

    numbers: dict[Any, int] = field(default_factory=dict)
    keys: dict[int, Any] = field(default_factory=dict)
    versions: dict[int, dict[Row, None]] = field(default_factory=dict)


class TableBodies:
    """Bodies over the tables of a schema. ``model``: a row is a key (``rows``), or that and a set of keys a table (``set``)."""

    def __init__(
        self, schema: Schema, dialect: Dialect, rows: Mapping[str, Iterable[Sequence[Any]]], model: Model = "rows"
    ) -> None:
        self.schema, self.dialect, self.model = schema, dialect, model
        self.store = Store(schema, dialect, clock=lambda: NOW)
        for table, given in rows.items():
            listed = given_rows(self.store.catalog, table, given)
            _refuse_rows(self.store.catalog.table(table), listed)
            self.store.load(table, listed)
        self.catalog = self.store.catalog
        self.tables = [cast(MemoryTable, table) for table in self.store.tables]
        self._initial = {
            RowKey(table.info.table.name, row_key(table.info, number, row)): (number, row)
            for table in self.tables
            for number, row in table.all()
        }
        self.contested = [Contested() for _ in self.tables]
        self.settled = False
        """Whether the contested rows and their versions are all known; until then a body that fails may not really fail."""
        self.failed = False
        self._met: dict[RowKey, dict[Row, None]] = {}
        self._cores: dict[Any, CoreStatement] = {}

    # Rounds

    def grew(self) -> bool:
        """Whether rows or versions were written that this round does not know."""
        return any(self._new(key, rows) for key, rows in self._met.items())

    def _new(self, key: RowKey, rows: Mapping[Row, None]) -> bool:
        known = self.contested[self.catalog.table(key.table).position]
        number = known.numbers.get(key.key)
        return number is None or any(row not in known.versions[number] for row in rows)

    def next_round(self, *, settled: bool = False) -> TableBodies:
        """The same bodies, which know what was written so far."""
        twin = object.__new__(TableBodies)
        twin.__dict__.update(self.__dict__)
        twin.settled, twin.failed = settled, False
        twin._met = dict(self._met)
        twin.contested = []
        for table in self.tables:
            info, contested = table.info, Contested()
            written = [key for key in self._met if key.table == info.table.name]
            number = table.next_number
            for key in sorted(written, key=_sortable):
                initial = self._initial.get(key)
                at, versions = (number, {}) if initial is None else (initial[0], {initial[1]: None})
                number += initial is None
                contested.numbers[key.key] = at
                contested.keys[at] = key.key
                contested.versions[at] = versions | self._met[key]
            twin.contested.append(contested)
        return twin

    # Bodies

    def initial(self, key: RowKey | SetKey) -> Any:
        if isinstance(key, SetKey):
            return frozenset(row.key for row in self._initial if row.table == key.table)
        found = self._initial.get(key)
        return None if found is None else found[1]

    def run(self, call: Call, answers: Sequence[Any]) -> Trace:
        accesses = Accesses(answers)
        handle = TableHandle(self, call, accesses)

        def body() -> None:
            try:
                call.function(handle, *call.arguments)
            except ExecutionError:
                if handle.failure is None:
                    raise

        try:
            end, reason = ended(call, accesses, body)
        except UsageError as error:
            if self.settled:
                raise
            self.failed = True
            end, reason = "abort", str(error)
        if handle.failure is not None:
            end, reason = "abort", str(handle.failure)
        trace = accesses.trace(end, reason, handle.ran)
        for key, row in trace.written.items():
            if isinstance(key, RowKey):
                versions = self._met.setdefault(key, {})
                if row is not None:
                    versions[row] = None
        return trace

    def core(self, sql: str, dialect: Dialect, parameters: Mapping[str, Any]) -> tuple[CoreStatement, tuple[Any, ...]]:
        """The statement in the typed core, and its arguments."""
        sent = self.catalog.rules.sent
        values = tuple(sent[type(value)](value) if type(value) in sent else value for value in parameters.values())
        types = self.store.compiled.types(values)
        key = (sql, dialect, tuple(parameters), types)
        found = self._cores.get(key)
        if found is None:
            variables = Variables.of(dict(zip(parameters, types, strict=True)))
            found = self._cores[key] = elaborated(self.catalog, _read(sql, dialect), variables)
        return found, values

    def state(self, written: Mapping[Any, Any]) -> dict[str, list[NamedRow]]:
        """The rows of all tables, if these are the last versions of the rows that were written."""
        names = {info.table.name: tuple(info.columns) for info in self.catalog.tables}
        return {table: [NamedRow(names[table], row) for row in rows] for table, rows in self._rows(written).items()}

    def _rows(self, written: Mapping[Any, Any]) -> dict[str, list[Row]]:
        tables: dict[str, list[Row]] = {table.info.table.name: [] for table in self.tables}
        for key, (_, row) in self._initial.items():
            row = written.get(key, row)
            if row is not None:
                tables[key.table].append(row)
        added = [key for key in written if isinstance(key, RowKey) and key not in self._initial]
        for key in sorted(added, key=_sortable):
            if written[key] is not None:
                tables[key.table].append(written[key])
        return tables


@lru_cache(maxsize=4096)
def _read(sql: str, dialect: Dialect) -> Statement:
    return read_statement(sql, dialect)


def _refuse_rows(info: TableInfo, rows: Sequence[Row]) -> None:
    """First rows that no database would hold."""
    for row in rows:
        for place, needed in enumerate(info.nonnull):
            if needed and row[place] is None and place != info.generated:
                raise UsageError(f"a row of {info.table.name} is {row!r}; {info.table.columns[place].name} is not null")


def row_key(info: TableInfo, number: int, row: Row) -> Any:
    """What names a row: its primary key, or the number that it was given."""
    return info.unique_keys[0](row) if info.table.primary_key else ("row", number)


def _sortable(key: RowKey) -> tuple[Any, ...]:
    parts = key.key if isinstance(key.key, tuple) else (key.key,)
    return (
        key.table,
        tuple((type(part).__name__, part if isinstance(part, int | str) else repr(part)) for part in parts),
    )


class TableHandle(Handle):
    """What a transaction function is handed: its statements, run on versions that the explorer chooses."""

    def __init__(self, bodies: TableBodies, call: Call, accesses: Accesses) -> None:
        self._bodies, self._accesses = bodies, accesses
        self._dialect = getattr(call.function, "dialect", bodies.dialect)
        self._log: Undo = []
        views = [
            ExploredTable(bodies, table, contested, accesses, self._log, (call.session, call.position))
            for table, contested in zip(bodies.tables, bodies.contested, strict=True)
        ]
        for table, view in zip(bodies.tables, views, strict=True):
            view.ids = IdCounter(table.ids.next + call.number * IDS_EACH)
        self._views = views
        self._running = _Running(bodies.catalog, views)
        self.failure: ExecutionError | None = None
        self.ran: list[Ran] = []

    def run(self, sql: str, parameters: Mapping[str, Any]) -> Answer:
        if self.failure is not None:
            raise self.failure
        first, mark = len(self._accesses.events), len(self._log)
        for view in self._views:
            view.begin_statement()

        def note(rows: Any, count: int | None, error: ExecutionError | None) -> None:
            last = len(self._accesses.events)
            word, message = ("", "") if error is None else (error.word, error.reason)
            self.ran.append(Ran(sql, self._dialect, dict(parameters), rows, count, word, message, first, last))

        try:
            statement, values = self._bodies.core(sql, self._dialect, parameters)
            count, rows = self._running.run(statement, dict(enumerate(values)))
        except ExecutionError as error:
            if error.is_mistake:
                raise UsageError(f"'{sql}': {error}") from None
            take_back(self._log, mark)
            note(None, None, error)
            self.failure = error
            raise
        for view in self._views:
            view.install()
        names = tuple(name for name, _ in columns_of(statement))
        note(tuple(map(tuple, rows)) if names else None, count, None)
        return Answer(names, rows, count)

    def abort(self, reason: str = "") -> NoReturn:
        """Ends the transaction without effect."""
        self._accesses.give_up(reason)

    def check(self, condition: object, text: str = "check") -> None:
        """Notes that the condition must hold here, whatever the other transactions do."""
        if not condition:
            self._accesses.note_failed(str(text))


class _Running(Interpreter):
    """Runs statements, and tells the view before a scan which rows it can depend on."""

    def __init__(self, catalog: Catalog, tables: Sequence[ExploredTable]) -> None:
        super().__init__(catalog, tables, lambda: NOW, counts_found=True)
        self._explored = tables

    def found(self, visit: Visit, scan: Scan, env: Environment) -> Sequence[Numbered]:
        view = self._explored[scan.table.position]
        own = [condition for condition in visit.conditions if all(query_of(part) is None for part in below(condition))]

        def possible(row: Row) -> bool:
            trial = env.copy()
            trial.rows[scan.id] = row
            try:
                return all(self.value(condition, trial) is True for condition in own)
            except ExecutionError:
                return True

        with_conditions = view.narrowed(possible) if own else view
        return _found(self, with_conditions, visit, scan, env)


def _found(running: Interpreter, view: TableView, visit: Visit, scan: Scan, env: Environment) -> Sequence[Numbered]:
    position = scan.table.position
    tables = running.tables
    running.tables = [*tables[:position], view, *tables[position + 1 :]]
    try:
        return Interpreter.found(running, visit, scan, env)
    finally:
        running.tables = tables


class ExploredTable:
    """A ``TableView``: own writes over contested rows, as the explorer answers, and over rows that nobody writes."""

    def __init__(
        self,
        bodies: TableBodies,
        base: MemoryTable,
        contested: Contested,
        accesses: Accesses,
        log: Undo,
        owner: tuple[int, int],
    ) -> None:
        self.info = base.info
        self.ids = base.ids
        self.log = log
        self._bodies, self._base, self._contested, self._accesses = bodies, base, contested, accesses
        self._name = base.info.table.name
        self._owner = owner
        self._own: dict[int, Row | None] = {}
        self._new: dict[Any, int] = {}
        self._installed: dict[Any, Row | None] = {}
        self._seen: dict[int, Row | None] = {}
        self._members: frozenset[Any] | None = None
        self._next = base.next_number + len(contested.numbers)
        self._drawn = 0

    def begin_statement(self) -> None:
        """Each statement reads anew."""
        self._seen.clear()
        self._members = None

    # Asking

    def narrowed(self, possible: Callable[[Row], bool]) -> _Narrowed:
        return _Narrowed(self, possible)

    def all(self) -> Iterable[Numbered]:
        return self.chosen(lambda _: True, self._base.all())

    def by_key(self, unique: int, key: Any) -> Sequence[Numbered]:
        return self._equal(self.info.unique_keys[unique], key, self._base.by_key(unique, key))

    def by_equal(self, columns: tuple[int, ...], key: Any) -> Sequence[Numbered]:
        return self._equal(self._bodies.catalog.key(self.info.table, columns), key, self._base.by_equal(columns, key))

    def _equal(
        self,
        key_of: Callable[[Row], Any],
        key: Any,
        base: Iterable[Numbered],
        possible: Callable[[Row], bool] | None = None,
    ) -> list[Numbered]:
        if key is None:
            return []

        def wanted(row: Row) -> bool:
            return bool(key_of(row) == key) and (possible is None or possible(row))

        found = self.chosen(wanted, base)
        return [(number, row) for number, row in found if key_of(row) == key]

    def chosen(self, possible: Callable[[Row], bool], base: Iterable[Numbered]) -> list[Numbered]:
        """The rows of the base that nobody writes, and the contested and own ones that may be meant."""
        contested, own = self._contested, self._own
        rows = {number: row for number, row in base if number not in contested.versions and number not in own}
        for number in self._candidates(possible):
            if number not in own:
                row = self._read(number)
                if row is not None:
                    rows[number] = row
        rows |= {number: row for number, row in own.items() if row is not None}
        return sorted(rows.items())

    def _candidates(self, possible: Callable[[Row], bool]) -> Iterator[int]:
        if self._bodies.model == "set":
            members = self._set()
            for key in sorted((RowKey(self._name, key) for key in members), key=_sortable):
                number = self._contested.numbers.get(key.key)
                if number is not None:
                    yield number
            return
        for number, versions in self._contested.versions.items():
            if any(map(possible, versions)):
                yield number

    def _read(self, number: int) -> Row | None:
        if number not in self._seen:
            self._seen[number] = self._accesses.read(RowKey(self._name, self._contested.keys[number]))
        return self._seen[number]

    def _set(self) -> frozenset[Any]:
        if self._members is None:
            self._members = self._accesses.read(SetKey(self._name)) if self._contested.numbers else frozenset()
        return self._members

    # Changing

    def put(self, number: int | None, row: Row | None, same_keys: bool = False) -> int:
        if row is None:
            assert number is not None
            return self._replace(number, None)
        if number is None or (not same_keys and self.info.table.primary_key and self._moved(number, row)):
            if number is not None:
                self._replace(number, None)
            number = self._numbered(row)
        return self._replace(number, row)

    def _moved(self, number: int, row: Row) -> bool:
        return bool(self._key(number) != self.info.unique_keys[0](row))

    def _replace(self, number: int, row: Row | None) -> int:
        self.log.append((self, number, self._own.get(number, _UNWRITTEN)))
        self._own[number] = row
        return number

    def _numbered(self, row: Row) -> int:
        if self.info.table.primary_key:
            key = self.info.unique_keys[0](row)
            known = self._contested.numbers.get(key)
            if known is None:
                found = self._base.by_key(0, key)
                known = found[0][0] if found else self._new.get(key)
            if known is not None:
                return known
        else:
            # Who inserted it names a row that has no key of its own.
            key = ("row", *self._owner, self._drawn)
            self._drawn += 1
            known = self._contested.numbers.get(key)
            if known is not None:
                return known
        self._new[key] = self._next
        self._next += 1
        return self._next - 1

    def _key(self, number: int) -> Any:
        known = self._contested.keys.get(number)
        if known is not None:
            return known
        for key, new in self._new.items():
            if new == number:
                return key
        return row_key(self.info, number, self._base.rows[number])

    def restore(self, number: int, before: Any) -> None:
        if before is _UNWRITTEN:
            del self._own[number]
        else:
            self._own[number] = before

    def install(self) -> None:
        """What the statement changed becomes writes of keys."""
        changed: dict[Any, Row | None] = {}
        for number, row in self._own.items():
            key = self._key(number)
            if self._installed.get(key, _UNWRITTEN) != row:
                changed[key] = row
        if not changed:
            return
        if self._bodies.model == "set":
            members = self._set()
            after = (members | {key for key, row in changed.items() if row is not None}) - {
                key for key, row in changed.items() if row is None
            }
            if after != members:
                self._accesses.write(SetKey(self._name), frozenset(after))
                self._members = frozenset(after)
        for key, row in changed.items():
            self._accesses.write(RowKey(self._name, key), row)
            self._installed[key] = row


class _Narrowed:
    """The table for a scan that has conditions: rows that cannot meet them need not be read."""

    def __init__(self, table: ExploredTable, possible: Callable[[Row], bool]) -> None:
        self._table, self._possible = table, possible
        self.info, self.ids = table.info, table.ids

    def all(self) -> Iterable[Numbered]:
        return self._table.chosen(self._possible, self._table._base.all())

    def by_key(self, unique: int, key: Any) -> Sequence[Numbered]:
        table = self._table
        return table._equal(table.info.unique_keys[unique], key, table._base.by_key(unique, key), self._possible)

    def by_equal(self, columns: tuple[int, ...], key: Any) -> Sequence[Numbered]:
        table = self._table
        key_of = table._bodies.catalog.key(table.info.table, columns)
        return table._equal(key_of, key, table._base.by_equal(columns, key), self._possible)

    def put(self, number: int | None, row: Row | None, same_keys: bool = False) -> int:
        return self._table.put(number, row, same_keys)

    def restore(self, number: int, before: Any) -> None:
        self._table.restore(number, before)
