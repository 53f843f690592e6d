"""A function and its compiled form do the same: random functions, both ways, on the store."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from isolde.errors import ExecutionError, OutsideFragment
from isolde.semantics.concrete import Ending, Store, call_function
from isolde.tx.dialects import Dialect
from isolde.tx.python import Transaction, program
from isolde.tx.sql import schema
from python_functions import Functions

SCHEMA = schema("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT, s VARCHAR(9));", Dialect.POSTGRESQL)
ROWS = [(1, 4, "p"), (2, None, "P"), (3, 0, None), (5, -2, "3")]
ARGUMENTS = [(1, 2), (0, 3), (5, -1), (2, None)]
FAILED = "failed"


def imported(path: Path) -> list[Transaction]:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [found for found in vars(module).values() if isinstance(found, Transaction)]


def filled(dialect: Dialect) -> Store:
    store = Store(SCHEMA, dialect, steps_max=20_000)
    store.load("t", ROWS)
    return store


def in_python(store: Store, function: Transaction, arguments: tuple[Any, ...]) -> Any:
    """What it returned; any error is a failure, whatever its name: it has no effect."""
    try:
        result = call_function(store, function, *arguments)
    except (ExecutionError, AssertionError, AttributeError, NameError, TypeError, ValueError):
        return FAILED
    return result if isinstance(result, tuple) else (result,)


def compare(functions: list[Transaction], dialect: Dialect, tally: Counter[str]) -> None:
    told: set[str] = set()
    for function in functions:
        try:
            assert function.procedure.strict
        except OutsideFragment as refusal:
            told.add(function.name)
            tally[f"refused: {refusal.what.split(chr(39))[-1]}"] += 1
    usable = [function for function in functions if function.name not in told]
    whole, start = program(SCHEMA, usable), filled(dialect)
    for function in usable:
        for arguments in ARGUMENTS:
            plain, compiled = start.copy(), start.copy()
            expected = in_python(plain, function, arguments)
            try:
                outcome = compiled.call(whole, function.name, arguments)
            except OutsideFragment:
                tally["refused when it is run"] += 1
                continue
            except ExecutionError as error:
                if error.kind == "name" and "there is no procedure" in str(error):
                    tally["calls what is refused"] += 1
                    continue
                if error.kind == "out-of-range" and expected != FAILED:
                    tally["too large for a database"] += 1
                    continue
                found: Any = FAILED
            else:
                found = (outcome.values or (None,)) if outcome.ending is Ending.RETURNED else FAILED
                if outcome.ending is Ending.ABORTED and expected == (None,):
                    # An abort gives None in Python.
                    expected = FAILED
            assert found == expected, f"{function.name}{arguments} in {dialect}"
            assert plain.same_state(compiled), f"{function.name}{arguments} in {dialect}"
            tally["failed alike" if found == FAILED else "agreed"] += 1


def agreed(seeds: range, count: int, tmp_path: Path) -> Counter[str]:
    tally: Counter[str] = Counter()
    for seed in seeds:
        path = tmp_path / f"functions_{seed}.py"
        path.write_text(Functions(seed).module(count))
        compare(imported(path), list(Dialect)[seed % 3], tally)
    return tally


def test_functions_mean_what_they_do(tmp_path: Path) -> None:
    tally = agreed(range(6), 10, tmp_path)
    assert tally["agreed"] >= 80, tally
    assert tally["failed alike"] >= 80, tally


@pytest.mark.long
def test_thousands_of_functions_mean_what_they_do(tmp_path: Path) -> None:
    tally = agreed(range(1000, 1300), 10, tmp_path)
    assert tally["agreed"] >= 3_000, tally
    assert tally["failed alike"] >= 3_000, tally
