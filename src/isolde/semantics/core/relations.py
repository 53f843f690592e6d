"""The typed core: queries and changes of tables. Conditions are lists of conjuncts, stars are columns, aliases are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from isolde.semantics.core.catalog import TableInfo
from isolde.semantics.core.immutable import node
from isolde.semantics.core.nodes import Column, Expression
from isolde.semantics.core.types import ValueType
from isolde.tx.queries import Lock, Patience
from isolde.tx.statements import InsertMode


@node(frozen=True, slots=True)
class Scan:
    """The rows of a table; expressions name the row by ``id``."""

    id: int
    table: TableInfo


@node(frozen=True, slots=True)
class Derived:
    """The rows of a query in FROM."""

    id: int
    query: Query


@node(frozen=True, slots=True)
class Join:
    """``outer``: a row of the left side without a match goes on with nulls (LEFT JOIN)."""

    outer: bool
    left: Source
    right: Source
    on: tuple[Expression, ...]


Source = Scan | Derived | Join


@node(frozen=True, slots=True)
class Aggregate:
    """``function`` of the operand's values that are not null; without an operand, of the rows (``COUNT(*)``).

    ``distinct``: only the first value of each such key counts; the value is bound to ``slot`` in it.
    ``equals_differ``: values with equal keys may differ, as 1 and 1.0, which is refused where it shows.
    """

    function: Callable[[list[Any]], Any]
    operand: Expression | None
    slot: int = 0
    distinct: Expression | None = None
    equals_differ: bool = False


@node(frozen=True, slots=True)
class Grouping:
    """Rows with equal keys are a group; names then mean the group's first row. ``whole``: all rows are one group, even none.

    ``open``: those of the keys that may differ where they are equal, as 1 and 1.0, and that are shown.
    """

    keys: tuple[Expression, ...]
    aggregates: tuple[Aggregate, ...]
    having: tuple[Expression, ...]
    whole: bool
    open: tuple[Expression, ...] = ()


@node(frozen=True, slots=True)
class Output:
    """A column of the result."""

    name: str
    value: Expression
    type: ValueType


@node(frozen=True, slots=True)
class Distinct:
    """One row for each value of the keys. ``open``: those columns that may differ where they are equal."""

    keys: tuple[Expression, ...]
    open: tuple[Expression, ...] = ()


@node(frozen=True, slots=True)
class OrderKey:
    key: Expression
    descending: bool
    nulls_first: bool


@node(frozen=True, slots=True)
class Query:
    """One query. ``reads_rows`` are the sources around it whose rows it uses, ``reads_variables`` the variables."""

    outputs: tuple[Output, ...]
    source: Source | None
    where: tuple[Expression, ...]
    grouping: Grouping | None
    distinct: Distinct | None
    order: tuple[OrderKey, ...]
    limit: Expression | None
    offset: Expression | None
    lock: Lock | None
    reads_rows: tuple[int, ...]
    reads_variables: tuple[int, ...]
    patience: Patience = Patience.WAIT

    @property
    def correlated(self) -> bool:
        return bool(self.reads_rows)


@node(frozen=True, slots=True)
class Set:
    """One assignment of a change. ``slot``: where assignments see each other, those after it see its value there."""

    place: int
    value: Expression
    slot: int | None = None


@node(frozen=True, slots=True)
class RowChecks:
    """What must hold of a new row of the table, whose row is ``source``: columns that are not null, and conditions."""

    source: int
    nonnull: tuple[tuple[int, str], ...]
    checks: tuple[tuple[Expression, str], ...]


@node(frozen=True, slots=True)
class Update:
    """Queries in it see the table as it was before the statement."""

    scan: Scan
    where: tuple[Expression, ...]
    sets: tuple[Set, ...]
    returning: tuple[Output, ...]
    reads_variables: tuple[int, ...]


@node(frozen=True, slots=True)
class Delete:
    scan: Scan
    where: tuple[Expression, ...]
    returning: tuple[Output, ...]
    reads_variables: tuple[int, ...]


@node(frozen=True, slots=True)
class OnConflict:
    """``old`` is the row that is there, ``new`` the one that was to be inserted. Without ``sets`` the row is left out."""

    target: tuple[int, ...]
    old: int
    new: int
    sets: tuple[Set, ...]
    where: tuple[Expression, ...]
    rereads: bool


@node(frozen=True, slots=True)
class Batch:
    """Rows of VALUES that are given: the variable ``slot`` holds, for each, the place of its template among ``Insert.rows``
    and the values of the template's variables, whose numbers are ``templates``.
    """

    slot: int
    templates: tuple[tuple[int, ...], ...]


@node(frozen=True, slots=True)
class Insert:
    """``rows`` are given value by value, in the order of the table's columns, or come from a ``query`` through ``source``.

    ``supplied``: whether the statement names the generated column. ``ordered``: the rows of the query come in an order that a
    database must keep. ``queries``: there are queries among the values.
    """

    table: TableInfo
    rows: tuple[tuple[Expression, ...], ...]
    query: Query | None
    source: int
    mode: InsertMode
    conflict: OnConflict | None
    scan: Scan
    returning: tuple[Output, ...]
    supplied: bool
    ordered: bool
    queries: bool
    reads_variables: tuple[int, ...]
    batch: Batch | None = None


Change = Insert | Update | Delete
Statement = Query | Insert | Update | Delete


def scans(source: Source | None) -> Iterator[Scan | Derived]:
    """The leaves of a FROM clause, from left to right."""
    if isinstance(source, Join):
        yield from scans(source.left)
        yield from scans(source.right)
    elif source is not None:
        yield source


def width(source: Scan | Derived) -> int:
    return len(source.table.types) if isinstance(source, Scan) else len(source.query.outputs)


def query_parts(query: Query) -> Iterator[Expression]:
    """The expressions of a query itself; those of queries inside are theirs."""
    yield from _joined(query.source)
    yield from query.where
    if query.grouping is not None:
        yield from query.grouping.keys
        for aggregate in query.grouping.aggregates:
            if aggregate.operand is not None:
                yield aggregate.operand
        yield from query.grouping.having
    yield from (output.value for output in query.outputs)
    yield from (order.key for order in query.order)
    yield from (part for part in (query.limit, query.offset) if part is not None)


def _joined(source: Source | None) -> Iterator[Expression]:
    if isinstance(source, Join):
        yield from _joined(source.left)
        yield from _joined(source.right)
        yield from source.on


def table_column(scan: Scan, place: int, nonnull: bool | None = None) -> Column:
    info = scan.table
    solid = info.nonnull[place] if nonnull is None else nonnull
    return Column(scan.id, place, info.types[place], solid, True, info.table.columns[place].name)
