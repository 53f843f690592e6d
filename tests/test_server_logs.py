"""Logs of database servers as histories: what they hold, and what is said to be missing."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import isolde
from isolde import Sql, Status
from isolde.cli.main import cli
from isolde.databases import open_database
from isolde.databases.contract import Kind, SqlConnection, Table
from isolde.databases.servers import start
from isolde.errors import DatabaseUnavailable, InputError


def converted(source: Path, *options: str) -> tuple[Path, Result]:
    target = source.with_suffix(".jsonl")
    result = CliRunner().invoke(cli, ["convert", str(source), str(target), *options], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return target, result


def entry(at: int, session: str, message: str, severity: str = "LOG", **more: str) -> dict[str, Any]:
    time = f"2026-11-18 14:55:{at:02}.500 UTC"
    return {"timestamp": time, "session_id": session, "error_severity": severity, "message": message, **more}


def json_log(path: Path, *entries: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in entries))
    return path


def csv_log(path: Path, *entries: dict[str, Any]) -> Path:
    """The same with the columns of PostgreSQL 15."""
    lines = []
    for one in entries:
        cells = [""] * 26
        places = {"timestamp": 0, "session_id": 5, "error_severity": 11, "state_code": 12, "message": 13, "detail": 14}
        for name, place in places.items():
            cells[place] = one.get(name, "")
        lines.append(
            ",".join('"' + cell.replace('"', '""') + '"' if place else cell for place, cell in enumerate(cells))
        )
    path.write_text("\n".join(lines) + "\n")
    return path


ENTRIES = (
    entry(0, "a", "statement: CREATE TABLE t (id INT PRIMARY KEY, v TEXT)"),
    entry(1, "a", "duration: 900.0 ms"),
    entry(2, "a", "statement: BEGIN ISOLATION LEVEL REPEATABLE READ"),
    entry(2, "a", "duration: 0.1 ms"),
    entry(3, "b", "statement: BEGIN"),
    entry(3, "b", "duration: 0.1 ms"),
    entry(4, "a", "duration: 0.2 ms"),
    entry(4, "a", "execute s1: INSERT INTO t\n VALUES ($1, $2)", detail="parameters: $1 = '1', $2 = 'it''s $1'"),
    entry(4, "a", "duration: 0.3 ms"),
    entry(5, "b", "statement: INSERT INTO t VALUES (1, 'x')"),
    entry(6, "a", "statement: COMMIT"),
    entry(6, "a", "duration: 5.0 ms"),
    entry(7, "b", "duplicate key value violates unique constraint", "ERROR", state_code="23505"),
    entry(8, "b", "statement: COMMIT"),
    entry(8, "b", "duration: 0.1 ms"),
    entry(9, "a", "statement: BEGIN; DELETE FROM t; COMMIT"),
    entry(9, "a", "duration: 3.0 ms"),
    entry(10, "b", "statement: DELETE FROM t"),
)


@pytest.mark.parametrize("write", [json_log, csv_log])
def test_a_log_of_postgresql_is_a_history(write: Any, tmp_path: Path) -> None:
    path, result = converted(write(tmp_path / "server.log", *ENTRIES))
    history = isolde.read(path)
    assert [(one.session, one.status.value, len(one.ops)) for one in history.transactions] == [
        ("a", "committed", 1),
        ("a", "committed", 1),
        ("b", "aborted", 1),
        ("a", "committed", 1),
        ("b", "unknown", 1),
    ]
    inserted, refused = history.transactions[1], history.transactions[2]
    (op,) = inserted.ops
    assert isinstance(op, Sql)
    assert op.content["sql"] == "INSERT INTO t\n VALUES ('1', 'it''s $1')"
    assert (inserted.level, (inserted.end or 0) - (inserted.start or 0)) == ("REPEATABLE READ", 4000)
    (op,) = refused.ops
    assert isinstance(op, Sql)
    assert op.content["error"] == "unique"
    assert "no rows and no counts" in result.stderr
    assert isolde.audit(path, "strict-ser").verdict.value == "satisfied"


def test_what_succeeded_and_could_not_is_found(tmp_path: Path) -> None:
    tables = tmp_path / "tables.sql"
    tables.write_text("SET x = 1; CREATE TABLE t (id INT PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, 'there');")
    twice = (entry(1, "a", "statement: INSERT INTO t VALUES (1, 'again')"), entry(2, "a", "duration: 1.0 ms"))
    path, _ = converted(json_log(tmp_path / "server.log", *twice), "--tables", str(tables))
    assert isolde.audit(path, "rc").verdict.value == "violated"


def test_the_setting_that_is_missing_is_named(tmp_path: Path) -> None:
    silent = json_log(tmp_path / "silent.log", entry(1, "a", "checkpoint starting: time"))
    with pytest.raises(InputError, match="log_statement = 'all'"):
        converted(silent)
    _, result = converted(json_log(tmp_path / "short.log", entry(1, "a", "statement: SELECT 1")))
    assert "log_duration" in result.stderr
    general = tmp_path / "general.log"
    general.write_text("mariadbd, Version: 10.11\nTime\t\t    Id Command\tArgument\n261118 14:51:03\t     3 Quit\t\n")
    with pytest.raises(InputError, match="general_log = ON"):
        converted(general)


def test_a_general_log_tells_no_outcome(tmp_path: Path) -> None:
    general = tmp_path / "general.log"
    general.write_text(
        "mariadbd, Version: 10.11.19-MariaDB-log. started with:\nTime\t\t    Id Command\tArgument\n"
        "261118 14:51:03\t     3 Connect\troot@127.0.0.1 on test using TCP/IP\n"
        "\t\t     3 Query\tSTART TRANSACTION\n\t\t     3 Query\tUPDATE t\n SET v = 1\n"
        "261118 14:51:04\t     4 Query\tSELECT v FROM t\n\t\t     3 Query\tROLLBACK\n\t\t     3 Quit\t\n"
    )
    path, result = converted(general)
    history = isolde.read(path)
    assert {(one.session, one.status) for one in history.transactions} == {
        ("3", Status.ABORTED),
        ("4", Status.UNKNOWN),
    }
    assert history.extra["store"] == "mariadb 10.11.19-MariaDB-log."
    assert "unknown outcome" in result.stderr


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that a server of another user can write to, too."""
    with tempfile.TemporaryDirectory(prefix="isolde-log-") as name:
        Path(name).chmod(0o777)
        yield Path(name)


