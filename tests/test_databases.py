"""What the adapters of servers say when something is wrong, and what they make of answers that mislead."""

from __future__ import annotations

import secrets
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from decimal import Decimal
from typing import Any, cast

import pytest

from isolde.databases import (
    Database,
    Kind,
    SqlConnection,
    Table,
    adapter_named,
    conformance,
    offer_named,
    open_database,
)
from isolde.databases.servers import Running
from isolde.databases.servers.process import free_port
from isolde.databases.servers.proxy import Proxy
from isolde.errors import Aborted, ConnectionLost, DatabaseUnavailable, IsoldeError, StatementFailed, UsageError
from isolde.levels import Level
from isolde.tx.render.words import quoted
from running import as_user

Server = Callable[[str], Running]
SQL_KINDS = ("postgresql", "mariadb")


@contextmanager
def session(database: Database, kind: Kind = Kind.REGISTERS) -> Iterator[tuple[SqlConnection, Table]]:
    table = Table(f"t{secrets.token_hex(4)}", kind, 4)
    database.create(table)
    connection = cast(SqlConnection, database.connect(table))
    try:
        yield connection, table
    finally:
        connection.close()
        database.drop(table)


@pytest.fixture(params=SQL_KINDS)
def database(request: pytest.FixtureRequest, server: Server) -> Database:
    return open_database(server(request.param).url)[1]


def administer(server: Running, *texts: str) -> None:
    database = open_database(server.url)[1]
    with closing(database.connect(Table("none", Kind.REGISTERS, 0))) as connection:
        for text in texts:
            cast(SqlConnection, connection).execute(text)


def failure(url: str) -> str:
    with pytest.raises(IsoldeError) as caught:
        open_database(url)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("scheme", "reason"), [("postgresql", "Connection refused"), ("mariadb", "Can't connect to")], ids=SQL_KINDS
)
def test_a_server_that_is_not_there(scheme: str, reason: str) -> None:
    url = f"{scheme}://me:secret@127.0.0.1:{free_port()}/test"
    said = failure(url)
    assert reason in said
    assert said.startswith(url.replace("secret", "***"))


def test_a_wrong_password_and_a_missing_database_in_mariadb(server: Server) -> None:
    running = server("mariadb")
    administer(running, "CREATE OR REPLACE USER careful@'127.0.0.1' IDENTIFIED BY 'right'")
    url = as_user(running.url, "careful", "wrong")
    assert failure(url).endswith("Access denied for user 'careful'@'127.0.0.1' (using password: YES)")
    assert "Unknown database 'nowhere'" in failure(running.url.replace("/test", "/nowhere"))
    assert "names no database" in failure(running.url.replace("/test", ""))


def test_a_user_who_may_not_make_tables_in_mariadb(server: Server) -> None:
    running = server("mariadb")
    administer(
        running,
        "CREATE DATABASE IF NOT EXISTS looked_at",
        "CREATE OR REPLACE USER reader@'127.0.0.1'",
        "GRANT SELECT ON looked_at.* TO reader@'127.0.0.1'",
    )
    url = as_user(running.url, "reader").replace("/test", "/looked_at")
    with pytest.raises(DatabaseUnavailable, match="cannot make the table t: CREATE command denied to user 'reader'"):
        open_database(url)[1].create(Table("t", Kind.REGISTERS, 1))


def test_a_table_that_cannot_be_filled_is_not_left_behind(server: Server) -> None:
    running = server("mariadb")
    administer(
        running,
        "CREATE DATABASE IF NOT EXISTS made_only",
        "CREATE OR REPLACE USER maker@'127.0.0.1'",
        "GRANT CREATE, DROP ON made_only.* TO maker@'127.0.0.1'",
    )
    database = open_database(as_user(running.url, "maker").replace("/test", "/made_only"))[1]
    for _ in range(2):
        with pytest.raises(DatabaseUnavailable, match="INSERT command denied"):
            database.create(Table("t", Kind.REGISTERS, 1))


def test_a_missing_database_and_role_in_postgresql(server: Server) -> None:
    url = server("postgresql").url
    assert 'database "nowhere" does not exist' in failure(url.removesuffix("postgres") + "nowhere")
    said = failure(as_user(url, "nobody_here", "guessed"))
    assert 'password authentication failed for user "nobody_here"' in said


def test_a_wrong_password_in_postgresql(server: Server) -> None:
    running = server("postgresql")
    administer(running, "DROP ROLE IF EXISTS careful", "CREATE ROLE careful LOGIN PASSWORD 'right'")
    said = failure(as_user(running.url, "careful", "wr%40ng"))
    assert 'password authentication failed for user "careful"' in said
    assert "wr%40ng" not in said
    assert "wr@ng" not in said


