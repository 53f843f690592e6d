"""Porcupine's logs of etcd: one register, one event a line, as Jepsen printed them.

    INFO  jepsen.util - 4   :invoke :cas    [1 3]
    INFO  jepsen.util - 4   :ok     :cas    [1 3]

They are the events of a Jepsen history in another spelling, and are read as such: a compare-and-set that failed found another
value, a read that failed is one whose answer is not known, and lines of other events are passed over.
"""

from __future__ import annotations

import re

_EVENT = re.compile(r"INFO\s+jepsen\.util - (\d+)\s+:(invoke|ok|fail)\s+:(read|write|cas)\s+(.*?)\s*$")
_VALUE = re.compile(r"nil|-?\d+|\[-?\d+ -?\d+\]")
_UNKNOWN = "info"


def as_edn(text: str) -> str:
    """The same events in EDN, each on the line that it had."""
    return "\n".join(_event(line) for line in text.split("\n"))


def _event(line: str) -> str:
    found = _EVENT.search(line)
    if found is None:
        return ""
    process, kind, function, value = found.groups()
    if kind == "fail" and function == "read":
        kind = _UNKNOWN
    shown = value if _VALUE.fullmatch(value) else "nil"
    error = "" if shown == value else " :error :told"
    return f"{{:process {process} :type :{kind} :f :{function} :value {shown}{error}}}"
