"""The transaction language: schema, expressions, queries, statements, procedures; and the front ends that write it.

A program is written once, as SQL or as a Python function, and read in several ways (``isolde.semantics``): run on a store of our
own, run on a real database, as events of a history, with unknowns, as a transformer of sets.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from isolde.tx.dialects import Dialect

if TYPE_CHECKING:
    from isolde.tx.python import AbortedByProgram, Handle, Row, Transaction, transaction

__all__ = ["AbortedByProgram", "Dialect", "Handle", "Row", "Transaction", "transaction"]


def __getattr__(name: str) -> Any:
    """The front end of Python is loaded when it is first used: whoever reads SQL needs none of it."""
    if name in __all__:
        return getattr(import_module("isolde.tx.python"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
