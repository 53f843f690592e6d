"""An application as proofs see it: its transactions as transformers, its invariants as conditions, who writes what."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from isolde.errors import ExecutionError, OutsideFragment
from isolde.levels.specifications import Reads, Specification, Writes
from isolde.semantics.core import steps as core
from isolde.semantics.core.catalog import Catalog, TableInfo
from isolde.semantics.core.elaborate import Elaborator
from isolde.semantics.core.elaborate_procedures import elaborate_procedure
from isolde.semantics.core.elaborate_statements import elaborated
from isolde.semantics.core.relations import Delete, Insert, Query, Update
from isolde.semantics.core.scope import Variables
from isolde.semantics.core.types import BIGINT, BOOLEAN, DATE, DECIMAL, FLOAT, TEXT, TIMESTAMP, ValueType, rows_of
from isolde.semantics.sets.ghosts import Ghosts
from isolde.semantics.sets.havoc import all_steps, statements
from isolde.semantics.sets.invariants import Condition, condition, tables_of
from isolde.semantics.sets.path import Path
from isolde.semantics.sets.state import Names
from isolde.semantics.sets.timeline import Others
from isolde.semantics.sets.transactions import Execution, Looked, Parameter
from isolde.semantics.sets.values import outside
from isolde.tx.checks import checks_of
from isolde.tx.dialects import Dialect

if TYPE_CHECKING:
    from isolde.workloads.application import Application, Part

SERIAL = Specification("", "serial", Reads.COMMIT, Writes.COMMIT, False, "one after the other", "")
"""Transactions one after the other: everything is read from, and written to, the state that is committed to."""
_TYPES: dict[Any, ValueType] = {int: BIGINT, str: TEXT, bool: BOOLEAN, float: FLOAT}


@dataclass(frozen=True)
class Writing:
    """What a transaction may write: rows that come or go, by table, and columns that are updated."""

    inserts: frozenset[int] = frozenset()
    deletes: frozenset[int] = frozenset()
    updates: Mapping[int, frozenset[int]] = field(default_factory=dict)

    @property
    def tables(self) -> frozenset[int]:
        return self.inserts | self.deletes | frozenset(self.updates)


@dataclass(eq=False)
class TransactionProblem:
    """A transaction. ``refused``: why it cannot be carried; nothing is proved of an application that has such a one."""

    name: str
    part: Part
    execution: Execution | None
    parameters: tuple[Parameter, ...]
    writing: Writing
    refused: str = ""
    _ways: dict[tuple[str, str, str], list[Path]] = field(default_factory=dict)

    @property
    def reads_only(self) -> bool:
        return not self.refused and not self.writing.tables

    def ways(self, level: Specification, names: Names) -> list[Path]:
        """All ways that end in a commit, at a level."""
        assert self.execution is not None
        index = (level.database, level.level, level.writes.name)
        if index not in self._ways:
            self._ways[index] = self.execution.ways(level, names, f"{self.name}@{level.level}")
        return self._ways[index]


def dialect_of(database: str) -> Dialect:
    """The dialect of SQL that a database (or a specification of the literature that is named after it) reads."""
    return Dialect.MYSQL if database.removeprefix("paper-") in {"mysql", "mariadb"} else Dialect.POSTGRESQL


class Problem:
    """``uncarried``: invariants that the fragment cannot carry, with the reason: they are assumed nowhere.

    ``exact``: it is not about invariants, but about everything that is read.
    """

    def __init__(
        self,
        application: Application,
        invariants: Sequence[str] = (),
        transactions: Sequence[str] = (),
        database: str = "postgresql",
        *,
        exact: bool = False,
    ) -> None:
        self.application = application
        self.catalog = Catalog(application.schema, dialect_of(database))
        self.names, self.ghosts = Names(self.catalog.rules.folds_texts), Ghosts()
        self.conditions: dict[str, Condition] = {}
        self.uncarried: dict[str, str] = {}
        for invariant in application.invariants:
            if invariants and invariant.name not in invariants:
                continue
            try:
                query = elaborated(self.catalog, invariant.violations, Variables.of({}))
                assert isinstance(query, Query)
                self.conditions[invariant.name] = condition(invariant.name, query, self.ghosts)
            except OutsideFragment as error:
                self.uncarried[invariant.name] = error.what
        self.checks = list(self._checks())
        """What the database itself demands of rows."""
        self.named = frozenset[int]().union(*(one.tables for one in self.conditions.values()))
        """The tables that invariants look at: what becomes of others matters only by what transactions decide."""
        self.looked = frozenset[tuple[int, int]]().union(*(one.columns for one in self.conditions.values()))
        """Tables and places of the columns that invariants look at."""
        self.exact = exact
        if exact:
            tables = self.catalog.tables
            self.named = frozenset(one.position for one in tables)
            self.looked = frozenset((one.position, place) for one in tables for place in range(len(one.types)))
        wanted = [part for part in application.parts if not transactions or part.name in transactions]
        self.transactions = {part.name: self._transaction(part) for part in wanted}
        others = _others([one.writing for one in self.transactions.values()])
        for one in self.transactions.values():
            if one.execution is not None:
                one.execution.others = others

    def _checks(self) -> Iterator[Condition]:
        for table in self.application.schema.tables.values():
            for one in checks_of(table):
                try:
                    query = elaborated(self.catalog, one.violations, Variables.of({}))
                    assert isinstance(query, Query)
                    yield condition(one.name, query, self.ghosts)
                except OutsideFragment:
                    # It protects, but nothing is known of how.
                    continue

    def table(self, position: int) -> TableInfo:
        return self.catalog.tables[position]

    def _transaction(self, part: Part) -> TransactionProblem:
        procedure = part.transaction.procedure
        types = list(self._types(part))
        parameters = tuple(Parameter(local.name, kind) for local, kind in zip(procedure.parameters, types, strict=True))
        try:
            routine = elaborate_procedure(Elaborator(self.catalog), self.application.program, procedure, types)
            execution = Execution(self.ghosts, routine, parameters, Looked(self.named, self.looked, self.exact))
            writing = _writing(routine)
            if self.exact:
                _refuse_hidden_reads(routine)
            found = TransactionProblem(part.name, part, execution, parameters, writing)
            if self.exact or not found.reads_only:
                execution.ways(SERIAL, Names(), part.name)
        except (OutsideFragment, ExecutionError) as error:
            reason = error.what if isinstance(error, OutsideFragment) else str(error)
            return TransactionProblem(part.name, part, None, parameters, Writing(), reason)
        return found

    def _types(self, part: Part) -> Iterator[ValueType]:
        hints = typing.get_type_hints(part.transaction.function)
        drawn: Mapping[str, Any] | None = None
        for local in part.transaction.procedure.parameters:
            kind = _type(hints.get(local.name))
            if kind is None:
                if drawn is None:
                    drawn = part.arguments(Random(0), self.application.scale)
                kind = self.catalog.rules.given(drawn[local.name])
            yield kind


def tables_named(problem: Problem, invariant: str) -> frozenset[int]:
    """The tables that an invariant's query looks at, carried or not; all of them if even that is not known."""
    node = next(one.violations for one in problem.application.invariants if one.name == invariant)
    try:
        query = elaborated(problem.catalog, node, Variables.of({}))
        assert isinstance(query, Query)
        return frozenset(tables_of(query))
    except (OutsideFragment, ExecutionError):
        return frozenset(range(len(problem.catalog.tables)))


