"""Transaction functions on the store, as plain Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isolde.semantics.concrete.store import Store, Transaction
from isolde.tx.dialects import Dialect
from isolde.tx.python import AbortedByProgram
from isolde.tx.python import Transaction as Function
from isolde.tx.python.handle import Answer, Handle
from isolde.tx.sql import statement


class StoreHandle(Handle):
    """What a transaction function is handed inside a transaction of the store."""

    def __init__(self, transaction: Transaction, spoken: Dialect) -> None:
        self._transaction, self._spoken = transaction, spoken

    def run(self, sql: str, parameters: Mapping[str, Any]) -> Answer:
        result = self._transaction.run(statement(sql, self._spoken), dict(parameters))
        return Answer(tuple(result.columns), result.rows, result.count)


def call_function(store: Store, function: Function, /, *arguments: Any, **named: Any) -> Any:
    """Runs a transaction function to its end; what it returned. What the program aborts leaves no effect, and gives ``None``."""
    transaction = store.transaction()
    store.counts_found = True
    try:
        result = function(StoreHandle(transaction, function.dialect), *arguments, **named)
    except AbortedByProgram:
        transaction.rollback()
        return None
    except BaseException:
        transaction.rollback()
        raise
    finally:
        store.counts_found = False
    transaction.commit()
    return result
