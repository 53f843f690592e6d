"""What applying a change needs to know of it, found once from the core."""

from __future__ import annotations

from collections.abc import Callable

from isolde.semantics.core.catalog import Catalog, TableInfo
from isolde.semantics.core.elaborate import Elaborator
from isolde.semantics.core.elaborate_changes import row_checks
from isolde.semantics.core.nodes import NextId
from isolde.semantics.core.relations import Insert, RowChecks, Update
from isolde.semantics.tables.constraints import Checks, InsertPlan, RowCheck, UpdatePlan
from isolde.tx.statements import InsertMode

Checking = Callable[[RowChecks], RowCheck]
"""Makes a function that raises if a row breaks NOT NULL or a check."""


def update_plan(catalog: Catalog, change: Update, checking: Checking) -> UpdatePlan:
    info = change.scan.table
    places = tuple(assigned.place for assigned in change.sets)
    return UpdatePlan(
        info.position,
        _checks(catalog, info, places, checking),
        any(place in unique for unique in info.uniques for place in places),
        any(isinstance(assigned.value, NextId) for assigned in change.sets),
        info.generated in places,
    )


def insert_plan(catalog: Catalog, change: Insert, checking: Checking) -> InsertPlan:
    info, conflict = change.table, change.conflict
    assigned = {part.place for part in conflict.sets} if conflict is not None else set()
    return InsertPlan(
        change,
        _checks(catalog, info, tuple(range(len(info.types))), checking),
        rekeys=any(assigned & set(unique) for unique in info.uniques),
        plain=conflict is None and change.mode is InsertMode.PLAIN,
    )


def _checks(catalog: Catalog, info: TableInfo, places: tuple[int, ...], checking: Checking) -> Checks:
    """What must hold of a new row whose columns at these places were set; made once for a table and places."""
    key = (info.position, places)
    found: Checks | None = catalog.checks.get(key)
    if found is None:
        checks = row_checks(Elaborator(catalog), info, places)
        touched = set(places)
        found = Checks(
            row=None if checks is None else checking(checks),
            outgoing=tuple(
                foreign
                for foreign in catalog.references
                if foreign.child == info.position and touched & set(foreign.child_columns)
            ),
            incoming=tuple(
                foreign
                for foreign in catalog.references
                if foreign.parent == info.position and touched & set(foreign.parent_columns)
            ),
        )
        catalog.checks[key] = found
    return found
