"""What a program over a table can do, by brute force: every statement reads a version of every row key, one after the other.

A row is a key; its value is the row, or ``None`` where it is absent. All executions that run one transaction at a time are
enumerated, in every order of the sessions; each statement is given, for every row, the version of any transaction that has
committed, and runs on a store with just those rows. At the end every statement has also read the initial version of the
rows that only later transactions wrote. The axioms are those of ``explorations``; nothing is shared with the explorer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isolde.errors import ExecutionError
from isolde.semantics.concrete import Store
from isolde.semantics.tables.recording import Recorder, RecordingView
from isolde.tx.dialects import Dialect
from isolde.tx.sql import schema, statement

from .explorations import INITIAL, History, Log

DDL = "CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT)"
Row = tuple[Any, ...]
Answer = tuple[Any, ...]
"""What a statement gave: its rows as a bag and its count, or the kind of its error."""
Outcome = tuple[tuple[str, tuple[Answer, ...]], ...]
"""Of each transaction: how it ended, and what its statements gave."""
Body = Callable[["Handle"], object]


class _Needs(BaseException):
    """The next statement has to be given versions."""


class Aborted(BaseException):
    """The body gives up."""


@dataclass(frozen=True)
class Read:
    """One statement's reads: the rows of others, and who wrote them."""

    rows: Mapping[Any, tuple[int, Row | None]]


class Handle:
    """What a body is handed; it goes on as long as versions were chosen for its statements."""

    def __init__(self, store: Store, chosen: Sequence[Read]) -> None:
        self._store, self._chosen = store, chosen
        self.own: dict[Any, Row | None] = {}
        self.hidden: list[frozenset[Any]] = []
        """Of each statement, the rows that it did not read, because they were the transaction's own."""
        self.answers: list[Answer] = []
        self.failed = False

    def run(self, sql: str) -> Answer:
        if self.failed:
            raise Aborted
        if len(self.answers) == len(self._chosen):
            raise _Needs
        seen = {key: row for key, (_, row) in self._chosen[len(self.answers)].rows.items()}
        self.hidden.append(frozenset(self.own))
        rows = [row for row in {**seen, **self.own}.values() if row is not None]
        answer, written = executed(self._store, rows, sql)
        self.own |= written
        self.answers.append(answer)
        if answer[0] == "error":
            self.failed = True
            raise Aborted
        return answer


def executed(base: Store, rows: Sequence[Row], sql: str) -> tuple[Answer, dict[Any, Row | None]]:
    """A statement on a store with these rows: what it gave, and the rows that it wrote, by key."""
    store = base.copy()
    table = store.writable(0)
    for row in sorted(rows):
        table.put(None, row)
    store.undo.clear()
    recorder = Recorder()
    watched = store.over([RecordingView(table, recorder)], store.undo)
    transaction = watched.transaction()
    try:
        result = transaction.run(statement(sql, Dialect.POSTGRESQL))
    except ExecutionError as error:
        return ("error", error.kind), {}
    written: dict[Any, Row | None] = {}
    for _, _, before, after in recorder.written:
        if before is not None and (after is None or before[0] != after[0]):
            written[before[0]] = None
        if after is not None:
            written[after[0]] = after
    return (tuple(sorted(map(tuple, result.rows), key=repr)), result.count), written


@dataclass(frozen=True)
class _Done:
    reads: tuple[Read, ...]
    hidden: tuple[frozenset[Any], ...]
    written: Mapping[Any, Row | None]
    answers: tuple[Answer, ...]
    end: str


def histories(
    sessions: Sequence[Sequence[Body]], initial: Mapping[Any, Row]
) -> Iterator[tuple[History, Outcome, Mapping[int, Mapping[Any, Row | None]]]]:
    """Every complete history with acyclic so ∪ wr, what its statements gave, and what each transaction wrote."""
    bodies = [body for session in sessions for body in session]
    session = tuple(number for number, listed in enumerate(sessions) for _ in listed)
    base = Store(schema(DDL, Dialect.POSTGRESQL), Dialect.POSTGRESQL)
    met: set[Any] = set()
    # By the transactions that ran and what they read: the order in which they ran is of no matter.
    visited: set[Any] = set()

    def go(done: Mapping[int, _Done]) -> Iterator[Any]:
        mark = frozenset((t, one.reads_mark) for t, one in ((t, _marked(one)) for t, one in done.items()))
        if mark in visited:
            return
        visited.add(mark)
        if len(done) == len(bodies):
            found = _history(done, session, initial)
            if found[0].sources not in met:
                met.add(found[0].sources)
                yield found
            return
        for t in range(len(bodies)):
            earlier = [other for other in range(t) if session[other] == session[t]]
            if t not in done and all(other in done for other in earlier):
                for one in _runs(base, bodies[t], done, initial):
                    yield from go({**done, t: one})

    yield from go({})


@dataclass(frozen=True)
class _Marked:
    reads_mark: Any


def _marked(one: _Done) -> _Marked:
    return _Marked(tuple(tuple((key, source) for key, (source, _) in read.rows.items()) for read in one.reads))


def _runs(base: Store, body: Body, done: Mapping[int, _Done], initial: Mapping[Any, Row]) -> Iterator[_Done]:
    versions: dict[Any, list[tuple[int, Row | None]]] = {key: [(INITIAL, row)] for key, row in initial.items()}
    for t, one in done.items():
        for key, row in one.written.items():
            versions.setdefault(key, [(INITIAL, None)]).append((t, row))

    def go(chosen: tuple[Read, ...]) -> Iterator[_Done]:
        handle = Handle(base, chosen)
        end = "commit"
        try:
            body(handle)
        except _Needs:
            keys = sorted(key for key in versions if key not in handle.own)
            for picked in itertools.product(*(versions[key] for key in keys)):
                yield from go((*chosen, Read(dict(zip(keys, picked, strict=True)))))
            return
        except Aborted:
            end = "abort"
        written = handle.own if end == "commit" else {}
        yield _Done(chosen, tuple(handle.hidden), dict(written), tuple(handle.answers), end)

    yield from go(())


def _history(done: Mapping[int, _Done], session: tuple[int, ...], initial: Mapping[Any, Row]) -> Any:
    universe = sorted({*initial, *(key for one in done.values() for key in one.written)})
    logs = {}
    for t, one in done.items():
        reads = []
        for read, hidden in zip(one.reads, one.hidden, strict=True):
            for key in universe:
                if key not in hidden:
                    reads.append((key, read.rows[key][0] if key in read.rows else INITIAL))
        logs[t] = Log(tuple(reads), one.written, len(reads) + len(one.written) + 2)
    outcome = tuple((done[t].end, done[t].answers) for t in sorted(done))
    return History(logs, session), outcome, {t: one.written for t, one in done.items()}
