"""Logs that database servers write, as histories: what they hold, and which of their settings is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from isolde.databases.logs import mariadb, postgresql
from isolde.databases.logs.transactions import Converted, tables_in
from isolde.errors import InputError
from isolde.tx.dialects import Dialect

FORMATS = ("postgresql-csv", "postgresql-json", "mariadb-general")
_HEAD = 64 * 1024
_SIZE_MAX = 2 * 2**30


def log_format(path: str) -> str | None:
    """Which server's log a file is, by its beginning; ``None`` if it is none of them."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(_HEAD).decode(errors="replace")
    except (OSError, ValueError):
        return None
    if postgresql.is_csv(head):
        return "postgresql-csv"
    if postgresql.is_json(head):
        return "postgresql-json"
    return "mariadb-general" if mariadb.is_general(head) else None


def read_log(path: str, format: str, tables: str | None = None) -> Converted:
    """The transactions of a server's log; :class:`InputError` says what is missing in it.

    ``tables`` is a file of SQL with the tables that were there before, and INSERTs of their rows.
    """
    found = _read(path, format)
    header = {"schema": [], **found.history.extra}
    notes = found.notes
    if tables is not None:
        header |= tables_in(_text(tables), Dialect(header["dialect"]), tables)
    else:
        notes = (
            *notes,
            "tables that were there before this log began are not in it; --tables FILE gives their CREATE TABLE",
        )
    return Converted(replace(found.history, extra=header), notes)


def _text(path: str) -> str:
    try:
        if Path(path).stat().st_size > _SIZE_MAX:
            raise InputError(f"{path}: larger than {_SIZE_MAX // 2**30} GiB; convert its parts one by one")
        return Path(path).read_text("utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


def _read(path: str, format: str) -> Converted:
    text = _text(path)
    match format:
        case "postgresql-csv":
            return postgresql.converted(postgresql.csv_lines(text, path), path)
        case "postgresql-json":
            return postgresql.converted(postgresql.json_lines(text, path), path)
        case _:
            return mariadb.converted(text, path)