@pytest.fixture
def logging_server(place: Path) -> Iterator[str]:
    try:
        server = start(
            "postgresql",
            logging_collector="on",
            log_destination="jsonlog",
            log_directory=str(place),
            log_filename="server",
            log_file_mode="0644",
            log_statement="all",
            log_duration="on",
        )
    except DatabaseUnavailable as error:
        pytest.skip(str(error))
    try:
        yield server.url
    finally:
        server.stop()


@pytest.mark.server
def test_the_log_of_a_real_postgresql_is_explained(logging_server: str, place: Path) -> None:
    _, database = open_database(logging_server)
    offer = next(one for one in database.offers() if one.name == "repeatable-read")
    one, other = (database.connect(Table("unused", Kind.REGISTERS, 0)) for _ in range(2))
    sessions: list[SqlConnection] = [one, other]  # type: ignore[list-item]
    sessions[0].execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    sessions[0].execute("INSERT INTO t VALUES (1, 0), (2, 0)")
    for session in sessions:
        session.begin(offer)
    for session, key in zip(sessions, (1, 2), strict=True):
        session.execute("SELECT v FROM t WHERE id = $1", [key])
        session.execute("UPDATE t SET v = v + 1 WHERE id = $1", [3 - key])
    for session in sessions:
        session.commit()
        session.close()
    database.close()
    (written,) = place.glob("server*.json")
    path, _ = converted(written)
    history = isolde.read(path)
    assert sum(one.status is Status.COMMITTED and one.level == "REPEATABLE READ" for one in history.transactions) == 2
    # The driver asks for the version, too.
    assert isolde.audit(path, "strict-si", skip_unsupported=True).verdict.value == "satisfied"
