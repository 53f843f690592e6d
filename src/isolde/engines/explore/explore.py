"""A program explored at a level: how many histories there are, and what goes wrong in which of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from isolde._core.exploration import INITIAL, ExplorationCounts, Sources
from isolde.engines.explore.behaviours import Behaviours
from isolde.engines.explore.bodies import Bodies
from isolde.engines.explore.checkpoint import Checkpoint
from isolde.engines.explore.elsewhere import Rounds, replayed
from isolde.engines.explore.evidence import Executed, allowed, executed, state_after
from isolde.engines.explore.invariants import FIRST, Invariants
from isolde.engines.explore.program import Program
from isolde.engines.explore.question import Question, explored_level
from isolde.engines.explore.rounds import bodies_of, in_rounds
from isolde.engines.explore.schedule import Interleaving, interleaving
from isolde.engines.explore.search import INTERRUPTED, SHOWN_MAX, Found, Left, Limits, Progress, Walk, Walked
from isolde.errors import IsoldeError

if TYPE_CHECKING:
    from isolde.engines.explore.tables import Model, TableBodies

INITIAL_LAST = float("inf")
"""Where the core sorts a read of an initial value: behind those of all transactions."""
_ROUND_CALLS = 20_000
"""Calls after which a round over tables ends if it has found new versions: what it goes on to find is incomplete anyway."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A history in which a check fails, or that another level does not allow.

    ``order``: the commits, of which the first ``reached`` lead to ``state`` (``None`` where the check is not about a state).
    """

    check: str
    history: tuple[Executed, ...]
    order: tuple[int, ...]
    reached: int
    state: Mapping[Any, Any] | None
    schedule: Interleaving


@dataclass(frozen=True, slots=True)
class Explored:
    """What an exploration found. ``complete``: every behaviour was seen; else ``stopped`` says why not, and ``left`` what is."""

    program: Program
    question: Question
    levels: tuple[str, ...]
    base: str
    counts: ExplorationCounts
    violations: tuple[Violation, ...]
    beyond: tuple[Violation, ...]
    complete: bool
    stopped: str
    seconds: float
    bodies_run: int
    left: Checkpoint | None = None
    judged: bool = False
    """Whether anything had to hold; else the histories were only counted."""


@dataclass(frozen=True, slots=True)
class Listening:
    """Who is told what while a program is explored."""

    progress: Callable[[Progress], None] = field(default=lambda _: None)
    listed: Callable[[tuple[Executed, ...]], None] | None = None
    stop: Callable[[], bool] = field(default=lambda: False)


class Explorer:
    """A program with what is known of its bodies, which all questions share."""

    def __init__(self, program: Program, model: Model = "rows") -> None:
        self.program, self.model = program, model
        self._know(bodies_of(program, model))
        self._rounds: list[Behaviours] = []
        """What earlier rounds knew of the bodies; ``behaviours`` is the present one."""

    def _know(self, bodies: Bodies, behaviours: Behaviours | None = None) -> None:
        self.bodies = bodies
        self.invariants = Invariants(self.program, bodies)
        self.behaviours = behaviours or Behaviours(self.program.calls, bodies)

    @property
    def rounds(self) -> tuple[Behaviours, ...]:
        """What is known of the bodies, round by round."""
        return (*self._rounds, self.behaviours)

    def ask(
        self,
        question: Question,
        limits: Limits | None = None,
        listening: Listening | None = None,
        resumed: Checkpoint | None = None,
    ) -> Explored:
        """Explores the program; over tables in rounds, until no version turns up that was not known."""
        limits, listening = limits or Limits(), listening or Listening()
        levels = question.by_transaction(self.program)
        question.steering(levels)
        if question.against is not None:
            explored_level(question.against)
        if self.program.over_tables:
            # What another question found written would be contested here too, and the counts would depend on it.
            self._know(bodies_of(self.program, self.model))
            self._rounds = []
        if resumed is not None:
            self.again(resumed.rounds)
        before = 0.0 if resumed is not None else self._settle(question, limits, listening)
        walk, walked, listed = self.walked(question, limits, listening, resumed)
        if listening.listed is not None:
            for sources in listed:
                listening.listed(executed(self.behaviours, sources))
        walked = self._joined(walked, resumed)
        left = None if walked.complete else walk.left(walked.seconds)
        return self.explored(question, walk, replace(walked, seconds=walked.seconds + before), left)

    def again(self, rounds: Rounds) -> None:
        """Takes up what is known of the bodies, round by round, from a walk of this program."""
        *self._rounds, last = replayed(self.program, bodies_of(self.program, self.model), rounds)
        self._know(last.bodies, last)

    def _settle(self, question: Question, limits: Limits, listening: Listening) -> float:
        """Over tables: finds out, in rounds, which rows and versions are written; the seconds that it took.

        A round that does not know them all meets behaviours that the level does not allow. So nothing is judged in it, and
        a body that fails in it has not failed.
        """
        seconds = 0.0
        while (bodies := in_rounds(self.program, self.bodies)) is not None and not bodies.settled:
            walk = Walk(self.program, self.behaviours, question, judge=None, collect=False, threads=limits.threads)

            def stop(bodies: TableBodies = bodies, walk: Walk = walk) -> str:
                if listening.stop():
                    return INTERRUPTED
                return _GREW if walk.native.counts().explored > _ROUND_CALLS and bodies.grew() else ""

            left = Limits(limits.calls_max, limits.seconds and max(limits.seconds - seconds, 0.0), limits.threads)
            walked = walk.go(left, progress=listening.progress, listed=lambda _: None, stop=stop)
            seconds += walked.seconds
            if bodies.grew() and walked.stopped in ("", _GREW):
                self._rounds.append(self.behaviours)
                self._know(bodies.next_round())
                continue
            # What is known by now is everything, or all that there was time for: then the last walk will not be complete either.
            if bodies.failed or walked.stopped:
                self._rounds.append(self.behaviours)
                self._know(bodies.next_round(settled=True))
            else:
                bodies.settled = True
        return seconds

    def walked(
        self, question: Question, limits: Limits, listening: Listening, resumed: Checkpoint | None
    ) -> tuple[Walk, Walked, list[Sources]]:
        """One walk with what is known of the bodies; the histories too, if somebody listens to them."""
        behaviours, predicate = self.behaviours, self.program.history
        judge = self.invariants.judge if self.invariants else None
        collect = listening.listed is not None or predicate is not None
        walk = Walk(self.program, behaviours, question, judge=judge, collect=collect, threads=limits.threads)
        if resumed is not None:
            walk.resume(resumed.left)
        kept: list[Sources] = []

        def listed(sources: Sources) -> None:
            if predicate is not None:
                self.invariants.judge_history(sources, lambda: executed(behaviours, sources))
            if listening.listed is not None:
                kept.append(sources)

        def stop() -> str:
            return INTERRUPTED if listening.stop() else ""

        return walk, walk.go(limits, progress=listening.progress, listed=listed, stop=stop), kept

    def _joined(self, walked: Walked, resumed: Checkpoint | None) -> Walked:
        """With what was found before the walk was resumed: of each check the shortest history."""
        if resumed is None:
            return walked
        best: dict[int, Found] = {}
        for found in (*resumed.failed, *walked.failed):
            known = best.get(found.check)
            if known is None or self.rank(found.sources) < self.rank(known.sources):
                best[found.check] = found
        beyond = sorted((*resumed.beyond, *walked.beyond), key=self.rank)
        return replace(walked, failed=tuple(best.values()), beyond=tuple(beyond[:SHOWN_MAX]))

    def rank(self, sources: Sources) -> tuple[int, list[tuple[int, list[float]]]]:
        """What is shown first: the history with the fewest events, then by what was read, as in the core."""
        read = sorted((one, [INITIAL_LAST if source == INITIAL else source for source in of]) for one, of in sources)
        return self._events(sources), read

    def _events(self, sources: Sources) -> int:
        return sum(len(entry.trace.events) for entry in executed(self.behaviours, sources))

    def explored(self, question: Question, walk: Walk, walked: Walked, left: Left | None) -> Explored:
        """What was found, laid open. ``left``: what is left of the walk, if anything is."""
        violations = [self._violation(walk, found) for found in walked.failed]
        violations += [self._shown(walk, sources, name) for name, sources in self.invariants.broken_histories()]
        beyond = []
        if question.against is not None:
            beyond = [self._shown(walk, sources, "robustness") for sources in walked.beyond]
        checkpoint = None
        if left is not None:
            rounds = tuple(tuple(known.nodes) for known in self.rounds)
            checkpoint = Checkpoint(left, walked.failed, walked.beyond, rounds)
        return Explored(
            program=self.program,
            question=question,
            levels=walk.levels,
            base=walk.steering,
            counts=walked.counts,
            violations=tuple(sorted(violations, key=_length)),
            beyond=tuple(beyond),
            complete=walked.complete,
            stopped=walked.stopped,
            seconds=walked.seconds,
            bodies_run=len(self.behaviours.nodes),
            left=checkpoint,
            judged=bool(self.invariants) or self.program.history is not None or len(self.behaviours.checks) > 0,
        )

    def _violation(self, walk: Walk, found: Found) -> Violation:
        if found.check < FIRST:
            _, name = self.behaviours.checks[found.check]
            shown = self._shown(walk, found.sources, name)
            held = not any(failed.text == name for entry in shown.history for failed in entry.trace.failed)
        else:
            name = self.invariants.names[found.check - FIRST]
            shown = self._shown(walk, found.sources, name, found.state)
            held = shown.state is None or self.invariants.judge(shown.state) is None
        if held:
            raise IsoldeError(
                f"a mistake of Isolde itself, please report it: {name} holds in the history that breaks it"
            )
        return shown

    def _shown(self, walk: Walk, sources: Sources, name: str, state: Any = None) -> Violation:
        history = executed(self.behaviours, sources)
        found = walk.commit_order(sources, state)
        order, reached = _commits(found)
        if found is None or not allowed(history, walk.levels, order):
            raise IsoldeError(
                f"a mistake of Isolde itself, please report it: no order of commits explains {sources} at {walk.levels}"
            )
        left = None if state is None else state_after(history, order[:reached])
        return Violation(name, history, order, reached, left, interleaving(history, order))


_GREW = "new versions were found"


def _commits(found: tuple[list[tuple[int, bool]], int] | None) -> tuple[tuple[int, ...], int]:
    if found is None:
        return (), 0
    steps, reached = found
    order = tuple(transaction for transaction, commits in steps if commits)
    return order, sum(commits for _, commits in steps[:reached])


def _length(violation: Violation) -> tuple[int, int]:
    return len(violation.history), sum(len(entry.trace.events) for entry in violation.history)
