"""Every adapter keeps the contract, on the real database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from isolde.databases import Adapter, Database, adapter_named
from isolde.databases.conformance import CHECKS, Check, Subject, applicable

# Database, and the URL of one that needs no server.
EMBEDDED = {"sqlite": "sqlite:"}


@pytest.fixture(params=EMBEDDED, scope="module")
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    adapter: Adapter = adapter_named(request.param)
    database: Database = adapter.open(EMBEDDED[request.param])
    yield Subject(adapter, database)
    database.close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_the_contract_is_kept(subject: Subject, check: Check) -> None:
    if check in applicable(subject.adapter):
        check.run(subject)
