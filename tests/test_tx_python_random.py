"""A function and its compiled form do the same: random functions, both ways, on the store, and as plain Python on SQLite."""

from __future__ import annotations

import importlib.util
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from isolde.databases import Kind, SqlConnection, Table, open_database
from isolde.databases.handle import DatabaseHandle
from isolde.databases.translate import Translator
from isolde.errors import ExecutionError, IsoldeError, OutsideFragment
from isolde.semantics.concrete import Ending, Store, call_function
from isolde.tx.dialects import Dialect
from isolde.tx.python import AbortedByProgram, Transaction, program
from isolde.tx.render import render_schema
from isolde.tx.sql import schema
from python_functions import Functions

SCHEMA = schema("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT, s VARCHAR(9));", Dialect.POSTGRESQL)
ROWS = [(1, 4, "p"), (2, None, "P"), (3, 0, None), (5, -2, "3")]
ARGUMENTS: list[tuple[Any, ...]] = [
    (1, 2, [3, 1, None], [(1, "p"), (2, None)]),
    (0, 3, [], []),
    (5, -1, [2], [(5, "x"), (None, "3"), (1, "")]),
    (2, None, [1, 2, 3, 2**40], [(2, "P")]),
]
FAILED = "failed"
TOO_LARGE = "too large for a database"


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


class RealSQLite:
    """The same rows in a real SQLite, for functions as plain Python; what a call does is taken back."""

    def __init__(self) -> None:
        _, self.database = open_database("sqlite::memory:")
        self.connection = cast(SqlConnection, self.database.connect(Table("isolde_none", Kind.REGISTERS, 0)))
        self.translator = Translator(SCHEMA, Dialect.SQLITE, "")
        for text in render_schema(SCHEMA, Dialect.SQLITE):
            self.connection.execute(text)
        for row in ROWS:
            self.connection.execute("INSERT INTO t VALUES (?, ?, ?)", row)

    def call(self, function: Transaction, arguments: tuple[Any, ...]) -> tuple[Any, list[tuple[Any, ...]]]:
        """What it returned, and the rows after it."""
        self.connection.begin(self.database.offers()[-1])
        handle = DatabaseHandle(self.connection, self.translator, function.dialect)
        try:
            result = function(handle, *arguments)
            if handle.failure is not None:
                raise handle.failure
            rows = self.connection.execute("SELECT * FROM t").rows or []
            return (result if isinstance(result, tuple) else (result,)), [tuple(row) for row in rows]
        except AbortedByProgram:
            return (None,), ROWS
        except OverflowError:
            return TOO_LARGE, ROWS
        except (IsoldeError, AssertionError, AttributeError, NameError, TypeError, ValueError):
            return FAILED, ROWS
        finally:
            self.connection.rollback()

    def close(self) -> None:
        self.connection.close()
        self.database.close()


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
                    tally[TOO_LARGE] += 1
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


def compare_with_sqlite(functions: list[Transaction], tally: Counter[str]) -> None:
    """Plain Python on the store of SQLite and on SQLite itself."""
    start = filled(Dialect.SQLITE)
    with closing(RealSQLite()) as real:
        for function in functions:
            for arguments in ARGUMENTS:
                store = start.copy()
                expected = in_python(store, function, arguments)
                found, rows = real.call(function, arguments)
                if found == TOO_LARGE:
                    # Python's driver takes no such integer; as plain Python the store does.
                    tally[TOO_LARGE] += 1
                    continue
                assert found == expected, f"{function.name}{arguments}"
                assert Counter(rows) == Counter(store.state()["t"]), f"{function.name}{arguments}"
                tally["failed alike on SQLite" if found == FAILED else "agreed on SQLite"] += 1


def agreed(seeds: range, count: int, tmp_path: Path) -> Counter[str]:
    tally: Counter[str] = Counter()
    for seed in seeds:
        path = tmp_path / f"functions_{seed}.py"
        path.write_text(Functions(seed).module(count))
        functions = imported(path)
        compare(functions, list(Dialect)[seed % 3], tally)
        compare_with_sqlite(functions, tally)
    return tally


def test_functions_mean_what_they_do(tmp_path: Path) -> None:
    tally = agreed(range(6), 10, tmp_path)
    assert tally["agreed"] >= 80, tally
    assert tally["failed alike"] >= 80, tally
    assert tally["agreed on SQLite"] >= 80, tally


@pytest.mark.long
def test_thousands_of_functions_mean_what_they_do(tmp_path: Path) -> None:
    tally = agreed(range(1000, 1300), 10, tmp_path)
    assert tally["agreed"] >= 3_000, tally
    assert tally["failed alike"] >= 3_000, tally
    assert tally["agreed on SQLite"] >= 3_000, tally
