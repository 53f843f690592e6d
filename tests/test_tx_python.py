"""Transactions as Python functions: what they mean, where they run, and what is refused."""

from __future__ import annotations

import contextlib
import importlib.util
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from isolde.databases import Kind, SqlConnection, Table, open_database
from isolde.databases.caller import Caller
from isolde.databases.servers import Running
from isolde.errors import ExecutionError, IsoldeError, OutsideFragment, UsageError
from isolde.semantics.concrete import Ending, Store, call_function
from isolde.tx.dialects import Dialect
from isolde.tx.procedures import Program
from isolde.tx.python import Row, SeveralRows, Transaction, program, transaction
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
def gives_up_late(tx: Any, course: int) -> Any:
    tx.execute("UPDATE course SET capacity = 0 WHERE id = :course", course=course)
    tx.abort("not today")


@pytest.fixture(params=["sqlite", "duckdb", "postgresql", "mariadb"])
def call(request: pytest.FixtureRequest, server: Callable[[str], Running], tmp_path: Path) -> Iterator[Caller]:
    kind = request.param
    url = f"{kind}:{tmp_path / 'real.db'}" if kind in ("sqlite", "duckdb") else server(kind).url
    # Others may have left tables of these names on a server that all use.
    _, database = open_database(url)
    with closing(cast(SqlConnection, database.connect(Table("isolde_none", Kind.REGISTERS, 0)))) as connection:
        for name in ("enrollment", "course"):
            connection.execute(f"DROP TABLE IF EXISTS {name}")
    database.close()
    with Caller(url, SCHEMA) as call:
        call.create_tables()
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


