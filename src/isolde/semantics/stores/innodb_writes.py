"""How a row gets into InnoDB's indexes: unique keys and foreign keys are checked, and locked, index by index."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from isolde.errors import ExecutionError
from isolde.semantics.core.catalog import Reference, TableInfo
from isolde.semantics.stores.indexes import HIGHEST, Entry, Index
from isolde.semantics.stores.innodb_requests import Enter, InsertEntry, Kind, LockGap, LockRecord, Next
from isolde.semantics.stores.machine import Transaction
from isolde.semantics.stores.requests import Put
from isolde.semantics.tables.constraints import Checks
from isolde.semantics.tables.view import Row

if TYPE_CHECKING:
    from isolde.semantics.stores.innodb import InnoDB

Part = Generator[Any, Any, Any]
_LAST = 10**18
"""After the numbers of all rows: where a row without a key comes."""


class Writing:
    """The part of a statement that writes rows."""

    def __init__(self, model: InnoDB, transaction: Transaction) -> None:
        self.model, self.catalog = model, model.catalog
        self.gaps = transaction.level.gaps
        self.range_kind = Kind.NEXT_KEY if self.gaps else Kind.RECORD

    def taken(self, info: TableInfo, new: Row, *, exclusive: bool) -> Part:
        """The first row that holds a unique key of a new one, locked, or ``None``."""
        for index in self.model.indexes[info.position]:
            if index.unique is not None and info.unique_keys[index.unique](new) is not None:
                holder = yield from self._holder(info, index, new, None, exclusive=exclusive)
                if holder is not None:
                    return holder
        return None

    def write(self, info: TableInfo, checks: Checks, number: int | None, old: Row | None, new: Row) -> Part:
        """Adds a row, or replaces one, index by index."""
        if self.model.needed:
            yield Enter(info.position, new)
        for index in self.model.indexes[info.position]:
            before = None if old is None or number is None else index.entry(old, number)
            entry = index.entry(new, _LAST if number is None else number)
            if before != entry:
                if before is not None and number is not None and index.place:
                    yield marked(info, index, before, number)
                if old is not None:
                    yield from self.left_behind(info, index, checks.incoming, old, new)
                for reference in checks.outgoing:
                    key = reference.child_key(new)
                    same = old is not None and reference.child_key(old) == key
                    if (
                        key is not None
                        and not same
                        and self._index_for(info.position, reference.child_columns) is index
                    ):
                        yield from self.parent(reference, key)
                while True:
                    if (yield from self._holder(info, index, new, number, exclusive=False)) is not None:
                        names = ", ".join(info.table.columns[column].name for column in index.columns)
                        raise ExecutionError("unique", f"{info.table.name} has already a row with this ({names})")
                    mine = yield InsertEntry(info.position, index.place, entry, before)
                    # While it waited for the gap, another may have come into it.
                    if (yield from self._free(info, index, new, number)):
                        if not mine:
                            yield InsertEntry(info.position, index.place, entry, before, found_free=True)
                        break
            if index.place == 0:
                number = yield Put(info.position, number, new)

    def left_behind(
        self, info: TableInfo, index: Index, incoming: Sequence[Reference], old: Row, new: Row | None
    ) -> Part:
        """Nobody refers to a key of this index that goes: asked before it is known whether the new one is free."""
        for reference in incoming:
            goes = new is None or reference.parent_key(old) != reference.parent_key(new)
            if goes and self._index_for(info.position, reference.parent_columns) is index:
                yield from self.children(reference, old)

    def _free(self, info: TableInfo, index: Index, new: Row, number: int | None) -> Part:
        """Whether no other entry has this unique key, dead or alive."""
        if index.unique is None or info.unique_keys[index.unique](new) is None:
            return True
        probe = index.probe([new[column] for column in index.columns])
        at, first = probe, True
        while True:
            found = yield Next(info.position, index.place, at, first)
            if found is None or found[0][: len(probe)] != probe:
                return True
            (at, other), first = found, False
            if other != number:
                version, _ = yield LockRecord(info.position, index.place, at, other, False, Kind.RECORD)
                if version is not None:
                    return False

    def _holder(self, info: TableInfo, index: Index, new: Row, number: int | None, *, exclusive: bool) -> Part:
        if index.unique is None or info.unique_keys[index.unique](new) is None:
            return None
        probe = index.probe([new[column] for column in index.columns])
        at, first = probe, True
        while True:
            found = yield Next(info.position, index.place, at, first)
            if found is None or found[0][: len(probe)] != probe:
                return None
            (at, other), first = found, False
            if other == number:
                continue
            # An entry of another index does not tell when its row was changed.
            current = index.place == 0
            version, _ = yield LockRecord(
                info.position, index.place, at, other, exclusive, self.range_kind, current=current, duplicate=True
            )
            if version is not None:
                if exclusive and index.place:
                    clustered = self.model.indexes[info.position][0].entry(version.row, other)
                    version, _ = yield LockRecord(info.position, 0, clustered, other, True, Kind.RECORD)
                if version is not None:
                    return other, version

    def _index_for(self, table: int, columns: tuple[int, ...]) -> Index:
        """The index by which a foreign key finds rows."""
        return next(one for one in self.model.indexes[table] if one.columns[: len(columns)] == columns)

    # Foreign keys, row by row

    def parent(self, reference: Reference, key: Any) -> Part:
        """The parent's record is locked in share mode: whoever wants to change any column of it waits."""
        info = self.catalog.tables[reference.parent]
        found = yield from self._referred(reference.parent, reference.parent_columns, key, current=True)
        if found is None:
            child = self.catalog.tables[reference.child].table.name
            raise ExecutionError("foreign-key", f"{child} refers to {key!r}, which is not in {info.table.name}")

    def children(self, reference: Reference, row: Row) -> Part:
        key = reference.parent_key(row)
        if key is None:
            return
        # Children count as they are now, also with innodb_snapshot_isolation; a parent that is newer than the snapshot fails.
        found = yield from self._referred(reference.child, reference.child_columns, key, current=False)
        if found is not None:
            child, parent = self.catalog.tables[reference.child], self.catalog.tables[reference.parent]
            raise ExecutionError("foreign-key", f"{child.table.name} still refers to {key!r} of {parent.table.name}")

    def _referred(self, table: int, columns: tuple[int, ...], key: Any, *, current: bool) -> Part:
        """A row with this key, its record locked in share mode; the gap where it would be, if there is none."""
        index = self._index_for(table, columns)
        values = key if len(columns) > 1 else (key,)
        probe = tuple((1, value) for value in values)
        at: Entry = probe
        first = True
        while True:
            found = yield Next(table, index.place, at, first)
            if found is None or found[0][: len(probe)] != probe:
                if self.gaps:
                    yield LockGap(table, index.place, (*probe, HIGHEST[0]), False)
                return None
            (at, number), first = found, False
            version, _ = yield LockRecord(table, index.place, at, number, False, Kind.RECORD, current=current)
            if version is not None:
                return number


def marked(info: TableInfo, index: Index, entry: Entry, number: int) -> LockRecord:
    """An entry of a secondary index is marked as deleted: whoever has locked it is waited for, and no lock comes of it."""
    return LockRecord(info.position, index.place, entry, number, True, Kind.IMPLICIT, current=False)
