"""What ``isolde run`` leaves on disk: a directory that is a history at any moment, also when the run was killed.

DIRECTORY/run.json            the history's header
DIRECTORY/sessions/N.jsonl    the transactions of one session; the last line may be unfinished
DIRECTORY/history.jsonl       everything in one file, once the run is over; then the sessions' files are gone
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from isolde.errors import InputError

HEADER = "run.json"
SESSIONS = "sessions"
HISTORY = "history.jsonl"

# How a line that breaks off is completed: after a whole operation, inside a compare-and-set whose answer never came
# (if it took effect, it was applied), and inside an SQL statement whose answer never came.
_ENDINGS = (b'],"status":"unknown"}', b',true]],"status":"unknown"}', b',"rows":null}],"status":"unknown"}')
_STATUS = b'],"status":'
_SQL = b'{"sql":'
_CUTS = (b",[", b",{")
_SQL_CUTS = (b',"rows":', b',{"sql":')
_START = b'"start":'


def is_recording(path: str) -> bool:
    """Whether a path is the directory of a run."""
    try:
        return (Path(path) / HEADER).is_file()
    except OSError:
        return False


def merged(
    directory: Path,
    sizes: Mapping[str, int] | None = None,
    *,
    since: Mapping[str, int] | None = None,
    initial: Sequence[tuple[int, object]] | None = None,
) -> bytes:
    """The run as JSON Lines, transactions by their start; of each session's file no more than ``sizes`` says.

    For a part of it: of each file what comes after ``since``, and the values that it begins with.
    """
    try:
        header = (directory / HEADER).read_bytes().strip()
        finished = directory / HISTORY
        if sizes is None and not since and finished.is_file():
            return finished.read_bytes()
        if initial is not None:
            header = json.dumps(json.loads(header) | {"initial": [list(pair) for pair in initial]}).encode()
        paths = sorted((directory / SESSIONS).iterdir())
        lines = [line for path in paths for line in session_lines(path, sizes, since=since)]
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror}") from None
    lines.sort(key=_start)
    return b"\n".join([header, *lines]) + b"\n"


def session_lines(
    path: Path, sizes: Mapping[str, int] | None, *, since: Mapping[str, int] | None = None
) -> list[bytes]:
    """The transactions of one session, a line each; a last one that breaks off is completed."""
    first = since.get(path.name, 0) if since else 0
    with path.open("rb") as file:
        file.seek(first)
        content = file.read(-1 if sizes is None else max(0, sizes.get(path.name, 0) - first))
    *whole, rest = content.split(b"\n")
    if rest:
        completed = _completed(rest)
        if completed is not None:
            whole.append(completed)
    return whole


def _completed(line: bytes) -> bytes | None:
    """A line that breaks off, with an unknown outcome; ``None`` if it holds nothing that could have been sent."""
    line = line.partition(_STATUS)[0]
    while line:
        for ending in _ENDINGS:
            candidate = line + ending
            try:
                json.loads(candidate)
            except ValueError:
                continue
            return candidate
        # The disk took a part of what was written last. Operations up to there were sent. The torn one was not, unless it is
        # a statement whose answer is torn: that may have been committed, and stays without its answer.
        line = line[: max(0, *map(line.rfind, _SQL_CUTS if _SQL in line else _CUTS))]
    return None


def _start(line: bytes) -> int:
    at = line.index(_START) + len(_START)
    return int(line[at : line.index(b",", at)])
