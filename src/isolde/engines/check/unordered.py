"""Can these transactions of one key be ordered at all? By plain search, for evidence and without the core.

Of a key, some transactions are taken that must have a place. Whatever else was under way between their first start and their
last end may have taken effect or not; what was over before left behind some state. If no order of them works for any such
state, none works for the whole key.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, takewhile
from typing import assert_never

from isolde.history import (
    Append,
    CompareAndSet,
    History,
    Key,
    Operation,
    Read,
    Scalar,
    Scan,
    Sql,
    Status,
    Transaction,
    TxnId,
    Value,
    Write,
    token,
)

State = Hashable
_SOMETHING_ELSE: State = "a value that nobody here saw"
_ALWAYS, _NEVER = float("-inf"), float("inf")
_STATES_MAX = 100_000


class TooMuch(Exception):
    """There is more to try than a second look is worth. Raised by :func:`cannot_be_ordered`."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A transaction that may get a place; one that is not ``required`` may be left out and has no ``end``."""

    ops: tuple[Operation, ...]
    start: float
    end: float
    takes_effect: bool
    required: bool


def run(ops: Iterable[Operation], state: State) -> tuple[State, Operation | None]:
    """The state after these operations on one key, and the first that would have got another answer."""
    for op in ops:
        match op:
            case Read(_, value):
                right = _same(state, value)
            case Write(_, value):
                state, right = token(value), True
            case Append(_, element):
                state, right = _appended(state, element), True
            case CompareAndSet(_, expected, new, True):
                right = _same(state, expected)
                state = token(new)
            case CompareAndSet(_, _, _, _, (current,)):
                right = _same(state, current)
            case CompareAndSet(_, expected):
                right = not _same(state, expected)
            case Scan() | Sql():
                right = False
            case _:
                assert_never(op)
        if not right:
            return state, op
    return state, None


def _same(state: State, value: Value) -> bool:
    """Whether a read of ``value`` fits; an empty list is an absent one."""
    return state == token(value) or (state in ((), token(None)) and value in ((), None))


def _appended(state: State, element: Scalar) -> State:
    if state == token(None):
        return (token(element),)
    listed = isinstance(state, tuple) and all(isinstance(part, tuple) for part in state)
    return (*state, token(element)) if listed and isinstance(state, tuple) else _SOMETHING_ELSE


def cannot_be_ordered(history: History, chosen: Sequence[TxnId], *, judge_aborted: bool) -> bool:
    """Whether no order explains the transactions ``chosen``, all of one key, with what else happened on that key."""
    picked = [t for t in history.transactions if t.id in set(chosen)]
    keys = {key_of(t) for t in picked}
    if len(keys) != 1 or not all(_must_be_explained(t, judge_aborted=judge_aborted) for t in picked):
        return False
    key = keys.pop()
    if key is None:
        return False
    others = [t for t in history.transactions if key_of(t) == key and t not in picked and _may_write(t)]
    initial = token(history.initial.get(key))
    required = [_required(t) for t in picked]
    # One of unknown outcome, where it is judged, must be explained, and may take effect besides.
    doubtful = [t for t in picked if t.status is Status.UNKNOWN and _writes(t)]
    first, last = min(c.start for c in required), max(c.end for c in required)
    over = [t for t in others if _end(t) < first]
    beside = _relevant(picked, [t for t in others if _end(t) >= first and _start(t) <= last])
    calls = [*required, *map(_optional, (*doubtful, *beside))]
    starts = _left_behind(picked + beside, [t for t in others if _start(t) < first]) if over else ()
    if not any(_order_exists(calls, state) for state in (initial, *starts)):
        return True
    chains = [tuple(token(v) for v in chain.values) for chain in history.versions if chain.key == key]
    if not chains:
        return False
    committed = [_required(t) for t in others if t.status is Status.COMMITTED]
    unknown = [t for t in others if t.status is Status.UNKNOWN]
    calls = [*required, *committed, *map(_optional, (*doubtful, *unknown))]
    return not any(_order_exists(kept, initial, told) for kept, told in _outcomes(calls, initial, chains))


def key_of(transaction: Transaction) -> Key | None:
    """The key of a transaction that has one."""
    keys = [op.key for op in transaction.ops if isinstance(op, Read | Write | Append | CompareAndSet)]
    return keys[0] if keys else None


def values_from_outside(transactions: Sequence[Transaction]) -> list[Value]:
    """What was read here and cannot come from here; of lists, the beginning that does not."""
    written = {token(value) for t in transactions for value in _written(t)}
    found: list[Value] = []
    for value in (value for t in transactions for value in _seen(t)):
        if isinstance(value, tuple):
            foreign = tuple(takewhile(lambda part: token(part) not in written, value))
            found += [foreign] if foreign else []
        elif value is not None and token(value) not in written:
            found.append(value)
    return list(dict.fromkeys(found))


def _must_be_explained(transaction: Transaction, *, judge_aborted: bool) -> bool:
    return transaction.status is Status.COMMITTED or judge_aborted


def _start(transaction: Transaction) -> float:
    return _ALWAYS if transaction.start is None else transaction.start


def _end(transaction: Transaction) -> float:
    return _NEVER if transaction.end is None or transaction.status is Status.UNKNOWN else transaction.end


def _required(t: Transaction) -> _Call:
    return _Call(t.ops, _start(t), _end(t), t.status is Status.COMMITTED and _writes(t), required=True)


