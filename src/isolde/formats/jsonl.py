"""The nouns to JSON Lines and back (format version 1). Whole files are read and written by the core."""

from __future__ import annotations

import re
from collections.abc import Iterable
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
from isolde.history.json_text import DECODER, json_text

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,999}")
_TRANSACTION_FIELDS = frozenset({"id", "session", "status", "start", "end", "serial", "level", "ops"})
_HEADER_FIELDS = frozenset({"isolde", "version", "initial", "meta"})


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
    return ("\n".join(json_text(line) for line in history_lines(history)) + "\n").encode()


def history_lines(history: History) -> list[dict[str, Any]]:
    """The lines of ``history``, as values that :func:`json_text` can write."""
    header: dict[str, Any] = {"isolde": "history", "version": 1}
    if history.initial:
        header["initial"] = [[key, value] for key, value in history.initial.items()]
    if history.meta is not None:
        header["meta"] = history.meta
    lines = [{**header, **history.extra}]
    lines += [{"versions": [chain.key, chain.values]} for chain in history.versions]
    lines += [transaction_line(transaction) for transaction in history.transactions]
    return lines


def transaction_line(transaction: Transaction) -> dict[str, Any]:
    """The line of one transaction."""
    line: dict[str, Any] = {"id": transaction.id, "session": transaction.session}
    if transaction.status is not Status.COMMITTED:
        line["status"] = transaction.status.value
    optional = {
        "start": transaction.start,
        "end": transaction.end,
        "serial": transaction.serial,
        "level": transaction.level,
    }
    line |= {name: value for name, value in optional.items() if value is not None}
    line |= transaction.extra
    line["ops"] = [_operation(op) for op in transaction.ops]
    return line


def _value(raw: Any) -> Value:
    return tuple(raw) if isinstance(raw, list) else raw


def _decode_operation(raw: Any) -> Operation:
    if type(raw) is dict:
        return Sql(raw) if "sql" in raw or "call" in raw else Scan(raw)
    match raw:
        case ["r", key, value]:
            return Read(key, _value(value))
        case ["w", key, value]:
            return Write(key, value)
        case ["a", key, element]:
            return Append(key, element)
        case ["cas", key, expected, new, applied, *current]:
            return CompareAndSet(key, expected, new, applied, (current[0],) if current else ())
        case _:
            return Scan(raw)


def _decode_header(line: dict[str, Any]) -> tuple[dict[Key, Value], Any, dict[str, Any]]:
    initial = line.get("initial", {})
    pairs = initial.items() if isinstance(initial, dict) else initial
    extra = {name: value for name, value in line.items() if name not in _HEADER_FIELDS}
    return {key: _value(value) for key, value in pairs}, line.get("meta"), extra


def decode_history(text: bytes) -> History:
    """The nouns of JSON Lines that the core wrote, which are therefore known to be well formed."""
    return history_of(DECODER.decode(line) for line in text.decode().split("\n") if line)


def history_of(lines: Iterable[dict[str, Any]]) -> History:
    """The history whose lines have been read already; they are known to be well formed."""
    initial: dict[Key, Value] = {}
    meta: Any = None
    extra: dict[str, Any] = {}
    spelled = False
    versions, transactions = [], []
    for line in lines:
        if "isolde" in line:
            initial, meta, extra = _decode_header(line)
            spelled = isinstance(line.get("initial"), dict)
        elif "versions" in line:
            versions.append(VersionChain(line["versions"][0], tuple(line["versions"][1])))
        else:
            transactions.append(transaction_of(line))
    return History(
        tuple(transactions), _with_integer_keys(initial, spelled, transactions, versions), meta, tuple(versions), extra
    )


def transaction_of(line: dict[str, Any]) -> Transaction:
    """The transaction of a line that is known to be well formed."""
    return Transaction(
        id=line["id"],
        session=line["session"],
        ops=tuple(_decode_operation(op) for op in line["ops"]),
        status=Status(line.get("status", "committed")),
        start=line.get("start"),
        end=line.get("end"),
        serial=line.get("serial"),
        level=level if isinstance(level := line.get("level"), str) else None,
        extra={
            name: value
            for name, value in line.items()
            if name not in _TRANSACTION_FIELDS or (name == "level" and not isinstance(value, str))
        },
    )


def _with_integer_keys(
    initial: dict[Key, Value], spelled: bool, transactions: list[Transaction], versions: list[VersionChain]
) -> dict[Key, Value]:
    """A JSON object can only spell integer keys as strings; such a name means the integer if only that is used."""
    if not spelled:
        return initial
    used: set[Key] = {chain.key for chain in versions}
    used |= {op.key for t in transactions for op in t.ops if not isinstance(op, Scan | Sql)}

    def meant(key: Key) -> Key:
        is_integer = isinstance(key, str) and key not in used and _INTEGER.fullmatch(key) is not None
        return int(key) if is_integer and int(key) in used else key

    return {meant(key): value for key, value in initial.items()}
