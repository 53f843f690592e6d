"""``record``: the one line that a program adds."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from isolde.errors import UsageError
from isolde.history.schedule import values_of
from isolde.recorder.dbapi import RecordedConnection
from isolde.recorder.drivers import DriverFacts, facts_of
from isolde.recorder.recording import Recording
from isolde.tx.dialects import Dialect
from isolde.tx.script import statements_of
from isolde.tx.sql import schema as read_schema

_C = TypeVar("_C")
_recordings: dict[str, Recording] = {}
_lock = threading.Lock()


def record(connection: _C, path: str | Path, *, schema: Any = None, settings: Mapping[str, str] | None = None) -> _C:
    """The same connection, or engine of SQLAlchemy, that also writes what it does to ``path``, as a history that ``audit`` reads.

    Connections that are recorded to one path in one process share the file; each is a session. ``schema`` are the tables that are
    there already: ``CREATE TABLE`` texts, or SQLAlchemy's ``MetaData``; their rows are read once, when the file is begun. Of
    SQLite they are found out. Tables that the program makes itself need none. ``settings`` are those of the server that change
    what a level does (``{"innodb_snapshot_isolation": "ON"}``).
    """
    if type(connection).__module__.startswith("sqlalchemy."):
        from isolde.recorder.alchemy import record_engine

        record_engine(connection, lambda raw: _recording(raw, path, schema, settings))
        return connection
    facts = facts_of(connection)
    recording = _recording(connection, path, schema, settings)
    return RecordedConnection(connection, facts, recording.session())  # type: ignore[return-value]


def _recording(connection: Any, path: str | Path, schema: Any, settings: Mapping[str, str] | None) -> Recording:
    """The recording of a path, begun with what the connection tells if it is the first."""
    facts, place = facts_of(connection), str(Path(path).resolve())
    with _lock:
        if place not in _recordings:
            _recordings[place] = Recording(str(path), _header(connection, facts, schema, settings or {}))
        return _recordings[place]


def _header(connection: Any, facts: DriverFacts, schema: Any, settings: Mapping[str, str]) -> dict[str, Any]:
    if facts.open(connection):
        raise UsageError("a transaction is open on the connection; record it before it is used, or commit first")
    texts = _texts(connection, facts, schema)
    names = [*read_schema(";\n".join(texts), facts.dialect, "schema").tables] if texts else []
    cursor = connection.cursor()
    rows = {}
    for name in names:
        cursor.execute(f"SELECT * FROM {name}")
        rows[name] = [list(row) for row in values_of([_row(one) for one in cursor.fetchall()])]
    cursor.close()
    version = facts.version(connection)
    if facts.open(connection):
        connection.rollback()
    header: dict[str, Any] = {"dialect": facts.dialect.value, "store": version, "schema": texts, "rows": rows}
    counts = facts.counts(connection)
    return header | ({"counts": counts} if counts else {}) | ({"settings": dict(settings)} if settings else {})


def _row(row: Any) -> Sequence[Any]:
    return tuple(row.values()) if isinstance(row, Mapping) else tuple(row)


def _texts(connection: Any, facts: DriverFacts, schema: Any) -> list[str]:
    """``CREATE TABLE`` texts from what a person gave, or from SQLite itself."""
    if schema is None:
        if facts.dialect is not Dialect.SQLITE:
            return []
        found = connection.execute(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
        )
        return [str(row[0]) for row in found.fetchall()]
    if isinstance(schema, str):
        return list(statements_of(schema, facts.dialect))
    if hasattr(schema, "sorted_tables"):
        from isolde.recorder.alchemy import texts_of

        return texts_of(schema, facts.dialect)
    if isinstance(schema, Iterable):
        return [one for text in schema for one in statements_of(str(text), facts.dialect)]
    raise UsageError(f"schema: {type(schema).__name__} is neither CREATE TABLE texts nor MetaData of SQLAlchemy")
