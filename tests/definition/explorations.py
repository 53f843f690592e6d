"""What a program over keys can do, by brute force: every execution, and every commit order of each.

A program is a list of sessions, each a list of bodies: functions of a handle with ``read``, ``write`` and ``abort``. All
executions that run one transaction at a time are enumerated, in every order of the sessions, with every source of every
read; a level then keeps the histories for which some commit order fulfils its axioms (``levels.md``; Biswas & Enea,
OOPSLA 2019). Nothing is shared with the explorer. Transactions are numbered session by session; aborted ones take part:
they read, and write nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

INITIAL = -1
"""The transaction that wrote the initial values; it comes before all others."""
LEVELS = ("rc", "ra", "cc", "pc", "si", "ser")
Sources = tuple[tuple[int, ...], ...]
"""A complete history: of each transaction, whom its reads of others' writes read from."""
State = frozenset[tuple[Any, Any]]
"""The keys that were written, with their values."""
CommitOrder = tuple[int, ...]
Body = Callable[[Any], object]


class _Unanswered(BaseException):
    pass


class _Aborted(BaseException):
    pass


class _Handle:
    def __init__(self, answers: Sequence[Any]) -> None:
        self.answers = answers
        self.keys: list[Any] = []
        self.written: dict[Any, Any] = {}
        self.accesses = 0

    def read(self, key: Any) -> Any:
        self.accesses += 1
        if key in self.written:
            return self.written[key]
        self.keys.append(key)
        if len(self.keys) > len(self.answers):
            raise _Unanswered
        return self.answers[len(self.keys) - 1]

    def write(self, key: Any, value: Any) -> None:
        self.accesses += 1
        self.written[key] = value

    def abort(self) -> NoReturn:
        raise _Aborted


@dataclass(frozen=True)
class Log:
    """A transaction that has ended, or one that is pending: what it read from whom, and what it left behind."""

    reads: tuple[tuple[Any, int], ...]
    written: Mapping[Any, Any]
    events: int
    """Reads and writes, the beginning and the end."""


@dataclass(frozen=True)
class Run:
    """A body along some answers: the keys read (one more than answers, if it waits for one), and what it wrote."""

    keys: tuple[Any, ...]
    written: Mapping[Any, Any]
    waits: bool
    events: int


def run(body: Body, answers: Sequence[Any]) -> Run:
    handle = _Handle(answers)
    waits = False
    try:
        body(handle)
    except _Unanswered:
        waits = True
    except _Aborted:
        handle.written = {}
    return Run(tuple(handle.keys), handle.written, waits, handle.accesses + 2)


