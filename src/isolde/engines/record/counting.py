"""Were all increments counted? Judged from the history of a run of counters, and the values that were read when it was over.

Each committed increment adds one for ever; one of unknown outcome may have. So a counter ends between the number of the former
and the number of both. What a committed transaction reads lies between what its session had counted before (its own increments
among that) and all that had been sent by the time of the answer. No isolation level is needed for that, since an UPDATE of a row
by itself is atomic at each of them. Only what was rolled back may be read at read uncommitted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from isolde.history import History, Status, Transaction, TxnId, txn_name
from isolde.history.model import Sql


@dataclass(frozen=True, slots=True)
class Miscount:
    """A counter that shows what no increments can have made of it; ``transaction`` read it, or ``None``: its final value."""

    key: int
    low: int
    high: int
    found: int | None
    transaction: TxnId | None = None

    @property
    def sentence(self) -> str:
        shown = "nothing" if self.found is None else str(self.found)
        bounds = f"{self.low}" if self.low == self.high else f"between {self.low} and {self.high}"
        if self.transaction is None:
            missing = 0 if self.found is None else max(0, self.low - self.found)
            lost = f": {missing} {'increment is' if missing == 1 else 'increments are'} lost" if missing else ""
            return f"counter {self.key} ends at {shown}, but {bounds} increments were committed{lost}"
        return f"{txn_name(self.transaction)} read counter {self.key} as {shown}, which can only be {bounds}"


def miscounts(history: History, final: Mapping[int, int | None], *, dirty_reads: bool = False) -> list[Miscount]:
    """What is wrong with the final values, counter by counter, and then with what was read.

    ``dirty_reads``: the level lets transactions read what is rolled back later.
    """
    committed, maybe = Counter[int](), Counter[int]()
    for transaction in history.transactions:
        count = {Status.COMMITTED: committed, Status.UNKNOWN: maybe}.get(transaction.status)
        if count is not None:
            count.update(key for key, _ in increments_of(transaction))
    found = []
    for key, value in sorted(final.items()):
        low, high = committed[key], committed[key] + maybe[key]
        if value is None or not low <= value <= high:
            found.append(Miscount(key, low, high, value))
    return found + list(_misread(history, dirty_reads))


def _misread(history: History, dirty_reads: bool) -> Iterator[Miscount]:
    sent: dict[int, list[int]] = defaultdict(list)
    """By counter, when increments were sent that may be read."""
    for transaction in history.transactions:
        if dirty_reads or transaction.status is not Status.ABORTED:
            for key, start in increments_of(transaction):
                sent[key].append(start)
    mine: dict[Any, Counter[int]] = defaultdict(Counter)
    """By session, the increments of each counter that were committed so far."""
    for transaction in history.transactions:
        if transaction.status is not Status.COMMITTED:
            continue
        own = mine[transaction.session]
        for op in transaction.ops:
            content = _content(op)
            key = content["params"][0]
            if content["rows"] is None:
                own[key] += content["count"]
                continue
            value = content["rows"][0][0] if content["rows"] else None
            high = sum(start <= content["end"] for start in sent[key])
            if value is None or not own[key] <= value <= high:
                yield Miscount(key, own[key], high, value, transaction.id)


def increments_of(transaction: Transaction) -> Iterator[tuple[int, int]]:
    """The counters that a transaction adds one to, and when that was sent."""
    for op in transaction.ops:
        content = _content(op)
        # One that was never answered may have found its row.
        if content.get("rows") is None and content.get("count", 1):
            yield content["params"][0], content["start"]


def _content(op: object) -> Mapping[str, Any]:
    assert isinstance(op, Sql)
    return op.content
