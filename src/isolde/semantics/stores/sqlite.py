"""SQLite: one writer at a time, and snapshots of the whole database.

In WAL mode a transaction reads the state of its first statement, and readers and the writer do not disturb each other; a
reader that wants to write fails at once if another has written since (SQLITE_BUSY_SNAPSHOT) or is writing (SQLITE_BUSY,
without waiting: it could never go on). With a rollback journal readers hold a shared lock of the database: who commits a
change fails while others read. BEGIN IMMEDIATE, and a first statement that writes, wait for the writer as long as it takes:
the timeout is longer than any other transaction. The PENDING lock, which keeps new readers out while a COMMIT waits, is left
out: the model's COMMIT fails at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from isolde.levels.stores import ChangedRow, ReadLocks
from isolde.semantics.core.evaluate import Environment
from isolde.semantics.core.relations import Query
from isolde.semantics.events.interpreter import Interpreter
from isolde.semantics.stores.evaluation import NOW, returned_by
from isolde.semantics.stores.machine import Execution, Model, Sent, State, Step, Transaction, names_of
from isolde.semantics.stores.requests import Blocked, Failed, Failure, Look, Put, Returned
from isolde.semantics.stores.rows import TransactionId, View
from isolde.semantics.tables.view import Row
from isolde.tx.dialects import Dialect

WRITER = ("writer",)


@dataclass(frozen=True, slots=True)
class BecomeWriter:
    """The one place for a writer. A transaction that has read before may not wait for it."""


class Sqlite(Model):
    """SQLite 3.40 with a journal in ``wal`` or ``delete`` mode."""

    dialect = Dialect.SQLITE
    deadlock_ends = False

    def begin(self, state: State, session: str, level: str = "", *, read_only: bool = False) -> list[Step]:
        """BEGIN IMMEDIATE takes the writer's place, and may wait for it."""
        (step,) = super().begin(state, session, level, read_only=read_only)
        transaction = step.state.open[session]
        if transaction.level.changed_row is not ChangedRow.CURRENT:
            return [step]
        return self.started(step.state, session, Sent(None, ()))

    def execution(self, sent: Sent, transaction: Transaction) -> Execution:  # noqa: ARG002
        return self._run(sent)

    def _run(self, sent: Sent) -> Execution:
        core = sent.core
        if core is None:
            yield BecomeWriter()
            yield Look()
            return Returned()
        if not isinstance(core, Query):
            yield BecomeWriter()
        views = yield Look()
        tables = [_Changing(view) for view in views]
        for table, view in zip(tables, views, strict=True):
            table.ids.next = view.ids.next
        run = Interpreter(self.catalog, tables, lambda: NOW, self.counts_found)
        if isinstance(core, Query):
            return returned_by(
                run, core, Environment(variables=dict(enumerate(sent.values))), tells_cuts=self.tells_cuts
            )
        count, rows = run.run(core, dict(enumerate(sent.values)))
        for position, table in enumerate(tables):
            for number, row in table.changed.items():
                yield Put(position, None if number in table.added else number, row)
        return Returned(names_of(core), tuple(map(tuple, rows)), count)

    def answer(self, state: State, transaction: Transaction, request: Any) -> Any:
        match request:
            case BecomeWriter():
                return self._become_writer(state, transaction)
            case Look():
                if transaction.snapshot is None:
                    transaction = replace(transaction, snapshot=state.committed)
                    state.open[transaction.id.session] = transaction
                assert transaction.snapshot is not None
                return self.views(transaction.snapshot, transaction.own)
            case Put():
                return self.write(state, transaction, request.table, request.number, request.row)
        raise AssertionError(request)

    def _become_writer(self, state: State, transaction: Transaction) -> Blocked | None:
        holder = self._writer(state)
        if holder == transaction.id:
            return None
        if transaction.snapshot is not None:
            # It has read: to wait for the writer would be in vain, since its snapshot would be too old afterwards.
            if holder is not None:
                raise Failure("lock-timeout", "database is locked")
            if transaction.snapshot != state.committed:
                raise Failure("lock-timeout", "database is locked (SQLITE_BUSY_SNAPSHOT)")
        if holder is not None:
            return Blocked(frozenset({holder}))
        state.hold(WRITER, transaction.id, "writer")
        return None

    @staticmethod
    def _writer(state: State) -> TransactionId | None:
        return next(iter(state.locks.get(WRITER, {})), None)

    def blocked_by(self, state: State, transaction: Transaction, request: Any) -> frozenset[TransactionId]:
        holder = self._writer(state)
        waits = isinstance(request, BecomeWriter) and holder not in (None, transaction.id)
        if not waits or transaction.snapshot is not None:
            return frozenset()
        assert holder is not None
        return frozenset({holder})

    def commit(self, state: State, session: str) -> list[Step]:
        transaction = state.open.get(session)
        if transaction is not None and transaction.level.read_locks is ReadLocks.DATABASE and transaction.writes:
            readers = [one for one in state.open.values() if one.id != transaction.id and one.snapshot is not None]
            if readers:
                # The transaction stays open, and may try again.
                return [Step(state, ((session, Failed("lock-timeout", "database is locked")),))]
        return super().commit(state, session)

    def failed(self, state: State, transaction: Transaction) -> None:
        """Only the statement is taken back."""
        state.open[transaction.id.session] = replace(transaction, own=transaction.before)

    def victims(self, state: State, circle: list[str]) -> list[str]:  # noqa: ARG002
        return circle[-1:]


class _Changing:
    """A ``TableView`` that keeps what a statement changes, for the statement to hand it on."""

    def __init__(self, view: View) -> None:
        self.info, self.ids = view.info, view.ids
        self._view = view
        self.changed: dict[int, Row | None] = {}
        self.added: set[int] = set()

    def all(self) -> list[tuple[int, Row]]:
        rows = dict(self._view.all())
        rows.update({number: row for number, row in self.changed.items() if row is not None})
        return sorted((number, row) for number, row in rows.items() if self.changed.get(number, row) is not None)

    def by_key(self, unique: int, key: Any) -> list[tuple[int, Row]]:
        key_of = self.info.unique_keys[unique]
        return [] if key is None else [(number, row) for number, row in self.all() if key_of(row) == key]

    def by_equal(self, columns: tuple[int, ...], key: Any) -> list[tuple[int, Row]]:
        key_of = self._view.key_of(columns)
        return [] if key is None else [(number, row) for number, row in self.all() if key_of(row) == key]

    def put(self, number: int | None, row: Row | None, same_keys: bool = False) -> int:  # noqa: ARG002
        if number is None:
            # A number of its own until the transaction gives it one.
            number = -1 - len(self.added)
            self.added.add(number)
        self.changed[number] = row
        return number

    def restore(self, number: int, before: Any) -> None:  # noqa: ARG002
        raise AssertionError("a statement that fails hands nothing on")
