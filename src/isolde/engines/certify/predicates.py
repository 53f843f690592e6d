"""Predicate edges: who changed what a statement matched, before what it saw and after it.

There are as many as predicates times versions, and nearly all of them point forward in any order that is close to the database's
own. A level has no cycle if *some* order has every edge pointing forward. So an order of what is known is made first, and every
statement is compared with it: where its version set is the state at its place in the order, no edge of it can point backward,
and only objects that differ are looked at. The edges found are added and the order is made again, until nothing points backward
any more, or a cycle is there. All that was left out then points forward in an order that the level accepts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from isolde.engines.certify.evaluate import Evaluation, Unknown
from isolde.engines.certify.fit import Place
from isolde.engines.certify.order import SERIAL, Edge, Graph, Rule
from isolde.engines.certify.sentences import change, deed, txn_name
from isolde.engines.certify.shared import Shared
from isolde.engines.certify.statements import Asked, upsert_keys
from isolde.engines.certify.world import INITIAL, World
from isolde.semantics.tables.view import Row

ROUNDS_MAX = 40
"""After so many orders all edges are made instead."""


@dataclass(frozen=True, slots=True)
class Found:
    """A predicate edge: the version at ``at`` of an object changes what the statement at ``place`` matches."""

    source: int
    target: int
    kind: str
    place: Place
    number: int
    at: int

    @property
    def edge(self) -> Edge:
        """Between the two transactions."""
        return self.source, self.target, self.kind


class Judge(Protocol):
    """Somebody else who says which rows a condition matches: the database."""

    def load(self, table: str, rows: Sequence[Row]) -> None:
        """The versions of a table, which are numbered as they come."""

    def matching(self, table: str, sql: str, params: Sequence[Any]) -> frozenset[int]:
        """The numbers of those that a statement matches."""


class Predicates:
    """The predicate reads of a history. ``barred`` are objects that a statement saw in a version that nobody installed."""

    def __init__(
        self, evaluation: Evaluation, barred: frozenset[tuple[Place, int]], judge: Judge | None = None
    ) -> None:
        self.evaluation, self.world, self.barred = evaluation, evaluation.world, barred
        self._judge = judge
        self._loaded: dict[int, list[tuple[int, int]]] = {}
        world = self.world
        self.places = sorted(
            (
                place
                for place, asked in world.asked.items()
                if place in world.reads
                and place[0] in world.effective
                and asked.form.tables
                and not asked.form.plain_insert
            ),
            key=lambda place: (world.reads[place].first or 0, place),
        )
        self._matching: dict[Hashable, dict[tuple[int, int], bool]] = {}
        self._keys: dict[Hashable, list[tuple[int, object]]] = {}
        self._effects: dict[tuple[Place, int, int], Hashable] = {}
        self._by_table: dict[int, list[int]] = {}
        for number in world.lines:
            self._by_table.setdefault(world.objects.table[number], []).append(number)
        self.found: dict[Edge, Found] = {}

    # Which edges

    def settle(self, rule: Rule, graph: Graph) -> dict[int, int] | None:
        """Finds edges until an order has all of them forward, and gives it: where each transaction takes effect; ``None`` if
        there is a cycle first."""
        graph.add(self.found)
        for _ in range(ROUNDS_MAX):
            order = graph.order()
            if order is None:
                return None
            new = self._backward(rule, *order)
            if not new:
                return order[1]
            graph.add(found.edge for found in new)
            self.found.update((found.edge, found) for found in new)
        self.make_all(rule.kinds)
        graph.add(self.found)
        order = graph.order()
        return None if order is None else order[1]

    def all_forward(self, placed: dict[int, int]) -> bool:
        """Whether every edge leads forward in an order of the transactions."""
        return not self._backward(SERIAL, placed, placed)

    def make_all(self, kinds: frozenset[str]) -> None:
        """Every edge of these kinds that is not implied by others of its object: the last before, the first after."""
        shared = Shared(self.world, self.evaluation.content)
        for place in self.places:
            for number, at in self._objects(place):
                line = self.world.lines[number]
                if "predicate-wr" in kinds:
                    for before in range(at, INITIAL, -1):
                        if self._changes(place, number, before, shared):
                            self._note(Found(line.versions[before][0], place[0], "predicate-wr", place, number, before))
                            break
                if "predicate-rw" in kinds:
                    for after in range(at + 1, len(line.versions)):
                        if self._changes(place, number, after, shared):
                            self._note(Found(place[0], line.versions[after][0], "predicate-rw", place, number, after))
                            break

    def _note(self, found: Found) -> None:
        if found.source != found.target and {found.source, found.target} <= self.world.effective:
            self.found.setdefault(found.edge, found)

    def _backward(self, rule: Rule, reads: dict[int, int], effects: dict[int, int]) -> list[Found]:
        """Edges that point backward in an order, the nearest of each object."""
        writers = Writers(self.world, effects)
        shared = Shared(self.world, self.evaluation.content)
        new: dict[Edge, Found] = {}
        for place in self.places:
            txn = place[0]
            here = reads[txn]
            for number, at in self.differing(place, here, writers):
                line = self.world.lines[number]
                before = at
                while before > INITIAL and effects.get(writer := line.versions[before][0], -1) > here:
                    if writer != txn and self._changes(place, number, before, shared):
                        found = Found(writer, txn, "predicate-wr", place, number, before)
                        new.setdefault(found.edge, found)
                        break
                    before -= 1
                after = at + 1
                while (
                    "predicate-rw" in rule.kinds
                    and after < len(line.versions)
                    and effects.get(writer := line.versions[after][0], here) < here
                ):
                    if writer != txn and self._changes(place, number, after, shared):
                        found = Found(txn, writer, "predicate-rw", place, number, after)
                        new.setdefault(found.edge, found)
                        break
                    after += 1
        return [found for edge, found in new.items() if edge not in self.found]

    # Which objects

    def _objects(self, place: Place) -> Iterator[tuple[int, int]]:
        """The objects of a statement's tables, each with the place of the version in its version set; own ones are left out."""
        for table in self.world.asked[place].form.tables:
            yield from self._placed(place, self._by_table.get(table, ()))

    def differing(self, place: Place, here: int, writers: Writers) -> Iterator[tuple[int, int]]:
        """Of these, at least those whose version is not the one at this place of the order."""
        world = self.world
        seen = world.reads[place]
        if seen.first is None:
            yield from self._objects(place)
            return
        if place not in world.told and writers.same_state(place, here):
            return
        tables = world.asked[place].form.tables
        numbers = dict.fromkeys(
            number
            for txn in writers.differing(place, here)
            for number in world.installed_by[txn]
            if world.objects.table[number] in tables
        )
        for number in world.told.get(place, {}):
            if world.objects.table[number] in tables:
                numbers[number] = None
        yield from self._placed(place, list(numbers))

    def _placed(self, place: Place, numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
        world = self.world
        if not numbers:
            return
        own = self.evaluation.own(place)
        told = world.told.get(place, {})
        for number in numbers:
            line = world.lines.get(number)
            if line is None or number in own or (place, number) in self.barred:
                continue
            if number in told:
                version = told[number]
                if version is not None and version[0] == place[0]:
                    continue
                yield number, INITIAL if version is None else line.at.get(version[0], INITIAL)
            elif world.reads[place].first is None:
                yield number, INITIAL
            else:
                yield number, world.visible(place, number)

    # What changes the matches

    def _changes(self, place: Place, number: int, at: int, shared: Shared) -> bool:
        """Whether the version at a place of an object's line changes what a statement matches."""
        form = self.world.asked[place].form
        if form.simple:
            return self._matches(place, number, at) != self._matches(place, number, at - 1)
        return self._effect(place, number, at, shared) != self._effect(place, number, at - 1, shared)

    def _matches(self, place: Place, number: int, at: int) -> bool:
        asked = self.world.asked[place]
        known = self._matching.setdefault(asked.predicate, {})
        found = known.get((number, at))
        if found is None:
            row = self.evaluation.content(number, self.world.version(number, at))
            store = self.evaluation.store
            if row is None:
                found = False
            elif self._judge is not None and asked.form.matches is not None:
                known.update(self._judged(asked, self._judge))
                return known[number, at]
            elif asked.form.matches is not None:
                found = bool(asked.form.matches(store, *asked.values, row))
            else:
                info = self.world.catalog.tables[asked.form.target]
                keys = self._keys.get(asked.predicate)
                if keys is None:
                    keys = self._keys[asked.predicate] = upsert_keys(asked, info, store)
                found = any(info.unique_keys[unique](row) == key for unique, key in keys)
            known[number, at] = found
        return found

    def _judged(self, asked: Asked, judge: Judge) -> dict[tuple[int, int], bool]:
        """Of all versions of the statement's table, which match, as somebody else says."""
        (table,) = asked.form.tables
        name = self.world.catalog.tables[table].table.name
        if table not in self._loaded:
            versions = {
                (number, at): row
                for number in self._by_table.get(table, ())
                for at in range(INITIAL, len(self.world.lines[number].versions))
                if (row := self.evaluation.content(number, self.world.version(number, at))) is not None
            }
            judge.load(name, list(versions.values()))
            self._loaded[table] = list(versions)
        matching = judge.matching(name, asked.sql, asked.params)
        return {version: place in matching for place, version in enumerate(self._loaded[table])}

    def _effect(self, place: Place, number: int, at: int, shared: Shared) -> Hashable:
        """What a statement gives if this version stands in its version set in place of the one that is there."""
        known = self._effects.get((place, number, at))
        if known is not None:
            return known
        world, evaluation = self.world, self.evaluation
        first = world.reads[place].first or 0
        while shared.passed < first:
            shared.go_on()
        changes = evaluation.changes(evaluation.laid(place, shared))
        changes[world.objects.table[number]][number] = evaluation.content(number, world.version(number, at))
        running = evaluation.running(world.asked[place], shared.tables, changes)
        evaluated = running.evaluated()
        effect: Hashable
        if running.answer is None:
            effect = evaluated.wrong
        else:
            rows = [tuple(map(repr, row)) for row in running.answer.rows]
            shown: Hashable = tuple(rows) if world.asked[place].form.ordered else frozenset(Counter(rows).items())
            used = frozenset(used for used, _ in evaluated.used)
            written = frozenset((one, repr(row)) for one, row in evaluated.written.items())
            effect = (shown, running.answer.found, used, written)
        self._effects[place, number, at] = effect
        return effect

    # Words

    def sentence(self, found: Found) -> str:
        """Why an edge is there."""
        world = self.world
        ids = [world.history.transactions[txn].id for txn in (found.place[0], found.source, found.target)]
        reader = txn_name(ids[0])
        writer = txn_name(ids[1] if found.kind == "predicate-wr" else ids[2])
        what = deed(world.asked[found.place])
        try:
            rows = [
                self.evaluation.content(found.number, world.version(found.number, at))
                for at in (found.at - 1, found.at)
            ]
        except Unknown:
            rows = [None, None]
        did = change(world.objects.name[found.number], rows[0], rows[1])
        if found.kind == "predicate-wr":
            return f"{writer} {did}; {reader} then {what}."
        return f"{reader} {what}; {writer} then {did}."


class Writers:
    """The transactions that installed something, as an order has them, searchable by what a statement sees."""

    def __init__(self, world: World, effects: Mapping[int, int]) -> None:
        self.world, self.effects = world, effects
        self.middles: dict[int, int] = {}
        self.all = sorted((txn for txn in world.installed_by if txn in effects), key=effects.__getitem__)
        self.placed = [effects[txn] for txn in self.all]
        none = len(world.commits)
        ranks = [world.rank.get(txn, none) for txn in self.all]
        self.ranks = ranks
        self.highest_before: list[int] = []
        highest = -1
        for rank in ranks:
            highest = max(highest, rank)
            self.highest_before.append(highest)
        self.lowest_after = [none] * len(ranks)
        lowest = none
        for at in range(len(ranks) - 1, -1, -1):
            lowest = min(lowest, ranks[at])
            self.lowest_after[at] = lowest

    def same_state(self, place: Place, here: int) -> bool:
        """Whether a statement plainly sees what those before a place of the order installed, and nothing else."""
        seen = self.world.reads[place]
        if seen.without or seen.also:
            return False
        first = seen.first or 0
        middle = self.middles.get(here)
        if middle is None:
            middle = self.middles[here] = bisect_left(self.placed, here)
        if middle > 0 and self.highest_before[middle - 1] >= first:
            return False
        return middle == len(self.all) or self.lowest_after[middle] >= first

    def differing(self, place: Place, here: int) -> Iterator[int]:
        """Those before a place of the order that a statement does not see, and those after it that it does."""
        seen = self.world.reads[place]
        first, own = seen.first or 0, place[0]
        middle = bisect_left(self.placed, here)
        at = middle - 1
        while at >= 0 and self.highest_before[at] >= first:
            txn = self.all[at]
            if self.ranks[at] >= first and txn not in seen.also and txn != own:
                yield txn
            at -= 1
        at = middle
        while at < len(self.all) and self.lowest_after[at] < first:
            txn = self.all[at]
            if self.ranks[at] < first and txn not in seen.without and txn != own:
                yield txn
            at += 1
        for txn in seen.without:
            if self.effects.get(txn, here) < here and txn in self.world.installed_by:
                yield txn
        for txn in seen.also:
            if self.effects.get(txn, here) > here and txn in self.world.installed_by:
                yield txn
