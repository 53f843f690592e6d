"""Is what was committed still there? Judged from a history and the final state that was read after it.

A value that a key holds at the end is *stale* if a committed transaction replaced it: one that read it and then wrote the key, or
one that wrote the key and began after the transaction that wrote the value had ended. In either case the database had
the newer version and has it no more. A value that nobody can have left there is stale as well: a store that came back empty
shows a key as absent that nobody deleted. This needs no isolation level: it is as true of read committed as of serializable.
A list has lost what a committed transaction appended if the final one does not hold it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isolde.history import (
    Append,
    CompareAndSet,
    History,
    Key,
    Scalar,
    Status,
    Transaction,
    TxnId,
    Value,
    Write,
    txn_name,
)
from isolde.history.model import observed, written


@dataclass(frozen=True, slots=True)
class Lost:
    """A committed write that the final state does not show."""

    key: Key
    transaction: TxnId
    value: Scalar
    found: Value

    @property
    def sentence(self) -> str:
        return (
            f"{txn_name(self.transaction)} committed {self.key} = {_text(self.value)}, but in the end {self.key} held"
            f" {_text(self.found)}"
        )


def lost_writes(history: History, final: Mapping[Key, Value]) -> list[Lost]:
    """One for each key that went back, in the order of the keys; empty if everything committed is there."""
    found: dict[Key, Lost] = {}
    ends, possible = _ends_of_writers(history)
    for transaction in history.transactions:
        if transaction.status is not Status.COMMITTED:
            continue
        seen: dict[Key, Value] = {}
        for op in transaction.ops:
            read = observed(op)
            if read is not None:
                seen.setdefault(*read)
            if isinstance(op, Append) and op.key in final and op.key not in found:
                value = final[op.key]
                if not isinstance(value, tuple) or op.element not in value:
                    found[op.key] = Lost(op.key, transaction.id, op.element, value)
        for key, value in _last_writes(transaction).items():
            if key not in final or key in found or final[key] == value:
                continue
            end = ends.get((key, final[key]))
            followed = end is not None and transaction.start is not None and transaction.start > end
            # Deletes repeat: an absent key that was read, written and deleted again is not stale.
            replaced = final[key] is not None and seen.get(key, _NOTHING) == final[key]
            if replaced or followed or (key, final[key]) not in possible:
                found[key] = Lost(key, transaction.id, value, final[key])
    return list(found.values())


_NOTHING = ("nothing was read",)


def _last_writes(transaction: Transaction) -> dict[Key, Scalar]:
    writes: dict[Key, Scalar] = {}
    for op in transaction.ops:
        if isinstance(op, Write | CompareAndSet):
            write = written(op)
            if write is not None:
                writes[write[0]] = write[1]
    return writes


def _ends_of_writers(history: History) -> tuple[dict[tuple[Key, Value], int], set[tuple[Key, Value]]]:
    """When the last transaction that wrote a value to a key had ended at the latest, none if that is not known; and all
    values that a key can have been left with.

    Deletes repeat: a key that is absent was left so by the last of them, which any may be.
    """
    ends: dict[tuple[Key, Value], int] = {}
    unknown: set[tuple[Key, Value]] = set()
    for transaction in history.transactions:
        if transaction.status is Status.ABORTED:
            continue
        for key, value in _last_writes(transaction).items():
            place = (key, value)
            if transaction.end is None or transaction.status is Status.UNKNOWN:
                unknown.add(place)
            else:
                ends[place] = max(ends.get(place, transaction.end), transaction.end)
    for key, first in history.initial.items():
        ends.setdefault((key, first), -1)
    return {place: end for place, end in ends.items() if place not in unknown}, ends.keys() | unknown


def _text(value: Value) -> str:
    return "nothing" if value is None else str(value)
