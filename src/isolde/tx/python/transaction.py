"""The decorator: a function stays a function, and can be compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, overload

from isolde.errors import UsageError
from isolde.tx.dialects import Dialect
from isolde.tx.procedures import Invariant, Procedure, Program
from isolde.tx.python.functions import TransactionFunction
from isolde.tx.schema import Schema


class Transaction(TransactionFunction):
    """A transaction function that is compiled when its meaning is first asked for."""

    @cached_property
    def procedure(self) -> Procedure:
        from isolde.tx.python.compiler import compiled

        return compiled(self.function, self.dialect)


@overload
def transaction(function: Callable[..., Any], /) -> Transaction: ...
@overload
def transaction(*, dialect: str | Dialect = ...) -> Callable[[Callable[..., Any]], Transaction]: ...
def transaction(
    function: Callable[..., Any] | None = None, /, *, dialect: str | Dialect = Dialect.POSTGRESQL
) -> Transaction | Callable[[Callable[..., Any]], Transaction]:
    """Marks a function of a handle and parameters as a transaction; its SQL is of ``dialect``."""
    try:
        spoken = Dialect(dialect)
    except ValueError:
        raise UsageError(f"no dialect '{dialect}'; there are {', '.join(Dialect)}") from None
    if function is None:
        return lambda decorated: Transaction(decorated, spoken)
    return Transaction(function, spoken)


def program(schema: Schema, transactions: Iterable[Transaction], invariants: Iterable[Invariant] = ()) -> Program:
    """An application of transaction functions."""
    return Program(schema, tuple(entry.procedure for entry in transactions), tuple(invariants))
