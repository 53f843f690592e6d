"""The store: tables in memory, statements and procedures run on them one after the other.

It is the reference for the other readings. Statements are compiled to Python once for the types of their parameters; the
compiled form belongs to the schema and the dialect, and is shared by copies of a store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

from isolde.errors import ExecutionError, UsageError
from isolde.semantics.concrete.arguments import LISTS, Argument, refuse_unlike_python
from isolde.semantics.concrete.changes import change_function
from isolde.semantics.concrete.code import Unit
from isolde.semantics.concrete.outcome import AbortSignal, AssertionSignal, Ending, Outcome, Result
from isolde.semantics.concrete.plain_changes import plain_change
from isolde.semantics.concrete.queries import query_function
from isolde.semantics.core.catalog import Catalog
from isolde.semantics.core.elaborate import Elaborator
from isolde.semantics.core.elaborate_statements import columns_of, elaborated
from isolde.semantics.core.nodes import Constant as ConstantNode
from isolde.semantics.core.relations import Batch, Insert, Output, Query
from isolde.semantics.core.relations import Statement as CoreStatement
from isolde.semantics.core.scope import Variables
from isolde.semantics.core.types import NULL, ValueType, rows_of
from isolde.semantics.tables.constraints import add
from isolde.semantics.tables.memory import MemoryTable
from isolde.semantics.tables.view import Row, TableView, Undo, take_back
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Constant
from isolde.tx.schema import Schema
from isolde.tx.sql import statement as read_statement
from isolde.tx.sql.literals import Shape, shape
from isolde.tx.statements import Statement

if TYPE_CHECKING:
    from isolde.tx.procedures import Program

PLAIN_RUNS = 20
"""After so many runs of a plain change, code is generated for it."""

STEPS_MAX = 1_000_000
"""Rounds of loops and calls of one procedure, so that an endless one ends."""

FIRST_NEW_ID = 1_000_000_000
"""Ids that procedures draw begin here: the small ids of rows that were loaded stay free, and they fit into 32 bits."""

State = dict[str, list[Row]]


class NoBatch(Exception):
    """The rows of an INSERT cannot be given one by one: it is read as it is written."""


@dataclass(slots=True, eq=False)
class Code:
    """A compiled statement: a function of the store and the parameters. The node is kept, because code is found by it.

    ``core`` is what it was compiled from, ``arguments`` the names of its parameters there. ``function`` becomes another one
    when a plain change has run often.
    """

    function: Any
    columns: tuple[str, ...]
    is_query: bool
    node: Statement
    core: CoreStatement
    arguments: tuple[str, ...]


Prepared = tuple[Code, Sequence[Any]]
"""A compiled statement, and the values that it is called with."""


class Compiled:
    """Statements and procedures of one schema and dialect, compiled. Keyed by identity: a node is kept as long as its code."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.statements: dict[tuple[int, tuple[Any, ...]], Code] = {}
        self.procedures: dict[tuple[int, str, tuple[Any, ...]], tuple[Program, Any]] = {}
        self.shapes: dict[tuple[str, Dialect, tuple[ValueType, ...], int], Code] = {}
        self.no_batches: set[str] = set()
        self.rules = catalog.rules
        self.tells_statements = False
        """Whether procedures tell the store what they do, by ``begins`` and ``shows``."""

    def types(self, values: Iterable[Any]) -> tuple[ValueType, ...]:
        return tuple(self._given(value) for value in values)

    def _given(self, value: Any) -> ValueType:
        if not isinstance(value, tuple):
            return self.rules.given(value)
        if not value:
            # What its elements would have been is told by the parameter.
            return rows_of(())
        widths = {len(row) for row in value}
        if len(widths) > 1 or 0 in widths:
            raise ExecutionError("type", "the tuples of a list have to be of one length, and not empty")
        return rows_of(tuple((f"element{place}", self._common(value, place)) for place in range(widths.pop())))

    def _common(self, rows: Sequence[Sequence[Any]], place: int) -> ValueType:
        nodes = [ConstantNode(None, self.rules.given(row[place])) for row in rows if row[place] is not None]
        if len({node.type.sort for node in nodes}) > 1:
            raise ExecutionError("type", "the values of a list have to be of one type")
        return self.rules.common(nodes, "a list")[1] if nodes else NULL

    def statement(self, statement: Statement, parameters: Mapping[str, Constant]) -> Code:
        """The code of a statement for parameters of these shapes (``value_shape``); one that is null is null in all of them."""
        types = dict(zip(parameters, self.types(parameters.values()), strict=True))
        nonnull = frozenset(name for name, value in parameters.items() if value is not None)
        core = elaborated(self.catalog, statement, Variables.of(types, nonnull))
        return self._emitted(statement, core, [f"v{slot}" for slot in range(len(types))])

    def shaped(self, found: Shape, dialect: Dialect, types: tuple[ValueType, ...], *, strict: bool = True) -> Code:
        """The code of all statements of a shape. The types are those of the literals, which are parameters in it."""
        names = [*found.values, *(name for template in found.templates for name in template)]
        variables = Variables.of(dict(zip(names, types, strict=True)), frozenset(names))
        statement = read_statement(found.text, dialect, strict=strict)
        core = elaborated(self.catalog, statement, variables)
        arguments = [f"v{slot}" for slot in range(len(found.values))]
        if found.templates:
            if not isinstance(core, Insert) or core.queries or len(core.rows) != len(found.templates):
                raise NoBatch
            slots = tuple(tuple(variables.slots[name] for name in template) for template in found.templates)
            core = replace(core, batch=Batch(len(names), slots))
            arguments.append(f"v{len(names)}")
        return self._emitted(statement, core, arguments)

    def given(self, statement: Statement, parameters: Mapping[str, Constant]) -> Prepared:
        """The code of a statement for these parameters, and their values as the database has them."""
        values = tuple(parameters.values())
        if sent := self.rules.sent:
            values = tuple(sent[type(value)](value) if type(value) in sent else value for value in values)
        key = (id(statement), (*parameters, *map(value_shape, values)))
        code = self.statements.get(key)
        if code is None:
            code = self.statements[key] = self.statement(statement, dict(zip(parameters, values, strict=True)))
        return code, values

    def written(self, text: str, dialect: Dialect, *, strict: bool = True) -> Prepared:
        """The same of a statement as it is written: of those that differ only in their literals, one is read and compiled."""
        literal = self.rules.literal
        found = shape(text, dialect, value_shape)
        if found is None or (found.templates and found.text in self.no_batches):
            return self.given(read_statement(text, dialect, strict=strict), {})
        types = tuple(literal(value).type for value in (*found.values.values(), *found.examples()))
        key = (found.text, dialect, types, len(found.templates))
        code = self.shapes.get(key)
        if code is None:
            try:
                code = self.shapes[key] = self.shaped(found, dialect, types, strict=strict)
            except NoBatch:
                self.no_batches.add(found.text)
                return self.given(read_statement(text, dialect, strict=strict), {})

        def as_database_has_it(value: Any) -> Any:
            plain = type(value) is str or (type(value) is int and -(2**63) <= value < 2**63)
            return value if plain else literal(value).value

        values: list[Any] = [as_database_has_it(value) for value in found.values.values()]
        if found.templates:
            values.append([(place, [as_database_has_it(value) for value in row]) for place, row in found.rows])
        return code, values

    def _emitted(self, statement: Statement, core: CoreStatement, arguments: list[str]) -> Code:
        columns = tuple(name for name, _ in columns_of(core))
        plain = None if isinstance(core, Query) else plain_change(self.catalog, core, len(arguments))
        if plain is None:
            function = self._generated(core, arguments)
            return Code(function, columns, isinstance(core, Query), statement, core, tuple(arguments))
        code = Code(plain, columns, False, statement, core, tuple(arguments))
        runs = 0

        def counted(*given: Any) -> Any:
            nonlocal runs
            runs += 1
            if runs < PLAIN_RUNS:
                return plain(*given)
            if runs == PLAIN_RUNS:
                code.function = self._generated(core, arguments)
            # Called by who has kept the closure.
            return code.function(*given)

        code.function = counted
        return code
        return Code(function, columns, isinstance(core, Query), statement, core, tuple(arguments))

    def _generated(self, core: CoreStatement, arguments: list[str]) -> Any:
        unit = Unit()
        if isinstance(core, Query):
            query_function(unit, core, name="statement", arguments=arguments)
        else:
            change_function(unit, self.catalog, core, name="statement", arguments=arguments)
        return unit.finish("statement")

    def opened(self, code: Code) -> tuple[Any, Any]:
        """Of a query: a function for all its rows, uncut and in order, each with its keys of ORDER BY behind it; and one for the
        row of LIMIT and OFFSET, those of the two that there are.
        """
        query = code.core
        assert isinstance(query, Query)
        keys = tuple(Output("key", order.key, order.key.type) for order in query.order)
        bounds = tuple(Output("bound", bound, bound.type) for bound in (query.limit, query.offset) if bound is not None)
        every = replace(query, outputs=(*query.outputs, *keys), limit=None, offset=None)
        alone = Query(bounds, None, (), None, None, (), None, None, None, (), query.reads_variables)
        arguments = list(code.arguments)
        return (
            self._generated(every, arguments),
            self._generated(alone, arguments),
        )

    def procedure(self, program: Program, name: str, types: tuple[ValueType, ...]) -> tuple[Program, Any]:
        procedure = program.procedure(name)
        if procedure is None:
            raise ExecutionError("name", f"there is no procedure {name}")
        if len(types) != len(procedure.parameters):
            raise ExecutionError("type", f"{name} takes {len(procedure.parameters)} arguments; {len(types)} are given")
        unit = Unit()
        # Loaded when there is a procedure: most stores run statements alone.
        from isolde.semantics.concrete.procedures import procedure_function
        from isolde.semantics.core.elaborate_procedures import elaborate_procedure

        routine = elaborate_procedure(Elaborator(self.catalog), program, procedure, types)
        procedure_function(unit, self.catalog, routine, "procedure", self.tells_statements)
        return program, unit.finish("procedure")


