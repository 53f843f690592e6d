"""What a database holds when a run is over."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

from isolde.databases import Connection, Database, Offer, Table
from isolde.databases.waiting import patiently
from isolde.errors import Aborted, ConnectionLost, DatabaseUnavailable, OutsideError
from isolde.history import Key, Value

_TRIES = 20


def _read(connection: Connection, offer: Offer, key: int) -> Value:
    for _ in range(_TRIES):
        try:
            connection.begin(offer)
            raw = json.loads(connection.read(key))
            connection.commit()
        except Aborted:
            connection.rollback()
        else:
            return tuple(raw) if isinstance(raw, list) else raw
    raise OutsideError(f"the database aborted a read of the key {key} {_TRIES} times with nobody else there")


def final_state(
    database: Database, table: Table, offer: Offer, keys: Iterable[int], patience_s: float
) -> dict[Key, Value]:
    """The value of each key, read one by one with nobody else there; tries again for a while if the database is away."""
    state: dict[Key, Value] = {}
    deadline = time.monotonic() + patience_s
    connection: Connection | None = None
    try:
        for key in keys:
            while key not in state:
                try:
                    if connection is None:
                        connection = database.connect(table)
                    with patiently(connection):
                        state[key] = _read(connection, offer, key)
                except (ConnectionLost, DatabaseUnavailable):
                    if connection is not None:
                        connection.close()
                        connection = None
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.1)
    finally:
        if connection is not None:
            connection.close()
    return state
