"""A transaction that breaks an invariant even alone: the state that a solver found, made of rows and run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from isolde.campaigns.lawful import Laws
from isolde.engines.explore.invariants import holds, loaded_store
from isolde.engines.explore.shown import plain
from isolde.engines.infer.model import BreakingState, breaking_state
from isolde.engines.infer.obligations import Obligations
from isolde.engines.infer.problem import Problem
from isolde.engines.infer.prove import Failure
from isolde.errors import IsoldeError
from isolde.findings import BrokenInvariant, TableRows
from isolde.semantics.concrete import Store
from isolde.tx.dialects import Dialect
from isolde.workloads.application import Application


def broken_alone(
    application: Application, problem: Problem, obligations: Obligations, failure: Failure
) -> BrokenInvariant | None:
    """The state and the arguments with which a transaction breaks an invariant that held before; ``None`` if none was found."""
    assumed = [one for one in application.invariants if one.name in obligations.conditions]
    for found in breaking_state(problem, obligations, failure.transaction, failure.invariant):
        shown = _run(replace(application, invariants=tuple(assumed)), failure, found)
        if shown is not None:
            return shown
    return None


def _run(application: Application, failure: Failure, found: BreakingState) -> BrokenInvariant | None:
    store = Store(application.schema, Dialect.POSTGRESQL)
    try:
        for table, rows in found.rows.items():
            store.load(table, rows)
        if not Laws(application.schema).kept(store) or not all(_holds(store, one) for one in application.invariants):
            return None
        store.call(application.program, failure.transaction, list(found.arguments))
        broken = next(one for one in application.invariants if one.name == failure.invariant)
        if _holds(store, broken):
            return None
    except IsoldeError:
        return None
    called = f"{failure.transaction}({', '.join(map(repr, found.arguments))})"
    said = f" ({broken.meaning})" if broken.meaning else ""
    tables = tuple(
        TableRows(table, tuple(tuple(plain(value) for value in row) for row in rows))
        for table, rows in found.rows.items()
        if rows
    )
    return BrokenInvariant(
        check=failure.invariant,
        explanation=f"{called} alone breaks {failure.invariant}{said}, from a state that satisfies all invariants",
        tables=tables,
        confirmed="explored",
    )


def _holds(store: Store, invariant: Any) -> bool:
    rows = store.state()
    return holds(invariant.name, invariant.violations, rows, lambda: loaded_store(store, rows))
