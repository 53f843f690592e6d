"""JSON text that keeps decimals exact: the standard library would make floats of them, and so other numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any


class NumberText(str):
    """A number that no decimal can hold (an exponent of twenty digits), kept as it was written."""

    __slots__ = ()


def _number(text: str) -> Decimal | NumberText:
    try:
        return Decimal(text)
    except InvalidOperation:
        return NumberText(text)


# Made once: json.dumps makes a new one at each call that is not by its defaults.
_encoded = json.JSONEncoder(ensure_ascii=False).encode
DECODER = json.JSONDecoder(parse_float=_number)


def json_text(value: Any) -> str:
    """The value on one line, without blanks.

    >>> json_text({"a": [Decimal("0.10"), None, True]})
    '{"a":[0.10,null,true]}'
    """
    kind = type(value)
    if kind is int or kind is NumberText:
        return str(value)
    if kind is str:
        return _encoded(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_encoded(str(k))}:{json_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(json_text(element) for element in value) + "]"
    return _encoded(value)
