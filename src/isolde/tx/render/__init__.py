"""The transaction language back to SQL text of a dialect: for real databases, for messages, for people.

``render`` writes parameters as ``:name``, so that the text can be read again; ``rendered`` as the dialect's drivers want them.
A node whose meaning a dialect cannot say is refused (``OutsideFragment``), with one exception that changes nothing: SQLite has
one writer at a time, so ``FOR UPDATE`` is left out there.
"""

from __future__ import annotations

from functools import lru_cache
from typing import get_args

from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Expression
from isolde.tx.render.expressions import Marks, Writer
from isolde.tx.render.queries import write_select
from isolde.tx.render.statements import write_statement
from isolde.tx.render.tables import write_schema
from isolde.tx.schema import Schema
from isolde.tx.statements import Statement


def render(node: Statement | Expression, dialect: Dialect) -> str:
    """The text of a statement or an expression, with parameters as ``:name``.

    >>> from isolde.tx.sql import statement
    >>> render(statement("select a from t where a <=> :x lock in share mode", Dialect.MYSQL), Dialect.POSTGRESQL)
    'SELECT a FROM t WHERE a IS NOT DISTINCT FROM :x FOR SHARE'
    """
    writer = Writer(dialect, Marks.NAMES, write_select)
    if isinstance(node, get_args(Statement)):
        return write_statement(node, writer)
    return writer.expression(node)  # type: ignore[arg-type]


@lru_cache(maxsize=8192)
def rendered(statement: Statement, dialect: Dialect) -> tuple[str, tuple[str, ...]]:
    """The text with the marks of the dialect's drivers, and the parameter that each mark stands for, in order.

    PostgreSQL has ``$1 …``, MySQL ``%s`` (other percent signs are doubled if there is any parameter), SQLite ``?``.
    """
    writer = Writer(dialect, Marks.DRIVER, write_select)
    text = write_statement(statement, writer)
    if dialect is Dialect.MYSQL:
        text = text.replace("%", "%%") if writer.names else text
        text = text.replace(Writer.MYSQL_MARK, "%s")
    return text, tuple(writer.names)


def render_schema(schema: Schema, dialect: Dialect) -> list[str]:
    """The statements that make the tables, in an order that foreign keys allow."""
    return write_schema(schema, Writer(dialect, Marks.NAMES, write_select))


__all__ = ["render", "render_schema", "rendered"]
