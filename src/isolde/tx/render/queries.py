"""Queries as text."""

from __future__ import annotations

from typing import assert_never

from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Expression, Literal
from isolde.tx.queries import (
    Item,
    Join,
    JoinKind,
    Lock,
    Order,
    Patience,
    QuerySource,
    Select,
    Source,
    Star,
    TableSource,
)
from isolde.tx.render.expressions import Writer

# MySQL has no OFFSET without LIMIT; its manual gives this number.
_ALL_ROWS = {Dialect.MYSQL: "18446744073709551615", Dialect.SQLITE: "-1"}


def write_select(query: Select, writer: Writer) -> str:
    parts = ["SELECT DISTINCT" if query.distinct else "SELECT", write_items(query.items, writer)]
    if query.source is not None:
        parts += ["FROM", _source(query.source, writer)]
    if query.where is not None:
        parts += ["WHERE", writer.expression(query.where)]
    if query.group_by:
        parts += ["GROUP BY", ", ".join(_chosen(one, writer) for one in query.group_by)]
    if query.having is not None:
        parts += ["HAVING", writer.expression(query.having)]
    if query.order_by:
        parts += ["ORDER BY", ", ".join(_order(one, writer) for one in query.order_by)]
    parts += _limits(query, writer)
    if query.lock is not None and writer.dialect is not Dialect.SQLITE:
        # MariaDB has no FOR SHARE; MySQL still has the older words.
        mysql = writer.dialect is Dialect.MYSQL
        if mysql and query.lock in {Lock.NO_KEY_UPDATE, Lock.KEY_SHARE}:
            raise writer.refuse(query, f"FOR {query.lock.upper()}", "use FOR UPDATE or LOCK IN SHARE MODE")
        old = query.lock is Lock.SHARE and mysql
        parts.append("LOCK IN SHARE MODE" if old else f"FOR {query.lock.upper()}")
        if query.patience is not Patience.WAIT:
            parts.append(query.patience.upper())
    return " ".join(parts)


def write_items(items: tuple[Item | Star, ...], writer: Writer) -> str:
    texts: list[str] = []
    for item in items:
        if isinstance(item, Star):
            if texts and item.table is None and writer.dialect is Dialect.MYSQL:
                raise writer.refuse(item, "'*' after a column", "put it first, or name the table")
            texts.append(f"{writer.name(item.table)}.*" if item.table is not None else "*")
        else:
            alias = f" AS {writer.name(item.alias)}" if item.alias is not None else ""
            texts.append(writer.expression(item.expression) + alias)
    return ", ".join(texts)


def _source(source: Source, writer: Writer) -> str:
    match source:
        case TableSource(table, alias):
            return writer.name(table) + (f" AS {writer.name(alias)}" if alias is not None else "")
        case QuerySource(query, alias):
            return f"{writer.query(query)} AS {writer.name(alias)}"
        case Join(kind, left, right, on):
            joined = f"({_source(right, writer)})" if isinstance(right, Join) else _source(right, writer)
            if on is None and kind is JoinKind.INNER:
                return f"{_source(left, writer)} CROSS JOIN {joined}"
            word = "JOIN" if kind is JoinKind.INNER else "LEFT JOIN"
            first = _source(left, writer)
            return f"{first} {word} {joined} ON {writer.expression(on) if on is not None else 'TRUE'}"
        case _:
            assert_never(source)


def _chosen(expression: Expression, writer: Writer) -> str:
    """An expression of ORDER BY or GROUP BY, where a plain number would be a position."""
    if isinstance(expression, Literal) and isinstance(expression.value, int):
        raise writer.refuse(expression, "a constant to order or group by", "leave it out")
    return writer.expression(expression)


def _order(order: Order, writer: Writer) -> str:
    text = _chosen(order.expression, writer) + (" DESC" if order.descending else "")
    if order.nulls_first is None:
        return text
    if writer.dialect is Dialect.MYSQL:
        # Nulls are smallest in MySQL; whether one is null comes before what it is.
        asked = writer.within(order.expression, 6)
        return f"{asked} IS NULL{' DESC' if order.nulls_first else ''}, {text}"
    return f"{text} NULLS {'FIRST' if order.nulls_first else 'LAST'}"


def _limits(query: Select, writer: Writer) -> list[str]:
    parts = []
    if query.limit is not None:
        parts.append(f"LIMIT {writer.expression(query.limit)}")
    elif query.offset is not None and writer.dialect in _ALL_ROWS:
        parts.append(f"LIMIT {_ALL_ROWS[writer.dialect]}")
    if query.offset is not None:
        parts.append(f"OFFSET {writer.expression(query.offset)}")
    return parts