class Store:
    """Tables of a schema that behave as the dialect says. Nothing here is concurrent: one transaction at a time."""

    def __init__(
        self,
        schema: Schema,
        dialect: Dialect,
        *,
        clock: Callable[[], datetime] | None = None,
        steps_max: int = STEPS_MAX,
    ) -> None:
        catalog = Catalog(schema, dialect)
        self.dialect = dialect
        self.schema = schema
        self.catalog = catalog
        self.rules = catalog.rules
        self.compiled = Compiled(catalog)
        self.undo: Undo = []
        self.tables: list[TableView] = [MemoryTable(info, catalog, self.undo) for info in catalog.tables]
        self._shared: set[int] = set()
        self.steps_max = steps_max
        self.steps_left = steps_max
        self.portals: set[str] = set()
        self.counts_found = False
        """In MySQL, an update that changes nothing counts the rows that it found: so does the adapter that functions run on."""
        self._clock = clock
        self._now: datetime | None = None
        self._open = False
        self._new_id = FIRST_NEW_ID

    # Running

    def transaction(self) -> Transaction:
        """A transaction; the one before must have ended."""
        if self._open:
            raise UsageError("the store runs one transaction at a time; commit or roll back the one that is open")
        self.undo.clear()
        self._now = None
        self._open = True
        return Transaction(self)

    def call(self, program: Program, name: str, arguments: Mapping[str, Argument] | Sequence[Argument] = ()) -> Outcome:
        """Runs a procedure as one transaction. An ``ExecutionError`` leaves no effect, as an abort does."""
        procedure = program.procedure(name)
        if isinstance(arguments, Mapping):
            parameters = procedure.parameters if procedure is not None else ()
            unknown = set(arguments) - {local.name for local in parameters}
            if unknown:
                raise ExecutionError("name", f"{name} has no parameter {', '.join(sorted(unknown))}")
            arguments = [arguments.get(local.name) for local in parameters]
        if self._open:
            raise UsageError("the store runs one transaction at a time; commit or roll back the one that is open")
        self.undo.clear()
        self._now = None
        self.steps_left = self.steps_max
        self.portals = set()
        try:
            sent = self.compiled.rules.sent
            if procedure is not None and procedure.strict:
                refuse_unlike_python(procedure.parameters, arguments, sent)
            self.counts_found = procedure is not None and procedure.strict
            values = self.called(program, name, [_as_database_has_it(argument, sent) for argument in arguments])
        except AbortSignal as signal:
            take_back(self.undo, 0)
            return Outcome(Ending.ABORTED, reason=signal.reason)
        except AssertionSignal as signal:
            take_back(self.undo, 0)
            return Outcome(Ending.ASSERTION_FAILED, reason=signal.reason)
        except BaseException:
            take_back(self.undo, 0)
            raise
        finally:
            self.counts_found = False
        return Outcome(Ending.RETURNED, values)

    def called(self, program: Program, name: str, arguments: Sequence[Any]) -> tuple[Constant, ...]:
        """The body of a procedure in the transaction that is running; for ``CALL``."""
        key = (id(program), name, tuple(map(value_shape, arguments)))
        found = self.compiled.procedures.get(key)
        if found is None:
            found = self.compiled.procedure(program, name, self.compiled.types(arguments))
            self.compiled.procedures[key] = found
        return found[1](self, *arguments)  # type: ignore[no-any-return]

    # For generated code

    def writable(self, position: int) -> TableView:
        """The table, no longer shared with a copy of the store."""
        table = self.tables[position]
        if position in self._shared and isinstance(table, MemoryTable):
            table = self.tables[position] = table.clone(self.undo)
            self._shared.discard(position)
        return table

    def next_id(self, position: int) -> int:
        ids = self.writable(position).ids
        ids.next += 1
        return ids.next - 1

    def new_id(self) -> int:
        """An id that was never drawn: no rollback gives one back."""
        self._new_id += 1
        return self._new_id - 1

    def now(self) -> datetime:
        """The time at which the transaction first asked: the same until it ends."""
        if self._now is None:
            self._now = self._clock() if self._clock is not None else datetime.now(UTC).replace(tzinfo=None)
        return self._now

    def step(self) -> None:
        self.steps_left -= 1
        if self.steps_left < 0:
            raise ExecutionError("out-of-range", f"the procedure took more than {self.steps_max} rounds of its loops")

    # States

    def load(self, table: str, rows: Iterable[Sequence[Constant]]) -> None:
        """Puts rows into a table as they are: unique keys are checked, nothing is converted."""
        data = self.writable(self.catalog.table(table).position)
        info = data.info
        for row in rows:
            add(data, tuple(row))
            given = row[info.generated] if info.generated is not None else None
            if isinstance(given, int):
                data.ids.next = max(data.ids.next, given + 1)
        self.undo.clear()

    def copy(self) -> Store:
        """A store of its own with the same rows, which are shared until one of the two changes a table."""
        twin = object.__new__(Store)
        twin.__dict__.update(self.__dict__)
        self._shared = set(range(len(self.tables)))
        twin._shared = set(self._shared)
        twin.tables = list(self.tables)
        twin.undo = []
        twin._open = False
        return twin

    def over(self, tables: Sequence[TableView], log: Undo) -> Store:
        """A store that runs on these views; ``log`` is where they put what they replace."""
        twin = self.copy()
        twin.tables, twin.undo, twin._shared = list(tables), log, set()
        return twin

    def state(self) -> State:
        """All rows as plain data, in the order of their insertion."""
        return {table.info.table.name: [row for _, row in table.all()] for table in self.tables}

    def same_state(self, other: Store) -> bool:
        """Whether both hold the same rows; neither the order nor the counters of ids count."""
        return all(_bag(mine) == _bag(theirs) for mine, theirs in zip(self.tables, other.tables, strict=True))

    def __eq__(self, other: object) -> bool:
        return self.same_state(other) if isinstance(other, Store) else NotImplemented

    __hash__ = object.__hash__


