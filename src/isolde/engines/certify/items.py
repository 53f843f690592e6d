"""The item operations of a history of SQL tables: a key for each object, a value for each version, as ``check`` takes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from isolde._core import Columns
from isolde.engines.certify.answers import shown_row
from isolde.engines.certify.evaluate import Evaluation, Unknown
from isolde.engines.certify.fit import Place
from isolde.engines.certify.order import FLOW, Edge, Graph
from isolde.engines.certify.sentences import row_name, txn_name
from isolde.engines.certify.world import INITIAL, World
from isolde.history.json_text import json_text


class Items:
    """The history in item operations. Without an ``evaluation`` only what was written is known."""

    def __init__(self, world: World, evaluation: Evaluation | None, barred: frozenset[tuple[Place, int]]) -> None:
        self.world, self.evaluation, self.barred = world, evaluation, barred
        self._keys: dict[int, str] = {}
        self._values: dict[tuple[int, Place | None], str] = {}
        self._readable = True
        self._width = 1 + max((len(t.ops) for t in world.history.transactions), default=0)
        self._where: dict[tuple[int, int], int] = {}
        """The place among the item operations of a transaction's write of an object."""
        self._reads: list[tuple[Place, int, Place | None]] = []
        if evaluation is not None:
            effective = world.effective
            self._reads = [
                (place, number, version)
                for place, done in evaluation.done.items()
                if done.used and place[0] in effective
                for number, version in done.used
                if not barred or (place, number) not in barred
            ]

    # Edges

    def edges(self) -> Iterator[Edge]:
        """Overwrites, reads and anti-dependencies."""
        lines = self.world.lines
        for line in lines.values():
            for (before, _), (after, _) in pairwise(line.versions):
                yield before, after, "ww"
            for first, second, _ in line.again:
                yield first, second, "ww"
        for (txn, _), number, version in self._reads:
            line_read = lines.get(number)
            if line_read is None:
                continue
            at = INITIAL if version is None else line_read.at[version[0]]
            if version is not None:
                yield version[0], txn, "wr"
            if at + 1 < len(line_read.versions) and line_read.versions[at + 1][0] != txn:
                yield txn, line_read.versions[at + 1][0], "rw"

    def all_forward(self, placed: Mapping[int, int]) -> bool:
        """Whether every edge leads forward in an order of the transactions that count."""
        lines = self.world.lines
        orders = {number: [placed.get(txn, -1) for txn, _ in line.versions] for number, line in lines.items()}
        for number, order in orders.items():
            if lines[number].again or -1 in order or any(a > b for a, b in pairwise(order)):
                return False
        for (txn, _), number, version in self._reads:
            if number in orders:
                order, here = orders[number], placed[txn]
                at = INITIAL if version is None else lines[number].at[version[0]]
                if (at >= 0 and order[at] > here) or (at + 1 < len(order) and order[at + 1] < here):
                    return False
        return True

    # The history

    def columns(self, *, by_age: bool = True, readable: bool = True) -> Columns:
        """The transactions, at their places in the history; with ``by_age``, the oldest of a statement's rows come first.

        Values are for people if they are ``readable``: who wrote a version, and what it is. Else they are numbers.
        """
        self._readable = readable
        self._values = {}
        self._where = {}
        by_place: dict[Place, list[tuple[int, Place | None]]] = {}
        for place, number, version in self._reads:
            by_place.setdefault(place, []).append((number, version))
        age = self._ages() if by_age else {}
        for reads in by_place.values():
            if by_age and len(reads) > 1:
                # The rows of one statement were read at once. As item operations they have an order, and read committed lets
                # nothing older come later: so the oldest come first.
                reads.sort(key=lambda read: -1 if read[1] is None else age.get(read[1][0], 0))
        lines = [self._line(txn, by_place) for txn in range(len(self.world.history.transactions))]
        first = [
            f"[{self._key(number)},{self._value(number, None)}]"
            for number in list(self._keys)
            if self.world.objects.initial[number] is not None
        ]
        header = '{"isolde":"history","version":1,"initial":[' + ",".join(first) + "]}"
        return Columns.from_jsonl(("\n".join([header, *lines]) + "\n").encode())

    def versions(self) -> Sequence[Sequence[Place | None]]:
        """The order of the versions of each object, by the item operations that wrote them; asked after the columns."""
        return [
            [None, *((txn, self._where[txn, number]) for txn, _ in line.versions if (txn, number) in self._where)]
            for number, line in self.world.lines.items()
            if line.versions
        ]

    def _ages(self) -> dict[int, int]:
        """The places of the transactions in an order of what they overwrote and read, if there is one."""
        world = self.world
        graph = Graph(
            FLOW, sorted(world.effective), [0.0] * len(world.history.transactions), world.history.transactions
        )
        graph.add(self.edges())
        order = graph.order()
        return {} if order is None else order[1]

    def _line(self, txn: int, reads: dict[Place, list[tuple[int, Place | None]]]) -> str:
        world = self.world
        transaction = world.history.transactions[txn]
        parts = [f'{{"id":{json_text(transaction.id)},"session":{json_text(transaction.session)}']
        if transaction.start is not None:
            parts.append(f'"start":{transaction.start}')
        if transaction.end is not None:
            parts.append(f'"end":{transaction.end}')
        if txn not in world.effective:
            return ",".join([*parts, '"status":"aborted"', '"ops":[]}'])
        installed: dict[int, list[int]] = {}
        for number in world.installed_by.get(txn, ()):
            line = world.lines[number]
            installed.setdefault(line.versions[line.at[txn]][1], []).append(number)
        ops: list[str] = []
        keys, width = self._keys, self._width
        for index in range(len(transaction.ops)):
            for number, version in reads.get((txn, index), ()):
                key = keys.get(number) or self._key(number)
                if version is None or self._readable:
                    ops.append(f'["r",{key},{self._value(number, version)}]')
                else:
                    ops.append(f'["r",{key},{version[0] * width + version[1]}]')
            for number in installed.get(index, ()):
                self._where[txn, number] = len(ops)
                ops.append(f'["w",{keys.get(number) or self._key(number)},{self._value(number, (txn, index))}]')
        return ",".join(parts) + ',"ops":[' + ",".join(ops) + "]}"

    def _key(self, number: int) -> str:
        """The object's name as JSON text."""
        key = self._keys.get(number)
        if key is None:
            name = row_name(self.world.objects.name[number])
            # Two keys may be spelled alike: 1 and "1".
            taken = (
                set(self._keys.values())
                if any(isinstance(part, str) for part in self.world.objects.name[number].key)
                else ()
            )
            while json_text(name) in taken:
                name += "'"
            key = self._keys[number] = json_text(name)
        return key

    def _value(self, number: int, version: Place | None) -> str:
        """JSON text of a value unlike that of every other version of the object: it says who wrote it."""
        if not self._readable and version is not None:
            return str(version[0] * self._width + version[1])
        value = self._values.get((number, version))
        if value is None:
            value = self._values[number, version] = self._shown(number, version)
        return value

    def _shown(self, number: int, version: Place | None) -> str:
        if version is None:
            row = self.world.objects.initial[number]
            return "null" if row is None else json_text(f"{shown_row(row)} at first")
        name = txn_name(self.world.history.transactions[version[0]].id)
        by = f"by operation {version[1]} of {name}"
        if self.evaluation is None:
            return json_text(by)
        try:
            row = self.evaluation.content(number, version)
        except Unknown:
            return json_text(by)
        return json_text(f"deleted {by}" if row is None else f"{shown_row(row)} {by}")
