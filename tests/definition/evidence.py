"""Evidence from outside, by definition: what each kind of edge asks of a commit order at each level.

An edge counts if both its transactions are judged. With ``co`` the commit order, t3 the later or reading transaction:

==================  ==========================================================================================
``ww``              t1 co t3, at every level; snapshot isolation: t1 is in the snapshot of t3
``so``, ``wr``      t1 co t3; from read atomic up t1 is visible to t3 as session order makes it
``predicate-wr``    t1 co t3; snapshot isolation: t1 is in the snapshot of t3
``rw``              t3's overwriter t2 is not visible to t3, from read atomic up
``predicate-rw``    the same at snapshot isolation and serializable alone
``rt``              as session order, at the strict levels
==================  ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isolde.history import TxnId

Place = tuple[TxnId, int]


@dataclass(frozen=True, slots=True)
class Told:
    """Edges by the names of transactions, orders of versions by who wrote them (``None``: the initial one), a serial order."""

    edges: tuple[tuple[TxnId, TxnId, str], ...] = ()
    orders: tuple[tuple[TxnId | None, ...], ...] = ()
    serial: tuple[TxnId, ...] = ()

    def fits(self, effective: set[TxnId], judged: set[TxnId], unknown: set[TxnId], *, reads_bind: bool) -> bool:
        """Whether an outcome goes with it: who installed a version took effect, and, where reads bind anybody, who was read
        from by one that is judged."""
        installed = {txn for order in self.orders for txn in order if txn is not None}
        read = {a for a, b, kind in self.edges if kind in ("wr", "predicate-wr") and b in judged and a in unknown}
        return (installed | read if reads_bind else installed) <= effective


NOTHING = Told()
_ORDERED = ("so", "wr", "predicate-wr", "ww")
_VISIBLE = ("so", "wr")
_FROM_READ_ATOMIC = ("read-atomic", "causal", "prefix", "snapshot-isolation", "serializable", "repeatable-read")


def ordered_kinds(*, strict: bool) -> Sequence[str]:
    """The kinds that a commit order contains; anti-dependencies are asked for by what is visible."""
    return (*_ORDERED, "rt") if strict else _ORDERED


def visible_kinds(level: str, *, strict: bool) -> Sequence[str]:
    """The kinds that make the earlier transaction visible to the later one."""
    if level in ("pl-2", "read-committed"):
        return ()
    more = ("ww", "predicate-wr") if level in ("snapshot-isolation", "serializable", "repeatable-read") else ()
    return (*_VISIBLE, *more, *(("rt",) if strict else ()))


def hidden_kinds(level: str) -> Sequence[str]:
    """The kinds that say that the later transaction is not visible to the earlier one."""
    if level not in _FROM_READ_ATOMIC:
        return ()
    return ("rw", "predicate-rw") if level in ("snapshot-isolation", "serializable") else ("rw",)
