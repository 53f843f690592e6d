"""Stored procedures mean on the store, through the front end, what they mean on the server that they were written for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from isolde.databases.servers import Running
from isolde.semantics.concrete import Ending
from isolde.tx.sql import schema
from stored_procedures import CASES, ROWS, TABLE, Case

from .agreement import Tally
from .databases import Failed, Real
from .routine_steps import Routine
from .stored import Server, run_routines
from .test_agreement_with_databases import connected

ROUTINES_A_CASE = 10


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def real(request: pytest.FixtureRequest, server: Callable[[str], Running]) -> Iterator[Real]:
    with closing(connected(request.param, server(request.param))) as real:
        yield real


def given(case: Case, real: Real) -> Any:
    """What the real server gives."""
    real.reset(schema(TABLE, case.dialect))
    for identity, value in ROWS:
        real.execute(f"INSERT INTO t VALUES ({identity}, {'NULL' if value is None else value})")
    server = Server(real)
    before = [Routine("q", case.before, False, (), (), ())] if case.before else []
    routine = Routine("p", case.text, bool(case.function), ("int",), () if case.function else ("int",), ())
    server.create((*before, routine))
    try:
        ending, values = server.call(routine, (1,))
    except Failed as failure:
        return "cardinality" if failure.kind == "rows" else failure.kind
    return values[0] if ending is Ending.RETURNED else ending.value


def test_written_ones_give_what_is_said_of_them(real: Real) -> None:
    cases = [case for case in CASES if case.dialect is real.dialect]
    wrong = [(case.about, found, case.gives) for case in cases if (found := given(case, real)) != case.gives]
    assert len(cases) >= 25
    # A null in a variable that takes none is an error; the front end has it abort.
    assert [one for one in wrong if one[1:] != ("not-null", "aborted")] == []


def agreed(real: Real, seeds: range) -> Tally:
    tally = Tally()
    for seed in seeds:
        run_routines(seed, real, ROUTINES_A_CASE, tally)
    assert not tally.differences, "\n".join(tally.differences[:3])
    assert sum(tally.left_open.values()) <= 0.05 * tally.procedures
    assert sum(tally.refused.values()) <= 0.15 * tally.procedures
    assert tally.endings["returned"] >= 0.5 * tally.procedures
    return tally


def test_some_generated_ones_agree(real: Real) -> None:
    assert agreed(real, range(7)).procedures >= 60


@pytest.mark.long
def test_hundreds_of_generated_ones_agree(real: Real) -> None:
    assert agreed(real, range(1000, 1080)).procedures >= 500
