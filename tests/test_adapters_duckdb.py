"""DuckDB: what it refuses, when, and what it says then."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from isolde.databases import Kind, Table, open_database
from isolde.databases.conformance import Subject, increments
from isolde.databases.duckdb import DuckdbConnection
from isolde.errors import Aborted, ConnectionLost, DatabaseUnavailable, StatementFailed
from isolde.tx.dialects import Dialect
from isolde.tx.render.words import quoted


@pytest.fixture
def subject() -> Iterator[Subject]:
    subject = Subject(*open_database("duckdb:"))
    yield subject
    subject.database.close()


def test_write_skew_commits(subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as one, subject.connection(table) as two:
        for connection in (one, two):
            connection.begin(subject.strongest)
            assert (connection.read(0), connection.read(1)) == (b"0", b"0")
        one.write(0, 1)
        two.write(1, 1)
        one.commit()
        two.commit()
        assert subject.read(one, 0, 1) == [1, 1]


def test_the_second_writer_aborts_and_its_commit_is_no_commit(subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as one, subject.connection(table) as two:
        one.begin(subject.strongest)
        two.begin(subject.strongest)
        one.write(0, 1)
        two.write(1, 2)
        with pytest.raises(Aborted, match="Conflict"):
            two.write(0, 2)
        one.commit()
        with pytest.raises(Aborted):
            two.commit()
        two.rollback()
        assert subject.read(two, 0, 1) == [1, 0]


def test_commit_after_a_wrong_statement_is_an_abort(subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as connection:
        assert isinstance(connection, DuckdbConnection)
        connection.begin(subject.strongest)
        connection.write(0, 1)
        with pytest.raises(StatementFailed):
            connection.execute("SELECT nothing FROM nowhere")
        with pytest.raises(Aborted):
            connection.commit()
        assert subject.read(connection, 0) == [0]


def test_of_two_inserts_the_later_commit_aborts(subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as one, subject.connection(table) as two:
        one.begin(subject.strongest)
        two.begin(subject.strongest)
        one.insert(50, 1)
        two.insert(50, 2)
        one.commit()
        with pytest.raises(Aborted, match="duplicate key"):
            two.commit()
        two.rollback()
        assert subject.read(two, 50) == [1]


def test_a_key_that_others_inserted_meanwhile_cannot_be_written(subject: Subject) -> None:
    """It is not in the snapshot, so that an update finds nothing, and is there for the insert that follows."""
    with subject.table() as table, subject.connection(table) as one, subject.connection(table) as two:
        one.begin(subject.strongest)
        assert one.read(50) == b"null"
        subject.transact(two, lambda c: c.insert(50, 1))
        with pytest.raises(Aborted, match="Duplicate key"):
            one.write(50, 2)
        with pytest.raises(Aborted):
            one.commit()
        assert subject.read(two, 50) == [1]


def test_a_delete_that_finds_nothing_is_no_write(subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as connection:
        assert subject.transact(connection, lambda c: c.delete(0), lambda c: c.delete(0)) == [True, False]


def test_a_connection_that_was_broken_off_stays_so(subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as one, subject.connection(table) as two:
        one.begin(subject.strongest)
        one.write(0, 1)
        one.abandon()
        with pytest.raises(ConnectionLost):
            one.commit()
        one.close()
        one.close()
        assert subject.read(two, 0) == [0]


def test_changes_that_return_rows_return_them(subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as connection:
        assert isinstance(connection, DuckdbConnection)
        connection.begin(subject.strongest)
        assert connection.execute(f"UPDATE {table.name} SET v = ? WHERE k < ? RETURNING k", (3, 2)).rows == [(0,), (1,)]
        assert connection.execute(f'SELECT COUNT(*) AS "Count" FROM {table.name}').rows == [(8,)]
        assert connection.execute(f"DELETE FROM {table.name} WHERE k > 100").count == 0
        connection.commit()


def test_a_lock_is_refused_with_what_to_do(subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as connection:
        assert isinstance(connection, DuckdbConnection)
        connection.begin(subject.strongest)
        with pytest.raises(StatementFailed, match="DuckDB has no locks that a query could ask for; leave them out"):
            connection.execute(f"SELECT v FROM {table.name} WHERE k = 0 FOR UPDATE")
        connection.rollback()


def test_twenty_sessions_lose_no_increment(subject: Subject) -> None:
    with subject.table() as table:
        committed = increments(subject, table, subject.strongest, sessions=20, each=10)
        with subject.connection(table) as connection:
            assert subject.read(connection, 0) == [committed]


def test_a_file_keeps_what_was_committed_and_belongs_to_one_process(tmp_path: Path) -> None:
    url = f"duckdb:{tmp_path / 'a.duckdb'}"
    table = Table("isolde_kept", Kind.REGISTERS, 1)
    subject = Subject(*open_database(url))
    subject.database.create(table)
    with subject.connection(table) as connection:
        subject.transact(connection, lambda c: c.write(0, 7))
    opening = f"from isolde.databases import open_database\nopen_database({url!r})"
    other = subprocess.run([sys.executable, "-c", opening], capture_output=True, text=True, check=False)
    assert "DatabaseUnavailable" in other.stderr
    assert "lock" in other.stderr.splitlines()[-1]
    subject.database.close()
    again = Subject(*open_database(url))
    with again.connection(table) as connection:
        assert again.read(connection, 0) == [7]
    again.database.close()


def test_a_file_that_is_something_else_is_told_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("nothing of a database " * 1000)
    with pytest.raises(DatabaseUnavailable) as caught:
        open_database(f"duckdb:{file}")
    assert len(str(caught.value).splitlines()) == 1


def test_every_word_of_its_language_can_be_a_name() -> None:
    with duckdb.connect() as connection:
        words = [word for (word,) in connection.execute("SELECT keyword_name FROM duckdb_keywords()").fetchall()]
        assert len(words) > 400
        for word in words:
            name = quoted(word, Dialect.POSTGRESQL)
            connection.execute(f"CREATE TABLE {name} ({name} INTEGER)")
            connection.execute(f"INSERT INTO {name} ({name}) VALUES (1)")
            rows = connection.execute(f"SELECT {name}.{name}, {name} FROM {name} WHERE {name} = 1").fetchall()
            assert rows == [(1, 1)], word
            connection.execute(f"DROP TABLE {name}")
