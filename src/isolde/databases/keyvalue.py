"""Registers and lists as a table of two columns: what every SQL adapter shares.

An adapter says how one statement is run (``_fetch``, ``_change``) and how transactions begin and end; the texts
and what they mean together are here, once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from isolde.databases.contract import Ability, Feature, Kind, Swap, Table, answer, list_answer


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs between SQL databases in the statements of the table."""

    marks: tuple[str, str, str] = ("?", "?", "?")
    """The placeholders of the first, second and third parameter."""
    concatenation: str = "{0} || {1}"
    text: str = "TEXT"
    options: str = ""
    """What follows the closing parenthesis of ``CREATE TABLE``."""


@dataclass(frozen=True, slots=True)
class Statements:
    """The texts for one table; the parameters are the key last, but for ``insert``, where it is first."""

    create: str
    drop: str
    read: str
    update: str
    insert: str
    delete: str
    append: str
    swap: str


def statements(table: Table, dialect: Dialect) -> Statements:
    """The statements of a private table in a dialect."""
    first, second, third = dialect.marks
    name = table.name
    value = "BIGINT" if table.kind is Kind.REGISTERS else dialect.text
    longer = dialect.concatenation.format("v", first)
    return Statements(
        create=f"CREATE TABLE {name} (k INTEGER NOT NULL PRIMARY KEY, v {value} NOT NULL){dialect.options}",
        drop=f"DROP TABLE {name}",
        read=f"SELECT v FROM {name} WHERE k = {first}",
        update=f"UPDATE {name} SET v = {first} WHERE k = {second}",
        insert=f"INSERT INTO {name} (k, v) VALUES ({first}, {second})",
        delete=f"DELETE FROM {name} WHERE k = {first}",
        append=f"UPDATE {name} SET v = {longer} WHERE k = {second}",
        swap=f"UPDATE {name} SET v = {first} WHERE k = {second} AND v = {third}",
    )


def first_rows(table: Table) -> list[tuple[int, int | str]]:
    """What ``create`` puts into the table."""
    return [(key, 0 if table.kind is Kind.REGISTERS else "") for key in range(table.keys)]


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


class KeyValueConnection(ABC):
    """The operations on keys, by the statements of a table."""

    def __init__(self, table: Table, dialect: Dialect) -> None:
        self._texts = statements(table, dialect)
        self._lists = table.kind is Kind.LISTS

    @abstractmethod
    def _fetch(self, text: str, parameters: tuple[Any, ...]) -> object:
        """The first column of the first row, as the driver returns it; ``None`` if there is no row."""

    @abstractmethod
    def _change(self, text: str, parameters: tuple[Any, ...]) -> int:
        """How many rows a statement found."""

    def read(self, key: int) -> bytes:
        value = self._fetch(self._texts.read, (key,))
        return list_answer(value) if self._lists else answer(value)

    def write(self, key: int, value: int) -> None:
        # The row may have gone since it was read, or never have been there: then an update finds nothing, and to
        # record a write all the same would be a lie.
        if not self._change(self._texts.update, (value, key)):
            self._change(self._texts.insert, (key, value))

    def insert(self, key: int, value: int) -> None:
        self._change(self._texts.insert, (key, value))

    def delete(self, key: int) -> bool:
        return self._change(self._texts.delete, (key,)) > 0

    def append(self, key: int, element: int) -> None:
        if not self._change(self._texts.append, (f",{element}", key)):
            self._change(self._texts.insert, (key, f",{element}"))

    def compare_and_set(self, key: int, expected: int, new: int) -> Swap:
        return Swap(self._change(self._texts.swap, (new, key, expected)) > 0)
