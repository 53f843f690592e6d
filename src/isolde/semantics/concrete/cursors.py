"""Rows that variables get, when a procedure runs: how many there may be, and which cursor is open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from isolde.errors import ExecutionError
from isolde.tx.dialects import Dialect


def one_at_most(rows: Sequence[object]) -> None:
    if len(rows) > 1:
        raise ExecutionError("cardinality", "more than one row for variables that take one")


class Portals(Protocol):
    """What cursors need of the store: PostgreSQL's are the transaction's, so that procedures cannot have the same one open."""

    dialect: Dialect
    portals: set[str]


def open_cursor(store: Portals, name: str, cursor: Iterator[object] | None, rows: Sequence[object]) -> Iterator[object]:
    if cursor is not None or name in store.portals:
        raise ExecutionError("cursor", f"the cursor {name} is open already")
    if store.dialect is Dialect.POSTGRESQL:
        store.portals.add(name)
    return iter(rows)


def open_private(
    store: Portals, name: str, cursor: Iterator[object] | None, rows: Sequence[object]
) -> Iterator[object]:
    del store
    if cursor is not None:
        raise ExecutionError("cursor", f"the cursor {name} is open already")
    return iter(rows)


def is_open(name: str, cursor: Iterator[object] | None) -> Iterator[object]:
    if cursor is None:
        raise ExecutionError("cursor", f"the cursor {name} is not open")
    return cursor


def closed(store: Portals, name: str, cursor: Iterator[object] | None) -> None:
    is_open(name, cursor)
    store.portals.discard(name)