def test_a_user_who_may_not_make_tables_in_postgresql(server: Server) -> None:
    running = server("postgresql")
    administer(
        running,
        "DROP ROLE IF EXISTS reader",
        "CREATE ROLE reader LOGIN PASSWORD 'known'",
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
    )
    database = open_database(as_user(running.url, "reader", "known"))[1]
    with pytest.raises(
        DatabaseUnavailable, match=r"cannot make the table t: permission denied for schema public; .*GRANT"
    ):
        database.create(Table("t", Kind.REGISTERS, 1))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://me:se%zzcret@localhost/test", 'invalid percent-encoded token: "***"'),
        ("postgresql://me:sec@ret@localhost/test", "is written %40"),
        ("postgresql://me:secret@localhost/test?colour=red", 'invalid URI query parameter: "colour"'),
        ("postgresql://me@localhost:many/test?password=secret", "is not a database URL"),
        ("mariadb://me:secret@localhost:many/test", "is not a database URL"),
    ],
)
def test_a_wrong_url_is_refused_and_its_password_is_not_shown(url: str, said: str) -> None:
    message = failure(url)
    assert said in message
    assert "cret" not in message


def test_a_variable_that_the_server_does_not_have(server: Server) -> None:
    assert "Unknown system variable 'colour'" in failure(server("mariadb").url + "?colour=red")
    assert "cannot be a variable" in failure(server("mariadb").url + "?sql_mode=a%27b")


def test_a_server_that_accepts_and_says_nothing_is_given_up(server: Server) -> None:
    for kind in SQL_KINDS:
        running = server(kind)
        with Proxy(running.nodes[0].place.port) as proxy:
            proxy.cut()
            url = running.url.replace(f":{running.nodes[0].place.port}/", f":{proxy.port}/")
            assert failure(f"{url}?connect_timeout=1")


def test_a_driver_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for driver in ("psycopg", "MySQLdb", "pymysql"):
        monkeypatch.setitem(sys.modules, driver, None)
    assert 'pip install "isolde[postgresql]"' in failure("postgresql://localhost/test")
    said = failure("mariadb://localhost/test")
    assert "MySQLdb" in said
    assert "pymysql" in said


def test_mariadb_works_with_its_second_driver_too(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "MySQLdb", None)
    conformance.run(adapter_named("mariadb"), server("mariadb").url)


def test_a_level_is_found_by_its_names_first_and_then_by_what_is_claimed(server: Server) -> None:
    """READ UNCOMMITTED claims read committed too; whoever says rc means the other."""
    _, database = open_database(server("postgresql").url)
    asked = ("rc", "rr", "si", "ser", "READ COMMITTED", "read_uncommitted")
    assert [offer_named(database, name).called for name in asked] == [
        "READ COMMITTED",
        "REPEATABLE READ",
        "REPEATABLE READ",
        "SERIALIZABLE",
        "READ COMMITTED",
        "READ UNCOMMITTED",
    ]


def test_postgresql_is_not_sent_half_of_a_text(server: Server) -> None:
    _, database = open_database(server("postgresql").url)
    connection = cast(SqlConnection, database.connect(Table("isolde_none", Kind.REGISTERS, 0)))
    with closing(connection), pytest.raises(StatementFailed, match="no text with a NUL character"):
        connection.execute("SELECT $1", ["a\0b"])


def test_what_repeatable_read_claims_depends_on_the_server(server: Server) -> None:
    url = server("mariadb").url
    claims = [
        offer_named(open_database(url + option)[1], "repeatable-read").claims
        for option in ("?innodb_snapshot_isolation=OFF", "?innodb_snapshot_isolation=ON")
    ]
    assert claims == [Level.PREFIX, Level.SNAPSHOT_ISOLATION]


def test_a_transaction_that_failed_cannot_be_committed(database: Database) -> None:
    with session(database) as (connection, table):
        connection.begin(database.offers()[-1])
        connection.write(1, 5)
        with pytest.raises(Aborted):
            connection.insert(0, 1)
        with pytest.raises(Aborted):
            connection.commit()
        connection.rollback()
        assert values(connection, database, table) == [0, 0, 0, 0]


def values(connection: SqlConnection, database: Database, table: Table) -> list[Any]:
    connection.begin(database.offers()[-1])
    rows = connection.execute(f"SELECT v FROM {table.name} ORDER BY k").rows
    connection.commit()
    return [row[0] for row in rows or []]


