"""SQL text to the transaction language, in the dialects of PostgreSQL, MySQL/MariaDB and SQLite.

``statement`` reads one statement, ``script`` several, ``schema`` tables, ``program`` an application with its procedures. Results
are cached by text: nodes are frozen. What the language cannot say is refused by name (``OutsideFragment``); what is no SQL
is ``MalformedProgram``. sqlglot is imported at the first text that is read, not before.
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
def statement(text: str, dialect: Dialect, source: str = "sql") -> Statement:
    """The one statement that ``text`` says.

    >>> statement("SELECT a FROM t WHERE id = :i", Dialect.POSTGRESQL).where.right
    Parameter(name='i', place=Place(source='sql', line=1, column=28))
    """
    from isolde.tx.sql.statements import read_statement
    from isolde.tx.sql.text import Text

    return read_statement(Text(text, source), dialect)


@lru_cache(maxsize=1024)
def expression(text: str, dialect: Dialect, source: str = "sql") -> Expression:
    """The one expression that ``text`` says."""
    from isolde.tx.sql.statements import read_expression
    from isolde.tx.sql.text import Text

    return read_expression(Text(text, source), dialect)


def script(text: str, dialect: Dialect, source: str = "sql") -> list[Statement]:
    """The statements of ``text``, separated by semicolons."""
    return list(_script(text, dialect, source))


@lru_cache(maxsize=256)
def _script(text: str, dialect: Dialect, source: str) -> tuple[Statement, ...]:
    from isolde.tx.sql.splitting import split
    from isolde.tx.sql.statements import read_statement
    from isolde.tx.sql.text import Text

    return tuple(read_statement(piece, dialect) for piece in split(Text(text, source), dialect))


@lru_cache(maxsize=256)
def schema(text: str, dialect: Dialect, source: str = "sql") -> Schema:
    """The tables that ``CREATE TABLE`` and ``CREATE UNIQUE INDEX`` statements make."""
    from isolde.tx.sql.ddl import read_schema
    from isolde.tx.sql.text import Text

    return read_schema(Text(text, source), dialect)


@lru_cache(maxsize=256)
def program(text: str, dialect: Dialect, source: str = "sql") -> Program:
    """Tables, procedures and invariants of an application."""
    from isolde.tx.sql.programs import read_program
    from isolde.tx.sql.text import Text

    return read_program(Text(text, source), dialect)


__all__ = ["expression", "program", "schema", "script", "statement"]
