"""Tables in the model of "Dynamic Partial Order Reduction for Checking Correctness against Transaction Isolation Levels"
(Bouajjani, Enea, Román-Calvo; PLDI 2023, section 7.2): a variable holds the ids of the rows, and every row has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

Key = tuple[Any, ...]


class Keys(Protocol):
    """What a transaction over keys is handed."""

    def read(self, key: Hashable, /) -> Any: ...
    def write(self, key: Hashable, value: Any, /) -> None: ...
    def abort(self) -> NoReturn: ...


@dataclass(frozen=True, slots=True)
class Table:
    """A table by name."""

    name: str

    @property
    def ids(self) -> Key:
        """The variable that holds the ids of the rows."""
        return (self.name,)

    def row(self, id_: Hashable) -> Key:
        """The variable that holds a row."""
        return (self.name, id_)

    def initial(self, rows: Mapping[Any, Any]) -> dict[Key, Any]:
        """The variables of a table that holds these rows."""
        return {self.ids: frozenset(rows)} | {self.row(id_): row for id_, row in rows.items()}

    def insert(self, tx: Keys, id_: Hashable, row: Any) -> None:
        tx.write(self.ids, tx.read(self.ids) | {id_})
        tx.write(self.row(id_), row)

    def delete(self, tx: Keys, id_: Hashable) -> None:
        tx.write(self.ids, tx.read(self.ids) - {id_})

    def select(self, tx: Keys, id_: Hashable) -> Any:
        """The row of this id, or ``None``."""
        return tx.read(self.row(id_)) if id_ in tx.read(self.ids) else None

    def select_where(self, tx: Keys, condition: Callable[[Any], bool]) -> dict[Any, Any]:
        """The rows whose ids fulfil a condition, by their ids."""
        return {id_: tx.read(self.row(id_)) for id_ in sorted(tx.read(self.ids)) if condition(id_)}

    def update(self, tx: Keys, id_: Hashable, row: Any) -> None:
        """Sets the row of this id, if there is one."""
        if id_ in tx.read(self.ids):
            tx.write(self.row(id_), row)
