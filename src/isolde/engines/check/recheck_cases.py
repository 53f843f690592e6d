"""Cases: do they leave nothing out, and does each end in a forbidden cycle?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from isolde.engines.check.recheck_edges import edge_shown, forbidden, lost_either_way
from isolde.engines.check.recheck_weak import WEAK, Sight
from isolde.engines.check.sources import Sources, final_writes
from isolde.findings import Anomaly, Case, Circle, Link, Supposition
from isolde.history import Key, Transaction, TxnId, observed
from isolde.levels import Level


class Cases:
    """Cases and what they assume, followed one by one."""

    def __init__(self, sources: Sources, counted: list[Transaction]) -> None:
        self.sources = sources
        self.level = sources.level
        self.by_id = sources.by_id
        self.counted = counted

    def hold(self, cases: Sequence[Case], assumed: tuple[Supposition, ...]) -> bool:
        """Whether the cases leave nothing out, and each ends in forbidden cycles."""
        if not self.exhaustive([case.supposition for case in cases], assumed):
            return False
        for case in cases:
            below = (*assumed, case.supposition)
            if isinstance(case.outcome, Circle):
                if not self.circle_shown(case.outcome.cycle, below) or not forbidden(self.level, case.outcome.cycle):
                    return False
            elif isinstance(case.outcome, Anomaly) or not self.hold(case.outcome, below):
                return False
        return True

    def circle_shown(self, cycle: Sequence[Link], assumed: tuple[Supposition, ...]) -> bool:
        if all(self.shown(link, assumed) for link in cycle):
            return True
        # Of a lost update, what both read the other replaced: that may be seen, or follow from what is assumed.
        other_order = lost_either_way(cycle)
        return (
            other_order is not None
            and self.shown(cycle[0], assumed)
            and any(self.shown(replace(other_order, assumed=by_case), assumed) for by_case in (False, True))
        )

    def exhaustive(self, cases: Sequence[Supposition], assumed: tuple[Supposition, ...]) -> bool:
        match cases:
            case (Supposition("before", key, last, _, head), Supposition("before", other, other_last, _, other_head)):
                # Of two runs of versions, each made from the one before, either one comes first as a whole.
                return (
                    key == other
                    and head is not None
                    and other_head is not None
                    and self.run(key, other_head, last)
                    and self.run(key, head, other_last)
                )
            case (Supposition("source", key, reader, index, _), *_):
                op = self.by_id[reader].ops[index]
                named = {case.second for case in cases}
                return (
                    all((c.kind, c.key, c.first, c.index) == ("source", key, reader, index) for c in cases)
                    and self.sources.counts(reader, assumed)
                    and op in self.sources.open_reads(key, reader)
                    and self.sources.possible(key, self.by_id[reader], op) <= named
                )
            case (Supposition("meant", _, int(line), index, _), *_):
                return (
                    all((c.kind, c.first, c.index) == ("meant", line, index) for c in cases)
                    and self.sources.says(line, index, assumed)
                    and self.sources.meanings(line, index) <= {case.second for case in cases}
                )
            case _:
                return False

    def made_from(self, key: Key, writer: TxnId) -> set[TxnId | None]:
        """Whose version of ``key`` the first read of ``writer`` certainly saw; empty if it read none, or that is open."""
        reads = [op for op in self.sources.open_reads(key, writer) if observed(op) is not None]
        sources = self.sources.only(key, self.by_id[writer], reads[0]) if reads else set()
        return sources if len(sources) == 1 else set()

    def run(self, key: Key, first: TxnId | None, last: TxnId | None) -> bool:
        """Whether the version of ``last`` was made from that of ``first``, over any number of others."""
        at = last
        seen: set[TxnId | None] = set()
        while at != first:
            made_from = set() if at is None or at in seen else self.made_from(key, at)
            if not made_from:
                return False
            seen.add(at)
            at = made_from.pop()
        return True

    def shown(self, link: Link, assumed: tuple[Supposition, ...]) -> bool:
        if self.level in WEAK:
            return Sight(self.sources, assumed).shown(link)
        history = self.sources.history
        if not link.assumed or link.basis == "outside":
            return edge_shown(history, self.counted, self.by_id, link, self.sources.told)
        before = [s for s in assumed if s.kind == "before" and s.key == link.key]
        sources = [s for s in assumed if s.kind == "source" and s.key == link.key]
        match link.kind:
            case "ww" if link.source == link.target:
                return any(
                    self.sources.told_before(link.key, link.source, later, assumed) for later in (link.target, None)
                )
            case "ww":
                told = self.sources.told_before(link.key, link.source, link.target, assumed)
                return told or self.overwrote(link, link.source, before)
            case "wr":
                return any(s.first == link.target and s.second == link.source for s in sources)
            case "rw":
                # The reader saw a version, by what is seen or assumed, that the target's version comes after.
                saw = {s.second for s in sources if s.first == link.source}
                if link.key is not None:
                    saw |= self.sources.certain(link.key, self.by_id[link.source])
                return any(self.overwrote(link, version, before) for version in saw)
            case "so":
                return edge_shown(history, self.counted, self.by_id, link)
            case _:
                return False

    def overwrote(self, link: Link, version: TxnId | None, before: Sequence[Supposition]) -> bool:
        """Whether the target's version of the key comes after that of ``version``."""
        key, target = link.key, link.target
        if any(s.first == version and s.second == target for s in before):
            return True
        if key is None or key not in final_writes(self.by_id[target]):
            return False
        if version is None or version in self.made_from(key, target) or self.sources.told.before(key, version, target):
            return True
        # What was made from the initial version comes before all that was not; prefix alone lets others come between.
        return self.level is not Level.PREFIX and self.run(key, None, version) and not self.run(key, version, target)
