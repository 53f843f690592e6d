"""Levels of histories with predicates whose certificates have partial orders: some order that completes them keeps the level."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from isolde.history import History, Sql, Status
from isolde.history.certificate import Certificate, Installed, ObjectId, RowId, VersionId

from .certificates import Definition, Text


def completions(history: History, certificate: Certificate) -> Iterator[Certificate]:
    """Every certificate in which the partial orders have been completed by statements that may have written the row."""
    partial = [thing for thing, one in certificate.objects.items() if one.partial]
    lines = [_lines(history, thing, certificate.objects[thing]) for thing in partial]
    for chosen in product(*lines):
        whole = {thing: Installed((None, *line)) for thing, line in zip(partial, chosen, strict=True)}
        yield replace(certificate, objects={**certificate.objects, **whole})


def _lines(history: History, thing: ObjectId, told: Installed) -> list[tuple[VersionId, ...]]:
    assert isinstance(thing, RowId)
    listed = tuple(version for version in told.versions if version is not None)
    found = {listed}
    for transaction in history.transactions:
        if transaction.status is Status.ABORTED:
            continue
        places = [
            (transaction.id, index)
            for index, op in enumerate(transaction.ops)
            if isinstance(op, Sql)
            and op.content.get("error") is None
            and (text := Text(op.content["sql"], ())).kind != "select"
            and text.target == thing.table
            and all(index > other for name, other in listed if name == transaction.id)
        ]
        found |= {
            (*line[:at], place, *line[at:])
            for line in found
            for place in places
            for at in range(_after_own(line, place), len(line) + 1)
        }
    return sorted(found, key=repr)


def _after_own(line: tuple[VersionId, ...], place: VersionId) -> int:
    """A transaction's own versions come in the order in which it made them."""
    return max((at + 1 for at, version in enumerate(line) if version[0] == place[0]), default=0)


def verdicts(history: History, certificate: Certificate) -> dict[str, bool]:
    """By level: whether some completion keeps it."""
    kept: dict[str, bool] = {}
    for whole in completions(history, certificate):
        for level, holds in Definition(history, whole).verdicts().items():
            kept[level] = kept.get(level, False) or bool(holds)
    return kept


def how_many(history: History, certificate: Certificate) -> int:
    """The number of completions."""
    count = 1
    for thing, one in certificate.objects.items():
        count *= len(_lines(history, thing, one)) if one.partial else 1
    return count


def forgetful(seed: int, certificate: Certificate) -> Certificate:
    """The same with versions missing from the orders of one or two rows."""
    rng = random.Random(f"partial {seed}")
    things = sorted((thing for thing in certificate.objects), key=repr)
    if not things:
        return certificate
    objects = dict(certificate.objects)
    for thing in rng.sample(things, min(len(things), rng.choice([1, 1, 2]))):
        versions = [version for version in objects[thing].versions if version is not None]
        for _ in range(rng.choice([0, 1, 1, 2])):
            if versions:
                versions.pop(rng.randrange(len(versions)))
        objects[thing] = Installed((None, *versions), partial=True)
    return replace(certificate, objects=objects)
