"""SQL text to the transaction language, in the dialects of PostgreSQL, MySQL/MariaDB and SQLite.

``statement`` reads one statement, ``script`` several, ``schema`` tables, ``program`` an application with its procedures. Results
are cached by text: nodes are frozen. What the language cannot say is refused by name (``OutsideFragment``); what is no SQL
is ``MalformedProgram``. sqlglot is imported at the first text that is read, not before.

``strict`` is for what people write: a form that the dialect's database does not have (``LIMIT 2, 3`` in PostgreSQL) and a
reserved word as a name are no SQL, with what to write instead. A log of a real server holds only what that server accepted,
perhaps one of another version: without ``strict`` both are read, in the meaning that the form has wherever it exists.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from isolde.tx.dialects import Dialect

if TYPE_CHECKING:
    from isolde.tx.expressions import Expression
    from isolde.tx.procedures import Program
    from isolde.tx.schema import Schema
    from isolde.tx.statements import Statement


@lru_cache(maxsize=8192)
def statement(text: str, dialect: Dialect, source: str = "sql", *, strict: bool = True) -> Statement:
    """The one statement that ``text`` says.

    >>> statement("SELECT a FROM t WHERE id = :i", Dialect.POSTGRESQL).where.right
    Parameter(name='i', place=Place(source='sql', line=1, column=28))
    """
    from isolde.tx.sql.statements import read_statement
    from isolde.tx.sql.text import Text

    return read_statement(Text(text, source, strict=strict), dialect)


@lru_cache(maxsize=1024)
def expression(text: str, dialect: Dialect, source: str = "sql", *, strict: bool = True) -> Expression:
    """The one expression that ``text`` says."""
    from isolde.tx.sql.statements import read_expression
    from isolde.tx.sql.text import Text

    return read_expression(Text(text, source, strict=strict), dialect)


def script(text: str, dialect: Dialect, source: str = "sql", *, strict: bool = True) -> list[Statement]:
    """The statements of ``text``, separated by semicolons."""
    return list(_script(text, dialect, source, strict))


@lru_cache(maxsize=256)
def _script(text: str, dialect: Dialect, source: str, strict: bool) -> tuple[Statement, ...]:
    from isolde.tx.sql.splitting import split
    from isolde.tx.sql.statements import read_statement
    from isolde.tx.sql.text import Text

    return tuple(read_statement(piece, dialect) for piece in split(Text(text, source, strict=strict), dialect))


@lru_cache(maxsize=256)
def schema(text: str, dialect: Dialect, source: str = "sql", *, strict: bool = True) -> Schema:
    """The tables that ``CREATE TABLE`` and ``CREATE UNIQUE INDEX`` statements make."""
    from isolde.tx.sql.ddl import read_schema
    from isolde.tx.sql.text import Text

    return read_schema(Text(text, source, strict=strict), dialect)


@lru_cache(maxsize=256)
def program(text: str, dialect: Dialect, source: str = "sql", *, strict: bool = True) -> Program:
    """Tables, procedures and invariants of an application."""
    from isolde.tx.sql.programs import read_program
    from isolde.tx.sql.text import Text

    return read_program(Text(text, source, strict=strict), dialect)


__all__ = ["expression", "program", "schema", "script", "statement"]
