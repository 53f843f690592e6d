"""What the private places of all databases share: what their tables are made of, and the order in which they are filled."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

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
