"""What ``isolde run`` leaves on disk: a directory that is a history at any moment, also when the run was killed.

DIRECTORY/run.json            the history's header
DIRECTORY/sessions/N.jsonl    the transactions of one session; the last line may be unfinished
DIRECTORY/history.jsonl       everything in one file, once the run is over; then the sessions' files are gone

An operation that only its answer completes is written up to a comma before it is sent: ``["cas",1,0,7,`` and
``{"sql":"...","params":[],"start":5,``. What breaks off before that comma was not sent, whatever its digits look like.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from isolde._core import Columns
from isolde.errors import InputError, MalformedHistory

HEADER = "run.json"
SESSIONS = "sessions"
HISTORY = "history.jsonl"

_OPS = '"ops":['
_UNKNOWN = '],"status":"unknown"}'
_START = re.compile(rb'"start":(-?\d{1,19})[,}]')
_DECODER = json.JSONDecoder()
# What was sent and not answered, or whose answer is torn.
_SENT_CAS = re.compile(r'\["cas",-?\d+,-?\d+,-?\d+,')
_SENT_SQL = re.compile(r'\{"sql":.*?,"start":\d+,', re.DOTALL)
_WRITES = ('["w",', '["a",', '["cas",')


@dataclass(frozen=True, slots=True)
class _Line:
    """A transaction's line and where it stands."""

    start: int
    text: bytes
    file: Path
    number: int


def is_recording(path: str) -> bool:
    """Whether a path is the directory of a run."""
    try:
        return (Path(path) / HEADER).is_file()
    except OSError:
        return False


def finished(path: str) -> str | None:
    """The one file of a run that is over; ``None`` while there are only the sessions' files."""
    history = Path(path) / HISTORY
    return str(history) if history.is_file() else None


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
    if sizes is None and not since and (history := finished(str(directory))):
        try:
            return Path(history).read_bytes()
        except OSError as error:
            raise InputError(f"{history}: {error.strerror}") from None
    header = _header(directory)
    if initial is not None:
        header = json.dumps(json.loads(header) | {"initial": [list(pair) for pair in initial]}).encode()
    return _text(header, _lines(directory, sizes, since))


def read_sessions(directory: Path) -> Columns:
    """The history of the sessions' files; what is wrong is told by the file and the line that it is in."""
    header, lines = _header(directory), _lines(directory, None)
    try:
        return Columns.from_jsonl(_text(header, lines), str(directory))
    except MalformedHistory as error:
        if error.line == 1:
            error.file = str(directory / HEADER)
        elif 1 < error.line <= 1 + len(lines):
            line = lines[error.line - 2]
            error.file, error.line = str(line.file), line.number
        raise


def _text(header: bytes, lines: list[_Line]) -> bytes:
    return b"\n".join([header, *(line.text for line in lines)]) + b"\n"


def _header(directory: Path) -> bytes:
    path = directory / HEADER
    try:
        text = path.read_bytes().strip()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or "isolde" not in header or b"\n" in text:
        found = "is empty" if not text else "is no header"
        raise InputError(f'{path}: {found}; expected one line that starts with {{"isolde": "history"')
    return text


def _lines(directory: Path, sizes: Mapping[str, int] | None, since: Mapping[str, int] | None = None) -> list[_Line]:
    try:
        paths = sorted((directory / SESSIONS).iterdir())
        lines = [line for path in paths for line in _session(path, sizes, since)]
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror}") from None
    lines.sort(key=lambda line: line.start)
    return lines


def session_lines(
    path: Path, sizes: Mapping[str, int] | None, *, since: Mapping[str, int] | None = None
) -> list[bytes]:
    """The transactions of one session, a line each; a last one that breaks off is completed."""
    return [line.text for line in _session(path, sizes, since)]


def _session(path: Path, sizes: Mapping[str, int] | None, since: Mapping[str, int] | None) -> Iterator[_Line]:
    if not path.is_file():
        raise InputError(f"{path}: no regular file; expected the lines of a session")
    first = since.get(path.name, 0) if since else 0
    with path.open("rb") as file:
        file.seek(first)
        content = file.read(-1 if sizes is None else max(0, sizes.get(path.name, 0) - first))
    *whole, rest = content.split(b"\n")
    texts = [(number, text) for number, text in enumerate(whole, 1) if text.strip()]
    texts += [(len(whole) + 1, text) for text in completed(rest)]
    for number, text in texts:
        found = _START.search(text)
        if found is None:
            raise InputError(
                f"{path}:{number}: a line without \"start\"; expected a transaction as 'isolde run' writes it"
            )
        yield _Line(int(found[1]), text, path, number)


def completed(torn: bytes) -> list[bytes]:
    """A last line that breaks off, as transactions of unknown outcome; none if it holds nothing that could have been sent."""
    text = torn.decode(errors="replace")
    if _is_whole(text):
        return [torn]
    begin = text.find(_OPS)
    if begin < 0:
        return []
    head, at = text[: begin + len(_OPS)], begin + len(_OPS)
    kept: list[str] = []
    while True:
        try:
            _, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        kept.append(text[at:end])
        at = end + 1
        if text[end:at] != ",":
            return [_unknown(head, kept)]
    unanswered = text[at:]
    if (sent := _SENT_SQL.match(unanswered)) and _is_object(sent[0][:-1] + "}"):
        return [_unknown(head, [*kept, sent[0] + '"rows":null}'])]
    if sent := _SENT_CAS.match(unanswered):
        return _with_unanswered_swap(head, kept, sent[0], failed=unanswered[sent.end() :].startswith("f"))
    return [_unknown(head, kept)]


def _with_unanswered_swap(head: str, kept: list[str], swap: str, *, failed: bool) -> list[bytes]:
    """A compare-and-set whose answer is lost.

    If it applied, its transaction took effect; but a transaction that took effect by something else may have failed to swap. So
    it stands alone then, in a session of its own: of unknown outcome, too.
    """
    if failed:
        return [_unknown(head, [*kept, swap + "false]"])]
    applied = swap + "true]"
    if not any(op.startswith(_WRITES) for op in kept):
        return [_unknown(head, [*kept, applied])]
    alone = re.sub(r'"session":(-?\d+)', r'"session":"\1, unanswered"', head, count=1)
    alone = re.sub(r'"id":"([\d.]+)"', r'"id":"\1, unanswered"', alone, count=1)
    return [_unknown(head, kept), _unknown(alone, [applied])]


def _unknown(head: str, operations: list[str]) -> bytes:
    return (head + ",".join(operations) + _UNKNOWN).encode()


def _is_whole(text: str) -> bool:
    """Whether only the line end is missing."""
    return text.endswith("}") and _is_object(text) and '],"status":' in text


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
