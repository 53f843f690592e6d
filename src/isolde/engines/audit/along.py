"""A store model taken along the recorded times of a log, with repairs where an answer differs. It finds runs, and never refutes.

Every action (a statement, a commit) was done at some time between its being sent and its being answered. Each gets a *target* in
this window, the likeliest first, and actions are sent to the model in the order of their targets, so that real time is kept
whatever the targets are. Where an answer differs, or somebody waits past the time of his answer, targets are moved: of the action
that failed, or of one that overlaps it or its snapshot, and may look at the same rows, past each other. The run is taken up again
before the first target that moved. A move that leads further is kept; where none does, moves are tried in twos and threes, and
then earlier ones are reconsidered.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from isolde.engines.audit.log import Entry
from isolde.engines.audit.parts import Footprint, Parts, parts_of, row_of
from isolde.engines.audit.script import Action, Due, Script
from isolde.engines.audit.search import Allowance
from isolde.errors import MistakeError
from isolde.semantics.stores import State

NEAR = 0.5
"""Of a time unit: how far a window is open beyond its ends, for moves past an action that was answered in the same instant."""
MOVES_MAX = 24
"""Moves that are tried for one failure."""
TOGETHER_MAX = 3
"""Moves that are tried together before one of them leads further."""
KEPT = 3_000
"""Actions that can be taken back."""
STEP = 1 / 64
"""How far behind, or before, another action a moved one comes."""
REPAIRS_KEPT = 64
"""Repairs that can be taken back."""


@dataclass(slots=True, eq=False)
class _Part:
    """An action in its place, with the window of its time. ``plain``: a query that locks nothing: others do not notice."""

    action: Action
    session: int
    place: int
    low: float
    high: float
    target: float
    plain: bool
    variant: int = 0
    """Which of the ways is taken that the model allows."""
    left_out: bool = False
    """Of unknown outcome, and taken not to have happened."""


@dataclass(frozen=True, slots=True)
class _Point:
    """The run before an action was sent. ``peak``: the latest target so far."""

    state: State
    sent: tuple[int, ...]
    due: Due
    peak: float


@dataclass(frozen=True, slots=True)
class _Failure:
    """Where a run ended: the action that did not get its answer, the one that was sent last, and how many were sent."""

    part: _Part
    by: _Part
    done: int


@dataclass(frozen=True, slots=True)
class _Move:
    """A part gets another target or variant, or is left out."""

    part: _Part
    target: float
    variant: int = 0
    left_out: bool = False


@dataclass(slots=True)
class _Repair:
    """A set of moves that led further: what was there before, the failure that it mended, and the sets that were not tried."""

    before: list[_Move]
    failure: _Failure
    others: Iterator[tuple[_Move, ...]]


@dataclass(slots=True)
class Along:
    """The way of a script along its times. ``furthest`` is the failure that no repair got past, when it gives up."""

    script: Script
    allowance: Allowance
    furthest: _Failure | None = None
    _parts: list[list[_Part]] = field(init=False)
    _names: list[str] = field(init=False)
    _of_action: dict[Action, _Part] = field(init=False)
    _points: list[_Point] = field(init=False)
    _sent: list[tuple[_Part, int]] = field(default_factory=list)
    """What was sent, in order, with the variant that was taken."""
    _forgotten: int = 0
    """How many of the points are not kept any more."""
    _longest: int = 0
    _footprints: dict[Action, Footprint] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._names = list(self.script.sessions)
        self._parts = [
            [self._part(action, session, place) for place, action in enumerate(actions)]
            for session, actions in enumerate(self.script.sessions.values())
        ]
        self._of_action = {part.action: part for parts in self._parts for part in parts}
        first = _Point(self.script.model.initial(), (0,) * len(self._names), (), float("-inf"))
        self._points = [first]

    def _part(self, action: Action, session: int, place: int) -> _Part:
        low = float("-inf") if action.start is None else action.start - NEAR
        high = float("inf") if action.end is None else action.end + NEAR
        # At PostgreSQL's SERIALIZABLE, the order of reads decides about conflicts.
        free = self.script.reading.isolation != "serializable"
        plain = free and action.ask is not None and self.script.is_plain(action.ask)
        return _Part(action, session, place, low, high, float(action.time), plain)

    # Repairs

    def run(self) -> bool:
        """Whether a run was found that gives every answer; it was played a second time then."""
        repairs: list[_Repair] = []
        failure = self._on()
        sets = iter(()) if failure is None else self._sets(failure)
        while failure is not None:
            if self.furthest is None or failure.done > self.furthest.done:
                self.furthest = failure
            if self.allowance.over:
                return False
            moves = next(sets, None)
            if moves is None:
                # Nothing leads further from here: the last repair is taken back, and another one tried in its place.
                if not repairs:
                    return False
                last = repairs.pop()
                self._make(last.before)
                failure, sets = last.failure, last.others
                continue
            before = self._make(moves)
            if before is None:
                continue
            after = self._on()
            if after is None or after.done > failure.done:
                repairs = [*repairs[-REPAIRS_KEPT:], _Repair(before, failure, sets)]
                failure = after
                sets = iter(()) if after is None else self._sets(after)
            else:
                self._make(before)
        self._play_again()
        return True

    def _make(self, moves: Iterable[_Move]) -> list[_Move] | None:
        """Moves targets, and takes the run back to before the first of them; what undoes that. ``None``: it is too far back."""
        moves = list(moves)
        before = [_Move(move.part, move.part.target, move.part.variant, move.part.left_out) for move in moves]
        first = min(min(move.part.target, move.target) for move in moves)
        place = bisect_left(self._points, first, key=lambda point: point.peak) - 1
        if place < 0:
            if self._forgotten:
                return None
            place = 0
        del self._points[place + 1 :], self._sent[self._forgotten + place :]
        for move in moves:
            move.part.target, move.part.variant, move.part.left_out = move.target, move.variant, move.left_out
        return before

    def _sets(self, failure: _Failure) -> Iterator[tuple[_Move, ...]]:
        """Moves to try after a failure: each by itself, then of two that can only pass each other together, then some at once."""
        meeting = list(self._meeting(failure))
        single = list(self._moves(failure, meeting))
        yield from ((move,) for move in single)
        for one, other in meeting:
            for first, second in ((one, other), (other, one)):
                # As near to where they are as both windows let the first come before the second.
                early = max(first.low, min(first.target, second.high - STEP))
                late = max(second.target, early + STEP)
                if early != first.target and late != second.target and late <= second.high and early <= first.high:
                    yield (
                        _Move(first, early, first.variant, first.left_out),
                        _Move(second, late, second.variant, second.left_out),
                    )
        for many in range(2, TOGETHER_MAX + 1):
            for chosen in combinations(single[: MOVES_MAX // many], many):
                if len({move.part for move in chosen}) == many:
                    yield chosen

    def _meeting(self, failure: _Failure) -> Iterator[tuple[_Part, _Part]]:
        """What failed, and what may have made it fail, each with those that it may have come before or after instead."""
        failed = failure.part
        subjects = {failed: failed, failure.by: failure.by}
        first = self._first_of(failed)
        if first is not failed:
            # The snapshot of its transaction may be another one.
            subjects[first] = failed
        for subject, like in subjects.items():
            for other in self._overlapping(subject):
                if not (subject.plain and other.plain) and self._meet(like, other):
                    yield subject, other

    def _moves(self, failure: _Failure, meeting: Sequence[tuple[_Part, _Part]]) -> Iterator[_Move]:
        """Single moves, the nearest first."""
        found: dict[tuple[_Part, float, int, bool], float] = {}

        def consider(part: _Part, target: float, distance: float) -> None:
            if part.low <= target <= part.high and target != part.target:
                found.setdefault((part, target, part.variant, part.left_out), distance)

        subjects = list(dict.fromkeys((failure.part, failure.by, self._first_of(failure.part))))
        for part in subjects:
            for target in (part.low, part.high):
                if abs(target) != float("inf"):
                    consider(part, target, 0)
        for subject, other in meeting:
            distance = abs(subject.target - other.target)
            later = subject.target >= other.target
            consider(subject, other.target + (-STEP if later else STEP), distance)
            consider(other, subject.target + (STEP if later else -STEP), distance + STEP)
        for part in subjects[:2]:
            yield _Move(part, part.target, part.variant + 1, part.left_out)
        for part in {part.action.entry.number: part for part in subjects if part.action.entry.maybe}.values():
            yield _Move(self._first_of(part), part.target, part.variant, not part.left_out)
        for key, _ in sorted(found.items(), key=lambda one: one[1]):
            yield _Move(*key)

    def _first_of(self, part: _Part) -> _Part:
        """The first action of its transaction."""
        parts, place = self._parts[part.session], part.place
        while place and parts[place - 1].action.entry is part.action.entry:
            place -= 1
        return parts[place]

    def _overlapping(self, part: _Part) -> Iterator[_Part]:
        """Actions of other sessions that may have been done before or after this one."""
        for session, parts in enumerate(self._parts):
            if session != part.session:
                first = bisect_left(parts, part.low, key=lambda one: one.high)
                last = bisect_right(parts, part.high, key=lambda one: one.low)
                yield from parts[first:last]

    def _meet(self, one: _Part, other: _Part) -> bool:
        """Whether two actions may look at one row; in SQLite a snapshot is one of everything."""
        if self.script.reading.store == "sqlite":
            return True
        mine, others = self._footprint(one), self._footprint(other)
        tables = {*mine.tables, *(name[0] for name in mine.rows)}
        if any(table in tables for table in others.tables):
            return True
        return any(name[0] in mine.tables or name in mine.rows for name in others.rows)

    def _footprint(self, part: _Part) -> Footprint:
        """What an action looks at; a commit, what its transaction changed."""
        action = part.action
        found = self._footprints.get(action)
        if found is None:
            parts: Parts = parts_of(self.script.log)
            asks = action.entry.asks if action.ask is None else (action.ask,)
            feet = [parts.footprint(ask) for ask in asks if action.ask is not None or not ask.is_query]
            # Who refers to a row may lock it.
            rows = {row_of(name) for foot in feet for name in foot.all_rows}
            tables = {table for foot in feet for table in foot.all_tables}
            found = self._footprints[action] = Footprint(tuple(rows), tuple(tables), True)
        return found

    # Running

    def _on(self) -> _Failure | None:
        """Goes on from the last point to the end, or to the first failure."""
        while True:
            point = self._points[-1]
            part = self._next(point)
            if part is None:
                if point.due:
                    late = self._of_action[point.due[0][1]]
                    return _Failure(late, late, len(self._sent))
                return None
            late = min((self._of_action[action] for _, action in point.due), key=lambda one: one.high, default=part)
            if late.high < part.target:
                early = self._release(point, late, part)
                if early is not None:
                    part = early
                elif late.high <= part.low:
                    return _Failure(late, self._sent[-1][0], len(self._sent))
            if len(self._sent) >= self._longest:
                self._longest = len(self._sent) + 1
                # Actions that lead on are not counted: a long log has many.
                self.allowance.steps += 1
            if not self.allowance.step():
                return _Failure(part, part, len(self._sent))
            failure = self._send(point, part)
            if failure is not None:
                return failure
            if len(self._points) > 2 * KEPT:
                del self._points[:KEPT]
                self._forgotten += KEPT

    def _next(self, point: _Point) -> _Part | None:
        """The action with the earliest target, of those sessions that do not wait."""
        due = {name for name, _ in point.due}
        best = None
        for name, parts, sent in zip(self._names, self._parts, point.sent, strict=True):
            if sent < len(parts) and name not in due and (best is None or parts[sent].target < best.target):
                best = parts[sent]
        return best

    def _release(self, point: _Point, late: _Part, coming: _Part) -> _Part | None:
        """Somebody's commit that has to come now, for one who waits to have his answer in time."""
        for blocker in self.script.model.blockers(point.state, self._names[late.session]):
            session = self._names.index(blocker.session)
            sent = point.sent[session]
            if sent < len(self._parts[session]):
                part = self._parts[session][sent]
                if part is not coming and part.low <= late.high and part.action.ask is None:
                    return part
        return None

    def _send(self, point: _Point, part: _Part) -> _Failure | None:
        sent = list(point.sent)
        sent[part.session] += 1
        peak = max(point.peak, part.target)
        if part.left_out:
            parts = self._parts[part.session]
            while sent[part.session] < len(parts) and parts[sent[part.session]].action.entry is part.action.entry:
                sent[part.session] += 1
            self._take(_Point(point.state, tuple(sent), point.due, peak), part, 0)
            return None
        name, wrong, variant = self._names[part.session], part, 0
        for step in self.script.sent(point.state, name, part.action):
            due, other = self.script.answered(step, {**dict(point.due), name: part.action})
            if other is not None:
                wrong = self._of_action[other]
            elif variant == part.variant:
                self._take(_Point(step.state, tuple(sent), due, peak), part, variant)
                return None
            else:
                variant += 1
        return _Failure(wrong, part, len(self._sent))

    def _take(self, point: _Point, part: _Part, variant: int) -> None:
        self._points.append(point)
        self._sent.append((part, variant))

    @property
    def stuck(self) -> tuple[Entry, int] | None:
        """The statement that no repair got past, if it is one."""
        if self.furthest is None:
            return None
        for part in (self.furthest.part, self.furthest.by):
            if part.action.ask is not None:
                return part.action.entry, part.action.place
        return None

    # The second time

    def _play_again(self) -> None:
        """Plays what was sent on a model of its own, and looks at real time and at every answer anew."""
        script = Script(self.script.log, self.script.reading, self.script.entries)
        state = script.model.initial()
        due: Due = ()
        coming = [[part for part in parts if not self._leaves_out(part)] for parts in self._parts]
        reached = [0] * len(coming)
        for part, variant in self._sent:
            if self._leaves_out(part):
                continue
            start, name = part.action.start, self._names[part.session]
            open_ends = [action.end for _, action in due]
            open_ends += [
                parts[place].action.end for parts, place in zip(coming, reached, strict=True) if place < len(parts)
            ]
            if start is not None and any(end is not None and end < start for end in open_ends):
                raise MistakeError(f"the run that explains the log breaks real time at {part.action.entry.id}")
            if coming[part.session][reached[part.session]] is not part or name in dict(due):
                raise MistakeError(f"the run that explains the log leaves something out before {part.action.entry.id}")
            reached[part.session] += 1
            found = [
                (step, still)
                for step in script.sent(state, name, part.action)
                for still, wrong in [script.answered(step, {**dict(due), name: part.action})]
                if wrong is None
            ]
            if len(found) <= variant:
                raise MistakeError(
                    f"the run that explains the log does not: {part.action.entry.id} answers something else"
                )
            step, due = found[variant]
            state = step.state
        if due or state.open or any(place < len(parts) for parts, place in zip(coming, reached, strict=True)):
            raise MistakeError("the run that explains the log does not come to its end")

    def _leaves_out(self, part: _Part) -> bool:
        return part.action.entry.maybe and self._first_of(part).left_out
