"""The adapter for any PEP 249 driver, on Turso, Firebird and SQLite, and on drivers with every quirk there is."""

from __future__ import annotations

import ctypes
import json
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from isolde.databases import Database, Feature, Kind, Table
from isolde.databases.conformance import CHECKS, Check, Subject, applicable
from isolde.databases.pep249 import open_driver
from isolde.databases.pep249_errors import translated
from isolde.errors import Aborted, ConnectionLost, DatabaseUnavailable, StatementFailed, UsageError
from isolde.levels import Level


def turso(directory: Path) -> Subject:
    pytest.importorskip("turso")
    return Subject(*open_driver("turso", str(directory / "turso.db")))


def turso_concurrent(directory: Path) -> Subject:
    pytest.importorskip("turso")
    return Subject(
        *open_driver(
            "turso",
            str(directory / "turso.db"),
            claims=Level.SNAPSHOT_ISOLATION,
            setup=["PRAGMA journal_mode = 'mvcc'"],
            begin=["BEGIN CONCURRENT"],
        )
    )


def firebird(directory: Path) -> Subject:
    driver = pytest.importorskip("firebird.driver")
    runtime = pytest.importorskip("firebird.embedded.provider").FirebirdProvider()
    try:
        # The wheel's engine is linked against these two and does not find them by itself; only one is in the wheel.
        ctypes.CDLL("libtommath.so.1", mode=ctypes.RTLD_GLOBAL)
        ctypes.CDLL(str(runtime.root / "libtomcrypt.so.1"), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        pytest.skip(f"Firebird's engine needs libtommath (Debian: libtommath1): {error}")
    os.environ.setdefault("FIREBIRD_LOCK", str(directory))
    sys.modules["firebird.driver.fbapi"].load_api(runtime)
    file = str(directory / "firebird.fdb")
    driver.create_database(file, user="SYSDBA").close()
    arguments = json.dumps({"database": file, "user": "SYSDBA"})
    return Subject(*open_driver("firebird.driver", arguments, claims=Level.SNAPSHOT_ISOLATION))


def sqlite(directory: Path) -> Subject:
    file = str(directory / "sqlite.db")
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    return Subject(*open_driver("sqlite3", json.dumps({"database": file, "timeout": 10, "check_same_thread": False})))


MAKERS = (turso, turso_concurrent, firebird, sqlite)


@pytest.fixture(params=MAKERS, ids=lambda maker: maker.__name__, scope="module")
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    maker: Callable[[Path], Subject] = request.param
    made = maker(tmp_path_factory.mktemp(maker.__name__))
    yield made
    made.database.close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_the_contract_is_kept(subject: Subject, check: Check) -> None:
    if check in applicable(subject.adapter):
        check.run(subject)


def test_a_commit_after_a_failed_statement_is_an_abort(subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as connection:
        connection.begin(subject.strongest)
        connection.write(0, 5)
        with pytest.raises(Aborted):
            connection.insert(1, 1)
        with pytest.raises(Aborted):
            connection.commit()
        assert subject.read(connection, 0, 1) == [0, 0]


def test_a_delete_that_finds_nothing_is_no_write(subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as connection:
        assert subject.transact(connection, lambda c: c.delete(0), lambda c: c.delete(0)) == [True, False]


def test_of_two_writers_one_is_told_that_it_aborted(subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as one, subject.connection(table) as two:
        one.begin(subject.strongest)
        two.begin(subject.strongest)
        assert (one.read(0), two.read(0)) == (b"0", b"0")
        one.write(0, 1)
        with ThreadPoolExecutor(1) as threads:
            # In Firebird the second writer waits for the first.
            second = threads.submit(two.write, 0, 2)
            wait([second], timeout=0.3)
            one.commit()
            with pytest.raises(Aborted):
                second.result()
        with pytest.raises(Aborted):
            two.commit()
        assert subject.read(two, 0) == [1]


def driver(name: str, monkeypatch: pytest.MonkeyPatch, **quirks: object) -> str:
    """A module like sqlite3, but for some quirks."""
    module = ModuleType(name)
    for attribute in ("connect", "paramstyle", "threadsafety", "Error", "InterfaceError", "DatabaseError"):
        setattr(module, attribute, getattr(sqlite3, attribute))
    for attribute in ("IntegrityError", "OperationalError", "InternalError", "ProgrammingError"):
        setattr(module, attribute, getattr(sqlite3, attribute))
    for attribute, quirk in quirks.items():
        setattr(module, attribute, quirk)
    monkeypatch.setitem(sys.modules, name, module)
    return name


class Uncounted(sqlite3.Cursor):
    """Never tells how many rows a statement found."""

    @property
    def rowcount(self) -> int:
        return -1


class UncountedConnection(sqlite3.Connection):
    def cursor(self, *_: Any, **__: Any) -> Any:
        return super().cursor(Uncounted)


def connect_uncounted(database: str) -> sqlite3.Connection:
    return sqlite3.connect(database, factory=UncountedConnection)


def made(database: Database, kind: Kind = Kind.REGISTERS) -> Table:
    table = Table("isolde_test", kind, 2)
    database.create(table)
    return table


def test_a_driver_that_counts_no_rows_is_asked_by_a_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = driver("uncounted", monkeypatch, connect=connect_uncounted)
    subject = Subject(*open_driver(name, str(tmp_path / "a.db")))
    connection = subject.database.connect(made(subject.database))
    subject.transact(connection, lambda c: c.write(0, 7), lambda c: c.write(9, 8))
    assert subject.read(connection, 0, 9) == [7, 8]
    connection.begin(subject.strongest)
    with pytest.raises(StatementFailed, match="does not tell how many rows"):
        connection.compare_and_set(0, 7, 8)
    connection.rollback()
    connection.begin(subject.strongest)
    with pytest.raises(StatementFailed, match="does not tell how many rows"):
        connection.delete(0)
    connection.rollback()
    connection.close()


def test_parameters_by_name_are_passed_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = driver("by_name", monkeypatch, paramstyle="named")
    subject = Subject(*open_driver(name, str(tmp_path / "a.db")))
    connection = subject.database.connect(made(subject.database, Kind.LISTS))
    subject.transact(connection, lambda c: c.append(0, 1), lambda c: c.append(0, 2))
    assert subject.read(connection, 0) == [[1, 2]]
    connection.close()


class DeafConnection(sqlite3.Connection):
    """Takes COMMIT without a word and does not do it."""

    def cursor(self, *_: Any, **__: Any) -> Any:
        return super().cursor(DeafCursor)


class DeafCursor(sqlite3.Cursor):
    def execute(self, text: str, *parameters: Any) -> Any:
        return super().execute("SELECT 1" if text == "COMMIT" and DeafCursor.deaf else text, *parameters)

    deaf = False


def connect_deaf(database: str) -> sqlite3.Connection:
    return sqlite3.connect(database, factory=DeafConnection)


def test_a_commit_that_did_nothing_is_an_abort(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    subject = Subject(*open_driver(driver("deaf", monkeypatch, connect=connect_deaf), str(tmp_path / "a.db")))
    connection = subject.database.connect(made(subject.database))
    connection.begin(subject.strongest)
    connection.write(0, 5)
    monkeypatch.setattr(DeafCursor, "deaf", True)
    with pytest.raises(Aborted, match="still open"):
        connection.commit()
    monkeypatch.setattr(DeafCursor, "deaf", False)
    connection.rollback()
    assert subject.read(connection, 0) == [0]
    connection.close()


def test_a_driver_that_threads_may_not_share_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DatabaseUnavailable, match="threadsafety 0"):
        open_driver(driver("lonely", monkeypatch, threadsafety=0), "x")


def test_what_is_no_driver_is_named() -> None:
    with pytest.raises(UsageError, match="json is no driver as PEP 249 has it: it has no 'connect'"):
        open_driver("json", "x")
    with pytest.raises(DatabaseUnavailable, match="no_such_driver cannot be imported"):
        open_driver("no_such_driver", "x")
    with pytest.raises(UsageError, match=r"arguments for sqlite3\.connect are not JSON"):
        open_driver("sqlite3", "{")


def test_a_database_that_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable) as caught:
        open_driver("sqlite3", str(tmp_path / "nowhere" / "a.db"))
    assert len(str(caught.value).splitlines()) == 1


def test_abilities_are_those_of_sql(subject: Subject) -> None:
    assert subject.adapter.able(Feature.SQL).able
    assert not subject.adapter.able(Feature.ORDER).able


class WithState(sqlite3.OperationalError):
    def __init__(self, text: str, sqlstate: str) -> None:
        super().__init__(text)
        self.sqlstate = sqlstate


class BusySnapshot(Exception):
    """As Turso lets it out: of no class that PEP 249 knows."""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (sqlite3.IntegrityError("UNIQUE constraint failed"), Aborted),
        (WithState("could not serialize access", "40001"), Aborted),
        (WithState("duplicate", "23000"), Aborted),
        (WithState("column of the name snapshot unknown", "42S22"), StatementFailed),
        (WithState("terminating connection due to conflict", "57P01"), ConnectionLost),
        (sqlite3.OperationalError("database is locked"), Aborted),
        (sqlite3.DatabaseError("Write-write conflict"), Aborted),
        (sqlite3.OperationalError(1213, "Deadlock found when trying to get lock"), Aborted),
        (sqlite3.OperationalError(2013, "Lost connection to server during query"), ConnectionLost),
        (sqlite3.InterfaceError("x"), ConnectionLost),
        (sqlite3.ProgrammingError("no such column: concurrent"), StatementFailed),
        (sqlite3.ProgrammingError("Cannot operate on a closed database."), ConnectionLost),
        (BrokenPipeError(), ConnectionLost),
        (TypeError("not callable"), StatementFailed),
        (BusySnapshot("stale"), Aborted),
    ],
    ids=str,
)
def test_errors_are_told_apart(error: Exception, kind: type[Exception]) -> None:
    assert isinstance(translated(sqlite3, error, "SELECT 1"), kind)
