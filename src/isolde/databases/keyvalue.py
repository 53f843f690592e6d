"""Registers and lists in tables: what every SQL adapter shares.

An adapter says how one statement is run (``_fetch``, ``_change``) and how transactions begin and end; the texts
and what they mean together are here, once. The plain table has a key ``k`` and a value ``v``; ``shapes.py`` says what else
there may be.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from isolde.databases.contract import Ability, Feature, Kind, Swap, Table, answer, list_answer
from isolde.databases.shapes import Places, Shape, WriteForm
from isolde.errors import StatementFailed

PARAMETERS_MAX = 12
"""How many parameters a statement of these tables may have."""
# With updates of the primary key, a row's new one is this and the value that is written, which nobody else writes.
_FRESH_KEY = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs between SQL databases in the statements of the table."""

    marks: tuple[str, ...] = ("?",) * PARAMETERS_MAX
    """The placeholders of the first parameters."""
    concatenation: str = "{0} || {1}"
    text: str = "TEXT"
    options: str = ""
    """What follows the closing parenthesis of ``CREATE TABLE``."""
    upsert: str = "ON CONFLICT (k) DO UPDATE SET {0}"
    """How an INSERT becomes an update of what is there; empty if that is not known."""
    inserted: str = "excluded.{0}"
    """The value that such an INSERT would have put there."""
    lists: tuple[str, str, str] = ("TEXT", "{0}", "{0}")
    """A type for a list of integers, the list of one of them, and its first element; text where there are no lists."""
    cascade: str = " ON DELETE CASCADE"
    """Has rows go with the one that they refer to; without it, a row that others refer to cannot be deleted."""
    indexed_text: str = "{0}"
    """A column of text as an index names it."""


@dataclass(frozen=True, slots=True)
class Statements:
    """The texts for one value column of a table.

    The row's key ``k`` is the last parameter, but for ``insert``, where it comes before the value, and ``swap``, where the
    expected value follows it. Before all others comes the new primary key where writes change it (``Shape.key_updates``).
    """

    read: str
    update: str
    insert: str
    delete: str
    append: str
    swap: str
    upsert: str
    fill: str
    """Sets a column that is NULL: what an insert is where a row has several columns."""
    refer: str
    """Adds a row that refers to this one, by a number and the key."""


@dataclass(frozen=True, slots=True)
class TableTexts:
    """One table: the texts that make and remove it, its columns, and SQL for the values of its first rows in terms of ``k``."""

    name: str
    creates: tuple[str, ...]
    drops: tuple[str, ...]
    columns: tuple[str, ...]
    first: tuple[str, ...]
    rows: int

    def insert(self, dialect: Dialect) -> str:
        """An INSERT of one first row; its parameters are those of ``numbers``."""
        marks = list(dialect.marks)
        values = [marks.pop(0) if value == "k" else value for value in self.first]
        return f"INSERT INTO {self.name} ({', '.join(self.columns)}) VALUES ({', '.join(values)})"

    def numbers(self) -> Iterator[tuple[int, ...]]:
        """The parameters of that INSERT, row by row."""
        times = self.first.count("k")
        return ((row,) * times for row in range(self.rows))


def tables(table: Table, dialect: Dialect) -> list[TableTexts]:
    """The tables that a private place is made of."""
    places = Places(table.shapes)
    return [
        _table(name, shape, table.kind, dialect, places.rows(number, table.keys))
        for number, (name, shape) in enumerate(zip(table_names(table), table.shapes, strict=True))
    ]


def table_names(table: Table) -> list[str]:
    """What these tables are called, without those that refer to them."""
    if len(table.shapes) == 1:
        return [table.name]
    return [f"{table.name}_{number}" for number in range(len(table.shapes))]


def tables_to_drop(table: Table) -> list[str]:
    """The tables of a private place in the order in which they can be dropped: what refers to another one first."""
    named = zip(table_names(table), table.shapes, strict=True)
    return [name for one, shape in named for name in ([f"{one}_c", one] if shape.foreign_key else [one])]


