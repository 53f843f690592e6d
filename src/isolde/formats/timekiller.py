"""TimeKiller's and Aion's histories: a JSON array of transactions with the database's own timestamps.

    [{"tid": 1, "sid": 1, "sts": {"p": 10, "l": 0}, "cts": {"p": 12, "l": 0}, "ops": [{"t": "w", "k": 1, "v": 7}]}]

Timestamps are the database's, not the clients', so that they order nothing in real time. The order of commits (``cts``), where no
two are equal, is what the database says of its serialization order: ``serial``.
"""

from __future__ import annotations

import json
from typing import Any

from isolde.errors import InputError
from isolde.history import Append, History, Operation, Read, Transaction, Value, Write

_OPERATIONS = {"r": "r", "read": "r", "w": "w", "write": "w", "a": "a", "append": "a"}


def history_of(text: str, file: str) -> History:
    """The history; what is wrong is named by the place of its transaction, from 0."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{file}:{error.lineno}: {error.msg}; expected an array of TimeKiller's transactions"
        ) from error
    transactions, commits = [], []
    for place, entry in enumerate(found if isinstance(found, list) else []):
        try:
            ops = tuple(_operation(op) for op in entry["ops"])
            commits.append(_timestamp(entry["cts"]))
            transactions.append(Transaction(entry["tid"], entry["sid"], ops))
        except (KeyError, TypeError, ValueError) as error:
            wanted = "a transaction of TimeKiller: tid, sid, cts with p and l, ops with t, k and v"
            found = "other kinds of JSON" if isinstance(error, TypeError) else str(error)
            said = f"there is no {error}" if isinstance(error, KeyError) else f"not {found}"
            raise InputError(f"{file}: transaction {place}: expected {wanted}; {said}") from error
    if len(set(commits)) == len(commits):
        order = {commit: serial for serial, commit in enumerate(sorted(commits))}
        numbered = zip(transactions, commits, strict=True)
        transactions = [Transaction(t.id, t.session, t.ops, serial=order[commit]) for t, commit in numbered]
    keys = {op.key for t in transactions for op in t.ops if isinstance(op, Read | Write)}
    lists = any(isinstance(op, Append) for t in transactions for op in t.ops)
    zero = not lists and not any(isinstance(op, Write) and op.value == 0 for t in transactions for op in t.ops)
    return History(
        tuple(transactions), initial=dict.fromkeys(sorted(keys), 0) if zero and _reads_zero(transactions) else {}
    )


def _reads_zero(transactions: list[Transaction]) -> bool:
    """Whether the initial value shows as 0, which nobody wrote."""
    return any(isinstance(op, Read) and op.value == 0 for t in transactions for op in t.ops)


def _operation(op: dict[str, Any]) -> Operation:
    kind, key, value = _OPERATIONS[op["t"]], int(op["k"]), _value(op["v"])
    match kind:
        case "r":
            return Read(key, value)
        case "a" if isinstance(value, int):
            return Append(key, value)
        case "w" if not isinstance(value, tuple):
            return Write(key, value)
    raise ValueError(f"the operation {op!r}")


def _value(value: object) -> Value:
    if isinstance(value, list):
        return tuple(int(element) for element in value)
    if value is None or isinstance(value, int):
        return value
    raise ValueError(f"the value {value!r}")


def _timestamp(stamp: dict[str, Any]) -> tuple[int, int]:
    # The physical part stands in quotation marks in some of the tool's own files.
    return int(stamp["p"]), int(stamp.get("l", 0))
