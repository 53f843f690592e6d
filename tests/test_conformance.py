"""Every adapter keeps the contract, on the real database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from isolde.databases import Adapter, Database, adapter_named
from isolde.databases.conformance import CHECKS, Check, Subject, applicable
from isolde.databases.servers import Running
from isolde.databases.urls import scheme_of


@dataclass(frozen=True, slots=True)
class Case:
    """A database to test: the URL of one that needs no server, or a kind of server and what is added to its URL."""

    name: str
    url: str = ""
    kind: str = ""
    options: str = ""


CASES = (
    Case("sqlite", url="sqlite:"),
    Case("duckdb", url="duckdb:"),
    Case("postgresql", kind="postgresql"),
    Case("mariadb", kind="mariadb"),
    Case("mariadb-snapshots", kind="mariadb", options="?innodb_snapshot_isolation=ON"),
    # A node may be behind another one's commit, unless it is told to wait.
    Case("galera", kind="galera", options="?wsrep_sync_wait=15"),
    Case("etcd", kind="etcd"),
    Case("redis", kind="redis"),
    Case("valkey", kind="valkey"),
)


@pytest.fixture(params=CASES, ids=lambda case: case.name, scope="module")
def subject(request: pytest.FixtureRequest, server: Callable[[str], Running]) -> Iterator[Subject]:
    case: Case = request.param
    url = case.url or server(case.kind).url + case.options
    adapter: Adapter = adapter_named(scheme_of(url))
    database: Database = adapter.open(url)
    yield Subject(adapter, database)
    database.close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_the_contract_is_kept(subject: Subject, check: Check) -> None:
    if check in applicable(subject.adapter):
        check.run(subject)