def _value_columns(shape: Shape) -> list[str]:
    return ["v"] if shape.columns == 1 else [f"v{number}" for number in range(shape.columns)]


def _table(name: str, shape: Shape, kind: Kind, dialect: Dialect, rows: int) -> TableTexts:
    values = _value_columns(shape)
    of_text = kind is Kind.LISTS or (shape.list_column and dialect.lists[0] == dialect.text)
    type_, first = ("BIGINT", "0") if kind is Kind.REGISTERS else (dialect.text, "''")
    if shape.list_column and kind is Kind.REGISTERS:
        type_ = dialect.lists[0]
        first = "'0'" if of_text else dialect.lists[1].format("0")
    keys = "k INTEGER NOT NULL PRIMARY KEY"
    if shape.key_updates:
        keys = "id BIGINT NOT NULL PRIMARY KEY, k INTEGER NOT NULL UNIQUE"
    # A column among several holds NULL where its key is absent; alone, its row is missing then.
    constraint = " NOT NULL" if shape.columns == 1 else ""
    creates = [
        f"CREATE TABLE {name} ({keys}, {', '.join(f'{v} {type_}{constraint}' for v in values)}){dialect.options}"
    ]
    for number, value in enumerate(values):
        indexed = dialect.indexed_text.format(value) if of_text else value
        if shape.index:
            creates.append(f"CREATE INDEX {name}_i{number} ON {name} ({indexed})")
        if shape.unique:
            creates.append(f"CREATE UNIQUE INDEX {name}_u{number} ON {name} (k, {indexed})")
    drops = [f"DROP TABLE {name}"]
    if shape.foreign_key:
        creates.append(
            f"CREATE TABLE {name}_c (c BIGINT NOT NULL PRIMARY KEY, k INTEGER NOT NULL, "
            f"FOREIGN KEY (k) REFERENCES {name} (k){dialect.cascade}){dialect.options}"
        )
        drops.insert(0, f"DROP TABLE {name}_c")
    own = ("id", "k") if shape.key_updates else ("k",)
    return TableTexts(
        name, tuple(creates), tuple(drops), (*own, *values), ("k",) * len(own) + (first,) * len(values), rows
    )


def statements(name: str, shape: Shape, kind: Kind, dialect: Dialect, column: int = 0) -> Statements:
    """The statements of one value column of a table in a dialect."""
    first, second, third, fourth, *_ = dialect.marks
    v = _value_columns(shape)[column]
    one, shown = "{0}", v
    if shape.list_column and kind is Kind.REGISTERS:
        one, shown = dialect.lists[1], dialect.lists[2].format(v)
    anew = ""
    own, news = ["k"], list[str]()
    if shape.key_updates:
        anew, own, news = f"id = {first}, ", ["id", "k"], [first]
        first, second, third = second, third, fourth
    value = one.format(first)
    longer = dialect.concatenation.format(v, first)
    others = [name for name in _value_columns(shape) if name != v]
    empty = "''" if kind is Kind.LISTS else "NULL"
    columns = ", ".join((*own, v, *(others if kind is Kind.LISTS else ())))
    given = ", ".join((*news, first, one.format(second), *([empty] * len(others) if kind is Kind.LISTS else ())))
    insert = f"INSERT INTO {name} ({columns}) VALUES ({given})"
    inserted = dialect.inserted.format(v)
    kept = f"{v} = {inserted if kind is Kind.REGISTERS else dialect.concatenation.format(f'{name}.{v}', inserted)}"
    if shape.key_updates:
        kept = f"id = {dialect.inserted.format('id')}, {kept}"
    delete = f"DELETE FROM {name} WHERE k = {dialect.marks[0]}"
    if shape.columns > 1:
        delete = f"UPDATE {name} SET {v} = NULL WHERE k = {dialect.marks[0]} AND {v} IS NOT NULL"
    return Statements(
        read=f"SELECT {shown} FROM {name} WHERE k = {dialect.marks[0]}",
        update=f"UPDATE {name} SET {anew}{v} = {value} WHERE k = {second}",
        insert=insert,
        delete=delete,
        append=f"UPDATE {name} SET {anew}{v} = {longer} WHERE k = {second}",
        swap=f"UPDATE {name} SET {anew}{v} = {value} WHERE k = {second} AND {v} = {one.format(third)}",
        upsert=f"{insert} {dialect.upsert.format(kept)}" if dialect.upsert else "",
        fill=f"UPDATE {name} SET {anew}{v} = {value} WHERE k = {second} AND {v} IS NULL",
        refer=f"INSERT INTO {name}_c (c, k) VALUES ({dialect.marks[0]}, {dialect.marks[1]})",
    )


