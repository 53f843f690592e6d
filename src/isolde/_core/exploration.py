"""The explorer of the core: transactions, keys, values and stretches of behaviour are numbers here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from isolde._core import _native
from isolde._core.entry import THREADS
from isolde.errors import UsageError

INITIAL = -1
"""The source of a read that saw the initial value."""
Sources = list[tuple[int, list[int]]]
"""A history: each transaction, in the order in which they ran, with whom its reads read from."""
State = list[tuple[int, int]]
"""Keys that were written, and their values."""
End = Literal["read", "commit", "abort"]
Watched = Literal["nothing", "final", "each-commit"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """What a transaction does from one read of others' writes to the next: its writes, then its end.

    ``steps`` counts the writes and the reads of own writes. ``key`` is what is read at its end, if that is a read.
    """

    steps: int
    writes: tuple[tuple[int, int], ...]
    end: End
    key: int
    failed_check: int | None


@dataclass(frozen=True, slots=True)
class ExplorationCounts:
    """``explored`` calls of EXPLORE, complete executions, histories that the levels allow, executions that led nowhere,
    behaviours beyond the level compared against.
    """

    explored: int
    end_states: int
    histories: int
    fruitless: int
    beyond: int


@dataclass(frozen=True, slots=True)
class ExplorationQuestion:
    """``levels`` by transaction. ``plain``: without partial-order reduction. ``shown_max``: how many histories that
    ``against`` does not allow are kept."""

    sessions: tuple[int, ...]
    steering: str
    levels: tuple[str, ...]
    against: tuple[str, ...] | None = None
    plain: bool = False
    watched: Watched = "nothing"
    collect: bool = False
    shown_max: int = 100
    threads: int = THREADS


class Exploration:
    """An exploration that goes on until it has to be told something."""

    def __init__(self, question: ExplorationQuestion) -> None:
        try:
            self._native = _native.Exploration(
                sessions=list(question.sessions),
                steering=question.steering,
                levels=list(question.levels),
                against=None if question.against is None else list(question.against),
                plain=question.plain,
                watched=question.watched,
                collect=question.collect,
                shown_max=question.shown_max,
                threads=question.threads,
            )
        except ValueError as error:
            raise UsageError(f"this cannot be explored: {error}") from None

    def add_key(self, initial: int) -> int:
        """Tells the value that the next key has at first; its number."""
        return self._native.add_key(initial)

    def add_root(self, transaction: int, stretch: Stretch) -> int:
        """Tells how a transaction begins; the number of the stretch."""
        return self._native.add_root(transaction, *_columns(stretch))

    def add_after(self, parent: int, value: int, stretch: Stretch) -> int:
        """Tells what comes after a value is read at the end of a stretch; the number of the new stretch."""
        return self._native.add_after(parent, value, *_columns(stretch))

    def run(self, calls_max: int) -> bool:
        """Goes on for about so many calls, or until something must be told; whether nothing is left."""
        return self._native.run(calls_max)

    def requests(self) -> list[tuple[int, int]]:
        """The stretches, and the values read at their ends, after which it is not known what comes."""
        return self._native.requests()

    def estimate(self, kept_max: int, executions_max: int) -> bool:
        """Goes on with estimating how many calls there are in all; whether one more estimate is finished.

        The first one keeps ``kept_max`` executions of each level of the tree, each later one twice as many. It stops after
        ``executions_max``, or when something must be told.
        """
        return self._native.estimate(kept_max, executions_max)

    def estimated(self) -> float | None:
        """The mean of the estimates that are finished; those that kept more count more."""
        return self._native.estimated()

    def counts(self) -> ExplorationCounts:
        return ExplorationCounts(*self._native.counts())

    def unjudged(self) -> list[State]:
        """Final states that nobody has judged yet."""
        return self._native.unjudged()

    def judge(self, verdicts: Sequence[tuple[State, int | None]]) -> None:
        """Says of states which check fails on them, or that none does."""
        self._native.judge(list(verdicts))

    def failed(self) -> list[tuple[int, Sources, State | None]]:
        """Of each check that failed, the shortest history, and the state if it failed on one."""
        return self._native.failed()

    def beyond(self) -> list[Sources]:
        """Histories that the levels compared against do not allow, the shortest first."""
        return self._native.beyond()

    def collected(self) -> list[Sources]:
        """Histories that were not handed over yet."""
        return self._native.collected()

    def commit_order(self, history: Sources, state: State | None) -> tuple[list[tuple[int, bool]], int] | None:
        """A commit order of a complete history, one that goes through the state if one is given; ``None`` if there is none.

        Each step is a transaction and whether it commits (or aborts) there; otherwise it takes its snapshot. The number says
        how many steps lead to the state.
        """
        try:
            return self._native.commit_order(history, state)
        except ValueError as error:
            raise UsageError(f"the history does not fit the program: {error}") from None

    def left(self) -> list[tuple[Sources, bool]]:
        """What is left: executions, and whether the last transaction is pending. The exploration stands still afterwards."""
        return self._native.left()

    def restore(self, history: Sources, pending: bool) -> tuple[int, int] | None:
        """Goes on from an execution; or the stretch, and the value read at its end, that must be told first."""
        try:
            return self._native.restore(history, pending)
        except ValueError as error:
            raise UsageError(f"the checkpoint does not fit the program: {error}") from None

    def restore_counts(self, counts: ExplorationCounts) -> None:
        """Counts go on from here."""
        self._native.restore_counts(
            (counts.explored, counts.end_states, counts.histories, counts.fruitless, counts.beyond)
        )


def _columns(stretch: Stretch) -> tuple[int, list[tuple[int, int]], str, int, int | None]:
    return stretch.steps, list(stretch.writes), stretch.end, stretch.key, stretch.failed_check


def exploration_levels() -> list[str]:
    """The levels that the core can explore, weakest first."""
    return _native.exploration_levels()
