"""Names that are a variable and a column: PostgreSQL calls them ambiguous when it comes to them, so they are refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any

from isolde.tx.expressions import Name
from isolde.tx.queries import Item, Join, QuerySource, Select, Source, Star, TableSource
from isolde.tx.schema import Schema
from isolde.tx.statements import Delete, Insert, Update


def ambiguous(node: Any, variables: frozenset[str], schema: Schema) -> Name | None:
    """The first name in ``node`` without a table that is one of the variables and a column where it stands."""
    return next(iter(_found(node, frozenset(), variables, schema)), None)


def _found(node: Any, columns: frozenset[str], variables: frozenset[str], schema: Schema) -> Iterable[Name]:
    def inside(part: Any, seen: frozenset[str]) -> Iterable[Name]:
        return _found(part, seen, variables, schema)

    match node:
        case Name():
            if node.table is None and node.name in variables and node.name in columns:
                yield node
        case Select():
            within = columns | (_columns(node.source, schema) if node.source is not None else frozenset())
            for field in fields(node):
                yield from inside(getattr(node, field.name), columns if field.name == "limit" else within)
        case Insert():
            # The values of new rows do not see the table's columns.
            yield from inside(node.source, columns)
            yield from inside((node.on_conflict, node.returning), columns | _of_table(node.table, schema))
        case Update() | Delete():
            within = columns | _of_table(node.table, schema)
            for field in fields(node):
                yield from inside(getattr(node, field.name), within)
        case tuple():
            for part in node:
                yield from inside(part, columns)
        case _ if is_dataclass(node) and not isinstance(node, type):
            for field in fields(node):
                yield from inside(getattr(node, field.name), columns)
        case _:
            return


def _of_table(name: str, schema: Schema) -> frozenset[str]:
    table = schema.tables.get(name)
    return frozenset(column.name for column in table.columns) if table is not None else frozenset()


def _columns(source: Source, schema: Schema) -> frozenset[str]:
    match source:
        case TableSource():
            return _of_table(source.table, schema)
        case Join():
            return _columns(source.left, schema) | _columns(source.right, schema)
        case QuerySource():
            return frozenset(name for item in source.query.items for name in _shown(item, source.query, schema))


def _shown(item: Item | Star, query: Select, schema: Schema) -> Iterable[str]:
    if isinstance(item, Star):
        return _columns(query.source, schema) if query.source is not None else ()
    if item.alias is not None:
        return (item.alias,)
    return (item.expression.name,) if isinstance(item.expression, Name) else ()
