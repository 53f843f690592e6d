"""An application's tables in a real database: made under private names, filled, checked, and dropped again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Any, cast, get_args

from isolde.databases import Database, Kind, Offer, SqlConnection, Table
from isolde.databases.translate import Translator
from isolde.databases.waiting import FILL_S, STATEMENT_S, patiently
from isolde.engines.record.application.values import as_json
from isolde.errors import (
    Aborted,
    ConnectionLost,
    DatabaseUnavailable,
    IsoldeError,
    OutsideError,
    StatementFailed,
    UsageError,
)
from isolde.semantics.core.labels import labels
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Constant, Literal
from isolde.tx.render import render_schema, rendered
from isolde.tx.render.words import quoted
from isolde.tx.statements import Insert
from isolde.workloads.application import Application, Scale
from isolde.workloads.blame import blamed

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
    """An application that lives in a database. ``create`` it, and ``drop`` it.

    A statement that takes longer than a minute, or than ``timeout_s`` if that is more, is given up.
    """

    def __init__(
        self,
        database: Database,
        dialect: Dialect,
        application: Application,
        scale: Scale,
        prefix: str,
        timeout_s: float = 0.0,
    ) -> None:
        self.database, self.application, self.scale, self.prefix = database, application, scale, prefix
        self.translator = Translator(application.schema, dialect, prefix)
        self._strongest: Offer = database.offers()[-1]
        self._timeout_s = timeout_s
        self._waited_for: SqlConnection | None = None
        self._freed = False

    def create(self, seed: int) -> dict[str, bytes]:
        """Makes the tables and fills them; gives what a history's header says of them, each field as JSON.

        What was made is removed again if something fails, or if somebody loses patience.
        """
        texts = render_schema(self.translator.private_schema(), self.translator.dialect)
        try:
            connection = self._connect()
        except ConnectionLost as error:
            raise DatabaseUnavailable(f"the tables of {self.application.name} cannot be made: {error.reason}") from None
        try:
            for text in texts:
                with self._patiently(connection):
                    connection.execute(text)
            self._fill(connection, seed)
            return self._about(connection)
        except BaseException as error:
            connection.close()
            left = self._dropped_again()
            if isinstance(error, OutsideError):
                raise DatabaseUnavailable(
                    f"the tables of {self.application.name} cannot be made: {error}{left}"
                ) from None
            raise
        finally:
            connection.close()

    def _dropped_again(self) -> str:
        """Drops what was made; what is given says so if it cannot. What made this necessary is to be told all the same."""
        try:
            self.drop()
        except IsoldeError as error:
            return f"; what was made of them ({self.prefix}…) could not be dropped: {error}"
        return ""

    def _fill(self, connection: SqlConnection, seed: int) -> None:
        with self._patiently(connection):
            connection.begin(self._strongest)
        for insert in self._inserts(self._rows(seed)):
            # Nothing but the table's name is to be changed: looking through all values for more would take most of the time.
            text, _ = rendered(replace(insert, table=self.prefix + insert.table), self.translator.dialect)
            with self._patiently(connection):
                connection.execute(text)
        with self._patiently(connection):
            connection.commit()
        if self.translator.dialect is Dialect.POSTGRESQL:
            # Else the first invariants are looked at with the plans of empty tables, which takes minutes on large ones.
            for name in self.application.schema.tables:
                with self._patiently(connection):
                    connection.execute(f"ANALYZE {quoted(self.prefix + name, self.translator.dialect)}")

    def _about(self, connection: SqlConnection) -> dict[str, bytes]:
        """What the history is about. The rows are those that the database has: it may have rounded, padded or numbered them."""
        dialect = self.translator.dialect
        rows = []
        for table in self.application.schema.tables.values():
            names = [quoted(column.name, dialect) for column in table.columns]
            keys = [quoted(name, dialect) for name in table.primary_key] or names
            text = (
                f"SELECT {', '.join(names)} FROM {quoted(self.prefix + table.name, dialect)} ORDER BY {', '.join(keys)}"
            )
            with self._patiently(connection):
                connection.begin(self._strongest)
                found = connection.execute(text).rows or []
                connection.commit()
            if found:
                rows.append(b"%b:%b" % (as_json(table.name), as_json([tuple(row) for row in found])))
        return {
            "dialect": as_json(dialect.value),
            "store": as_json(self.database.version().lower()),
            "settings": _settings(connection, dialect),
            "schema": as_json(list(render_schema(self.application.schema, dialect))),
            "rows": b"{" + b",".join(rows) + b"}",
        }

    def drop(self) -> None:
        """Removes the tables, those that refer to others first; what is not there is passed over."""
        self._freed = False
        connection = self._connect()
        refused: StatementFailed | None = None
        try:
            for name in reversed(list(self.application.schema.tables)):
                try:
                    with self._patiently(connection, STATEMENT_S):
                        connection.execute(
                            f"DROP TABLE IF EXISTS {quoted(self.prefix + name, self.translator.dialect)}"
                        )
                except StatementFailed as error:
                    # The others are to go all the same.
                    refused = refused or error
        finally:
            connection.close()
        if refused is not None:
            raise refused

    def removal(self) -> str:
        """What a person types to remove the tables."""
        names = reversed(list(self.application.schema.tables))
        return "; ".join(
            f"DROP TABLE IF EXISTS {quoted(self.prefix + name, self.translator.dialect)}" for name in names
        )

    def rows(self, table: str, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
        """What a table holds at this moment."""
        self._freed = False
        dialect = self.translator.dialect
        names = ", ".join(quoted(name, dialect) for name in columns)
        connection = self._connect()
        try:
            return self._read(
                connection, f"table {table}", f"SELECT {names} FROM {quoted(self.prefix + table, dialect)}"
            )
        finally:
            connection.close()

    def broken(self, after: int) -> list[Broken]:
        """The invariants that do not hold at this moment; nobody else may be at work."""
        self._freed = False
        connection = self._connect()
        try:
            found = []
            for invariant in self.application.invariants:
                limited = replace(invariant.violations, limit=invariant.violations.limit or Literal(_SHOWN))
                text, _ = self.translator.private_text(limited)
                rows = self._read(connection, f"invariant {invariant.name}", text)
                if rows:
                    columns = labels(limited, self.application.schema)
                    found.append(Broken(invariant.name, invariant.meaning, columns, tuple(rows[:_SHOWN]), after))
            return found
        finally:
            connection.close()

    def free(self) -> None:
        """Breaks off what is waited for and what would be asked next, from any thread."""
        self._freed = True
        waited_for = self._waited_for
        if waited_for is not None:
            waited_for.abandon()

    def _read(self, connection: SqlConnection, name: str, text: str) -> list[tuple[Any, ...]]:
        for _ in range(_TRIES):
            try:
                with self._patiently(connection):
                    connection.begin(self._strongest)
                    answer = connection.execute(text)
                    connection.commit()
                return [tuple(row) for row in answer.rows or []]
            except Aborted:
                connection.rollback()
            except StatementFailed as error:
                raise UsageError(f"the {name} cannot be looked at: {error}") from None
        raise DatabaseUnavailable(f"the {name} could not be looked at: aborted again and again")

    @contextmanager
    def _patiently(self, connection: SqlConnection, seconds: float = FILL_S) -> Iterator[None]:
        """Somebody may hold a lock, and a server may hang: what is asked in here is broken off after a while."""
        if self._freed:
            raise ConnectionLost("broken off")
        self._waited_for = connection
        try:
            with patiently(connection, max(seconds, self._timeout_s), "; is a table locked? --timeout gives it longer"):
                yield
        finally:
            self._waited_for = None

    def _connect(self) -> SqlConnection:
        return cast(SqlConnection, self.database.connect(Table(self.prefix, Kind.REGISTERS, 0)))

    def _rows(self, seed: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """What the application wants to start with; a row that its tables cannot hold is refused."""
        tables = self.application.schema.tables
        with blamed(f"populate of {self.application.name}"):
            for table, row in self.application.populate(Random(seed), self.scale):
                if table not in tables:
                    raise UsageError(f"populate has a row of {table!r}; the tables are {', '.join(tables)}")
                columns = [column.name for column in tables[table].columns]
                if len(row) != len(columns):
                    raise UsageError(
                        f"populate has the row {row!r} of {table}, which has {len(columns)} columns: {', '.join(columns)}"
                    )
                for value in row:
                    if not isinstance(value, get_args(Constant)):
                        raise UsageError(
                            f"populate has {value!r} in a row of {table}; no column takes a value of type {type(value).__name__}"
                        )
                yield table, row

    def _inserts(self, rows: Iterable[tuple[str, tuple[Any, ...]]]) -> Iterator[Insert]:
        """Many rows a statement, also where the tables take turns. A row refers to tables before its own: they come first."""
        waiting: dict[str, list[tuple[Any, ...]]] = {name: [] for name in self.application.schema.tables}
        for table, row in rows:
            waiting[table].append(row)
            if len(waiting[table]) == _ROWS_A_STATEMENT:
                yield from _emptied(waiting)
        yield from _emptied(waiting)


# What changes how a level behaves, and how to ask for it.
_SETTINGS = {
    Dialect.MYSQL: "SHOW VARIABLES WHERE Variable_name IN"
    " ('innodb_snapshot_isolation', 'innodb_rollback_on_timeout', 'innodb_deadlock_detect')",
}


def _settings(connection: SqlConnection, dialect: Dialect) -> bytes:
    """The server's settings that change what a level does, as a JSON object."""
    query = _SETTINGS.get(dialect)
    rows = (connection.execute(query).rows or []) if query is not None else []
    return b"{" + b",".join(b"%b:%b" % (as_json(str(name)), as_json(str(value))) for name, value in rows) + b"}"


def _emptied(waiting: dict[str, list[tuple[Any, ...]]]) -> Iterator[Insert]:
    for table, rows in waiting.items():
        if rows:
            yield Insert(table, (), tuple(tuple(Literal(value) for value in row) for row in rows))
            rows.clear()
