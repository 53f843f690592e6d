"""An exploration in shares: subtrees that are walked elsewhere, and what was found there put together again.

A share is a part of what a walk left (``Left.executions``): executions to go on from, which no other share comes to. Numbers of
keys, values and checks differ from process to process, so that what is found is told by transactions and by names of checks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from isolde._core.exploration import ExplorationCounts, Sources
from isolde.engines.explore.behaviours import Node
from isolde.engines.explore.checkpoint import Checkpoint
from isolde.engines.explore.evidence import executed, state_after
from isolde.engines.explore.explore import Explored, Explorer, Listening
from isolde.engines.explore.invariants import FIRST
from isolde.engines.explore.question import Question
from isolde.engines.explore.search import SHOWN_MAX, Found, Left, Limits, Walk, Walked

Executions = tuple[tuple[Sources, bool], ...]
NOTHING_COUNTED = ExplorationCounts(0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Share:
    """Executions to go on from, and what is known of the bodies, round by round."""

    executions: Executions
    rounds: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True, slots=True)
class Broken:
    """A history in which a check (of the program, or inside of a transaction) fails.

    ``committed``: the commits, in order, that lead to the state on which it fails, if it is about a state.
    """

    check: str
    of_program: bool
    sources: Sources
    committed: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class ShareFound:
    """What came of a share. ``left`` is what there was no time for."""

    counts: ExplorationCounts
    broken: tuple[Broken, ...]
    histories: tuple[Sources, ...]
    beyond: tuple[Sources, ...]
    listed: tuple[Sources, ...]
    left: Executions
    bodies: int


def explored_share(
    explorer: Explorer, question: Question, share: Share, limits: Limits, *, listing: bool
) -> ShareFound:
    """Walks through a share in this process."""
    explorer.again(share.rounds)
    listening = Listening(listed=lambda _: None) if listing else Listening()
    resumed = Checkpoint(Left(share.executions, NOTHING_COUNTED, 0.0), (), (), share.rounds)
    walk, walked, listed = explorer.walked(question, limits, listening, resumed)
    return ShareFound(
        walked.counts,
        tuple(_told(explorer, walk, found) for found in walked.failed),
        tuple(sources for _, sources in explorer.invariants.broken_histories()),
        walked.beyond,
        tuple(listed),
        () if walked.complete else walk.left(walked.seconds).executions,
        len(explorer.behaviours.nodes),
    )


def _told(explorer: Explorer, walk: Walk, found: Found) -> Broken:
    of_program = found.check >= FIRST
    name = explorer.invariants.names[found.check - FIRST] if of_program else explorer.behaviours.checks[found.check][1]
    committed = None
    if found.state is not None:
        order = walk.commit_order(found.sources, found.state)
        assert order is not None, "a state of a history has commits that lead to it"
        steps, reached = order
        committed = tuple(transaction for transaction, commits in steps[:reached] if commits)
    return Broken(name, of_program, found.sources, committed)


class Joining:
    """An exploration that was begun here (``first``) and goes on in shares."""

    def __init__(self, explorer: Explorer, first: Explored) -> None:
        assert first.left is not None, "an exploration that is over has no shares"
        self._explorer, self._first = explorer, first
        judge = explorer.invariants.judge if explorer.invariants else None
        self._walk = Walk(explorer.program, explorer.behaviours, first.question, judge=judge, collect=False, threads=1)
        self.counts = first.counts
        self.rounds = first.left.rounds
        self.executions = first.left.left.executions
        """What the first walk left."""
        self._bodies = first.bodies_run
        self._failed = {one.check: one for one in first.left.failed}
        self._beyond = list(first.left.beyond)

    def add(self, part: ShareFound) -> None:
        """Adds what came of a share, but for what it left."""
        mine, more = self.counts, part.counts
        self.counts = ExplorationCounts(
            mine.explored + more.explored,
            mine.end_states + more.end_states,
            mine.histories + more.histories,
            mine.fruitless + more.fruitless,
            mine.beyond + more.beyond,
        )
        self._bodies = max(self._bodies, part.bodies)
        rank = self._explorer.rank
        for broken in part.broken:
            found = self._numbered(broken)
            known = self._failed.get(found.check)
            if known is None or rank(found.sources) < rank(known.sources):
                self._failed[found.check] = found
        for sources in part.histories:
            self._explorer.invariants.break_history(sources, rank(sources)[0])
        self._beyond = sorted([*self._beyond, *part.beyond], key=rank)[:SHOWN_MAX]

    def _numbered(self, broken: Broken) -> Found:
        """With the numbers that checks, keys and values have here."""
        explorer, known = self._explorer, self._explorer.behaviours
        self._walk.follow(broken.sources)
        if broken.of_program:
            check = FIRST + explorer.invariants.names.index(broken.check)
        else:
            check = known.checks.number(("check", broken.check))
        state = None
        if broken.committed is not None:
            written = state_after(executed(known, broken.sources), broken.committed)
            state = sorted((known.keys.number(key), known.values.number(value)) for key, value in written.items())
        return Found(check, broken.sources, state)

    def whole(self, stopped: str, seconds: float, left: Executions) -> Explored:
        """The exploration as if it had been done here; ``stopped`` says why something is left."""
        walked = Walked(
            self.counts,
            tuple(found for _, found in sorted(self._failed.items())),
            tuple(self._beyond),
            not stopped,
            stopped,
            seconds,
        )
        remaining = Left(left, self.counts, seconds) if stopped else None
        explored = self._explorer.explored(self._first.question, self._walk, walked, remaining)
        return replace(explored, bodies_run=max(self._bodies, explored.bodies_run))
