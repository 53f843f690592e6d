"""The decorator: a function stays a function, and can be compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, update_wrapper
from typing import Any, overload

from isolde.errors import UsageError
from isolde.tx.dialects import Dialect
from isolde.tx.procedures import Invariant, Procedure, Program
from isolde.tx.python.handle import Handle
from isolde.tx.schema import Schema


class Transaction:
    """A transaction function. Calling it runs it as plain Python; ``procedure`` is what it means."""

    def __init__(self, function: Callable[..., Any], dialect: Dialect) -> None:
        self.function, self.dialect = function, dialect
        self.name: str = function.__name__
        update_wrapper(self, function)

    def __call__(self, tx: Handle, /, *arguments: Any, **named: Any) -> Any:
        return self.function(tx, *arguments, **named)

    @cached_property
    def procedure(self) -> Procedure:
        """The function in the transaction language; ``OutsideFragment`` points at the line that is outside of the subset."""
        from isolde.tx.python.compiler import compiled

        return compiled(self.function, self.dialect)

    def __repr__(self) -> str:
        return f"<transaction {self.name}>"


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
