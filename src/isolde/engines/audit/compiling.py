"""Statements of a log, compiled once for their text and the types of their values; literals in a text are values, too."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isolde.engines.audit.answers import ERRORS, Rows
from isolde.engines.audit.tables import NamedStore
from isolde.errors import ExecutionError, InputError, OutsideFragment
from isolde.formats.tables import SqlHistory
from isolde.semantics.concrete.store import Code, value_shape
from isolde.semantics.core.relations import Delete as CoreDelete
from isolde.semantics.core.relations import Query
from isolde.semantics.core.relations import Update as CoreUpdate
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Literal, Parameter
from isolde.tx.procedures import CallProcedure, Program
from isolde.tx.queries import Item, Select, TableSource
from isolde.tx.sql import program as read_program
from isolde.tx.sql import schema as read_schema
from isolde.tx.sql import statement as read_statement
from isolde.tx.statements import Delete, Insert, Statement, Update
from isolde.tx.walk import parts

CREATES = re.compile(r"\s*create\s+(?:temporary\s+)?table\b", re.IGNORECASE)
DROPS = re.compile(r"\s*drop\s+table\s+(if\s+exists\s+)?([\w\"`]+)\s*;?\s*$", re.IGNORECASE)
_CALLS = re.compile(r"\s*(?:call|select(?:\s+\*\s+from)?)\s+(\w+)\s*\((.*)\)\s*;?\s*$", re.IGNORECASE | re.DOTALL)
_ENDS = re.compile(r"\s*(begin|start\s+transaction|commit|rollback|set)\b", re.IGNORECASE)

Opened = tuple[Rows, Rows, int, int | None]
"""All rows of a query in order, their keys of ORDER BY, OFFSET and LIMIT: what is needed to accept every order and cut that the
query leaves open."""


@dataclass(slots=True, eq=False)
class Form:
    """What statements have in common that differ only in their values.

    ``function`` takes the store and the values; a query gives its rows, anything else its count and rows, or raises an
    ``ExecutionError``. ``tables``: those that it looks at or changes, by name. ``code``: ``None`` for CALL, CREATE and DROP.
    ``changes``: whether it changes rows on some state; ``none_if_zero``: not if it counted 0. ``calls``: a procedure.
    """

    function: Callable[..., Any]
    tables: frozenset[str]
    is_query: bool = False
    gives_rows: bool = False
    opened: Callable[[NamedStore, Sequence[Any]], Opened] | None = None
    code: Code | None = None
    changes: bool = True
    none_if_zero: bool = False
    calls: bool = False


@dataclass(slots=True, eq=False)
class Ask:
    """One statement and its answer. ``rows`` is ``None`` where it gave none or none were recorded.

    ``params`` are as they were given, ``values`` as the compiled form takes them. ``free``: any answer is right; the
    statement runs, and nobody looks.
    """

    text: str
    form: Form
    values: Sequence[Any]
    params: Sequence[Any]
    rows: Rows | None
    count: int | None
    error: str | None
    start: int | None = None
    end: int | None = None
    free: bool = False

    @property
    def tables(self) -> frozenset[str]:
        return self.form.tables

    @property
    def is_query(self) -> bool:
        return self.form.is_query

    @property
    def may_change(self) -> bool:
        """Whether it changed rows, as far as its answer tells: without a count, that depends on the state."""
        if self.free:
            return self.form.changes
        return self.form.changes and self.error is None and not (self.form.none_if_zero and self.count == 0)

    @property
    def given(self) -> dict[str, Any]:
        """The parameters by name."""
        return {f"p{place}": value for place, value in enumerate(self.params, 1)}


class Compiling:
    """The statements of a log, each compiled once."""

    def __init__(self, history: SqlHistory, store: NamedStore, tables_change: bool) -> None:
        self.history, self.store, self.dialect = history, store, history.dialect
        self.tables_change = tables_change
        self.program: Program | None = None
        self._forms: dict[tuple[Any, ...], Form] = {}
        self._by_code: dict[int, Form] = {}
        self._sent = store.compiled.rules.sent

    def ask(self, content: Mapping[str, Any]) -> Ask:
        """An operation as a log has it, ready to run."""
        text: Any = content.get("sql")
        params = content.get("params") or ()
        values = params
        if params:
            if params.__class__ is not list and params.__class__ is not tuple:
                raise InputError('"params" is no array')
            if sent := self._sent:
                values = [sent[type(value)](value) if type(value) in sent else value for value in params]
            key = (text, *map(value_shape, values))
            form = self._forms.get(key)
        else:
            form = None
        if form is None:
            text, form, values = self._new(content, text, params, values)
            if params and not form.calls:
                self._forms[key] = form
        rows, error = content.get("rows"), content.get("error")
        if rows is not None:
            try:
                rows = [tuple(row) for row in rows]
            except TypeError:
                raise InputError('"rows" holds something that is no row') from None
        if error is not None and error not in ERRORS:
            raise InputError(f'"error" is {error!r}; the words for errors are {", ".join(ERRORS)}')
        start, end = content.get("start"), content.get("end")
        if not (start is None or isinstance(start, int)) or not (end is None or isinstance(end, int)):
            raise InputError('"start" and "end" of a statement are integers')
        return Ask(text, form, values, params, rows, content.get("count"), error, start, end)

    def _new(
        self, content: Mapping[str, Any], text: Any, params: Sequence[Any], values: Sequence[Any]
    ) -> tuple[str, Form, Sequence[Any]]:
        """The text, form and values of a statement that has no form yet."""
        if "call" in content:
            return self._call(content)
        if not isinstance(text, str):
            raise InputError('"sql" is no text')
        if any(isinstance(value, list | dict) for value in params):
            raise InputError('"params" holds an array or an object')
        if called := self._called(text, params):
            return self._call(called)
        if CREATES.match(text):
            return text, self._creation(text), ()
        if found := DROPS.match(text):
            name = found[2].strip('"`')
            name = name if found[2][0] in '"`' else name.lower()
            used = frozenset({name} & self.store.catalog.by_name.keys())
            return text, Form(self._drop(name, bool(found[1])), used), ()
        if _ENDS.match(text):
            raise InputError(f"'{text.split()[0]}' among a transaction's statements; where it ends is said by its line")
        compiled = self.store.compiled
        try:
            if params:
                node = read_statement(text, self.dialect, "log", strict=False)
                code, _ = compiled.given(node, {f"p{place}": value for place, value in enumerate(params, 1)})
            else:
                code, values = compiled.written(text, self.dialect, strict=False)
        except ExecutionError as error:
            if error.is_mistake and content.get("error") is None:
                # A database may well have names that the header does not tell: its own tables and columns.
                raise InputError(str(error)) from None
            return text, Form(_failing(error), frozenset(), changes=False), values
        return text, self._form(code), values

    def _form(self, code: Code) -> Form:
        form = self._by_code.get(id(code))
        if form is None:
            tables = self._tables(code.node)
            function = self._guarded(code.function, tuple(tables)) if self.tables_change else code.function
            core = code.core
            form = Form(function, tables, code.is_query, bool(code.columns), code=code, changes=not code.is_query)
            # Where changed rows are counted, an UPDATE that counted none may have found some.
            form.none_if_zero = isinstance(core, CoreDelete) or (
                isinstance(core, CoreUpdate) and not self.store.rules.counts_changed
            )
            self._by_code[id(code)] = form
            if isinstance(core, Query) and (core.order or core.limit is not None or core.offset is not None):
                form.opened = self._opened(code, core)
        return form

    def _guarded(self, function: Callable[..., Any], tables: Sequence[str]) -> Callable[..., Any]:
        """Tables come and go: they have to be there."""

        def guarded(store: NamedStore, *values: Any) -> Any:
            for table in tables:
                if table not in store.there.rows:
                    raise ExecutionError("name", f"there is no table {table}")
            return function(store, *values)

        return guarded

    def _opened(self, code: Code, core: Query) -> Callable[[NamedStore, Sequence[Any]], Opened]:
        compiled, width = self.store.compiled, len(core.outputs)
        functions: list[Any] = []

        def opened(store: NamedStore, values: Sequence[Any]) -> Opened:
            if not functions:
                functions.extend(compiled.opened(code))
            every = functions[0](store, *values)
            (bounds,) = functions[1](store, *values)
            limit = bounds[0] if core.limit is not None else None
            offset = bounds[-1] if core.offset is not None else None
            return [row[:width] for row in every], [row[width:] for row in every], offset or 0, limit

        return opened

    def _tables(self, node: Statement) -> frozenset[str]:
        names = {part.table for part in parts(node) if isinstance(part, TableSource | Insert | Update | Delete)}
        infos = self.store.catalog.tables
        for reference in self.store.catalog.references:
            child, parent = infos[reference.child].table.name, infos[reference.parent].table.name
            if not isinstance(node, Select) and node.table in (child, parent):
                names |= {child, parent}
        return frozenset(names)

    def _creation(self, text: str) -> Form:
        made = read_schema(text, self.dialect, "log", strict=False)
        guarded = bool(re.match(r"\s*create\s+table\s+if\s+not\s+exists\b", text, re.IGNORECASE))

        def run(store: NamedStore) -> tuple[int | None, Rows | None]:
            for name in made.tables:
                if name in store.there.rows:
                    if guarded:
                        continue
                    raise ExecutionError("name", f"there is a table {name} already")
                store.there.put(name, True)
            return None, None

        self._refuse_implicit_commit(text)
        return Form(run, frozenset(made.tables) & self.store.catalog.by_name.keys())

    def _drop(self, name: str, guarded: bool) -> Any:
        self._refuse_implicit_commit(f"drop table {name}")
        position = self.store.catalog.table(name).position if name in self.store.catalog.by_name else None

        def run(store: NamedStore) -> tuple[int | None, Rows | None]:
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

    def _called(self, text: str, params: Sequence[Any]) -> Mapping[str, Any] | None:
        """The call that a statement's text is, if it is nothing but the call of one of the log's procedures."""
        found = _CALLS.match(text) if self.history.procedures else None
        if found is None or self._procedures().procedure(found[1].lower()) is None:
            return None
        arguments: list[Any] = []
        if found[2].strip():
            node = read_statement(f"SELECT {found[2]}", self.dialect, "log", strict=False)
            given = {f"p{place}": value for place, value in enumerate(params, 1)}
            for item in node.items if isinstance(node, Select) else ():
                value = item.expression if isinstance(item, Item) else item
                if isinstance(value, Literal):
                    arguments.append(value.value)
                elif isinstance(value, Parameter) and value.name in given:
                    arguments.append(given[value.name])
                else:
                    raise OutsideFragment("log", "an argument of a call that is neither a value nor a parameter")
        return {"call": found[1], "params": arguments}

    def _procedures(self) -> Program:
        """The tables and procedures of the log."""
        if self.program is None:
            from isolde.tx.render import render_schema

            texts = [*render_schema(self.store.schema, self.dialect), *self.history.procedures]
            self.program = read_program(";\n".join(texts), self.dialect, "procedures", strict=False)
        return self.program

    def _call(self, content: Mapping[str, Any]) -> tuple[str, Form, Sequence[Any]]:
        name, params = content.get("call"), content.get("params") or []
        if not isinstance(name, str):
            raise InputError('"call" is no name of a procedure')
        program = self._procedures()
        name = name if program.procedure(name) else name.lower()
        procedure = program.procedure(name)
        if procedure is None:
            raise InputError(f'there is no procedure {name} among "procedures" of the header')
        wanted = len(procedure.parameters)
        if len(params) != wanted and content.get("error") is None:
            raise InputError(f"{name} takes {wanted} arguments (what comes out is none), and {len(params)} are given")
        values = [self._sent[type(value)](value) if type(value) in self._sent else value for value in params]

        def run(store: NamedStore, *values: Any) -> tuple[int | None, Rows | None]:
            store.steps_left, store.portals, store.shown = store.steps_max, set(), []
            found = store.called(program, name, values)
            returned: Rows = [found] if found else []
            if store.shown:
                # Some drivers fetch the rows of the first query alone.
                store.also = store.shown[:1]
                return None, [row for rows in store.shown for row in rows]
            # MySQL's clients do not get what goes out by parameters; PostgreSQL's get a value of a function that has none.
            store.also = [[]] if self.dialect is Dialect.MYSQL else [] if found else [[("",)], [(None,)]]
            return None, returned

        inside = list(_statements(program, name))
        tables = frozenset[str]().union(*(self._tables(one) for one in inside))
        changes = any(not isinstance(one, Select) for one in inside)
        form = Form(run, tables, gives_rows=True, changes=changes, calls=True)
        return f"CALL {name}", form, values


def _statements(program: Program, name: str) -> Iterator[Statement]:
    """The statements of a procedure, and of those that it calls."""
    todo, seen = [name], set[str]()
    while todo:
        procedure = program.procedure(todo.pop())
        if procedure is None or procedure.name in seen:
            continue
        seen.add(procedure.name)
        for part in parts(procedure):
            if isinstance(part, CallProcedure):
                todo.append(part.procedure)
            elif isinstance(part, Select | Insert | Update | Delete):
                yield part


def _failing(error: ExecutionError) -> Any:
    def run(*_: Any) -> Any:
        raise error

    return run
