"""An application's SQL as the database wants it: its dialect, its marks, and private names for the tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from isolde.errors import OutsideFragment
from isolde.semantics.core.labels import labels
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import (
    Aggregate,
    Aggregation,
    Binary,
    BinaryOperation,
    Call,
    Expression,
    Function,
    Is,
    Literal,
    Name,
    Parameter,
    Truth,
)
from isolde.tx.queries import Item, Lock, Patience, Select, TableSource
from isolde.tx.render import rendered
from isolde.tx.rewrite import rewritten
from isolde.tx.schema import ForeignKey, Schema, Table
from isolde.tx.sql import statement
from isolde.tx.statements import Delete, Insert, InsertMode, Statement, Update
from isolde.tx.walk import parts

# What PostgreSQL keeps of a name.
_NAME_MAX = 63


@dataclass(frozen=True, slots=True)
class Finds:
    """The query for the primary keys of the rows that a statement means to change or lock; ``table`` as the application calls it.

    The query of an insert is empty: which rows it meets is known by their keys. ``keys`` are those that the statement names,
    ``partly`` the columns of the primary key that a condition names.
    """

    table: str
    text: str
    parameters: tuple[str, ...]
    keys: tuple[tuple[Parameter | Literal, ...], ...] | None = None
    partly: tuple[tuple[int, Parameter | Literal], ...] = ()

    def keys_of(self, given: Mapping[str, Any]) -> tuple[tuple[Any, ...], ...] | None:
        """The primary keys that the statement names, with these parameters."""
        if self.keys is None:
            return None
        return tuple(tuple(_value(part, given) for part in key) for key in self.keys)

    def partly_of(self, given: Mapping[str, Any]) -> tuple[tuple[int, Any], ...]:
        """The parts of primary keys that the statement names, with these parameters."""
        return tuple((place, _value(part, given)) for place, part in self.partly)


@dataclass(frozen=True, slots=True)
class Ready:
    """A statement that can be sent: its text, the parameters that it takes in order, the columns that come back.

    ``recorded`` is the JSON of the text as it stands in the history: the same statement with the application's own names.
    """

    text: str
    parameters: tuple[str, ...]
    columns: tuple[str, ...]
    recorded: bytes
    changes: bool
    finds: Finds | None = None


class Translator:
    """Translates each text once. ``prefix`` goes before every table's name, so that nobody's table is touched."""

    def __init__(self, schema: Schema, dialect: Dialect, prefix: str) -> None:
        self.schema, self.dialect, self.prefix = schema, dialect, prefix
        self._known: dict[tuple[str, Dialect], Ready] = {}

    def ready(self, sql: str, spoken: Dialect) -> Ready:
        """The statement, parsed in the dialect that the application speaks."""
        found = self._known.get((sql, spoken))
        if found is None:
            found = self._known[sql, spoken] = self._translated(statement(sql, spoken))
        return found

    def private_text(self, node: Statement) -> tuple[str, tuple[str, ...]]:
        """The text of a statement on the private tables, and its parameters."""
        node = self._renamed(node)
        if self.dialect is Dialect.POSTGRESQL:
            node = rewritten(node, _with_a_type)
        text, parameters = rendered(node, self.dialect)
        return text, tuple(parameters)

    def private_schema(self) -> Schema:
        return Schema.of(*(self._private_table(table) for table in self.schema.tables.values()))

    def _translated(self, node: Statement) -> Ready:
        text, parameters = self.private_text(node)
        original, _ = rendered(node, self.dialect)
        return Ready(
            text,
            parameters,
            labels(node, self.schema),
            json.dumps(original).encode(),
            not isinstance(node, Select),
            self._finds(node),
        )

    def _finds(self, node: Statement) -> Finds | None:
        """What a change or a locking query of one table finds; ``None`` if no plain query tells."""
        match node:
            case Insert(table=name, on_conflict=conflict) if conflict is None or conflict.assignments:
                return Finds(name, "", (), self._inserted(node))
            case Update(table=name, alias=alias, where=where) | Delete(table=name, alias=alias, where=where):
                source = TableSource(name, alias)
            case Select(source=TableSource() as source, lock=Lock(), limit=None, offset=None, patience=Patience.WAIT):
                where = node.where
            case _:
                return None
        table = self.schema.tables.get(source.table)
        if table is None or not table.primary_key or _asks_elsewhere(where):
            return None
        keys = tuple(Item(Name(column, source.name)) for column in table.primary_key)
        text, parameters = self.private_text(Select(keys, source, where))
        moves = isinstance(node, Update) and any(made.column in table.primary_key for made in node.assignments)
        named = {} if moves else _named(where)
        columns = table.primary_key
        partly = tuple((place, named[column]) for place, column in enumerate(columns) if column in named)
        whole = (tuple(part for _, part in partly),) if len(partly) == len(columns) else None
        return Finds(table.name, text, parameters, whole, partly)

    def _inserted(self, node: Insert) -> tuple[tuple[Parameter | Literal, ...], ...] | None:
        """The primary keys of the rows that an insert of values brings."""
        table = self.schema.tables.get(node.table)
        if table is None or not table.primary_key or isinstance(node.source, Select):
            return None
        columns = node.columns or tuple(column.name for column in table.columns)
        if node.mode is not InsertMode.PLAIN:
            return None
        keys = []
        for row in node.source:
            values = dict(zip(columns, row, strict=False))
            key = tuple(values.get(column) for column in table.primary_key)
            keys.append(tuple(part for part in key if isinstance(part, Parameter | Literal)))
        return tuple(keys) if all(len(key) == len(table.primary_key) for key in keys) else None

    def _renamed(self, node: Statement) -> Statement:
        def change(found: Any) -> Any:
            match found:
                case TableSource(table, alias):
                    return replace(found, table=self.prefix + table, alias=alias or table)
                case Insert() | Update() | Delete():
                    return replace(found, table=self.prefix + found.table)
                case _:
                    return found

        self._refuse_other_keys(node)
        return rewritten(_with_aliases(node), change)

    def _refuse_other_keys(self, node: Statement) -> None:
        """MySQL takes any key of the table for that of the upsert."""
        if self.dialect is not Dialect.MYSQL or not isinstance(node, Insert) or node.on_conflict is None:
            return
        table = self.schema.tables.get(node.table)
        keys = {table.primary_key, *table.uniques} - {()} if table is not None else set()
        if node.on_conflict.columns and any(set(key) != set(node.on_conflict.columns) for key in keys):
            raise OutsideFragment(
                str(node.place or "statement"),
                f"an upsert by one of several keys of {node.table} in MySQL",
                "MySQL takes any of them: look for the row first",
            )

    def _private_table(self, table: Table) -> Table:
        keys = tuple(ForeignKey(key.columns, self.prefix + key.table, key.references) for key in table.foreign_keys)
        # Names of indexes are those of all tables together, and 64 signs are not much: these are numbered.
        indexes = tuple(
            replace(index, name=f"{self.prefix}{table.name}_{number}"[:_NAME_MAX])
            for number, index in enumerate(table.indexes)
        )
        return replace(table, name=self.prefix + table.name, foreign_keys=keys, indexes=indexes)


def _asks_elsewhere(where: Expression | None) -> bool:
    """Whether a condition holds a query: what that shows is not looked at again with the row."""
    return where is not None and any(isinstance(found, Select) for found in parts(where))


def _value(part: Parameter | Literal, given: Mapping[str, Any]) -> Any:
    return given[part.name] if isinstance(part, Parameter) else part.value


def _named(where: Expression | None) -> dict[str, Parameter | Literal]:
    """The columns of which a condition says what they equal."""
    equal: dict[str, Parameter | Literal] = {}
    left = [] if where is None else [where]
    while left:
        match left.pop():
            case BinaryOperation(Binary.AND, first, second):
                left += [first, second]
            case BinaryOperation(Binary.EQUAL, Name(column), Parameter() | Literal() as value) | BinaryOperation(
                Binary.EQUAL, Parameter() | Literal() as value, Name(column)
            ):
                equal[column] = value
            case _:
                pass
    return equal


def _with_a_type(found: Any) -> Any:
    """PostgreSQL cannot tell what a text or null is that is given where all types are taken; in a COALESCE it is a text."""
    match found:
        case Is(Parameter(), Truth.NULL):
            return replace(found, operand=_coalesced(found.operand))
        case Aggregate(Aggregation.COUNT, Parameter()):
            return replace(found, operand=_coalesced(found.operand))
        case Call(Function.CONCAT, arguments):
            return replace(found, arguments=tuple(map(_coalesced, arguments)))
        case _:
            return found


def _coalesced(operand: Any) -> Any:
    return Call(Function.COALESCE, (operand, Literal(None))) if isinstance(operand, Parameter) else operand


def _with_aliases(node: Statement) -> Statement:
    """Columns are qualified by a table's own name: an update or delete of a renamed table keeps it as an alias."""

    def change(found: Any) -> Any:
        if isinstance(found, Update | Delete) and found.alias is None and _qualifies(found, found.table):
            return replace(found, alias=found.table)
        return found

    return rewritten(node, change)


def _qualifies(node: Statement, table: str) -> bool:
    seen: list[Name] = []

    def look(found: Any) -> Any:
        if isinstance(found, Name) and found.table == table:
            seen.append(found)
        return found

    rewritten(node, look)
    return bool(seen)
