"""The exploration itself: the core walks through executions, and is told what transactions do and what states are good."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from isolde._core.exploration import (
    INITIAL,
    Exploration,
    ExplorationCounts,
    ExplorationQuestion,
    Sources,
    State,
)
from isolde.engines.explore.behaviours import Behaviours
from isolde.engines.explore.program import Program
from isolde.engines.explore.question import Question, explored_level

_CALLS_AT_ONCE = 400_000
"""Calls of EXPLORE between two looks at the clock."""
_ESTIMATED_FROM_S = 2.0
"""Seconds after which the size of the whole is estimated, so that a short walk does not pay for it; again at twice the time."""
_ESTIMATE_KEPT_MAX = 512
"""Executions of a level that the first estimate keeps. Over tables fewer: each may need a body that nobody has run yet."""
_ESTIMATE_KEPT_MAX_OVER_TABLES = 32
_ESTIMATE_AT_ONCE = 20_000
"""Executions that an estimate looks at before the walk goes on."""
SHOWN_MAX = 20
"""Behaviours beyond another level that are kept, the shortest first."""

INTERRUPTED = "it was interrupted"

Judge = Callable[[Mapping[Any, Any]], int | None]
"""Which check fails on a state, by number; ``None``: all hold."""


@dataclass(frozen=True, slots=True)
class Limits:
    """``calls_max`` of EXPLORE, seconds, and threads; ``None``: no limit."""

    calls_max: int | None = None
    seconds: float | None = None
    threads: int | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A history that shows something: the check (by number), and the state if it failed on one."""

    check: int
    sources: Sources
    state: State | None


@dataclass(frozen=True, slots=True)
class Walked:
    """What a walk has come to. ``complete``: nothing is left. ``stopped``: why something is."""

    counts: ExplorationCounts
    failed: tuple[Found, ...]
    beyond: tuple[Sources, ...]
    complete: bool
    stopped: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a walk: enough to go on another day."""

    executions: tuple[tuple[Sources, bool], ...]
    counts: ExplorationCounts
    seconds: float


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a walk has come. ``calls_in_all``: about how many calls of EXPLORE there are; ``None``: not estimated."""

    counts: ExplorationCounts
    seconds: float
    bodies: int
    calls_in_all: float | None


