"""Histories over keys with a certificate.

Where it says only in which order versions were installed, the history stays as it is and the orders go along with it. Where it
also says which version an operation read, every version gets a value of its own, so that equal values are told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from isolde._core import Columns
from isolde.engines.certify.duplicates import duplicate
from isolde.engines.certify.fit import Fitted, Order, Place
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
    Scalar,
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
        self._by_reads: list[tuple[int, int, Kind, str]] = []
        self._open = ""
        """Why a read is open."""
        for key, order in fit.objects.items():
            assert isinstance(key, int | str)
            self._line(key, order)
        self.outcomes = [self._outcome(txn) for txn in range(len(history.transactions))]
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
        undecided = ""
        if self.fit.reads and self.has_lists:
            # Elements say themselves who appended them: what is told of a read is only held against it.
            self.faults += self._lists()
        elif self.fit.reads:
            try:
                return self._by_version()
            except Undecidable as reason:
                # What is not about reads is decided all the same.
                undecided = str(reason)
        columns, settled = self._with_outcomes()
        versions = self._orders()
        # Elements of lists say who appended them, so that nothing is guessed when the search places those that nobody read.
        known = settled and not self.has_lists
        whole = known and all(key in self.lines and self.lines[key].complete for key in self.writes)
        return Told(columns, self.edges, versions, self.faults, undecided, complete=whole)

    def _orders(self) -> list[list[Place | None]]:
        return [
            [*([None] if line.complete or line.from_initial else []), *line.versions]
            for line in self.lines.values()
            if line.versions
        ]

    def _outcome(self, txn: int) -> Status:
        """Whether a transaction took effect, as far as the certificate tells: one that a whole order lacks did not.

        One that wrote nothing is left out: whatever holds with it holds without it.
        """
        status = self.history.transactions[txn].status
        if status is not Status.UNKNOWN:
            return status
        if txn in self.fit.effective:
            return Status.COMMITTED
        denied = not any(txn in writers for writers in self.writes.values()) or any(
            line.complete and txn in self.writes.get(key, {}) and txn not in line.at for key, line in self.lines.items()
        )
        return Status.ABORTED if denied else Status.UNKNOWN

    def _with_outcomes(self) -> tuple[Columns, bool]:
        """The history in which outcomes that the certificate tells are no longer unknown, and whether none is left."""
        changed = tuple(
            transaction if transaction.status is self.outcomes[txn] else replace(transaction, status=self.outcomes[txn])
            for txn, transaction in enumerate(self.history.transactions)
        )
        settled = all(transaction.status is not Status.UNKNOWN for transaction in changed)
        if changed == self.history.transactions:
            return self.columns, settled
        return encode(replace(self.history, transactions=changed), name=self.columns.name), settled

    # Lists

    def _lists(self) -> list[Fault]:
        """Reads of lists that are not the version that they are told to have seen."""
        found = []
        for place in self.fit.reads:
            op = self.history.transactions[place[0]].ops[place[1]]
            if not isinstance(op, Read) or self.outcomes[place[0]] is not Status.COMMITTED:
                continue
            line, writes = self.lines.get(op.key), self.writes.get(op.key, {})
            if line is None or not line.complete:
                continue
            own = [at for at in writes.get(place[0], []) if at < place[1]]
            version = self._seen(place, op.key, op.value, own)
            if version is not None and version[0] not in line.at:
                # By the elements it shows whose it is.
                continue
            expected = self._list(op.key, line, version)
            if expected != tuple(op.value or ()):  # type: ignore[arg-type]
                text = (
                    f"{self._name(place[0])} read {render_value(op.key)} = {render_value(op.value)}, and the version that it saw"
                    f" is {render_value(expected)}."
                )
                found.append(Fault(_MISMATCH, (place[0],), text))
        return found

    def _list(self, key: Key, line: _Line, version: Place | None) -> tuple[Scalar, ...]:
        """The elements of a version: what each transaction up to it appended."""
        elements = list(self.history.initial.get(key) or ())  # type: ignore[arg-type]
        if version is None:
            return tuple(elements)
        for txn, index in line.versions[: line.at[version[0]] + 1]:
            last = version[1] if txn == version[0] else index
            for at in self.writes[key][txn]:
                op = self.history.transactions[txn].ops[at]
                if at <= last and isinstance(op, Append):
                    elements.append(op.element)
        return tuple(elements)

    # Versions told read by read

    def _by_version(self) -> Told:
        transactions = tuple(map(self._transaction, range(len(self.history.transactions))))
        initial: dict[Key, Value] = {}
        for key in {op.key for t in transactions for op in t.ops if isinstance(op, Read | Write)}:
            value = self.history.initial.get(key)
            initial[key] = None if value is None else f"{render_value(value)} at first"
        history = History(transactions, initial)
        moved = [[None if one is None else (one[0], self._moved[one]) for one in order] for order in self._orders()]
        return Told(encode(history), self.edges, moved, self.faults, self._open, by_reads=self._by_reads)

    def _transaction(self, txn: int) -> Transaction:
        transaction, outcome = self.history.transactions[txn], self.outcomes[txn]
        if outcome is Status.ABORTED:
            return replace(transaction, ops=(), status=outcome)
        ops: list[Operation] = []
        for index, op in enumerate(transaction.ops):
            if isinstance(op, Scan | Sql):
                raise Undecidable("scans have no meaning beside a certificate over keys")
            if observed(op) is not None:
                ops += self._read((txn, index), op)
            if written(op) is not None:
                self._moved[txn, index] = len(ops)
                ops.append(Write(op.key, self._label(op.key, (txn, index))))
        return replace(transaction, ops=tuple(ops), status=outcome)

    def _read(self, place: Place, op: Read | Write | Append | CompareAndSet) -> list[Operation]:
        seen = observed(op)
        assert seen is not None
        (txn, index), key, value = place, op.key, seen[1]
        own = [at for at in self.writes.get(key, {}).get(txn, []) if at < index]
        told = self.fit.reads.get(place)
        version = self._by_value(place, key, value, own) if told is None else self._seen(place, key, value, own)
        if version == _SEVERAL:
            return []
        fault = self._wrong(place, key, value, version, own)
        if fault is None:
            mine = version is not None and version[0] == txn
            return [] if mine else [Read(key, self._label(key, version))]
        if self.outcomes[txn] is Status.UNKNOWN:
            # It cannot have taken effect: it reads what nobody wrote.
            return [Read(key, f"nothing that operation {index} of {self._name(txn)} can have read")]
        self.faults.append(fault)
        return []

    def _wrong(self, place: Place, key: Key, value: Value, version: Place | None, own: Sequence[int]) -> Fault | None:
        """What is wrong with reading a value from this version, whatever the order of the transactions."""
        txn, index = place
        what = f"{self._name(txn)} read {render_value(key)} = {render_value(value)}"

        def fault(name: str, text: str, *others: int) -> Fault:
            return Fault(name, tuple(dict.fromkeys((*others, txn))), f"{what}, {text}")

        if version == _NOBODY and place in self.fit.reads:
            return fault(_MISMATCH, "and no version that it could see is that.")
        if version == _NOBODY:
            return fault("thin-air-read", "a value that no transaction wrote and that is not the initial one.")
        if place in self.fit.reads and token(self._value(key, version)) != token(value):
            return fault(_MISMATCH, f"and the version that it saw is {render_value(self._value(key, version))}.")
        if version is not None and version[0] == txn:
            if version[1] >= index:
                return fault("future-read", "before it wrote that value itself.")
            if version[1] != own[-1]:
                return fault("not-my-own-write", "a value of its own that it had already overwritten.")
            return None
        if own:
            return fault("not-my-own-write", f"although it had written {render_value(key)} itself before.")
        if version is None:
            return None
        writer = version[0]
        if self.outcomes[writer] is Status.ABORTED:
            return fault("aborted-read", f"from {self._name(writer)}, which was aborted.", writer)
        if self._last(key, writer) != version:
            text = f"which {self._name(writer)} wrote but overwrote before it committed."
            return fault("intermediate-read", text, writer)
        return None

    def _last(self, key: Key, txn: int) -> Place:
        """The version of a key that a transaction installed."""
        line = self.lines.get(key)
        if line is not None and txn in line.at:
            return line.versions[line.at[txn]]
        return txn, self.writes[key][txn][-1]

    def _seen(self, place: Place, key: Key, value: Value, own: Sequence[int]) -> Place | None:
        """The version of a key in a version set that was told."""
        told = self.fit.reads[place]
        if key in told.told:
            return told.told[key]
        if told.first is None:
            return None
        if own:
            return place[0], own[-1]
        line = self.lines.get(key)
        if line is None or not line.complete:
            return self._among_visible(place, key, value)
        return next((one for one in reversed(line.versions) if one[0] != place[0] and self._sees(place, one[0])), None)

    def _sees(self, place: Place, txn: int) -> bool:
        told = self.fit.reads[place]
        inside = self.rank.get(txn, len(self.rank)) < (told.first or 0) and txn not in told.without
        return inside or txn in told.also

    def _among_visible(self, place: Place, key: Key, value: Value) -> Place | None:
        """The version that was seen where the order is not told as a whole: the one of this value, and others that were visible
        came before it."""
        line = self.lines.get(key)
        listed = {} if line is None else line.at
        visible = [
            txn
            for txn in self.writes.get(key, {})
            if txn != place[0] and self._sees(place, txn) and self.outcomes[txn] is not Status.ABORTED
        ]
        surely = [txn for txn in visible if self.outcomes[txn] is Status.COMMITTED]
        latest = max((listed[txn] for txn in surely if txn in listed), default=-1)
        fits: list[Place | None] = [
            version
            for txn in visible
            if listed.get(txn, latest) >= latest
            and token(self._value(key, version := self._last(key, txn))) == token(value)
        ]
        if not surely and token(self.history.initial.get(key)) == token(value):
            fits.append(None)
        if len(fits) != 1:
            return self._several(place, key, value, fits) if fits else _NOBODY
        found = fits[0]
        if found is not None and self.outcomes[place[0]] is Status.COMMITTED:
            for txn in surely:
                if txn != found[0] and not (txn in listed and found[0] in listed):
                    text = (
                        f"{self._name(place[0])} could see what {self._name(txn)} and {self._name(found[0])} wrote to"
                        f" {render_value(key)}, and saw the latter."
                    )
                    self._by_reads.append((txn, found[0], "ww", text))
        return found

    def _several(self, place: Place, key: Key, value: Value, fits: Sequence[Place | None]) -> Place:
        writers = [None if one is None else self.history.transactions[one[0]].id for one in fits]
        what = f"{render_value(key)} = {render_value(value)}"
        self._open = self._open or duplicate(self.history.transactions[place[0]].id, what, writers)
        return _SEVERAL

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
        good = [one for one in fits if one is None or (self.outcomes[one[0]] is not Status.ABORTED and one[0] != txn)]
        fits = good or fits
        return self._several(place, key, value, fits) if len(fits) > 1 else fits[0]

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

    def _name(self, txn: int) -> str:
        return txn_name(self.history.transactions[txn].id)


_NOBODY: Place = (-1, -1)
_SEVERAL: Place = (-2, -2)