def abilities(
    *,
    transactions: str,
    compare_and_set: str = "UPDATE … WHERE v = expected; a failed one does not show the value",
    lists: str = "text, appended to by ||",
    deletes: str = "DELETE and INSERT of rows",
    sql: str,
    order: str = "",
    no_order: str = "keeps no log of commits that a client can read",
) -> tuple[Ability, ...]:
    """What can be done with such a table, and how; ``order`` says how the order of commits is told, ``no_order`` why not."""
    return (
        Ability(Feature.TRANSACTIONS, True, transactions),
        Ability(Feature.COMPARE_AND_SET, True, compare_and_set),
        Ability(Feature.LISTS, True, lists),
        Ability(Feature.DELETES, True, deletes),
        Ability(Feature.SQL, True, sql),
        Ability(Feature.PREDICATES, True, "any WHERE"),
        Ability(Feature.ORDER, bool(order), order or no_order),
    )


class Column:
    """One column of one table: its texts, and how values are sent to it."""

    __slots__ = ("as_text", "shape", "texts")

    def __init__(self, texts: Statements, shape: Shape, *, as_text: bool) -> None:
        self.texts, self.shape, self.as_text = texts, shape, as_text

    def new(self, value: int) -> tuple[int | str, ...]:
        """The parameters for a value: before it, a new primary key where writes change that."""
        sent = str(value) if self.as_text else value
        return (_FRESH_KEY + value, sent) if self.shape.key_updates else (sent,)

    def longer(self, element: int) -> tuple[int | str, ...]:
        return (_FRESH_KEY + element, f",{element}") if self.shape.key_updates else (f",{element}",)

    def inserted(self, row: int, new: tuple[int | str, ...]) -> tuple[int | str, ...]:
        """The parameters of an INSERT: the row's key comes before the value."""
        return (*new[:-1], row, new[-1])


