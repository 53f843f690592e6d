"""Which rows a condition matches, by the database's own judgement: versions of rows are put into a private table and asked for.

The versions of a table go into a table of the same columns, without its keys and checks, with a number for each. The condition of
a statement is then asked for there; a condition that holds no query is about one row at a time, whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

from isolde.databases.contract import Database, Kind, SqlConnection
from isolde.databases.contract import Table as Place
from isolde.databases.waiting import FILL_S, patiently
from isolde.errors import DatabaseUnavailable, OutsideError
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Literal, Name
from isolde.tx.queries import Item, Select, TableSource
from isolde.tx.render import render_schema, rendered
from isolde.tx.render.words import quoted
from isolde.tx.schema import INTEGER, Column, Schema, Table
from isolde.tx.sql import statement
from isolde.tx.statements import Delete, Insert, Update

_NUMBER = "isolde_version"
_ROWS_A_STATEMENT = 200


class DatabaseMatching:
    """Asks one database. ``load`` the versions of a table once, then ask for statements; ``close`` removes the tables."""

    def __init__(self, database: Database, dialect: Dialect, schema: Schema, prefix: str) -> None:
        self._dialect, self._schema, self._prefix = dialect, schema, prefix
        self._connection = cast(SqlConnection, database.connect(Place(prefix, Kind.REGISTERS, 0)))
        self._made: list[str] = []

    def load(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Puts the versions of a table into a private one; they are numbered as they come."""
        kept = self._schema.tables[table]
        columns = tuple(Column(column.name, column.type) for column in kept.columns)
        number = Column(_NUMBER, INTEGER, nullable=False)
        private = Table(self._private(table), (number, *columns), (_NUMBER,))
        try:
            with patiently(self._connection, FILL_S):
                for text in render_schema(Schema.of(private), self._dialect):
                    self._connection.execute(text)
                self._made.append(private.name)
                for first in range(0, len(rows), _ROWS_A_STATEMENT):
                    some = enumerate(rows[first : first + _ROWS_A_STATEMENT], first)
                    values = tuple(tuple(Literal(value) for value in (place, *row)) for place, row in some)
                    self._connection.execute(rendered(Insert(private.name, (), values), self._dialect)[0])
        except OutsideError as error:
            raise DatabaseUnavailable(f"the versions of {table} cannot be put into the database: {error}") from None

    def matching(self, table: str, sql: str, params: Sequence[Any]) -> frozenset[int]:
        """The numbers of the versions that a statement matches."""
        node = statement(sql, self._dialect, strict=False)
        match node:
            case Select(source=TableSource(alias=alias), where=where):
                pass
            case Update(alias=alias, where=where) | Delete(alias=alias, where=where):
                pass
            case _:
                raise DatabaseUnavailable(f"'{sql}' has no condition on one table that the database could be asked for")
        source = TableSource(self._private(table), alias or table)
        asked = Select((Item(Name(_NUMBER, source.name)),), source, where)
        text, names = rendered(asked, self._dialect)
        values = [params[int(name[1:]) - 1] for name in names]
        try:
            with patiently(self._connection, FILL_S):
                rows = self._connection.execute(text, values).rows
        except OutsideError as error:
            raise DatabaseUnavailable(f"the database cannot evaluate the condition of '{sql}': {error}") from None
        return frozenset(int(row[0]) for row in rows or ())

    def _private(self, table: str) -> str:
        return f"{self._prefix}{table}_versions"[:63]

    def close(self) -> None:
        """Removes the tables; never raises."""
        with suppress(OutsideError):
            for name in self._made:
                with patiently(self._connection):
                    self._connection.execute(f"DROP TABLE {quoted(name, self._dialect)}")
        self._connection.close()
