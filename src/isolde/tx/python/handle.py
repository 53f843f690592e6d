"""What a transaction function is handed: the database, one statement at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from isolde.errors import IsoldeError


@dataclass(eq=False)
class AbortedByProgram(IsoldeError):
    """The program itself ended the transaction (``tx.abort``)."""

    reason: str

    def __str__(self) -> str:
        return f"the program aborted the transaction: {self.reason}"


class SeveralRows(ValueError):
    """``tx.one`` or ``tx.value`` of several rows: which of them comes first is nobody's to say."""

    def __init__(self, sql: str, count: int) -> None:
        super().__init__(f"'{sql}' gives {count} rows; use tx.all, or ORDER BY … LIMIT 1")


class Row:
    """One row; a column is an attribute, an item by name or by position. Rows unpack.

    >>> row = Row(("id", "capacity"), (7, 30))
    >>> row.capacity, row["id"], row[1], tuple(row)
    (30, 7, 30, (7, 30))
    """

    __slots__ = ("_names", "_values")

    def __init__(self, names: Sequence[str], values: Sequence[Any]) -> None:
        self._names, self._values = names, values

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[self._names.index(name)]
        except ValueError:
            raise AttributeError(f"the row has no column {name}; it has {', '.join(self._names)}") from None

    def __getitem__(self, place: str | int) -> Any:
        return self._values[place] if isinstance(place, int) else getattr(self, place)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Row) and tuple(self) == tuple(other) and tuple(self._names) == tuple(other._names)

    def __hash__(self) -> int:
        return hash(tuple(self._values))

    def __repr__(self) -> str:
        pairs = ", ".join(f"{name}={value!r}" for name, value in zip(self._names, self._values, strict=True))
        return f"Row({pairs})"


@dataclass(frozen=True, slots=True)
class Answer:
    """What one statement gave: the names and rows of its result, and how many rows it touched."""

    names: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    count: int


class Handle(ABC):
    """One transaction in progress. Parameters are ``:name`` in the SQL and keywords in the call."""

    @abstractmethod
    def run(self, sql: str, parameters: Mapping[str, Any]) -> Answer:
        """Executes one statement."""

    def one(self, sql: str, /, **parameters: Any) -> Row | None:
        """The row, or ``None``; ``SeveralRows`` if there are more."""
        answer = self._single(sql, parameters)
        return Row(answer.names, answer.rows[0]) if answer.rows else None

    def all(self, sql: str, /, **parameters: Any) -> list[Row]:
        """All rows."""
        answer = self.run(sql, parameters)
        return [Row(answer.names, row) for row in answer.rows]

    def value(self, sql: str, /, **parameters: Any) -> Any:
        """The first column of the row; ``None`` if there is none."""
        answer = self._single(sql, parameters)
        return answer.rows[0][0] if answer.rows else None

    def _single(self, sql: str, parameters: Mapping[str, Any]) -> Answer:
        answer = self.run(sql, parameters)
        if len(answer.rows) > 1:
            raise SeveralRows(sql, len(answer.rows))
        return answer

    def execute(self, sql: str, /, **parameters: Any) -> int:
        """Runs a statement for its effect; how many rows it touched."""
        return self.run(sql, parameters).count

    def abort(self, reason: str = "") -> NoReturn:
        """Ends the transaction without effect."""
        raise AbortedByProgram(reason)
