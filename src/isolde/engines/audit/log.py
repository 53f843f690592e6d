"""A log as it is judged: transactions of statements that are compiled, each with what was answered.

Statements are compiled once for their text and the types of their values; literals in a text are values, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from isolde.engines.audit.answers import Rows
from isolde.engines.audit.tables import NamedStore
from isolde.errors import ExecutionError, InputError, MalformedProgram, OutsideFragment
from isolde.formats.tables import SqlHistory
from isolde.history import Key, Operation, Sql, Status, Transaction, TxnId
from isolde.semantics.concrete.store import Code
from isolde.semantics.core.relations import Query
from isolde.tx.dialects import Dialect
from isolde.tx.procedures import Program
from isolde.tx.queries import Select, TableSource
from isolde.tx.schema import Schema
from isolde.tx.sql import program as read_program
from isolde.tx.sql import schema as read_schema
from isolde.tx.sql import statement as read_statement
from isolde.tx.statements import Delete, Insert, Statement, Update
from isolde.tx.walk import parts

_CREATES = re.compile(r"\s*create\s+(?:temporary\s+)?table\b", re.IGNORECASE)
_DROPS = re.compile(r"\s*drop\s+table\s+(if\s+exists\s+)?([\w\"`]+)\s*;?\s*$", re.IGNORECASE)
_ENDS = re.compile(r"\s*(begin|start\s+transaction|commit|rollback|set)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A statement that the language cannot say: where it stands, and why."""

    transaction: TxnId
    statement: int
    reason: str


Opened = tuple[Rows, Rows, int, int | None]
"""All rows of a query in order, their keys of ORDER BY, OFFSET and LIMIT: what is needed to accept every order and cut that the
query leaves open."""


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """One statement and its answer. ``run`` gives its count and rows, or raises an ``ExecutionError``.

    ``rows`` is ``None`` where it gave none or none were recorded. ``tables``: those it looks at or changes, by name.
    """

    text: str
    run: Callable[[], tuple[int | None, Rows | None]]
    rows: Rows | None
    count: int | None
    error: str | None
    tables: frozenset[str]
    opened: Callable[[], Opened] | None = None
    given: tuple[tuple[str, Any], ...] = ()
    """The parameters by name."""
    is_query: bool = False
    free: bool = False
    """Any answer is right: the statement runs, and nobody looks."""
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A transaction that may take part. ``number`` is its place in the log by ``end``; ``maybe``: its outcome is unknown."""

    number: int
    id: TxnId
    session: Key
    asks: tuple[Ask, ...]
    maybe: bool
    start: int | None
    end: int | None
    tables: frozenset[str]
    before: tuple[int, ...] = ()
    """Those just before it in its session, by number: back to one whose outcome is known."""
    turn: int = 0
    """Its place in its session."""


@dataclass(slots=True)
class Log:
    """What is judged. ``entries`` are in the order of ``end``, those without an end last; aborted transactions are not there."""

    store: NamedStore
    history: SqlHistory
    entries: list[Entry]
    session_order: bool = True
    left_out: list[Unsupported] = field(default_factory=list)

    @property
    def timed(self) -> bool:
        """Whether every committed transaction has both times."""
        return all(entry.start is not None and entry.end is not None for entry in self.entries if not entry.maybe)


def log_of(history: SqlHistory, *, skip_unsupported: bool = False, session_order: bool = True) -> Log:
    """Compiles a log. What the language cannot say is refused by name, or left out with the rest of its transaction's answer."""
    created = [text for one in history.transactions for op in one.ops if (text := _creation_text(op))]
    schema, there = history.schema, list(history.schema.tables)
    if created:
        schema = _with_created(history, created)
    store = NamedStore(schema, history.dialect, there)
    store.counts_found = history.counts == "found"
    log = Log(store, history, [], session_order)
    for table, rows in history.rows.items():
        store.load_named(table, rows)
    compiling = _Compiling(history, store, bool(created) or _drops(history))
    taking_part = sorted(
        (one for one in history.transactions if one.status is not Status.ABORTED), key=lambda one: _place(one)
    )
    numbers = {one.id: number for number, one in enumerate(taking_part)}
    sessions: dict[Key, list[int]] = {}
    before: dict[TxnId, tuple[int, ...]] = {}
    turns: dict[TxnId, int] = {}
    turns_of: dict[Key, int] = {}
    for one in history.transactions:
        if one.id in numbers:
            earlier = sessions.setdefault(one.session, [])
            turns[one.id] = turn = turns_of.get(one.session, 0)
            turns_of[one.session] = turn + 1
            before[one.id] = tuple(earlier) if session_order else ()
            if one.status is Status.COMMITTED:
                earlier.clear()
            earlier.append(numbers[one.id])
    for number, one in enumerate(taking_part):
        asks = []
        for place, op in enumerate(one.ops):
            try:
                asks.append(compiling.ask(op))
            except (OutsideFragment, MalformedProgram, InputError) as error:
                left = Unsupported(one.id, place, str(error))
                if not skip_unsupported:
                    raise Refused(left) from None
                log.left_out.append(left)
        tables = frozenset().union(*(ask.tables for ask in asks))
        log.entries.append(
            Entry(
                number,
                one.id,
                one.session,
                tuple(asks),
                one.status is Status.UNKNOWN,
                one.start,
                one.end,
                tables,
                before[one.id],
                turns[one.id],
            )
        )
    return log


