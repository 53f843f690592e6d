"""Where sessions meet between rounds."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Gate:
    """All sessions that are still there arrive; the last one does something while all are quiet; all go on.

    A session that ends leaves, so that nobody waits for it.
    """

    def __init__(self, parties: int, when_quiet: Callable[[], None]) -> None:
        self._parties, self._waiting, self._round = parties, 0, 0
        self._when_quiet = when_quiet
        self._changed = threading.Condition()

    def arrive(self) -> None:
        """Waits for the others."""
        with self._changed:
            current = self._round
            self._waiting += 1
            self._open_if_all()
            while current == self._round:
                self._changed.wait()

    def leave(self) -> None:
        """This session does not come any more."""
        with self._changed:
            self._parties -= 1
            self._open_if_all()

    def _open_if_all(self) -> None:
        if self._parties and self._waiting == self._parties:
            try:
                self._when_quiet()
            finally:
                # Whatever became of it, the others are not to wait for ever.
                self._waiting = 0
                self._round += 1
                self._changed.notify_all()
