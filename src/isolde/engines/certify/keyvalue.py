"""Histories over keys with a certificate.

Where it says only in which order versions were installed, the history stays as it is and the orders go along with it. Where it
also says which version an operation read, every version gets a value of its own, so that equal values are told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from isolde._core import Columns
from isolde.engines.certify.duplicates import duplicate
from isolde.engines.certify.fit import Fitted, Order, Place, Seen
from isolde.engines.certify.sentences import txn_name, wrote_again
from isolde.engines.certify.told import Fault, Told
from isolde.engines.certify.world import Undecidable
from isolde.findings.model import Kind
from isolde.formats import encode
from isolde.history import (
    Append,
    CompareAndSet,
    History,
    Key,
    Operation,
    Read,
    Scan,
    Sql,
    Status,
    Transaction,
    Value,
    Write,
    observed,
    render_value,
    token,
    written,
)

_MISMATCH = "result-set-mismatch"


def told_by_keys(history: History, columns: Columns, fit: Fitted) -> Told:
    """What a certificate tells of a history over keys."""
    return _Keys(history, columns, fit).told()


@dataclass(slots=True)
class _Line:
    """The installed versions of a key: the last one of each transaction."""

    versions: list[Place]
    at: dict[int, int]
    complete: bool
    from_initial: bool


class _Keys:
    def __init__(self, history: History, columns: Columns, fit: Fitted) -> None:
        self.history, self.columns, self.fit = history, columns, fit
        self.rank = {txn: at for at, txn in enumerate(fit.commits)}
        self.writes: dict[Key, dict[int, list[int]]] = {}
        for txn, transaction in enumerate(history.transactions):
            for index, op in enumerate(transaction.ops):
                if isinstance(op, Append) or written(op) is not None:
                    assert not isinstance(op, Scan | Sql)
                    self.writes.setdefault(op.key, {}).setdefault(txn, []).append(index)
        self.lines: dict[Key, _Line] = {}
        self.edges: list[tuple[int, int, Kind, str]] = []
        self.faults: list[Fault] = []
        self._moved: dict[Place, int] = {}
        self._open = ""
        """Why a read is open."""
        for key, order in fit.objects.items():
            assert isinstance(key, int | str)
            self._line(key, order)
        self.has_lists = any(isinstance(op, Append) for t in history.transactions for op in t.ops) or any(
            isinstance(op, Read) and isinstance(op.value, tuple) for t in history.transactions for op in t.ops
        )

    def _line(self, key: Key, order: Order) -> None:
        last = {txn: at for at, (txn, _) in enumerate(order.versions)}
        kept = [version for at, version in enumerate(order.versions) if last[version[0]] == at]
        for at, (txn, _) in enumerate(order.versions):
            following = order.versions[at + 1 : at + 2]
            if following and following[0][0] != txn and last[txn] != at:
                names, twice = (
                    (self._name(txn), self._name(following[0][0])),
                    order.versions[at] in order.versions[at + 1 :],
                )
                text = wrote_again(names[0], render_value(key), names[1], twice=twice)
                self.edges.append((txn, following[0][0], "ww", text))
        self.lines[key] = _Line(
            kept, {txn: at for at, (txn, _) in enumerate(kept)}, not order.partial, order.from_initial
        )
        if order.partial:
            return
        for txn, places in self.writes.get(key, {}).items():
            if txn not in self.fit.effective:
                continue
            if not any(place >= places[-1] for one, place in order.versions if one == txn):
                text = (
                    f"{self._name(txn)} wrote {render_value(key)} (operation {places[-1]}), and the database tells of no such"
                    " version."
                )
                self.faults.append(Fault(_MISMATCH, (txn,), text))

    def told(self) -> Told:
        complete = all(line.complete for line in self.lines.values())
        undecided = ""
        if self.fit.reads and not self.has_lists and complete and self.lines:
            try:
                return self._by_version()
            except Undecidable as reason:
                # What is not about reads is decided all the same.
                undecided = str(reason)
        columns, settled = self._with_outcomes()
        versions: list[list[Place | None]] = [
            [*([None] if line.complete or line.from_initial else []), *line.versions]
            for line in self.lines.values()
            if line.versions
        ]
        # Elements of lists say who appended them, so that nothing is guessed when the search places those that nobody read.
        known = settled and not self.has_lists
        whole = known and all(key in self.lines and self.lines[key].complete for key in self.writes)
        return Told(columns, self.edges, versions, self.faults, undecided, complete=whole)

    def _with_outcomes(self) -> tuple[Columns, bool]:
        """The history in which outcomes that the certificate tells are no longer unknown, and whether none is left."""

        def outcome(txn: int, transaction: Transaction) -> Transaction:
            if transaction.status is not Status.UNKNOWN:
                return transaction
            if txn in self.fit.effective:
                return replace(transaction, status=Status.COMMITTED)
            denied = any(
                line.complete and txn in self.writes.get(key, {}) and txn not in line.at
                for key, line in self.lines.items()
            )
            return replace(transaction, status=Status.ABORTED) if denied else transaction

        changed = tuple(outcome(txn, transaction) for txn, transaction in enumerate(self.history.transactions))
        settled = all(transaction.status is not Status.UNKNOWN for transaction in changed)
        if changed == self.history.transactions:
            return self.columns, settled
        return encode(replace(self.history, transactions=changed), name=self.columns.name), settled

    # Versions told read by read

    def _by_version(self) -> Told:
        transactions = tuple(map(self._transaction, range(len(self.history.transactions))))
        initial: dict[Key, Value] = {}
        for key in {op.key for t in transactions for op in t.ops if isinstance(op, Read | Write)}:
            value = self.history.initial.get(key)
            initial[key] = None if value is None else f"{render_value(value)} at first"
        history = History(transactions, initial)
        versions: list[list[Place | None]] = [[None, *line.versions] for line in self.lines.values() if line.versions]
        moved = [[None if one is None else (one[0], self._moved[one]) for one in order] for order in versions]
        return Told(encode(history), self.edges, moved, self.faults, self._open)

    def _transaction(self, txn: int) -> Transaction:
        transaction = self.history.transactions[txn]
        if txn not in self.fit.effective:
            return replace(transaction, ops=(), status=Status.ABORTED)
        ops: list[Operation] = []
        for index, op in enumerate(transaction.ops):
            if isinstance(op, Scan | Sql):
                raise Undecidable("scans have no meaning beside a certificate over keys")
            if observed(op) is not None:
                ops += self._read((txn, index), op)
            if written(op) is not None:
                self._moved[txn, index] = len(ops)
                ops.append(Write(op.key, self._label(op.key, (txn, index))))
        return replace(transaction, ops=tuple(ops), status=Status.COMMITTED)

    def _read(self, place: Place, op: Read | Write | Append | CompareAndSet) -> list[Operation]:
        (txn, index), key = place, op.key
        seen = observed(op)
        assert seen is not None
        value = seen[1]
        own = [at for at in self.writes.get(key, {}).get(txn, []) if at < index]
        told = self.fit.reads.get(place)
        version = self._by_value(place, key, value, own) if told is None else self._seen(place, key, told, own)
        what = f"{self._name(txn)} read {render_value(key)} = {render_value(value)}"
        if version == _SEVERAL:
            return []
        if version == _NOBODY:
            self._fault(
                "thin-air-read", (txn,), f"{what}, a value that no transaction wrote and that is not the initial one."
            )
            return []
        if told is not None and token(self._value(key, version)) != token(value):
            shown = render_value(self._value(key, version))
            self._fault(_MISMATCH, (txn,), f"{what}, and the version that it saw is {shown}.")
        if version is not None and version[0] == txn:
            if version[1] >= index:
                self._fault("future-read", (txn,), f"{what} before it wrote that value itself.")
            elif version[1] != own[-1]:
                self._fault("not-my-own-write", (txn,), f"{what}, a value of its own that it had already overwritten.")
            return []
        if own:
            self._fault(
                "not-my-own-write", (txn,), f"{what}, although it had written {render_value(key)} itself before."
            )
            return []
        if version is None:
            return [Read(key, self._label(key, None))]
        writer, line = self._name(version[0]), self.lines.get(key)
        if version[0] not in self.fit.effective:
            self._fault("aborted-read", (version[0], txn), f"{what} from {writer}, which was aborted.")
            return []
        installed = line.versions[line.at[version[0]]] if line is not None and version[0] in line.at else None
        if installed is None:
            installed = (version[0], self.writes[key][version[0]][-1])
        if installed != version:
            text = f"{what}, which {writer} wrote but overwrote before it committed."
            self._fault("intermediate-read", (version[0], txn), text)
            return []
        return [Read(key, self._label(key, version))]

    def _seen(self, place: Place, key: Key, told: Seen, own: Sequence[int]) -> Place | None:
        if key in told.told:
            return told.told[key]
        if told.first is None:
            return None
        if own:
            return place[0], own[-1]
        line = self.lines.get(key)
        for txn, index in reversed(line.versions if line is not None else []):
            inside = self.rank.get(txn, len(self.rank)) < told.first and txn not in told.without
            if txn != place[0] and (inside or txn in told.also):
                return txn, index
        return None

    def _by_value(self, place: Place, key: Key, value: Value, own: Sequence[int]) -> Place | None:
        txn = place[0]
        if own and token(self._value(key, (txn, own[-1]))) == token(value):
            return txn, own[-1]
        fits: list[Place | None] = [
            (writer, index)
            for writer, places in self.writes.get(key, {}).items()
            for index in places
            if token(self._value(key, (writer, index))) == token(value)
        ]
        if token(self.history.initial.get(key)) == token(value):
            fits.append(None)
        if not fits:
            return _NOBODY
        # What was never installed explains nothing that something installed does.
        good = [one for one in fits if one is None or (one[0] in self.fit.effective and one[0] != txn)]
        fits = good or fits
        if len(fits) > 1:
            writers = [None if one is None else self.history.transactions[one[0]].id for one in fits]
            what = f"{render_value(key)} = {render_value(value)}"
            self._open = self._open or duplicate(self.history.transactions[txn].id, what, writers)
            return _SEVERAL
        return fits[0]

    def _value(self, key: Key, version: Place | None) -> Value:
        if version is None:
            return self.history.initial.get(key)
        found = written(self.history.transactions[version[0]].ops[version[1]])
        return None if found is None else found[1]

    def _label(self, key: Key, version: Place | None) -> str | None:
        """A value unlike that of every other version of the key."""
        value = self._value(key, version)
        if version is None:
            return None if value is None else f"{render_value(value)} at first"
        return f"{render_value(value)} by operation {version[1]} of {self._name(version[0])}"

    def _fault(self, name: str, positions: tuple[int, ...], text: str) -> None:
        self.faults.append(Fault(name, tuple(dict.fromkeys(positions)), text))

    def _name(self, txn: int) -> str:
        return txn_name(self.history.transactions[txn].id)


_NOBODY: Place = (-1, -1)
_SEVERAL: Place = (-2, -2)
