"""Types in the words of a dialect."""

from __future__ import annotations

from typing import assert_never

from isolde.errors import OutsideFragment
from isolde.tx.dialects import Dialect
from isolde.tx.schema import Kind, Type

_MYSQL_INTEGERS = {8: "TINYINT", 16: "SMALLINT", 24: "MEDIUMINT", 32: "INT", 64: "BIGINT"}


def column_type(type_: Type, dialect: Dialect, *, key: bool = False) -> str:
    """The type of a column. MySQL cannot have a TEXT as a key: there, one without a length is a VARCHAR."""
    match type_.kind:
        case Kind.BOOLEAN:
            return "BOOLEAN"
        case Kind.INTEGER:
            return _integer(type_, dialect)
        case Kind.DECIMAL:
            return _decimal(type_, dialect)
        case Kind.FLOAT:
            return _float(type_, dialect)
        case Kind.TEXT:
            if type_.fixed:
                return f"CHAR({type_.length})"
            length = type_.length or (255 if key and dialect is Dialect.MYSQL else None)
            return f"VARCHAR({length})" if length else "TEXT"
        case Kind.DATE:
            return "DATE"
        case Kind.TIMESTAMP | Kind.ZONED:
            return _time(type_, dialect)
        case _:
            assert_never(type_.kind)


def cast_type(type_: Type, dialect: Dialect) -> str:
    """The type of a CAST, for which MySQL has its own words."""
    if dialect is not Dialect.MYSQL:
        return column_type(type_, dialect)
    match type_.kind:
        case Kind.INTEGER if (type_.bits or 64) == 64:
            return "UNSIGNED" if type_.unsigned else "SIGNED"
        case Kind.TEXT:
            return f"CHAR({type_.length})" if type_.length else "CHAR"
        case Kind.DECIMAL | Kind.FLOAT | Kind.DATE | Kind.TIMESTAMP:
            return column_type(type_, dialect)
        case _:
            raise OutsideFragment(
                dialect, f"a CAST to {column_type(type_, dialect)}", "MySQL has CASTs to 64-bit integers"
            )


def _integer(type_: Type, dialect: Dialect) -> str:
    bits = type_.bits or 64
    if dialect is Dialect.SQLITE:
        # INTEGER as a primary key would be SQLite's row id, which numbers itself.
        return "INT"
    if dialect is Dialect.MYSQL:
        return _MYSQL_INTEGERS[bits] + (" UNSIGNED" if type_.unsigned else "")
    bits += type_.unsigned
    return "SMALLINT" if bits <= 16 else "INTEGER" if bits <= 32 else "BIGINT" if bits <= 64 else "NUMERIC(20, 0)"


def _decimal(type_: Type, dialect: Dialect) -> str:
    word = "NUMERIC" if dialect is Dialect.POSTGRESQL else "DECIMAL"
    if type_.precision is not None:
        return f"{word}({type_.precision}, {type_.scale or 0})"
    return "DECIMAL(65, 30)" if dialect is Dialect.MYSQL else word


def _time(type_: Type, dialect: Dialect) -> str:
    if dialect is Dialect.MYSQL:
        digits = 6 if type_.precision is None else type_.precision
        word = "TIMESTAMP" if type_.moment or type_.kind is Kind.ZONED else "DATETIME"
        return f"{word}({digits})" if digits else word
    if dialect is Dialect.SQLITE:
        return "TIMESTAMP"
    word = "TIMESTAMP" if type_.precision is None else f"TIMESTAMP({type_.precision})"
    return f"{word} WITH TIME ZONE" if type_.kind is Kind.ZONED else word


def _float(type_: Type, dialect: Dialect) -> str:
    if dialect is Dialect.POSTGRESQL:
        return "REAL" if type_.bits == 32 else "DOUBLE PRECISION"
    if dialect is Dialect.MYSQL:
        return "FLOAT" if type_.bits == 32 else "DOUBLE"
    return "REAL"