def written(text: str, tmp_path: Path) -> Transaction:
    """The transaction ``f`` of a module with this text."""
    path = tmp_path / "odd.py"
    path.write_text(f"from isolde.tx.python import transaction\n\n\n{text}\n")
    spec = importlib.util.spec_from_file_location("odd", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Transaction = module.f
    return found


def function(*lines: str, parameters: str = "tx, a") -> str:
    return "\n".join(["@transaction", f"def f({parameters}):", *(f"    {line}" for line in lines)])


ONE = 'r = tx.one("SELECT id, capacity FROM course WHERE id = :a", a=a)'
SAME = [
    function(
        "for r in tx.all('SELECT id, capacity FROM course ORDER BY id'):",
        "    if r.capacity > a:",
        "        return r.id",
    ),
    function("n = 0", "while True:", "    n += 1", "    if n > a:", "        break", "return n"),
    function("while True:", "    n = tx.value('SELECT max(id) FROM course')", "    break", "return n"),
    function("# one", "", "b = a  # two", "", "return b"),
    function("größe = a + 1", "return größe"),
    function('return tx.value("""', "  SELECT capacity", "FROM course -- here", '  WHERE id = :a""", a=a)'),
    function(
        "if 0 <= tx.execute('UPDATE course SET capacity = capacity + 1 WHERE id = :a', a=a) < 2 <= a:",
        "    return 1",
        "return 0",
    ),
    function("b = None if a > 1 else a", "return 1 if b in (1, None) else 0, 1 if b not in (3, 4) else 0"),
    function("b = tx.value('SELECT capacity FROM course WHERE id = 99')", "return 1 if b == a or b != 2 else 0"),
    function("_1 = a", "return _1 + tx.execute('UPDATE course SET capacity = :x', x=a + 1) + 5"),
    function("rows = 2", "row = 3", "found = 4", "S = 5", "return rows + row + found + S + a"),
    function(ONE, "if r is None or r.capacity > 3:", "    return 0", "return r.capacity"),
    function(ONE, "return r.capacity if r is not None else -1"),
    function(ONE, "if not r:", "    return -1", "return r['id'] + r.capacity"),
    function("s = 'A'", "t = 'a'", "return 1 if s == t else 2 if s < t else 3"),
    function("s = '2'", "return 1 if a == s else 0"),
    function("b: int", "b = a", "c: int = b", "return c"),
    function("b = 1", "for i in range(a):", "    b += i", "    i += 5", "    a = 0", "return b, a"),
    function("a, b = 1, a", "a, b = b, a", "return a, b"),
    function("return max(a, 2, a + 1), min(a, 2), abs(a - 5), -a"),
    "def outside():\n    @transaction\n    def f(tx, a):\n        s = '''x\n        y'''\n        return s\n    return f\n\nf = outside()",
    "def same(f):\n    return f\n\n\n@transaction\n@same\ndef f(tx, a):\n    return a",
    "def told(t):\n    return t\n\n\n@told\n@transaction\ndef f(tx, a):\n    return a",
    # Python ends in an error here, and the procedure without effect.
    function(ONE, "tx.execute('DELETE FROM course')", "return r.capacity"),
    function(ONE, "tx.execute('DELETE FROM course')", "if r.capacity > 3:", "    return 1", "return 0"),
    function("i, n = tx.one('SELECT id, capacity FROM course WHERE id = :a', a=a)", "return i + n"),
    function(
        "b = tx.value('SELECT capacity FROM course WHERE id = :a', a=a)",
        "tx.execute('DELETE FROM course')",
        "return b + 1",
    ),
    function(
        "b = tx.value('SELECT capacity FROM course WHERE id = :a', a=a)", "if not b < 3:", "    return 1", "return 2"
    ),
    function("b = tx.value('SELECT capacity FROM course WHERE id = :a', a=a)", "return max(1, b)"),
    function("if a > 1:", "    raise ValueError('no')", "return a"),
    function("assert a > 1, 'more'", "return a"),
]


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("text", SAME)
def test_odd_functions_mean_what_they_do(text: str, dialect: Dialect, tmp_path: Path) -> None:
    odd = written(text, tmp_path)
    whole = program(SCHEMA, [odd])
    for argument in (0, 1, 2, 3, 7, -1):
        plain, compiled = filled(dialect), filled(dialect)
        expected: Any
        try:
            result = call_function(plain, odd, argument)
            expected = result if isinstance(result, tuple) else (result,)
        except (AssertionError, AttributeError, TypeError, ValueError):
            expected = None
        found: Any = None
        with contextlib.suppress(ExecutionError):
            outcome = compiled.call(whole, "f", (argument,))
            found = (outcome.values or (None,)) if outcome.ending is Ending.RETURNED else None
        assert found == expected, argument
        assert plain.same_state(compiled), argument


@pytest.mark.parametrize("dialect", list(Dialect))
def test_an_integer_that_does_not_fit_is_an_error_and_never_another_number(dialect: Dialect, tmp_path: Path) -> None:
    odd = written(function("b = a * 4611686018427387904", "c = b + b", "d = -c", "return c - 1 - d"), tmp_path)
    whole = program(SCHEMA, [odd])
    assert filled(dialect).call(whole, "f", (0,)).values == (-1,)
    for argument in (1, 2, 3, -1, -2, 2**62, 2**63 - 1, -(2**63), 2**63, -(2**70)):
        store = filled(dialect)
        with pytest.raises(ExecutionError, match="out of range") as caught:
            store.call(whole, "f", (argument,))
        assert caught.value.kind == "out-of-range"
        assert call_function(store, odd, argument) == 2**64 * argument - 1


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (function("return a + G") + "\n\nG = 5", 6, "'G', which is not the function's own, is outside"),
        (
            "def g(b):\n    @transaction\n    def f(tx, a):\n        return a + b\n    return f\n\nf = g(1)",
            7,
            "'b', which is not",
        ),
        (function("return a", parameters="tx, a, *b"), 5, "this list of parameters"),
        (function("return a", parameters="tx, /, a"), 5, "this list of parameters"),
        (function("return a", parameters="self, tx, a"), 5, "a method"),
        (function("tx = a", "return tx"), 6, "an assignment to the handle 'tx'"),
        (function("def g(b):", "    return b", "return g(a)"), 6, "a function inside of a transaction"),
        (function("return f'{a}'"), 6, "an f-string"),
        (function("return 'x' + a"), 6, "'x' as a number"),
        (function("return (a > 1) + 1"), 6, "the condition 'a > 1' as a number"),
        (function("return a ** 2"), 6, "'a ** 2'"),
        (function("return 0.5 + a"), 6, "the number 0.5"),
        (function("return a + 9223372036854775808"), 6, "integers have 64 bits"),
        (function("return round(a)"), 6, "Python rounds a half to the even side"),
        (function("return min(a)"), 6, "min of one value"),
        (function("return sum(r.id for r in tx.all('SELECT id FROM course'))"), 6, "the call 'sum'"),
        (function("return [r.id for r in tx.all('SELECT id FROM course')]"), 6, "a comprehension"),
        (function("return (lambda: a)()"), 6, "outside"),
        (function("for i in range(3):", "    a += i", "else:", "    a = 0", "return a"), 6, "else of a loop"),
        (function("while a < 3:", "    a += 1", "else:", "    a = 0", "return a"), 6, "else of a loop"),
        (function("for i in range(a, 0, -1):", "    pass", "return a"), 6, "range(start, stop)"),
        (function("for i in [1, 2]:", "    a += i", "return a"), 6, "a loop over '[1, 2]'"),
        (function(ONE, "r.capacity += 1", "return a"), 7, "an assignment to 'r.capacity'"),
        (function(ONE, "r['capacity'] = 1", "return a"), 7, "rows cannot be changed"),
        (function("(b, c), d = (1, 2), a", "return b"), 6, "an assignment to '((b, c), d)'"),
        (function("b, *c = 1, 2, a", "return b"), 6, "an assignment to '(b, *c)'"),
        (function("b, b = 1, a", "return b"), 6, "name each variable once"),
        (function("b = c = a", "return b"), 6, "an assignment to several targets"),
        (function("if (b := a) > 1:", "    return b", "return 0"), 6, "assign it in a line of its own"),
        (function("match a:", "    case 1:", "        return 2", "return 3"), 6, "use if and elif"),
        (function("try:", "    return a", "except ValueError:", "    return 0"), 6, "an error ends the transaction"),
        (function("with open('x') as y:", "    return a"), 6, "with is outside"),
        (function("global G", "G = a", "return a"), 6, "global is outside"),
        (function("import os", "return a"), 6, "an import inside"),
        (function("b = a", "del b", "return a"), 7, "del is outside"),
        (function("yield a"), 6, "yield is outside"),
        (function("a + 1", "return a"), 6, "which does nothing,"),
        (function("if a > 1:", "    b = 1", "return b"), 8, "'b' where it may have no value"),
        (function("for i in range(a):", "    pass", "return i"), 8, "'i' where it may have no value"),
        (function("while a < 3:", "    a += 1", "    b = a", "return b"), 9, "'b' where it may have no value"),
        (function(ONE, "if a > 1 and r.capacity > 1:", "    return 1", "return 0"), 7, "of a row that may be missing"),
        (
            function(ONE, "while r.capacity > a:", "    a += 1", "return a"),
            7,
            "a row that may be missing in the condition",
        ),
        (function(ONE, "s = r", "return s.id"), 7, "the row or rows 'r' as a value"),
        (function(ONE, "r = 5", "return r"), 7, "'r' for a row and for a value"),
        (function(ONE, "return r[0]"), 7, "name the column: r.column"),
        (function("return a.real"), 6, "only rows that tx.one or a loop over tx.all gives"),
        (
            function("range = a", "for i in range(3):", "    pass", "return a"),
            7,
            "the call 'range', which is not Python's own",
        ),
        (
            "def max(a, b):\n    return 42\n\n\n" + function("return max(a, 2)"),
            10,
            "the call 'max', which is not Python's own",
        ),
        (function("return tx.value('SELECT id, capacity FROM course')"), 6, "2 columns for 1 names"),
        (function("return tx.value('SELECT * FROM course')"), 6, "tx.value of '*'"),
        (function("return tx.value('DELETE FROM course')"), 6, "tx.value of a statement without rows"),
        (function("b, c = tx.one('SELECT id FROM course')", "return b"), 6, "1 columns for 2 names"),
        (function("tx.execute('DELETE FROM course', **{'a': a})"), 6, "** in a call of the database"),
        (function("f()", "return a"), 6, "write f(tx, …) with plain arguments"),
        (function("f(tx, a, a)", "return a"), 6, "it takes 2"),
        (function("b, c = f(tx, a)", "return 1"), 6, "1 values of f for 2 names"),
        (function("b = f(tx, a)", "return 1, 2"), 6, "2 values of f for 1 names"),
        (function("return f(tx, a)"), 6, "assign what another transaction returns to a variable"),
        ("@transaction\nasync def f(tx, a):\n    return a", 4, "not as a lambda and not async"),
        ("f = transaction(lambda tx, a: a)", 4, "not as a lambda and not async"),
        (
            "import functools\n\n\ndef wrap(f):\n    @functools.wraps(f)\n    def g(tx, a):\n        return f(tx, a + 1)\n    return g\n\n\n"
            "@transaction\n@wrap\ndef f(tx, a):\n    return a",
            14,
            "a decorator below @transaction",
        ),
    ],
)
def test_what_could_mean_something_else_is_refused_at_its_line(
    text: str, line: int, words: str, tmp_path: Path
) -> None:
    with pytest.raises(OutsideFragment) as caught:
        _ = written(text, tmp_path).procedure
    assert caught.value.place.startswith(f"{tmp_path / 'odd.py'}:{line}"), caught.value
    assert words in str(caught.value)
    assert caught.value.instead


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


