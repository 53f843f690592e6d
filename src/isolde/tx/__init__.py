"""The transaction language: schema, expressions, queries, statements, procedures; and the front ends that write it.

A program is written once, as SQL or as a Python function, and read in several ways (``isolde.semantics``): run on a store of our
own, run on a real database, as events of a history, with unknowns, as a transformer of sets.
"""

from isolde.tx.dialects import Dialect
from isolde.tx.python import AbortedByProgram, Handle, Row, Transaction, transaction

__all__ = ["AbortedByProgram", "Dialect", "Handle", "Row", "Transaction", "transaction"]
