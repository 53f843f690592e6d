"""Rows that variables get, when a procedure runs: how many there may be, and which cursor is open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from isolde.errors import ExecutionError


class Portals(Protocol):
    """What cursors need of the store: PostgreSQL's are the transaction's, so that procedures cannot have the same one open."""

    portals: set[str]


def opened(
    store: Portals, name: str, private: bool, cursor: Iterator[object] | None, rows: Sequence[object]
) -> Iterator[object]:
    """``private``: the cursor is the procedure's own, and no other procedure's of this name."""
    if cursor is not None or (not private and name in store.portals):
        raise ExecutionError("cursor", f"the cursor {name} is open already")
    if not private:
        store.portals.add(name)
    return iter(rows)


def is_open(name: str, cursor: Iterator[object] | None) -> Iterator[object]:
    if cursor is None:
        raise ExecutionError("cursor", f"the cursor {name} is not open")
    return cursor


def closed(store: Portals, name: str, cursor: Iterator[object] | None) -> None:
    is_open(name, cursor)
    store.portals.discard(name)
