"""The interpreter of the core, the emitted code, what views record and what the events reading tells agree with each other."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

import pytest

from differential.generation import Generator
from differential.generation_wide import WideGenerator
from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.concrete import Store
from isolde.semantics.core.elaborate_statements import elaborated
from isolde.semantics.core.relations import Statement as Core
from isolde.semantics.core.scope import Variables
from isolde.semantics.events import Events, statement_events
from isolde.semantics.events.interpreter import Interpreter
from isolde.semantics.tables.recording import Recorder, RecordingView
from isolde.semantics.tables.versions import VersionedTable
from isolde.semantics.tables.view import Undo
from isolde.tx import sql
from isolde.tx.dialects import Dialect
from isolde.tx.queries import Select
from isolde.tx.statements import Statement

NOW = datetime(2024, 2, 29, 12, 0, 0)
FAILURES = (ExecutionError, OutsideFragment)


def clock() -> datetime:
    return NOW


def core_of(store: Store, statement: Statement) -> Core:
    return elaborated(store.catalog, statement, Variables.of({}))


def shown(rows: Any) -> Any:
    return Counter(repr(row) for row in rows)


def outcome(run: Any) -> Any:
    """The count and rows, or the error, of a statement."""
    try:
        count, rows = run()
    except ExecutionError as error:
        return error.kind
    except OutsideFragment as refusal:
        return f"refused: {refusal.what}"
    return count, [repr(row) for row in rows]


def emitted(store: Store, statement: Statement, recorder: Recorder) -> Any:
    """What the emitted code does on recorded views of a copy of the store, and the copy."""
    copy = store.copy()
    views = [copy.writable(place) for place in range(len(copy.tables))]
    copy.tables = [RecordingView(view, recorder) for view in views]
    transaction = copy.transaction()

    def run() -> Any:
        result = transaction.run(statement)
        return result.count, result.rows

    return outcome(run), copy


def interpreted(store: Store, core: Core, recorder: Recorder) -> Any:
    copy = store.copy()
    views = [RecordingView(copy.writable(place), recorder) for place in range(len(copy.tables))]
    return outcome(lambda: Interpreter(store.catalog, views, clock).run(core, {}))


def watched(store: Store, core: Core) -> Events | None:
    copy = store.copy()
    try:
        return statement_events(
            store.catalog, [copy.writable(place) for place in range(len(copy.tables))], core, {}, clock
        )
    except FAILURES:
        return None


def check_agreement(store: Store, statement: Statement) -> str:
    """Compares all ways of running one statement; says how it ended."""
    try:
        core = core_of(store, statement)
    except FAILURES:
        return "not elaborated"
    fast, slow = Recorder(), Recorder()
    by_code, _ = emitted(store, statement, fast)
    by_interpreter = interpreted(store, core, slow)
    assert by_code == by_interpreter
    if isinstance(by_code, str):
        return "failed"
    assert set(map(repr, fast.sought)) == set(map(repr, slow.sought))
    assert set(map(repr, fast.read)) == set(map(repr, slow.read))
    assert fast.written == slow.written
    events = watched(store, core)
    assert events is not None
    assert [(w.table, w.number, w.before, w.after) for w in events.written] == fast.written
    check_predicates(store, events, fast)
    return "agreed"


def check_predicates(store: Store, events: Events, recorded: Recorder) -> None:
    """A predicate matches exactly the rows that were read by it, and every row that it matches was seen by the views."""
    seen = {(table, number) for table, number, _ in recorded.read}
    by_table: dict[int, set[int]] = {}
    for predicate in events.predicates:
        rows = dict(store.tables[predicate.table].all())
        matched = {number for number, row in rows.items() if predicate.matches(row)}
        assert {(predicate.table, number) for number in matched} <= seen
        by_table.setdefault(predicate.table, set()).update(matched)
    for table, numbers in by_table.items():
        assert {read.number for read in events.reads if read.table == table} == numbers


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("made_by", [Generator, WideGenerator])
def test_interpreter_emitted_code_recordings_and_events_agree(dialect: Dialect, made_by: type[Generator]) -> None:
    tally = agreement(dialect, made_by, range(12))
    assert tally["agreed"] > 200


@pytest.mark.long
@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("made_by", [Generator, WideGenerator])
def test_they_agree_on_thousands_of_statements(dialect: Dialect, made_by: type[Generator]) -> None:
    tally = agreement(dialect, made_by, range(1000, 1200))
    assert tally["agreed"] > 3_000


def agreement(dialect: Dialect, made_by: type[Generator], seeds: range) -> Counter[str]:
    tally: Counter[str] = Counter()
    for seed in seeds:
        generator = made_by(seed, dialect)
        store = Store(generator.schema, dialect, clock=clock)
        for place in range(35):
            statement = generator.insert() if place < 12 else generator.statement()
            tally[check_agreement(store, statement)] += 1
            transaction = store.transaction()
            try:
                transaction.run(statement)
                transaction.commit()
            except FAILURES:
                transaction.rollback()
    return tally


@pytest.mark.parametrize("dialect", list(Dialect))
def test_the_emitted_code_runs_the_same_on_versions_as_in_memory(dialect: Dialect) -> None:
    """Each statement is a transaction of its own: it reads the newest commit and becomes the next one."""
    for seed in range(6):
        generator = Generator(seed, dialect)
        memory = Store(generator.schema, dialect, clock=clock)
        versions = [VersionedTable(info, memory.catalog) for info in memory.catalog.tables]
        for commit in range(1, 40):
            statement = generator.insert() if commit < 12 else generator.statement()
            log: Undo = []
            views = [table.view(commit - 1, log) for table in versions]
            on_versions = memory.over(views, log)
            results = []
            for store in (memory, on_versions):
                transaction = store.transaction()
                results.append(outcome(lambda run=transaction.run, node=statement: _counted(run(node))))
                if isinstance(results[-1], str):
                    transaction.rollback()
                else:
                    transaction.commit()
            assert results[0] == results[1]
            if isinstance(results[1], str):
                assert all(not view.own for view in views)
            assert shown(on_versions.state().values()) == shown(memory.state().values())
            for view in views:
                view.commit_at(commit)
            if commit % 10 == 0:
                for table in versions:
                    table.forget(commit)


def _counted(result: Any) -> Any:
    return result.count, result.rows


SCHEMA = (
    "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(10)); CREATE TABLE u (id INT PRIMARY KEY, t_id INT, v INT);"
)


def filled() -> Store:
    store = Store(sql.schema(SCHEMA, Dialect.POSTGRESQL), Dialect.POSTGRESQL, clock=clock)
    store.load("t", [(1, 10, "x"), (2, 20, "y"), (3, None, "z")])
    store.load("u", [(1, 1, 100), (2, 1, 200), (3, 2, 300)])
    return store


def events_of(text: str) -> Events:
    store = filled()
    statement = sql.statement(text, Dialect.POSTGRESQL)
    found = statement_events(store.catalog, store.tables, core_of(store, statement), {}, clock)
    assert isinstance(statement, Select) or found.written
    return found


def test_a_query_reads_the_rows_that_its_predicates_match() -> None:
    found = events_of("SELECT t.b, u.v FROM t JOIN u ON u.t_id = t.id WHERE t.a > 15")
    assert [(read.table, read.key) for read in found.reads] == [(0, 2), (1, 3)]
    first, second = found.predicates
    assert first.columns == {1}
    assert first.matches((9, 16, "q"))
    assert not first.matches((9, 15, "q"))
    assert not first.matches((9, None, "q"))
    assert second.columns == {1}
    assert second.matches((9, 2, 0))
    assert not second.matches((9, 1, 0))


def test_an_update_tells_each_row_before_and_after() -> None:
    found = events_of("UPDATE t SET a = a + 1 WHERE id = 2")
    assert [(w.table, w.before, w.after) for w in found.written] == [(0, (2, 20, "y"), (2, 21, "y"))]
    assert [read.row for read in found.reads] == [(2, 20, "y")]
    assert found.answer == (1, [])


def test_an_insert_and_a_delete_have_one_side() -> None:
    inserted = events_of("INSERT INTO t VALUES (4, 1, 'w')").written
    deleted = events_of("DELETE FROM u WHERE v >= 200").written
    assert [(w.before, w.after) for w in inserted] == [(None, (4, 1, "w"))]
    assert [(w.before, w.after) for w in deleted] == [((2, 1, 200), None), ((3, 2, 300), None)]
