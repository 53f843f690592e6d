"""Histories of SQL tables whose rows have partial orders: the orders that complete them, one after the other.

A level holds if it holds for *some* order that has every version and keeps what was told. Which versions are missing depends on
what statements saw, and that on the order: so the statements are run on what is known, a row that one of them wrote without a
version of its own gets one, at each place of the row's order in turn, and the statements are run again. Where others that this
statement sees may still get versions, it may also turn out to write nothing: then the row stays without a version.

The order of ``commits`` is tried first: nearly always it is the database's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from isolde.engines.certify.evaluate import Circular, Evaluation, Unknown
from isolde.engines.certify.fit import Place
from isolde.engines.certify.order import FLOW, Edge, Graph
from isolde.engines.certify.predicates import Judge
from isolde.engines.certify.statements import Asked
from isolde.engines.certify.tables import evaluated, session_edges, told_by_tables
from isolde.engines.certify.told import Told
from isolde.engines.certify.world import Line, Undecidable, World
from isolde.history import Sql, Status
from isolde.levels import Level

Orders = Mapping[int, tuple[Place, ...]]
"""By object, its versions."""
Missing = tuple[int, int]
"""An object, and a transaction that wrote it and has no version of it."""
_STEPS_A_STATEMENT = 200
_ROUNDS_MAX = 100
_UNKNOWN_MAX = 10


@dataclass(frozen=True, slots=True)
class Wanted:
    """A version that is missing: the statements that may have made it. One that leaves a row as it was may have made one; it has
    to be there only if the row was changed (``required``)."""

    missing: Missing
    places: tuple[Place, ...]
    required: bool


class Completions:
    """The orders that complete a certificate. ``exhausted``: those that were given are all that there are."""

    def __init__(
        self,
        world: World,
        *,
        session_order: bool,
        judge: Judge | None = None,
    ) -> None:
        self.world, self.session_order, self.judge = world, session_order, judge
        self.exhausted = False
        self.tried = 0
        self.reason = ""
        """Why some of them could not be tried."""
        self._left = 0
        self._whole = True
        self._last: tuple[World, Evaluation | None] | None = None
        self._partial = frozenset(number for number, line in world.lines.items() if not line.complete)
        self._given: set[tuple[tuple[int, tuple[Place, ...]], ...]] = set()

    def told(self, levels: Sequence[Level], budget: int) -> Iterator[Told]:
        """What each of them tells of these levels, as long as the budget lasts."""
        self.exhausted, self.tried, self._whole, self._given = False, 0, True, set()
        self._last = None
        self._left = max(2, budget // (_STEPS_A_STATEMENT * max(1, len(self.world.asked))))
        for world, evaluation in chain(self._worlds(), self._incomplete()):
            self.tried += 1
            yield told_by_tables(
                world, levels, session_order=self.session_order, judge=self.judge, evaluation=evaluation
            )
        self.exhausted = self._whole and self._left >= 0

    def _incomplete(self) -> Iterator[tuple[World, Evaluation | None]]:
        """If no order completes what was told, one that does not: it shows what a statement wrote and nobody tells of."""
        if self.tried == 0 and self._last is not None:
            yield self._last

    # Which

    def _worlds(self) -> Iterator[tuple[World, Evaluation | None]]:
        start: Orders = {number: self.world.lines[number].every for number in self._partial}
        doubtful = self._doubtful()
        for chosen in _subsets(doubtful):
            taking_effect = self.world.effective | chosen
            yield from self._first_guess(start, taking_effect)
            yield from self._all(start, taking_effect, frozenset())

    def _doubtful(self) -> list[int]:
        """Transactions of unknown outcome that nothing lists, and that may have written a row whose order is partial."""
        world = self.world
        tables = {world.objects.table[number] for number in self._partial}
        found = []
        for txn, transaction in enumerate(world.history.transactions):
            if transaction.status is not Status.UNKNOWN or txn in world.effective:
                continue
            asked = [world.asked.get((txn, index)) for index in range(len(transaction.ops))]
            if any(one is None or (one.form.what != "query" and one.form.target in tables) for one in asked):
                found.append(txn)
        if len(found) > _UNKNOWN_MAX:
            self._whole = False
        return found[:_UNKNOWN_MAX]

    def _first_guess(self, orders: Orders, effective: frozenset[int]) -> Iterator[tuple[World, Evaluation | None]]:
        """Every version that is wanted, at its place in ``commits``."""
        for _ in range(_ROUNDS_MAX):
            found = self._run(orders, effective)
            if found is None:
                return
            world, evaluation, wanted = found
            required = [one for one in wanted if one.required or evaluation is None]
            if not required:
                yield from self._leaf(world, evaluation, orders)
                return
            for one in self._first(world, required):
                line, place = orders[one.missing[0]], one.places[0]
                at = self._guess(line, place)
                orders = {**orders, one.missing[0]: (*line[:at], place, *line[at:])}

    @staticmethod
    def _first(world: World, wanted: Sequence[Wanted]) -> list[Wanted]:
        """Those of transactions that see no other of these: what the others write may turn out otherwise."""
        writers = {one.missing[1] for one in wanted}

        def sees_another(txn: int) -> bool:
            places = [(txn, index) for index in range(len(world.history.transactions[txn].ops))]
            return any(
                other != txn and world.sees(place, other)
                for place in places
                if place in world.reads
                for other in writers
            )

        first = wanted[0].missing[1]
        ready = {first, *(txn for txn in writers if txn != first and not sees_another(txn))}
        return [one for one in wanted if one.missing[1] in ready]

    def _all(
        self, orders: Orders, effective: frozenset[int], without: frozenset[Missing]
    ) -> Iterator[tuple[World, Evaluation | None]]:
        """Every order that goes on from these; ``without`` are versions that were decided not to be there."""
        self._left -= 1
        if self._left < 0:
            return
        found = self._run(orders, effective)
        if found is None:
            return
        world, evaluation, wanted = found
        self._last = (world, evaluation)
        still = [one for one in wanted if one.missing not in without]
        if not still:
            if not any(one.required for one in wanted):
                yield from self._leaf(world, evaluation, orders)
            # Else a row that was changed would have no version: no level but the weakest takes that.
            return
        one = still[0]
        number, txn = one.missing
        others = {other for _, other in (*(more.missing for more in still), *without) if other != txn}
        may_stay_out = not one.required or bool(others & self._seen_from(world, txn))
        if may_stay_out and not one.required:
            yield from self._all(orders, effective, without | {one.missing})
        line = orders[number]
        # A transaction's own versions come in the order in which it made them.
        lowest = max((at + 1 for at, version in enumerate(line) if version[0] == txn), default=0)
        for place in one.places:
            guess = self._guess(line, place)
            for at in sorted(range(lowest, len(line) + 1), key=lambda at: abs(at - guess)):
                longer = {**orders, number: (*line[:at], place, *line[at:])}
                if self._in_circles(longer, effective):
                    continue
                yield from self._all(longer, effective, without)
                if self._left < 0:
                    return
        if may_stay_out and one.required:
            yield from self._all(orders, effective, without | {one.missing})

    def _leaf(
        self, world: World, evaluation: Evaluation | None, orders: Orders
    ) -> Iterator[tuple[World, Evaluation | None]]:
        extra = world.effective - self.world.effective
        if not extra <= {txn for line in orders.values() for txn, _ in line}:
            return
        key = tuple(sorted(orders.items()))
        if key not in self._given:
            self._given.add(key)
            yield world, evaluation

    # What is missing

    def _run(self, orders: Orders, effective: frozenset[int]) -> tuple[World, Evaluation | None, list[Wanted]] | None:
        """The statements run on these orders, and the versions that are wanted; ``None`` if that is not known."""
        world = self.world.with_orders(orders, effective)
        try:
            evaluation = evaluated(world)
        except Circular:
            # Another version may end the circle; which, nobody can tell.
            self._whole = False
            return world, None, []
        except Undecidable as reason:
            self._whole = False
            self.reason = self.reason or str(reason)
            seen = self._seen_alone(world)
            return (world, None, seen) if seen else None
        return world, evaluation, self._wanted(world, evaluation)

    def _seen_alone(self, world: World) -> list[Wanted]:
        """Versions that somebody is told to have seen and that are in no order yet: what they are is known once they are."""
        found = {
            (number, version[0]): version
            for told in world.told.values()
            for number, version in told.items()
            if number in self._partial
            and version is not None
            and version[0] in world.effective
            and version[0] not in world.lines[number].at
        }
        return [Wanted(missing, (version,), required=False) for missing, version in sorted(found.items())]

    def _wanted(self, world: World, evaluation: Evaluation) -> list[Wanted]:
        """Those that are required come first, in the order of ``commits``."""
        wrote: dict[Missing, list[tuple[int, bool]]] = {}
        for (txn, index), done in evaluation.done.items():
            if txn not in world.effective:
                continue
            for number, row in done.written.items():
                if number in self._partial and world.lines[number].last.get(txn, -1) < index:
                    wrote.setdefault((number, txn), []).append((index, row != done.before.get(number)))
        untold: dict[Missing, set[int]] = {}
        for number, txn, index in self._untold(world, evaluation):
            untold.setdefault((number, txn), set()).add(index)
            wrote.setdefault((number, txn), [])
        wanted = []
        for (number, txn), places in wrote.items():
            changed = max((index for index, changes in places if changes), default=-1)
            others = untold.get((number, txn), set())
            may = sorted({*(index for index, _ in places if index >= changed), *others})
            # What a statement without a version set did to the row may be why a later one did nothing to it.
            wanted.append(Wanted((number, txn), tuple((txn, index) for index in may), changed >= 0 and not others))
        last = len(world.commits)
        return sorted(wanted, key=lambda one: (not one.required, world.rank.get(one.missing[1], last), one.missing))

    def _untold(self, world: World, evaluation: Evaluation) -> Iterator[tuple[int, int, int]]:
        """What statements without a version set may have written: rows that match them in one of their versions."""
        for (txn, index), asked in world.asked.items():
            form = asked.form
            if (txn, index) in world.reads or txn not in world.effective or form.what == "query" or form.plain_insert:
                continue
            op = world.history.transactions[txn].ops[index]
            if isinstance(op, Sql) and op.content.get("count") == 0:
                continue
            for number in sorted(self._partial):
                line = world.lines[number]
                mine = world.objects.table[number] == form.target and line.last.get(txn, -1) < index
                if mine and self._may_match(evaluation, asked, number, line):
                    yield number, txn, index

    @staticmethod
    def _may_match(evaluation: Evaluation, asked: Asked, number: int, line: Line) -> bool:
        matches = asked.form.matches
        if matches is None:
            return True
        try:
            rows = [evaluation.content(number, version) for version in (None, *line.versions)]
        except Unknown:
            return True
        return any(row is not None and matches(evaluation.store, *asked.values, row) for row in rows)

    def _guess(self, line: Sequence[Place], place: Place) -> int:
        """Where a version stands by ``commits``."""
        rank = self.world.rank
        last = len(self.world.commits)
        mine = rank.get(place[0], last)
        return max((at + 1 for at, (txn, _) in enumerate(line) if rank.get(txn, last) <= mine), default=0)

    def _in_circles(self, orders: Orders, effective: frozenset[int]) -> bool:
        """Whether overwrites and sessions alone have no order any more: only what reads are not judged by takes that."""
        graph = Graph(
            FLOW,
            sorted(effective),
            [0.0] * len(self.world.history.transactions),
            self.world.history.transactions,
        )
        edges: list[Edge] = [(a[0], b[0], "ww") for line in orders.values() for a, b in pairwise(line) if a[0] != b[0]]
        for number, line in self.world.lines.items():
            if number not in self._partial:
                edges += [(a[0], b[0], "ww") for a, b in pairwise(line.every) if a[0] != b[0]]
        graph.add(edges)
        if self.session_order:
            graph.add(session_edges(self.world, effective))
        return graph.order() is None

    @staticmethod
    def _seen_from(world: World, start: int) -> set[int]:
        """The transactions that one, or another whose versions it may have seen, could see."""
        found: set[int] = set()
        waiting = [start]
        while waiting:
            txn = waiting.pop()
            for index in range(len(world.history.transactions[txn].ops)):
                seen = world.reads.get((txn, index))
                told = world.told.get((txn, index), {})
                all_seen = {version[0] for version in told.values() if version is not None}
                if seen is not None and seen.first is not None:
                    all_seen |= {*world.commits[: seen.first], *seen.also} - seen.without
                elif seen is None:
                    all_seen |= world.effective
                waiting += all_seen - found
                found |= all_seen
        return found


def _subsets(things: Sequence[int]) -> Iterator[frozenset[int]]:
    """Small ones first."""
    for bits in sorted(range(2 ** len(things)), key=int.bit_count):
        yield frozenset(one for at, one in enumerate(things) if bits >> at & 1)
