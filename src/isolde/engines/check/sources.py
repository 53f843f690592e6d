"""Who may have written what was read: by the values in the transactions alone."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from isolde.engines.check.evidence import SILENT, Told
from isolde.findings import Supposition
from isolde.history import (
    CompareAndSet,
    History,
    Key,
    Operation,
    Scan,
    Sql,
    Status,
    Transaction,
    TxnId,
    Value,
    observed,
    token,
    written,
)
from isolde.levels import Level

Assumed = Sequence[Supposition]
# What a transaction of unknown outcome read need not agree to have taken effect at these, nor be explained at the first.
_CHANGING_READS = frozenset({Level.READ_UNCOMMITTED, Level.PL_2, Level.READ_COMMITTED})


class Sources:
    """Whose versions the reads of a history may have seen, and what its versions lines may mean."""

    def __init__(
        self,
        history: History,
        level: Level,
        counted: Sequence[Transaction],
        *,
        judge_aborted: bool,
        told: Told = SILENT,
    ) -> None:
        self.told = told
        self.history = history
        self.judge_aborted = judge_aborted
        self.level = level
        self.by_id: Mapping[TxnId, Transaction] = {t.id: t for t in history.transactions}
        self.counted = {t.id for t in counted}

    def possible(
        self, key: Key, reader: Transaction, op: Operation, *, unexplainable_too: bool = False
    ) -> set[TxnId | None]:
        """Whose version of ``key`` the operation may have seen; ``None`` is the initial one."""

        def fits(value: Value) -> bool:
            seen = observed(op)
            if seen is not None:
                return token(seen[1]) == token(value)
            return isinstance(op, CompareAndSet) and token(op.expected) != token(value)

        sources: set[TxnId | None] = {None} if fits(self.history.initial.get(key)) else set()
        for t in index_of(self.history).writers_of.get(key, ()):
            if t.id != reader.id and fits(final_writes(t)[key]) and self.may_count(t, unexplainable_too):
                sources.add(t.id)
        return sources

    def may_count(self, t: Transaction, unexplainable_too: bool = False) -> bool:
        """One of unknown outcome that saw something inexplicable itself took no effect, unless somebody certainly saw it."""
        if t.status is not Status.UNKNOWN:
            return t.status is Status.COMMITTED
        return (
            t.id in self.counted
            or unexplainable_too
            or self.level is Level.READ_UNCOMMITTED
            or not self.inexplicable(t)
        )

    def inexplicable(self, t: Transaction) -> bool:
        changed = self.level not in _CHANGING_READS and some_read_changed(self.history, t)
        return changed or some_read_without_writer(self.history, t) or some_read_not_own(self.history, t)

    def only(self, key: Key, reader: Transaction, op: Operation) -> set[TxnId | None]:
        """The same; but if only one was left whose own reads nothing explains, it was that one all the same."""
        return self.possible(key, reader, op) or self.possible(key, reader, op, unexplainable_too=True)

    def open_reads(self, key: Key, reader: TxnId) -> list[Operation]:
        """The operations of ``reader`` that look at ``key`` before it wrote it and may be about any of the sources."""
        return [op for _, op in looks(self.by_id[reader]) if getattr(op, "key", None) == key]

    def sourceless(self, reader: TxnId) -> bool:
        """Whether some read of ``reader`` can have seen nobody's version."""
        transaction = self.by_id[reader]
        keys = {op.key for op in transaction.ops if not isinstance(op, Scan | Sql)}
        return any(not self.possible(key, transaction, op) for key in keys for op in self.open_reads(key, reader))

    def certain(self, key: Key, reader: Transaction) -> set[TxnId | None]:
        """Whose versions of ``key`` the reads of ``reader`` certainly saw."""
        found = set()
        for op in self.open_reads(key, reader.id):
            possible = self.only(key, reader, op)
            found |= possible if len(possible) == 1 else set()
        return found

    def took_effect(self, txn: TxnId, assumed: Assumed) -> bool:
        """Whether ``txn`` counts for certain, or because somebody is assumed to have seen it."""
        return txn in self.counted or any(s.kind != "before" and s.second == txn for s in assumed)

    def counts(self, txn: TxnId, assumed: Assumed) -> bool:
        """Whether what ``txn`` read is judged."""
        return self.judge_aborted or self.took_effect(txn, assumed)

    def meanings(self, line: int, index: int) -> set[TxnId | None]:
        """Whose versions the value at ``index`` of a versions line may mean."""
        chain = self.history.versions[line]
        value = token(chain.values[index])
        found: set[TxnId | None] = {
            t.id
            for t in index_of(self.history).writers_of.get(chain.key, ())
            if token(final_writes(t)[chain.key]) == value and self.may_count(t)
        }
        # Nothing comes before the initial version; if it can mean nothing else, that is a contradiction.
        first = not any(self.says(line, at) for at in range(index))
        if value == token(self.history.initial.get(chain.key)) and (first or not found):
            found.add(None)
        return found

    def says(self, line: int, index: int, assumed: Assumed = ()) -> bool:
        """Whether a version that the value may mean is there for certain."""
        chain = self.history.versions[line]
        value = token(chain.values[index])
        if value == token(self.history.initial.get(chain.key)):
            return True
        if any(m is not None and self.took_effect(m, assumed) for m in self.meanings(line, index)):
            return True
        # Whoever wrote it: somebody who counts saw the value.
        readers = (t for t in self.history.transactions if self.counts(t.id, assumed))
        return any(key == chain.key and token(seen) == value for t in readers for key, seen in outside_reads(t))

    def meant(self, line: int, index: int, assumed: Assumed) -> TxnId | tuple[()] | None:
        """Whose version the value means for certain, or as is assumed; empty if that is open."""
        for s in assumed:
            if (s.kind, s.first, s.index) == ("meant", line, index):
                return s.second
        meanings = self.meanings(line, index)
        return next(iter(meanings)) if len(meanings) == 1 and self.says(line, index, assumed) else ()

    def told_before(self, key: Key | None, first: TxnId | None, second: TxnId | None, assumed: Assumed) -> bool:
        """Whether a versions line, or an order told besides the history, puts the version of ``first`` before that of
        ``second``."""
        if self.told.before(key, first, second):
            return True
        for line, chain in enumerate(self.history.versions):
            if chain.key != key:
                continue
            meant = [self.meant(line, index, assumed) for index in range(len(chain.values))]
            if first in meant and second in meant[meant.index(first) + 1 :]:
                return True
        return False


