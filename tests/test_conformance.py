"""Every adapter keeps the contract, on the real database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from isolde.databases import Adapter, Database, adapter_named
from isolde.databases.conformance import CHECKS, Check, Subject, applicable
from isolde.databases.servers import start

# Database, and the URL of one that needs no server.
EMBEDDED = {"sqlite": "sqlite:", "duckdb": "duckdb:"}
# Kinds of servers that are started for the tests of this file.
SERVED = ("etcd", "redis", "valkey")


@pytest.fixture(params=[*EMBEDDED, *SERVED], scope="module")
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    adapter: Adapter = adapter_named(request.param)
    if request.param in EMBEDDED:
        yield from _opened(adapter, EMBEDDED[request.param])
        return
    with start(request.param) as server:
        yield from _opened(adapter, server.url)


def _opened(adapter: Adapter, url: str) -> Iterator[Subject]:
    database: Database = adapter.open(url)
    yield Subject(adapter, database)
    database.close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_the_contract_is_kept(subject: Subject, check: Check) -> None:
    if check in applicable(subject.adapter):
        check.run(subject)
