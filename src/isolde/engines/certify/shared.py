"""One state of the tables that serves many statements: it goes forward in ``commits``, transaction by transaction."""

from __future__ import annotations

from collections.abc import Callable

from isolde.engines.certify.fit import Place
from isolde.engines.certify.world import INITIAL, World
from isolde.semantics.tables.memory import MemoryTable
from isolde.semantics.tables.view import Row

Content = Callable[[int, Place | None], Row | None]
"""The row that a version of an object is."""


class Shared:
    """``passed`` is how many of ``commits`` the tables have; ``current`` the place of the version that each object is at."""

    def __init__(self, world: World, content: Content) -> None:
        self._world, self._content = world, content
        self.tables = [MemoryTable(info, world.catalog, []) for info in world.catalog.tables]
        self.passed = 0
        self.current: dict[int, int] = {}
        self.versions: dict[int, Place] = {}
        """The version that each object is at; those that are not here are at their initial one."""
        for number, row in enumerate(world.objects.initial):
            if row is not None:
                self.tables[world.objects.table[number]].restore(number, row)

    def go_on(self) -> None:
        """Over the next commit. Of each object the last version in the object's own order counts."""
        world = self._world
        txn, current = world.commits[self.passed], self.current
        for number in world.installed_by.get(txn, ()):
            line = world.lines[number]
            at = line.at[txn]
            if at > current.get(number, INITIAL):
                current[number] = at
                version = self.versions[number] = line.versions[at]
                self._set(number, self._content(number, version))
        self.passed += 1

    def _set(self, number: int, row: Row | None) -> None:
        table = self.tables[self._world.objects.table[number]]
        if row is not None or number in table.rows:
            table.restore(number, row)
