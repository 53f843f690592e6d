"""Functions by the names that a database has for them: what it does not have is no SQL of its dialect.

sqlglot knows the names of all databases at once, takes ``NVL`` for ``COALESCE`` in all of them, and drops an argument too many.
So it is left to find calls only (``trees.py``), and what they mean is said here.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Function


@dataclass(frozen=True, slots=True)
class Named:
    """A function under one of its names, with so many arguments; ``since``: the version of the database that it came with."""

    function: Function
    least: int = 1
    most: int | None = 1
    since: tuple[int, int] = (0, 0)


_EVERYWHERE = {
    "ABS": Named(Function.ABS),
    "CEIL": Named(Function.CEILING),
    "CEILING": Named(Function.CEILING),
    "FLOOR": Named(Function.FLOOR),
    "LOWER": Named(Function.LOWER),
    "NULLIF": Named(Function.NULLIF, 2, 2),
    "ROUND": Named(Function.ROUND, 1, 2),
    "SIGN": Named(Function.SIGN),
    "SUBSTR": Named(Function.SUBSTRING, 2, 3),
    "SUBSTRING": Named(Function.SUBSTRING, 2, 3),
    "TRIM": Named(Function.TRIM),
    "UPPER": Named(Function.UPPER),
}
_IFNULL = Named(Function.COALESCE, 2, 2)

FUNCTIONS = MappingProxyType(
    {
        Dialect.POSTGRESQL: _EVERYWHERE
        | {
            "BTRIM": Named(Function.TRIM),
            "CHARACTER_LENGTH": Named(Function.CHARACTER_LENGTH),
            "CHAR_LENGTH": Named(Function.CHARACTER_LENGTH),
            "COALESCE": Named(Function.COALESCE, 1, None),
            "CONCAT": Named(Function.CONCAT, 1, None),
            "GREATEST": Named(Function.GREATEST, 1, None),
            "LEAST": Named(Function.LEAST, 1, None),
            "LENGTH": Named(Function.CHARACTER_LENGTH),
            "NOW": Named(Function.NOW, 0, 0),
        },
        Dialect.MYSQL: _EVERYWHERE
        | {
            "CHARACTER_LENGTH": Named(Function.CHARACTER_LENGTH),
            "CHAR_LENGTH": Named(Function.CHARACTER_LENGTH),
            "COALESCE": Named(Function.COALESCE, 1, None),
            "CONCAT": Named(Function.CONCAT, 1, None),
            "CURRENT_TIMESTAMP": Named(Function.NOW, 0, 0),
            "GREATEST": Named(Function.GREATEST, 2, None),
            "IF": Named(Function.IF, 3, 3),
            "IFNULL": _IFNULL,
            "LCASE": Named(Function.LOWER),
            "LEAST": Named(Function.LEAST, 2, None),
            "NOW": Named(Function.NOW, 0, 0),
            "NVL": _IFNULL,
            "UCASE": Named(Function.UPPER),
        },
        Dialect.SQLITE: _EVERYWHERE
        | {
            "COALESCE": Named(Function.COALESCE, 2, None),
            "CONCAT": Named(Function.CONCAT, 1, None, since=(3, 44)),
            "IF": Named(Function.IF, 3, 3, since=(3, 48)),
            "IFNULL": _IFNULL,
            "IIF": Named(Function.IF, 3, 3),
            "LENGTH": Named(Function.CHARACTER_LENGTH),
            "MAX": Named(Function.GREATEST, 2, None),
            "MIN": Named(Function.LEAST, 2, None),
        },
    }
)
"""Some more are no functions of the language: MOD is ``%``, and ISNULL a test."""

_INSTEAD = {
    "CHARACTER_LENGTH": "LENGTH",
    "CHAR_LENGTH": "LENGTH",
    "CURRENT_TIMESTAMP": "CURRENT_TIMESTAMP without parentheses",
    "IIF": "CASE",
    "IF": "CASE",
    "ISNULL": "IS NULL",
    "LCASE": "LOWER",
    "NOW": "CURRENT_TIMESTAMP",
    "UCASE": "UPPER",
}


OUTSIDE = MappingProxyType(
    {
        "GROUP_CONCAT": ("GROUP_CONCAT", "loop over the rows"),
        **{
            name: (f"the function {name}", "use INSERT … RETURNING")
            for name in ("LAST_INSERT_ID", "LASTVAL", "CURRVAL")
        },
        "NEW_ID": ("the function NEW_ID", "declare the column as generated and leave it out"),
        "NEXTVAL": ("the function NEXTVAL", "declare the column as generated and leave it out"),
        "RAND": ("a random number", "give it as a parameter"),
        "RANDOM": ("a random number", "give it as a parameter"),
        "ROW_COUNT": (
            "the function ROW_COUNT",
            "in a procedure, assign it right after the statement: SET n = ROW_COUNT()",
        ),
    }
)
"""Functions that a database has and the language does not, with what to write instead."""


def instead_of(name: str, dialect: Dialect) -> str | None:
    """What a dialect has that does what a function of another does; ``None`` if no dialect has such a function."""
    if name in _INSTEAD:
        return _INSTEAD[name]
    meant = next((named[name].function for named in FUNCTIONS.values() if name in named), None)
    if meant is None:
        return None
    return next(
        (own for own, named in FUNCTIONS[dialect].items() if named.function is meant), f"a function of {dialect}"
    )
