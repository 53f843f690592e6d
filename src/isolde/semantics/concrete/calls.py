"""Functions that dialects share."""

from __future__ import annotations

from typing import Any


def greatest(*values: Any) -> Any:
    """The greatest of those that are not null (PostgreSQL)."""
    return max((value for value in values if value is not None), default=None)


def least(*values: Any) -> Any:
    return min((value for value in values if value is not None), default=None)
