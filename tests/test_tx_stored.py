"""What stored procedures mean, on the store."""

from __future__ import annotations

from typing import Any

import pytest

from isolde.errors import ExecutionError
from isolde.semantics.concrete import Ending, Store
from isolde.tx.sql import program
from stored_procedures import CASES, ROWS, TABLE, Case


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.dialect}-{case.about.replace(' ', '-')}")
def test_a_stored_procedure_gives_what_the_server_gives(case: Case) -> None:
    read = program(f"{TABLE}{case.before};\n{case.text};", case.dialect)
    store = Store(read.schema, case.dialect)
    store.load("t", ROWS)
    given: Any
    try:
        outcome = store.call(read, "p", (1,))
        given = outcome.values[0] if outcome.ending is Ending.RETURNED else outcome.ending.value
    except ExecutionError as error:
        given = error.kind
    assert (given, type(given)) == (case.gives, type(case.gives))
