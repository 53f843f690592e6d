"""Cuts a violation out: the sub-history of just the transactions involved, which is violated again.

Reads whose writer is left behind would become reads from thin air, another anomaly than the one to show. Where only one such
value of a key is missing and nobody needs its initial value, that value becomes the initial one; otherwise the read is left
out. Leaving out a read never makes a violation, so what remains is the violation that was found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from isolde._core import Analysis, Columns
from isolde.engines.check.decide import check
from isolde.engines.check.evidence import NOTHING, Evidence
from isolde.engines.check.recheck_lists import has_lists, listed
from isolde.engines.check.unordered import key_of, values_from_outside
from isolde.findings import Anomaly, Finding, Verdict
from isolde.formats import decode, encode
from isolde.history import (
    Append,
    History,
    Key,
    Operation,
    Read,
    Status,
    TxnId,
    Value,
    observed,
    token,
    written,
)
from isolde.levels import Level


@dataclass(frozen=True, slots=True)
class Witness:
    """A sub-history that is violated by itself, and what was told besides the history about its transactions."""

    history: History
    evidence: Evidence = NOTHING


def cut_out(
    columns: Columns,
    level: Level,
    anomaly: Anomaly,
    *,
    session_order: bool = True,
    judge_aborted: bool = False,
    evidence: Evidence = NOTHING,
) -> History:
    """The history of :func:`witness`."""
    options: dict[str, Any] = {"session_order": session_order, "judge_aborted": judge_aborted}
    return witness(columns, level, anomaly, evidence=evidence, **options).history


def witness(
    columns: Columns,
    level: Level,
    anomaly: Anomaly,
    *,
    session_order: bool = True,
    judge_aborted: bool = False,
    evidence: Evidence = NOTHING,
) -> Witness:
    """The sub-history of the transactions that ``anomaly`` needs, in file order, checked to violate ``level`` again and alike:
    what was a cycle, or cases of cycles, is not cut down to a read that lost its writer. It comes with the part of
    ``evidence`` that is about these transactions.

    Where the order of writes was known only through a longer chain of reads, the transactions of that chain are added.
    """
    options: dict[str, Any] = {"session_order": session_order, "judge_aborted": judge_aborted}
    if anomaly.name == "serialization-order-violation":
        return _replayed(columns, level, anomaly, evidence, session_order=session_order)
    if anomaly.name == "no-linearization" or not anomaly.positions:
        for candidate in _unordered(columns, anomaly) if anomaly.positions else _told(columns):
            # Whoever wrote what is read here may be left behind: that nobody did is the same contradiction.
            if check(encode(candidate), [level], **options).findings[0].verdict is Verdict.VIOLATED:
                return Witness(candidate)
    analysis = Analysis(columns, outside=evidence.core(), **options)
    needed = {*anomaly.positions, *anomaly.also_needed}
    shown = set() if _circular(anomaly) else set(anomaly.transactions)
    while True:
        whole = _with_outcomes(decode(columns, sorted(needed)))
        told = evidence.among(sorted(needed))
        for candidate in (_closed(whole, shown, keep_initial=True), _closed(whole, shown, keep_initial=False)):
            kept = _followed(whole, candidate, told)
            if _violated_alike(check(encode(candidate), [level], evidence=kept, **options).findings[0], anomaly):
                return Witness(candidate, kept)
        more = needed.union(analysis.sources(sorted(needed)))
        if more == needed:
            # What versions lines say can hang on transactions that nobody here read from: then all of them stay.
            more = set(range(columns.counts().transactions))
        if more == needed:
            # What makes it an anomaly of this kind is spread over everything, unknown outcomes included.
            return Witness(decode(columns), evidence)
        needed = more


def _followed(before: History, after: History, told: Evidence) -> Evidence:
    """What was told, where operations have moved up because reads before them were left out."""
    moved: dict[tuple[int, int], int] = {}
    for at, (old, new) in enumerate(zip(before.transactions, after.transactions, strict=True)):
        kept = 0
        for index, op in enumerate(old.ops):
            if kept < len(new.ops) and (new.ops[kept] is op or len(new.ops) == len(old.ops)):
                moved[at, index] = kept
                kept += 1
    versions = [
        [None if place is None else (place[0], moved[place]) for place in order if place is None or place in moved]
        for order in told.versions
    ]
    return replace(told, versions=versions)


def _replayed(columns: Columns, level: Level, anomaly: Anomaly, evidence: Evidence, *, session_order: bool) -> Witness:
    """The transactions that show that a serial order does not replay, or the whole history where others are needed."""
    positions = sorted({*anomaly.positions, *anomaly.also_needed})
    part = Witness(decode(columns, positions), evidence.among(positions))
    again = check(
        encode(part.history), [level], session_order=session_order, serialization_order=True, evidence=part.evidence
    ).findings[0]
    alike = any(found.name == anomaly.name for found in again.anomalies)
    return part if alike else Witness(decode(columns), evidence)


def _circular(anomaly: Anomaly) -> bool:
    return bool(anomaly.cycle or anomaly.cases)


def _violated_alike(finding: Finding, anomaly: Anomaly) -> bool:
    """Whether what was cut out is violated by itself: in circles too if it was, and not by a read that lost its writer."""
    return any(_circular(found) if _circular(anomaly) else found.name == anomaly.name for found in finding.anomalies)


def _told(columns: Columns) -> Iterator[History]:
    """What versions lines say against themselves: those of one key, without any transaction."""
    whole = decode(columns, [])
    for key in dict.fromkeys(chain.key for chain in whole.versions):
        initial = {k: value for k, value in whole.initial.items() if k == key}
        yield replace(whole, initial=initial, versions=tuple(chain for chain in whole.versions if chain.key == key))


def _unordered(columns: Columns, anomaly: Anomaly) -> Iterator[History]:
    """What cannot be ordered, with what may have taken effect besides. What the key held before is told by what was read and
    not written here, or by the initial value."""
    positions = sorted({*anomaly.positions, *anomaly.also_needed})
    whole = decode(columns, positions)
    key = key_of(whole.transactions[0])
    doubtful = {position for position in anomaly.also_needed if position not in anomaly.positions}
    transactions = tuple(
        replace(t, status=Status.UNKNOWN, end=None) if position in doubtful else t
        for position, t in zip(positions, whole.transactions, strict=True)
    )
    initial = {k: value for k, value in whole.initial.items() if k == key}
    part = replace(whole, transactions=transactions, initial=initial, versions=())
    if key is not None:
        for value in values_from_outside(transactions):
            yield replace(part, initial={key: value})
    yield part
    yield replace(whole, initial=initial, versions=tuple(chain for chain in whole.versions if chain.key == key))


def _with_outcomes(history: History) -> History:
    """What is unknown took effect, since somebody, maybe left behind, read it; but nothing is known to follow its end. One
    without a start among others that have times stays as it is: as a committed one it would leave real time undecided."""
    times = [time for t in history.transactions for time in (t.start, t.end) if time is not None]
    last = max(times, default=None)
    return replace(
        history,
        transactions=tuple(
            t
            if t.status is not Status.UNKNOWN or (last is not None and t.start is None)
            else replace(t, status=Status.COMMITTED, end=last if t.start is not None else t.end)
            for t in history.transactions
        ),
    )


def _closed(history: History, shown: set[TxnId], *, keep_initial: bool) -> History:
    """``history`` with every read either explained from within, or taken as initial, or left out.

    Lists lose the elements of transactions that were left behind. The transactions ``shown`` stay as they are.
    ``keep_initial`` says which reads go when both the initial value and a value
    from outside are needed: those from outside, or those of the initial value.
    """
    if has_lists(history):
        return _closed_lists(history, shown)
    installed: set[tuple[Key, Hashable]] = set()
    for transaction in history.transactions:
        installed |= {(w[0], token(w[1])) for op in transaction.ops if (w := written(op)) is not None}
    missing: dict[Key, dict[Hashable, Value]] = defaultdict(dict)
    needs_initial: set[Key] = set()
    for transaction in history.transactions:
        for op in transaction.ops:
            if (read := observed(op)) is None or (read[0], token(read[1])) in installed:
                continue
            if token(read[1]) == token(history.initial.get(read[0])):
                needs_initial.add(read[0])
            elif transaction.id not in shown and transaction.status is not Status.ABORTED:
                missing[read[0]][token(read[1])] = read[1]
    initial = dict(history.initial)
    for key, values in missing.items():
        if len(values) == 1 and not (keep_initial and key in needs_initial):
            initial[key] = next(iter(values.values()))

    def explained(op: Operation) -> bool:
        read = observed(op)
        return read is None or (read[0], token(read[1])) in installed or token(read[1]) == token(initial.get(read[0]))

    kept = tuple(
        transaction if transaction.id in shown else replace(transaction, ops=tuple(filter(explained, transaction.ops)))
        for transaction in history.transactions
    )
    used = {key for t in kept for op in t.ops for key in [getattr(op, "key", None)]}
    initial = {key: value for key, value in initial.items() if key in used}
    versions = tuple(chain for chain in history.versions if chain.key in used)
    return replace(history, transactions=kept, initial=initial, versions=versions)


def _closed_lists(history: History, shown: set[TxnId]) -> History:
    appended = {(op.key, token(op.element)) for t in history.transactions for op in t.ops if isinstance(op, Append)}
    appended |= {(key, token(e)) for key, value in history.initial.items() for e in listed(value)}

    def closed(op: Operation) -> Operation:
        if not isinstance(op, Read) or not isinstance(op.value, tuple):
            return op
        return replace(op, value=tuple(element for element in op.value if (op.key, token(element)) in appended))

    kept = tuple(t if t.id in shown else replace(t, ops=tuple(map(closed, t.ops))) for t in history.transactions)
    return replace(history, transactions=kept)
