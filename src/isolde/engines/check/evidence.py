"""Evidence from outside of the history: what a database, or an engine that asked it, tells about the order.

The door for engines that produce evidence: they fill in an :class:`Evidence` and hand it to ``check``, which decides, names
and explains as it always does.

>>> told = Evidence.of_edges([(0, 1, "predicate-rw", "T0 counted the rows with a > 3; T1 then inserted one.")])
>>> told.kinds, told.reasons[0][:10]
(('predicate-rw',), 'T0 counted')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from isolde._core import Outside, relation_names
from isolde.errors import UsageError
from isolde.findings.model import Kind
from isolde.history import History, Key, Operation, Status, TxnId

Place = tuple[int, int]
"""A transaction's position in the history, and the place of one of its operations."""


@dataclass(frozen=True, slots=True)
class Shown:
    """An anomaly without a cycle that somebody else found: its name, the transactions that it is about, the sentence."""

    name: str
    positions: tuple[int, ...]
    sentence: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known besides the history. Transactions are named by their positions in the history.

    Edges are columns of one length: the transaction at ``sources[i]`` comes before the one at ``targets[i]``, in the sense of
    ``kinds[i]``, and ``reasons[i]`` is the sentence that a person is shown. ``versions`` are orders of the versions of a key,
    oldest first, each version by the operation that wrote it and ``None``, only first, for the initial one; they may be
    partial, and nothing is concluded from what is absent. A transaction of unknown outcome that is named there took effect.
    ``shown`` are anomalies without a cycle: every level that rules one out is violated by it. ``undecided`` says why levels that
    judge what was read are left open; empty if they are not.
    ``serial`` are the transactions in the order in which the database says that they took effect; ``None``: as the history
    itself tells. ``complete`` says that the edges hold all that operations without a key (scans, SQL) have to say.
    """

    sources: Sequence[int] = ()
    targets: Sequence[int] = ()
    kinds: Sequence[Kind] = ()
    reasons: Sequence[str] = ()
    versions: Sequence[Sequence[Place | None]] = ()
    serial: Sequence[int] | None = None
    complete: bool = False
    shown: Sequence[Shown] = ()
    undecided: str = ""

    @classmethod
    def of_edges(cls, edges: Iterable[tuple[int, int, Kind, str]]) -> Evidence:
        """These edges: from, to, kind, reason."""
        rows = list(edges)
        return cls(
            tuple(row[0] for row in rows),
            tuple(row[1] for row in rows),
            tuple(row[2] for row in rows),
            tuple(row[3] for row in rows),
        )

    def core(self) -> Outside:
        """As the core takes it."""
        if not len(self.sources) == len(self.targets) == len(self.kinds) == len(self.reasons):
            raise UsageError("the columns of the edges (sources, targets, kinds, reasons) have different lengths")
        places = {name: place for place, name in enumerate(relation_names())}
        unknown = next((kind for kind in self.kinds if kind not in places), None)
        if unknown is not None:
            raise UsageError(f"unknown kind of edge {unknown!r}; expected one of {', '.join(places)}")
        relations = [places[kind] for kind in self.kinds]
        return Outside(self.sources, self.targets, relations, self.versions, self.serial, self.complete)

    def among(self, positions: Sequence[int]) -> Evidence:
        """The evidence about these transactions alone, which become positions 0, 1, … in this order.

        An order of versions goes on over those that are left out: what came before them came before what came after.
        """
        new = {old: at for at, old in enumerate(positions)}
        edges = [
            (new[source], new[target], kind, reason)
            for source, target, kind, reason in zip(self.sources, self.targets, self.kinds, self.reasons, strict=True)
            if source in new and target in new
        ]
        versions = [
            [
                None if place is None else (new[place[0]], place[1])
                for place in order
                if place is None or place[0] in new
            ]
            for order in self.versions
        ]
        serial = None if self.serial is None else tuple(new[txn] for txn in self.serial if txn in new)
        # Even one version alone says that its transaction took effect.
        kept = [order for order in versions if any(place is not None for place in order)]
        return replace(Evidence.of_edges(edges), versions=kept, serial=serial, complete=self.complete)

    @property
    def says_nothing(self) -> bool:
        """Whether there is none but the history's own."""
        return not self.sources and not self.versions and self.serial is None


NOTHING = Evidence()


@dataclass(frozen=True, slots=True)
class Told:
    """The same by the names of transactions, for those who look at a violation again.

    ``seen`` are those whom each transaction is told to have seen, by reads or because they came before it; ``read_from`` those
    from whom it is told to have read, predicates included.
    """

    edges: frozenset[tuple[TxnId, TxnId, Kind]] = frozenset()
    orders: Mapping[Key, tuple[tuple[TxnId | None, ...], ...]] = field(default_factory=dict)
    serial: tuple[TxnId, ...] = ()
    seen: Mapping[TxnId, set[TxnId]] = field(default_factory=dict)
    read_from: Mapping[TxnId, set[TxnId]] = field(default_factory=dict)

    @classmethod
    def of(cls, history: History, evidence: Evidence) -> Told:
        """What ``evidence`` says about ``history``."""
        ids = [t.id for t in history.transactions]
        edges: set[tuple[TxnId, TxnId, Kind]] = set()
        seen: dict[TxnId, set[TxnId]] = {}
        read_from: dict[TxnId, set[TxnId]] = {}
        for source, target, kind in zip(evidence.sources, evidence.targets, evidence.kinds, strict=True):
            edges.add((ids[source], ids[target], kind))
            if kind in ("so", "wr"):
                seen.setdefault(ids[target], set()).add(ids[source])
            if kind in ("wr", "predicate-wr"):
                read_from.setdefault(ids[target], set()).add(ids[source])
        orders: dict[Key, tuple[tuple[TxnId | None, ...], ...]] = {}
        for order in evidence.versions:
            places = [place for place in order if place is not None]
            if places:
                key = _key(history.transactions[places[0][0]].ops[places[0][1]])
                line = tuple(None if place is None else ids[place[0]] for place in order)
                orders[key] = (*orders.get(key, ()), line)
        serial = evidence.serial
        if serial is None:
            placed = [(t.serial, at) for at, t in enumerate(history.transactions) if t.serial is not None]
            serial = [at for _, at in sorted(placed) if history.transactions[at].status is not Status.ABORTED]
        return cls(frozenset(edges), orders, tuple(ids[at] for at in serial), seen, read_from)

    def before(self, key: Key | None, first: TxnId | None, second: TxnId | None) -> bool:
        """Whether an order puts the version of ``first`` before that of ``second``."""
        if key is None:
            return False
        return any(
            first in order and second in order[order.index(first) + 1 :] and first != second
            for order in self.orders.get(key, ())
        )

    def took_effect(self) -> set[TxnId]:
        """Those whose versions are told to have been installed."""
        return {txn for orders in self.orders.values() for order in orders for txn in order if txn is not None}


def _key(op: Operation) -> Key:
    key: Key = getattr(op, "key")  # noqa: B009
    return key


SILENT = Told()
