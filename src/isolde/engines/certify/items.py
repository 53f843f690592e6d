"""The item operations of a history of SQL tables: a key for each object, a value for each version, as ``check`` takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from isolde.engines.certify.answers import shown_row
from isolde.engines.certify.evaluate import Evaluation, Unknown
from isolde.engines.certify.fit import Place
from isolde.engines.certify.order import FLOW, Edge, Graph
from isolde.engines.certify.sentences import row_name, txn_name
from isolde.engines.certify.world import INITIAL, World
from isolde.history import History, Key, Operation, Read, Status, Transaction, Value, Write


class Items:
    """The history in item operations. Without an ``evaluation`` only what was written is known."""

    def __init__(self, world: World, evaluation: Evaluation | None, barred: frozenset[tuple[Place, int]]) -> None:
        self.world, self.evaluation, self.barred = world, evaluation, barred
        self._keys: dict[int, str] = {}
        self._taken: set[str] = set()
        self._place = self._places()
        self._where: dict[tuple[int, int], int] = {}
        """The place among the item operations of a transaction's write of an object."""
        transactions = tuple(map(self._transaction, range(len(world.history.transactions))))
        initial: dict[Key, Value] = {
            self._key(number): f"{shown_row(row)} at first"
            for number, row in enumerate(world.objects.initial)
            if row is not None
        }
        used = {op.key for t in transactions for op in t.ops if isinstance(op, Read | Write)}
        self.history = History(transactions, {key: value for key, value in initial.items() if key in used})

    def _places(self) -> dict[int, int]:
        """The transactions in an order of what they overwrote and read, if there is one."""
        world = self.world
        graph = Graph(
            FLOW, sorted(world.effective), [0.0] * len(world.history.transactions), world.history.transactions
        )
        graph.add(self.edges())
        order = graph.order()
        return {} if order is None else order[1]

    def versions(self) -> Sequence[Sequence[Place | None]]:
        """The order of the versions of each object, by the item operations that wrote them."""
        return [
            [None, *((txn, self._where[txn, number]) for txn, _ in line.versions if (txn, number) in self._where)]
            for number, line in self.world.lines.items()
            if line.versions
        ]

    def edges(self) -> Iterator[Edge]:
        """Overwrites, reads and anti-dependencies."""
        world = self.world
        for line in world.lines.values():
            for (before, _), (after, _) in zip(line.versions, line.versions[1:], strict=False):
                yield before, after, "ww"
            for first, second in line.again:
                yield first, second, "ww"
        for place, number, at in self.reads():
            line_read = world.lines.get(number)
            if line_read is None:
                continue
            if at != INITIAL:
                yield line_read.versions[at][0], place[0], "wr"
            if at + 1 < len(line_read.versions) and line_read.versions[at + 1][0] != place[0]:
                yield place[0], line_read.versions[at + 1][0], "rw"

    def reads(self) -> Iterator[tuple[Place, int, int]]:
        """What was read: the statement, the object, the place of the version in its line."""
        if self.evaluation is None:
            return
        for place, done in self.evaluation.done.items():
            if place[0] in self.world.effective:
                for number, version in self._read(place, done.used):
                    line = self.world.lines.get(number)
                    at = INITIAL if version is None or line is None else line.at[version[0]]
                    yield place, number, at

    def _read(self, place: Place, used: Sequence[tuple[int, Place | None]]) -> Iterator[tuple[int, Place | None]]:
        for number, version in used:
            if (place, number) not in self.barred:
                yield number, version

    def _age(self, read: tuple[int, Place | None]) -> int:
        return -1 if read[1] is None else self._place.get(read[1][0], 0)

    def _transaction(self, txn: int) -> Transaction:
        transaction = self.world.history.transactions[txn]
        if txn not in self.world.effective:
            return replace(transaction, ops=(), status=Status.ABORTED)
        ops: list[Operation] = []
        installed: dict[int, list[int]] = {}
        for number in self.world.installed_by.get(txn, ()):
            line = self.world.lines[number]
            installed.setdefault(line.versions[line.at[txn]][1], []).append(number)
        for index in range(len(transaction.ops)):
            done = self.evaluation.done.get((txn, index)) if self.evaluation is not None else None
            # The rows of one statement were read at once. As item operations they have an order, and read committed lets nothing
            # older come later: so the oldest come first.
            seen = [] if done is None else sorted(self._read((txn, index), done.used), key=self._age)
            for number, version in seen:
                ops.append(Read(self._key(number), self._value(number, version)))
            for number in installed.get(index, ()):
                self._where[txn, number] = len(ops)
                version = self.world.lines[number].versions[self.world.lines[number].at[txn]]
                value = self._value(number, version)
                assert not isinstance(value, tuple)
                ops.append(Write(self._key(number), value))
        return replace(transaction, ops=tuple(ops), status=Status.COMMITTED)

    def _key(self, number: int) -> str:
        key = self._keys.get(number)
        if key is None:
            key = row_name(self.world.objects.name[number])
            while key in self._taken:
                # Two keys may be spelled alike: 1 and "1".
                key += "'"
            self._taken.add(key)
            self._keys[number] = key
        return key

    def _value(self, number: int, version: Place | None) -> Value:
        """Unlike that of every other version of the object: it says who wrote it."""
        if version is None:
            row = self.world.objects.initial[number]
            return None if row is None else f"{shown_row(row)} at first"
        name = txn_name(self.world.history.transactions[version[0]].id)
        by = f"by operation {version[1]} of {name}"
        if self.evaluation is None:
            return by
        try:
            row = self.evaluation.content(number, version)
        except Unknown:
            return by
        return f"deleted {by}" if row is None else f"{shown_row(row)} {by}"
