"""An application's tables in a real database: made under private names, filled, checked, and dropped again."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby, islice
from random import Random
from typing import Any, cast

from isolde.databases import Database, Kind, Offer, SqlConnection, Table
from isolde.engines.record.application.values import as_json
from isolde.errors import Aborted, DatabaseUnavailable, OutsideError
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Literal
from isolde.tx.render import render_schema, rendered
from isolde.tx.statements import Insert
from isolde.tx.translate import Translator
from isolde.workloads.application import Application, Scale

_ROWS_A_STATEMENT = 100
_SHOWN = 3
_TRIES = 20


@dataclass(frozen=True, slots=True)
class Broken:
    """An invariant that does not hold: some of the rows that say so, and after how many transactions it was seen."""

    name: str
    meaning: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    after: int


class Installation:
    """An application that lives in a database. ``create`` it, and ``drop`` it."""

    def __init__(
        self, database: Database, dialect: Dialect, application: Application, scale: Scale, prefix: str
    ) -> None:
        self.database, self.application, self.scale, self.prefix = database, application, scale, prefix
        self.translator = Translator(application.schema, dialect, prefix)
        self._strongest: Offer = database.offers()[-1]

    def create(self, seed: int) -> bytes:
        """Makes the tables and fills them in one transaction; gives its line of the history.

        What was made is removed again if something fails, or if somebody loses patience.
        """
        connection = self._connect()
        try:
            for text in render_schema(self.translator.private_schema(), self.translator.dialect):
                connection.execute(text)
            return self._fill(connection, seed)
        except BaseException as error:
            connection.close()
            self.drop()
            if isinstance(error, OutsideError):
                raise DatabaseUnavailable(f"the tables of {self.application.name} cannot be made: {error}") from None
            raise
        finally:
            connection.close()

    def _fill(self, connection: SqlConnection, seed: int) -> bytes:
        begun, operations = time.monotonic_ns(), []
        connection.begin(self._strongest)
        for insert in self._inserts(self.application.populate(Random(seed), self.scale)):
            # Nothing but the table's name is to be changed: looking through all values for more would take most of the time.
            text, _ = rendered(replace(insert, table=self.prefix + insert.table), self.translator.dialect)
            connection.execute(text)
            original, _ = rendered(insert, self.translator.dialect)
            operations.append(b'{"sql":%b,"params":[],"rows":null}' % as_json(original))
        connection.commit()
        return b'{"session":"load","start":%d,"ops":[%b],"status":"committed","end":%d}\n' % (
            begun,
            b",".join(operations),
            time.monotonic_ns(),
        )

    def drop(self) -> None:
        """Removes the tables, those that refer to others first; what is not there is passed over."""
        connection = self._connect()
        try:
            for name in reversed(list(self.application.schema.tables)):
                connection.execute(f"DROP TABLE IF EXISTS {self.prefix}{name}")
        finally:
            connection.close()

    def broken(self, after: int) -> list[Broken]:
        """The invariants that do not hold at this moment; nobody else may be at work."""
        connection = self._connect()
        try:
            found = []
            for invariant in self.application.invariants:
                limited = replace(invariant.violations, limit=invariant.violations.limit or Literal(_SHOWN))
                text, _ = self.translator.private_text(limited)
                rows = self._read(connection, text)
                if rows:
                    columns = self.translator.columns(limited)
                    found.append(Broken(invariant.name, invariant.meaning, columns, tuple(rows[:_SHOWN]), after))
            return found
        finally:
            connection.close()

    def _read(self, connection: SqlConnection, text: str) -> list[tuple[Any, ...]]:
        for _ in range(_TRIES):
            try:
                connection.begin(self._strongest)
                answer = connection.execute(text)
                connection.commit()
                return [tuple(row) for row in answer.rows or []]
            except Aborted:
                connection.rollback()
        raise DatabaseUnavailable(
            f"the invariants of {self.application.name} could not be read: aborted again and again"
        )

    def _connect(self) -> SqlConnection:
        return cast(SqlConnection, self.database.connect(Table(self.prefix, Kind.REGISTERS, 0)))

    def _inserts(self, rows: Iterable[tuple[str, tuple[Any, ...]]]) -> Iterator[Insert]:
        for table, group in groupby(rows, key=lambda entry: entry[0]):
            while batch := list(islice(group, _ROWS_A_STATEMENT)):
                values = tuple(tuple(Literal(value) for value in row) for _, row in batch)
                yield Insert(table, (), values)
