"""What the private places of all databases share: rows as the driver has them, and the order in which tables are filled."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from isolde.history.model import Scalar
from isolde.history.schedule import Row
from isolde.tx.script import changes, is_plain

_CREATE_TABLE = re.compile(
    r"create\s+(?:\w+\s+)*?table\s+(?:if\s+not\s+exists\s+)?[\"`\[]?(?P<name>[^\s\"`\](]+)", re.IGNORECASE
)
_INDEX = re.compile(r"create\s+(unique\s+)?index\b", re.IGNORECASE)


class Prepared:
    """What the tables were made of, as long as nothing but their rows has changed since: then emptying them is enough.

    ``tables`` are their names, once somebody looked.
    """

    def __init__(self) -> None:
        self._what: object = None
        self.tables: list[str] | None = None

    def made(self, what: object) -> None:
        """Tables were made anew."""
        self._what = what
        self.tables = None

    def forget(self) -> None:
        """They may be anything now."""
        self._what = self.tables = None

    def same(self, what: tuple[tuple[str, ...], ...]) -> bool:
        """Whether these very tables are there; tables that come from more than plain definitions are always made anew."""
        return what == self._what and all(
            created_table(text) or _INDEX.match(text) or changes(text) for text in what[0]
        )

    def look(self, statements: Iterable[str]) -> None:
        """A session sends these; any of them but a query or change of rows may redefine something."""
        if not all(map(is_plain, statements)):
            self.forget()


def created_table(statement: str) -> str | None:
    """The name of the table that a statement makes."""
    match = _CREATE_TABLE.match(statement.strip())
    return match["name"] if match else None


def in_order_of_creation(schema: Sequence[str], rows: Mapping[str, Sequence[Row]]) -> list[tuple[str, Sequence[Row]]]:
    """The tables that have rows, those first that are made first: a row may refer to one of a table made before its own."""
    made = [(created_table(text) or "").lower() for text in schema]
    places = {name: place for place, name in enumerate(made)}
    filled = [(table, some) for table, some in rows.items() if some]
    return sorted(filled, key=lambda entry: places.get(entry[0].lower(), len(made)))


def values_of(rows: Iterable[Sequence[Any]]) -> tuple[Row, ...]:
    """Rows of a driver as a history can hold them."""
    return tuple(tuple(map(_scalar, row)) for row in rows)


def _scalar(value: object) -> Scalar:
    """Times and bytes as text, a float as its shortest decimal.

    >>> _scalar(0.1), _scalar(b"ab"), _scalar(float("nan"))
    (Decimal('0.1'), '\\\\x6162', 'nan')
    """
    match value:
        case None | bool() | int() | str():
            return value
        case Decimal():
            return value if value.is_finite() else str(value)
        case float():
            number = Decimal(repr(value))
            return number if number.is_finite() else str(value)
        case bytes() | bytearray() | memoryview():
            return "\\x" + bytes(value).hex()
        case _:
            return str(value)
