"""The SQL of a call of the handle: its text, and what its parameters are given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isolde.errors import MalformedProgram, OutsideFragment
from isolde.tx.dialects import Dialect
from isolde.tx.expressions import Literal, Parameter
from isolde.tx.place import Place
from isolde.tx.rewrite import rewritten
from isolde.tx.sql import statement
from isolde.tx.statements import Statement


def read_at(sql: str, dialect: Dialect, place: Place) -> Statement:
    """The statement; what is wrong with it is told at this place of the function."""
    try:
        return statement(sql, dialect, str(place))
    except OutsideFragment as error:
        raise OutsideFragment(str(place), error.what, error.instead) from None
    except MalformedProgram as error:
        raise MalformedProgram(str(place), error.found, error.expected) from None


def with_arguments(sql: Statement, given: Mapping[str, Parameter | Literal]) -> tuple[Statement, list[str], list[str]]:
    """The statement of the function's own variables; the parameters that are given nothing, and what is given to none."""
    used: dict[str, None] = {}

    def change(found: Any) -> Any:
        if not isinstance(found, Parameter):
            return found
        used[found.name] = None
        return given.get(found.name, found)

    bound = rewritten(sql, change)
    return bound, [name for name in used if name not in given], sorted(set(given) - set(used))
