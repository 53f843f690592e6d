"""Levels of histories over keys whose certificates tell orders in part or not at all: some order and some outcome keeps the level."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations, permutations, product

from isolde.history import History, Status, TxnId, written
from isolde.history.certificate import Certificate, Installed, ObjectId, VersionId

from .key_certificates import KeyDefinition


def forgetful(seed: int, certificate: Certificate) -> Certificate:
    """The same with orders that are partial or not told at all."""
    rng = random.Random(f"forgetful keys {seed}")
    objects: dict[ObjectId, Installed] = {}
    for key, installed in certificate.objects.items():
        kept = tuple(version for version in installed.versions if version is None or rng.random() < 0.6)
        chance = rng.random()
        if chance < 0.7:
            objects[key] = installed if chance < 0.3 else Installed(kept, partial=True)
    return replace(certificate, objects=objects)


def verdicts(history: History, certificate: Certificate) -> dict[str, bool | None]:
    """By level: whether some completion keeps it; ``None`` if that hangs on who wrote a value that several did."""
    found: dict[str, bool | None] = {}
    for whole, told in completions(history, certificate):
        for level, holds in KeyDefinition(whole, told).verdicts().items():
            before = found.get(level, False)
            found[level] = True if before or holds else None if before is None or holds is None else False
    return found


def completions(history: History, certificate: Certificate) -> Iterator[tuple[History, Certificate]]:
    """Every outcome of the transactions that nothing lists, with every order of what is written then."""
    keys = sorted({op.key for t in history.transactions for op in t.ops}, key=str)  # type: ignore[union-attr]
    listed = {v[0] for one in certificate.objects.values() for v in one.versions if v} | {*certificate.commits}
    lasts = {t.id: _lasts(history, t.id) for t in history.transactions}
    open_ = [
        t.id
        for t in history.transactions
        if t.status is Status.UNKNOWN
        and t.id not in listed
        # A whole order that lacks it says that it did not take effect.
        and all(key not in certificate.objects or certificate.objects[key].partial for key in lasts[t.id])
    ]
    for chosen in chain.from_iterable(combinations(open_, size) for size in range(len(open_) + 1)):
        counted = {*chosen, *(listed & {t.id for t in history.transactions if t.status is Status.UNKNOWN})}
        transactions = tuple(
            t
            if t.status is not Status.UNKNOWN
            else replace(t, status=Status.COMMITTED if t.id in counted else Status.ABORTED)
            for t in history.transactions
        )
        effective = [t.id for t in transactions if t.status is Status.COMMITTED]
        lines = [
            _lines(certificate.objects.get(key, Installed((None,), partial=True)), key, effective, lasts)
            for key in keys
        ]
        for orders in product(*lines):
            objects = {key: Installed((None, *order)) for key, order in zip(keys, orders, strict=True)}
            yield replace(history, transactions=transactions), replace(certificate, objects=objects)


def _lasts(history: History, txn: TxnId) -> dict[ObjectId, VersionId]:
    (ops,) = (t.ops for t in history.transactions if t.id == txn)
    return {found[0]: (txn, at) for at, op in enumerate(ops) if (found := written(op)) is not None}


def _lines(
    told: Installed, key: ObjectId, effective: list[TxnId], lasts: dict[TxnId, dict[ObjectId, VersionId]]
) -> list[tuple[VersionId, ...]]:
    listed = tuple(version for version in told.versions if version is not None)
    if not told.partial:
        return [listed]
    named = {version[0] for version in listed}
    missing = [lasts[txn][key] for txn in effective if key in lasts[txn] and txn not in named]
    return sorted(
        {
            order
            for order in permutations((*listed, *missing))
            if tuple(version for version in order if version in listed) == listed
        }
    )
