"""Transaction functions on a real database, each call a transaction of its own."""

from __future__ import annotations

from typing import Any, Self, cast

from isolde.databases.contract import Kind, SqlConnection, Table
from isolde.databases.handle import DatabaseHandle
from isolde.databases.registry import offer_named, open_database
from isolde.databases.translate import Translator
from isolde.errors import ConnectionLost, UsageError
from isolde.tx.python import AbortedByProgram, Transaction
from isolde.tx.render import render_schema
from isolde.tx.schema import Schema

_NO_TABLE = Table("isolde_caller", Kind.REGISTERS, 0)


class Caller:
    """A connection to the database at ``url`` on which functions are called at one level, its strongest unless ``level`` says.

    ``schema`` has the tables, which are there under their own names or are made by ``create_tables``.
    """

    def __init__(self, url: str, schema: Schema, *, level: str | None = None) -> None:
        adapter, self._database = open_database(url)
        try:
            if adapter.dialect is None:
                raise UsageError(
                    f"{adapter.name} speaks no SQL that Isolde can write, so it cannot run transaction functions"
                )
            self._offer = self._database.offers()[-1] if level is None else offer_named(self._database, level)
            self._translator = Translator(schema, adapter.dialect, "")
            self._connection = cast(SqlConnection, self._database.connect(_NO_TABLE))
        except BaseException:
            self._database.close()
            raise

    def create_tables(self) -> None:
        """Makes the tables of the schema; ``StatementFailed`` if one is there."""
        for text in render_schema(self._translator.schema, self._translator.dialect):
            self._connection.execute(text)

    def __call__(self, function: Transaction, /, *arguments: Any, **named: Any) -> Any:
        """What the function returned, once that is committed; ``None`` if it gave up.

        Whatever the database or the function raises is raised after a rollback, what the function caught of the database too.
        ``Aborted`` asks for another try.
        """
        connection = self._connection
        connection.begin(self._offer)
        try:
            handle = DatabaseHandle(connection, self._translator, function.dialect)
            result = function(handle, *arguments, **named)
            if handle.failure is not None:
                raise handle.failure
            connection.commit()
        except AbortedByProgram:
            connection.rollback()
            return None
        except ConnectionLost:
            raise
        except BaseException:
            connection.rollback()
            raise
        return result

    def close(self) -> None:
        self._connection.close()
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
