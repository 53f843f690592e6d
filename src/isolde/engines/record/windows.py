"""Windows: parts of a run that stand on their own, so that a run without end is checked in bounded memory.

At a quiet point nobody writes, and every session reads every key. If all read the same, whatever was written before came before
what they read: each session's own writes by its session, and so all writes of all sessions. Whoever goes on after such a read can
see nothing older. So what follows is a history of its own, which begins with the values that were read, at prefix and every level
above it; if each window holds then so does the whole, one after the other. A transaction of unknown outcome may take
effect later, and a connection that was lost and made anew is a new session that read nothing: then the window goes on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from isolde.engines.record.run import Round
from isolde.formats.recording import SESSIONS, merged, session_lines

_UNKNOWN = b'"status":"unknown"'


class Windows:
    """The window that a run is in."""

    def __init__(self, directory: Path, sessions: int) -> None:
        self._directory, self._sessions = directory, sessions
        self._since: Mapping[str, int] = {}
        self._initial: Sequence[tuple[int, object]] | None = None
        self._readers: frozenset[object] | None = None
        self.closed = 0
        """How many windows are behind."""

    def history(self, sizes: Mapping[str, int] | None = None) -> bytes:
        """What happened in this window, until these sizes of the sessions' files."""
        return merged(self._directory, sizes, since=self._since, initial=self._initial)

    def close(self, at: Round) -> None:
        """Begins the next window at a quiet point, if it stands on its own."""
        if at.before_looks is None or _UNKNOWN in self.history(at.sizes):
            return
        seen: list[dict[int, object]] = []
        readers: set[object] = set()
        for path in sorted((self._directory / SESSIONS).glob("[0-9]*.jsonl")):
            looks = session_lines(path, at.sizes, since=at.before_looks)
            read = [json.loads(line) for line in looks if b'"status":"committed"' in line]
            if not read:
                return
            seen.append({key: value for kind, key, value in read[-1]["ops"] if kind == "r"})
            readers.add(read[-1]["session"])
        if len(readers) != self._sessions or any(state != seen[0] for state in seen):
            return
        if self._readers is not None and self._readers != readers:
            # Somebody came back as a new session, which nothing orders behind the reads that this window began with.
            self._since, self._initial, self._readers, self.closed = {}, None, None, 0
            return
        self._since, self._initial = at.before_looks, sorted(seen[0].items())
        self._readers = frozenset(readers)
        self.closed += 1
