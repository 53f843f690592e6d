"""One given interleaving on a store model: the same table of steps that a real database gives.

Where the database may choose, there are several ways to go on, and each is a result of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from isolde.errors import UsageError
from isolde.history.schedule import Ended as End
from isolde.history.schedule import Failure, Played, PlayedStep, Row, Schedule, ScheduleStep, sorted_rows, values_of
from isolde.levels.stores import store_level
from isolde.semantics.stores import Ended, Failed, Model, Result, Returned, State, Step, Waits, store_model
from isolde.semantics.stores.requests import Look
from isolde.tx.dialects import Dialect
from isolde.tx.schema import Schema
from isolde.tx.script import begins, changes, commits, is_setting, level_in, rolls_back, sets_level, statements_of
from isolde.tx.sql import schema as read_schema

WAYS_MAX = 8


@dataclass(frozen=True, slots=True)
class Ways:
    """What a schedule may come to. ``more``: there are others that are not listed."""

    played: tuple[Played, ...]
    more: bool = False


@dataclass(frozen=True, slots=True)
class _Way:
    """A state on the way; the steps as far as they have come; the statements that each session has still to send (``left``), and
    the one that it has sent last (``doing``), each with the number of its step.
    """

    state: State
    steps: tuple[PlayedStep, ...]
    left: Mapping[str, tuple[tuple[int, str], ...]]
    sent: int
    doing: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()
    """Sessions whose transaction the database has rolled back, and that have not ended it yet."""
    levels: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """What a session has said of levels with SET: of its next ``transaction``, and of its ``session``."""
    fresh: frozenset[str] = frozenset()
    """Sessions whose transaction has begun and done nothing yet."""
    passed: tuple[State, ...] = ()
    """The state after each step."""


def play(schedule: Schedule, store: str, settings: Mapping[str, str] | None = None, ways_max: int = WAYS_MAX) -> Ways:
    """Plays a schedule from its first rows. A step that the language cannot say is refused by name."""
    model = _model(schedule, store, settings)
    return Playing(model, schedule).ways(ways_max)


@dataclass(frozen=True, slots=True)
class Trace:
    """One way in which a schedule goes, and the committed rows of every table after each of its steps."""

    played: Played
    after: tuple[Mapping[str, tuple[Row, ...]], ...]


def traced(schedule: Schedule, store: str, settings: Mapping[str, str] | None = None) -> Trace:
    """The first way in which a schedule may go, with what was committed after each step."""
    return Playing(_model(schedule, store, settings), schedule).trace()


def _model(schedule: Schedule, store: str, settings: Mapping[str, str] | None) -> Model:
    dialect = {"postgresql": Dialect.POSTGRESQL, "sqlite": Dialect.SQLITE}.get(store, Dialect.MYSQL)
    texts = [one for text in schedule.schema for one in statements_of(text, dialect) if not is_setting(one)]
    made = [text for text in texts if text.lower().startswith("create")]
    tables: Schema = read_schema(";\n".join(made), dialect, "schema")
    # As the connections do on which schedules are played, the model counts rows that an UPDATE found.
    first = store_model(store, tables, schedule.rows, settings, counts_found=True)
    state = first.initial()
    for text in texts:
        if text not in made:
            (step,) = first.submit(state, "setup", text)
            if isinstance(step.result("setup"), Failed):
                raise UsageError(f"the schema's statement '{text}' failed: {step.result('setup')}")
            state = step.state
    return store_model(store, tables, state.rows(), settings, counts_found=True)


class Playing:
    """A schedule on a model, step by step."""

    def __init__(self, model: Model, schedule: Schedule) -> None:
        self.model, self.schedule = model, schedule

    def ways(self, ways_max: int) -> Ways:
        """What the schedule may come to."""
        played = {self._played(way): None for way in self._ends()}
        listed = list(played)
        return Ways(tuple(listed[:ways_max]), len(listed) > ways_max)

    def trace(self) -> Trace:
        """The first way."""
        way = self._ends()[0]
        after = tuple(
            {table: sorted_rows(values_of(found)) for table, found in state.rows().items()} for state in way.passed
        )
        return Trace(self._played(way), after)

    def _ends(self) -> list[_Way]:
        ways = [_Way(self.model.initial(), (), {}, 0)]
        for session, texts in self.schedule.before.items():
            for text in texts:
                ways = [way for start in ways for way in self._asked(start, ScheduleStep(session, text))]
        ways = [replace(way, steps=(), left={}, sent=0, passed=()) for way in ways]
        for step in self.schedule.steps:
            found: dict[Any, _Way] = {}
            for way in ways:
                for after in self._asked(way, step):
                    noted = replace(after, passed=(*after.passed, after.state))
                    found.setdefault((after.state.key(), after.steps), noted)
            ways = list(found.values())
        return ways

    def _played(self, way: _Way) -> Played:
        rows = {table: sorted_rows(values_of(found)) for table, found in way.state.rows().items()}
        return _Hashable(way.steps, rows)

    def _asked(self, way: _Way, step: ScheduleStep) -> Iterator[_Way]:
        """The session sends the step now, or has it wait behind one that has not returned."""
        number = way.sent
        blank = PlayedStep(step.session, step.name, step.sql, None, None, None, None, None)
        texts = [text for text in statements_of(step.sql, self.model.dialect) if not is_setting(text)]
        queue = (*way.left.get(step.session, ()), *((number, text) for text in texts))
        left = {**way.left, step.session: queue}
        after = replace(way, steps=(*way.steps, blank), left=left, sent=number + 1)
        if not texts:
            yield _with(after, number, returned_after=number)
            return
        yield from self._going_on(after, [step.session])

    def _going_on(self, way: _Way, sessions: list[str]) -> Iterator[_Way]:
        """Lets sessions send what they have until each waits or has sent all.

        Who was set free goes on side by side with the others: each of them may be the next.
        """
        met = set()
        todo = [(way, sessions)]
        while todo:
            way, sessions = todo.pop()
            able = [one for one in sessions if way.left.get(one) and one not in way.state.waiting]
            if not able:
                yield way
            for session in reversed(able):
                for after, moved in reversed(self._sends(way, sessions, session)):
                    mark = (after.state.key(), after.steps, frozenset(after.left.items()), after.lost)
                    if mark not in met:
                        met.add(mark)
                        todo.append((after, moved))

    def _sends(self, way: _Way, sessions: list[str], session: str) -> list[tuple[_Way, list[str]]]:
        """The session sends its next statement: the ways in which that may go, each with whom it may have set free."""
        now, *left = way.left[session]
        doing = {**way.doing, session: now}
        if scope := sets_level(now[1]):
            way = self._with_level(way, session, scope, level_in(now[1]) or "")
        found = []
        steps = self._sent(way, session, now[1])
        way = self._after(way, session, now[1])
        for step in steps:
            after = replace(way, state=step.state, left={**way.left, session: tuple(left)}, doing=doing)
            moved = list(sessions)
            for other, result in step.results:
                begun = way.state.open.get(other)
                alone = begun is None or begun.autocommit
                after = self._noted(after, other, *doing[other], _by_itself(result) if alone else result)
                if other not in moved:
                    moved.append(other)
            found.append((after, moved))
        return found

    def _sent(self, way: _Way, session: str, text: str) -> list[Step]:
        model, state = self.model, way.state
        own = way.levels.get((session, "session")) or self.schedule.sessions.get(session) or ""
        own = way.levels.get((session, "transaction")) or own
        if begins(text):
            words = " ".join(text.lower().split())
            steps = model.begin(state, session, level_in(text) or own, read_only="read only" in words)
            if "with consistent snapshot" in words:
                for step in steps:
                    # It is taken now, and not at the first read.
                    model.answer(step.state, step.state.open[session], Look())
            return steps
        if commits(text):
            return model.commit(state, session)
        if rolls_back(text):
            return model.rollback(state, session)
        if sets_level(text):
            return [Step(state, ((session, Returned()),))]
        return model.submit(state, session, text, level=own)

    def _with_level(self, way: _Way, session: str, scope: str, level: str) -> _Way:
        """SET TRANSACTION is of the transaction that is open in PostgreSQL, and of the next one elsewhere."""
        store_level(self.model.store, level, self.model.settings)
        begun, here = session in way.state.open, self.model.sets_level_of_open
        if scope == "transaction" and begun and not (here and session in way.fresh):
            raise UsageError("SET TRANSACTION stands before the first statement of its transaction")
        if scope == "session" or not here:
            return replace(way, levels={**way.levels, (session, scope): level})
        if not begun:
            return way
        (undone,) = self.model.rollback(way.state, session)
        (step,) = self.model.begin(undone.state, session, level)
        return replace(way, state=step.state)

    @staticmethod
    def _after(way: _Way, session: str, text: str) -> _Way:
        """What is left of the levels that were set, when a statement has been sent."""
        if sets_level(text):
            return way
        levels = way.levels
        if begins(text) or session not in way.state.open:
            levels = {key: level for key, level in levels.items() if key != (session, "transaction")}
        return replace(way, levels=levels, fresh=way.fresh | {session} if begins(text) else way.fresh - {session})

    def _noted(self, way: _Way, session: str, number: int, text: str, result: Result) -> _Way:
        step = way.steps[number]
        if isinstance(result, Waits):
            seen = tuple(dict.fromkeys((*step.waited_for, *result.for_sessions)))
            return _with(way, number, waited_for=seen)
        last = not any(waiting == number for waiting, _ in way.left.get(session, ()))
        if isinstance(result, Failed):
            # The rest of a text that holds several statements is not run.
            left = tuple(one for one in way.left.get(session, ()) if one[0] != number)
            lost = way.lost | {session} if result.ended else way.lost
            way = replace(way, left={**way.left, session: left}, lost=lost)
            return _with(
                way,
                number,
                error=Failure(result.word),
                message=result.message,
                returned_after=way.sent - 1,
                ended=End.ROLLED_BACK if result.ended else None,
            )
        changed: dict[str, object] = {"returned_after": way.sent - 1} if last else {}
        if isinstance(result, Ended):
            kept = result.committed and session not in way.lost
            changed["ended"] = End.COMMITTED if kept else End.ROLLED_BACK
            way = replace(way, lost=way.lost - {session})
        elif isinstance(result, Returned):
            if begins(text):
                way = replace(way, lost=way.lost - {session})
            if result.names:
                changed["rows"] = (*(step.rows or ()), *values_of(result.rows))
            if changes(text):
                changed["count"] = (step.count or 0) + result.count
        return _with(way, number, **changed)


def _by_itself(result: Result) -> Result:
    """A statement that is a transaction by itself leaves none that its error could have ended."""
    return replace(result, ended=False) if isinstance(result, Failed) else result


def _with(way: _Way, number: int, **changed: object) -> _Way:
    steps = list(way.steps)
    steps[number] = replace(steps[number], **changed)  # type: ignore[arg-type]
    return replace(way, steps=tuple(steps))


class _Hashable(Played):
    """Equal results of different ways are one."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash((self.steps, tuple(self.rows.items())))
