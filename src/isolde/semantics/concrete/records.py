"""PL/pgSQL's RECORD: a variable that has columns once it was assigned to. Until then no expression may name one of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from isolde.errors import ExecutionError
from isolde.semantics.concrete.sources import parts
from isolde.semantics.concrete.static import Namespace
from isolde.tx.expressions import Name
from isolde.tx.procedures import ForEach, ForRange, If, Step, While


def named_by(step: Step, records: set[str]) -> list[str]:
    """The records whose columns a step names before it begins; a condition is looked at when it is its turn."""
    own: Any = step
    match step:
        case ForEach():
            own = step.rows
        case ForRange():
            own = (step.first, step.last)
        case If() | While():
            own = ()
        case _:
            pass
    return named_in(own, records)


def named_in(node: Any, records: set[str]) -> list[str]:
    if not records:
        return []
    found = (part.table for part in parts(node) if isinstance(part, Name) and part.table in records)
    return sorted({name for name in found if name is not None})


def has_columns(*records: tuple[str, object]) -> bool:
    """Whether they were assigned to: if not, the statement or expression fails as a whole, even where it would look at none."""
    for name, row in records:
        if row is None:
            raise ExecutionError("name", f"record {name} is not assigned yet")
    return True


def is_null(row: Sequence[object] | None) -> bool:
    """As PostgreSQL has it: whether all columns are null."""
    return row is None or all(column is None for column in row)


def is_not_null(row: Sequence[object] | None) -> bool:
    """Whether no column is null, which is not the opposite."""
    return row is not None and all(column is not None for column in row)


def checked(names: Iterable[str], namespace: Namespace) -> str:
    """The arguments of ``has_columns``, as Python text."""
    return ", ".join(f"({name!r}, {namespace.variable(name)})" for name in names)
