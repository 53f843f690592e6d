"""Statements with the placeholders of a driver as the history format has them: ``?``, and their values in order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from isolde.errors import UsageError

# What is inside of quotes or comments is no placeholder. PostgreSQL's casts (``::int``) are no names.
_SKIPPED = r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/"
_PERCENT = re.compile(rf"(?P<skipped>{_SKIPPED})|%%|%s|%\((?P<name>[^)]+)\)s", re.DOTALL)
_COLON = re.compile(rf"(?P<skipped>{_SKIPPED})|::|(?<![\w:]):(?P<name>[A-Za-z_]\w*)|\?(?P<number>\d*)", re.DOTALL)


def percent_style(text: str, given: Any) -> tuple[str, list[Any]]:
    """``%s`` and ``%(name)s``, as psycopg and PyMySQL take them; without parameters a percent sign is one.

    >>> percent_style("SELECT %s, '%s', 5 %% 2 WHERE a = %(x)s", {"x": 1})
    Traceback (most recent call last):
    ...
    isolde.errors.UsageError: a statement mixes %s and %(name)s; it is not recorded: SELECT %s, '%s', 5 %% 2 WHERE a = %(x)s
    >>> percent_style("SELECT a FROM t WHERE b = %s AND c = 'x%%'", (7,))
    ("SELECT a FROM t WHERE b = ? AND c = 'x%'", [7])
    """
    if given is None:
        return text, []
    values: list[Any] = []
    left = list(given) if isinstance(given, Sequence) and not isinstance(given, str | bytes) else None

    def replaced(found: re.Match[str]) -> str:
        if found["skipped"]:
            # The driver looks into quotes as well, and halves percent signs there.
            return found["skipped"].replace("%%", "%")
        if found[0] == "%%":
            return "%"
        if found["name"] is not None:
            if not isinstance(given, Mapping):
                raise UsageError(f"a statement has names, and its parameters have none; it is not recorded: {text}")
            values.append(given[found["name"]])
        elif left is None:
            raise UsageError(f"a statement mixes %s and %(name)s; it is not recorded: {text}")
        else:
            values.append(left[len(values)] if len(values) < len(left) else None)
        return "?"

    return _PERCENT.sub(replaced, text), values


def colon_style(text: str, given: Any) -> tuple[str, list[Any]]:
    """``?``, ``?1`` and ``:name``, as sqlite3 takes them.

    >>> colon_style("SELECT :a, ':b', :a", {"a": 1})
    ("SELECT ?, ':b', ?", [1, 1])
    >>> colon_style("SELECT ?2, ?1", (1, 2))
    ('SELECT ?, ?', [2, 1])
    """
    if not given:
        return text, []
    values: list[Any] = []

    def replaced(found: re.Match[str]) -> str:
        if found["skipped"] or found[0] == "::":
            return found[0]
        if found["name"] is not None:
            values.append(given[found["name"]] if isinstance(given, Mapping) else given[len(values)])
        else:
            number = found["number"]
            values.append(given[int(number) - 1 if number else len(values)])
        return "?"

    return _COLON.sub(replaced, text), values
