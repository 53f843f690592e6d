"""Does an order that was told really fail to replay? By doing what the transactions did, one after the other."""

from __future__ import annotations

from collections.abc import Mapping

from isolde.engines.check.evidence import Told
from isolde.engines.check.sources import in_session
from isolde.findings import Anomaly
from isolde.history import Append, CompareAndSet, History, Key, Read, Transaction, Value, Write, token

State = object


def does_not_replay(history: History, told: Told, anomaly: Anomaly) -> bool:
    """Whether the order contradicts what ``anomaly`` says: two transactions stand the wrong way round, or the last one that it
    names gets another answer than it recorded."""
    by_id = {t.id: t for t in history.transactions}
    place = {txn: at for at, txn in enumerate(told.serial)}
    if anomaly.cycle:
        link = anomaly.cycle[0]
        if link.source not in place or link.target not in place or place[link.source] < place[link.target]:
            return False
        first, second = by_id[link.source], by_id[link.target]
        match link.kind:
            case "so" if link.basis != "outside":
                return in_session(history, first, second)
            case "rt" if link.basis != "outside":
                return first.end is not None and second.start is not None and first.end < second.start
            case "ww" if link.basis != "outside":
                return any(told.before(key, first.id, second.id) for key in told.orders)
            case kind:
                return (first.id, second.id, kind) in told.edges
    state: dict[Key, State] = {key: token(value) for key, value in history.initial.items()}
    for txn in told.serial:
        if txn in by_id and not _run(by_id[txn], state):
            return txn == anomaly.transactions[-1]
    return False


def _run(transaction: Transaction, state: dict[Key, State]) -> bool:
    """Runs a transaction on ``state``; whether it got its recorded answers."""
    for op in transaction.ops:
        match op:
            case Read(key, value):
                if _shown(state, key, value) != token(value):
                    return False
            case Write(key, value):
                state[key] = token(value)
            case Append(key, element):
                before = state.get(key, token(None))
                state[key] = (*(before if _is_list(before) else ()), token(element))  # type: ignore[misc]
            case CompareAndSet(key, expected, new, True):
                if state.get(key, token(None)) != token(expected):
                    return False
                state[key] = token(new)
            case CompareAndSet(key, _, _, False, (current,)):
                if state.get(key, token(None)) != token(current):
                    return False
            case CompareAndSet(key, expected):
                if state.get(key, token(None)) == token(expected):
                    return False
            case _:
                pass
    return True


def _shown(state: Mapping[Key, State], key: Key, value: Value) -> State:
    """What is at ``key``; a list that is empty and a key that is absent are the same."""
    now = state.get(key, token(None))
    if now in (token(None), ()):
        return () if isinstance(value, tuple) else token(None)
    return now


def _is_list(state: State) -> bool:
    return isinstance(state, tuple) and (not state or isinstance(state[0], tuple))
