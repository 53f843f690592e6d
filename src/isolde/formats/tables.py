"""What a history of SQL tables is about: everything that a reading of it starts from, from its header alone.

Recordings of earlier versions said it under ``meta``, and made the first rows in a session called ``load``; both are understood.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from isolde.errors import InputError
from isolde.history import History, Sql, Transaction, TxnId

if TYPE_CHECKING:
    from isolde.tx.dialects import Dialect
    from isolde.tx.expressions import Constant
    from isolde.tx.schema import Schema, Table

_LOAD = "load"


@dataclass(frozen=True, slots=True)
class Unknown:
    """A cell that nobody knows: any value of its column's type, the same one wherever the name is the same."""

    name: str


Cell = None | bool | int | float | str | Decimal | date | datetime | Unknown
"""A value as the column's type has it: JSON knows neither exact decimals nor times."""


def _nowhere(_: TxnId) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class SqlHistory:
    """Tables, the rows before the first transaction, and the transactions; values are in the order of the columns.

    ``counts`` is what an affected-row count of an UPDATE counts; ``None``: either. ``settings`` change what a level does.
    """

    dialect: Dialect
    schema: Schema
    rows: Mapping[str, tuple[tuple[Cell, ...], ...]]
    transactions: tuple[Transaction, ...]
    procedures: tuple[str, ...] = ()
    store: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    counts: Literal["found", "changed"] | None = None
    place: Callable[[TxnId], str] = _nowhere
    """Where a transaction stands: its file and line, or nothing."""

    def statement_at(self, transaction: TxnId, place: int) -> str:
        """How a message names a statement.

        >>> SqlHistory(..., ..., {}, (), place=lambda _: "log.jsonl:7").statement_at("t1", 0)
        'log.jsonl:7: statement 0 of t1'
        """
        where = self.place(transaction)
        return f"{where}: statement {place} of {transaction}" if where else f"statement {place} of {transaction}"

    def known_rows(self, table: str) -> list[tuple[Constant, ...]]:
        """The first rows of a table, for a reading that needs every value; refused if one is unknown."""
        rows = []
        for row in self.rows.get(table, ()):
            known = tuple(value for value in row if not isinstance(value, Unknown))
            if len(known) < len(row):
                raise InputError(f"the first rows of {table} have unknown values; this needs all of them")
            rows.append(known)
        return rows


def sql_history(history: History, name: str = "history") -> SqlHistory:
    """What the history is about; :class:`InputError` names the field of its header that is missing or wrong."""
    from isolde.tx.dialects import Dialect
    from isolde.tx.sql import schema

    header = _Header({**_earlier(history.meta), **history.extra}, name)
    known = [dialect.value for dialect in Dialect]
    spoken = header.one_of("dialect", known)
    assert spoken is not None
    dialect = Dialect(spoken)
    tables = schema(";\n".join(header.texts("schema")), dialect, f"{name}: schema")
    _refuse_zones(tables, name)
    counts = header.one_of("counts", ["found", "changed"], optional=True)
    loads = [transaction for transaction in history.transactions if transaction.session == _LOAD]
    if "rows" in header.content or not loads:
        rows, transactions = header.rows(tables), history.transactions
    else:
        rows = _loaded(loads, tables, dialect)
        transactions = tuple(one for one in history.transactions if one.session != _LOAD)
    return SqlHistory(
        dialect,
        tables,
        rows,
        transactions,
        tuple(header.texts("procedures", optional=True)),
        header.text("store"),
        header.settings(),
        "found" if counts == "found" else "changed" if counts == "changed" else None,
    )


def _refuse_zones(tables: Schema, name: str) -> None:
    """Times with a zone are shown, and read, in the zone of a session; a history does not say which that was."""
    for table in tables.tables.values():
        for column in table.columns:
            if column.type.kind.value == "timestamp with time zone":
                raise InputError(
                    f'{name}: "schema" has times with a zone in {table.name}.{column.name}, and nobody knows the zone of the'
                    " sessions; use TIMESTAMP"
                )


