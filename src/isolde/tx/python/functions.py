"""What a transaction function is to those who compile one that calls it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from isolde.tx.dialects import Dialect
from isolde.tx.procedures import Procedure
from isolde.tx.python.handle import Handle


class TransactionFunction(ABC):
    """A function that takes a handle. Calling it runs it as plain Python; ``procedure`` is what it means."""

    def __init__(self, function: Callable[..., Any], dialect: Dialect) -> None:
        self.function, self.dialect = function, dialect
        self.name: str = function.__name__
        update_wrapper(self, function)

    def __call__(self, tx: Handle, /, *arguments: Any, **named: Any) -> Any:
        return self.function(tx, *arguments, **named)

    @property
    @abstractmethod
    def procedure(self) -> Procedure:
        """The function in the transaction language; ``OutsideFragment`` points at the line that is outside of the subset."""

    def __repr__(self) -> str:
        return f"<transaction {self.name}>"