@dataclass(frozen=True)
class History:
    """Logs by transaction number, and the session of each number."""

    logs: Mapping[int, Log]
    session: tuple[int, ...]

    @property
    def sources(self) -> Sources:
        """What tells a complete history from all others of its program."""
        return tuple(tuple(source for _, source in self.logs[t].reads) for t in sorted(self.logs))

    @cached_property
    def direct(self) -> dict[int, set[int]]:
        """Of each transaction, those before it in so ∪ wr."""
        return {
            t: {other for other in self.logs if other < t and self.session[other] == self.session[t]}
            | {source for _, source in log.reads if source != INITIAL}
            for t, log in self.logs.items()
        }

    @cached_property
    def causal(self) -> dict[int, set[int]]:
        """Of each transaction, those before it in (so ∪ wr)⁺."""

        def past(t: int) -> set[int]:
            return self.direct[t].union(*(past(other) for other in self.direct[t]))

        return {t: past(t) for t in self.logs}

    @property
    def events(self) -> int:
        return sum(log.events for log in self.logs.values())

    @cached_property
    def commit_orders(self) -> tuple[CommitOrder, ...]:
        """All total orders that contain so ∪ wr."""

        def orders(done: CommitOrder) -> Iterator[CommitOrder]:
            if len(done) == len(self.logs):
                yield done
            for t in self.logs:
                if t not in done and self.direct[t].issubset(done):
                    yield from orders((*done, t))

        return tuple(orders(()))

    def obeys(self, t3: int, level: str, co: CommitOrder) -> bool:
        """Whether the reads of a transaction fulfil the axioms of a level under a commit order."""
        at = {t: place for place, t in enumerate(co)} | {INITIAL: -1}
        for place, (key, t1) in enumerate(self.logs[t3].reads):
            for t2, log in self.logs.items():
                if t2 in (t1, t3) or key not in log.written or at[t2] < at[t1]:
                    continue
                if self._premise(level, t2, t3, place, at):
                    return False
        return True

    def _premise(self, level: str, t2: int, t3: int, place: int, at: Mapping[int, int]) -> bool:
        """What makes t2 come before the writer that t3 reads from."""
        match level:
            case "rc":
                return any(source == t2 for _, source in self.logs[t3].reads[:place])
            case "ra":
                return t2 in self.direct[t3]
            case "cc":
                return t2 in self.causal[t3]
            case "pc":
                return any(at[t2] <= at[t4] for t4 in self.direct[t3])
            case "si":
                return self._premise("pc", t2, t3, place, at) or any(
                    at[t2] <= at[t4] < at[t3] for t4 in self.logs if self._conflict(t3, t4)
                )
            case "ser":
                return at[t2] < at[t3]
        raise AssertionError(level)

    def _conflict(self, t3: int, t4: int) -> bool:
        return t3 != t4 and not self.logs[t3].written.keys().isdisjoint(self.logs[t4].written)

    def obeying(self, levels: Sequence[str]) -> Iterator[CommitOrder]:
        """The commit orders under which every transaction obeys its own level."""
        return (co for co in self.commit_orders if all(self.obeys(t, levels[t], co) for t in self.logs))

    def satisfies(self, levels: str | Sequence[str]) -> bool:
        """Whether there is such a commit order; a single level is that of all transactions."""
        return any(True for _ in self.obeying(_each(levels, self.session)))

    def final_states(self, levels: str | Sequence[str]) -> set[State]:
        """The states that the commit orders leave."""
        return {self.state(co) for co in self.obeying(_each(levels, self.session))}

    def states_on_the_way(self, levels: str | Sequence[str]) -> set[State]:
        """The states after each commit (or abort) of the commit orders."""
        return {
            self.state(co[:end]) for co in self.obeying(_each(levels, self.session)) for end in range(1, len(co) + 1)
        }

    def state(self, co: Sequence[int]) -> State:
        state: dict[Any, Any] = {}
        for t in co:
            state.update(self.logs[t].written)
        return frozenset(state.items())


def _each(levels: str | Sequence[str], session: Sequence[int]) -> Sequence[str]:
    return [levels] * len(session) if isinstance(levels, str) else levels


def complete_histories(
    sessions: Sequence[Sequence[Body]], initial: Mapping[Any, Any], *, histories_max: int | None = None
) -> list[History] | None:
    """Every history of a complete execution, whatever the level, once; ``None`` if there are more than ``histories_max``."""
    bodies = [body for entries in sessions for body in entries]
    session = tuple(number for number, entries in enumerate(sessions) for _ in entries)
    found: dict[Sources, History] = {}
    # Executions that have come to the same logs in another order go on in the same way.
    met: set[Any] = set()
    waiting: list[dict[int, Log]] = [{}]
    while waiting:
        logs = waiting.pop()
        if len(logs) == len(bodies):
            history = History(dict(sorted(logs.items())), session)
            found[history.sources] = history
        for t in _ready(session, logs):
            for log in _ended(bodies[t], logs, initial):
                after = {**logs, t: log}
                mark = frozenset((number, entry.reads) for number, entry in after.items())
                if mark not in met:
                    met.add(mark)
                    waiting.append(after)
        if histories_max is not None and len(met) > 8 * histories_max:
            return None
    return list(found.values()) if histories_max is None or len(found) <= histories_max else None


def _ready(session: Sequence[int], logs: Mapping[int, Log]) -> Iterable[int]:
    """The next transaction of each session."""
    for t, own in enumerate(session):
        earlier = [other for other in range(t) if session[other] == own]
        if t not in logs and all(other in logs for other in earlier):
            yield t


def _ended(body: Body, logs: Mapping[int, Log], initial: Mapping[Any, Any]) -> Iterator[Log]:
    """All ways in which a transaction can run to its end after these."""
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        sources = waiting.pop()
        answers: list[Any] = []
        for source in sources:
            key = run(body, answers).keys[len(answers)]
            answers.append(initial.get(key) if source == INITIAL else logs[source].written[key])
        ran = run(body, answers)
        if not ran.waits:
            yield Log(tuple(zip(ran.keys, sources, strict=True)), ran.written, ran.events)
            continue
        writers = [t for t, log in logs.items() if ran.keys[-1] in log.written]
        waiting.extend((*sources, source) for source in (INITIAL, *writers))