class Walk:
    """One exploration of a program at the levels of one question."""

    def __init__(
        self,
        program: Program,
        behaviours: Behaviours,
        question: Question,
        *,
        judge: Judge | None,
        collect: bool,
        threads: int | None,
    ) -> None:
        self.levels = question.by_transaction(program)
        self.steering = question.steering(self.levels)
        against = question.against
        self._behaviours, self._judge = behaviours, judge
        asked = ExplorationQuestion(
            sessions=tuple(call.session for call in program.calls),
            steering=self.steering,
            levels=self.levels,
            against=None if against is None else (explored_level(against),) * len(program.calls),
            plain=question.method == "dfs",
            watched="nothing" if judge is None else question.states,
            collect=collect,
            shown_max=SHOWN_MAX,
        )
        self.native = Exploration(asked if threads is None else replace(asked, threads=max(1, threads)))
        self._keys = 0
        self._numbers: list[int] = []
        """The node of the behaviours for each stretch that the core knows."""
        self._stretches: dict[int, int] = {}
        """And the reverse."""
        for transaction, root in enumerate(behaviours.roots):
            self._tell_keys()
            self._note(root, self.native.add_root(transaction, behaviours.nodes[root].stretch))
        self._tell_keys()
        self._before = 0.0
        self._estimate_kept_max = _ESTIMATE_KEPT_MAX_OVER_TABLES if program.over_tables else _ESTIMATE_KEPT_MAX
        self._estimate_at_s = _ESTIMATED_FROM_S

    def resume(self, left: Left) -> None:
        """Goes on from what another walk left."""
        self.native.restore_counts(left.counts)
        self._before = left.seconds
        for history, pending in left.executions:
            while (missing := self.native.restore(history, pending)) is not None:
                self._answer(*missing)

    def left(self, seconds: float) -> Left:
        """What is left; the walk stands still afterwards."""
        return Left(tuple(self.native.left()), self.native.counts(), seconds)

    def go(
        self,
        limits: Limits,
        *,
        progress: Callable[[Progress], None],
        listed: Callable[[Sources], None],
        stop: Callable[[], str] = lambda: "",
    ) -> Walked:
        """Walks until nothing is left, a limit is reached, or ``stop`` gives a reason."""
        began = time.monotonic()
        stopped = ""
        explored_before = self.native.counts().explored
        while True:
            counts = self.native.counts()
            seconds = time.monotonic() - began
            calls = _CALLS_AT_ONCE
            if limits.calls_max is not None:
                calls = min(calls, limits.calls_max - (counts.explored - explored_before))
                if calls <= 0:
                    stopped = f"the budget of {limits.calls_max:,} calls is spent"
            if limits.seconds is not None and seconds > limits.seconds:
                stopped = f"the time of {limits.seconds:g} s is over"
            stopped = stopped or stop()
            if stopped:
                break
            done = False
            try:
                done = self.native.run(calls)
                if not done:
                    self._estimate(time.monotonic() - began)
                self._answer_all()
                self._judge_all()
                for sources in self.native.collected():
                    listed(sources)
            except KeyboardInterrupt:
                # What was asked and not answered is asked again when the walk goes on.
                stopped = INTERRUPTED
            total = time.monotonic() - began + self._before
            bodies = len(self._behaviours.nodes)
            progress(Progress(self.native.counts(), total, bodies, self.native.estimated()))
            if done or stopped:
                break
        failed = tuple(Found(*row) for row in self.native.failed())
        total = time.monotonic() - began + self._before
        return Walked(self.native.counts(), failed, tuple(self.native.beyond()), not stopped, stopped, total)

    def commit_order(self, sources: Sources, state: State | None) -> tuple[list[tuple[int, bool]], int] | None:
        """An order of commits of a history; one that was found by another walk is told to the core first."""
        self.follow(sources)
        return self.native.commit_order(sources, state)

    def follow(self, sources: Sources) -> None:
        """Runs the bodies along a history that another walk found, so that its keys and values have numbers here, too."""
        written: dict[int, dict[int, int]] = {}
        for transaction, read in sources:
            node = self._behaviours.roots[transaction]
            own = dict(self._behaviours.nodes[node].stretch.writes)
            for source in read:
                key = self._behaviours.nodes[node].stretch.key
                value = self._behaviours.initial(key) if source == INITIAL else written[source][key]
                if self._behaviours.after(node, value) not in self._stretches:
                    self._answer(self._stretches[node], value)
                node = self._behaviours.after(node, value)
                own |= dict(self._behaviours.nodes[node].stretch.writes)
            written[transaction] = own

    def _estimate(self, seconds: float) -> None:
        """Goes on with the estimate that is due after so many seconds; the next one is due when twice the time has passed."""
        if seconds >= self._estimate_at_s and self.native.estimate(self._estimate_kept_max, _ESTIMATE_AT_ONCE):
            self._estimate_at_s = 2 * seconds

    def _answer_all(self) -> None:
        for stretch, value in self.native.requests():
            self._answer(stretch, value)

    def _answer(self, stretch: int, value: int) -> None:
        node = self._behaviours.after(self._numbers[stretch], value)
        self._tell_keys()
        self._note(node, self.native.add_after(stretch, value, self._behaviours.nodes[node].stretch))

    def _note(self, node: int, stretch: int) -> None:
        assert stretch == len(self._numbers), "the core numbers stretches as they are told"
        self._numbers.append(node)
        self._stretches[node] = stretch

    def _tell_keys(self) -> None:
        while self._keys < len(self._behaviours.keys):
            self.native.add_key(self._behaviours.initial(self._keys))
            self._keys += 1

    def _judge_all(self) -> None:
        if self._judge is None:
            return
        states = self.native.unjudged()
        self.native.judge([(state, self._judge(self.state(state))) for state in states])

    def state(self, state: State) -> dict[Any, Any]:
        """The keys that were written, with their values."""
        keys, values = self._behaviours.keys, self._behaviours.values
        return {keys[key]: values[value] for key, value in state}
