"""What a statement did to the tables: rows read, predicates, rows written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from isolde.semantics.core.catalog import Catalog
from isolde.semantics.core.evaluate import Environment, Evaluator
from isolde.semantics.core.nodes import Column, Expression, below, query_of
from isolde.semantics.core.plan import Visit
from isolde.semantics.core.relations import Scan, Statement
from isolde.semantics.events.interpreter import Answer, Interpreter
from isolde.semantics.tables.recording import Recorder, RecordingView
from isolde.semantics.tables.view import Numbered, Row, TableView


@dataclass(frozen=True, slots=True)
class RowRead:
    """A row that a predicate matched: its table, its number, the primary key, and the version that was read."""

    table: int
    number: int
    key: Any
    row: Row


@dataclass(frozen=True, slots=True)
class RowWritten:
    """``before`` is ``None`` for a row that was inserted, ``after`` for one that was deleted."""

    table: int
    number: int
    before: Row | None
    after: Row | None


@dataclass(frozen=True, slots=True, eq=False)
class Predicate:
    """What a scan asked of each row of a table, with the values that everything else in it had at that time.

    ``columns``: the places of the columns that it looks at. A change of a row that leaves them alone changes no answer.
    """

    table: int
    columns: frozenset[int]
    conditions: tuple[Expression, ...]
    _source: int
    _environment: Environment
    _evaluator: Evaluator

    def matches(self, row: Row) -> bool:
        """Whether the scan would have found this row, in this version."""
        env = self._environment.copy()
        env.rows[self._source] = row
        return all(self._evaluator.value(condition, env) is True for condition in self.conditions)


@dataclass(slots=True)
class Events:
    """``answer`` is the count and the rows that the statement gave."""

    answer: Answer
    reads: list[RowRead] = field(default_factory=list)
    predicates: list[Predicate] = field(default_factory=list)
    written: list[RowWritten] = field(default_factory=list)


def statement_events(
    catalog: Catalog,
    tables: Sequence[TableView],
    statement: Statement,
    variables: dict[int, Any],
    clock: Callable[[], datetime],
) -> Events:
    """Runs the statement on the views, and tells what it read and wrote."""
    recorder = Recorder()
    watched = [RecordingView(table, recorder) for table in tables]
    running = _Watching(catalog, watched, clock)
    events = Events(running.run(statement, variables), running.reads, running.predicates)
    events.written = [RowWritten(*written) for written in recorder.written]
    return events


class _Watching(Interpreter):
    """Notes the predicate of every scan, and the rows that it matches."""

    def __init__(self, catalog: Catalog, tables: Sequence[TableView], clock: Callable[[], datetime]) -> None:
        super().__init__(catalog, tables, clock)
        self.reads: list[RowRead] = []
        self.predicates: list[Predicate] = []

    def found(self, visit: Visit, scan: Scan, env: Environment) -> Sequence[Numbered]:
        rows = super().found(visit, scan, env)
        info = scan.table
        # Conditions with queries inside read tables of their own: they are not this table's predicate.
        own = tuple(
            condition for condition in visit.conditions if all(query_of(part) is None for part in below(condition))
        )
        columns = frozenset(
            part.place
            for condition in own
            for part in below(condition)
            if isinstance(part, Column) and part.source == scan.id
        )
        predicate = Predicate(info.position, columns, own, scan.id, env.copy(), self)
        self.predicates.append(predicate)
        key = info.unique_keys[0] if info.table.primary_key else None
        for number, row in rows:
            if predicate.matches(row):
                self.reads.append(RowRead(info.position, number, number if key is None else key(row), row))
        return rows
