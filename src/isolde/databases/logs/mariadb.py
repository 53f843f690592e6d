"""MariaDB's and MySQL's general log: what each session sent, and when; no answers, no errors, not whether a COMMIT succeeded."""

from __future__ import annotations

import re
from datetime import datetime

from isolde.databases.logs.transactions import Converted, Logged, history_of
from isolde.errors import InputError
from isolde.tx.dialects import Dialect

# 261118 14:51:03 (MariaDB), 2026-11-18T14:51:03.123456Z (MySQL); MariaDB leaves the time out while the second is the same.
_LINE = re.compile(
    r"(?P<time>\d{6} +\d{1,2}:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d))?[\t ]+(?P<id>\d+) "
    r"(?P<command>[A-Z][A-Za-z ]+)(?:\t(?P<text>.*))?\Z"
)
_HEAD = re.compile(r"^Time\s+Id\s+Command\s+Argument", re.MULTILINE)
_VERSION = re.compile(r"Version: (\S+)")
_SENT = ("Query", "Execute")
_NOTE = (
    "a general log tells what was sent, but no answers, counts or errors, nor whether a COMMIT succeeded: every transaction is of"
    " unknown outcome, so that 'isolde audit' finds nothing wrong in it"
)


def is_general(head: str) -> bool:
    return bool(_HEAD.search(head)) or any(_LINE.match(line) and "\t" in line for line in head.split("\n")[:5])


def converted(text: str, name: str) -> Converted:
    """The transactions of a log, all of them of unknown outcome."""
    logged: list[Logged] = []
    time: int | None = None
    current: Logged | None = None
    for line in text.split("\n"):
        found = _LINE.match(line)
        if found is None:
            if current is not None and not _HEAD.match(line):
                # A statement of several lines.
                current.text += "\n" + line
            continue
        if found["time"]:
            time = _milliseconds(found["time"])
        current = None
        if time is not None and found["command"].strip() in _SENT and found["text"]:
            current = Logged(found["id"], found["text"], time)
            logged.append(current)
    if not logged:
        raise InputError(f"{name}: no statement is in this log; set general_log = ON (and log_output = FILE)")
    version = _VERSION.search(text[:4096])
    store = "mysql" if version is not None and "MariaDB" not in version[1] else "mariadb"
    header = {"store": f"{store} {version[1] if version else ''}".strip()}
    return Converted(history_of(logged, Dialect.MYSQL, header), (_NOTE,))


def _milliseconds(text: str) -> int:
    if "T" in text:
        return round(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)
    date, time = text.split()
    moment = datetime.strptime(f"{date} {time} +0000", "%y%m%d %H:%M:%S %z")
    return round(moment.timestamp() * 1000)