def _type(hint: Any) -> ValueType | None:
    if hint in _TYPES:
        return _TYPES[hint]
    if typing.get_origin(hint) is list:
        (element,) = typing.get_args(hint)
        inside = typing.get_args(element) if typing.get_origin(element) is tuple else (element,)
        kinds = [_TYPES.get(one) for one in inside]
        if all(kind is not None for kind in kinds):
            return rows_of(tuple((f"element{place}", kind) for place, kind in enumerate(kinds) if kind is not None))
    names = {"Decimal": DECIMAL, "datetime": TIMESTAMP, "date": DATE}
    return names.get(getattr(hint, "__name__", ""))


def _refuse_hidden_reads(routine: core.Routine) -> None:
    """What an INSERT reads is not followed as what queries read is."""
    for statement in statements(routine.body):
        if isinstance(statement, Insert) and (statement.queries or statement.conflict is not None):
            raise outside("an INSERT that reads, where every read matters")


def _others(writing: Sequence[Writing]) -> Others:
    return Others(
        frozenset[int]().union(*(one.inserts for one in writing)),
        frozenset[int]().union(*(one.deletes for one in writing)),
        frozenset((table, place) for one in writing for table, places in one.updates.items() for place in places),
    )


def _writing(routine: core.Routine) -> Writing:
    inserts, deletes, updates = set[int](), set[int](), dict[int, frozenset[int]]()
    if any(isinstance(step, core.Call) for step in all_steps(routine.body)):
        raise outside("a call of another procedure")
    for statement in statements(routine.body):
        match statement:
            case Insert(table, conflict=conflict):
                inserts.add(table.position)
                sets = conflict.sets if conflict is not None else ()
            case Delete(scan):
                deletes.add(scan.table.position)
                continue
            case Update(scan, sets=sets):
                table = scan.table
            case _:
                continue
        if sets:
            places = frozenset(one.place for one in sets)
            updates[table.position] = updates.get(table.position, frozenset()) | places
    return Writing(frozenset(inserts), frozenset(deletes), updates)
