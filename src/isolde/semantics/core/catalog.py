"""A schema as elaboration and tables need it: positions for names, unique keys, who refers to whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from isolde.errors import ExecutionError
from isolde.semantics.core.dialects import Rules, rules_of
from isolde.semantics.core.types import ValueType
from isolde.tx.dialects import Dialect
from isolde.tx.schema import Schema, Table

Key = Callable[[tuple[Any, ...]], Any]
"""The key of a row; ``None`` if a part of it is null."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key by positions."""

    child: int
    child_columns: tuple[int, ...]
    parent: int
    parent_columns: tuple[int, ...]
    child_key: Key
    parent_key: Key


@dataclass(frozen=True, slots=True, eq=False)
class TableInfo:
    """``uniques`` has the primary key first, if there is one. ``rowid``: the column that SQLite makes the row's number."""

    position: int
    table: Table
    columns: dict[str, int]
    types: tuple[ValueType, ...]
    nonnull: tuple[bool, ...]
    uniques: tuple[tuple[int, ...], ...]
    unique_keys: tuple[Key, ...]
    generated: int | None
    rowid: int | None
    scanned: dict[tuple[int, bool], Mapping[str, Any]] = field(default_factory=dict)
    """The nodes of its columns by their names, for a scan of this number that an outer join may leave without a row or not."""

    def column(self, name: str) -> int:
        position = self.columns.get(name)
        if position is None:
            raise ExecutionError("name", f"table {self.table.name} has no column {name}")
        return position


class Catalog:
    """The tables of a schema in one dialect."""

    def __init__(self, schema: Schema, dialect: Dialect) -> None:
        self.schema = schema
        self.dialect = dialect
        self.tables: list[TableInfo] = []
        self.by_name: dict[str, TableInfo] = {}
        rules = self.rules = rules_of(dialect)
        for position, table in enumerate(schema.tables.values()):
            info = self._table(position, table, rules)
            self.tables.append(info)
            self.by_name[table.name] = info
        self.checks: dict[tuple[int, tuple[int, ...]], Any] = {}
        """Compiled checks of rows, by table and places; whoever compiles them keeps them here."""
        self.references = [reference for info in self.tables for reference in self._references(info)]

    def table(self, name: str) -> TableInfo:
        info = self.by_name.get(name)
        if info is None:
            raise ExecutionError("name", f"there is no table {name}")
        return info

    def _table(self, position: int, table: Table, rules: Rules) -> TableInfo:
        columns = {column.name: place for place, column in enumerate(table.columns)}
        rowid = rules.row_number(table)
        nonnull = tuple(
            not column.nullable
            or place == rowid
            or (rules.keys_are_not_null and (column.name in table.primary_key or column.generated))
            for place, column in enumerate(table.columns)
        )
        keys = ((table.primary_key,) if table.primary_key else ()) + table.uniques
        uniques = tuple(dict.fromkeys(tuple(columns[name] for name in key) for key in keys))
        generated = next((place for place, column in enumerate(table.columns) if column.generated), None)
        return TableInfo(
            position=position,
            table=table,
            columns=columns,
            types=tuple(rules.column(column.type) for column in table.columns),
            nonnull=nonnull,
            uniques=uniques,
            unique_keys=tuple(self.key(table, unique) for unique in uniques),
            generated=generated if rowid is None else rowid,
            rowid=rowid,
        )

    def key(self, table: Table, positions: tuple[int, ...]) -> Key:
        """One column is its value, several are a tuple; each as the dialect compares it."""
        folds = tuple(self.rules.key_part(table.columns[place].type) for place in positions)
        if len(positions) == 1:
            place, fold = positions[0], folds[0]
            if fold is None:
                return itemgetter(place)
            return lambda row: None if row[place] is None else fold(row[place])
        if not any(folds):
            several = itemgetter(*positions)
            return lambda row: None if None in (key := several(row)) else key

        def key(row: tuple[Any, ...]) -> Any:
            parts = tuple(
                fold(row[place]) if fold is not None and row[place] is not None else row[place]
                for place, fold in zip(positions, folds, strict=True)
            )
            return None if None in parts else parts

        return key

    def _references(self, info: TableInfo) -> list[Reference]:
        found = []
        for foreign in info.table.foreign_keys:
            parent = self.table(foreign.table)
            child_columns = tuple(info.column(name) for name in foreign.columns)
            names = foreign.references or parent.table.primary_key
            parent_columns = tuple(parent.column(name) for name in names)
            found.append(
                Reference(
                    child=info.position,
                    child_columns=child_columns,
                    parent=parent.position,
                    parent_columns=parent_columns,
                    child_key=self.key(info.table, child_columns),
                    parent_key=self.key(parent.table, parent_columns),
                )
            )
        return found
