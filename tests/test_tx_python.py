"""Transactions as Python functions: what they mean, where they run, and what is refused."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from isolde.databases.caller import Caller
from isolde.databases.servers import Running
from isolde.errors import IsoldeError, OutsideFragment, StatementFailed, UsageError
from isolde.semantics.concrete import Ending, Store, call_function
from isolde.tx.dialects import Dialect
from isolde.tx.procedures import Program
from isolde.tx.python import Row, Transaction, program, transaction
from isolde.tx.sql import schema

SCHEMA = schema(
    """
    CREATE TABLE course (id INTEGER PRIMARY KEY, capacity INTEGER NOT NULL);
    CREATE TABLE enrollment (student INTEGER, course INTEGER, PRIMARY KEY (student, course));
    """,
    Dialect.POSTGRESQL,
)


@transaction
def enroll(tx: Any, student: int, course: int) -> Any:
    """A parameter may be called as a column is: it is the parameter all the same."""
    seat = tx.one("SELECT capacity FROM course WHERE id = :course", course=course)
    if seat is None:
        tx.abort("no such course")
    if seat.capacity > 0:
        tx.execute(
            "INSERT INTO enrollment (student, course) VALUES (:student, :course)", student=student, course=course
        )
        tx.execute("UPDATE course SET capacity = capacity - 1 WHERE id = :course", course=course)
        return seat.capacity - 1
    return -1


@transaction
def everything(tx: Any, least: int) -> Any:
    total = 0
    names = ""
    rows = tx.all("SELECT id, capacity FROM course WHERE capacity >= :least ORDER BY id", least=least)
    for row in rows:
        if row.capacity == 0:
            continue
        total += row.capacity * 2
        names = "some" if row.id > 1 and not row.id < 0 else names
    for number in range(1, 4):
        if number == 3:
            break
        total = total + number
    count = 0
    while count < 2:
        count += 1
    a, b = count, total
    a, b = b, a
    first = tx.value("SELECT min(capacity) FROM course")
    nothing = tx.value("SELECT capacity FROM course WHERE id = :i", i=-1)
    touched = tx.execute("UPDATE course SET capacity = capacity + :more WHERE id = :i", more=max(1, 2), i=least + 1)
    again = enroll(tx, 500 + least, 1)
    assert again is not None, "course 1 is there"
    if rows and nothing is None and names in ("some", "none"):
        return a, b, first, len(rows), touched, again, names
    return 0, 0, 0, 0, 0, 0, ""


FUNCTIONS = (enroll, everything)
PROGRAM: Program = program(SCHEMA, FUNCTIONS)
COURSES = [(1, 2), (2, 0), (3, 5)]


def filled(dialect: Dialect) -> Store:
    store = Store(SCHEMA, dialect)
    store.load("course", COURSES)
    return store


@pytest.mark.parametrize("dialect", list(Dialect))
def test_a_function_means_what_it_does(dialect: Dialect) -> None:
    plain, compiled = filled(dialect), filled(dialect)
    calls: list[tuple[Transaction, tuple[int, ...]]] = [
        (enroll, (7, 1)),
        (enroll, (8, 2)),
        (enroll, (8, 4)),
        (everything, (0,)),
        (everything, (2,)),
        (enroll, (9, 3)),
    ]
    for function, arguments in calls:
        outcome = compiled.call(PROGRAM, function.name, arguments)
        try:
            result = call_function(plain, function, *arguments)
        except Exception as error:
            pytest.fail(f"{function.name}{arguments}: {error}")
        if outcome.ending is Ending.ABORTED:
            assert result is None
        else:
            assert outcome.values == (result if isinstance(result, tuple) else (result,)), function.name
        assert plain.same_state(compiled), function.name
    assert plain.state()["enrollment"]


@transaction
def add_course(tx: Any, course: int, capacity: int) -> Any:
    tx.execute("INSERT INTO course VALUES (:course, :capacity)", course=course, capacity=capacity)


@transaction
def add_course_twice(tx: Any, course: int) -> Any:
    tx.execute("INSERT INTO course VALUES (:course, 1)", course=course)
    tx.execute("INSERT INTO course VALUES (:course, 2)", course=course)


@transaction
def all_courses(tx: Any) -> Any:
    return [tuple(row) for row in tx.all("SELECT * FROM course ORDER BY id")]


@transaction
def remove(tx: Any) -> Any:
    tx.execute("DELETE FROM enrollment")
    tx.execute("DELETE FROM course")


@transaction
def gives_up_late(tx: Any, course: int) -> Any:
    tx.execute("UPDATE course SET capacity = 0 WHERE id = :course", course=course)
    tx.abort("not today")


@pytest.fixture(params=["sqlite", "duckdb", "postgresql", "mariadb"])
def call(request: pytest.FixtureRequest, server: Callable[[str], Running], tmp_path: Path) -> Iterator[Caller]:
    kind = request.param
    url = f"{kind}:{tmp_path / 'real.db'}" if kind in ("sqlite", "duckdb") else server(kind).url
    with Caller(url, SCHEMA) as call:
        try:
            call.create_tables()
        except StatementFailed:
            call(remove)
        yield call


def test_the_same_function_runs_on_a_real_database(call: Caller) -> None:
    store = filled(Dialect.POSTGRESQL)
    for course, capacity in COURSES:
        call(add_course, course, capacity)
    for function, arguments in (
        (enroll, (7, 1)),
        (everything, (0,)),
        (enroll, (9, 3)),
        (gives_up_late, (1,)),
        (enroll, (8, 4711)),
    ):
        assert call(function, *arguments) == call_function(store, function, *arguments)
    assert call(all_courses) == sorted(store.state()["course"])


def test_what_fails_on_a_real_database_leaves_no_effect(call: Caller) -> None:
    call(add_course, 1, 30)
    with pytest.raises(IsoldeError):
        call(add_course_twice, 2)
    assert call(all_courses) == [(1, 30)]


def test_a_store_without_sql_calls_no_functions(server: Callable[[str], Running]) -> None:
    with pytest.raises(UsageError, match="redis speaks no SQL"):
        Caller(server("redis").url, SCHEMA)


@transaction
def divides(_: Any, a: int) -> Any:
    return a / 2


@transaction
def builds_sql(tx: Any, a: str) -> Any:
    tx.execute("UPDATE course SET capacity = " + a)


@transaction
def is_vague(_: Any, a: int) -> Any:
    if a:
        return 1
    return 0


@transaction
def forgets_a_parameter(tx: Any) -> Any:
    tx.execute("DELETE FROM course WHERE id = :course")


@transaction
def passes_too_much(tx: Any, a: int) -> Any:
    tx.execute("DELETE FROM course", a=a)


@transaction
def may_skip(tx: Any, a: int) -> Any:
    if a > 0 and tx.value("SELECT count(*) FROM course") > 0:
        return 1
    return 0


@transaction
def calls_others(_: Any, a: int) -> Any:
    print(a)


@transaction
def has_defaults(_: Any, a: int = 3) -> Any:
    return a


@transaction
def comprehends(tx: Any) -> Any:
    rows = [row.id for row in tx.all("SELECT id FROM course")]
    return len(rows)


@transaction
def uses_a_window(tx: Any) -> Any:
    return tx.value("SELECT rank() OVER (ORDER BY id) FROM course")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (divides, "'a / 2' is outside of the transaction language; Python and SQL disagree about division"),
        (builds_sql, "SQL that is put together"),
        (is_vague, "'a' as a condition is outside of the transaction language; compare it"),
        (
            forgets_a_parameter,
            "the parameter :course without a value is outside of the transaction language; pass course=…",
        ),
        (passes_too_much, "the argument a is outside of the transaction language; the SQL has no :a"),
        (may_skip, "where it may be skipped"),
        (calls_others, "the call 'print'"),
        (has_defaults, "these parameters"),
        (comprehends, "outside of the transaction language"),
        (uses_a_window, "a window function"),
    ],
    ids=lambda value: value.name if isinstance(value, Transaction) else "",
)
def test_what_is_outside_is_refused_with_its_line_and_what_to_write(function: Transaction, words: str) -> None:
    with pytest.raises(OutsideFragment) as caught:
        _ = function.procedure
    text = str(caught.value)
    place = re.match(r"(.*?):(\d+):(\d+): ", text)
    assert place is not None, text
    assert Path(place[1]).name == Path(__file__).name
    lines = Path(__file__).read_text().splitlines()
    start = next(number for number, line in enumerate(lines, 1) if line.startswith(f"def {function.name}("))
    assert start <= int(place[2]) <= start + 3, text
    assert words in text


def test_a_dialect_has_to_be_known() -> None:
    with pytest.raises(UsageError, match="no dialect 'oracle'"):
        transaction(dialect="oracle")


def test_rows_are_looked_at_by_name_and_place() -> None:
    row = Row(("id", "name"), (1, "x"))
    assert (row.id, row["name"], row[0], list(row), len(row)) == (1, "x", 1, [1, "x"], 2)
    assert row == Row(("id", "name"), (1, "x"))
    with pytest.raises(AttributeError, match="no column nope; it has id, name"):
        _ = row.nope


def test_sqlite_takes_the_functions_sql_as_it_is() -> None:
    """The functions above are not only ours: their SQL is plain."""
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE course (id INTEGER PRIMARY KEY, capacity INTEGER NOT NULL)")
        connection.execute("SELECT capacity FROM course WHERE id = :course", {"course": 1})
