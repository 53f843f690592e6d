"""Duplicate writes: a value that several versions of an object have, and a read of it that no version set settles.

The paper forbids them: it knows a version by its object and its value. Here a version is known by the operation that wrote it, so
that equal values are legal, and no level rules them out. They leave a level open where an operation is attributed by its value
alone; the reason then begins with the anomaly's name.
"""

from __future__ import annotations

from collections.abc import Sequence

from isolde._core import Columns
from isolde.engines.certify.sentences import txn_name
from isolde.formats import decode
from isolde.history import Key, Status, TxnId, observed, render_value, token, written


def duplicate(reader: TxnId, what: str, writers: Sequence[TxnId | None]) -> str:
    """Why a read is left open; ``None`` is the writer of the initial version.

    >>> duplicate("t3", "x = 1", ["t1", "t2"])
    'duplicate-write: t3 read x = 1, which t1 and t2 wrote; the certificate does not say which version it was'
    """
    names = [txn_name(writer) for writer in dict.fromkeys(writers) if writer is not None]
    parts = [f"{' and '.join(names)} wrote" + (" twice" if len(names) == 1 and None not in writers else "")]
    parts += ["was there at first"] if None in writers else []
    told = " and which ".join(parts)
    return f"duplicate-write: {txn_name(reader)} read {what}, which {told}; the certificate does not say which version it was"


def duplicate_write(columns: Columns) -> str:
    """The first read of a history over keys that several versions explain."""
    history = decode(columns)
    writers: dict[tuple[Key, object], list[TxnId | None]] = {
        (key, token(value)): [None] for key, value in history.initial.items()
    }
    for transaction in history.transactions:
        if transaction.status is Status.ABORTED:
            continue
        for op in transaction.ops:
            wrote = written(op)
            if wrote is not None:
                writers.setdefault((wrote[0], token(wrote[1])), []).append(transaction.id)
    for transaction in history.transactions:
        for op in transaction.ops:
            seen = observed(op)
            found = [] if seen is None else writers.get((seen[0], token(seen[1])), [])
            if seen is not None and len(found) > 1:
                return duplicate(transaction.id, f"{render_value(seen[0])} = {render_value(seen[1])}", found)
    return "duplicate-write: a value was read that several versions have; the certificate does not say which version it was"
