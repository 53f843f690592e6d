"""The line of one transaction, written while it runs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import NamedTuple

from isolde.engines.record.journal import Journal


class _Open(NamedTuple):
    """An operation without an answer: where it begins in the file, after which comma, and how it can be closed."""

    before: int
    comma: bytes
    if_applied: bytes
    if_not: bytes


class Line:
    """What is answered is gathered; what is about to be sent and could be seen by others is written down first."""

    __slots__ = ("_comma", "_journal", "_open", "_parts", "begun", "place")

    def __init__(
        self,
        journal: Journal,
        session: int,
        name: str | None = None,
        level: str | None = None,
        identity: str | None = None,
    ) -> None:
        self._journal = journal
        self.place = -1
        """Where the operation that was noted last stands among the transaction's."""
        self.begun = time.monotonic_ns()
        self._parts = [b'{"session":%d,"start":%d,' % (session, self.begun)]
        if identity is not None:
            self._parts.append(b'"id":%b,' % json.dumps(identity).encode())
        if name is not None:
            self._parts.append(b'"name":%b,' % json.dumps(name).encode())
        if level is not None:
            self._parts.append(b'"level":%b,' % json.dumps(level).encode())
        self._parts.append(b'"ops":[')
        self._comma = b""
        self._open: _Open | None = None

    def answered(self, operation: bytes) -> None:
        """An operation that is over."""
        self._parts += (self._comma, operation)
        self._comma = b","
        self.place += 1

    def intend(self, operation: bytes) -> None:
        """An operation, or its beginning, that is sent next."""
        self.answered(operation)
        self._flush()

    def intend_if_found(self, operation: bytes) -> Callable[[], None]:
        """An operation that is sent next and may turn out to be none; what is given takes it back."""
        before, comma = self._here(), self._comma
        self.intend(operation)

        def take_back() -> None:
            self._journal.cut(before)
            self._comma = comma
            self.place -= 1

        return take_back

    def begin(self, beginning: bytes, *, if_applied: bytes, if_not: bytes) -> None:
        """The beginning of an operation that is sent next, and that only its answer completes.

        If no answer comes, the end of the transaction does: with ``if_applied``, the rest of the operation as it was if the
        transaction took effect after all, or with ``if_not``, what it meant to do, in the operation's place.
        """
        self._open = _Open(self._here(), self._comma, if_applied, if_not)
        self.intend(beginning)

    def completed(self, rest: bytes) -> None:
        """The rest of an operation that was begun."""
        self._parts.append(rest)
        self._open = None

    def end(self, status: bytes) -> None:
        if self._open is not None:
            self._close(self._open, took_effect=status != b"aborted")
        self._parts.append(b'],"status":"%b","end":%d}\n' % (status, time.monotonic_ns()))
        self._flush()

    def _close(self, unanswered: _Open, *, took_effect: bool) -> None:
        if took_effect:
            self.completed(unanswered.if_applied)
            return
        self._journal.cut(unanswered.before)
        self.completed(unanswered.comma + unanswered.if_not)

    def _here(self) -> int:
        """Where in the file the next part will begin."""
        return self._journal.size() + sum(map(len, self._parts))

    def _flush(self) -> None:
        self._journal.put(b"".join(self._parts))
        self._parts.clear()