def _bag(table: TableView) -> dict[Row, int]:
    counted: dict[Row, int] = {}
    for _, row in table.all():
        counted[row] = counted.get(row, 0) + 1
    return counted


def _as_database_has_it(argument: Argument, sent: Mapping[type, Callable[[Any], Any]]) -> Any:
    """What the database makes of it; a list as rows, which is how variables hold many values."""
    if isinstance(argument, LISTS):
        rows = tuple([tuple(item) if isinstance(item, LISTS) else (item,) for item in argument])
        if sent and not sent.keys().isdisjoint(map(type, chain.from_iterable(rows))):
            rows = tuple([tuple([_as_database_has_it(value, sent) for value in row]) for row in rows])
        return rows
    return sent[type(argument)](argument) if type(argument) in sent else argument


def value_shape(value: Any) -> Any:
    """What of a value decides how code for it looks: its type, its width, its scale."""
    kind = type(value)
    if kind is tuple:
        # The tuples of a list may have different lengths: that is told when code is written for them.
        return (frozenset(map(len, value)), *map(_column_shape, zip_longest(*value)))
    if kind is int:
        return 32 if -0x80000000 <= value < 0x80000000 else (64 if -(2**63) <= value < 2**63 else 65)
    if kind.__name__ == "Decimal":
        return kind, value.as_tuple().exponent
    return (kind, value.microsecond > 0, value.tzinfo is None) if kind is datetime else kind


