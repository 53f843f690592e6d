"""All interleavings of a program's statements on a store model: what every statement returned, who committed, the final rows.

States that go on in the same ways are visited once: a state is the database with everything that decides what comes next (locks,
who waits in which order, snapshots, conflicts of serializable transactions, also of committed ones) and, for each session, the
answers that its bodies have got. Nothing else is left out, so that all outcomes are found. BEGIN does nothing that anybody could
see, and comes with the first statement. Bodies are functions of their answers: they are run again along the answers, once for
each list of them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

from isolde.engines.explore.elsewhere import refuse_other_statements
from isolde.engines.explore.invariants import holds, loaded_store
from isolde.engines.explore.program import Call, Program, first_rows
from isolde.engines.explore.store_bodies import RETRYABLE, Asked, StoreBodies, mark
from isolde.errors import UsageError
from isolde.levels.stores import store_level
from isolde.semantics.concrete import Store
from isolde.semantics.stores import Ended, Failed, Model, Returned, State, Step, Waits, store_model
from isolde.tx.dialects import Dialect
from isolde.tx.python.handle import Row
from isolde.tx.sql import statement as read_statement
from isolde.tx.statements import Statement

STATES_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Sent:
    """One step of a schedule: what a session sent, and what sessions got because of it (``Waits`` for one that waits)."""

    session: int
    sql: str
    parameters: tuple[tuple[str, Any], ...]
    results: tuple[tuple[int, Any], ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a program did: for each session its transactions, each with what its statements returned and whether it committed;
    and the final rows, by table, in an order of their own.
    """

    transactions: tuple[tuple[tuple[Any, ...], ...], ...]
    rows: tuple[tuple[str, tuple[Any, ...]], ...]

    def errors(self) -> set[str]:
        """The words of the errors that statements and commits ended in."""
        found: set[str] = set()
        for session in self.transactions:
            for answers, end in session:
                found |= {answer.word for answer in answers if isinstance(answer, Failed)}
                found |= {end} - {"committed", "rolled back"}
        return found


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that does not hold, and the shortest schedule that was found to break it."""

    name: str
    schedule: tuple[Sent, ...]
    state: Mapping[str, list[tuple[Any, ...]]]
    after_commit: bool = False


@dataclass(slots=True)
class Explored:
    """What an exploration found. ``complete``: nothing was left out for want of budget."""

    outcomes: dict[Outcome, tuple[Sent, ...]]
    schedules: int
    states: int
    complete: bool
    interrupted: bool = False
    violations: dict[str, Violation] = field(default_factory=dict)
    aborted: dict[str, int] = field(default_factory=dict)
    """How many outcomes have an error in them, by its word."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a session is: which call, and what its statements got so far; what its calls before did."""

    call: int = 0
    answers: tuple[Any, ...] = ()
    done: tuple[Any, ...] = ()
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class _Node:
    state: State
    places: tuple[_Place, ...]
    parent: Hashable | None
    step: Sent | None
    depth: int


