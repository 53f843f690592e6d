"""Types of columns, variables and casts."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, NoReturn

from sqlglot import exp

from isolde.tx.dialects import Dialect
from isolde.tx.schema import BOOLEAN, DATE, FLOAT, TEXT, TIMESTAMP, Kind, Type
from isolde.tx.sql.text import Text
from isolde.tx.sql.trees import Reading, trees
from isolde.tx.sql.type_names import CASTS, COLUMNS, name_of

_T = exp.DataType.Type

_BITS = {
    _T.TINYINT: 8,
    _T.UTINYINT: 8,
    _T.SMALLINT: 16,
    _T.USMALLINT: 16,
    _T.SMALLSERIAL: 16,
    _T.MEDIUMINT: 24,
    _T.UMEDIUMINT: 24,
    _T.INT: 32,
    _T.UINT: 32,
    _T.SERIAL: 32,
    _T.BIGINT: 64,
    _T.UBIGINT: 64,
    _T.BIGSERIAL: 64,
}
_UNSIGNED = {_T.UTINYINT, _T.USMALLINT, _T.UMEDIUMINT, _T.UINT, _T.UBIGINT}
_SERIAL = {_T.SMALLSERIAL, _T.SERIAL, _T.BIGSERIAL}
_TEXTS = {_T.CHAR, _T.NCHAR, _T.VARCHAR, _T.NVARCHAR, _T.TEXT, _T.TINYTEXT, _T.MEDIUMTEXT, _T.LONGTEXT}
_FIXED = {_T.CHAR, _T.NCHAR}
_ZONED = {_T.TIMESTAMPTZ, _T.TIMESTAMPLTZ}
_TIMES = {_T.TIMESTAMP, _T.TIMESTAMPTZ, _T.TIMESTAMPLTZ, _T.TIMESTAMPNTZ, _T.DATETIME}


_KNOWN = {*_BITS, *_TEXTS, *_TIMES, _T.DATE, _T.BOOLEAN, _T.DECIMAL, _T.UDECIMAL, _T.DOUBLE, _T.FLOAT}


def is_serial(node: exp.DataType) -> bool:
    return node.this in _SERIAL


def column_type(node: exp.DataType, reading: Reading, *, cast: bool = False) -> Type:
    """The type that a ``DataType`` of sqlglot says; one that values of the language cannot have is refused by name.

    In a ``cast`` MySQL's CHAR is a text of any length, which is not padded.
    """
    reading.only(node, "this", "expressions", "nested")
    kind = node.this
    numbers = _numbers(node, reading) if kind is not _T.ENUM else ()
    if kind in _KNOWN:
        _as_named(node, numbers, reading, cast=cast)
    if kind is _T.BOOLEAN:
        return BOOLEAN
    if kind in _BITS:
        # SQLite keeps every integer in 64 bits, whatever the column is called; so is what MySQL casts to.
        wide = reading.dialect is Dialect.SQLITE or (cast and reading.dialect is Dialect.MYSQL)
        bits = 64 if wide else _BITS[kind]
        return Type(Kind.INTEGER, bits=bits, unsigned=kind in _UNSIGNED)
    if kind in {_T.DECIMAL, _T.UDECIMAL}:
        if kind is _T.UDECIMAL:
            raise reading.refuse(node, "an unsigned decimal", "use a CHECK")
        return _decimal(numbers, reading.dialect)
    if kind in {_T.DOUBLE, _T.FLOAT} and len(numbers) > 1 and reading.dialect is Dialect.MYSQL:
        raise reading.refuse(node, "a float with digits after the point", "use DECIMAL, or leave the size out")
    if kind is _T.DOUBLE and numbers and numbers[0] <= 24 and reading.dialect is Dialect.POSTGRESQL:
        # sqlglot takes PostgreSQL's FLOAT(n) for a DOUBLE, whatever its size.
        return Type(Kind.FLOAT, bits=32)
    if kind is _T.DOUBLE or (kind is _T.FLOAT and reading.dialect is Dialect.SQLITE):
        return FLOAT
    if kind is _T.FLOAT:
        if reading.dialect is Dialect.MYSQL and re.search(r"\bREAL\b", reading.prepared.text.content, re.IGNORECASE):
            # MySQL's REAL is a DOUBLE; sqlglot does not tell it from FLOAT.
            raise reading.refuse(node, "the type REAL", "use DOUBLE or FLOAT")
        return Type(Kind.FLOAT, bits=32 if not numbers or numbers[0] <= 24 else None)
    if kind in _FIXED and reading.dialect is not Dialect.SQLITE and not (cast and reading.dialect is Dialect.MYSQL):
        return Type(Kind.TEXT, length=numbers[0] if numbers else 1, fixed=True)
    if kind in _TEXTS:
        return Type(Kind.TEXT, length=numbers[0]) if numbers else TEXT
    if kind is _T.DATE:
        return DATE
    if kind in _TIMES:
        time = _time(numbers, reading.dialect)
        if kind in _ZONED and reading.dialect is Dialect.POSTGRESQL:
            return replace(time, kind=Kind.ZONED)
        return replace(time, moment=True) if kind in _ZONED and not cast else time
    instead = "use TIMESTAMP" if kind is _T.TIME else ""
    raise reading.refuse(node, f"the type {node.sql().upper()}", instead)


def _as_named(node: exp.DataType, numbers: tuple[int, ...], reading: Reading, *, cast: bool) -> None:
    """Tells a type that the dialect's database does not know by this name, or not with these sizes."""
    words, dialect = node.meta.get("words"), reading.dialect
    if words is None:
        return
    name = name_of(words)
    sizes = (CASTS if cast else COLUMNS)[dialect].get(name)
    where = "a CAST" if cast else "a column"
    if dialect is Dialect.SQLITE:
        if words[-1] != ")" and "(" in words:
            raise reading.malformed(node, f"the type {' '.join(words)}", "its size at the end")
        if sizes is None:
            # Any words are a type there.
            raise reading.refuse(node, f"the type {name}", "use INTEGER, REAL, NUMERIC or TEXT")
    limit = _LARGEST.get((dialect, name))
    if sizes is None:
        raise reading.malformed(
            node, f"the type {name}, which {dialect} does not have for {where}", _instead(node, dialect, cast=cast)
        )
    if len(numbers) not in sizes or (limit is not None and numbers and numbers[0] > limit):
        raise reading.malformed(node, f"the type {' '.join(words)}", f"{name} with a size that {dialect} has for it")