def _column_shape(values: tuple[Any, ...]) -> Any:
    """The same of all values at one place of a list: the code is the one for the widest of them."""
    if set(map(type, values)) == {int}:
        return value_shape(min(values)), value_shape(max(values))
    return frozenset(map(value_shape, values))


class Transaction:
    """Statements one by one. A statement that fails has no effect; in PostgreSQL the transaction then only rolls back."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.failed = False

    def run(self, statement: Statement, parameters: Mapping[str, Constant] | None = None) -> Result:
        compiled = self.store.compiled
        return self._execute(lambda: compiled.given(statement, parameters or {}))

    def run_text(self, text: str, dialect: Dialect | None = None) -> Result:
        """Runs a statement as it is written. Of statements that differ only in their literals, one is read and compiled."""
        compiled, spoken = self.store.compiled, dialect or self.store.dialect
        return self._execute(lambda: compiled.written(text, spoken))

    def _execute(self, prepare: Callable[[], Prepared]) -> Result:
        store = self.store
        if self.failed:
            raise ExecutionError("aborted", "the transaction has failed; nothing is done until it is rolled back")
        mark = len(store.undo)
        try:
            code, values = prepare()
            answer = code.function(store, *values)
        except BaseException:
            take_back(store.undo, mark)
            self.failed = store.rules.errors_end_transactions
            raise
        if code.is_query:
            return Result(code.columns, answer, len(answer))
        count, rows = answer
        return Result(code.columns, rows, count)

    def commit(self) -> None:
        """Keeps what was done; a failed transaction is rolled back, as PostgreSQL does it."""
        if self.failed:
            self.rollback()
            return
        self.store.undo.clear()
        self.store._open = False

    def rollback(self) -> None:
        take_back(self.store.undo, 0)
        self.failed = False
        self.store._open = False

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None:
            self.commit()
        else:
            self.rollback()