def _earlier(meta: Any) -> dict[str, Any]:
    """What recordings of earlier versions said under ``meta``."""
    names = ("dialect", "schema")
    return {name: meta[name] for name in names if name in meta} if isinstance(meta, dict) else {}


def _loaded(loads: list[Transaction], schema: Schema, dialect: Dialect) -> dict[str, tuple[tuple[Cell, ...], ...]]:
    """The rows that the inserts of an earlier recording made."""
    from isolde.semantics.concrete import Store
    from isolde.tx.sql import statement

    store = Store(schema, dialect)
    for load in loads:
        transaction = store.transaction()
        for operation in load.ops:
            if isinstance(operation, Sql):
                transaction.run(statement(operation.content["sql"], dialect))
        transaction.commit()
    return {table: tuple(rows) for table, rows in store.state().items() if rows}


@dataclass(frozen=True, slots=True)
class _Header:
    """The fields of a header, each looked at when it is asked for."""

    content: Mapping[str, Any]
    name: str

    def wrong(self, field: str, expected: str) -> InputError:
        found = f"is {str(self.content[field])[:60]!r}" if field in self.content else "is missing"
        return InputError(f'{self.name}: "{field}" of the header {found}; expected {expected}')

    def one_of(self, field: str, words: list[str], *, optional: bool = False) -> str | None:
        found = self.content.get(field)
        if found is None and optional:
            return None
        if not isinstance(found, str) or found not in words:
            raise self.wrong(field, f"one of {', '.join(words)}")
        return found

    def text(self, field: str) -> str:
        found = self.content.get(field, "")
        if not isinstance(found, str):
            raise self.wrong(field, "a text")
        return found

    def texts(self, field: str, *, optional: bool = False) -> list[str]:
        found = self.content.get(field, [] if optional else None)
        if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
            raise self.wrong(field, "a list of SQL texts")
        return found

    def settings(self) -> dict[str, str]:
        found = self.content.get("settings", {})
        if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
            raise self.wrong("settings", "texts by name")
        return found

    def rows(self, schema: Schema) -> dict[str, tuple[tuple[Cell, ...], ...]]:
        found = self.content.get("rows", {})
        if not isinstance(found, dict):
            raise self.wrong("rows", "rows by the name of their table")
        for table, rows in found.items():
            if table not in schema.tables:
                raise InputError(f'{self.name}: "rows" of the header has the table {table!r}, which is not in "schema"')
            width = len(schema.tables[table].columns)
            if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == width for row in rows):
                raise InputError(f'{self.name}: "rows" of {table} is no list of rows of {width} values each')
        return {table: tuple(self._row(row, schema.tables[table]) for row in rows) for table, rows in found.items()}

    def _row(self, row: list[Any], table: Table) -> tuple[Cell, ...]:
        cells = []
        for value, column in zip(row, table.columns, strict=True):
            try:
                cells.append(value_of_kind(value, column.type.kind.value))
            except (ValueError, ArithmeticError):
                shown = f"{str(value)[:60]!r} in the column {column.name}"
                raise InputError(
                    f'{self.name}: "rows" of {table.name} has {shown}, which is no {column.type.kind.value}'
                ) from None
        return tuple(cells)


def value_of_kind(value: Any, kind: str) -> Cell:
    """The value that a column of this kind holds, from its JSON."""
    match kind, value:
        case _, None:
            return None
        case _, {"unknown": str(name)}:
            return Unknown(name)
        case "decimal", int() | Decimal():
            return Decimal(value)
        case "float", int() | Decimal():
            return float(value)
        case "boolean", bool() | 0 | 1:
            return bool(value)
        case "date", str():
            return date.fromisoformat(value)
        case "timestamp", str():
            return datetime.fromisoformat(value)
        case _, bool() | int() | str() | Decimal():
            # SQLite keeps any value in a column of any type.
            return value
        case _:
            raise ValueError
