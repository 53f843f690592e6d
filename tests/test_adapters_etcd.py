"""etcd: its revisions, its members and its users."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conftest import Servers
from isolde.databases import adapter_named, open_database
from isolde.databases.conformance import Subject
from isolde.databases.etcd import EtcdConnection
from isolde.databases.servers import Server
from isolde.errors import Aborted, DatabaseUnavailable, StatementFailed


@pytest.fixture(scope="module")
def etcd(servers: Servers) -> Iterator[Server]:
    with servers.private("etcd") as server:
        yield server.nodes[0]


@pytest.fixture
def subject(etcd: Server) -> Subject:
    return Subject(*open_database(etcd.url))


def test_a_revision_that_was_compacted_aborts(subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as one, subject.connection(table) as two:
        one.begin(subject.strongest)
        one.read(0)
        subject.transact(two, lambda c: c.write(0, 1))
        subject.transact(two, lambda c: c.write(0, 2))
        assert isinstance(two, EtcdConnection)
        two.begin(subject.strongest)
        two.read(0)
        two._gateway.ask("/v3/kv/compaction", {"revision": two._revision})
        with pytest.raises(Aborted, match="compacted"):
            one.read(1)


def test_a_member_that_is_down_is_passed_over(etcd: Server) -> None:
    adapter = adapter_named("etcd")
    subject = Subject(adapter, adapter.open(f"etcd://root:{etcd.place.secret}@127.0.0.1:1,127.0.0.1:{etcd.place.port}"))
    with subject.table() as table:
        for _ in range(4):
            with subject.connection(table) as connection:
                assert subject.read(connection, 0) == [0]


def test_etcd_with_users_wants_a_password(etcd: Server, subject: Subject) -> None:
    with subject.table() as table, subject.connection(table) as root:
        assert isinstance(root, EtcdConnection)
        root._gateway.ask("/v3/auth/user/add", {"name": "ann", "password": "p@ss"})
        root._gateway.ask("/v3/auth/user/grant", {"user": "ann", "role": "root"})
        named = Subject(*open_database(f"etcd://ann:p%40ss@127.0.0.1:{etcd.place.port}"))
        with named.connection(table) as allowed:
            assert named.read(allowed, 0) == [0]
        _, nobody = open_database(f"etcd://127.0.0.1:{etcd.place.port}")
        connection = nobody.connect(table)
        connection.begin(subject.strongest)
        with pytest.raises(StatementFailed, match="user name is empty"):
            connection.read(0)
        connection.close()
    with pytest.raises(DatabaseUnavailable, match="authentication"):
        open_database(f"etcd://ann:wrong@127.0.0.1:{etcd.place.port}")
