"""Types by the names that a database has for them: what it does not have is no SQL of its dialect.

sqlglot knows the types of all databases at once, so that a name alone says nothing about the dialect. SQLite takes any words for
a type and makes an affinity of them; those are read whose affinity is that of the type that the words say.
"""

from __future__ import annotations

from types import MappingProxyType

from isolde.tx.dialects import Dialect

_Sizes = tuple[int, ...]
_NONE: _Sizes = (0,)
_ONE: _Sizes = (0, 1)
_TWO: _Sizes = (0, 1, 2)


def _named(names: str, sizes: _Sizes) -> dict[str, _Sizes]:
    return dict.fromkeys(names.split("|"), sizes)


_POSTGRESQL = (
    _named(
        "SMALLINT|INT|INTEGER|BIGINT|INT2|INT4|INT8|TEXT|DATE|BOOLEAN|BOOL|REAL|FLOAT4|FLOAT8|DOUBLE PRECISION", _NONE
    )
    | _named("VARCHAR|CHARACTER VARYING|CHAR VARYING|CHAR|CHARACTER|NCHAR|FLOAT", _ONE)
    | _named("TIMESTAMP|TIMESTAMP WITHOUT TIME ZONE|TIMESTAMP WITH TIME ZONE|TIMESTAMPTZ", _ONE)
    | _named("DECIMAL|DEC|NUMERIC", _TWO)
)
_MYSQL_INTEGERS = "TINYINT|SMALLINT|MEDIUMINT|INT|INTEGER|BIGINT|INT1|INT2|INT4|INT8"
_MYSQL = (
    _named(_MYSQL_INTEGERS, _ONE)
    | {f"{name} UNSIGNED": _ONE for name in _MYSQL_INTEGERS.split("|")}
    | _named("TINYTEXT|MEDIUMTEXT|LONGTEXT|LONG|BOOLEAN|BOOL|DATE", _NONE)
    | _named("TEXT|CHAR|CHARACTER|NCHAR|DATETIME|TIMESTAMP", _ONE)
    | _named("VARCHAR|CHARACTER VARYING|CHAR VARYING|NVARCHAR", (1,))
    | _named("DOUBLE|DOUBLE PRECISION|REAL|FLOAT8", (0, 2))
    | _named("FLOAT|FLOAT4|DECIMAL|DEC|NUMERIC|FIXED|DECIMAL UNSIGNED", _TWO)
    | _named("SERIAL", _NONE)
)
_MYSQL_CASTS = (
    _named("SIGNED|UNSIGNED|SIGNED INTEGER|UNSIGNED INTEGER|INT|INTEGER|INT4|FLOAT|FLOAT4|DATE", _NONE)
    | _named("CHAR|CHARACTER|NCHAR|DATETIME", _ONE)
    | _named("VARCHAR", (1,))
    | _named("DOUBLE|FLOAT8", (0, 2))
    | _named("DECIMAL|DEC", _TWO)
)
_SQLITE = (
    _named(_MYSQL_INTEGERS, _TWO)
    | {f"{name} UNSIGNED": _TWO for name in _MYSQL_INTEGERS.split("|")}
    | _named("TINYTEXT|MEDIUMTEXT|LONGTEXT|TEXT|CLOB|BOOLEAN|BOOL|DATE|DATETIME|TIMESTAMP|TIMESTAMPTZ", _TWO)
    | _named("VARCHAR|CHARACTER VARYING|CHAR VARYING|NVARCHAR|VARCHAR2|NVARCHAR2|CHAR|CHARACTER|NCHAR", _TWO)
    | _named("DOUBLE|DOUBLE PRECISION|REAL|FLOAT|FLOAT4|FLOAT8|DECIMAL|DEC|NUMERIC|FIXED|NUMBER", _TWO)
    | _named("TIMESTAMP WITHOUT TIME ZONE|TIMESTAMP WITH TIME ZONE", _NONE)
)
_SERIAL = _named("SERIAL|BIGSERIAL|SMALLSERIAL", _NONE)

COLUMNS = MappingProxyType({Dialect.POSTGRESQL: _POSTGRESQL | _SERIAL, Dialect.MYSQL: _MYSQL, Dialect.SQLITE: _SQLITE})
CASTS = MappingProxyType({Dialect.POSTGRESQL: _POSTGRESQL, Dialect.MYSQL: _MYSQL_CASTS, Dialect.SQLITE: _SQLITE})
"""How many sizes a type may have, by its name: that of a column, and that of a CAST, for which MySQL has its own."""


def name_of(words: tuple[str, ...]) -> str:
    """The name in the words of a type, without its sizes: ``TIMESTAMP ( 3 ) WITHOUT TIME ZONE``, and MySQL's SIGNED."""
    kept: list[str] = []
    depth = 0
    for word in words:
        depth += word == "("
        if depth == 0:
            kept.append(word)
        depth -= word == ")"
    name = " ".join(kept).partition(" CHARACTER SET ")[0].partition(" CHARSET ")[0]
    return name.removesuffix(" SIGNED")