SEATS = [(1, 5), (2, 5), (3, 7)]


@transaction
def several(tx: Any, low: int) -> Any:
    row = tx.one("SELECT capacity FROM course WHERE id >= :low", low=low)
    return None if row is None else row.capacity


@transaction
def several_values(tx: Any, low: int) -> Any:
    return tx.value("SELECT capacity FROM course WHERE id >= :low ORDER BY id", low=low)


@transaction
def several_unpacked(tx: Any, low: int) -> Any:
    course, seats = tx.one("SELECT id, capacity FROM course WHERE id >= :low ORDER BY id LIMIT 2", low=low)
    return course * 100 + seats


@transaction
def several_unseen(tx: Any, low: int) -> Any:
    tx.one("SELECT id FROM course WHERE id >= :low", low=low)
    return 1


@transaction
def several_changed(tx: Any, low: int) -> Any:
    return tx.value("UPDATE course SET capacity = 9 WHERE id >= :low RETURNING id", low=low)


@transaction
def first_of_several(tx: Any, low: int) -> Any:
    return tx.value("SELECT id FROM course WHERE id >= :low ORDER BY capacity DESC, id LIMIT 1", low=low)


@transaction
def one_of_equals(tx: Any, low: int) -> Any:
    return tx.value("SELECT capacity FROM course WHERE id >= :low AND capacity = 5 LIMIT 1", low=low)


