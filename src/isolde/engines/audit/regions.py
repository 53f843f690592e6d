"""Values that stand for all that an unknown first value may be, where statements add to it, overwrite, show and compare it.

Then whatever somebody reads of it is the unknown value plus some of what was added, or does not depend on it. So a statement can
only tell two values apart between which there is a number that is compared or shown, less some of what was added. One value
on each side of each such number, and these numbers themselves, stand for all; and NULL for itself. The same holds with several
unknown cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from isolde.engines.audit.answers import CONCURRENCY
from isolde.formats.tables import SqlHistory, Unknown
from isolde.history import Sql, Status
from isolde.tx.expressions import (
    Between,
    Binary,
    BinaryOperation,
    Expression,
    InList,
    Is,
    Literal,
    Name,
    Parameter,
    UnaryOperation,
)
from isolde.tx.queries import Item, Select, Star, TableSource
from isolde.tx.schema import Kind, Table
from isolde.tx.sql import statement as read_statement
from isolde.tx.statements import Delete, Insert, Statement, Update
from isolde.tx.walk import parts

SUMS_MAX = 64
"""Different sums of what was added."""
_COMPARISONS = frozenset(
    {Binary.EQUAL, Binary.NOT_EQUAL, Binary.LESS, Binary.LESS_EQUAL, Binary.GREATER, Binary.GREATER_EQUAL}
)
_JOINS = frozenset({Binary.AND, Binary.OR})
_INTEGERS = frozenset({Kind.INTEGER})


class _Beyond(Exception):
    """A statement does something else with an unknown value."""


@dataclass(slots=True)
class _Uses:
    """What is done with the unknown columns: numbers that are compared, assigned or shown, and what is added, with its sign."""

    numbers: set[int] = field(default_factory=set)
    steps: list[int] = field(default_factory=list)


def standing_for_all(history: SqlHistory, most: int) -> dict[str, list[int | None]] | None:
    """For each unknown the values that stand for all; ``None`` if there are none, or more than ``most`` together."""
    cells: dict[str, set[tuple[str, int]]] = {}
    for table, rows in history.rows.items():
        for row in rows:
            for place, cell in enumerate(row):
                if isinstance(cell, Unknown):
                    cells.setdefault(cell.name, set()).add((table, place))
    columns: dict[str, set[str]] = {}
    for table, place in {one for places in cells.values() for one in places}:
        columns.setdefault(table, set()).add(history.schema.tables[table].columns[place].name)
    try:
        for table, names in columns.items():
            _refuse_keys(history, history.schema.tables[table], names)
        uses = _uses(history, columns)
    except _Beyond:
        return None
    sums = {0}
    for step in uses.steps:
        sums |= {one + step for one in sums}
        if len(sums) > SUMS_MAX:
            return None
    exact = sorted({number - one for number in uses.numbers for one in sums} or {0}, key=abs)
    values = list(dict.fromkeys([*exact, *(one + side for one in exact for side in (-1, 1))]))
    found: dict[str, list[int | None]] = {}
    for name, places in cells.items():
        types = [history.schema.tables[table].columns[place] for table, place in places]
        bound = 2 ** (min(one.type.bits or 64 for one in types) - 1)
        found[name] = [value for value in values if -bound <= value < bound]
        if all(one.nullable for one in types):
            found[name].append(None)
    return found if prod(map(len, found.values())) <= most else None


def _refuse_keys(history: SqlHistory, table: Table, names: set[str]) -> None:
    """Unknown columns are integers of no key and no constraint."""
    kept = {*table.primary_key, *(name for unique in table.uniques for name in unique)}
    kept |= {name for foreign in table.foreign_keys for name in foreign.columns}
    kept |= {
        name
        for other in history.schema.tables.values()
        for f in other.foreign_keys
        if f.table == table.name
        for name in f.references
    }
    plain = all(one.type.kind in _INTEGERS and not one.type.unsigned for one in table.columns if one.name in names)
    if table.checks or kept & names or not plain:
        raise _Beyond


def _uses(history: SqlHistory, columns: Mapping[str, set[str]]) -> _Uses:
    uses = _Uses()
    texts: dict[str, Statement] = {}
    for transaction in history.transactions:
        for op in transaction.ops:
            text = op.content.get("sql") if isinstance(op, Sql) else None
            if not isinstance(op, Sql) or not isinstance(text, str):
                raise _Beyond
            if text not in texts:
                texts[text] = _read(text, history)
            judged = transaction.status is not Status.ABORTED
            if judged and op.content.get("error") not in (None, *CONCURRENCY):
                # It may be about a value that is out of range.
                raise _Beyond
            given = {f"p{place}": value for place, value in enumerate(op.content.get("params") or (), 1)}
            _Statement(columns, given, uses).use(texts[text])
            for row in op.content.get("rows") or ():
                uses.numbers |= {value for value in row if _is_integer(value)}
    return uses


def _read(text: str, history: SqlHistory) -> Statement:
    from isolde.errors import IsoldeError

    try:
        return read_statement(text, history.dialect, "log", strict=False)
    except IsoldeError:
        raise _Beyond from None


@dataclass(slots=True)
class _Statement:
    """One statement, with its parameters by name."""

    columns: Mapping[str, set[str]]
    given: Mapping[str, Any]
    uses: _Uses
    unknown: set[str] = field(default_factory=set)

    def use(self, node: Statement) -> None:
        touched = {part.table for part in parts(node) if isinstance(part, TableSource | Insert | Update | Delete)}
        if not touched & self.columns.keys():
            return
        if sum(isinstance(part, Select) for part in parts(node)) > isinstance(node, Select) or len(touched) > 1:
            raise _Beyond
        (table,) = touched
        self.unknown = {name.lower() for name in self.columns[table]}
        match node:
            case Select():
                self._select(node)
            case Update(assignments=assignments, where=where, returning=()):
                for one in assignments:
                    self._assigned(one.column, one.value)
                self._condition(where)
            case Delete(where=where, returning=()):
                self._condition(where)
            case Insert(source=tuple() as rows, on_conflict=None, returning=()):
                self._refuse(cell for row in rows for cell in row)
            case _:
                raise _Beyond

    def _select(self, node: Select) -> None:
        cut = (
            node.group_by
            or node.having is not None
            or node.distinct
            or node.limit is not None
            or node.offset is not None
        )
        if cut or not isinstance(node.source, TableSource):
            raise _Beyond
        for item in node.items:
            if isinstance(item, Star) or (isinstance(item, Item) and isinstance(item.expression, Name)):
                continue
            self._refuse([item])
        self._refuse(node.order_by)
        self._condition(node.where)

    def _refuse(self, nodes: Iterable[Any]) -> None:
        """Nothing unknown may be in these."""
        if any(self._mentions(node) for node in nodes):
            raise _Beyond

    def _mentions(self, node: Any) -> bool:
        return any(isinstance(part, Name) and part.name.lower() in self.unknown for part in parts(node))

    def _assigned(self, column: str, value: Any) -> None:
        if column.lower() not in self.unknown:
            self._refuse([value])
            return
        match value:
            case BinaryOperation(Binary.ADD, Name() as name, other) | BinaryOperation(
                Binary.ADD, other, Name() as name
            ):
                sign = 1
            case BinaryOperation(Binary.SUBTRACT, Name() as name, other):
                sign = -1
            case _:
                self.uses.numbers.add(self._number(value))
                return
        if name.name.lower() != column.lower():
            raise _Beyond
        self.uses.steps.append(sign * self._number(other))

    def _condition(self, node: Expression | None) -> None:
        if node is None or not self._mentions(node):
            return
        match node:
            case BinaryOperation(operator, left, right) if operator in _JOINS:
                self._condition(left)
                self._condition(right)
            case UnaryOperation(operand=operand) if not isinstance(operand, Name):
                self._condition(operand)
            case BinaryOperation(operator, Name(), other) | BinaryOperation(operator, other, Name()) if (
                operator in _COMPARISONS
            ):
                self.uses.numbers.add(self._number(other))
            case Between(Name(), low, high):
                self.uses.numbers |= {self._number(low), self._number(high)}
            case InList(Name(), items):
                self.uses.numbers |= set(map(self._number, items))
            case Is(Name()):
                pass
            case _:
                raise _Beyond

    def _number(self, node: Any) -> int:
        value = node.value if isinstance(node, Literal) else None
        if isinstance(node, Parameter):
            value = self.given.get(node.name)
        if isinstance(node, UnaryOperation) and isinstance(node.operand, Literal) and node.operator.name == "NEGATE":
            value = node.operand.value
            value = -value if isinstance(value, int) else value
        if not _is_integer(value):
            raise _Beyond
        assert isinstance(value, int)
        return value


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
