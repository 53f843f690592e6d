"""The sentence that says how far an order of the operations on a key gets, and why no further."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isolde.engines.check.naming import txn_name
from isolde.history import (
    Append,
    CompareAndSet,
    Key,
    Read,
    Scalar,
    Status,
    Transaction,
    Value,
    observed,
    render_value,
    written,
)

_NAMED_MAX = 6


def unordered_sentence(
    key: Key, order: Sequence[Transaction], stuck: Sequence[Transaction], initial: Mapping[Key, Value]
) -> str:
    """Of the transactions of ``key``, ``order`` is as far as one gets; the first of ``stuck`` then has no place."""
    name = render_value(key)
    if not stuck:
        return f"No order of the writes of {name} both explains what was read and follows the versions lines."
    due = stuck[0]
    told = f"No order explains {name}: "
    if order:
        told += f"the best one gets as far as {_names(order)}, after which {name} held {_held(order)}, but then"
    elif key in initial:
        told += f"it held {render_value(initial[key])} at first, but then"
    else:
        told += "of what it can have held before, nothing explains that"
    return f"{told} {txn_name(due.id)} {_saw(due, name)}{_others(stuck[1:])}."


def _names(order: Sequence[Transaction]) -> str:
    names = [txn_name(t.id) for t in order]
    return " ".join(names if len(names) <= _NAMED_MAX else ["…", *names[-_NAMED_MAX:]])


def _others(others: Sequence[Transaction]) -> str:
    if not others:
        return ""
    names = [txn_name(t.id) for t in others[:_NAMED_MAX]] + (["…"] if len(others) > _NAMED_MAX else [])
    return f", and {' '.join(names)} had no place either"


def _held(order: Sequence[Transaction]) -> str:
    """What the key held after ``order``, as far as the operations tell."""
    held: tuple[()] | tuple[Value] = ()
    for transaction in order:
        inside = held
        for op in transaction.ops:
            match op:
                case Append(_, element):
                    inside = (_appended(inside[0], element),) if inside else ()
                case _ if (pair := written(op) or observed(op)) is not None:
                    inside = (pair[1],)
                    if transaction.status is Status.ABORTED:
                        break
                case _:
                    pass
        held = inside
    return _plain(*held) if held else "something else"


def _appended(value: Value, element: Scalar) -> Value:
    return (*value, element) if isinstance(value, tuple) else (element,)


def _saw(transaction: Transaction, key: str) -> str:
    """What a transaction saw first."""
    for op in transaction.ops:
        match op:
            case Read(_, value) | CompareAndSet(_, _, _, False, (value,)):
                return f"read {key} = {_plain(value)}"
            case CompareAndSet(_, expected, _, True):
                return f"found {key} = {_plain(expected)}"
            case CompareAndSet(_, expected):
                return f"did not find {key} = {_plain(expected)}"
            case _:
                pass
    return "ended"


def _plain(value: Value) -> str:
    if isinstance(value, tuple) and len(value) > _NAMED_MAX:
        return f"[… {','.join(map(render_value, value[-_NAMED_MAX:]))}] ({len(value):,} elements)"
    return "nothing" if value is None else render_value(value)