def _optional(t: Transaction) -> _Call:
    return _Call(t.ops, _start(t), _NEVER, takes_effect=True, required=False)


def _writes(transaction: Transaction) -> bool:
    return bool(_written(transaction))


def _may_write(transaction: Transaction) -> bool:
    return transaction.status is not Status.ABORTED and _writes(transaction) and _is_possible(transaction)


def _is_possible(transaction: Transaction) -> bool:
    """Whether what it saw of itself is right: on some state it gets the answers that it got."""
    states: set[State] = {_SOMETHING_ELSE, (), *(token(value) for value in _seen(transaction))}
    lists = [value for value in _seen(transaction) if isinstance(value, tuple)]
    states |= {token(value[:length]) for value in lists for length in range(len(value))}
    return any(run(transaction.ops, state)[1] is None for state in states)


def _written(transaction: Transaction) -> list[Scalar]:
    """The value that it left behind, or the elements that it appended."""
    values: list[Scalar] = []
    for op in transaction.ops:
        match op:
            case Append(_, element):
                values.append(element)
            case Write(_, value) | CompareAndSet(_, _, value, True):
                values = [value]
            case _:
                pass
    return values


def _seen(transaction: Transaction) -> list[Value]:
    values: list[Value] = []
    for op in transaction.ops:
        match op:
            case Read(_, value) | CompareAndSet(_, value, _, True) | CompareAndSet(_, _, _, _, (value,)):
                values.append(value)
            case _:
                pass
    return values


def _is_silent(op: Operation) -> bool:
    return isinstance(op, CompareAndSet) and not op.applied and not op.current


def _tokens(values: Iterable[Value]) -> set[Hashable]:
    """Values as tokens; of lists, the elements."""
    return {token(part) for value in values for part in (value if isinstance(value, tuple) else (value,))}


def _relevant(picked: Sequence[Transaction], others: Sequence[Transaction]) -> list[Transaction]:
    """Those of ``others`` whose effect somebody can have seen, or may have missed."""
    chosen: list[Transaction] = []
    while True:
        members = [*picked, *chosen]
        seen = _tokens(value for t in members for value in _seen(t))
        silent = any(_is_silent(op) for t in members for op in t.ops)
        more = [t for t in others if t not in chosen and (silent or seen & _tokens(_written(t)))]
        if not more:
            return chosen
        chosen += more


def _left_behind(members: Sequence[Transaction], earlier: Sequence[Transaction]) -> set[State]:
    """The states, as far as anybody tells them apart, in which ``earlier`` can have left the key."""
    ops = [op for t in members for op in t.ops]
    states: set[State] = {_SOMETHING_ELSE, *(token(value) for t in earlier for value in _written(t))}
    for value in (op.value for op in ops if isinstance(op, Read) and isinstance(op.value, tuple)):
        written = _tokens(v for t in earlier for v in _written(t))
        prefixes = (value[:length] for length in range(len(value) + 1))
        states |= {token(prefix) for prefix in prefixes if _tokens(prefix) <= written}
    return states


def _order_exists(calls: Sequence[_Call], start: State, told: Sequence[tuple[State, ...]] = ()) -> bool:
    """Depth first, with a memory; ``told`` must be installed in that order."""
    first = (frozenset[int](), start, _progress(told, (0,) * len(told), start))
    waiting, known = [first], {first}
    while waiting:
        done, state, progress = waiting.pop()
        missing = [i for i, call in enumerate(calls) if call.required and i not in done]
        if not missing and all(p == len(chain) for p, chain in zip(progress, told, strict=True)):
            return True
        soonest = min((calls[i].end for i in missing), default=_NEVER)
        following = []
        for index, call in enumerate(calls):
            if index in done or call.start > soonest:
                continue
            after, wrong = run(call.ops, state)
            if wrong is not None:
                continue
            if not call.takes_effect:
                # It changes nothing, so nothing is lost by giving it its place at once.
                following = [(done | {index}, state, progress)]
                break
            following.append((done | {index}, after, _progress(told, progress, after)))
        for position in following:
            if position not in known:
                if len(known) == _STATES_MAX:
                    raise TooMuch
                known.add(position)
                waiting.append(position)
    return False


def _progress(told: Sequence[tuple[State, ...]], progress: tuple[int, ...], state: State) -> tuple[int, ...]:
    return tuple(p + (chain[p : p + 1] == (state,)) for p, chain in zip(progress, told, strict=True))


def _outcomes(
    calls: Sequence[_Call], initial: State, chains: Sequence[tuple[State, ...]]
) -> Iterator[tuple[list[_Call], list[tuple[State, ...]]]]:
    """Every choice of told values that were installed: the calls that remain, and the chains that count."""

    def installed(call: _Call) -> State | None:
        values = [op for op in call.ops if isinstance(op, Write) or (isinstance(op, CompareAndSet) and op.applied)]
        if not call.takes_effect or not values:
            return None
        last = values[-1]
        return token(last.value if isinstance(last, Write) else last.new)

    certain = {initial, *(installed(call) for call in calls if call.required)}
    told = {value for chain in chains for value in chain}
    open_values = sorted({v for call in calls if (v := installed(call)) in told} - certain, key=repr)
    for count in range(len(open_values) + 1):
        for absent in combinations(open_values, count):
            present = certain | set(open_values) - set(absent)
            kept = [call for call in calls if call.required or installed(call) not in absent]
            yield kept, [tuple(value for value in chain if value in present) for chain in chains]
