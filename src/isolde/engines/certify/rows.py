"""Versions computed one row at a time, for statements that see each other's rows.

A simple statement makes of a row what it makes of that row alone: if two statements see each other's versions of different rows,
each row can still be computed. Where a row is computed from itself by way of another statement, none of them came first.
"""

from __future__ import annotations

from isolde.engines.certify.evaluate import Circular, Evaluation, Unknown
from isolde.engines.certify.fit import Place
from isolde.engines.certify.statements import Asked
from isolde.engines.certify.world import Undecidable, World
from isolde.semantics.tables.view import Row

Version = tuple[int, Place]
"""An object by number, and a version of it."""


class _Missing(Exception):
    def __init__(self, version: Version) -> None:
        super().__init__(version)
        self.version = version


def contents_by_row(world: World) -> dict[Version, Row | None]:
    """What every installed version holds; :class:`Circular` if versions were computed from each other."""
    return _ByRow(world).all()


class _ByRow:
    def __init__(self, world: World) -> None:
        self.world = world
        self.evaluation = Evaluation(world)
        self.known: dict[Version, Row | None] = {}

    def all(self) -> dict[Version, Row | None]:
        for number, line in self.world.lines.items():
            for version in line.versions:
                self._ensure((number, version))
        return self.known

    def _ensure(self, version: Version) -> None:
        waiting, on_the_way = [version], dict[Version, None]()
        while waiting:
            top = waiting[-1]
            if top in self.known:
                waiting.pop()
                on_the_way.pop(top, None)
                continue
            on_the_way[top] = None
            try:
                self.known[top] = self._computed(*top)
            except Unknown:
                # What it was made from nobody knows; whoever needs it will say so.
                return
            except _Missing as missing:
                if missing.version in on_the_way:
                    path = list(on_the_way)
                    raise Circular(tuple(place for _, place in path[path.index(missing.version) :])) from None
                waiting.append(missing.version)

    def _computed(self, number: int, version: Place) -> Row | None:
        """The row after all that its transaction did to it up to this operation."""
        txn, last = version
        _, row = self._own(txn, last + 1, number)
        return row

    def _own(self, txn: int, end: int, number: int) -> tuple[bool, Row | None]:
        """Whether a transaction wrote an object before its operation ``end``, and the row that it then was."""
        world = self.world
        position = world.objects.table[number]
        own, row = False, None
        for index in range(end):
            place = (txn, index)
            asked = world.asked.get(place)
            if asked is None or asked.form.what == "query" or asked.form.target != position:
                continue
            line = world.lines.get(number)
            listed = line is not None and place in line.listed
            if place not in world.reads and not asked.form.plain_insert and not listed:
                if self._may_have_written(place, number):
                    raise Undecidable(f"'{asked.sql}' has no version set, and nobody tells which rows it wrote")
                continue
            before = row if own and not self._told(place, number) else self._seen(place, number)
            if asked.form.simple and not asked.form.moves:
                after = self.evaluation.one_row(asked, number, before)
            else:
                after = self._among_all(place, asked, number, before)
            if after != before or listed:
                own, row = True, after
        return own, row

    def _may_have_written(self, place: Place, number: int) -> bool:
        """Whether a statement without a version set can have written an object: a version of it is listed, or a later one."""
        line = self.world.lines.get(number)
        return line is not None and line.last.get(place[0], -1) >= place[1]

    def _told(self, place: Place, number: int) -> bool:
        """Whether a version is told in the place of what the transaction itself wrote."""
        seen = self.world.reads.get(place)
        return seen is not None and (seen.first is None or number in self.world.told.get(place, {}))

    def _among_all(self, place: Place, asked: Asked, number: int, before: Row | None) -> Row | None:
        """What a statement that asks other rows, too, makes of one: it is run on its whole version set."""
        objects = self.world.objects
        changes: list[dict[int, Row | None]] = [{} for _ in self.world.catalog.tables]
        for other in range(len(objects.table)):
            if objects.table[other] in asked.form.tables:
                own, row = self._own(*place, other)
                seen = row if own and not self._told(place, other) else self._seen(place, other)
                changes[objects.table[other]][other] = seen
        running = self.evaluation.running(asked, self.evaluation.no_rows, changes)
        return running.evaluated().written.get(number, before)

    def _seen(self, place: Place, number: int) -> Row | None:
        world = self.world
        version: Place | None
        if place not in world.reads:
            at = world.before(number, place[0])
            version = None if at is None else world.version(number, at)
        else:
            told = world.told.get(place, {})
            if number in told:
                version = told[number]
            elif world.reads[place].first is None:
                version = None
            else:
                version = world.version(number, world.visible(place, number))
        if version is None:
            return world.objects.initial[number]
        if (number, version) not in self.known:
            line = world.lines.get(number)
            if line is None or version not in line.listed:
                raise Unknown
            raise _Missing((number, version))
        return self.known[number, version]
