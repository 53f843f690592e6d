"""What a picture of transactions shows, whoever draws it: boxes with a line an operation, and arrows between them.

An arrow knows the two lines that made it: of ``T1 rw(x) T2`` the read of x in T1 and the write of x in T2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from isolde.findings import Anomaly, Link, endings
from isolde.history import (
    Append,
    CompareAndSet,
    Key,
    Operation,
    Read,
    Scan,
    Sql,
    Transaction,
    TxnId,
    Write,
    observed,
    render_operation,
    token,
    txn_name,
)
from isolde.history.json_text import json_text
from isolde.visible import visible

_LINES_MAX = 14


@dataclass(frozen=True, slots=True)
class Line:
    """One operation as it is written into a box; ``place`` is where it stands in its transaction, -1 for what is left out."""

    text: str
    place: int


@dataclass(frozen=True, slots=True)
class Box:
    """A transaction."""

    transaction: Transaction
    head: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Arrow:
    """An edge between two boxes, by their places, and the operations that made it, by their places in the transactions."""

    source: int
    target: int
    kind: str
    label: str
    sentence: str
    source_line: int | None
    target_line: int | None


@dataclass(frozen=True, slots=True)
class Drawing:
    """Boxes in the order of the story, and the arrows between them."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


def drawing_of(anomaly: Anomaly, transactions: Mapping[TxnId, Transaction]) -> Drawing:
    """The picture of an anomaly: of a violation by cases, of the case that is told."""
    names, cycle = anomaly.transactions, anomaly.cycle
    # The ends of all cases, that of the story first.
    ending = next(endings(anomaly.cases), None)
    if ending is not None:
        cycle = ending.cycle
        names = ending.transactions if isinstance(ending, Anomaly) else tuple(link.source for link in cycle)
    named = dict.fromkeys((*names, *(end for link in cycle for end in (link.source, link.target))))
    shown = [transactions[name] for name in named if name in transactions]
    return drawing(shown, cycle)


def drawing(transactions: Sequence[Transaction], links: Iterable[Link] = ()) -> Drawing:
    """These transactions and the edges between them."""
    places = {transaction.id: place for place, transaction in enumerate(transactions)}
    arrows = []
    for link in links:
        if link.source not in places or link.target not in places:
            continue
        source, target = transactions[places[link.source]], transactions[places[link.target]]
        label = link.kind if link.key is None else f"{link.kind} {_key(link.key)}"
        ends = _operations_of(link, source, target)
        arrows.append(Arrow(places[source.id], places[target.id], link.kind, label, link.sentence, *ends))
    used: dict[int, set[int]] = {}
    for arrow in arrows:
        for box, line in ((arrow.source, arrow.source_line), (arrow.target, arrow.target_line)):
            if line is not None:
                used.setdefault(box, set()).add(line)
    boxes = (_box(transaction, used.get(place, set())) for place, transaction in enumerate(transactions))
    return Drawing(tuple(boxes), tuple(arrows))


def title(transaction: Transaction) -> str:
    """``T7 · session 2``, with its outcome if it was not committed."""
    name = txn_name(transaction.id)
    status = "" if transaction.status.value == "committed" else f" · {transaction.status.value}"
    level = f" · {transaction.level}" if transaction.level else ""
    return visible(f"{name} · session {transaction.session}{status}{level}")


def operation_text(op: Operation) -> str:
    """An operation in plain words: ``read x = 1``, or a statement with what it gave."""
    match op:
        case Read(key, value):
            return visible(f"read {_key(key)} = {_value(value)}")
        case Write(key, None):
            return visible(f"delete {_key(key)}")
        case Write(key, value):
            return visible(f"write {_key(key)} = {_value(value)}")
        case Append(key, element):
            return visible(f"append {_value(element)} to {_key(key)}")
        case Sql(content):
            return visible(_statement(content))
        case CompareAndSet() | Scan():
            return visible(render_operation(op))


