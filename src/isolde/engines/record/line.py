"""The line of one transaction, written while it runs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from isolde.engines.record.journal import Journal


class Line:
    """What is answered is gathered; what is about to be sent and could be seen by others is written down first."""

    __slots__ = ("_comma", "_journal", "_parts")

    def __init__(self, journal: Journal, session: int, name: str | None = None) -> None:
        self._journal = journal
        self._parts = [b'{"session":%d,"start":%d,' % (session, time.monotonic_ns())]
        if name is not None:
            self._parts.append(b'"name":%b,' % json.dumps(name).encode())
        self._parts.append(b'"ops":[')
        self._comma = b""

    def answered(self, operation: bytes) -> None:
        """An operation that is over."""
        self._parts += (self._comma, operation)
        self._comma = b","

    def intend(self, operation: bytes) -> None:
        """An operation, or its beginning, that is sent next."""
        self.answered(operation)
        self._flush()

    def intend_if_found(self, operation: bytes) -> Callable[[], None]:
        """An operation that is sent next and may turn out to be none; what is given takes it back."""
        self._flush()
        before, comma = self._journal.size(), self._comma
        self.intend(operation)

        def take_back() -> None:
            self._journal.cut(before)
            self._comma = comma

        return take_back

    def completed(self, rest: bytes) -> None:
        """The rest of an operation that was begun."""
        self._parts.append(rest)

    def end(self, status: bytes) -> None:
        self._parts.append(b'],"status":"%b","end":%d}\n' % (status, time.monotonic_ns()))
        self._flush()

    def _flush(self) -> None:
        self._journal.put(b"".join(self._parts))
        self._parts.clear()
