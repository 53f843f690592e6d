"""The store agrees with PostgreSQL, MariaDB and SQLite on generated statements and procedures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from isolde.databases.servers import Running

from .agreement import Tally, run_case
from .databases import MariaDB, PostgreSQL, Real, SQLite
from .generation_wide import WideGenerator
from .procedures import run_procedures

STATEMENTS_A_CASE, PROCEDURES_A_CASE = 42, 10


def connected(kind: str, server: Running) -> Real:
    if kind == "postgresql":
        return PostgreSQL(server.url)
    where = urlsplit(server.url)
    return MariaDB(host=where.hostname, port=where.port, user=where.username or "root", password=where.password or "")


@pytest.fixture(scope="module", params=["sqlite", "postgresql", "mariadb"])
def real(request: pytest.FixtureRequest, server: Callable[[str], Running]) -> Iterator[Real]:
    real = SQLite() if request.param == "sqlite" else connected(request.param, server(request.param))
    with closing(real):
        yield real


def agreed(real: Real, cases: range, procedures: range) -> Tally:
    tally = Tally()
    for seed in cases:
        run_case(seed, real, STATEMENTS_A_CASE - 12, tally)
    for seed in procedures:
        run_procedures(seed, real, PROCEDURES_A_CASE, tally)
    assert not tally.differences, "\n".join(tally.differences[:5])
    return tally


def test_some_statements_and_procedures_agree(real: Real) -> None:
    tally = agreed(real, range(15), range(4))
    assert tally.agreed + tally.failed_alike >= 500
    assert tally.procedures >= 35


@pytest.mark.long
def test_thousands_of_statements_and_hundreds_of_procedures_agree(real: Real) -> None:
    tally = agreed(real, range(1000, 1200), range(1000, 1060))
    assert tally.agreed + tally.failed_alike >= 5_000
    assert tally.procedures >= 500
    assert sum(tally.left_open.values()) <= 0.01 * tally.agreed
    assert sum(tally.bugs.values()) <= 0.02 * tally.agreed


def widely_agreed(real: Real, cases: range) -> Tally:
    tally = Tally()
    for seed in cases:
        run_case(seed, real, STATEMENTS_A_CASE - 12, tally, made_by=WideGenerator)
    assert not tally.differences, "\n".join(tally.differences[:5])
    return tally


def test_some_statements_of_the_whole_language_agree(real: Real) -> None:
    tally = widely_agreed(real, range(15))
    assert tally.agreed + tally.failed_alike >= 450


@pytest.mark.long
def test_thousands_of_statements_of_the_whole_language_agree(real: Real) -> None:
    tally = widely_agreed(real, range(1000, 1150))
    assert tally.agreed + tally.failed_alike >= 4_500
    assert sum(tally.left_open.values()) <= 0.02 * tally.agreed
