"""Where the order of rows decides, and nobody has given one.

A database takes the rows of a query as its plan finds them: an UPDATE moves a row to another place in PostgreSQL, an index gives
another order than the table. What comes out of any order is computed; what does not is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from isolde.errors import OutsideFragment
from isolde.semantics.concrete.rules import outside
from isolde.semantics.concrete.sources import conjuncts, parts
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import (
    Binary,
    BinaryOperation,
    Cast,
    Exists,
    Expression,
    InQuery,
    Is,
    Literal,
    Name,
    ScalarQuery,
    UnaryOperation,
)
from isolde.tx.queries import Item, Select, Star, TableSource
from isolde.tx.statements import Delete, InsertMode, Update

if TYPE_CHECKING:
    from isolde.semantics.concrete.catalog import Catalog
    from isolde.semantics.concrete.constraints import InsertPlan
    from isolde.semantics.concrete.tables import Row, TableData


# UPDATE and DELETE in SQLite


@dataclass(frozen=True, slots=True)
class Late:
    """The parts of a change whose queries show rows that it has changed before: conditions, and whether a new value is one."""

    conditions: tuple[Expression, ...] = ()
    values: bool = False


def late(change: Update | Delete, correlated: Callable[[Select], bool]) -> Late:
    """SQLite changes a row as soon as it is found, in the order of its plan. A query that depends on no row is asked once; if it
    is asked for the first row that is found, then it sees no change. A DELETE finds all rows first if a query depends on them.
    """
    values = () if isinstance(change, Delete) else tuple(assignment.value for assignment in change.assignments)
    changed = set() if isinstance(change, Delete) else {assignment.column for assignment in change.assignments}

    def sees(root: object) -> bool:
        for query, sure in _queries(root, sure=True):
            inside = list(parts(query))
            if not any(isinstance(part, TableSource) and part.table == change.table for part in inside):
                continue
            if isinstance(change, Delete):
                if not sure and not correlated(query):
                    return True
                continue
            names = {part.name for part in inside if isinstance(part, Name)}
            everything = any(isinstance(part, Star) for part in inside)
            if (everything or names & changed) and (not sure or correlated(query)):
                return True
        return False

    conditions = tuple(condition for condition in conjuncts(change.where) if sees(condition))
    return Late(conditions, any(map(sees, values)))


def _queries(node: object, sure: bool) -> Iterator[tuple[Select, bool]]:
    """The outermost queries, and whether each is asked for every row."""
    if isinstance(node, Select):
        yield node, sure
        return
    if isinstance(node, Exists):
        # It asks for no column of a row.
        yield replace(node.query, items=(Item(Literal(1)),)), sure
        return
    if isinstance(node, InQuery):
        # Of a plain column SQLite keeps no list: it looks into the table's own index, each time.
        yield node.query, sure and not _plain(node.query)
        yield from _queries(node.operand, sure)
        return
    if isinstance(node, BinaryOperation):
        sure = sure and node.operator not in (Binary.AND, Binary.OR)
    elif not isinstance(node, (UnaryOperation, Is, Cast, ScalarQuery)):
        sure = False
    if isinstance(node, tuple):
        for part in node:
            yield from _queries(part, sure)
    elif is_dataclass(node):
        for part in fields(node):
            yield from _queries(getattr(node, part.name), sure)


def _plain(query: Select) -> bool:
    return query.where is None and not query.group_by and not query.distinct and query.limit is None


def refuse_seen_changes(hits: list[Any], near: list[int]) -> None:
    """``near``: the rows that are changed if the conditions with queries hold for them."""
    if hits and max(len(hits), len(near)) > 1:
        raise outside(
            "a change of several rows in SQLite with a query over what it changes",
            "read first: the query may see the rows that were changed before, in the order of the plan",
        )


def refuse_open_draws(table: TableData, hits: list[Any]) -> None:
    """Rows of an UPDATE that get new ids get them in the order of the plan."""
    if len(hits) > 1:
        # Refused, not failed: no ids are used up.
        table.counter -= len(hits)
        raise outside(
            "an UPDATE that gives generated ids to several rows", "one statement a row: the order of rows decides"
        )


# LIMIT and OFFSET


def refuse_open_cut(rows: list[tuple[Any, Row]], offset: int | None, limit: int | None) -> None:
    """``rows`` with what they are ordered by: of different ones in the same place, a cut may keep any."""
    first = offset or 0
    for cut in (first, None if limit is None else first + limit):
        if cut is None or not 0 < cut < len(rows) or rows[cut - 1][0] != rows[cut][0]:
            continue
        there = rows[cut][0]
        if len({repr(row) for key, row in rows if key == there}) > 1:
            raise outside("a LIMIT or OFFSET that cuts rows in an open order", "order by a key, too")


# INSERT of what a query finds


def unordered(select: Select, catalog: Catalog) -> bool:
    """Whether ORDER BY may leave two different rows in an open order: it names neither all that is selected, nor all that is
    grouped by, nor a key of the one table that is read.
    """
    named = [order.expression for order in select.order_by]
    if select.group_by:
        return not set(select.group_by) <= set(named)
    # In MySQL different texts may be equal, and a plain name in a procedure may be a variable: neither orders anything.
    exact = catalog.dialect is not Dialect.MYSQL
    if exact and all(isinstance(item, Item) and _ordered(item.expression, named) for item in select.items):
        return False
    if not isinstance(select.source, TableSource):
        return True
    info = catalog.table(select.source.table)
    names = {name.name for name in named if isinstance(name, Name) and (exact or name.table is not None)}
    keys = [unique for unique in info.uniques if all(info.solid[place] for place in unique)]
    return not any(names >= {info.table.columns[place].name for place in key} for key in keys)


def _ordered(expression: Expression, named: list[Expression]) -> bool:
    return isinstance(expression, Literal) or expression in named


def order_matters(what: str) -> OutsideFragment:
    return outside(f"an INSERT … SELECT in which {what}", "order the query by a key: the order of its rows decides")


def refuse_open_ids(plan: InsertPlan, table: TableData, rows: list[Row], dialect: Dialect) -> None:
    """Ids are given in the order of rows."""
    place = table.info.generated
    if place is None:
        return
    if dialect is Dialect.POSTGRESQL:
        drawn = [not plan.supplied] * len(rows)
    else:
        drawn = [row[place] is None or (row[place] == 0 and dialect is Dialect.MYSQL) for row in rows]
    bare = {
        repr((*row[:place], None if own else row[place], *row[place + 1 :]))
        for row, own in zip(rows, drawn, strict=True)
    }
    if any(drawn) and len(bare) > 1:
        raise order_matters("different rows get generated ids")


def refuse_open_conflicts(
    plan: InsertPlan, table: TableData, rows: list[Row], dialect: Dialect, changed: Callable[[Row, Row], Row | None]
) -> None:
    """Of two different rows with one key the first is kept, or the last, or one changes what the other has put in.

    ``changed`` says what DO UPDATE makes of a row that is there, for one that was to be inserted.
    """
    if plan.rekeys:
        _refuse_shared_keys(plan, table, rows, changed)
        return
    places = tuple(range(len(table.unique))) if plan.mode is InsertMode.REPLACE else plan.target
    if plan.mode is not InsertMode.REPLACE and not plan.updating:
        rows = [row for row in rows if not table.conflicts(row, places)]
    for place in places:
        owners: dict[Any, list[Row]] = {}
        for row in rows:
            key = table.info.unique_keys[place](row)
            if key is not None:
                owners.setdefault(key, []).append(row)
        for key, group in owners.items():
            if len(set(map(repr, group))) == 1:
                continue
            if not plan.updating or _open(table.row_of(place, key), group, dialect, changed):
                raise order_matters("different rows have one key")


def _open(
    there: tuple[Row, ...], group: list[Row], dialect: Dialect, changed: Callable[[Row, Row], Row | None]
) -> bool:
    if dialect is not Dialect.POSTGRESQL:
        return not there or any(changed(there[0], row) is not None for row in group)
    # A row is changed once; the second time is an error, even where the second would leave the row alone.
    return bool(there) and sum(changed(there[0], row) is not None for row in group) == 1


def _refuse_shared_keys(
    plan: InsertPlan, table: TableData, rows: list[Row], changed: Callable[[Row, Row], Row | None]
) -> None:
    """Rows that have, give up and take no key of each other's do the same in any order."""
    owners: list[dict[Any, str]] = [{} for _ in table.unique]
    for row in rows:
        taken = table.conflicts(row, plan.target)
        there = table.rows[taken[0]] if taken else None
        for state in (row, there, None if there is None else changed(there, row)):
            for owner, key in zip(owners, table.info.unique_keys, strict=True):
                found = None if state is None else key(state)
                if found is not None and owner.setdefault(found, repr(row)) != repr(row):
                    raise order_matters("ON CONFLICT changes the key of a row and different rows have that key")
