"""The nouns to JSON Lines and back (format version 1). Whole files are read and written by the core."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, assert_never

from isolde.history import (
    Append,
    CompareAndSet,
    History,
    Key,
    Operation,
    Read,
    Scan,
    Sql,
    Status,
    Transaction,
    Value,
    VersionChain,
    Write,
)

_TRANSACTION_FIELDS = frozenset({"id", "session", "status", "start", "end", "serial", "snapshot", "ops"})
_HEADER_FIELDS = frozenset({"isolde", "version", "initial", "meta"})


def _text(value: Any) -> str:
    """JSON text. The standard library would turn a decimal into a float, and so into another number."""
    if isinstance(value, Decimal):
        return format(value, "E") if value.adjusted() > 40 or value.adjusted() < -40 else str(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json.dumps(str(k))}:{_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(_text(element) for element in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _operation(op: Operation) -> object:
    match op:
        case Read(key, value):
            return ("r", key, value)
        case Write(key, value):
            return ("w", key, value)
        case Append(key, element):
            return ("a", key, element)
        case CompareAndSet(key, expected, new, applied, current):
            return ("cas", key, expected, new, applied, *current)
        case Scan(content) | Sql(content):
            return content
        case _:
            assert_never(op)


def encode_history(history: History) -> bytes:
    """JSON Lines of ``history``."""
    header: dict[str, object] = {"isolde": "history", "version": 1}
    if history.initial:
        header["initial"] = [[key, value] for key, value in history.initial.items()]
    if history.meta is not None:
        header["meta"] = history.meta
    lines = [_text({**header, **history.extra})]
    lines += [_text({"versions": [chain.key, chain.values]}) for chain in history.versions]
    for transaction in history.transactions:
        line: dict[str, object] = {"id": transaction.id, "session": transaction.session}
        if transaction.status is not Status.COMMITTED:
            line["status"] = transaction.status.value
        optional = {
            "start": transaction.start,
            "end": transaction.end,
            "serial": transaction.serial,
            "snapshot": transaction.snapshot,
        }
        line |= {name: value for name, value in optional.items() if value is not None}
        line |= transaction.extra
        line["ops"] = [_operation(op) for op in transaction.ops]
        lines.append(_text(line))
    return ("\n".join(lines) + "\n").encode()


def _value(raw: Any) -> Value:
    return tuple(raw) if isinstance(raw, list) else raw


def _decode_operation(raw: Any) -> Operation:
    match raw:
        case ["r", key, value]:
            return Read(key, _value(value))
        case ["w", key, value]:
            return Write(key, value)
        case ["a", key, element]:
            return Append(key, element)
        case ["cas", key, expected, new, applied, *current]:
            return CompareAndSet(key, expected, new, applied, (current[0],) if current else ())
        case {"sql": _}:
            return Sql(raw)
        case _:
            return Scan(raw)


def _decode_header(line: dict[str, Any]) -> tuple[dict[Key, Value], Any, dict[str, Any]]:
    initial = line.get("initial", {})
    pairs = initial.items() if isinstance(initial, dict) else initial
    extra = {name: value for name, value in line.items() if name not in _HEADER_FIELDS}
    return {key: _value(value) for key, value in pairs}, line.get("meta"), extra


def decode_history(text: bytes) -> History:
    """The nouns of JSON Lines that the core wrote, which are therefore known to be well formed."""
    initial: dict[Key, Value] = {}
    meta: Any = None
    extra: dict[str, Any] = {}
    versions, transactions = [], []
    for raw in text.splitlines():
        line = json.loads(raw, parse_float=Decimal)
        if "isolde" in line:
            initial, meta, extra = _decode_header(line)
        elif "versions" in line:
            versions.append(VersionChain(line["versions"][0], tuple(line["versions"][1])))
        else:
            transactions.append(_decode_transaction(line))
    history = History(tuple(transactions), initial, meta, tuple(versions), extra)
    return _with_integer_keys(history)


def _decode_transaction(line: dict[str, Any]) -> Transaction:
    return Transaction(
        id=line["id"],
        session=line["session"],
        ops=tuple(_decode_operation(op) for op in line["ops"]),
        status=Status(line.get("status", "committed")),
        start=line.get("start"),
        end=line.get("end"),
        serial=line.get("serial"),
        snapshot=line.get("snapshot"),
        extra={name: value for name, value in line.items() if name not in _TRANSACTION_FIELDS},
    )


def _with_integer_keys(history: History) -> History:
    """Initial values of integer keys are spelled as strings in a JSON object; the core decides which are which."""
    used: set[Key] = {chain.key for chain in history.versions}
    used |= {op.key for t in history.transactions for op in t.ops if not isinstance(op, Scan | Sql)}
    initial: dict[Key, Value] = {}
    for key, value in history.initial.items():
        spelled = isinstance(key, str) and key not in used and key.removeprefix("-").isdecimal() and int(key) in used
        initial[int(key) if spelled else key] = value
    return History(history.transactions, initial, history.meta, history.versions, history.extra)
