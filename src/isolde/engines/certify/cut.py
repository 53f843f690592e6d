"""A part of a history and of its certificate: some transactions alone, which find what the others left behind as first rows.

A statement sees versions of transactions that are left out. Of each object the last of those before its first version that stays
becomes the initial one. Where two statements saw different ones, the part says something else than the whole did: whoever cuts
looks at what comes out, and takes more transactions if it is not the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from isolde._core import Columns
from isolde.engines.certify.evaluate import Circular, Evaluation, Unknown
from isolde.engines.certify.tables import evaluated
from isolde.engines.certify.world import INITIAL, Undecidable, World
from isolde.formats import decode, is_sql
from isolde.formats.certificates import PlacedCertificate
from isolde.formats.tables import sql_history
from isolde.history import History, Key, TxnId, Value, written
from isolde.history.certificate import Certificate, Installed, ObjectId, Sees, VersionId, VersionSet

Part = tuple[History, Certificate]


def parts(columns: Columns, placed: PlacedCertificate, needed: Sequence[int]) -> Iterator[Part]:
    """Parts that hold these transactions, the smallest first; the last one is the whole."""
    history, certificate = decode(columns), placed.certificate
    cutting = _Cutting(columns, history, placed)
    tried: set[frozenset[int]] = {frozenset(range(len(history.transactions)))}
    keep = frozenset(needed)
    for more in (keep, keep | cutting.near(keep), keep | cutting.before(keep)):
        if more not in tried:
            tried.add(more)
            yield cutting.part(more)
    yield history, certificate


class _Cutting:
    def __init__(self, columns: Columns, history: History, placed: PlacedCertificate) -> None:
        self.history, self.told = history, placed.certificate
        self.positions: dict[TxnId, int] = {t.id: at for at, t in enumerate(history.transactions)}
        self.world: World | None = None
        self.evaluation: Evaluation | None = None
        if is_sql(columns):
            try:
                self.world = World(history, sql_history(history, columns.name), placed)
                self.evaluation = evaluated(self.world)
            except (Circular, Undecidable):
                self.evaluation = None

    def part(self, keep: frozenset[int]) -> Part:
        """These transactions alone."""
        transactions = tuple(t for at, t in enumerate(self.history.transactions) if at in keep)
        names = {t.id for t in transactions}
        history = History(transactions, self._values(names), self.history.meta, (), self._header(keep))
        return history, self._certificate(names)

    # Which transactions

    def near(self, keep: frozenset[int]) -> frozenset[int]:
        """Those whose versions these, or the statements of these, come right after."""
        found = set[int]()
        for installed in self.told.objects.values():
            before: int | None = None
            for version in installed.versions:
                at = None if version is None else self.positions.get(version[0])
                if before is not None and at in keep:
                    found.add(before)
                before = at
        if self.evaluation is not None:
            for (txn, _), done in self.evaluation.done.items():
                found |= {version[0] for _, version in done.used if version is not None and txn in keep}
        return frozenset(found)

    def before(self, keep: frozenset[int]) -> frozenset[int]:
        """Those before the last of these, in the order that is told."""
        order = [self.positions[name] for name in self.told.serial or self.told.commits if name in self.positions]
        last = max((at for at, txn in enumerate(order) if txn in keep), default=-1)
        return frozenset(order[: last + 1])

    # What they start from

    def _values(self, names: set[TxnId]) -> Mapping[Key, Value]:
        """Of a history over keys, what keys hold at first."""
        initial = dict(self.history.initial)
        for key, installed in self.told.objects.items():
            base = _base(installed, names)
            if isinstance(key, int | str) and base is not None:
                op = self.history.transactions[self.positions[base[0]]].ops[base[1]]
                wrote = written(op)
                if wrote is not None:
                    initial[key] = wrote[1]
        return initial

    def _header(self, keep: frozenset[int]) -> Mapping[str, Any]:
        world, evaluation = self.world, self.evaluation
        if world is None or evaluation is None:
            return self.history.extra
        rows: dict[str, list[list[Any]]] = {name: [] for name in world.sql.rows}
        for number in range(len(world.objects.table)):
            at = self._base_row(number, keep)
            try:
                row = evaluation.content(number, world.version(number, at))
            except Unknown:
                row = world.objects.initial[number]
            if row is not None:
                name = world.catalog.tables[world.objects.table[number]].table.name
                rows.setdefault(name, []).append([_cell(value) for value in row])
        return {**self.history.extra, "rows": rows}

    def _base_row(self, number: int, keep: frozenset[int]) -> int:
        world = self.world
        assert world is not None
        line = world.lines.get(number)
        if line is None:
            return INITIAL
        first = next((at for at, (txn, _) in enumerate(line.versions) if txn in keep), None)
        if first is not None:
            return first - 1
        table = world.objects.table[number]
        return max(
            (
                world.visible(place, number)
                for place, asked in world.asked.items()
                if place[0] in keep and place in world.reads and table in asked.form.tables
            ),
            default=INITIAL,
        )

    # What is told of them

    def _certificate(self, names: set[TxnId]) -> Certificate:
        told = self.told
        objects: dict[ObjectId, Installed] = {}
        for thing, installed in told.objects.items():
            kept = tuple(version for version in installed.versions if version is None or version[0] in names)
            if any(version is not None for version in kept):
                objects[thing] = Installed(kept, installed.partial)
        reads = {place: self._seen(seen, names) for place, seen in told.reads.items() if place[0] in names}
        commits = tuple(name for name in told.commits if name in names)
        serial = None if told.serial is None else tuple(name for name in told.serial if name in names)
        return Certificate(told.source, objects, commits, reads, serial)

    def _seen(self, seen: VersionSet, names: set[TxnId]) -> VersionSet:
        sees = seen.sees
        if sees is not None:
            first = sum(name in names for name in self.told.commits[: sees.first])
            without = tuple(name for name in sees.without if name in names)
            sees = Sees(first, without, tuple(name for name in sees.also if name in names))
        versions: dict[ObjectId, VersionId | None] | None = None
        if seen.versions is not None:
            versions = {
                thing: version if version is None or version[0] in names else None
                for thing, version in seen.versions.items()
            }
        return VersionSet(sees, versions)


def _base(installed: Installed, names: set[TxnId]) -> VersionId | None:
    """The version before the first one that stays; the last one if none does."""
    base: VersionId | None = None
    for version in installed.versions:
        if version is not None and version[0] in names:
            return base
        base = version
    return base


def _cell(value: Any) -> Any:
    return value.isoformat(" ") if isinstance(value, datetime) else str(value) if isinstance(value, date) else value
