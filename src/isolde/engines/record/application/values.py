"""Values of SQL columns as they stand in a history."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal


def as_json(value: object) -> bytes:
    return _text(value).encode()


def _text(value: object) -> str:
    """JSON with decimals as numbers of all their digits, which Python's own writer cannot."""
    match value:
        case Decimal():
            return format(value, "f")
        case list() | tuple():
            return "[" + ",".join(_text(part) for part in value) + "]"
        case datetime():
            return json.dumps(value.isoformat(sep=" "))
        case None | bool() | int() | float() | str():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return json.dumps(str(value), ensure_ascii=False)