ONES = [several, several_values, several_unpacked, several_unseen, first_of_several, one_of_equals]


def ended(run: Callable[[], Any]) -> Any:
    """What it gave, or that it failed: a program's own error and a procedure's abort are told apart by their texts only."""
    try:
        return run()
    except (ExecutionError, SeveralRows, TypeError):
        return "failed"


# MySQL's UPDATE returns no rows.
CHANGED = [(several_changed, dialect) for dialect in Dialect if dialect is not Dialect.MYSQL]


@pytest.mark.parametrize(("function", "dialect"), [*((one, dialect) for one in ONES for dialect in Dialect), *CHANGED])
def test_several_rows_for_one_are_an_error_in_python_and_compiled(function: Transaction, dialect: Dialect) -> None:
    whole = program(SCHEMA, [function])

    def outcome(store: Store, low: int) -> Any:
        result = store.call(whole, function.name, (low,))
        return result.values[0] if result.ending is Ending.RETURNED else "failed"

    for low in (1, 2, 3, 4):
        plain, compiled = Store(SCHEMA, dialect), Store(SCHEMA, dialect)
        plain.load("course", SEATS)
        compiled.load("course", SEATS)
        found = ended(partial(call_function, plain, function, low))
        assert found == ended(partial(outcome, compiled, low)), low
        assert plain.same_state(compiled)
        if function in (several, several_values, several_changed):
            assert (found == "failed") is (low < 3)


@pytest.mark.parametrize("function", ONES, ids=lambda function: function.name)
def test_several_rows_for_one_are_an_error_on_a_database(function: Transaction, call: Caller) -> None:
    for course, capacity in SEATS:
        call(add_course, course, capacity)
    store = Store(SCHEMA, Dialect.POSTGRESQL)
    store.load("course", SEATS)
    for low in (1, 2, 3, 4):
        found = ended(partial(call, function, low))
        assert found == ended(partial(call_function, store, function, low)), low
