"""The store: tables in memory, statements and procedures run on them one after the other.

It is the reference for the other readings. Statements are compiled to Python once for the types of their parameters; the
compiled form belongs to the schema and the dialect, and is shared by copies of a store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from isolde.errors import ExecutionError, UsageError
from isolde.semantics.concrete.catalog import Catalog
from isolde.semantics.concrete.compiler import Compiler, Writer
from isolde.semantics.concrete.expressions import Frame
from isolde.semantics.concrete.outcome import AbortSignal, AssertionSignal, Ending, Outcome, Result
from isolde.semantics.concrete.procedures import ProcedureCompiler
from isolde.semantics.concrete.rules import outside
from isolde.semantics.concrete.statements import compile_statement
from isolde.semantics.concrete.static import NULL, WIDE, Code, Static, rows_of
from isolde.semantics.concrete.tables import Row, TableData, Undo, take_back
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Constant
from isolde.tx.procedures import Program
from isolde.tx.queries import Select
from isolde.tx.schema import Schema
from isolde.tx.statements import Statement

STEPS_MAX = 1_000_000
"""Rounds of loops and calls of one procedure, so that an endless one ends."""

FIRST_NEW_ID = 1_000_000_000
"""Ids that procedures draw begin here: the small ids of rows that were loaded stay free, and they fit into 32 bits."""

Argument = Constant | Sequence[Constant]
"""What a procedure is given: a value, or a list of values for a parameter that is one."""
State = dict[str, list[Row]]


class Compiled:
    """Statements and procedures of one schema and dialect, compiled. Keyed by identity: a node is kept as long as its code."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.statements: dict[tuple[int, tuple[Any, ...]], tuple[Statement, Any, tuple[str, ...]]] = {}
        self.procedures: dict[tuple[int, str, tuple[Any, ...]], tuple[Program, Any]] = {}
        self.rules = Compiler(catalog).rules

    def types(self, values: Iterable[Any]) -> tuple[Static, ...]:
        return tuple(self._given(value) for value in values)

    def _given(self, value: Any) -> Static:
        if not isinstance(value, tuple):
            return self.rules.given(value)
        codes = [Code("None", self.rules.given(item)) for (item,) in value if item is not None]
        if len({code.type.sort for code in codes}) > 1:
            raise ExecutionError("type", "the values of a list have to be of one type")
        type_ = self.rules.common(codes, "a list")[1] if codes else NULL
        return rows_of((("element", type_),))

    def statement(
        self, statement: Statement, names: tuple[str, ...], types: tuple[Static, ...]
    ) -> tuple[Statement, Any, tuple[str, ...]]:
        compiler = Compiler(self.catalog)
        frame = Frame(compiler, variables=dict(zip(names, types, strict=True)))
        rows, _, columns = compile_statement(compiler, statement, frame)
        writer = Writer()
        writer.line(f"return {rows}")
        arguments = ", ".join(["S", *[compiler.namespace.variable(name) for name in names]])
        compiler.functions.append("\n".join([f"def statement({arguments}):", *writer.lines]))
        return statement, compiler.finish("statement"), tuple(name for name, _ in columns)

    def procedure(self, program: Program, name: str, types: tuple[Static, ...]) -> tuple[Program, Any]:
        procedure = program.procedure(name)
        if procedure is None:
            raise ExecutionError("name", f"there is no procedure {name}")
        if len(types) != len(procedure.parameters):
            raise ExecutionError("type", f"{name} takes {len(procedure.parameters)} arguments; {len(types)} are given")
        compiler = Compiler(self.catalog)
        ProcedureCompiler(compiler, program, procedure, types).compile("procedure")
        return program, compiler.finish("procedure")


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
        self.compiled = Compiled(catalog)
        self.tables = [TableData(info) for info in catalog.tables]
        self.undo: Undo = []
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
                _refuse_changed(arguments, sent)
            self.counts_found = procedure is not None and procedure.strict
            values = self.called(program, name, [_held(argument, sent) for argument in arguments])
        except AbortSignal as signal:
            take_back(self.tables, self.undo, 0)
            return Outcome(Ending.ABORTED, reason=signal.reason)
        except AssertionSignal as signal:
            take_back(self.tables, self.undo, 0)
            return Outcome(Ending.ASSERTION_FAILED, reason=signal.reason)
        except BaseException:
            take_back(self.tables, self.undo, 0)
            raise
        finally:
            self.counts_found = False
        return Outcome(Ending.RETURNED, values)

    def called(self, program: Program, name: str, arguments: Sequence[Any]) -> tuple[Constant, ...]:
        """The body of a procedure in the transaction that is running; for ``CALL``."""
        key = (id(program), name, tuple(map(_shape, arguments)))
        found = self.compiled.procedures.get(key)
        if found is None:
            found = self.compiled.procedure(program, name, self.compiled.types(arguments))
            self.compiled.procedures[key] = found
        return found[1](self, *arguments)  # type: ignore[no-any-return]

    # For generated code

    def writable(self, position: int) -> TableData:
        """The table, no longer shared with a copy of the store."""
        table = self.tables[position]
        if table.shared:
            table = self.tables[position] = table.clone()
        return table

    def next_id(self, position: int) -> int:
        table = self.writable(position)
        value = table.counter
        table.counter += 1
        return value

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
            data.insert(tuple(row), self.undo)
            given = row[info.generated] if info.generated is not None else None
            if isinstance(given, int):
                data.counter = max(data.counter, given + 1)
        self.undo.clear()

    def copy(self) -> Store:
        """A store of its own with the same rows, which are shared until one of the two changes a table."""
        twin = object.__new__(Store)
        twin.__dict__.update(self.__dict__)
        for table in self.tables:
            table.shared = True
        twin.tables = list(self.tables)
        twin.undo = []
        twin._open = False
        return twin

    def state(self) -> State:
        """All rows as plain data, in the order of their insertion."""
        return {table.info.table.name: list(table.rows.values()) for table in self.tables}

    def same_state(self, other: Store) -> bool:
        """Whether both hold the same rows; neither the order nor the counters of ids count."""
        return all(
            _bag(mine.rows.values()) == _bag(theirs.rows.values())
            for mine, theirs in zip(self.tables, other.tables, strict=True)
        )

    def __eq__(self, other: object) -> bool:
        return self.same_state(other) if isinstance(other, Store) else NotImplemented

    __hash__ = object.__hash__