def _statement(content: Mapping[str, object]) -> str:
    text = filled(" ".join(str(content.get("sql") or content.get("call") or "").split()), content.get("params"))
    if content.get("error"):
        return f"{text} → {content['error']}"
    rows = content.get("rows")
    given = json_text(rows) if rows is not None else content.get("count")
    return text if given is None else f"{text} → {given}"


_PLACEHOLDER = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\?|\$(\d+)")


def filled(text: str, params: object) -> str:
    """A statement with the values of its parameters in their places, as a person reads it.

    >>> filled("UPDATE t SET a = $2, b = '?' WHERE id = $1", [7, "x"])
    "UPDATE t SET a = 'x', b = '?' WHERE id = 7"
    >>> filled("new_order", [1, None])
    'new_order(1, NULL)'
    """
    values = list(params) if isinstance(params, list | tuple) else []
    used = 0

    def value(found: re.Match[str]) -> str:
        nonlocal used
        if found[0] != "?" and found[1] is None:
            return found[0]
        place = used if found[1] is None else int(found[1]) - 1
        used += 1
        return _literal(values[place]) if 0 <= place < len(values) else found[0]

    shown = _PLACEHOLDER.sub(value, text)
    return shown if used or not values else f"{shown}({', '.join(map(_literal, values))})"


def _literal(value: object) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return "NULL" if value is None else json_text(value)


def _key(key: Key) -> str:
    return str(key)


def _value(value: object) -> str:
    return "nothing" if value is None else json_text(value)


def _box(transaction: Transaction, needed: set[int]) -> Box:
    """Its operations; of very many only the first, and those that arrows hang on."""
    ops = transaction.ops
    kept = set(range(min(len(ops), _LINES_MAX))) if len(ops) <= _LINES_MAX else {*range(_LINES_MAX // 2), *needed}
    lines: list[Line] = []
    left_out = 0
    for place, op in enumerate(ops):
        if place not in kept:
            left_out += 1
            continue
        if left_out:
            lines.append(Line(f"… {left_out} more", -1))
            left_out = 0
        lines.append(Line(operation_text(op), place))
    if left_out:
        lines.append(Line(f"… {left_out} more", -1))
    return Box(transaction, title(transaction), tuple(lines))


def _operations_of(link: Link, source: Transaction, target: Transaction) -> tuple[int | None, int | None]:
    """The operation at each end of an edge, where operations on its key are recorded."""
    if link.key is None:
        return None, None
    match link.kind:
        case "wr":
            read = _last(target, link.key, reads=True)
            seen = None if read is None else _seen(target.ops[read])
            return _writing(source, link.key, seen), read
        case "ww":
            return _last(source, link.key, reads=False), _last(target, link.key, reads=False)
        case "rw":
            return _last(source, link.key, reads=True), _last(target, link.key, reads=False)
        case _:
            return None, None


def _last(transaction: Transaction, key: Key, *, reads: bool) -> int | None:
    """The last operation that writes the key, or the first that reads it."""
    found = [place for place, op in enumerate(transaction.ops) if (_reads(op, key) if reads else _writes(op, key))]
    return None if not found else found[0] if reads else found[-1]


def _writing(transaction: Transaction, key: Key, seen: object) -> int | None:
    """The write of what was seen, else the last one of the key."""
    for place, op in enumerate(transaction.ops):
        if isinstance(op, Write) and op.key == key and seen is not None and token(op.value) == seen:
            return place
    return _last(transaction, key, reads=False)


def _seen(op: Operation) -> object:
    found = observed(op)
    return None if found is None else token(found[1])


def _reads(op: Operation, key: Key) -> bool:
    return isinstance(op, Read | CompareAndSet) and op.key == key


def _writes(op: Operation, key: Key) -> bool:
    return (isinstance(op, Write | Append) and op.key == key) or (
        isinstance(op, CompareAndSet) and op.key == key and op.applied
    )
