"""Elements of a list that several transactions appended: who appended which one is a choice.

A list that was read shows an element at a place behind others. Who put it there, of those that appended such an element, is
assumed, and the element of that append is given a name of its own, where it was appended and where it was seen. When
no element that was seen is shared, the history is one that the core decides.

At read uncommitted what was read binds nobody, but an element tells the order of its appenders if only one of those that took
effect appended it. There the choice is whether a transaction of unknown outcome that shares an element took effect.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from isolde.engines.check.naming import txn_name
from isolde.findings import Supposition
from isolde.history import (
    Append,
    History,
    Key,
    Operation,
    Read,
    Scalar,
    Status,
    Transaction,
    TxnId,
    render_value,
    token,
)
from isolde.levels import Level


@dataclass(frozen=True, slots=True)
class Place:
    """The operation ``index`` of ``reader`` saw the shared element ``element`` of ``key`` behind the elements ``before``."""

    reader: TxnId
    index: int
    key: Key
    before: tuple[Hashable, ...]
    element: Scalar


def alternatives(history: History, level: Level, *, judge_aborted: bool) -> Iterator[tuple[Supposition, History]]:
    """What may be assumed of the first thing that is shared, each with the history as it then is; nothing, if nothing is."""
    if level is Level.READ_UNCOMMITTED:
        yield from _outcomes(history)
        return
    place = _first_shared(history, counted_readers(history, judge_aborted=judge_aborted))
    if place is None:
        return
    for t in history.transactions:
        for index, op in enumerate(t.ops):
            if t.status is not Status.ABORTED and _appends(op, place.key, place.element):
                text = (
                    f"the {render_value(place.element)} at place {len(place.before) + 1} of {render_value(place.key)}"
                )
                text += f" that {txn_name(place.reader)} saw was appended by {txn_name(t.id)}"
                supposed = Supposition("appended", place.key, place.reader, index, t.id, text)
                yield supposed, _told_apart(history, place, t.id, index)


def _appends(op: Operation, key: Key, element: Scalar) -> bool:
    return isinstance(op, Append) and op.key == key and token(op.element) == token(element)


def _outcomes(history: History) -> Iterator[tuple[Supposition, History]]:
    """The outcomes of the first transaction of unknown outcome with an element that somebody else appended too."""
    times = _times_appended(history)
    for t in history.transactions:
        shared = [op for op in t.ops if isinstance(op, Append) and times.get((op.key, token(op.element)), 0) > 1]
        if t.status is Status.UNKNOWN and shared:
            for status, did in ((Status.COMMITTED, "took"), (Status.ABORTED, "did not take")):
                supposed = Supposition("outcome", shared[0].key, t.id, 0, t.id, f"{txn_name(t.id)} {did} effect")
                yield supposed, _with(history, replace(t, status=status))
            return


def _with(history: History, changed: Transaction) -> History:
    return replace(history, transactions=tuple(changed if t.id == changed.id else t for t in history.transactions))


def _times_appended(history: History) -> dict[tuple[Key, Hashable], int]:
    times: dict[tuple[Key, Hashable], int] = {}
    for key, value in history.initial.items():
        for element in value if isinstance(value, tuple) else ():
            times[key, token(element)] = times.get((key, token(element)), 0) + 1
    for t in history.transactions:
        for op in t.ops:
            if isinstance(op, Append) and t.status is not Status.ABORTED:
                times[op.key, token(op.element)] = times.get((op.key, token(op.element)), 0) + 1
    return times


def counted_readers(history: History, *, judge_aborted: bool) -> list[Transaction]:
    """Those whose reads are judged: committed ones, and those of unknown outcome with elements that one of these saw and that
    nobody else appended; or all, if aborted ones are judged."""
    if judge_aborted:
        return list(history.transactions)
    times = _times_appended(history)
    counted = [t for t in history.transactions if t.status is Status.COMMITTED]
    unknown = [t for t in history.transactions if t.status is Status.UNKNOWN]
    for reader in counted:  # this grows while it is walked
        shown = {(op.key, token(element)) for _, op, others in _reads(reader) for element in others}
        for t in unknown:
            own = {(op.key, token(op.element)) for op in t.ops if isinstance(op, Append)}
            if t not in counted and any(element in shown and times[element] == 1 for element in own):
                counted.append(t)
    return sorted(counted, key=history.transactions.index)


def _first_shared(history: History, readers: Sequence[Transaction]) -> Place | None:
    """The first element that a list shows, behind what was there from the start, and that was appended more than once."""
    times = _times_appended(history)
    for t in readers:
        for index, op, others in _reads(t):
            for at in range(_initial_length(history, op.key), len(others)):
                if times.get((op.key, token(others[at])), 0) > 1:
                    return Place(t.id, index, op.key, tuple(map(token, others[:at])), others[at])
    return None


def _initial_length(history: History, key: Key) -> int:
    initial = history.initial.get(key)
    return len(initial) if isinstance(initial, tuple) else 0


def _reads(transaction: Transaction) -> Iterator[tuple[int, Read, tuple[Scalar, ...]]]:
    """The lists that were read, with their places, and what of each is not the reader's own at its end."""
    for index, op in enumerate(transaction.ops):
        if isinstance(op, Read) and isinstance(op.value, tuple):
            own = _own(transaction, index, op.key)
            ends = bool(own) and tuple(map(token, op.value[-len(own) :])) == tuple(map(token, own))
            yield index, op, op.value[: -len(own)] if ends else op.value