def _bag(rows: Iterable[Row]) -> dict[Row, int]:
    counted: dict[Row, int] = {}
    for row in rows:
        counted[row] = counted.get(row, 0) + 1
    return counted


def _held(argument: Argument, sent: Mapping[type, Callable[[Any], Any]]) -> Any:
    """What the database makes of it; a list as rows of one column, which is how variables hold many values."""
    if isinstance(argument, list | tuple):
        return tuple((_held(item, sent),) for item in argument)
    return sent[type(argument)](argument) if type(argument) in sent else argument


def _refuse_changed(arguments: Iterable[Argument], sent: Mapping[type, Callable[[Any], Any]]) -> None:
    """A Python function computes with what it was given, and only its statements with what the database makes of it."""
    for argument in arguments:
        if type(argument) in sent and not isinstance(argument, bool):
            raise outside(f"a {type(argument).__name__} given to a function in SQLite", "give an integer or a text")


def _shape(value: Any) -> Any:
    """What of a value decides how code for it looks: its type, its width, its scale."""
    kind = type(value)
    if kind is tuple:
        return frozenset(_shape(item) for (item,) in value)
    if kind is int:
        return 32 if -0x80000000 <= value < 0x80000000 else (64 if -(2**63) <= value < 2**63 else 65)
    if kind.__name__ == "Decimal":
        return value.as_tuple().exponent, value.adjusted() >= WIDE
    return (kind, value.microsecond > 0) if kind is datetime else kind


class Transaction:
    """Statements one by one. A statement that fails has no effect; in PostgreSQL the transaction then only rolls back."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.failed = False

    def run(self, statement: Statement, parameters: Mapping[str, Constant] | None = None) -> Result:
        store = self.store
        if self.failed:
            raise ExecutionError("aborted", "the transaction has failed; nothing is done until it is rolled back")
        parameters = parameters or {}
        values = tuple(parameters.values())
        if sent := store.compiled.rules.sent:
            values = tuple(sent[type(value)](value) if type(value) in sent else value for value in values)
        key = (id(statement), (*parameters, *map(_shape, values)))
        mark = len(store.undo)
        try:
            found = store.compiled.statements.get(key)
            if found is None:
                types = store.compiled.types(values)
                found = store.compiled.statement(statement, tuple(parameters), types)
                store.compiled.statements[key] = found
            answer = found[1](store, *values)
        except BaseException:
            take_back(store.tables, store.undo, mark)
            self.failed = store.dialect is Dialect.POSTGRESQL
            raise
        if isinstance(statement, Select):
            return Result(found[2], answer, len(answer))
        count, rows = answer
        return Result(found[2], rows, count)

    def commit(self) -> None:
        """Keeps what was done; a failed transaction is rolled back, as PostgreSQL does it."""
        if self.failed:
            self.rollback()
            return
        self.store.undo.clear()
        self.store._open = False

    def rollback(self) -> None:
        take_back(self.store.tables, self.store.undo, 0)
        self.failed = False
        self.store._open = False

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None:
            self.commit()
        else:
            self.rollback()
