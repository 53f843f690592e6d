"""A transaction that locks what it reads: the same function, with ``FOR UPDATE`` where it reads some tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

from isolde.errors import UsageError
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Aggregate
from isolde.tx.procedures import CallProcedure, Procedure
from isolde.tx.python.handle import Answer, Handle
from isolde.tx.python.transaction import Transaction
from isolde.tx.queries import Lock, Select, TableSource
from isolde.tx.rewrite import rewritten
from isolde.tx.sql import statement


class LockingTransaction(Transaction):
    """Run as plain Python, its handle adds the locks; compiled, its procedure has them."""

    def __init__(self, base: Transaction, tables: frozenset[str]) -> None:
        super().__init__(base.function, base.dialect)
        self.tables = tables

    def __call__(self, tx: Handle, /, *arguments: Any, **named: Any) -> Any:
        return self.function(_LockingHandle(tx, self.tables, self.dialect), *arguments, **named)

    @cached_property
    def procedure(self) -> Procedure:
        locked: set[str] = set()

        def lock(node: Any) -> Any:
            if isinstance(node, CallProcedure):
                raise UsageError(
                    f"{self.name} calls {node.procedure}: what that reads would be locked in one form only"
                )
            if isinstance(node, Select) and (table := _locked(node, self.tables)) is not None:
                locked.add(table)
                return replace(node, lock=Lock.UPDATE)
            return node

        changed: Procedure = rewritten(super().procedure, lock)
        if locked != self.tables:
            raise UsageError(
                f"{self.name} reads no row of {', '.join(sorted(self.tables - locked))} that can be locked"
            )
        return changed


class _LockingHandle(Handle):
    def __init__(self, inner: Handle, tables: frozenset[str], dialect: Dialect) -> None:
        self._inner, self._tables, self._dialect = inner, tables, dialect

    def run(self, sql: str, parameters: Mapping[str, Any]) -> Answer:
        return self._inner.run(_with_lock(sql, self._tables, self._dialect), parameters)


@lru_cache(maxsize=1024)
def _with_lock(sql: str, tables: frozenset[str], dialect: Dialect) -> str:
    query = statement(sql, dialect)
    # On a line of its own: the text may end in a comment.
    return f"{sql}\nFOR UPDATE" if isinstance(query, Select) and _locked(query, tables) is not None else sql


def _locked(query: Select, tables: frozenset[str]) -> str | None:
    """The table whose rows the query is to lock. Rows behind a count, a sum or DISTINCT cannot be locked."""
    found: list[Aggregate] = []

    def look(node: Any) -> Any:
        if isinstance(node, Aggregate):
            found.append(node)
        return node

    rewritten(query.items, look)
    plain = query.lock is None and not (found or query.group_by or query.distinct)
    table = query.source.table if isinstance(query.source, TableSource) else None
    return table if plain and table in tables else None


def locking(transaction: Transaction, *tables: str) -> Transaction:
    """The transaction with ``FOR UPDATE`` on each plain query of one of these tables."""
    return LockingTransaction(transaction, frozenset(tables))
