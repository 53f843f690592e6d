"""Tables whose rows go by name, which is table and primary key, so that what transactions wrote can be put on top of each other.

A statement of the store gives numbers to rows. Two transactions that insert the same key from different snapshots wrote the same
row all the same, and the later one replaces what the earlier one wrote: so effects are told by names, and a row that comes back
gets the number that its name had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from random import Random
from typing import Any

from isolde.errors import InputError
from isolde.semantics.concrete import Store
from isolde.semantics.core.catalog import Catalog, Key, TableInfo
from isolde.semantics.core.types import outside
from isolde.semantics.tables.view import IdCounter, Numbered, Row, TableView, Undo, take_back
from isolde.tx.dialects import Dialect
from isolde.tx.schema import Schema

_MODULUS = 2**64
EXISTS = -1
"""The position of the list of tables among the tables: which of those that the log creates or drops are there."""

Name = tuple[int, Any]
"""A row by the position of its table and its primary key; where there is no key, by what inserted it."""
Effects = dict[Name, Row | None]
"""The rows that a transaction wrote, as it left them; ``None``: deleted. Rows that it matched and left alone are there, too."""


class NamedTable:
    """A ``TableView``. Several rows may hold one unique key: weak levels let transactions insert them side by side."""

    __slots__ = (
        "_all",
        "_found",
        "_others",
        "catalog",
        "ids",
        "indexed",
        "info",
        "key",
        "log",
        "named",
        "names",
        "next_number",
        "rows",
    )

    def __init__(self, info: TableInfo, catalog: Catalog, log: Undo) -> None:
        self.info, self.catalog, self.log = info, catalog, log
        self.ids = IdCounter(uncertain=True)
        self.rows: dict[int, Row] = {}
        self.key: Key | None = info.unique_keys[0] if info.table.primary_key else None
        self.named: dict[Any, int] = {}
        self.names: dict[int, Any] = {}
        """Names by number, of rows without a primary key alone: the others have theirs in them."""
        self.next_number = 0
        self.indexed = True
        """Whether rows are found by indexes; else every row is looked at."""
        self._found: dict[tuple[int, ...], Index] = {}
        self._all: list[tuple[Key, Index]] = []
        self._others: list[tuple[Key, Index]] = []
        """The indexes, and those among them that are not of a unique key."""

    # Asking

    def all(self) -> Iterable[Numbered]:
        return sorted(self.rows.items())

    def by_key(self, unique: int, key: Any) -> Sequence[Numbered]:
        return self.by_equal(self.info.uniques[unique], key)

    def by_equal(self, columns: tuple[int, ...], key: Any) -> Sequence[Numbered]:
        index = self._found.get(columns)
        if index is None:
            if not self.indexed:
                key_of = self.catalog.key(self.info.table, columns)
                return [one for one in self.all() if key is not None and key_of(one[1]) == key]
            index = self._indexed(columns)
        found = index.get(key)
        if found is None:
            return ()
        rows = self.rows
        if found.__class__ is int:
            return ((found, rows[found]),)
        return [(number, rows[number]) for number in sorted(found)]

    def _indexed(self, columns: tuple[int, ...]) -> Index:
        key = self.catalog.key(self.info.table, columns)
        index: Index = {}
        for number, row in self.rows.items():
            found = key(row)
            if found is not None:
                _enter(index, found, number)
        self._found[columns] = index
        self._all.append((key, index))
        if columns not in self.info.uniques:
            self._others.append((key, index))
        return index

    # Changing

    def put(self, number: int | None, row: Row | None, same_keys: bool = False) -> int:
        if number is None:
            assert row is not None
            number = self._free_number(row)
        before = self.rows.get(number)
        self.log.append((self, number, before))
        self._set(number, before, row, self._others if same_keys else self._all)
        return number

    def _free_number(self, row: Row) -> int:
        """The number that a row of this key had before; another where that row is still there."""
        if self.key is not None:
            number = self.named.get(self.key(row))
            if number is not None and number not in self.rows:
                return number
        self.next_number += 1
        return self.next_number

    def _set(self, number: int, before: Row | None, row: Row | None, indexes: list[tuple[Key, Index]]) -> None:
        for key, index in indexes:
            old = None if before is None else key(before)
            new = None if row is None else key(row)
            if old == new:
                continue
            if old is not None:
                _leave(index, old, number)
            if new is not None:
                _enter(index, new, number)
        if row is not None:
            self.rows[number] = row
        elif before is not None:
            del self.rows[number]

    def restore(self, number: int, before: Row | None) -> None:
        self._set(number, self.rows.get(number), before, self._all)

    def clear(self) -> None:
        """Takes all rows away, and their names."""
        self.rows.clear()
        self.named.clear()
        self.names.clear()
        for index in self._found.values():
            index.clear()
        self.next_number = 0

    # By name

    def install(self, name: Any, row: Row | None) -> Row | None:
        """Makes the row of this name what it is now; what it was before. Nothing is logged."""
        number = self.named.get(name)
        if number is None:
            if row is None:
                return None
            number = self.new_number(name, row)
        before = self.rows.get(number)
        self._set(number, before, row, self._all)
        return before

    def new_number(self, name: Any, row: Row) -> int:
        """The number of a row of this name, which had none."""
        self.next_number += 1
        number = self.named[name] = self.next_number
        if self.key is None or self.key(row) is None:
            self.names[number] = name
        return number


Index = dict[Any, Any]
"""The numbers of rows by a key of theirs: one number or, of several rows, a dictionary of them."""


def _enter(index: Index, key: Any, number: int) -> None:
    held = index.get(key)
    if held is None:
        index[key] = number
    elif held.__class__ is int:
        index[key] = {held: None, number: None}
    else:
        held[number] = None


def _leave(index: Index, key: Any, number: int) -> None:
    held = index[key]
    if held.__class__ is int:
        del index[key]
        return
    del held[number]
    if len(held) == 1:
        (index[key],) = held


class Existence:
    """Which tables are there, as rows of a table of tables; only for the log and for effects."""

    __slots__ = ("log", "rows")

    def __init__(self, names: Iterable[str], log: Undo) -> None:
        self.rows: dict[Any, Row] = {name: (name,) for name in names}
        self.log = log

    def put(self, name: Any, there: bool) -> None:
        self.log.append((self, name, self.rows.get(name)))  # type: ignore[arg-type]
        self.restore(name, (name,) if there else None)

    def restore(self, name: Any, before: Row | None) -> None:
        if before is None:
            self.rows.pop(name, None)
        else:
            self.rows[name] = before


def _no_clock() -> datetime:
    raise outside("the time of the server, in a log", "its answer could be any")


class NamedStore(Store):
    """A store over named tables. What it would have to guess (the time, a drawn id) is refused by name."""

    def __init__(self, schema: Schema, dialect: Dialect, there: Iterable[str]) -> None:
        super().__init__(schema, dialect, clock=_no_clock)
        self.named = [NamedTable(info, self.catalog, self.undo) for info in self.catalog.tables]
        self.tables: list[TableView] = list(self.named)
        self.first_tables = tuple(there)
        self.there = Existence(self.first_tables, self.undo)
        self.compiled.tells_statements = True
        self.between: Callable[[], None] | None = None
        """What happens before each statement of a procedure, if anything does."""
        self.shown: list[Sequence[Row]] = []
        """The rows that the procedure which ran last gave its client, by statement."""
        self.also: Sequence[Sequence[Row]] = []
        """What its client may have got instead of all that it gave."""
        self.sums: list[int] | None = None
        """While states are told apart: a number for the rows of each table, and last for the tables that are there, which is the
        sum of 64 random bits for each row. Hashes of tuples of small numbers would often have equal sums.
        """
        self._chance = Random(0)
        self._bits: dict[Any, int] = {}

    def begins(self) -> None:
        """A statement of a procedure comes."""
        if self.between is not None:
            self.between()

    def shows(self, rows: Sequence[Row]) -> None:
        """A statement of a procedure gives its rows to the client."""
        self.shown.append(rows)

    def writable(self, position: int) -> TableView:
        return self.tables[position]

    def next_id(self, position: int) -> int:
        name = self.named[position].info.table.name
        raise outside(f"a generated id of {name}, in a log", "which ids are free is up to the server; give them")

    def load_named(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        """The rows before the first transaction."""
        data = self.named[self.catalog.table(table).position]
        seen: set[Any] = set()
        for place, row in enumerate(rows):
            name = ("first", place) if data.key is None else data.key(tuple(row))
            name = ("first", place) if name is None else name
            if name in seen:
                raise InputError(f'"rows" of {table} has the key {name!r} twice')
            seen.add(name)
            self.install({(data.info.position, name): tuple(row)})

    def find_by_index(self, indexed: bool) -> None:
        """Whether rows are found by indexes; it must be said before the first statement is run."""
        for table in self.named:
            table.indexed = indexed

    def clear(self) -> None:
        """No rows, and no names of rows; the tables are those of the beginning."""
        for table in self.named:
            table.clear()
        self.there.rows.clear()
        self.there.rows.update({name: (name,) for name in self.first_tables})
        self.undo.clear()

    def install(self, effects: Mapping[Name, Row | None]) -> Effects:
        """Puts effects into the tables; what undoes that again."""
        before: Effects = {}
        for (position, name), row in effects.items():
            if position == EXISTS:
                was = self.there.rows.get(name)
                self.there.restore(name, row)
            else:
                was = self.named[position].install(name, row)
            before[position, name] = was
            if self.sums is not None and was != row:
                change = self._code(position, name, row) - self._code(position, name, was)
                self.sums[position] = (self.sums[position] + change) % _MODULUS
        return before

    def _code(self, position: int, name: Any, row: Row | None) -> int:
        if row is None:
            return 0
        found = self._bits.get((position, name, row))
        if found is None:
            found = self._bits[position, name, row] = self._chance.getrandbits(64)
        return found

    def tell_apart(self) -> None:
        """From now on, ``sums`` tells states apart."""
        self.sums = [0] * (len(self.named) + 1)

    def effects(self, mark: int, owner: Any) -> Effects:
        """What the changes since the mark of the undo log come to, by name; ``owner`` names new rows of tables without a key."""
        if len(self.undo) == mark:
            return {}
        effects: Effects = {}
        for table, number, before in self.undo[mark:]:
            if table.__class__ is not NamedTable:
                return self._effects(mark, owner)
            key = table.key
            row = table.rows.get(number)
            old = None if key is None or before is None else key(before)
            new = None if key is None or row is None else key(row)
            if old is None:
                if new is None or before is not None:
                    return self._effects(mark, owner)
                old = new
            elif row is not None and new != old:
                return self._effects(mark, owner)
            name = table.info.position, old
            if row is not None or name not in effects:
                effects[name] = row
        return effects

    def _effects(self, mark: int, owner: Any) -> Effects:
        """The same where keys change, rows have none, or tables come and go."""
        touched: dict[tuple[Any, Any], list[Row | None]] = {}
        for table, number, before in self.undo[mark:]:
            touched.setdefault((table, number), []).append(before)
        effects: Effects = {}
        last: Effects = {}
        new = sum(
            table.names.get(number, ("",))[:1] == (owner,) for table, number in touched if isinstance(table, NamedTable)
        )
        for (table, number), befores in touched.items():
            row = table.rows.get(number)
            if isinstance(table, Existence):
                last[EXISTS, number] = row
                continue
            position, key, known = table.info.position, table.key, table.names.get(number)
            rows = [one for one in (*befores, row) if one is not None]
            names = [None if key is None else key(one) for one in rows]
            if None in names and known is None:
                if row is None:
                    # It came and went, and never had a name.
                    continue
                known = (owner, new)
                new += 1
            for name in names:
                effects[position, known if name is None else name] = None
            if row is not None:
                last[position, known if names[-1] is None else names[-1]] = row
        effects.update(last)
        return effects

    def keep(self, mark: int, effects: Effects) -> Effects:
        """Makes the changes since the mark, whose effects these are, part of the current state; what undoes that again."""
        before = self._kept(mark) if self.sums is None else None
        if before is not None:
            del self.undo[mark:]
            return before
        self.undone(mark)
        return self.install(effects)

    def _kept(self, mark: int) -> Effects | None:
        """The rows as they were before the changes since the mark, if every row kept its name; new names are taken."""
        before: Effects = {}
        seen: dict[tuple[Any, int], Any] = {}
        new: list[tuple[NamedTable, Any, int]] = []
        for table, number, row in self.undo[mark:]:
            if table.__class__ is not NamedTable or (key := table.key) is None:
                return None
            now = table.rows.get(number)
            name = seen.get((table, number))
            if name is None:
                first = row if row is not None else now
                name = None if first is None else key(first)
                if name is None or table.named.get(name, number) != number:
                    return None
                if (table.info.position, name) in before:
                    return None
                seen[table, number] = name
                before[table.info.position, name] = row
                if name not in table.named:
                    new.append((table, name, number))
            if (row is not None and key(row) != name) or (now is not None and key(now) != name):
                return None
        for table, name, number in new:
            table.named[name] = number
        return before

    def undone(self, mark: int) -> None:
        """Takes back the changes since the mark."""
        take_back(self.undo, mark)

    def overlay(self, own: Effects) -> None:
        """A transaction's own writes over the current rows, to be undone again."""
        for (position, name), row in own.items():
            if position == EXISTS:
                self.there.put(name, row is not None)
                continue
            table = self.named[position]
            number = table.named.get(name)
            if number is None:
                if row is None:
                    continue
                number = table.new_number(name, row)
            table.put(number, row)
