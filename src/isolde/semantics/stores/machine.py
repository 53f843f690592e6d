"""The machine that all store models share: transactions, locks, waits, deadlocks, and who goes on when somebody ends.

A state is copied before it is changed: what a step leads to is another state, or several where the database may choose (which
waiter dies in a deadlock, which of those that were set free at once comes first). Two states with the same ``key`` go on in
the same ways.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from isolde.errors import ExecutionError, UsageError
from isolde.levels.stores import StoreLevel, store_level, store_settings
from isolde.semantics.concrete import Store
from isolde.semantics.core.elaborate_statements import columns_of, elaborated
from isolde.semantics.core.given import VALUES, given_rows
from isolde.semantics.core.relations import Query
from isolde.semantics.core.relations import Statement as CoreStatement
from isolde.semantics.core.scope import Variables
from isolde.semantics.stores.requests import Blocked, Ended, Failed, Failure, Place, Result, Returned, Waits
from isolde.semantics.stores.rows import Changes, Rows, TransactionId, Version, View
from isolde.tx.dialects import Dialect
from isolde.tx.queries import Lock
from isolde.tx.schema import Schema
from isolde.tx.sql import statement as read_statement
from isolde.tx.statements import Statement

Execution = Generator[Any, Any, Returned]
"""A statement that runs: it yields requests, and is sent their answers."""
FIRST_NUMBER = 10**15
NUMBERS = 10**6
"""Numbers of rows that transactions insert begin at the first, so many for each transaction of a session: apart, so that they do
not depend on the order.
"""


@dataclass(frozen=True, slots=True)
class Sent:
    """A statement as it was sent, in the typed core; of equal ones there is one. ``None``: the beginning of a transaction."""

    core: CoreStatement | None
    values: tuple[Any, ...]

    def key(self) -> Hashable:
        return id(self.core), tuple(map(type, self.values)), self.values


@dataclass(frozen=True, slots=True)
class Running:
    """A statement that waits: the answers that it got so far, and the request that nobody has answered yet."""

    sent: Sent
    answers: tuple[Any, ...]
    request: Any


@dataclass(frozen=True, slots=True)
class Transaction:
    """An open transaction. ``own``: what it changed, by table. ``before``: the same before its running statement."""

    id: TransactionId
    level: StoreLevel
    own: tuple[Changes, ...]
    before: tuple[Changes, ...]
    read_only: bool = False
    autocommit: bool = False
    failed: bool = False
    snapshot: tuple[Rows, ...] | None = None
    inserted: int = 0
    changed: int = 0
    """How many rows it changed, each time counted."""
    changed_before: int = 0
    """The same before its running statement."""
    running: Running | None = None

    def key(self) -> Hashable:
        running = self.running
        return (
            self.id,
            self.level,
            tuple(frozenset(changes.items()) for changes in self.own),
            self.read_only,
            self.autocommit,
            self.failed,
            self.snapshot,
            self.inserted,
            self.changed,
            running and (running.sent.key(), running.answers, running.request),
        )

    @property
    def writes(self) -> bool:
        return any(self.own)


@dataclass(slots=True)
class State:
    """A database in the middle of things. ``waiting``: the sessions that wait, in the order in which they began to.

    ``extra`` is a store's own (the conflicts of serializable transactions), a value that is never changed in place.
    """

    committed: tuple[Rows, ...]
    ids: tuple[int, ...]
    open: dict[str, Transaction] = field(default_factory=dict)
    begun: dict[str, int] = field(default_factory=dict)
    locks: dict[Place, dict[TransactionId, Any]] = field(default_factory=dict)
    waiting: tuple[str, ...] = ()
    extra: Any = None

    def copy(self) -> State:
        # What is in ``locks`` is copied when it is changed.
        return State(
            self.committed, self.ids, dict(self.open), dict(self.begun), dict(self.locks), self.waiting, self.extra
        )

    def key(self) -> Hashable:
        return (
            self.committed,
            self.ids,
            frozenset((session, transaction.key()) for session, transaction in self.open.items()),
            frozenset(self.begun.items()),
            frozenset((place, frozenset(held.items())) for place, held in self.locks.items()),
            self.waiting,
            self.extra,
        )

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """The committed rows by table, in the order of their insertion."""
        return {
            table.info.table.name: [table.versions[number].row for number in sorted(table.versions)]
            for table in self.committed
        }

    def transaction(self, identity: TransactionId) -> Transaction | None:
        found = self.open.get(identity.session)
        return found if found is not None and found.id == identity else None

    def hold(self, place: Place, holder: TransactionId, mode: Any) -> None:
        self.locks[place] = {**self.locks.get(place, {}), holder: mode}

    def release(self, holder: TransactionId) -> None:
        """All locks of a transaction."""
        for place in [place for place, held in self.locks.items() if holder in held]:
            left = {one: mode for one, mode in self.locks[place].items() if one != holder}
            if left:
                self.locks[place] = left
            else:
                del self.locks[place]


@dataclass(frozen=True, slots=True)
class Step:
    """One way in which a step goes on: the state after it, and what sessions got, in the order in which they got it."""

    state: State
    results: tuple[tuple[str, Result], ...]

    def result(self, session: str) -> Result:
        """What a session got last."""
        return next(result for name, result in reversed(self.results) if name == session)


class Model(ABC):
    """A database with its own rules. ``counts_found``: an UPDATE counts the rows that it found also in MySQL's dialect.

    Every step (``begin``, ``submit``, ``commit``, ``rollback``) takes a state and gives the states that it may lead to.
    """

    dialect: Dialect
    sets_level_of_open = False
    """Whether SET TRANSACTION is about the transaction that is open; else about the next one."""

    def __init__(
        self,
        schema: Schema,
        rows: Mapping[str, Iterable[Sequence[Any]]],
        settings: Mapping[str, str] | None = None,
        *,
        store: str,
        counts_found: bool = False,
    ) -> None:
        self.store, self.counts_found = store, counts_found
        self.tells_cuts = False
        """Whether a query may return a ``Cut``, for somebody who judges answers; else one is refused."""
        self.settings = store_settings(store, settings or {})
        self.concrete = Store(schema, self.dialect)
        for table, given in rows.items():
            self.concrete.load(table, given_rows(self.concrete.catalog, table, given))
        self.catalog = self.concrete.catalog
        self._sessions: dict[str, int] = {}
        self._cores: dict[Hashable, CoreStatement] = {}
        self._nodes: list[Statement] = []
        self.prepared()

    def prepared(self) -> None:  # noqa: B027
        """The tables are there; some stores make something of them."""

    # Steps

    def initial(self) -> State:
        """The first rows, and nobody there."""
        tables = self.concrete.tables
        return State(
            committed=tuple(
                Rows(table.info, self.catalog, {number: Version(row, None) for number, row in table.all()})
                for table in tables
            ),
            ids=tuple(table.ids.next for table in tables),
        )

    def begin(self, state: State, session: str, level: str = "", *, read_only: bool = False) -> list[Step]:
        """Opens a transaction at a level of this database, by default at the one that it has by itself."""
        if session in state.open:
            raise UsageError(f"{session} has a transaction already; commit it or roll it back first")
        state = state.copy()
        self._open(state, session, level, read_only=read_only, autocommit=False)
        return [Step(state, ((session, Returned()),))]

    def submit(
        self,
        state: State,
        session: str,
        statement: str | Statement,
        parameters: Mapping[str, Any] | None = None,
        level: str = "",
    ) -> list[Step]:
        """Sends a statement. Without a transaction it is one by itself, at the level that is named."""
        state, sent = state.copy(), self.sent(statement, parameters or {})
        if session not in state.open:
            self._open(state, session, level, read_only=False, autocommit=True)
        return self.started(state, session, sent)

    def started(self, state: State, session: str, sent: Sent) -> list[Step]:
        """The session's transaction runs a statement; the state is the caller's own to change."""
        transaction = state.open[session]
        if transaction.running is not None:
            raise UsageError(f"{session} waits; it can send nothing before its statement has returned")
        if transaction.failed:
            return [Step(state, ((session, Failed("transaction-failed", "the transaction has failed")),))]
        if transaction.read_only and sent.core is not None and self.writes(sent.core):
            state.open[session] = replace(transaction, before=transaction.own, changed_before=transaction.changed)
            refusal = Failure("other", "it cannot be done in a read-only transaction")
            return self._settled(state, ((session, self.fail(state, session, refusal)),))
        state.open[session] = replace(
            transaction, before=transaction.own, changed_before=transaction.changed, running=Running(sent, (), None)
        )
        return self._settled(state, (self._advanced(state, session),))

    def commit(self, state: State, session: str) -> list[Step]:
        """COMMIT; what comes after it begins another transaction."""
        state = state.copy()
        transaction = self._idle(state, session)
        if transaction is None:
            return [Step(state, ((session, Ended(True)),))]
        if transaction.failed:
            del state.open[session]
            return self._settled(state, ((session, Ended(False)),))
        try:
            self.committing(state, transaction)
        except Failure as failure:
            self._rolled_back(state, transaction)
            return self._settled(state, ((session, Failed(failure.word, failure.message, ended=True)),))
        self._committed(state, transaction)
        return self._settled(state, ((session, Ended(True)),))

    def rollback(self, state: State, session: str) -> list[Step]:
        state = state.copy()
        transaction = self._idle(state, session)
        if transaction is not None:
            self._rolled_back(state, transaction)
        return self._settled(state, ((session, Ended(False)),))

    def _idle(self, state: State, session: str) -> Transaction | None:
        transaction = state.open.get(session)
        if transaction is not None and transaction.running is not None:
            raise UsageError(f"{session} waits; it can end nothing before its statement has returned")
        return transaction

    def _open(self, state: State, session: str, level: str, *, read_only: bool, autocommit: bool) -> None:
        number = state.begun.get(session, 0)
        state.begun[session] = number + 1
        nothing: tuple[Changes, ...] = ({},) * len(state.committed)
        found = store_level(self.store, level, self.settings)
        state.open[session] = Transaction(
            TransactionId(session, number), found, nothing, nothing, read_only=read_only, autocommit=autocommit
        )

    # Statements

    def sent(self, statement: str | Statement, parameters: Mapping[str, Any]) -> Sent:
        """A statement in the typed core with its values; read once for the types of its parameters."""
        rules = self.catalog.rules
        given = rules.sent
        for name, value in parameters.items():
            if not isinstance(value, VALUES):
                raise UsageError(f"the parameter {name} is {value!r}, which is no value of SQL")
        values = tuple(given[type(value)](value) if type(value) in given else value for value in parameters.values())
        types = self.concrete.compiled.types(values)
        key = (statement if isinstance(statement, str) else id(statement), tuple(parameters), types)
        core = self._cores.get(key)
        if core is None:
            node = _read(statement, self.dialect) if isinstance(statement, str) else statement
            core = elaborated(self.catalog, node, Variables.of(dict(zip(parameters, types, strict=True))))
            self._cores[key] = core
            # It is found by its identity, and must not make room for another.
            self._nodes.append(node)
        return Sent(core, values)

    def _advanced(self, state: State, session: str) -> tuple[str, Result]:
        """Runs the statement of a session as far as it goes."""
        transaction = state.open[session]
        running = transaction.running
        assert running is not None
        execution = self.execution(running.sent, transaction)
        answers = list(running.answers)
        try:
            request = next(execution)
            for answer in answers:
                request = execution.send(answer)
            while True:
                answer = self.answer(state, state.open[session], request)
                if isinstance(answer, Blocked):
                    now = replace(state.open[session], running=Running(running.sent, tuple(answers), request))
                    state.open[session] = now
                    if session not in state.waiting:
                        state.waiting = (*state.waiting, session)
                    return session, Waits(tuple(sorted(one.session for one in answer.by)))
                _leave_queue(state, session)
                answers.append(answer)
                request = execution.send(answer)
        except StopIteration as stop:
            result: Returned = stop.value
            return session, self._finished(state, session, result)
        except Failure as failure:
            return session, self.fail(state, session, failure)
        except ExecutionError as error:
            if error.is_mistake:
                raise
            return session, self.fail(state, session, Failure(error.word, error.reason))

    def _finished(self, state: State, session: str, result: Returned) -> Result:
        transaction = replace(state.open[session], running=None)
        state.open[session] = transaction
        if transaction.autocommit:
            try:
                self.committing(state, transaction)
            except Failure as failure:
                self._rolled_back(state, transaction)
                return Failed(failure.word, failure.message, ended=True)
            self._committed(state, transaction)
        return result

    def fail(self, state: State, session: str, failure: Failure) -> Failed:
        """Ends the running statement of a session in an error."""
        _leave_queue(state, session)
        transaction = replace(state.open[session], running=None)
        state.open[session] = transaction
        if failure.ends or transaction.autocommit:
            self._rolled_back(state, transaction)
        else:
            self.failed(state, transaction)
        return Failed(failure.word, failure.message, ended=failure.ends)

    # Ends

    def _committed(self, state: State, transaction: Transaction) -> None:
        state.committed = tuple(
            rows.changed(changes) if changes else rows
            for rows, changes in zip(state.committed, transaction.own, strict=True)
        )
        self.ended(state, transaction, committed=True)
        self._gone(state, transaction)

    def _rolled_back(self, state: State, transaction: Transaction) -> None:
        if not transaction.failed:
            self.ended(state, transaction, committed=False)
        self._gone(state, transaction)

    def _gone(self, state: State, transaction: Transaction) -> None:
        state.release(transaction.id)
        del state.open[transaction.id.session]

    # Waits

    def _settled(self, state: State, results: tuple[tuple[str, Result], ...]) -> list[Step]:
        """All ways in which those go on who can, until nobody can and no circle is left."""
        found: list[Step] = []
        self._settle(state, results, found)
        if len(found) == 1:
            return found
        return list({(step.state.key(), step.results): step for step in reversed(found)}.values())[::-1]

    def _settle(self, state: State, results: tuple[tuple[str, Result], ...], found: list[Step]) -> None:
        ready = [session for session in state.waiting if not self.blockers(state, session)]
        if ready:
            self.grant(state, ready)
            for session in ready:
                after = state.copy() if len(ready) > 1 else state
                self._settle(after, self._noted(results, self._advanced(after, session)), found)
            return
        circle = self._circle(state)
        if circle:
            victims = self.victims(state, circle)
            for session in victims:
                after = state.copy() if len(victims) > 1 else state
                failure = Failure("deadlock", "deadlock detected", ends=self.deadlock_ends)
                self._settle(after, self._noted(results, (session, self.fail(after, session, failure))), found)
            return
        found.append(Step(state, results))

    @staticmethod
    def _noted(results: tuple[tuple[str, Result], ...], result: tuple[str, Result]) -> tuple[tuple[str, Result], ...]:
        """A session that waits on, for others now, has got nothing new, except that its last answer is the last one."""
        if isinstance(result[1], Waits):
            return tuple(one for one in results if one[0] != result[0] or not isinstance(one[1], Waits)) + (
                (result,) if any(one[0] == result[0] for one in results) else ()
            )
        return (*(one for one in results if one[0] != result[0] or not isinstance(one[1], Waits)), result)

    def blockers(self, state: State, session: str) -> frozenset[TransactionId]:
        """The transactions that the waiting statement of a session waits for; none: it can go on."""
        transaction = state.open[session]
        assert transaction.running is not None
        return self.blocked_by(state, transaction, transaction.running.request)

    def _circle(self, state: State) -> list[str]:
        """Sessions that wait for each other, in the order in which they began to wait; none if there is no such circle."""
        edges = {
            session: {one.session for one in self.blockers(state, session) if one.session in state.waiting}
            for session in state.waiting
        }
        for start in state.waiting:
            seen: set[str] = set()
            frontier = set(edges[start])
            while frontier:
                one = frontier.pop()
                if one not in seen:
                    seen.add(one)
                    frontier |= edges[one]
            if start in seen:
                back = {one for one in seen if start in _reached(edges, one)}
                return [session for session in state.waiting if session in back]
        return []

    # What a store says

    deadlock_ends: bool
    """Whether the victim of a deadlock has no transaction any more."""

    @abstractmethod
    def execution(self, sent: Sent, transaction: Transaction) -> Execution:
        """The statement as a generator of requests. It may depend on the transaction's level, and on nothing else of it."""

    @abstractmethod
    def answer(self, state: State, transaction: Transaction, request: Any) -> Any:
        """Grants a request (changing the state), or ``Blocked``, or a ``Failure``."""

    @abstractmethod
    def blocked_by(self, state: State, transaction: Transaction, request: Any) -> frozenset[TransactionId]:
        """Whom a request waits for, or would wait for. Changes nothing."""

    @abstractmethod
    def failed(self, state: State, transaction: Transaction) -> None:
        """A statement of the transaction failed, and the transaction goes on, or waits to be rolled back."""

    @abstractmethod
    def victims(self, state: State, circle: list[str]) -> list[str]:
        """Which of the sessions in a deadlock may be the one to fail."""

    def writes(self, core: CoreStatement) -> bool:
        """Whether a read-only transaction refuses a statement: a change, and a query that locks as a change does."""
        return not isinstance(core, Query) or core.lock is Lock.UPDATE

    def grant(self, state: State, ready: list[str]) -> None:  # noqa: B027
        """Those who can go on get what they wait for at once, before any of them runs, where a store does it so."""

    def committing(self, state: State, transaction: Transaction) -> None:  # noqa: B027
        """Before a commit; may raise a ``Failure``. Most stores have nothing to say."""

    def ended(self, state: State, transaction: Transaction, *, committed: bool) -> None:  # noqa: B027
        """After a commit or a rollback. Most stores have nothing to do."""

    # For stores

    def views(self, base: tuple[Rows, ...], over: Sequence[Changes]) -> tuple[View, ...]:
        return tuple(View(rows, changes, self.catalog) for rows, changes in zip(base, over, strict=True))

    def write(self, state: State, transaction: Transaction, table: int, number: int | None, row: Any) -> int:
        """Puts a row into the transaction's own changes; its number."""
        inserted = transaction.inserted
        if number is None:
            session = self._sessions.setdefault(transaction.id.session, len(self._sessions))
            number = FIRST_NUMBER * (session + 1) + transaction.id.number * NUMBERS + inserted
            inserted += 1
        changes = {**transaction.own[table], number: None if row is None else Version(row, transaction.id)}
        own = (*transaction.own[:table], changes, *transaction.own[table + 1 :])
        state.open[transaction.id.session] = replace(
            transaction, own=own, inserted=inserted, changed=transaction.changed + 1
        )
        return number

    def draw(self, state: State, table: int, count: int, beyond: int | None) -> int:
        first = state.ids[table]
        following = first + count if beyond is None else max(first, beyond + 1)
        state.ids = (*state.ids[:table], following, *state.ids[table + 1 :])
        return first

    @staticmethod
    def earlier_waiters(state: State, session: str) -> list[Transaction]:
        """Those who began to wait before the session did; all, if it does not wait."""
        before = state.waiting[: state.waiting.index(session)] if session in state.waiting else state.waiting
        return [state.open[one] for one in before]


def _reached(edges: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    frontier = [start]
    while frontier:
        for one in edges[frontier.pop()]:
            if one not in seen:
                seen.add(one)
                frontier.append(one)
    return seen


def _leave_queue(state: State, session: str) -> None:
    if session in state.waiting:
        state.waiting = tuple(one for one in state.waiting if one != session)


@lru_cache(maxsize=4096)
def _read(sql: str, dialect: Dialect) -> Statement:
    return read_statement(sql, dialect)


def names_of(core: CoreStatement) -> tuple[str, ...]:
    return tuple(name for name, _ in columns_of(core))


def is_ordered(core: CoreStatement) -> bool:
    return isinstance(core, Query) and bool(core.order)