def test_of_two_that_wait_for_each_other_one_is_aborted(database: Database) -> None:
    with session(database) as (one, table), closing(database.connect(table)) as two:
        outcomes: list[str] = []
        met = threading.Barrier(2)

        def run(connection: Any, first: int, second: int) -> None:
            connection.begin(offer_named(database, "read-committed"))
            connection.write(first, 1)
            met.wait()
            try:
                connection.write(second, 1)
                connection.commit()
                outcomes.append("committed")
            except Aborted:
                connection.rollback()
                outcomes.append("aborted")

        threads = [threading.Thread(target=run, args=args) for args in ((one, 0, 1), (two, 1, 0))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["aborted", "committed"]


def test_a_table_that_is_gone_is_told(database: Database) -> None:
    with closing(database.connect(Table("never_made", Kind.REGISTERS, 1))) as connection:
        connection.begin(database.offers()[0])
        with pytest.raises(StatementFailed, match="never_made"):
            connection.read(0)
        connection.rollback()


def test_a_write_of_the_same_value_is_no_insert(database: Database) -> None:
    with session(database) as (connection, _):
        for _ in range(2):
            connection.begin(database.offers()[-1])
            connection.write(0, 5)
            connection.write(0, 5)
            connection.commit()


def test_values_of_every_size(database: Database) -> None:
    with session(database) as (connection, _):
        connection.begin(database.offers()[-1])
        connection.write(0, 2**63 - 1)
        assert connection.read(0) == b"9223372036854775807"
        connection.commit()
        connection.begin(database.offers()[-1])
        with pytest.raises((StatementFailed, Aborted)):
            connection.write(0, 2**63)
        connection.rollback()
    with session(database, Kind.LISTS) as (connection, table):
        connection.begin(database.offers()[-1])
        connection.execute(f"UPDATE {table.name} SET v = REPEAT(',1234567', 100000) WHERE k = 0")
        connection.append(0, 9)
        assert connection.read(0) == b"[" + b"1234567," * 100_000 + b"9]"
        connection.commit()


def test_rows_come_as_pythons_own_types(server: Server) -> None:
    postgresql = open_database(server("postgresql").url)[1]
    with session(postgresql) as (connection, _):
        query = "SELECT 1, 2::bigint, 'ä', NULL, true, false, 1.50, 2.5::float8, '\\x00ff'::bytea, $1::text, $2::int, $3::bytea"
        rows = connection.execute(query, ("%s", -3, b"\x01\\")).rows
        assert rows == [(1, 2, "ä", None, True, False, Decimal("1.50"), 2.5, b"\x00\xff", "%s", -3, b"\x01\\")]
        assert [type(value) for value in rows[0][4:6]] == [bool, bool]
        times = connection.execute(
            "SELECT $1::timestamp, 'infinity'::timestamp", (datetime(2024, 1, 2, 3, 4, 5, 60),)
        ).rows
        assert times == [(datetime(2024, 1, 2, 3, 4, 5, 60), "infinity")]
    mariadb = open_database(server("mariadb").url)[1]
    with session(mariadb) as (connection, _):
        rows = connection.execute("SELECT 1, 'ä%%', NULL, 1.50, 2.5e0, %s, %s", ("'x", -3)).rows
        assert rows == [(1, "ä%", None, Decimal("1.50"), 2.5, "'x", -3)]
        assert connection.execute("SELECT '100%'").rows == [("100%",)]


def test_a_connection_that_the_server_ends_is_lost(server: Server) -> None:
    for kind, own, end in (
        ("postgresql", "SELECT pg_backend_pid()", "SELECT pg_terminate_backend({})"),
        ("mariadb", "SELECT CONNECTION_ID()", "KILL {}"),
    ):
        running = server(kind)
        database = open_database(running.url)[1]
        with session(database) as (connection, _):
            connection.begin(database.offers()[-1])
            connection.write(0, 1)
            rows = connection.execute(own).rows
            assert rows is not None
            administer(running, end.format(rows[0][0]))
            with pytest.raises(ConnectionLost):
                connection.commit()


def test_a_url_may_pass_options_to_libpq(server: Server) -> None:
    place = server("postgresql").nodes[0].place
    url = f"postgresql://postgres:{place.secret}@/postgres?host={place.directory}&port={place.port}&sslmode=disable"
    assert open_database(url)[1].version().startswith("PostgreSQL ")
    with pytest.raises(UsageError):
        open_database("postgres")


WORDS = {
    "postgresql": "SELECT word FROM pg_get_keywords()",
    "mariadb": "SELECT LOWER(word) FROM information_schema.keywords WHERE word REGEXP '^[A-Za-z_]+$'",
}


@pytest.mark.parametrize("kind", SQL_KINDS)
def test_every_word_of_its_language_can_be_a_name(server: Server, kind: str) -> None:
    adapter, database = open_database(server(kind).url)
    assert adapter.dialect is not None
    with closing(database), session(database) as (connection, table):
        words = [
            word if isinstance(word, str) else word.decode() for (word,) in connection.execute(WORDS[kind]).rows or ()
        ]
        assert len(words) > 400
        names = [quoted(word, adapter.dialect) for word in words]
        for name in names:
            found = connection.execute(f"SELECT {name}.{name} AS {name} FROM (SELECT 1 AS {name}) AS {name}")
            assert found.rows == [(1,)], name
        connection.execute(f"CREATE TABLE {table.name}_words ({', '.join(f'{name} INTEGER' for name in names)})")
        connection.execute(f"DROP TABLE {table.name}_words")
