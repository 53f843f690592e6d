"""Columns of a query that nobody asks for. A database leaves them out, and with them the errors that they would end in.

A query in FROM without groups or limits becomes a part of the query around it, so that its columns are computed where they are
read; of one that is run on its own, PostgreSQL leaves out what is not read, and MariaDB nothing. EXISTS wants rows, not columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto

from isolde.semantics.concrete.sources import has_aggregate, parts
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Aggregate, Binary, BinaryOperation, Expression, Literal, Name, Unary, UnaryOperation
from isolde.tx.queries import Item, Join, Select, Source, Star


class Need(Enum):
    """When a column is computed. ``OPEN``: as the plan has it, so that an error in it is refused."""

    ALWAYS = auto()
    WHEN_READ = auto()
    NEVER = auto()
    OPEN = auto()


Needs = Callable[[str, Expression], Need]
"""By the name of a column and what it is."""
Asks = Callable[[str, str], bool]
"""Whether a query may read a column, by the name of its source and its own."""


def always(_: str, __: Expression) -> Need:
    return Need.ALWAYS


# What a query asks of its sources


def asks(select: Select, needs: Needs) -> Asks:
    """A name without a table may be of any source, and one in a query inside may be of this one: what may be read is read."""
    shown = [
        item
        for item in select.items
        if isinstance(item, Item) and needs(column_name(item), item.expression) is not Need.NEVER
    ]
    rest = (select.where, select.group_by, select.having, select.order_by, select.limit, select.offset)
    names = {
        (part.table, part.name)
        for part in parts((tuple(shown), rest, tuple(_conditions(select.source))))
        if isinstance(part, Name)
    }
    stars = {item.table for item in select.items if isinstance(item, Star)}

    def asked(source: str, column: str) -> bool:
        return not {(None, column), (source, column)}.isdisjoint(names) or not {None, source}.isdisjoint(stars)

    return asked


def column_name(item: Item) -> str:
    """A column without an alias has its own name."""
    match item.expression:
        case _ if item.alias:
            return item.alias
        case Name():
            return item.expression.name
        case Aggregate():
            return item.expression.aggregation.value
        case _:
            return "?column?"


def _conditions(source: Source | None) -> list[Expression | None]:
    if not isinstance(source, Join):
        return []
    return [*_conditions(source.left), *_conditions(source.right), source.on]


def needs_of(query: Select, alias: str, asked: Asks, dialect: Dialect, optional: bool, filtered: bool) -> Needs:
    """What the query around needs of a query in FROM. ``optional``: it is on the right side of a LEFT JOIN.

    ``filtered``: there are conditions, which a plan may test inside of the query, unless it is cut.
    """
    own = bool(query.group_by or query.distinct or query.having is not None) or any(
        has_aggregate(item.expression) for item in query.items if isinstance(item, Item)
    )
    merged = not own and not (query.limit or query.offset or query.order_by or query.lock)

    alone = Need.OPEN if filtered and not (query.limit or query.offset) else Need.ALWAYS

    def postgresql(name: str, expression: Expression) -> Need:
        if query.distinct:
            return alone
        if not asked(alias, name) and not _arranges(query, name, expression):
            return Need.NEVER
        if not merged:
            return alone
        # Where its nulls could not be told from those of a row that is missing, it is computed before the join.
        return Need.OPEN if optional and not _strict(expression) else Need.WHEN_READ

    def mysql(name: str, _: Expression) -> Need:
        if own or query.limit or query.offset or query.source is None:
            return alone
        return Need.WHEN_READ if asked(alias, name) else Need.NEVER

    def sqlite(name: str, expression: Expression) -> Need:
        if own:
            read = query.distinct or asked(alias, name) or _arranges(query, name, expression)
            return alone if read else Need.OPEN
        if optional or not merged or query.source is None:
            return Need.OPEN
        return Need.WHEN_READ if asked(alias, name) else Need.NEVER

    return {Dialect.POSTGRESQL: postgresql, Dialect.MYSQL: mysql, Dialect.SQLITE: sqlite}[dialect]


def _arranges(query: Select, name: str, expression: Expression) -> bool:
    """Whether rows are ordered or grouped by it."""
    by = [*(order.expression for order in query.order_by), *query.group_by]
    return any(
        one == expression or isinstance(one, Literal) or (isinstance(one, Name) and one.name == name) for one in by
    )


def _strict(expression: Expression) -> bool:
    """Whether it is null where one of its columns is, for sure."""
    plain = (Name, Literal, BinaryOperation, UnaryOperation)
    odd = (Binary.AND, Binary.OR, Binary.SAME)
    found = list(parts(expression))
    return any(isinstance(part, Name) for part in found) and all(
        not isinstance(part, Expression.__args__)
        or (isinstance(part, plain) and getattr(part, "operator", Unary.NEGATE) not in odd)
        for part in found
    )


# EXISTS


@dataclass(frozen=True, slots=True)
class Existence:
    """A query that is asked for rows: what is left of it, what it needs of its columns, and whether one row is enough."""

    select: Select
    needs: Needs
    stops: bool


def existence(select: Select, dialect: Dialect) -> Existence:
    shown = [item.expression for item in select.items if isinstance(item, Item)]
    counts = (
        any(map(has_aggregate, (*shown, *(order.expression for order in select.order_by)))) or select.having is not None
    )
    grouped = bool(select.group_by) or counts
    cut = select.offset is not None or not _lets_one_through(select.limit)
    bare = replace(select, group_by=(), order_by=(), distinct=False, limit=None)
    if dialect is Dialect.POSTGRESQL:
        if not (counts or cut or select.lock):
            return Existence(bare, _never, True)
        return Existence(select, _open if select.group_by or not grouped else always, False)
    counted = any(has_aggregate(order.expression) for order in select.order_by)
    unordered = select if counted and dialect is Dialect.MYSQL else replace(select, order_by=())
    if not (counts or cut) and (dialect is Dialect.MYSQL or not grouped):
        return Existence(bare, _never, True)
    if not grouped and not select.distinct:
        return Existence(unordered, _never, False)
    certain = dialect is Dialect.MYSQL and not select.group_by and not select.distinct
    return Existence(unordered, always if certain else _open, False)


def member_query(select: Select, dialect: Dialect) -> Select:
    """What is left of a query after IN: MariaDB groups no rows if nothing of the groups is asked."""
    shown = [item.expression for item in select.items if isinstance(item, Item)]
    orders = [order.expression for order in select.order_by]
    if dialect is not Dialect.MYSQL or select.having is not None or any(map(has_aggregate, (*shown, *orders))):
        return select
    return replace(select, group_by=(), order_by=(), distinct=False)


def _never(_: str, __: Expression) -> Need:
    return Need.NEVER


def _open(_: str, __: Expression) -> Need:
    return Need.OPEN


def _lets_one_through(limit: Expression | None) -> bool:
    return limit is None or (
        isinstance(limit, Literal) and (limit.value is None or (type(limit.value) is int and limit.value > 0))
    )