def _own(transaction: Transaction, index: int, key: Key) -> list[Scalar]:
    return [op.element for op in transaction.ops[:index] if isinstance(op, Append) and op.key == key]


def with_own_names(history: History, *, judge_aborted: bool) -> History:
    """The history in which every append has a name of its own whose element nobody saw, or saw of somebody else for certain:
    elements of aborted transactions that others appended too, and what is shared but was not seen."""
    times = _times_appended(history)
    seen: set[tuple[Key, Hashable]] = set()
    for t in counted_readers(history, judge_aborted=judge_aborted):
        for _, read, others in _reads(t):
            seen |= {(read.key, token(element)) for element in others[_initial_length(history, read.key) :]}
    names: dict[tuple[TxnId, int], str] = {}
    for t in history.transactions:
        for index, op in enumerate(t.ops):
            if not isinstance(op, Append):
                continue
            element = op.key, token(op.element)
            shared = times.get(element, 0) > 1 and element not in seen
            if shared or (t.status is Status.ABORTED and times.get(element, 0) > 0):
                names[t.id, index] = f"{_name(history, op.element, t.id)} #{index}"
    return _renamed(history, names) if names else history


def without_shared(history: History) -> History:
    """The history as read uncommitted takes it: shared elements, by names of their own, are in no list."""
    times = _times_appended(history)
    names = {
        (t.id, index): f"{_name(history, op.element, t.id)} #{index}"
        for t in history.transactions
        for index, op in enumerate(t.ops)
        if isinstance(op, Append) and times.get((op.key, token(op.element)), 0) > (t.status is not Status.ABORTED)
    }
    return _renamed(history, names, forgotten={element for element, count in times.items() if count > 1})


def _told_apart(history: History, place: Place, appender: TxnId, index: int) -> History:
    """The history in which that append, and what was seen of it, has an element of its own."""
    return _renamed(history, {(appender, index): _name(history, place.element, appender)}, place)


def _name(history: History, element: Scalar, appender: TxnId) -> str:
    name = f"{render_value(element)} of {txn_name(appender)}"
    taken = {token(op.element) for t in history.transactions for op in t.ops if isinstance(op, Append)}
    while token(name) in taken:
        name += "'"
    return name


def _renamed(
    history: History,
    names: dict[tuple[TxnId, int], str],
    place: Place | None = None,
    forgotten: Collection[tuple[Key, Hashable]] = (),
) -> History:
    """The history with these appends renamed, where they were made and, of the one that ``place`` is about, where it was seen.
    What is ``forgotten`` is in no list of another reader."""

    def changed(t: Transaction) -> Transaction:
        ops = [
            replace(op, element=names[t.id, index]) if isinstance(op, Append) and (t.id, index) in names else op
            for index, op in enumerate(t.ops)
        ]
        renamed = replace(t, ops=tuple(ops))
        for at, op, others in _reads(t):
            shown = [element for element in others if (op.key, token(element)) not in forgotten]
            if place is not None and op.key == place.key:
                end = len(place.before)
                if tuple(map(token, shown[: end + 1])) == (*place.before, token(place.element)):
                    shown[end] = next(iter(names.values()))
            # What stands at the end because the reader itself appended it is what it appends now.
            own = _own(renamed, at, op.key) if isinstance(op.value, tuple) and len(others) < len(op.value) else []
            ops[at] = replace(op, value=(*shown, *own))
        return replace(t, ops=tuple(ops))

    return replace(history, transactions=tuple(map(changed, history.transactions)))
