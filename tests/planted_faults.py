"""Faults planted in a certified run of predicates: what a database would have answered, or told, had it been wrong at one place."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from certificates_replayed import Replay, is_seen
from definition.certificates import Definition
from isolde.history import History, Sql, Status, Transaction
from isolde.history.certificate import Certificate, ObjectId, RowId, VersionId

Planted = tuple[History, Certificate]
Query = tuple[Transaction, int, dict[str, Any]]
WRONG_ANSWERS = ("row dropped", "row added", "stale read", "wrong aggregate")
WRONG_ORDERS = ("swapped versions", "skipped version")
_AGGREGATE = re.compile(r"\b(COUNT|MIN|MAX|SUM)\(")


def planted(fault: str, rng: random.Random, replay: Replay) -> Planted | None:
    """The run with one fault at a random place; ``None`` if the place has no room for it."""
    history, told = replay.history, replay.certificate
    if fault == "swapped versions":
        return history, _swapped(rng, told)
    queries = [
        (t, at, dict(op.content))
        for t in history.transactions
        for at, op in enumerate(t.ops)
        if t.status is Status.COMMITTED
        and isinstance(op, Sql)
        and op.content["sql"].startswith("SELECT")
        and (t.id, at) in told.reads
    ]
    if fault in ("stale read", "skipped version"):
        return _older(fault, rng, replay, rng.choice(queries))
    aggregates = [one for one in queries if bool(_AGGREGATE.search(one[2]["sql"])) == (fault == "wrong aggregate")]
    t, at, content = rng.choice([one for one in aggregates if one[2]["rows"]])
    rows = [list(row) for row in content["rows"]]
    if fault == "wrong aggregate":
        rows[0][0] = 7777 if rows[0][0] is None else rows[0][0] + rng.choice([-1, 1, 5])
    elif fault == "row dropped":
        rows.pop(rng.randrange(len(rows)))
    else:
        rows.insert(rng.randrange(len(rows) + 1), list(rng.choice(rows)))
    return _answering(history, t, at, rows), told


def _swapped(rng: random.Random, told: Certificate) -> Certificate:
    thing = rng.choice([thing for thing, one in told.objects.items() if len(one.versions) > 2])
    versions = list(told.objects[thing].versions)
    at = rng.randrange(1, len(versions) - 1)
    versions[at], versions[at + 1] = versions[at + 1], versions[at]
    return replace(told, objects={**told.objects, thing: replace(told.objects[thing], versions=tuple(versions))})


def _older(fault: str, rng: random.Random, replay: Replay, query: Query) -> Planted | None:
    """A query that saw the version before the one that it should have seen; only if the answer is another one then. A read that
    skips a version says so in its version set, a stale one does not."""
    t, at, content = query
    told = replay.certificate
    seen = told.reads[t.id, at]
    if seen.sees is None or seen.versions:
        return None
    older: list[tuple[ObjectId, VersionId | None]] = []
    for thing, one in told.objects.items():
        if any(version is not None and version[0] == t.id for version in one.versions):
            continue
        visible = [
            place
            for place, version in enumerate(one.versions)
            if version is not None and is_seen(version[0], seen.sees, replay.place)
        ]
        if visible:
            older.append((thing, one.versions[visible[-1] - 1] if visible[-1] else None))
    if not older:
        return None
    thing, version = rng.choice(older)
    rows = [list(row) for row in replay.answer_with(t, at, thing, version)]
    if Counter(map(tuple, rows)) == Counter(map(tuple, content["rows"])):
        return None
    history = _answering(replay.history, t, at, rows)
    if fault == "stale read":
        return history, told
    return history, replace(told, reads={**told.reads, (t.id, at): replace(seen, versions={thing: version})})


def _answering(history: History, transaction: Transaction, at: int, rows: Sequence[Any]) -> History:
    op = transaction.ops[at]
    assert isinstance(op, Sql)
    ops = (*transaction.ops[:at], Sql({**op.content, "rows": rows}), *transaction.ops[at + 1 :])
    changed = tuple(replace(t, ops=ops) if t.id == transaction.id else t for t in history.transactions)
    return replace(history, transactions=changed)


def serializable_by_definition(history: History, certificate: Certificate) -> bool:
    """What the brute-force definition says, which knows a table ``t`` with the key ``id`` and no parameters."""
    transactions = tuple(
        replace(
            t, ops=tuple(Sql({**op.content, "sql": _inlined(op), "params": []}) for op in t.ops if isinstance(op, Sql))
        )
        for t in history.transactions
    )
    extra = dict(history.extra)
    extra["schema"] = [_renamed(text) for text in extra["schema"]]
    (first_rows,) = extra["rows"].values()
    extra["rows"] = {"t": first_rows}
    objects = {_thing(thing): one for thing, one in certificate.objects.items()}
    reads = {
        place: replace(
            seen, versions={_thing(thing): version for thing, version in (seen.versions or {}).items()} or None
        )
        for place, seen in certificate.reads.items()
    }
    told = replace(certificate, objects=objects, reads=reads)
    return bool(Definition(replace(history, transactions=transactions, extra=extra), told).verdicts()["serializable"])


def _thing(thing: ObjectId) -> ObjectId:
    assert isinstance(thing, RowId)
    return RowId("t", thing.key)


def _inlined(op: Sql) -> str:
    values = ["NULL" if value is None else str(value) for value in op.content.get("params") or ()]
    return _renamed(re.sub(r"\$(\d+)", lambda found: values[int(found[1]) - 1], op.content["sql"]))


def _renamed(text: str) -> str:
    text = re.sub(r"\bc0\b", "id", re.sub(r"\bdata\b", "t", text))
    return _AGGREGATE.sub(lambda found: found[0].lower(), text)