class StoreExploration:
    """A program on a model. ``isolation``: the level of all transactions, ``levels`` of those by name.

    ``retries``: how many times a transaction that the database aborted is run again.
    """

    def __init__(
        self,
        program: Program,
        store: str,
        isolation: str = "",
        levels: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        *,
        retries: int = 0,
    ) -> None:
        if not program.over_tables:
            raise UsageError("a store model runs SQL; give the program tables (CREATE TABLE texts) or an application")
        self.program, self.retries = program, retries
        self.model: Model = store_model(store, program.schema, first_rows(program), settings, counts_found=True)
        named = dict(levels or {})
        unknown = set(named) - {call.name for call in program.calls}
        if unknown:
            raise UsageError(f"levels name {', '.join(sorted(unknown))}, which no session calls")
        self._levels = {call.number: named.get(call.name, isolation) for call in program.calls}
        for level in self._levels.values():
            store_level(store, level, settings)
        sessions: dict[int, list[Call]] = {}
        for call in program.calls:
            sessions.setdefault(call.session, []).append(call)
        self.sessions = [sessions[session] for session in sorted(sessions)]
        self._invariants = program.invariants()
        self.bodies = StoreBodies()
        self._judged: dict[Hashable, tuple[str, ...]] = {}

    # Steps

    def start(self) -> tuple[State, tuple[_Place, ...]]:
        return self.model.initial(), tuple(_Place() for _ in self.sessions)

    def steps(self, state: State, places: tuple[_Place, ...]) -> list[tuple[State, tuple[_Place, ...], Sent]]:
        """All that can happen next: each session that does not wait sends what its body does next."""
        found: list[tuple[State, tuple[_Place, ...], Sent]] = []
        for session, place in enumerate(places):
            if place.call == len(self.sessions[session]) or str(session) in state.waiting:
                continue
            call = self.sessions[session][place.call]
            asked = self.bodies.asked(call, place.answers)
            for step in self._sent(state, session, call, asked):
                after, results = self._answered(places, step)
                found.append((step.state, after, Sent(session, asked.text, asked.parameters, results)))
        return found

    def _sent(self, state: State, session: int, call: Call, asked: Asked) -> list[Step]:
        name, model = str(session), self.model
        if asked.end == "commit":
            return model.commit(state, name)
        if asked.end == "abort":
            return model.rollback(state, name)
        if name not in state.open:
            (begun,) = model.begin(state, name, self._levels[call.number])
            if name in begun.state.waiting or isinstance(begun.result(name), Failed):
                return [begun]
            state = begun.state
        # What was written for one database means the same on another, as far as the language goes.
        spoken = getattr(call.function, "dialect", self.model.dialect)
        return model.submit(state, name, _read(asked.sql, spoken), dict(asked.parameters))

    def _answered(
        self, places: tuple[_Place, ...], step: Step
    ) -> tuple[tuple[_Place, ...], tuple[tuple[int, Any], ...]]:
        after = list(places)
        for name, result in step.results:
            session = int(name)
            place = after[session]
            match result:
                case Waits():
                    continue
                case Ended(committed):
                    after[session] = self._over(place, "committed" if committed else "rolled back")
                case Failed(ended=True):
                    after[session] = self._over(place, result)
                case Returned() | Failed():
                    after[session] = _Place(place.call, (*place.answers, result), place.done, place.attempt)
        return tuple(after), tuple((int(name), result) for name, result in step.results)

    def _over(self, place: _Place, end: Any) -> _Place:
        answers = tuple(mark(answer) for answer in place.answers)
        words = [answer.word for answer in (*place.answers, end) if isinstance(answer, Failed)]
        done = (*place.done, (answers, end if isinstance(end, str) else end.word))
        if end != "committed" and place.attempt < self.retries and RETRYABLE & set(words):
            return _Place(place.call, (), done, place.attempt + 1)
        return _Place(place.call + 1, (), done, 0)

    # Exploring

    def explore(
        self,
        *,
        invariant_after_each_commit: bool = False,
        states_max: int = STATES_MAX,
        time_s: float | None = None,
    ) -> Explored:
        """Visits all states, those with fewer steps first. ``schedules`` counts the ways through them."""
        state, places = self.start()
        root = _key(state, places)
        nodes: dict[Hashable, _Node] = {root: _Node(state, places, None, None, 0)}
        following: dict[Hashable, list[Hashable]] = {}
        found = Explored({}, 0, 0, True)
        queue = deque([root])
        deadline = None if time_s is None else time.monotonic() + time_s
        try:
            while queue:
                if len(nodes) > states_max or (deadline is not None and time.monotonic() > deadline):
                    found.complete = False
                    break
                key = queue.popleft()
                self._visit(found, nodes, following, queue, key, each_commit=invariant_after_each_commit)
        except KeyboardInterrupt:
            # What was visited is told.
            found.complete, found.interrupted = False, True
        if not found.interrupted:
            self.bodies.refuse_shared_state()
            refuse_other_statements(self.program, self.bodies.runs())
        found.states = len(nodes)
        found.schedules = _ways(root, following) if found.complete else 0
        return found

    def _visit(
        self,
        found: Explored,
        nodes: dict[Hashable, _Node],
        following: dict[Hashable, list[Hashable]],
        queue: deque[Hashable],
        key: Hashable,
        *,
        each_commit: bool,
    ) -> None:
        node = nodes[key]
        steps = self.steps(node.state, node.places)
        following[key] = []
        if not steps:
            self._final(found, nodes, key)
        for after, there, sent in steps:
            new = _key(after, there)
            following[key].append(new)
            if new not in nodes:
                nodes[new] = _Node(after, there, key, sent, node.depth + 1)
                queue.append(new)
                self._checks(found, nodes, new)
                if each_commit and after.committed != node.state.committed:
                    self._judge(found, nodes, new, after_commit=True)

    def _final(self, found: Explored, nodes: dict[Hashable, _Node], key: Hashable) -> None:
        node = nodes[key]
        if node.state.waiting:
            raise AssertionError("sessions wait for each other, and no deadlock was found")
        outcome = self.outcome(node.state, node.places)
        if outcome in found.outcomes:
            return
        found.outcomes[outcome] = _schedule(nodes, key)
        for word in outcome.errors():
            found.aborted[word] = found.aborted.get(word, 0) + 1
        self._judge(found, nodes, key, after_commit=False)

    def outcome(self, state: State, places: tuple[_Place, ...]) -> Outcome:
        """What came of it, if nobody has anything left to do."""
        rows = tuple((table, tuple(sorted(found, key=repr))) for table, found in state.rows().items())
        return Outcome(tuple(place.done for place in places), rows)

    def _checks(self, found: Explored, nodes: dict[Hashable, _Node], key: Hashable) -> None:
        """Checks inside of transactions (``tx.check``) that the answers of this step have failed."""
        node = nodes[key]
        for session, place in enumerate(node.places):
            if place.call < len(self.sessions[session]) and str(session) not in node.state.waiting:
                for text in self.bodies.asked(self.sessions[session][place.call], place.answers).failed:
                    if text not in found.violations:
                        found.violations[text] = Violation(text, _schedule(nodes, key), node.state.rows())

    def _judge(self, found: Explored, nodes: dict[Hashable, _Node], key: Hashable, *, after_commit: bool) -> None:
        state = nodes[key].state
        broken = self._judged.get(state.committed)
        if broken is None:
            broken = self._judged[state.committed] = self._broken(state)
        for name in broken:
            if name not in found.violations:
                found.violations[name] = Violation(name, _schedule(nodes, key), state.rows(), after_commit)

    def _broken(self, state: State) -> tuple[str, ...]:
        """The invariants that do not hold of the committed rows."""
        names = {info.table.name: tuple(info.columns) for info in self.model.catalog.tables}
        rows = {table: [Row(names[table], row) for row in found] for table, found in state.rows().items()}

        @cache
        def store() -> Store:
            return loaded_store(self.model.concrete, rows)

        return tuple(name for name, check in self._invariants.items() if not holds(name, check, rows, store))


@lru_cache(maxsize=4096)
def _read(sql: str, dialect: Dialect) -> Statement:
    return read_statement(sql, dialect)


def _key(state: State, places: tuple[_Place, ...]) -> Hashable:
    return (
        state.key(),
        tuple(
            (place.call, place.attempt, place.done, tuple(mark(answer) for answer in place.answers)) for place in places
        ),
    )


def _schedule(nodes: Mapping[Hashable, _Node], key: Hashable) -> tuple[Sent, ...]:
    steps: list[Sent] = []
    node = nodes[key]
    while node.step is not None:
        steps.append(node.step)
        node = nodes[node.parent]
    return tuple(reversed(steps))


def _ways(root: Hashable, following: Mapping[Hashable, list[Hashable]]) -> int:
    """How many ways lead from the first state to a last one; no state comes twice on a way."""
    counted: dict[Hashable, int] = {}
    waiting = [root]
    while waiting:
        key = waiting[-1]
        if key in counted:
            waiting.pop()
            continue
        left = [after for after in following[key] if after not in counted]
        if left:
            waiting += left
            continue
        counted[key] = sum(counted[after] for after in following[key]) or (0 if following[key] else 1)
        waiting.pop()
    return counted[root]