class KeyValueConnection(ABC):
    """The operations on keys, by the statements of the tables."""

    def __init__(self, table: Table, dialect: Dialect) -> None:
        self._lists = table.kind is Kind.LISTS
        self._table, self._dialect = table, dialect
        self._places = Places(table.shapes)
        self._names = table_names(table)
        self._columns: dict[tuple[int, int], Column] = {}
        # Read by adapters that know the plain table alone: those that listen, and PEP 249's first questions.
        self._texts = self._column(0, 0).texts

    @abstractmethod
    def _fetch(self, text: str, parameters: tuple[Any, ...]) -> object:
        """The first column of the first row, as the driver returns it; ``None`` if there is no row."""

    @abstractmethod
    def _change(self, text: str, parameters: tuple[Any, ...]) -> int:
        """How many rows a statement found."""

    def _column(self, table: int, column: int) -> Column:
        found = self._columns.get((table, column))
        if found is None:
            found = self._columns[table, column] = self._new_column(table, column)
        return found

    def _new_column(self, table: int, column: int) -> Column:
        shape = self._table.shapes[table]
        texts = statements(self._names[table], shape, self._table.kind, self._dialect, column)
        as_text = shape.list_column and self._dialect.lists[0] == self._dialect.text and not self._lists
        return Column(texts, shape, as_text=as_text)

    def _placed(self, key: int) -> tuple[Column, int]:
        """The column of a key, and its row."""
        table, row, column = self._places.of(key)
        return self._column(table, column), row

    def read(self, key: int) -> bytes:
        column, row = self._placed(key)
        value = self._fetch(column.texts.read, (row,))
        return list_answer(value) if self._lists else answer(value)

    def write(self, key: int, value: int) -> None:
        column, row = self._placed(key)
        new, form = column.new(value), column.shape.writes
        if form is WriteForm.UPSERT:
            self._upsert(column, column.inserted(row, new))
        elif form is WriteForm.DELETE_INSERT:
            self._change(column.texts.delete, (row,))
            self._change(column.texts.insert, column.inserted(row, new))
        # The row may have gone since it was read, or never have been there: then an update finds nothing, and to
        # record a write all the same would be a lie.
        elif not self._change(column.texts.update, (*new, row)):
            self._change(column.texts.insert, column.inserted(row, new))
        self._refer(column, row, value)

    def write_row(self, values: Mapping[int, int]) -> None:
        """Sets several keys that share a row by one statement."""
        keys = list(values)
        column, row = self._placed(keys[0])
        places = [self._places.of(key) for key in keys]
        text = _several(self._names[places[0].table], column.shape, self._dialect, tuple(p.column for p in places))
        new = [
            self._column(place.table, place.column).new(values[key])[-1]
            for key, place in zip(keys, places, strict=True)
        ]
        if not self._change(text, (*column.new(values[keys[0]])[:-1], *new, row)):
            for key, value in values.items():
                self.write(key, value)
            return
        self._refer(column, row, values[keys[0]])

    def _upsert(self, column: Column, parameters: tuple[int | str, ...]) -> None:
        if not column.texts.upsert:
            raise StatementFailed("an upsert", "how this database spells it is not known here; leave --write-form out")
        self._change(column.texts.upsert, parameters)

    def _refer(self, column: Column, row: int, value: int) -> None:
        """Has another row refer to the one that was written, every second time."""
        if column.shape.foreign_key and value % 2:
            self._change(column.texts.refer, (value, row))

    def insert(self, key: int, value: int) -> None:
        column, row = self._placed(key)
        new = column.new(value)
        if column.shape.columns > 1 and self._change(column.texts.fill, (*new, row)):
            return
        self._change(column.texts.insert, column.inserted(row, new))

    def delete(self, key: int) -> bool:
        column, row = self._placed(key)
        return self._change(column.texts.delete, (row,)) > 0

    def append(self, key: int, element: int) -> None:
        column, row = self._placed(key)
        longer = column.longer(element)
        if column.shape.writes is WriteForm.UPSERT:
            self._upsert(column, column.inserted(row, longer))
        elif not self._change(column.texts.append, (*longer, row)):
            self._change(column.texts.insert, column.inserted(row, longer))
        self._refer(column, row, element)

    def compare_and_set(self, key: int, expected: int | None, new: int) -> Swap:
        if expected is None:
            return self._insert_if_absent(key, new)
        column, row = self._placed(key)
        compared = column.new(expected)[-1]
        return Swap(self._change(column.texts.swap, (*column.new(new), row, compared)) > 0)

    def _insert_if_absent(self, key: int, new: int) -> Swap:
        # Whoever inserts it between the two statements makes the second one fail, and the transaction with it.
        current = self.read(key)
        if current != b"null":
            return Swap(applied=False, current=current)
        self.insert(key, new)
        return Swap(applied=True)


@cache
def _several(name: str, shape: Shape, dialect: Dialect, columns: tuple[int, ...]) -> str:
    """An UPDATE of several value columns of a row; before the values the new primary key, after them the row's key ``k``."""
    marks = list(dialect.marks)
    sets = [f"id = {marks.pop(0)}"] if shape.key_updates else []
    one = dialect.lists[1] if shape.list_column else "{0}"
    values = _value_columns(shape)
    sets += [f"{values[column]} = {one.format(marks.pop(0))}" for column in columns]
    return f"UPDATE {name} SET {', '.join(sets)} WHERE k = {marks.pop(0)}"