@dataclass(frozen=True, slots=True)
class Index:
    """Where things are in a history: the place of each transaction, who wrote each key, and who left each value there."""

    place: Mapping[TxnId, int]
    sessions: Mapping[Key, Sequence[Transaction]]
    writers_of: Mapping[Key, Sequence[Transaction]]
    left: Mapping[tuple[Key, Hashable], Sequence[Transaction]]


_LAST: list[tuple[History, Index]] = []


def index_of(history: History) -> Index:
    """The index of a history; that of the last one is kept, since one is looked at many times in a row."""
    for known, index in _LAST:
        if known is history:
            return index
    sessions: dict[Key, list[Transaction]] = {}
    writers_of: dict[Key, list[Transaction]] = {}
    left: dict[tuple[Key, Hashable], list[Transaction]] = {}
    for t in history.transactions:
        sessions.setdefault(t.session, []).append(t)
        for key, value in final_writes(t).items():
            writers_of.setdefault(key, []).append(t)
            left.setdefault((key, token(value)), []).append(t)
    index = Index({t.id: at for at, t in enumerate(history.transactions)}, sessions, writers_of, left)
    _LAST[:] = [(history, index)]
    return index


def looks(reader: Transaction) -> list[tuple[int, Operation]]:
    """The operations that look at somebody else's version: of keys not written before; with their places."""
    own: set[Key] = set()
    found: list[tuple[int, Operation]] = []
    for index, op in enumerate(reader.ops):
        if isinstance(op, Scan | Sql):
            continue
        if op.key not in own and (observed(op) is not None or isinstance(op, CompareAndSet)):
            found.append((index, op))
        if (write := written(op)) is not None:
            own.add(write[0])
    return found


def final_writes(transaction: Transaction) -> dict[Key, Value]:
    return dict(write for op in transaction.ops if (write := written(op)) is not None)


def outside_reads(transaction: Transaction) -> list[tuple[Key, Value]]:
    """What was read of other transactions: reads of keys not written before."""
    own: set[Key] = set()
    reads: list[tuple[Key, Value]] = []
    for op in transaction.ops:
        if (read := observed(op)) is not None and read[0] not in own:
            reads.append(read)
        if (write := written(op)) is not None:
            own.add(write[0])
    return reads


def in_session(history: History, first: Transaction, second: Transaction) -> bool:
    place = index_of(history).place
    return first.session == second.session and place[first.id] < place[second.id]


def counted_ones(history: History, *, judge_aborted: bool, told: Told = SILENT) -> list[Transaction]:
    """The committed transactions, and those of unknown outcome that a counted or judged one read from, or whose versions are
    told to have been installed."""
    installed = told.took_effect()
    counted = [t for t in history.transactions if t.status is Status.COMMITTED or t.id in installed]
    unknown = {t.id: t for t in history.transactions if t.status is Status.UNKNOWN}
    readers = list(history.transactions) if judge_aborted else counted
    seen = {t.id for t in counted}
    for reader in readers:  # without judging, this grows while it is walked
        for txn in (told.read_from.get(reader.id, set()) & unknown.keys()) - seen:
            seen.add(txn)
            counted.append(unknown[txn])
        for key, value in outside_reads(reader):
            wrote = writers(history, reader, key, value)
            if len(wrote) == 1 and wrote[0].id not in seen and token(value) != token(history.initial.get(key)):
                seen.add(wrote[0].id)
                counted.append(wrote[0])
    return counted


def writers(history: History, reader: Transaction, key: Key, value: Value) -> list[Transaction]:
    """Other transactions that may have committed and left this value behind."""
    left = index_of(history).left.get((key, token(value)), ())
    return [t for t in left if t.id != reader.id and t.status is not Status.ABORTED]


def some_read_without_writer(history: History, reader: Transaction) -> bool:
    return any(
        token(value) != token(history.initial.get(key)) and not writers(history, reader, key, value)
        for key, value in outside_reads(reader)
    )


def some_read_not_own(_: History, reader: Transaction) -> bool:
    own: dict[Key, Value] = {}
    for op in reader.ops:
        if (read := observed(op)) is not None and read[0] in own and token(own[read[0]]) != token(read[1]):
            return True
        match op:
            case CompareAndSet(key, expected, _, False, ()) if key in own and token(own[key]) == token(expected):
                return True
            case _:
                pass
        if (write := written(op)) is not None:
            own[write[0]] = write[1]
    return False


def some_read_changed(_: History, reader: Transaction) -> bool:
    seen: dict[Key, object] = {}
    return any(token(value) != seen.setdefault(key, token(value)) for key, value in outside_reads(reader))
