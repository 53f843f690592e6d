"""What a run relies on, proved by each connection before it is used: a driver's habit is not to be taken for an anomaly.

A rollback undoes; what is not committed is not seen by others; the level is the one that was asked for. A count of rows is
believed once it was seen to be right. All of it happens at keys that no workload uses, in transactions that are rolled back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress

from isolde.databases.contract import Offer
from isolde.databases.pep249_connection import DriverConnection
from isolde.databases.pep249_level import asked, fits
from isolde.errors import Aborted, ConnectionLost, DatabaseUnavailable, OutsideError
from isolde.levels import Level

_TRIES = 40
_PAUSE_S = 0.05
# A look that has not come back by now waits for the writer.
_LOOK_S = 0.5
_ABSENT = (b"null", b"[]")


class Proof:
    """The proofs of the connections of one database; ``connect`` makes another connection to it, without a proof."""

    def __init__(self, name: str, offer: Offer, question: str | None, connect: Callable[[], DriverConnection]) -> None:
        self._name, self._offer, self._question, self._connect = name, offer, question, connect
        self._key = 0
        self._lock = threading.Lock()
        self._readers_wait = False

    def of(self, connection: DriverConnection) -> None:
        """``DatabaseUnavailable`` if the connection is not what a run needs."""
        with self._lock:
            # A key of its own, and one beside it that stays absent: others prove themselves at the same time.
            self._key -= 2
            key = self._key
        for _ in range(_TRIES):
            try:
                return self._prove(connection, key)
            except Aborted as error:
                # Others are at work already, and this database lets one write at a time.
                reason = error.reason
                connection.rollback()
                time.sleep(_PAUSE_S)
        raise ConnectionLost(f"{self._name}: a first transaction was aborted {_TRIES} times: {reason}")

    def _prove(self, connection: DriverConnection, key: int) -> None:
        connection.begin(self._offer)
        self._check_level(connection)
        connection.insert(key, 1)
        connection.believe_counts(key, key + 1)
        dirty = not self._readers_wait and self._seen_by_another(key)
        connection.rollback()
        connection.begin(self._offer)
        left = connection.read(key)
        connection.rollback()
        if left not in _ABSENT:
            raise DatabaseUnavailable(
                f"{self._name}: a rollback undid nothing, so that every statement is a transaction of its own; switch the"
                " driver's autocommit off, in --connect or --setup, or begin transactions by --begin"
            )
        if dirty and self._offer.claims is not Level.READ_UNCOMMITTED:
            raise DatabaseUnavailable(
                f"{self._name}: another connection saw what was not committed; the level is no {self._offer.claims.value}"
            )

    def _check_level(self, connection: DriverConnection) -> None:
        if self._question is None:
            return
        found = asked(connection, self._question)
        if found is not None and not fits(found, self._offer.claims):
            raise DatabaseUnavailable(
                f"{self._name}: {self._offer.claims.value} was asked for, and the database says that the transactions run at"
                f" {found}; set the level by --begin or --setup, or ask for this one by --isolation"
            )

    def _seen_by_another(self, key: int) -> bool:
        """Whether another connection sees the key while the transaction that inserted it is open."""
        seen: list[bytes] = []
        over = threading.Event()

        def look() -> None:
            # One that is refused because of the writer has seen nothing.
            with suppress(OutsideError), closing(self._connect()) as other:
                other.begin(self._offer)
                seen.append(other.read(key))
                other.rollback()
            over.set()

        threading.Thread(target=look, daemon=True).start()
        if not over.wait(_LOOK_S):
            # It waits for the writer to end. So will all others, and to find that out once is enough.
            self._readers_wait = True
            return False
        return bool(seen) and seen[0] not in _ABSENT