_LARGEST = {
    (Dialect.POSTGRESQL, "FLOAT"): 53,
    (Dialect.MYSQL, "FLOAT"): 53,
    (Dialect.MYSQL, "DATETIME"): 6,
    (Dialect.MYSQL, "TIMESTAMP"): 6,
}


def _instead(node: exp.DataType, dialect: Dialect, *, cast: bool) -> str:
    """A type of the dialect that has the values of this one."""
    kind, mysql = node.this, dialect is Dialect.MYSQL
    if kind in _BITS:
        if mysql and cast:
            return "UNSIGNED" if kind in _UNSIGNED else "SIGNED"
        return "INT or BIGINT" if mysql else "SMALLINT, INTEGER or BIGINT"
    if kind in _TEXTS:
        return ("CHAR" if cast else "VARCHAR with a length, or TEXT") if mysql else "VARCHAR or TEXT"
    if kind in {*_TIMES, _T.DATE}:
        return "DATETIME" if mysql else "TIMESTAMP"
    if kind is _T.BOOLEAN:
        return "SIGNED" if mysql and cast else "BOOLEAN"
    if kind in {_T.DECIMAL, _T.UDECIMAL}:
        return "DECIMAL"
    return "DOUBLE" if mysql else "DOUBLE PRECISION or REAL"


def time_written(node: exp.Expr, reading: Reading) -> Type | None:
    """The type of MySQL's DATE '…' and TIMESTAMP '…', which has as many digits of a second as are written."""
    if reading.dialect is not Dialect.MYSQL or not (isinstance(node.this, exp.Literal) and node.this.is_string):
        return None
    before, kind = reading.before(node.this), node.args["to"].this
    if kind is _T.DATE and before.word("DATE"):
        if not re.fullmatch(r"\d{4}-\d{1,2}-\d{1,2}", node.this.this):
            raise reading.malformed(node, f"DATE '{node.this.this}'", "DATE 'YYYY-MM-DD'")
        return DATE
    if kind not in _ZONED or not before.word("TIMESTAMP"):
        # It casts to DATETIME only.
        return None
    return _time((len(node.this.this.partition(".")[2].rstrip()),), Dialect.MYSQL)


def _time(numbers: tuple[int, ...], dialect: Dialect) -> Type:
    # Without a size, MySQL's has whole seconds only, and PostgreSQL's has all six digits. SQLite's says nothing.
    digits = numbers[0] if numbers else (0 if dialect is Dialect.MYSQL else 6)
    return TIMESTAMP if digits >= 6 or dialect is Dialect.SQLITE else Type(Kind.TIMESTAMP, precision=digits)


def _decimal(numbers: tuple[int, ...], dialect: Dialect) -> Type:
    if not numbers and dialect is Dialect.MYSQL:
        numbers = (10, 0)
    precision = numbers[0] if numbers else None
    scale = numbers[1] if len(numbers) > 1 else (0 if numbers else None)
    return Type(Kind.DECIMAL, precision=precision, scale=scale)


def _numbers(node: exp.DataType, reading: Reading) -> tuple[int, ...]:
    sizes = []
    for part in node.expressions:
        size = part.this if isinstance(part, exp.DataTypeParam) else part
        if not (isinstance(size, exp.Literal) and not size.is_string and str(size.this).isdigit()):
            raise reading.refuse(node, f"the type {node.sql().upper()}")
        sizes.append(int(str(size.this)))
    return tuple(sizes)


def read_column_type(text: Text, dialect: Dialect) -> Type:
    """A type alone, as it stands in a declaration: read as that of a column."""
    parsed, reading = trees(text.surrounded("CREATE TABLE t (c ", ")"), dialect, _no_query)
    columns = parsed[0].this.expressions if len(parsed) == 1 and isinstance(parsed[0], exp.Create) else []
    kind = columns[0].args.get("kind") if len(columns) == 1 and isinstance(columns[0], exp.ColumnDef) else None
    if not isinstance(kind, exp.DataType) or columns[0].args.get("constraints"):
        raise text.malformed(0, f"'{text.content.strip()[:40]}'", "a type")
    return column_type(kind, reading)


def _no_query(_: Any, reading: Reading) -> NoReturn:
    raise reading.prepared.text.malformed(0, "a query", "a type")
