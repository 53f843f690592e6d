"""Programs: sessions of calls, the state that they start from, and what must hold."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from isolde.errors import UsageError
from isolde.tx.dialects import Dialect
from isolde.tx.python import Transaction
from isolde.tx.queries import Select
from isolde.tx.schema import Schema
from isolde.visible import visible

if TYPE_CHECKING:
    from isolde.workloads.application import Application

Check = Callable[[Mapping[Any, Any]], object]
"""A function of a state that gives something true if the state is good."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where another process can read a program again: a file and the name in it, or an application with its sessions."""

    path: str
    name: str
    sessions: tuple[str, ...] = ()
    scale: tuple[str, ...] = ()
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """A transaction: a function of a handle, with its arguments."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    session: int
    position: int
    number: int = 0
    """The place among all calls of the program, session after session."""

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__name__", repr(self.function)))

    @property
    def id(self) -> str:
        """Session and place in it, from 0."""
        return f"{self.session}.{self.position}"

    def __str__(self) -> str:
        return visible(f"{self.name}({', '.join(map(repr, self.arguments))})")


@dataclass(frozen=True)
class Program:
    """Sessions that run at once, each a list of calls.

    A call is a function of ``tx`` alone, or a tuple of a function and its arguments. Over keys, ``tx`` reads and writes keys;
    those that ``initial`` does not name hold ``None`` at first. Over SQL, the functions are ``@transaction`` functions, and
    ``tables`` (``CREATE TABLE`` texts or a schema) with ``rows`` (by table, in the order of the columns), or an
    ``application``, give the state to start from.

    ``invariant`` is a function of the final state, or several by name; over SQL also a query that finds what violates it, and
    an application brings its own. ``history`` is a function of the transactions of a history. ``levels`` gives transactions
    levels of their own, by their names.

    >>> def deposit(tx, amount):
    ...     tx.write("x", tx.read("x") + amount)
    >>> program = Program(sessions=[[(deposit, 10)], [(deposit, 20)]], initial={"x": 0})
    >>> [str(call) for call in program.calls]
    ['deposit(10)', 'deposit(20)']
    """

    sessions: Sequence[Sequence[Any]]
    initial: Mapping[Hashable, Any] = field(default_factory=dict)
    tables: Any = None
    rows: Mapping[str, Sequence[Sequence[Any]]] | None = None
    application: Application | None = None
    invariant: Check | str | Mapping[str, Check | str] | None = None
    history: Callable[[Sequence[Any]], bool] | None = None
    levels: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    origin: Origin | None = None
    calls: tuple[Call, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        entries = [
            (entry, session, position)
            for session, listed in enumerate(_listed(self.sessions, "sessions are"))
            for position, entry in enumerate(_listed(listed, f"session {session} is"))
        ]
        calls = tuple(_call(*entry, number) for number, entry in enumerate(entries))
        if not calls:
            raise UsageError("the program has no transactions; give sessions, each a list of calls")
        unknown = set(self.levels) - {call.name for call in calls}
        if unknown:
            raise UsageError(f"levels name {', '.join(sorted(unknown))}, which no session calls")
        if self.over_tables and self.initial:
            raise UsageError("initial values are of keys, and the program has tables; give rows")
        if self.tables is not None and self.application is not None:
            raise UsageError("a program has tables or an application, not both")
        if self.rows is not None and self.tables is None and self.application is None:
            raise UsageError("rows without tables; give CREATE TABLE texts as tables")
        over_sql = [isinstance(call.function, Transaction) for call in calls]
        if self.over_tables and not all(over_sql):
            call = calls[over_sql.index(False)]
            raise UsageError(f"{call} is no @transaction function, and the program has tables")
        if not self.over_tables and any(over_sql):
            call = calls[over_sql.index(True)]
            raise UsageError(f"{call} runs SQL; give the program tables (CREATE TABLE texts) or an application")
        object.__setattr__(self, "calls", calls)

    @property
    def over_tables(self) -> bool:
        """Whether its transactions run SQL."""
        return self.tables is not None or self.application is not None

    @property
    def dialect(self) -> Dialect:
        """The dialect of its SQL: that of the first function."""
        function = self.calls[0].function
        return function.dialect if isinstance(function, Transaction) else Dialect.POSTGRESQL

    @property
    def schema(self) -> Schema:
        """The tables of a program over SQL."""
        if self.application is not None:
            return self.application.schema
        if isinstance(self.tables, Schema):
            return self.tables
        from isolde.tx.sql import schema as read_schema

        texts = [self.tables] if isinstance(self.tables, str) else list(self.tables)
        return read_schema(";\n".join(text.strip().rstrip(";") for text in texts), self.dialect, "tables")

    def invariants(self) -> dict[str, Check | Select]:
        """The invariants by their names: functions of the final state, or queries that find what violates them."""
        found: dict[str, Check | Select] = {}
        if self.application is not None:
            found |= {invariant.name: invariant.violations for invariant in self.application.invariants}
        given = self.invariant
        named = given if isinstance(given, Mapping) else {} if given is None else {"invariant": given}
        for name, check in named.items():
            found[name] = self._query(name, check) if isinstance(check, str) else check
        return found

    def _query(self, name: str, text: str) -> Select:
        if not self.over_tables:
            raise UsageError(f"{name} is a text, and the program has no tables; give a function of the final state")
        from isolde.tx.sql import statement as read_statement

        query = read_statement(text, self.dialect, name)
        if not isinstance(query, Select):
            raise UsageError(f"{name} is '{text}'; it has to be a query that finds what violates it")
        return query


def _listed(entries: Any, what: str) -> Sequence[Any]:
    if not isinstance(entries, (list, tuple)):
        raise UsageError(f"{what} {visible(repr(entries))}; it has to be a list")
    return entries


def _call(entry: Any, session: int, position: int, number: int) -> Call:
    function, *arguments = entry if isinstance(entry, tuple) else (entry,)
    where = f"call {position} of session {session}"
    if not callable(function):
        raise UsageError(
            f"{where} is {visible(repr(entry))}; give a function of tx, or a tuple of one and its arguments"
        )
    call = Call(function, tuple(arguments), session, position, number)
    try:
        signature = inspect.signature(function.function if isinstance(function, Transaction) else function)
    except (TypeError, ValueError):
        return call
    try:
        signature.bind(None, *arguments)
    except TypeError as error:
        raise UsageError(f"{where}: {call} does not fit {call.name}{signature}: {error}") from None
    return call


def first_rows(program: Program) -> Mapping[str, Sequence[Sequence[Any]]]:
    """The rows that a program over tables starts from."""
    if program.rows is not None:
        return program.rows
    if program.application is None:
        return {}
    return populated(program.application.populate(Random(0), program.application.scale))


def populated(rows: Iterable[tuple[str, Sequence[Any]]]) -> dict[str, list[Sequence[Any]]]:
    """Rows by table."""
    found: dict[str, list[Sequence[Any]]] = {}
    for table, row in rows:
        found.setdefault(table, []).append(row)
    return found
