"""Queries: select, from, where, group by, having, order by, limit, locks."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from isolde.tx.expressions import Expression
from isolde.tx.place import Place


class JoinKind(StrEnum):
    INNER = "inner"
    LEFT = "left"


class Lock(StrEnum):
    """What ``FOR …`` asks for: rows that nobody else may change, or lock, until this transaction ends.

    PostgreSQL alone has the two that leave what does not touch a key to others.
    """

    UPDATE = "update"
    NO_KEY_UPDATE = "no key update"
    SHARE = "share"
    KEY_SHARE = "key share"


class Patience(StrEnum):
    """What a locking query does about a row that somebody else has locked: wait, fail, or leave the row out."""

    WAIT = ""
    NOWAIT = "nowait"
    SKIP_LOCKED = "skip locked"


@dataclass(frozen=True, slots=True)
class TableSource:
    """A table; rows are known by ``alias``, or else by its name."""

    table: str
    alias: str | None = None
    place: Place | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        return self.alias or self.table


@dataclass(frozen=True, slots=True)
class QuerySource:
    """A query in place of a table."""

    query: Select
    alias: str
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Join:
    """``on`` is ``None`` for a product. A comma is an inner join without a condition."""

    kind: JoinKind
    left: Source
    right: Source
    on: Expression | None
    place: Place | None = field(default=None, compare=False)


Source = TableSource | QuerySource | Join


@dataclass(frozen=True, slots=True)
class Item:
    """A column of the result."""

    expression: Expression
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class Star:
    """All columns, or all of one table."""

    table: str | None = None
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Order:
    """``nulls_first`` is ``None`` where the dialect decides."""

    expression: Expression
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True, slots=True)
class Select:
    """One query. Without ``source`` it gives one row."""

    items: tuple[Item | Star, ...]
    source: Source | None = None
    where: Expression | None = None
    group_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    order_by: tuple[Order, ...] = ()
    limit: Expression | None = None
    offset: Expression | None = None
    distinct: bool = False
    lock: Lock | None = None
    patience: Patience = Patience.WAIT
    place: Place | None = field(default=None, compare=False)
