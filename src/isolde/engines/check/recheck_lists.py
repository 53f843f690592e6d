"""The same for lists: what a list shows about its appenders, and lists as registers with their order told.

A list that was read is the version of the transaction that appended its last element, and its elements tell the order of the
versions. So a cycle of a list history can be checked on a register history, in which an append writes its element, a read
sees the last one, and versions lines say what the lists showed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import replace

from isolde.engines.check.shared_elements import counted_readers
from isolde.findings import Anomaly
from isolde.history import (
    Append,
    History,
    Key,
    Read,
    Scalar,
    Status,
    Transaction,
    Value,
    VersionChain,
    Write,
    token,
)


def has_lists(history: History) -> bool:
    """Whether the keys hold lists."""
    ops = (op for t in history.transactions for op in t.ops)
    return any(isinstance(op, Append) or (isinstance(op, Read) and isinstance(op.value, tuple)) for op in ops)


def as_registers(history: History, *, reads_bind: bool, judge_aborted: bool) -> History:
    """The history with each list replaced by its last element; ``reads_bind``: who read a list appended after what it shows.

    A read after an own append still shows what that was made on, so the writes of each transaction are put at its end.
    """

    def single(t: Transaction) -> Transaction:
        reads = [Read(key, shown[-1] if shown else None) for key, shown in _outside(t)]
        writes = [Write(op.key, op.element) for op in t.ops if isinstance(op, Append)]
        return replace(t, ops=(*reads, *writes))

    initial = {key: listed(value)[-1] if listed(value) else None for key, value in history.initial.items()}
    counted = counted_readers(history, judge_aborted=False) if reads_bind else []
    if reads_bind and judge_aborted:
        counted = [t for t in history.transactions if _was_seen(history, t)]
    seen = {t.id for t in counted if t.status is Status.UNKNOWN}
    # One of unknown outcome took effect if a list shows its elements, be they the last or not.
    transactions = tuple(
        replace(single(t), status=Status.COMMITTED) if t.id in seen else single(t) for t in history.transactions
    )
    return replace(
        history, transactions=transactions, initial=initial, versions=tuple(_order(history, reads_bind=reads_bind))
    )


def listed(value: Value) -> tuple[Scalar, ...]:
    """The elements of a list; absent is empty."""
    return value if isinstance(value, tuple) else ()


def _outside(transaction: Transaction) -> list[tuple[Key, tuple[Scalar, ...]]]:
    """The lists that were read, in program order, without what the transaction itself had appended."""
    own: dict[Key, list[Scalar]] = defaultdict(list)
    lists = []
    for op in transaction.ops:
        if isinstance(op, Append):
            own[op.key].append(op.element)
        elif isinstance(op, Read):
            shown, mine = listed(op.value), own[op.key]
            ends = list(shown[len(shown) - len(mine) :]) == mine
            lists.append((op.key, shown[: len(shown) - len(mine)] if ends else shown))
    return lists


def _was_seen(history: History, appender: Transaction) -> bool:
    appended = {(op.key, token(op.element)) for op in appender.ops if isinstance(op, Append)}
    others = (_outside(t) for t in history.transactions if t is not appender)
    return any((key, token(element)) in appended for lists in others for key, shown in lists for element in shown)


def _outside_of(transaction: Transaction, key: Key) -> list[tuple[Scalar, ...]]:
    return [shown for read, shown in _outside(transaction) if read == key]


def _order(history: History, *, reads_bind: bool) -> list[VersionChain]:
    chains = []
    keys = {op.key for t in history.transactions for op in t.ops if isinstance(op, Append)}
    for key in keys:
        last: dict[Hashable, Scalar] = {}
        for t in history.transactions:
            elements = [op.element for op in t.ops if isinstance(op, Append) and op.key == key]
            last |= dict.fromkeys(map(token, elements), elements[-1]) if elements else {}
        # What nobody who counts appended is looked away from.
        appended = {
            token(op.element)
            for t in history.transactions
            if t.status is Status.COMMITTED
            for op in t.ops
            if isinstance(op, Append) and op.key == key
        }
        for t in history.transactions:
            own = {token(op.element) for op in t.ops if isinstance(op, Append) and op.key == key}
            # Where reads do not bind, a list tells the order of its reader's own elements as well.
            whole = [listed(op.value) for op in t.ops if isinstance(op, Read) and op.key == key]
            for shown in _outside_of(t, key) if reads_bind else whole:
                untold = own if reads_bind or t.status is not Status.COMMITTED else set()
                if not reads_bind:
                    shown = tuple(e for e in shown if token(e) in appended)
                # The reader's own elements at the end are not there for others yet: what the list lacks may come before them.
                before = shown
                while before and token(before[-1]) in own:
                    before = before[:-1]
                chain = _versions(shown, last, untold)
                chains += [VersionChain(key, (a, b)) for at, a in enumerate(chain) for b in chain[at + 1 :]]
                there = {token(v) for v in (*chain, *_versions(shown, last, set()))}
                later = {
                    token(v): v for v in last.values() if token(v) not in there and (reads_bind or token(v) not in own)
                }
                chains += [
                    VersionChain(key, (v, other)) for v in _versions(before, last, untold) for other in later.values()
                ]
    return chains


def _versions(shown: tuple[Scalar, ...], last: Mapping[Hashable, Scalar], untold: set[Hashable]) -> list[Scalar]:
    """The versions whose elements a list shows, each named by the last element of its appender."""
    versions = [last[token(e)] for e in shown if token(e) in last and token(e) not in untold]
    return [v for at, v in enumerate(versions) if at == 0 or token(v) != token(versions[at - 1])]


def unexplained_list(history: History, anomaly: Anomaly) -> bool:
    """Whether the last transaction of ``anomaly`` read a list that is wrong in the way that its name says."""
    reader = next(t for t in history.transactions if t.id == anomaly.transactions[-1])
    keys = {op.key for op in reader.ops if isinstance(op, Read)}
    match anomaly.name:
        case (
            "thin-air-read"
            | "aborted-read"
            | "future-read"
            | "intermediate-read"
            | "lost-element"
            | "duplicate-element"
        ):
            return any(_inexplicable(history, reader, key) or _disagrees(history, reader, key) for key in keys)
        case "incompatible-order":
            return any(_disagrees(history, reader, key) or _inexplicable(history, reader, key) for key in keys)
        case "not-my-last-write" | "not-my-own-write":
            return any(_misses_own(reader, key) for key in keys)
        case "non-repeatable-read":
            return any(len({tuple(map(token, shown)) for shown in _outside_of(reader, key)}) > 1 for key in keys)
        case _:
            return False


def _inexplicable(history: History, reader: Transaction, key: Key) -> bool:
    """Whether some list is no row of whole transactions of others that may have committed."""
    appended = {
        t.id: [token(op.element) for op in t.ops if isinstance(op, Append) and op.key == key]
        for t in history.transactions
        if t.status is not Status.ABORTED and t.id != reader.id
    }

    def explained(rest: list[Hashable], used: frozenset[object]) -> bool:
        return not rest or any(
            name not in used and elements and rest[: len(elements)] == elements
            and explained(rest[len(elements) :], used | {name})
            for name, elements in appended.items()
        )  # fmt: skip

    first = list(map(token, listed(history.initial.get(key))))
    lists = [list(map(token, shown)) for shown in _outside_of(reader, key)]
    return any(shown[: len(first)] != first or not explained(shown[len(first) :], frozenset()) for shown in lists)


def _disagrees(history: History, reader: Transaction, key: Key) -> bool:
    """Whether some list and another one that was read are not the one a beginning of the other."""
    mine = [list(map(token, shown)) for shown in _outside_of(reader, key)]
    for other in history.transactions:
        for shown in _outside_of(other, key):
            theirs = list(map(token, shown))
            if any(a[: len(b)] != b[: len(a)] for a in mine for b in [theirs]):
                return True
    return False


def _misses_own(reader: Transaction, key: Key) -> bool:
    """Whether a list does not end with what its reader had appended, or that was made on two different lists."""
    own: list[Hashable] = []
    base: list[Hashable] | None = None
    for op in reader.ops:
        if isinstance(op, Append) and op.key == key:
            own.append(token(op.element))
        elif isinstance(op, Read) and op.key == key and own:
            shown = list(map(token, listed(op.value)))
            if shown[-len(own) :] != own or (base is not None and shown[: -len(own)] != base):
                return True
            base = shown[: -len(own)]
    return False