class Refused(Exception):
    """A statement cannot be judged."""

    def __init__(self, what: Unsupported) -> None:
        super().__init__(what.reason)
        self.what = what


def _place(one: Transaction) -> tuple[int, int]:
    """By ``end``; an unknown outcome's orders nothing, but says about when it was."""
    return (1, 0) if one.end is None else (0, one.end)


def _creation_text(op: Operation) -> str:
    """The text of a CREATE TABLE; empty if it is something else."""
    text = op.content.get("sql") if isinstance(op, Sql) else None
    return text if isinstance(text, str) and _CREATES.match(text) else ""


def _drops(history: SqlHistory) -> bool:
    return any(
        isinstance(op, Sql) and _DROPS.match(str(op.content.get("sql", "")))
        for one in history.transactions
        for op in one.ops
    )


def _with_created(history: SqlHistory, texts: Sequence[str]) -> Schema:
    tables = dict(history.schema.tables)
    for text in texts:
        try:
            made = read_schema(text, history.dialect, "log", strict=False)
        except (OutsideFragment, MalformedProgram):
            # It is refused where it stands.
            continue
        for name, table in made.tables.items():
            if tables.setdefault(name, table) != table:
                raise InputError(f"the log creates the table {name} in two ways; judge its parts one by one")
    return Schema.of(*tables.values())


