"""Real databases behind one small class each: run a text, get columns' rows and a count, or the kind of error."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from typing import Any, Protocol

from isolde.tx import schema as sc
from isolde.tx.dialects import Dialect

from .rendering import Text


@dataclass(frozen=True)
class Failed(Exception):
    kind: str
    reason: str


class Real(Protocol):
    dialect: Dialect

    def execute(self, text: str) -> tuple[list[tuple[Any, ...]], int]:
        """Rows and count of one statement; ``Failed`` with the kind of its error."""

    def reset(self, schema: sc.Schema) -> None: ...

    def end(self, keep: bool) -> None: ...

    def close(self) -> None:
        """A connection that is left open may hold locks that somebody else waits for, for ever."""


PG_KINDS = {
    "23505": "unique", "23502": "not-null", "23503": "foreign-key", "23514": "check", "22012": "division-by-zero",
    "22003": "out-of-range", "22001": "out-of-range", "22011": "out-of-range", "2201W": "out-of-range", "2201X": "out-of-range",
    "22P02": "conversion", "22007": "conversion", "22008": "conversion", "22025": "conversion", "21000": "cardinality",
    "42703": "name", "42P01": "name", "42702": "name", "42P10": "name", "42712": "name", "42701": "name",
    "42P03": "cursor",
}  # fmt: skip
MY_KINDS = {
    1062: "unique", 1048: "not-null", 1364: "not-null", 1451: "foreign-key", 1452: "foreign-key", 4025: "check",
    1365: "division-by-zero", 1264: "out-of-range", 1690: "out-of-range", 1916: "out-of-range", 1406: "out-of-range", 1366: "conversion",
    1292: "conversion", 1265: "conversion", 1242: "cardinality", 1054: "name", 1052: "name", 1146: "name",
}  # fmt: skip


class PostgreSQL:
    dialect = Dialect.POSTGRESQL

    def __init__(self, url: str) -> None:
        import psycopg

        self.connection: Any = psycopg.connect(url, prepare_threshold=None, autocommit=True)
        self.execute(f"CREATE SCHEMA IF NOT EXISTS isolde_{os.getpid()}")
        self.execute(f"SET search_path TO isolde_{os.getpid()}")
        self.connection.autocommit = False

    def execute(self, text: str) -> tuple[list[tuple[Any, ...]], int]:
        import psycopg

        cursor = self.connection.cursor()
        try:
            cursor.execute(text.encode())
            rows = cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            self.connection.rollback()
            state = error.sqlstate or ""
            raise Failed(PG_KINDS.get(state, "type" if state.startswith("42") else state), str(error)) from None
        return rows, cursor.rowcount

    def reset(self, schema: sc.Schema) -> None:
        self.connection.rollback()
        self.connection.autocommit = True
        for name in reversed(list(schema.tables)):
            self.execute(f"DROP TABLE IF EXISTS {name} CASCADE")
        for table in schema.tables.values():
            self.execute(Text(self.dialect).table(table))
        self.connection.autocommit = False

    def end(self, keep: bool) -> None:
        self.connection.commit() if keep else self.connection.rollback()

    def close(self) -> None:
        self.connection.close()


class MariaDB:
    dialect = Dialect.MYSQL

    def __init__(self, **where: Any) -> None:
        import pymysql  # type: ignore[import-untyped, unused-ignore]

        self.connection: Any = pymysql.connect(charset="utf8mb4", autocommit=False, **where)
        self.execute(
            f"CREATE DATABASE IF NOT EXISTS isolde_{os.getpid()} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
        )
        self.execute(f"USE isolde_{os.getpid()}")
        self.execute("SET NAMES utf8mb4 COLLATE utf8mb4_general_ci")

    def execute(self, text: str) -> tuple[list[tuple[Any, ...]], int]:
        import pymysql  # type: ignore[import-untyped, unused-ignore]

        cursor = self.connection.cursor()
        try:
            cursor.execute(text)
            rows = list(cursor.fetchall())
        except pymysql.Error as error:
            code = error.args[0]
            raise Failed(MY_KINDS.get(code, str(code)), str(error)) from None
        return rows, cursor.rowcount

    def reset(self, schema: sc.Schema) -> None:
        self.connection.rollback()
        for name in reversed(list(schema.tables)):
            self.execute(f"DROP TABLE IF EXISTS {name}")
        for table in schema.tables.values():
            self.execute(Text(self.dialect).table(table))

    def end(self, keep: bool) -> None:
        self.connection.commit() if keep else self.connection.rollback()

    def close(self) -> None:
        self.connection.close()


class SQLite:
    dialect = Dialect.SQLITE

    def __init__(self) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None)

    def execute(self, text: str) -> tuple[list[tuple[Any, ...]], int]:
        try:
            cursor = self.connection.execute(text)
            rows = cursor.fetchall()
        except (sqlite3.Error, OverflowError) as error:
            raise Failed(_sqlite_kind(str(error)), str(error)) from None
        count = self.connection.execute("SELECT changes()").fetchone()[0]
        return rows, len(rows) if text.startswith("SELECT") else count

    def reset(self, schema: sc.Schema) -> None:
        self.connection.close()
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        self.execute("PRAGMA foreign_keys = ON")
        for table in schema.tables.values():
            self.execute(Text(self.dialect).table(table))
        self.execute("BEGIN")

    def end(self, keep: bool) -> None:
        self.execute("COMMIT" if keep else "ROLLBACK")
        self.execute("BEGIN")

    def close(self) -> None:
        self.connection.close()


def _sqlite_kind(reason: str) -> str:
    for part, kind in (
        ("UNIQUE", "unique"), ("NOT NULL", "not-null"), ("FOREIGN", "foreign-key"), ("CHECK", "check"), ("mismatch", "conversion"),
        ("overflow", "out-of-range"), ("no such", "name"), ("does not match", "name"), ("ambiguous", "name"),
    ):  # fmt: skip
        if part in reason:
            return kind
    return reason
