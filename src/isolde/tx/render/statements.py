"""Statements as text."""

from __future__ import annotations

from typing import assert_never

from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Expression
from isolde.tx.queries import Item, Select, Star
from isolde.tx.render.expressions import Writer
from isolde.tx.render.queries import write_items, write_select
from isolde.tx.statements import Assignment, Default, Delete, Insert, InsertMode, OnConflict, Statement, Update


def write_statement(statement: Statement, writer: Writer) -> str:
    match statement:
        case Select():
            return write_select(statement, writer)
        case Insert():
            return _insert(statement, writer)
        case Update():
            return _update(statement, writer)
        case Delete():
            return _delete(statement, writer)
        case _:
            assert_never(statement)


def _insert(insert: Insert, writer: Writer) -> str:
    columns = f" ({', '.join(map(writer.name, insert.columns))})" if insert.columns else ""
    parts = [_verb(insert, writer), writer.name(insert.table) + columns, _rows(insert, writer)]
    if insert.on_conflict is not None:
        parts.append(_conflict(insert, insert.on_conflict, writer))
    return " ".join([*parts, *_returning(insert.returning, writer)])


def _verb(insert: Insert, writer: Writer) -> str:
    if insert.mode is InsertMode.PLAIN:
        return "INSERT INTO"
    if writer.dialect is Dialect.POSTGRESQL:
        raise writer.refuse(insert, f"{insert.mode.upper()}", "use ON CONFLICT")
    if insert.mode is InsertMode.REPLACE:
        return "REPLACE INTO"
    return "INSERT IGNORE INTO" if writer.dialect is Dialect.MYSQL else "INSERT OR IGNORE INTO"


def _rows(insert: Insert, writer: Writer) -> str:
    if isinstance(insert.source, Select):
        text = write_select(insert.source, writer)
        bare = insert.source.source is not None and insert.source.where is None and not insert.source.group_by
        if insert.on_conflict is not None and writer.dialect is Dialect.SQLITE and bare:
            # Without a WHERE, SQLite takes ON for that of a join.
            has_tail = insert.source.order_by or insert.source.limit is not None or insert.source.having is not None
            if has_tail:
                raise writer.refuse(insert, "an upsert of a query without WHERE", "write WHERE TRUE")
            text += " WHERE TRUE"
        return text
    if insert.source == ((),):
        return "VALUES ()" if writer.dialect is Dialect.MYSQL else "DEFAULT VALUES"
    rows = []
    for row in insert.source:
        if not row and writer.dialect is not Dialect.MYSQL:
            raise writer.refuse(insert, "several rows of defaults", "use one statement a row")
        rows.append(f"({', '.join(_value(value, insert, writer) for value in row)})")
    return f"VALUES {', '.join(rows)}"


def _value(value: Expression | Default, node: Statement, writer: Writer) -> str:
    if not isinstance(value, Default):
        return writer.expression(value)
    if writer.dialect is Dialect.SQLITE:
        raise writer.refuse(node, "DEFAULT as a value", "leave the column out")
    return "DEFAULT"


def _assignments(assignments: tuple[Assignment, ...], node: Statement, writer: Writer) -> str:
    return ", ".join(f"{writer.name(one.column)} = {_value(one.value, node, writer)}" for one in assignments)


def _conflict(insert: Insert, conflict: OnConflict, writer: Writer) -> str:
    writer.conflict = True
    if writer.dialect is Dialect.MYSQL:
        text = _duplicate(insert, conflict, writer)
    else:
        columns = f" ({', '.join(map(writer.name, conflict.columns))})" if conflict.columns else ""
        if not conflict.assignments:
            text = f"ON CONFLICT{columns} DO NOTHING"
        elif not columns and writer.dialect is Dialect.POSTGRESQL:
            raise writer.refuse(insert, "an upsert that names no key", "name the key's columns")
        else:
            text = f"ON CONFLICT{columns} DO UPDATE SET {_assignments(conflict.assignments, insert, writer)}"
            if conflict.where is not None:
                text += f" WHERE {writer.expression(conflict.where)}"
    writer.conflict = False
    return text


def _duplicate(insert: Insert, conflict: OnConflict, writer: Writer) -> str:
    """MySQL names no key: any that is taken counts."""
    if conflict.where is not None:
        raise writer.refuse(insert, "an upsert with WHERE", "put a CASE into the assignments")
    if conflict.assignments:
        return f"ON DUPLICATE KEY UPDATE {_assignments(conflict.assignments, insert, writer)}"
    if not conflict.columns:
        raise writer.refuse(insert, "ON CONFLICT DO NOTHING without a key", "name the key's columns")
    key = writer.name(conflict.columns[0])
    return f"ON DUPLICATE KEY UPDATE {key} = {key}"


def _update(update: Update, writer: Writer) -> str:
    if update.returning and writer.dialect is Dialect.MYSQL:
        raise writer.refuse(update, "UPDATE … RETURNING", "select the rows first")
    alias = f" AS {writer.name(update.alias)}" if update.alias is not None else ""
    parts = ["UPDATE", writer.name(update.table) + alias, "SET", _assignments(update.assignments, update, writer)]
    return " ".join([*parts, *_where(update.where, writer), *_returning(update.returning, writer)])


def _delete(delete: Delete, writer: Writer) -> str:
    table = writer.name(delete.table)
    parts = [f"DELETE FROM {table}"]
    if delete.alias is not None:
        alias = writer.name(delete.alias)
        # MariaDB has an alias only in the form for several tables.
        mysql = writer.dialect is Dialect.MYSQL
        if mysql and delete.returning:
            raise writer.refuse(delete, "DELETE … RETURNING with an alias", "use the table's name")
        parts = [f"DELETE {alias} FROM {table} AS {alias}" if mysql else f"DELETE FROM {table} AS {alias}"]
    return " ".join([*parts, *_where(delete.where, writer), *_returning(delete.returning, writer)])


def _where(where: Expression | None, writer: Writer) -> list[str]:
    return [] if where is None else [f"WHERE {writer.expression(where)}"]


def _returning(items: tuple[Item | Star, ...], writer: Writer) -> list[str]:
    return [f"RETURNING {write_items(items, writer)}"] if items else []
