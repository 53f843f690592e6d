"""What the columns of a result are called: the same in every dialect and for every caller.

So ``tx.one("SELECT COUNT(*) FROM t").count`` is there on the store and on all databases, whatever name a database itself gives.
"""

from __future__ import annotations

from isolde.errors import MalformedProgram
from isolde.tx.expressions import Aggregate, Name
from isolde.tx.queries import Item, Join, QuerySource, Select, Source, Star, TableSource
from isolde.tx.schema import Schema
from isolde.tx.statements import Statement


def label(item: Item) -> str:
    """A column is called by its alias, as the column that it is, or as its aggregate; else it has no name."""
    match item.expression:
        case _ if item.alias:
            return item.alias
        case Name():
            return item.expression.name
        case Aggregate():
            return item.expression.aggregation.value
        case _:
            return "?column?"


def labels(node: Statement, schema: Schema) -> tuple[str, ...]:
    """What the columns are called that a statement gives."""
    items, source = (node.items, node.source) if isinstance(node, Select) else (node.returning, TableSource(node.table))
    return tuple(
        name for item in items for name in ([label(item)] if isinstance(item, Item) else _star(item, source, schema))
    )


def _star(star: Star, source: Source | None, schema: Schema) -> list[str]:
    match source:
        case None:
            return []
        case Join(_, left, right, _):
            return [*_star(star, left, schema), *_star(star, right, schema)]
        case QuerySource():
            return list(labels(source.query, schema)) if star.table in (None, source.alias) else []
        case TableSource():
            if star.table not in (None, source.name):
                return []
            table = schema.tables.get(source.table)
            if table is None:
                tables = ", ".join(schema.tables)
                raise MalformedProgram(
                    str(source.place or "statement"), f"the table {source.table}", f"one of {tables}"
                )
            return [column.name for column in table.columns]
