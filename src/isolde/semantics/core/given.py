"""Rows that somebody writes down, as a database would keep them: texts of times become times, decimals get their digits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, get_args

from isolde.errors import ExecutionError, UsageError
from isolde.semantics.core.catalog import Catalog
from isolde.semantics.core.evaluate import constant_value
from isolde.tx.expressions import Constant
from isolde.tx.schema import Column, Kind

VALUES = get_args(Constant)
"""What Python has for values of SQL."""
_PLAIN: dict[Kind, type] = {
    Kind.BOOLEAN: bool,
    Kind.INTEGER: int,
    Kind.FLOAT: float,
    Kind.TEXT: str,
    Kind.DATE: date,
    Kind.TIMESTAMP: datetime,
}
"""Values of this very type need no look."""


def given_rows(catalog: Catalog, table: str, rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    columns = catalog.table(table).table.columns
    return [_row(catalog, table, columns, tuple(row)) for row in rows]


def _row(catalog: Catalog, table: str, columns: Sequence[Column], row: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(row) != len(columns):
        raise UsageError(f"a row of {table} is {row!r}; the table has {len(columns)} columns")
    rules = catalog.rules
    kept = []
    for value, column in zip(row, columns, strict=True):
        if not isinstance(value, VALUES):
            raise UsageError(f"a row of {table} has {value!r} for {column.name}, which is no value of SQL")
        try:
            plain = _is_plain(value, column) and type(value) not in rules.sent
            kept.append(value if plain else constant_value(rules.stored(rules.literal(value), column)))
        except ExecutionError as error:
            raise UsageError(f"a row of {table} has {value!r} for {column.name}: {error}") from None
    return tuple(kept)


def _is_plain(value: Any, column: Column) -> bool:
    if type(value) is Decimal and column.type.kind is Kind.DECIMAL:
        return column.type.scale is None or value.as_tuple().exponent == -column.type.scale
    return value is None or type(value) is _PLAIN.get(column.type.kind)
