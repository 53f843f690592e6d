"""So many sessions at once and no more, although there are more of them."""

from __future__ import annotations

import threading
from collections import deque


class Turns:
    """Entered by each session before a transaction and left after it; who has waited longest is next.

    A plain semaphore would let a session that is done take the next turn as well, before those who wait wake up.
    """

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()

    def __enter__(self) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            mine = threading.Event()
            self._waiting.append(mine)
        mine.wait()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._free += 1