class _Compiling:
    """The statements of a log, each compiled once."""

    def __init__(self, history: SqlHistory, store: NamedStore, tables_change: bool) -> None:
        self.history, self.store, self.dialect = history, store, history.dialect
        self.tables_change = tables_change
        self.program: Program | None = None
        self._used: dict[int, frozenset[str]] = {}
        self._open: dict[int, tuple[Any, Any, Code]] = {}

    def ask(self, op: Any) -> Ask:
        if not isinstance(op, Sql):
            raise InputError("an operation on keys among SQL statements; a history uses one kind of key space")
        content = op.content
        if "call" in content:
            return self._call(content)
        text = content.get("sql")
        if not isinstance(text, str):
            raise InputError('"sql" is no text')
        if _CREATES.match(text):
            return self._answered(content, text, self._creation(text), frozenset())
        if found := _DROPS.match(text):
            name = found[2].strip('"`')
            name = name if found[2][0] in '"`' else name.lower()
            used = frozenset({name} & self.store.catalog.by_name.keys())
            return self._answered(content, text, self._drop(name, bool(found[1])), used)
        if _ENDS.match(text):
            raise InputError(f"'{text.split()[0]}' among a transaction's statements; where it ends is said by its line")
        return self._statement(content, text)

    def _answered(self, content: Mapping[str, Any], text: str, run: Any, tables: frozenset[str]) -> Ask:
        rows, count, error = content.get("rows"), content.get("count"), content.get("error")
        return Ask(text, run, rows, count, error, tables, start=content.get("start"), end=content.get("end"))

    def _statement(self, content: Mapping[str, Any], text: str) -> Ask:
        params = content.get("params") or []
        store, compiled = self.store, self.store.compiled
        given = {f"p{place}": value for place, value in enumerate(params, 1)}
        try:
            if params:
                node = read_statement(text, self.dialect, "log", strict=False)
                code, values = compiled.given(node, given)
            else:
                code, values = compiled.written(text, self.dialect, strict=False)
        except ExecutionError as error:
            return self._answered(content, text, _failing(error), frozenset())
        function, is_query = code.function, code.is_query
        tables = self._tables(code.node)
        needed = tuple(tables) if self.tables_change else ()
        gives_rows = bool(code.columns)

        def run() -> tuple[int | None, Rows | None]:
            if needed:
                self._must_exist(needed)
            answer = function(store, *values)
            if is_query:
                return None, answer
            count, rows = answer
            return count, rows if gives_rows else None

        ask = replace(self._answered(content, text, run, tables), given=tuple(given.items()), is_query=is_query)
        core = code.core
        if isinstance(core, Query) and (core.order or core.limit is not None or core.offset is not None):
            return replace(ask, opened=self._opened(code, core, values))
        return ask

    def _opened(self, code: Code, core: Query, values: Sequence[Any]) -> Callable[[], Opened]:
        store, width = self.store, len(core.outputs)

        def opened() -> Opened:
            functions = self._open.get(id(code))
            if functions is None:
                functions = self._open[id(code)] = (*store.compiled.opened(code), code)
            every = functions[0](store, *values)
            (bounds,) = functions[1](store, *values)
            limit = bounds[0] if core.limit is not None else None
            offset = bounds[-1] if core.offset is not None else None
            return [row[:width] for row in every], [row[width:] for row in every], offset or 0, limit

        return opened

    def _tables(self, node: Statement) -> frozenset[str]:
        found = self._used.get(id(node))
        if found is None:
            names = {part.table for part in parts(node) if isinstance(part, TableSource | Insert | Update | Delete)}
            references = self.store.catalog.references
            infos = self.store.catalog.tables
            for reference in references:
                child, parent = infos[reference.child].table.name, infos[reference.parent].table.name
                if not isinstance(node, Select) and node.table in (child, parent):
                    names |= {child, parent}
            found = self._used[id(node)] = frozenset(names)
        return found

    def _must_exist(self, tables: Sequence[str]) -> None:
        there = self.store.there.rows
        for table in tables:
            if table not in there:
                raise ExecutionError("name", f"there is no table {table}")

    def _creation(self, text: str) -> Any:
        made = read_schema(text, self.dialect, "log", strict=False)
        guarded = bool(re.match(r"\s*create\s+table\s+if\s+not\s+exists\b", text, re.IGNORECASE))
        store = self.store

        def run() -> tuple[int | None, Rows | None]:
            for name in made.tables:
                if name in store.there.rows:
                    if guarded:
                        continue
                    raise ExecutionError("name", f"there is a table {name} already")
                store.there.put(name, True)
            return None, None

        self._refuse_implicit_commit(text)
        return run

    def _drop(self, name: str, guarded: bool) -> Any:
        store = self.store
        self._refuse_implicit_commit(f"drop table {name}")
        position = store.catalog.table(name).position if name in store.catalog.by_name else None

        def run() -> tuple[int | None, Rows | None]:
            if name not in store.there.rows or position is None:
                if guarded:
                    return None, None
                raise ExecutionError("name", f"there is no table {name}")
            for reference in store.catalog.references:
                child = store.catalog.tables[reference.child].table.name
                if reference.parent == position and reference.child != position and child in store.there.rows:
                    raise ExecutionError("dependency", f"{child} refers to {name}")
            for number, _ in list(store.named[position].all()):
                store.named[position].put(number, None)
            store.there.put(name, False)
            return None, None

        return run

    def _refuse_implicit_commit(self, text: str) -> None:
        if self.dialect is Dialect.MYSQL:
            raise OutsideFragment("log", f"'{text[:40]}' in MySQL, which ends the transaction before it,")

    def _call(self, content: Mapping[str, Any]) -> Ask:
        name, params = content.get("call"), content.get("params") or []
        if not isinstance(name, str):
            raise InputError('"call" is no name of a procedure')
        if self.program is None:
            from isolde.tx.render import render_schema

            texts = [*render_schema(self.store.schema, self.dialect), *self.history.procedures]
            self.program = read_program(";\n".join(texts), self.dialect, "procedures", strict=False)
        program, store = self.program, self.store
        if program.procedure(name) is None:
            raise InputError(f'there is no procedure {name} among "procedures" of the header')
        sent = store.compiled.rules.sent
        values = [sent[type(value)](value) if type(value) in sent else value for value in params]

        def run() -> tuple[int | None, Rows | None]:
            store.steps_left, store.portals = store.steps_max, set()
            found = store.called(program, name, values)
            return None, [found] if found else []

        return self._answered(content, f"CALL {name}", run, frozenset(store.catalog.by_name))


def _failing(error: ExecutionError) -> Any:
    def run() -> tuple[int | None, Rows | None]:
        raise error

    return run
