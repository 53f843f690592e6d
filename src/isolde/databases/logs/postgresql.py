"""PostgreSQL's server log as CSV or JSON (``log_destination``): statements, errors and, with ``log_duration``, when each ended.

It holds no rows and no counts. What can be audited then is that all statements which succeeded could succeed together: no key
twice, no row that two changed side by side where the level forbids it.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from isolde.databases.error_words import of_sqlstate
from isolde.databases.logs.transactions import Converted, Logged, history_of
from isolde.errors import InputError
from isolde.tx.dialects import Dialect

_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?")
# Since version 9: time, user, database, process, host, session; 13 has 24 columns, 14 and later 26.
_COLUMNS = (23, 24, 25, 26)
_SESSION, _SEVERITY, _STATE, _MESSAGE, _DETAIL, _QUERY = 5, 11, 12, 13, 14, 19
_SENT = re.compile(r"(?:duration: (?P<ms>[\d.]+) ms\s+)?(?:statement|execute [^:]*): (?P<text>.*)", re.DOTALL)
_DURATION = re.compile(r"duration: [\d.]+ ms\Z")
_PARAMETERS = re.compile(r"(?:parameters|Parameters): ")
_PARAMETER = re.compile(r"\$(\d+) = (NULL|'(?:[^']|'')*')(?:, |\Z)")
_VERSION = re.compile(r"starting PostgreSQL (\S+)")
_NO_ANSWERS = (
    "PostgreSQL logs no rows and no counts: 'isolde audit' can judge whether what succeeded could succeed together, and"
    " nothing of answers"
)
_NO_DURATIONS = (
    "no durations are in this log, so that a statement is taken to end when its session sends the next one; log_duration ="
    " on tells when it did"
)
_FAILED = ("ERROR", "FATAL", "PANIC")


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the log; ``time`` in milliseconds."""

    time: int
    session: str
    severity: str
    state: str
    message: str
    detail: str
    query: str


def is_csv(head: str) -> bool:
    first = head.split("\n", 1)[0]
    return bool(_TIME.match(first)) and first.count(",") >= min(_COLUMNS) - 1


def is_json(head: str) -> bool:
    first = head.split("\n", 1)[0]
    return first.startswith("{") and '"error_severity"' in first and '"timestamp"' in first


def csv_lines(text: str, name: str) -> Iterator[Entry]:
    reader = csv.reader(io.StringIO(text))
    try:
        for row in reader:
            if row and len(row) not in _COLUMNS:
                raise InputError(
                    f"{name}:{reader.line_num}: {len(row)} columns; a csvlog has {_COLUMNS[0]} to {_COLUMNS[-1]}"
                )
            if row:
                where = f"{name}:{reader.line_num}"
                yield Entry(
                    _milliseconds(row[0], where),
                    row[_SESSION],
                    row[_SEVERITY],
                    row[_STATE],
                    row[_MESSAGE],
                    row[_DETAIL],
                    row[_QUERY],
                )
    except csv.Error as error:
        raise InputError(f"{name}:{reader.line_num}: no CSV: {error}") from None


def json_lines(text: str, name: str) -> Iterator[Entry]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            content = json.loads(line)
            time = content["timestamp"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise InputError(f"{name}:{number}: no entry of a jsonlog") from None
        keys = ("session_id", "error_severity", "state_code", "message", "detail", "statement")
        yield Entry(_milliseconds(str(time), f"{name}:{number}"), *(str(content.get(key, "")) for key in keys))


def converted(entries: Iterator[Entry], name: str) -> Converted:
    """The transactions of a log. Entries of one session come in its order, whatever stands between them."""
    logged: list[Logged] = []
    last: dict[str, Logged] = {}
    durations = False
    version = ""
    for entry in entries:
        if found := _VERSION.match(entry.message):
            version = found[1]
        one = last.get(entry.session)
        if entry.severity in _FAILED:
            if one is not None and one.end is None:
                word = of_sqlstate(entry.state)
                one.error, one.message, one.end, one.over = word, entry.message, entry.time, True
            elif entry.query and entry.session in last:
                # It failed before it could run: only its text is told.
                logged.append(
                    Logged(
                        entry.session,
                        entry.query,
                        entry.time,
                        entry.time,
                        of_sqlstate(entry.state),
                        entry.message,
                        True,
                    )
                )
        elif _DURATION.match(entry.message):
            if one is not None and one.end is None:
                durations = True
                one.end, one.over = entry.time, True
        elif sent := _SENT.match(entry.message):
            if one is not None and one.end is None:
                # Nothing tells when it ended, but the next one was sent after it.
                one.end, one.over = entry.time, True
            text = _with_parameters(sent["text"], entry.detail)
            one = last[entry.session] = Logged(entry.session, text, entry.time)
            if sent["ms"]:
                durations = True
                one.start, one.end, one.over = entry.time - int(float(sent["ms"])) - 1, entry.time, True
            logged.append(one)
    if not logged:
        raise InputError(
            f"{name}: no statement is in this log; set log_statement = 'all', and log_duration = on, which tells when each ended"
        )
    notes = [_NO_ANSWERS] if durations else [_NO_ANSWERS, _NO_DURATIONS]
    return Converted(history_of(logged, Dialect.POSTGRESQL, {"store": f"postgresql {version}".strip()}), tuple(notes))


def _milliseconds(text: str, where: str) -> int:
    found = _TIME.match(text)
    if found is None:
        raise InputError(f"{where}: {text[:40]!r} is no time of a server log")
    return round(datetime.fromisoformat(f"{found[0]}+00:00").timestamp() * 1000)


def _with_parameters(text: str, detail: str) -> str:
    """The statement with its parameters as literals: a quoted one takes its type from where it stands, as a parameter does."""
    found = _PARAMETERS.match(detail)
    if found is None:
        return text
    values = {f"${place}": value for place, value in _PARAMETER.findall(detail[found.end() :])}
    # Strings, quoted names and comments are passed over.
    return re.sub(
        r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/|\$\d+",
        lambda part: values.get(part[0], part[0]),
        text,
        flags=re.DOTALL,
    )
