"""The concrete reading: a store in memory that runs programs as PostgreSQL, MySQL or SQLite would."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from isolde.semantics.concrete.outcome import Ending, Outcome, Result
from isolde.semantics.concrete.store import State, Store, Transaction

if TYPE_CHECKING:
    from isolde.semantics.concrete.handle import StoreHandle, call_function

__all__ = ["Ending", "Outcome", "Result", "State", "Store", "StoreHandle", "Transaction", "call_function"]


def __getattr__(name: str) -> Any:
    """What runs Python functions is loaded when it is first used: a store alone needs none of it."""
    if name in ("StoreHandle", "call_function"):
        return getattr(import_module("isolde.semantics.concrete.handle"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
