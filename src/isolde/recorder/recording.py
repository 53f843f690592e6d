"""The file of a recording: transactions of all connections, a line each, written when they end."""

from __future__ import annotations

import itertools
import json
import re
import threading
import time
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

from isolde.errors import not_written
from isolde.history.json_text import json_text
from isolde.history.schedule import values_of

_ABOUT_THE_SERVER = re.compile(
    r"\s*(pragma|show|set|explain|begin|start\s+transaction|commit|rollback\s*;?\s*$|abort|end)\b", re.I
)
_CATALOGUES = re.compile(r"\b(pg_catalog|information_schema|sqlite_master|sqlite_schema)\b", re.I)


class Recording:
    """One file. Sessions may be on any threads; a line is written whole and at once, so that nothing that ended is lost."""

    def __init__(self, path: str, header: Mapping[str, Any]) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._sessions = itertools.count(1)
        self._numbers = itertools.count(1)
        self._file = self._opened(header)

    def _opened(self, header: Mapping[str, Any]) -> BinaryIO:
        try:
            file = Path(self.path).open("wb", buffering=0)  # noqa: SIM115 - it stays open as long as the recording
            file.write(_line({"isolde": "history", "version": 1, **header}))
        except OSError as error:
            raise not_written(f"{self.path}: {error.strerror}; choose another place for the recording", error) from None
        return file

    def session(self) -> Session:
        """A session for one connection."""
        return Session(self, next(self._sessions))

    def write(self, transaction: dict[str, Any]) -> None:
        """Adds a transaction that ended."""
        with self._lock:
            line = _line({"id": next(self._numbers), **transaction})
            try:
                self._file.write(line)
            except OSError as error:
                raise not_written(f"{self.path}: {error.strerror}; the recording ends here", error) from None


class Session:
    """What one connection did: the transaction that is open, if one is."""

    def __init__(self, recording: Recording, number: int) -> None:
        self.recording, self.number = recording, number
        self._ops: list[dict[str, Any]] = []
        self._begun: int | None = None

    @property
    def open(self) -> bool:
        """Whether a statement was run that no end was seen of."""
        return self._begun is not None

    def begin(self) -> int:
        """The moment before a statement is sent: the transaction's beginning, if it is the first."""
        now = time.monotonic_ns()
        if self._begun is None:
            self._begun = now
        return now

    def ran(self, content: dict[str, Any], begun: int) -> None:
        """A statement or a call that came back, with what it gave; settings and looks at catalogues are no part of a history."""
        if _ABOUT_THE_SERVER.match(str(content.get("sql", ""))) or _CATALOGUES.search(str(content.get("sql", ""))):
            return
        self._ops.append({**content, "start": begun, "end": time.monotonic_ns()})

    def ended(self, status: str) -> None:
        """The transaction is over: ``committed``, ``aborted``, or ``unknown`` where nobody was told."""
        begun, ops = self._begun, self._ops
        self._begun, self._ops = None, []
        if begun is not None and ops:
            self.recording.write(
                {"session": self.number, "status": status, "start": begun, "end": time.monotonic_ns(), "ops": ops}
            )
        if status == "unknown":
            # Whatever comes next on this connection does not follow what may still be going on.
            self.number = next(self.recording._sessions)


def statement(text: str, parameters: Sequence[Any]) -> dict[str, Any]:
    """A statement as the history format has it."""
    return {"sql": text, "params": list(values_of([tuple(parameters)])[0])}


def answer(rows: Sequence[Sequence[Any]] | None, count: int | None) -> dict[str, Any]:
    """What a statement gave."""
    found: dict[str, Any] = {"rows": None if rows is None else [list(row) for row in values_of(rows)]}
    if rows is None and count is not None and count >= 0:
        found["count"] = count
    return found


def _line(content: Mapping[str, Any]) -> bytes:
    return (json_text(_plain(content)) + "\n").encode()


def _plain(value: Any) -> Any:
    match value:
        case Mapping():
            return {str(key): _plain(part) for key, part in value.items()}
        case list() | tuple():
            return [_plain(part) for part in value]
        case None | bool() | int() | str() | Decimal():
            return value
        case _:
            return json.loads(json.dumps(value, default=str))
