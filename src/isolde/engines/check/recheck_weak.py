"""Weak levels: what a reader must have seen, and what it then missed.

Their axioms have one shape: a reader that saw ``t1``'s version of a key, and to which another writer ``t2`` of it was visible,
shows that ``t2`` came before ``t1``. What is visible follows from the reads alone: from those with one possible writer, and from
those whose writer is assumed.
"""

from __future__ import annotations

from isolde.engines.check.recheck_edges import told_besides
from isolde.engines.check.sources import Assumed, Sources, final_writes, in_session, index_of, looks
from isolde.findings import Link
from isolde.history import Key, Transaction, TxnId
from isolde.levels import Level

WEAK = frozenset({Level.READ_UNCOMMITTED, Level.PL_2, Level.READ_COMMITTED, Level.READ_ATOMIC, Level.CAUSAL})


class Sight:
    """Who saw whom, as far as it is certain or assumed."""

    def __init__(self, sources: Sources, assumed: Assumed = ()) -> None:
        self.sources = sources
        self.history = sources.history
        self.level = sources.level
        self.by_id = sources.by_id
        self.assumed = assumed

    def shown(self, link: Link) -> bool:
        """Whether the level's rule gives this edge."""
        source, target = self.by_id[link.source], self.by_id[link.target]
        match link.kind:
            case "rw" | "predicate-rw" if link.basis == "outside" and self.level not in (
                Level.READ_ATOMIC,
                Level.CAUSAL,
            ):
                # It does not say at which operation, which is what the levels below are about.
                return False
            case _ if link.basis == "outside":
                return told_besides(self.sources.told, link)
            case "so":
                return in_session(self.history, source, target)
            case "wr":
                return any(key == link.key and seen == source.id for _, key, seen in self.saw(target))
            case "ww" if link.through is not None:
                return self.missed(self.by_id[link.through], link.key, source, target.id)
            case "ww" if source is target:
                told = self.sources.told_before
                return any(told(link.key, source.id, later, self.assumed) for later in (source.id, None))
            case "ww":
                both = final_writes(source).keys() & final_writes(target)
                return self.in_past(source, target) or any(
                    self.sources.told_before(key, source.id, target.id, self.assumed) for key in both
                )
            case "rw":
                return any(
                    self.missed(source, link.key, target, seen) and self.replaced(link.key, seen, target)
                    for _, key, seen in self.saw(source)
                    if key == link.key
                )
            case _:
                return False

    def saw(self, reader: Transaction) -> list[tuple[int, Key, TxnId | None]]:
        """The reads of ``reader``, by their places, whose writers are certain or assumed."""
        found: list[tuple[int, Key, TxnId | None]] = []
        for index, op in looks(reader):
            key = getattr(op, "key")  # noqa: B009
            by_case = [s for s in self.assumed if (s.kind, s.first, s.index) == ("source", reader.id, index)]
            sources = {by_case[0].second} if by_case else self.sources.only(key, reader, op)
            if len(sources) == 1:
                found.append((index, key, sources.pop()))
        return found

    def missed(self, reader: Transaction, key: Key | None, writer: Transaction, read: TxnId | None) -> bool:
        """Whether ``reader`` read the version of ``read`` although ``writer``'s was visible to it."""
        if key is None or key not in final_writes(writer) or writer.id == read:
            return False
        places = [index for index, k, seen in self.saw(reader) if k == key and seen == read]
        return any(self.visible(writer, reader, index) for index in places)

    def visible(self, writer: Transaction, reader: Transaction, index: int) -> bool:
        """Whether the level lets the read at ``index`` see ``writer``."""
        match self.level:
            case Level.READ_COMMITTED:
                return any(seen == writer.id and at < index for at, _, seen in self.saw(reader))
            case Level.READ_ATOMIC:
                return (
                    in_session(self.history, writer, reader)
                    or writer.id in self.sources.told.seen.get(reader.id, ())
                    or any(seen == writer.id for _, _, seen in self.saw(reader))
                )
            case Level.READ_UNCOMMITTED | Level.PL_2:
                return False
            case _:
                return self.in_past(writer, reader)

    def in_past(self, first: Transaction, last: Transaction) -> bool:
        """Whether a path of reads and session order leads from ``first`` to ``last``."""
        reached, waiting = {last.id}, [last]
        while waiting:
            at = waiting.pop()
            sources = {seen for _, _, seen in self.saw(at)} | self.sources.told.seen.get(at.id, set())
            earlier = (t for t in index_of(self.history).sessions[at.session] if self.precedes(t, at))
            for t in (*(self.by_id[txn] for txn in sources if txn is not None), *earlier):
                if t.id not in reached:
                    reached.add(t.id)
                    waiting.append(t)
        return first is not last and first.id in reached

    def precedes(self, first: Transaction, second: Transaction) -> bool:
        return in_session(self.history, first, second) and self.sources.counts(first.id, self.assumed)

    def replaced(self, key: Key | None, version: TxnId | None, writer: Transaction) -> bool:
        """Whether ``writer``'s version certainly came after: ``version`` is the initial one or in its past, or that was told."""
        if version is None or self.sources.told_before(key, version, writer.id, self.assumed):
            return True
        return self.in_past(self.by_id[version], writer)
