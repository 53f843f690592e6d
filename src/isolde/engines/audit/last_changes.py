"""Which transactions of a log wrote a row last, as far as the log tells.

The log is run again in the order in which its clients were answered. Nobody looks at the answers: where the database let
transactions overlap in a way that it should not have, they could not all be right.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import replace

from isolde.engines.audit.log import Entry, Log, log_of
from isolde.engines.audit.replay import Mismatch, Replay
from isolde.formats.tables import SqlHistory
from isolde.history import TxnId

KeyedRow = tuple[str, tuple[str, ...]]
"""A row by the name of its table and its primary key, each value as text."""


def last_changes(
    history: SqlHistory, wanted: Collection[KeyedRow], until: int | None = None, most: int = 2
) -> dict[KeyedRow, tuple[TxnId, ...]]:
    """The last committed transactions that wrote these rows, the latest one last, at most so many a row.

    ``until`` leaves out what was answered later, by the clock of the log. Statements that the language cannot say are passed
    over, and so are transactions of unknown outcome. Time is linear in the log.
    """
    log = log_of(history, skip_unsupported=True)
    keys = _keys(log, {table for table, _ in wanted})
    found: dict[KeyedRow, deque[TxnId]] = {row: deque(maxlen=most) for row in wanted}
    replay = Replay(log)
    for entry in log.entries:
        if entry.maybe or (until is not None and entry.end is not None and entry.end > until):
            continue
        for row in _written(replay, entry, keys):
            if row in found:
                found[row].append(entry.id)
    return {row: tuple(names) for row, names in found.items() if names}


def _keys(log: Log, tables: Collection[str]) -> dict[int, tuple[str, tuple[int, ...]]]:
    """The tables by position, each with the places of its primary key."""
    infos = [log.store.catalog.table(name) for name in tables]
    return {
        info.position: (info.table.name, tuple(info.column(column) for column in info.table.primary_key))
        for info in infos
    }


def _written(replay: Replay, entry: Entry, keys: dict[int, tuple[str, tuple[int, ...]]]) -> list[KeyedRow]:
    """The rows of these tables that a transaction leaves behind; its effects become part of the current rows."""
    asks = tuple(replace(ask, free=True) for ask in entry.asks)
    kept = replay.kept(replace(entry, asks=asks))
    if isinstance(kept, Mismatch):
        return []
    written = []
    for (position, _), row in kept[0].items():
        if row is not None and position in keys:
            table, places = keys[position]
            written.append((table, tuple(str(row[place]) for place in places)))
    return written
