"""The concrete reading: a store in memory that runs programs as PostgreSQL, MySQL or SQLite would."""

from isolde.semantics.concrete.handle import StoreHandle, call_function
from isolde.semantics.concrete.outcome import Ending, Outcome, Result
from isolde.semantics.concrete.store import State, Store, Transaction

__all__ = ["Ending", "Outcome", "Result", "State", "Store", "StoreHandle", "Transaction", "call_function"]
