"""Redis: its transactions, its passwords and its protocol."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conftest import Servers
from isolde.databases import Kind, open_database
from isolde.databases.conformance import Subject
from isolde.databases.resp import Refusal, Wire
from isolde.databases.servers import Server
from isolde.errors import Aborted, ConnectionLost, DatabaseUnavailable, StatementFailed


@pytest.fixture(scope="module")
def redis(servers: Servers) -> Iterator[Server]:
    with servers.private("redis") as server:
        yield server.nodes[0]


@pytest.fixture
def subject(redis: Server) -> Subject:
    return Subject(*open_database(redis.url))


@pytest.fixture
def wire(redis: Server) -> Iterator[Wire]:
    wire = Wire("127.0.0.1", redis.place.port, tls=False)
    assert wire.ask(("AUTH", redis.place.secret)) == [b"OK"]
    yield wire
    wire.close()


def test_values_that_are_no_numbers_go_into_the_history_as_they_are(wire: Wire, subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as connection:
        wire.ask(
            ("SET", f"{table.name}:0", 'a"\xff\x00'), ("SET", f"{table.name}:1", "-5"), ("SET", f"{table.name}:2", "")
        )
        assert subject.read(connection, 0, 1, 2) == ['a"\xff\x00', "-5", ""]
    with subject.table(Kind.LISTS) as table, subject.connection(table) as connection:
        wire.ask(("RPUSH", f"{table.name}:0", "1", "x,y"))
        assert subject.read(connection, 0) == [[1, "x,y"]]


def test_half_a_transaction_is_neither_committed_nor_aborted(wire: Wire, subject: Subject) -> None:
    with subject.table(Kind.LISTS) as table, subject.connection(table) as connection:
        wire.ask(("SET", f"{table.name}:1", "no list"))
        connection.begin(subject.strongest)
        connection.append(0, 7)
        connection.append(1, 7)
        with pytest.raises(ConnectionLost, match=r"1 of 2 commands; 'RPUSH .*' failed: WRONGTYPE") as caught:
            connection.commit()
        assert caught.value.maybe_applied
        with subject.connection(table) as other:
            assert subject.read(other, 0) == [[7]]
            other.begin(subject.strongest)
            other.append(1, 8)
            with pytest.raises(StatementFailed, match="WRONGTYPE"):
                other.commit()
            other.rollback()


def test_a_transaction_that_cannot_be_queued_changes_nothing(wire: Wire, subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as connection:
        (used,) = wire.ask(("CONFIG", "SET", "maxmemory", "1"))
        assert used == b"OK"
        try:
            connection.begin(subject.strongest)
            connection.delete(1)
            connection.write(0, 3)
            with pytest.raises(Aborted, match="OOM"):
                connection.commit()
            connection.rollback()
        finally:
            wire.ask(("CONFIG", "SET", "maxmemory", "0"))
        assert subject.read(connection, 0, 1) == [0, 0]


def test_a_password_is_asked_for_and_never_shown(redis: Server, wire: Wire) -> None:
    wire.ask(("CONFIG", "SET", "requirepass", "se cret"))
    try:
        with pytest.raises(DatabaseUnavailable, match="NOAUTH"):
            open_database(f"redis://127.0.0.1:{redis.place.port}")
        for account in ("", "default"):
            _, database = open_database(f"redis://{account}:se%20cret@127.0.0.1:{redis.place.port}/3")
            assert database.version()
        with pytest.raises(DatabaseUnavailable, match="WRONGPASS") as caught:
            open_database(f"redis://default:other@127.0.0.1:{redis.place.port}")
        assert "other" not in str(caught.value)
    finally:
        wire.ask(("CONFIG", "SET", "requirepass", redis.place.secret))


def test_answers_of_the_protocol_are_read_whole(wire: Wire) -> None:
    long = b"\r\n" * 100_000
    replies = wire.ask(
        ("SET", "isolde_long", long), ("GET", "isolde_long"), ("DEL", "isolde_long"), ("NOPE",), ("GET", "x")
    )
    assert replies[:3] == [b"OK", long, 1]
    assert isinstance(replies[3], Refusal)
    assert replies[4] is None
    wire.close()
    with pytest.raises(ConnectionLost, match="closed"):
        wire.ask(("PING",))


def test_a_server_without_tls_is_told_in_one_line(redis: Server) -> None:
    with pytest.raises(DatabaseUnavailable) as caught:
        open_database(redis.url.replace("redis://", "rediss://"))
    assert len(str(caught.value).splitlines()) == 1
