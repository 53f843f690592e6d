"""Drivers with habits that would make a healthy database look guilty: each is found out before a run, and refused."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from isolde.databases import Database, Kind, Table
from isolde.databases.conformance import Subject
from isolde.databases.pep249 import open_driver
from isolde.databases.pep249_errors import translated
from isolde.databases.pep249_level import named_in
from isolde.databases.servers import Running
from isolde.errors import Aborted, DatabaseUnavailable, StatementFailed, UsageError
from isolde.levels import Level
from running import ran

TABLE = Table("isolde_test", Kind.REGISTERS, 3)


class Habits:
    """What a made-up database of many levels does; SQLite keeps its rows."""

    autocommit = False
    """Every statement is a transaction of its own, whatever commit and rollback are called for."""
    level = "READ COMMITTED"
    """What new connections begin with."""
    question = "VALUES CURRENT ISOLATION"
    setter = "SET CURRENT ISOLATION = "
    lies_about_level = False
    counts: Callable[[int], int] = staticmethod(lambda count: count)
    refuses_rollback = False
    refuses_definitions = False
    error: str = ""
    """What is said of a duplicate key, by an error of no class in particular."""


class FakeError(Exception):
    """All that this driver raises."""


class FakeConnection:
    def __init__(self, path: str, habits: type[Habits]) -> None:
        self.habits, self.level = habits, habits.level
        self.real = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
        self.real.execute("PRAGMA journal_mode = WAL")
        self.autocommit = habits.autocommit

    def cursor(self) -> FakeCursor:
        return FakeCursor(self)

    def commit(self) -> None:
        if self.real.in_transaction:
            self.real.execute("COMMIT")

    def rollback(self) -> None:
        was_open = self.real.in_transaction
        if was_open:
            self.real.execute("ROLLBACK")
        if self.habits.refuses_rollback:
            raise FakeError("no ongoing transaction")

    def close(self) -> None:
        self.real.close()


class FakeCursor:
    def __init__(self, connection: FakeConnection) -> None:
        self._connection, self._cursor = connection, connection.real.cursor()
        self.description: Any = None
        self.rowcount = -1
        self._rows: list[tuple[Any, ...]] = []

    def execute(self, text: str, parameters: Any = ()) -> None:
        connection, habits = self._connection, self._connection.habits
        self.description, self._rows = None, []
        if text == habits.question and habits.question:
            self.description, self._rows = [("level",)], [(connection.level,)]
            return
        if habits.setter and text.startswith(habits.setter):
            if not habits.lies_about_level:
                connection.level = text.removeprefix(habits.setter)
            return
        if re.search(r"sqlite_version|pragma_version|^SHOW|@@|^VALUES|^CALL|^SET|rdb\$|information_schema", text, re.I):
            raise FakeError(f"syntax error near '{text.split()[0]}'")
        by_itself = habits.autocommit or connection.autocommit
        if habits.refuses_definitions and not by_itself and text.startswith(("CREATE", "DROP")):
            raise FakeError("definitions are not allowed inside of a transaction")
        if not by_itself and not connection.real.in_transaction:
            connection.real.execute("BEGIN")
        try:
            self._cursor.execute(text, parameters)
        except sqlite3.IntegrityError as error:
            raise FakeError(habits.error or str(error)) from None
        except sqlite3.OperationalError as error:
            raise FakeError(str(error)) from None
        self.description = self._cursor.description
        self._rows = self._cursor.fetchall() if self.description else []
        self.rowcount = habits.counts(self._cursor.rowcount)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows

    def close(self) -> None:
        self._cursor.close()


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    def made(**habits: Any) -> str:
        kind = type("TheseHabits", (Habits,), {k: staticmethod(v) if callable(v) else v for k, v in habits.items()})
        module = ModuleType("made_up")
        for name in ("Error", "InterfaceError", "IntegrityError", "OperationalError", "ProgrammingError"):
            setattr(module, name, type(name, (FakeError,), {}))
        module.Error = FakeError  # type: ignore[attr-defined]
        module.paramstyle, module.threadsafety = "qmark", 1  # type: ignore[attr-defined]
        module.connect = lambda path: FakeConnection(path, kind)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "made_up", module)
        return "made_up"

    return made


def created(database: Database) -> Database:
    database.create(TABLE)
    return database


def test_a_level_that_was_never_set_is_set_and_proved(driver: Callable[..., str], tmp_path: Path) -> None:
    """As Derby: it takes no SET TRANSACTION, and has a statement and a question of its own."""
    subject = Subject(*open_driver(driver(), str(tmp_path / "a.db")))
    assert subject.strongest.called == "SET CURRENT ISOLATION = SERIALIZABLE"
    with subject.table() as table, subject.connection(table) as connection:
        assert connection._connection.level == "SERIALIZABLE"  # type: ignore[attr-defined]
        assert subject.read(connection, 0) == [0]


@pytest.mark.parametrize("habits", [{"setter": ""}, {"lies_about_level": True}])
def test_a_level_that_the_database_does_not_report_is_refused(
    habits: dict[str, Any], driver: Callable[..., str], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"serializable was asked for, but .* they run at READ COMMITTED"):
        open_driver(driver(**habits), str(tmp_path / "a.db"))
    _, database = open_driver(driver(**habits), str(tmp_path / "a.db"), claims=Level.READ_COMMITTED)
    created(database).drop(TABLE)


@pytest.mark.parametrize(
    ("answer", "claims"),
    [("CS", Level.READ_COMMITTED), ("RR", Level.SERIALIZABLE), ("repeatable_read", Level.SNAPSHOT_ISOLATION)],
)
def test_levels_are_known_by_every_name(answer: str, claims: Level, driver: Callable[..., str], tmp_path: Path) -> None:
    assert open_driver(driver(level=answer, setter=""), str(tmp_path / "a.db"), claims=claims)


def test_a_level_that_nobody_tells_is_refused_unless_it_is_the_only_one(
    driver: Callable[..., str], tmp_path: Path
) -> None:
    silent: dict[str, Any] = {"question": "", "setter": ""}
    path = str(tmp_path / "a.db")
    with pytest.raises(UsageError, match=r"does not tell at which level .* --only-level"):
        open_driver(driver(**silent), path)
    assert open_driver(driver(**silent), path, only_level=True)


def test_where_a_level_cannot_be_asked_for_it_is_what_the_statements_set(
    driver: Callable[..., str], tmp_path: Path
) -> None:
    path, setter = str(tmp_path / "a.db"), "SET ISOLATION TO "
    silent: dict[str, Any] = {"question": "", "setter": setter}
    assert open_driver(driver(**silent), path, setup=[f"{setter}SERIALIZABLE"])
    with pytest.raises(UsageError, match="--begin and --setup set REPEATABLE READ"):
        open_driver(driver(**silent), path, setup=[f"{setter}REPEATABLE READ"])
    assert open_driver(driver(**silent), path, setup=[f"{setter}REPEATABLE READ"], claims=Level.SNAPSHOT_ISOLATION)
    by_sql: dict[str, Any] = {"question": "", "setter": "SET TRANSACTION ISOLATION LEVEL "}
    _, database = open_driver(driver(**by_sql), path)
    assert database.offers()[0].called == "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"


def test_statements_that_name_a_level_are_understood() -> None:
    for text in (
        "BEGIN ISOLATION LEVEL SERIALIZABLE",
        "set session transaction isolation level serializable",
        "SET CURRENT ISOLATION = SERIALIZABLE",
        "SET default_transaction_isolation TO 'serializable'",
        "ALTER SESSION SET ISOLATION_LEVEL = SERIALIZABLE",
    ):
        assert named_in([text]) == "SERIALIZABLE", text
    assert named_in(["BEGIN CONCURRENT", "PRAGMA x"]) is None


def test_a_driver_that_commits_every_statement_is_refused(driver: Callable[..., str], tmp_path: Path) -> None:
    """As JayDeBeApi does unless it is told otherwise."""
    _, database = open_driver(driver(autocommit=True), str(tmp_path / "a.db"))
    with pytest.raises(DatabaseUnavailable, match="a rollback undid nothing"):
        database.create(TABLE)
    with sqlite3.connect(tmp_path / "a.db") as left:
        assert left.execute("SELECT name FROM sqlite_master").fetchall() == []


def test_such_a_run_accuses_nobody(driver: Callable[..., str], tmp_path: Path) -> None:
    name = driver(autocommit=True)
    result = ran(tmp_path / "out", "--driver", name, "--connect", str(tmp_path / "a.db"))
    assert (result.status, result.out) == (4, "")
    assert len(result.error.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_level_at_which_others_see_what_is_not_committed_is_refused(tmp_path: Path) -> None:
    connect = (
        f'{{"database": "file:{tmp_path.name}?mode=memory&cache=shared", "uri": true, "check_same_thread": false}}'
    )
    keeper = sqlite3.connect(f"file:{tmp_path.name}?mode=memory&cache=shared", uri=True)
    dirty = ["PRAGMA read_uncommitted = 1"]
    _, database = open_driver("sqlite3", connect, setup=dirty)
    with pytest.raises(DatabaseUnavailable, match="another connection saw what was not committed"):
        database.create(TABLE)
    _, weak = open_driver("sqlite3", connect, setup=dirty, claims=Level.READ_UNCOMMITTED)
    created(weak).drop(TABLE)
    keeper.close()


@pytest.mark.parametrize("counts", [lambda _: 0, lambda _: 1, lambda _: -1], ids=["none", "always one", "unknown"])
def test_counts_that_are_wrong_are_not_believed(
    counts: Callable[[int], int], driver: Callable[..., str], tmp_path: Path
) -> None:
    subject = Subject(*open_driver(driver(counts=counts), str(tmp_path / "a.db")))
    with subject.table() as table, subject.connection(table) as connection:
        subject.transact(connection, lambda c: c.write(0, 7), lambda c: c.write(9, 8))
        assert subject.read(connection, 0, 9) == [7, 8]
        connection.begin(subject.strongest)
        with pytest.raises(StatementFailed, match="or tells it wrongly"):
            connection.compare_and_set(0, 7, 8)
        connection.rollback()


def test_counts_that_are_right_are_believed(driver: Callable[..., str], tmp_path: Path) -> None:
    subject = Subject(*open_driver(driver(), str(tmp_path / "a.db")))
    with subject.table() as table, subject.connection(table) as connection:
        connection.begin(subject.strongest)
        assert [connection.compare_and_set(0, 0, 7).applied, connection.compare_and_set(0, 0, 8).applied] == [
            True,
            False,
        ]
        assert [connection.delete(0), connection.delete(0)] == [True, False]
        connection.rollback()


def test_a_refused_rollback_is_no_lost_connection(driver: Callable[..., str], tmp_path: Path) -> None:
    subject = Subject(*open_driver(driver(refuses_rollback=True), str(tmp_path / "a.db")))
    with subject.table() as table, subject.connection(table) as connection:
        for _ in range(2):
            connection.begin(subject.strongest)
            connection.write(0, 5)
            connection.rollback()
            assert subject.read(connection, 0) == [0]


@pytest.mark.parametrize(
    "said", ["key already exists", "Unique index or primary key violation [23505-252]", "Duplicate entry"]
)
def test_a_duplicate_key_is_an_aborted_transaction(said: str, driver: Callable[..., str], tmp_path: Path) -> None:
    subject = Subject(*open_driver(driver(error=said), str(tmp_path / "a.db")))
    with subject.table() as table, subject.connection(table) as connection:
        connection.begin(subject.strongest)
        with pytest.raises(Aborted):
            connection.insert(0, 5)
        connection.rollback()


def test_a_table_that_is_there_is_no_aborted_transaction() -> None:
    module = ModuleType("any")
    for name in ("Error", "InterfaceError", "IntegrityError", "ProgrammingError"):
        setattr(module, name, type(name, (Exception,), {}))
    error = module.Error("the table already exists")
    assert isinstance(translated(module, error, "CREATE TABLE t (k INTEGER)"), StatementFailed)
    assert isinstance(translated(module, error, "INSERT INTO t VALUES (1)"), Aborted)


def test_definitions_may_have_to_be_outside_of_transactions(driver: Callable[..., str], tmp_path: Path) -> None:
    subject = Subject(*open_driver(driver(refuses_definitions=True), str(tmp_path / "a.db")))
    for kind in Kind:
        with subject.table(kind) as table, subject.connection(table) as connection:
            assert subject.read(connection, 0) == [0 if kind is Kind.REGISTERS else []]


class JavaConnection(FakeConnection):
    """Over JDBC: autocommit is on, and the level is set by methods."""

    def __init__(self, path: str, habits: type[Habits]) -> None:
        super().__init__(path, habits)
        del self.autocommit
        self.jconn = self
        self.set: list[Any] = []
        self.number = 2

    def setAutoCommit(self, on: bool) -> None:  # noqa: N802
        self.autocommit = on

    def setTransactionIsolation(self, number: int) -> None:  # noqa: N802
        self.number = number

    def getTransactionIsolation(self) -> int:  # noqa: N802
        return self.number


def test_a_connection_over_jdbc_is_told_its_level_and_to_keep_transactions_open(
    driver: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = driver(question="", setter="")
    monkeypatch.setattr(sys.modules[name], "connect", lambda path: JavaConnection(path, _Silent))
    subject = Subject(*open_driver(name, str(tmp_path / "a.db")))
    with subject.table() as table, subject.connection(table) as connection:
        inner = connection._connection  # type: ignore[attr-defined]
        assert (inner.number, inner.autocommit) == (8, False)


class _Silent(Habits):
    question = setter = ""


def test_a_healthy_run_through_a_driver_is_checked(driver: Callable[..., str], tmp_path: Path) -> None:
    name = driver()
    size = ("--transactions", "100", "--sessions", "4")
    result = ran(tmp_path / "out", "--driver", name, "--connect", str(tmp_path / "a.db"), *size)
    assert (result.status, result.verdicts) == (0, ["satisfied"]), result.out + result.error


REAL = [
    ("postgresql", "psycopg", "dbname", "serializable", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"),
    ("postgresql", "psycopg", "dbname", "rc", "READ COMMITTED"),
    ("mariadb", "pymysql", "database", "serializable", "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE"),
    ("mariadb", "pymysql", "database", "rc", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"),
]


@pytest.mark.parametrize(("kind", "name", "database", "isolation", "called"), REAL)
def test_real_servers_are_set_to_the_level_and_say_so(
    kind: str,
    name: str,
    database: str,
    isolation: str,
    called: str,
    server: Callable[[str], Running],
    tmp_path: Path,
) -> None:
    pytest.importorskip(name)
    place = server(kind).nodes[0].place
    user, held = ("postgres", "postgres") if kind == "postgresql" else ("root", "test")
    connect = {"host": "127.0.0.1", "port": place.port, "user": user, "password": place.secret, database: held}
    size = ("--transactions", "150", "--sessions", "4", "--isolation", isolation)
    result = ran(tmp_path / "out", "--driver", name, "--connect", json.dumps(connect), *size)
    assert (result.status, result.verdicts) == (0, ["satisfied"]), result.out + result.error
    assert result.run["isolation"] == called
    assert place.secret not in (tmp_path / "out" / "history.jsonl").read_text()


@pytest.mark.parametrize(("begin", "status"), [("BEGIN ISOLATION LEVEL REPEATABLE READ", 0), ("BEGIN", 2)])
def test_statements_of_the_callers_own_are_held_against_what_the_server_says(
    begin: str, status: int, server: Callable[[str], Running], tmp_path: Path
) -> None:
    url = server("postgresql").url
    size = ("--transactions", "100", "--sessions", "4", "--isolation", "si", "--begin", begin)
    result = ran(tmp_path / "out", "--driver", "psycopg", "--connect", url, *size)
    assert result.status == status, result.out + result.error
    assert status == 0 or "the database says that they run at READ COMMITTED" in result.error
