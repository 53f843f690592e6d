"""Random statements over small tables, in the SQL of one dialect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from isolde.tx.dialects import Dialect

_TEXTS = ("a", "b", "ab", "")
_COMPARE = ("=", "<>", "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class Column:
    """A column; ``required``: NOT NULL."""

    name: str
    type: str
    required: bool


@dataclass(frozen=True, slots=True)
class DrawnTable:
    """A table: its key, its other columns, and which of these is unique or has an index."""

    name: str
    keys: tuple[Column, ...]
    columns: tuple[Column, ...]
    unique: Column | None = None
    index: Column | None = None

    @property
    def every(self) -> tuple[Column, ...]:
        return (*self.keys, *self.columns)

    def texts(self) -> list[str]:
        """The statements that make it."""
        parts = [f"{one.name} {one.type}{' NOT NULL' if one.required else ''}" for one in self.every]
        parts.append(f"PRIMARY KEY ({', '.join(one.name for one in self.keys)})")
        if self.unique is not None:
            parts.append(f"UNIQUE ({self.unique.name})")
        texts = [f"CREATE TABLE {self.name} ({', '.join(parts)})"]
        if self.index is not None:
            texts.append(f"CREATE INDEX {self.name}_by_{self.index.name} ON {self.name} ({self.index.name})")
        return texts


@dataclass(frozen=True, slots=True)
class _Scope:
    """A table under the name by which its columns are called; without a name they stand alone."""

    table: DrawnTable
    alias: str = ""

    def call(self, column: Column) -> str:
        return f"{self.alias}.{column.name}" if self.alias else column.name


def of_integers(columns: Sequence[Column]) -> list[Column]:
    return [one for one in columns if one.type == "INT"]


class Statements:
    """Draws statements. ``to_the_letter``: nulls are ordered, and averages taken, as the dialect says."""

    def __init__(
        self, chance: Random, dialect: Dialect, tables: Sequence[DrawnTable], keys: int, *, to_the_letter: bool = True
    ) -> None:
        self._chance, self._dialect, self._tables, self._keys = chance, dialect, tables, keys
        self._to_the_letter = to_the_letter

    def draw(self) -> str:
        """The next statement."""
        kinds = (self._query, self._update, self._delete, self._insert)
        (kind,) = self._chance.choices(kinds, (9, 7, 2, 4))
        return kind()

    # Queries

    def _query(self) -> str:
        kinds = (self._rows, self._by_key, self._aggregate, self._grouped, self._joined)
        (kind,) = self._chance.choices(kinds, (5, 3, 3, 2, 3))
        return kind()

    def _rows(self) -> str:
        scope = _Scope(self._table())
        items = [self._shown(scope) for _ in range(self._chance.randint(1, 3))]
        distinct = "DISTINCT " if self._maybe(0.15) else ""
        text = f"SELECT {distinct}{', '.join(items)} FROM {scope.table.name}{self._where(scope)}"
        if self._maybe(0.3):
            # Ordered by what is shown: SELECT DISTINCT takes nothing else.
            order = [column for column in scope.table.every if column.name in items and self._ordered(column)]
            if order:
                text += " ORDER BY " + ", ".join(f"{one.name}{self._downward(one)}" for one in order)
                if self._maybe(0.4):
                    text += f" LIMIT {self._chance.randint(1, 3)}"
        elif not distinct and self._maybe(0.12):
            text += self._lock()
        return text

    def _by_key(self) -> str:
        table = self._table()
        return f"SELECT * FROM {table.name} WHERE {self._key(table)}" + (self._lock() if self._maybe(0.15) else "")

    def _aggregate(self) -> str:
        scope = _Scope(self._table())
        items = [self._total(scope) for _ in range(self._chance.randint(1, 2))]
        return f"SELECT {', '.join(items)} FROM {scope.table.name}{self._where(scope)}"

    def _grouped(self) -> str:
        scope = _Scope(self._table())
        by = self._chance.choice(of_integers(scope.table.every)).name
        having = f" HAVING COUNT(*) {self._chance.choice(_COMPARE)} 1" if self._maybe(0.3) else ""
        return f"SELECT {by}, {self._total(scope)} FROM {scope.table.name}{self._where(scope)} GROUP BY {by}{having}"

    def _joined(self) -> str:
        left, right = _Scope(self._table(), "x"), _Scope(self._table(), "y")
        kind = self._chance.choice(("JOIN", "JOIN", "LEFT JOIN"))
        on = f"{left.call(self._number(left))} = {right.call(self._number(right))}"
        if self._maybe(0.3):
            on += f" AND {self._simple(self._chance.choice((left, right)))}"
        shown = self._chance.choice(("COUNT(*)", f"{left.call(self._number(left))}, {right.call(self._number(right))}"))
        where = f" WHERE {self._simple(left)}" if self._maybe(0.4) else ""
        return f"SELECT {shown} FROM {left.table.name} x {kind} {right.table.name} y ON {on}{where}"

    def _shown(self, scope: _Scope) -> str:
        return self._value(scope) if self._maybe(0.2) else scope.call(self._chance.choice(scope.table.every))

    def _total(self, scope: _Scope) -> str:
        functions = ["SUM", "MIN", "MAX", "COUNT"] + (["AVG"] if self._to_the_letter else [])
        if self._maybe(0.3):
            return "COUNT(*)"
        distinct = "DISTINCT " if self._maybe(0.1) else ""
        return f"{self._chance.choice(functions)}({distinct}{scope.call(self._number(scope))})"

    def _lock(self) -> str:
        match self._dialect:
            case Dialect.POSTGRESQL if self._to_the_letter:
                return self._chance.choice((" FOR UPDATE", " FOR SHARE"))
            case Dialect.MYSQL:
                return self._chance.choice((" FOR UPDATE", " LOCK IN SHARE MODE"))
            case _:
                return ""

    def _ordered(self, column: Column) -> bool:
        return self._to_the_letter or column.required

    def _downward(self, column: Column) -> str:
        return " DESC" if self._maybe(0.3) and self._ordered(column) else ""

    # Changes

    def _update(self) -> str:
        table = self._table()
        scope = _Scope(table)
        if self._maybe(0.15):
            return self._update_of_a_key(table)
        column = self._chance.choice([one for one in table.columns if one is not table.unique] or list(table.columns))
        value = self._value(scope, sub_queries=True) if column.type == "INT" else self._text()
        if column.required and not value.isdigit() and column.type == "INT":
            value = f"COALESCE({value}, 0)"
        # A whole table, some rows, one row.
        where = self._chance.choice(
            ("", self._where(scope, changed=True), f" WHERE {self._key(table)}", f" WHERE {self._key(table)}")
        )
        return f"UPDATE {table.name} SET {column.name} = {value}{where}"

    def _update_of_a_key(self, table: DrawnTable) -> str:
        key = table.keys[-1].name
        if self._maybe(0.3):
            # All rows move, so far that none takes the place of another.
            return f"UPDATE {table.name} SET {key} = {key} + 100"
        return f"UPDATE {table.name} SET {key} = {self._a_key()} WHERE {self._key(table)}"

    def _delete(self) -> str:
        table = self._table()
        condition = self._chance.choice((f" WHERE {self._key(table)}", self._where(_Scope(table), changed=True), ""))
        return f"DELETE FROM {table.name}{condition}"

    def _insert(self) -> str:
        table = self._table()
        names = ", ".join(one.name for one in table.every)
        if self._maybe(0.2):
            # Far from the keys that are there.
            key = table.keys[-1].name
            shown = [one.name for one in table.every]
            shown[shown.index(key)] = f"{key} + {self._chance.choice((20, 40))}"
            if table.unique is None:
                where = self._where(_Scope(table), changed=True)
                return f"INSERT INTO {table.name} ({names}) SELECT {', '.join(shown)} FROM {table.name}{where}"
        values = [str(self._a_key()) for _ in table.keys]
        values += [self._text() if one.type != "INT" else self._constant(one) for one in table.columns]
        text = f"INSERT INTO {table.name} ({names}) VALUES ({', '.join(values)})"
        return text + self._upsert(table) if self._maybe(0.25) else text

    def _upsert(self, table: DrawnTable) -> str:
        column = next((one for one in table.columns if one.type == "INT" and one is not table.unique), None)
        if column is None or table.unique is not None:
            return ""
        name, keys = column.name, ", ".join(one.name for one in table.keys)
        if self._dialect is Dialect.MYSQL:
            return f" ON DUPLICATE KEY UPDATE {name} = {self._chance.randrange(10)}"
        if self._maybe(0.4):
            return f" ON CONFLICT ({keys}) DO NOTHING"
        return f" ON CONFLICT ({keys}) DO UPDATE SET {name} = {self._chance.choice((f'excluded.{name}', '7'))}"

    # Conditions and values

    def _where(self, scope: _Scope, *, changed: bool = False) -> str:
        """A condition, or none. Of a change, a query over its own table could see half of it (SQLite), or is refused (MySQL)."""
        others = [one for one in self._tables if one is not scope.table] if changed else self._tables
        if changed and self._dialect is Dialect.POSTGRESQL:
            others = self._tables
        return f" WHERE {self._condition(scope, 2, others)}" if self._maybe(0.75) else ""

    def _condition(self, scope: _Scope, depth: int, others: Sequence[DrawnTable]) -> str:
        if depth and self._maybe(0.3):
            word = self._chance.choice(("AND", "OR"))
            return f"({self._condition(scope, depth - 1, others)}) {word} ({self._condition(scope, depth - 1, others)})"
        if depth and self._maybe(0.15):
            return f"NOT ({self._condition(scope, depth - 1, others)})"
        if others and self._maybe(0.3):
            return self._with_a_query(scope, self._chance.choice(others))
        return self._of_truth(scope) if self._maybe(0.1) else self._simple(scope)

    def _simple(self, scope: _Scope) -> str:
        name, number = scope.call(self._number(scope)), self._chance.randrange(5)
        texts = [scope.call(one) for one in scope.table.columns if one.type != "INT"]
        if texts and self._maybe(0.3):
            text = self._chance.choice(texts)
            return self._chance.choice((f"{text} = {self._text()}", f"{text} LIKE 'a%'", f"{text} IS NULL"))
        return self._chance.choice(
            (
                f"{name} {self._chance.choice(_COMPARE)} {number}",
                f"{name} {self._chance.choice(_COMPARE)} {number}",
                f"{name} BETWEEN {number - 1} AND {number + 1}",
                f"{name} IN ({number}, {self._chance.randrange(5)})",
                f"{name} IS {self._chance.choice(('', 'NOT '))}NULL",
                f"{self._value(scope)} {self._chance.choice(_COMPARE)} {scope.call(self._number(scope))}",
            )
        )

    def _with_a_query(self, scope: _Scope, table: DrawnTable) -> str:
        other = _Scope(table, "z")
        called = scope.call(self._number(scope)) if scope.alias else f"{scope.table.name}.{self._number(scope).name}"
        column = other.call(self._number(other))
        source = f"FROM {other.table.name} z"
        return self._chance.choice(
            (
                f"{called} IN (SELECT {column} {source} WHERE {self._simple(other)})",
                f"{called} {self._chance.choice(_COMPARE)} (SELECT {self._chance.choice(('MIN', 'MAX'))}({column}) {source})",
                f"EXISTS (SELECT 1 {source} WHERE {column} = {called})",
                f"NOT EXISTS (SELECT 1 {source} WHERE {column} > {called})",
            )
        )

    def _of_truth(self, scope: _Scope) -> str:
        """Truth values among numbers, where a database has no others; else among themselves."""
        name, other = scope.call(self._number(scope)), scope.call(self._number(scope))
        if self._dialect is Dialect.POSTGRESQL:
            return f"(NOT NOT ({name} <> 0)) = ({other} <> 0)"
        return self._chance.choice(
            (f"(NOT NOT {name}) = {other}", f"(NOT {name}) = {other}", f"({name} = 1) = {other}")
        )

    def _value(self, scope: _Scope, *, sub_queries: bool = False) -> str:
        name, number = scope.call(self._number(scope)), self._chance.randrange(5)
        if sub_queries and self._maybe(0.15) and len(self._tables) > 1:
            other = next(one for one in self._tables if one is not scope.table)
            column = self._chance.choice(of_integers(other.every)).name
            return f"(SELECT {self._chance.choice(('MIN', 'MAX', 'COUNT'))}({column}) FROM {other.name})"
        return self._chance.choice(
            (
                str(number),
                f"{name} + {number}",
                f"{name} - {scope.call(self._number(scope))}",
                f"{name} * 2",
                f"ABS({name} - {number})",
                f"COALESCE({name}, {number})",
                f"CASE WHEN {name} > {number} THEN {name} ELSE {number} END",
            )
        )

    def _key(self, table: DrawnTable) -> str:
        parts = [f"{one.name} = {self._a_key()}" for one in table.keys]
        return " AND ".join(parts if len(parts) == 1 or self._maybe(0.7) else parts[:1])

    def _a_key(self) -> int:
        return self._chance.randint(1, self._keys)

    def _constant(self, column: Column) -> str:
        return "NULL" if not column.required and self._maybe(0.12) else str(self._chance.randrange(10))

    def _text(self) -> str:
        return f"'{self._chance.choice(_TEXTS)}'"

    def _table(self) -> DrawnTable:
        return self._chance.choice(self._tables)

    def _number(self, scope: _Scope) -> Column:
        return self._chance.choice(of_integers(scope.table.every))

    def _maybe(self, share: float) -> bool:
        return self._chance.random() < share
