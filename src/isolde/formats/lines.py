"""Where a transaction stands in its file, for messages: found when somebody asks, since hardly anybody does."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache

from isolde._core import AS_USUAL, Input, Reading
from isolde.errors import IsoldeError
from isolde.formats.known import JSONL, recognised
from isolde.formats.recording import finished, is_recording
from isolde.history import History, TxnId


def places_in(path: str, history: History, reading: Reading = AS_USUAL) -> Callable[[TxnId], str]:
    """Gives ``log.jsonl:7`` for a transaction of the history that was read from ``path``; empty where there are no lines."""

    @cache
    def lines() -> dict[TxnId, int]:
        return {one.id: line for one, line in zip(history.transactions, _lines(path, reading), strict=False)}

    def place(transaction: TxnId) -> str:
        line = lines().get(transaction)
        return "" if line is None else f"{finished(path) or path}:{line}"

    return place


def _lines(path: str, reading: Reading) -> list[int]:
    """The lines of the transactions of a file of JSON Lines, from 1; none of other files and of what is read once."""
    if is_recording(path):
        path = finished(path) or "-"
    if path == "-":
        return []
    try:
        source = Input.open(path)
        found = recognised(source.head)
        content = source.content(reading) if found is not None and found.name == JSONL else b""
    except IsoldeError:
        return []
    return [number for number, text in enumerate(content.split(b"\n"), 1) if text.strip() and _is_transaction(text)]


def _is_transaction(text: bytes) -> bool:
    """Neither the header nor a line of versions: both begin with their name, unless somebody else wrote them."""
    try:
        return bool(json.loads(text).keys().isdisjoint({"isolde", "versions"}))
    except (ValueError, AttributeError, RecursionError):
        return False
