"""The applications that lock what they read: in nothing else do they differ, and the locks are really asked for."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from applications_on_databases import LOCKING, SMALL, drawn, started
from isolde.errors import UsageError
from isolde.tx.dialects import Dialect
from isolde.tx.python import AbortedByProgram, Handle, locking
from isolde.tx.python.handle import Answer
from isolde.tx.queries import Lock, Select, TableSource
from isolde.tx.rewrite import rewritten
from isolde.tx.sql import statement
from isolde.workloads.application import Application
from isolde.workloads.applications import application_named
from isolde.workloads.applications.courseware import enroll_as_printed


@pytest.mark.parametrize("name", LOCKING)
def test_a_locking_application_differs_by_its_locks_alone(name: str) -> None:
    careful, usual = application_named(name), application_named(name.removesuffix("-locking"))
    same = ("ddl", "invariants", "scale", "populate")
    assert all(getattr(careful, field) is getattr(usual, field) for field in same)
    mixes = [[(part.name, part.weight, part.arguments) for part in one.parts] for one in (careful, usual)]
    assert mixes[0] == mixes[1]
    assert locked(usual) == []
    assert locked(careful) == LOCKED[name]


LOCKED = {
    "bank-locking": ["deposit accounts", "transfer accounts", "withdraw accounts", "withdraw_overdraft accounts"],
    "tpcc-locking": ["delivery new_order", "new_order district", "new_order stock"],
    "courseware-locking": [
        "cancel_course course", "deregister student", "enroll course", "enroll student", "leave enrollment",
    ],
}  # fmt: skip


def locked(application: Application) -> list[str]:
    """Which transaction locks rows of which table, as its procedure has it."""
    found: set[str] = set()

    def look(name: str) -> Callable[[Any], Any]:
        def at(node: Any) -> Any:
            if isinstance(node, Select) and node.lock is Lock.UPDATE and isinstance(node.source, TableSource):
                found.add(f"{name} {node.source.table}")
            return node

        return at

    for procedure in application.program.procedures:
        rewritten(procedure, look(procedure.name))
    return sorted(found)


@pytest.mark.parametrize("name", LOCKING)
def test_the_function_sends_the_locks_that_its_procedure_has(name: str) -> None:
    application, real = started(name)
    sent: set[str] = set()

    class Watched(Handle):
        def __init__(self, part: str) -> None:
            self.part = part

        def run(self, sql: str, parameters: Mapping[str, Any]) -> Answer:
            query = statement(sql, Dialect.POSTGRESQL)
            if isinstance(query, Select) and query.lock is Lock.UPDATE and isinstance(query.source, TableSource):
                sent.add(f"{self.part} {query.source.table}")
            return real.run(sql, parameters)

    for part, arguments in drawn(application, SMALL[name], 1):
        with contextlib.suppress(AbortedByProgram, sqlite3.IntegrityError):
            part.transaction(Watched(part.name), **arguments)
    assert sorted(sent) == LOCKED[name]


def test_what_cannot_be_locked_is_told() -> None:
    with pytest.raises(UsageError, match="reads no row of student that can be locked"):
        _ = locking(enroll_as_printed, "student").procedure
