"""Programs over keys as data, and the one place where tests call the explorer."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from definition.explorations import Body, Sources, State
from isolde.engines.explore.behaviours import Behaviours
from isolde.engines.explore.bodies import KeyBodies
from isolde.engines.explore.program import Program
from isolde.engines.explore.question import Question
from isolde.engines.explore.search import Limits, Walk, Walked

KEYS = ("x", "y", "z")
VALUES = 3

Step = tuple[Any, ...]


@dataclass(frozen=True)
class Sketch:
    """A program as data: sessions of transactions, each a list of steps."""

    sessions: tuple[tuple[tuple[Step, ...], ...], ...]
    initial: Mapping[Hashable, int] = field(default_factory=lambda: dict.fromkeys(KEYS, 0))

    @property
    def transactions(self) -> list[tuple[Step, ...]]:
        return [steps for session in self.sessions for steps in session]

    @property
    def session(self) -> list[int]:
        return [number for number, session in enumerate(self.sessions) for _ in session]

    def program(self) -> Program:
        bodies = iter([_named(f"t{number}", steps) for number, steps in enumerate(self.transactions)])
        return Program([[next(bodies) for _ in session] for session in self.sessions], initial=self.initial)

    @property
    def bodies(self) -> list[list[Body]]:
        """The transactions for the definition."""
        return [[partial(play, steps=steps) for steps in session] for session in self.sessions]

    def __str__(self) -> str:
        return " || ".join("; ".join(map(str, session)) for session in self.sessions)


def _named(name: str, steps: tuple[Step, ...]) -> Callable[[Any], None]:
    def body(tx: Any) -> None:
        play(tx, steps)

    body.__name__ = name
    return body


def play(tx: Any, steps: Sequence[Step]) -> None:
    """Runs the steps of a transaction. ``last`` is what it read last; ``at`` is the key that this value points to."""
    last = 0
    for step in steps:
        while step[0] == "if":
            step = step[2] if last == step[1] else ("skip",)
        match step:
            case ("read", key):
                last = tx.read(key)
            case ("read at",):
                last = tx.read(KEYS[last % len(KEYS)])
            case ("write", key, value):
                tx.write(key, value)
            case ("write at", value):
                tx.write(KEYS[last % len(KEYS)], value)
            case ("add", key):
                tx.write(key, (last + 1) % VALUES)
            case ("abort",):
                tx.abort()


@dataclass
class Explored:
    """What an exploration gave: histories in the order found, states that were judged."""

    walked: Walked
    histories: list[Sources] = field(default_factory=list)
    states: set[State] = field(default_factory=set)
    order: list[int] = field(default_factory=list)
    """The beginning of a commit order that leaves the state that was judged bad, if one was."""

    @property
    def found(self) -> set[Sources]:
        return set(self.histories)


def canonical(sources: Sequence[tuple[int, Sequence[int]]], numbers: Sequence[int]) -> Sources:
    """The history by transaction numbers, where the explorer's transaction i is number ``numbers[i]``."""
    named = {numbers[t]: tuple(-1 if source < 0 else numbers[source] for source in read) for t, read in sources}
    return tuple(named[t] for t in sorted(named))


def explore(
    sketch: Sketch,
    question: Question,
    *,
    threads: int = 1,
    states: bool = False,
    bad: State | None = None,
    oracle: Sequence[int] | None = None,
    stops: Sequence[int] = (),
) -> Explored:
    """Explores a program. ``stops``: after so many calls the walk is put away, and a new one goes on.

    ``oracle``: the order in which transactions are tried. ``bad``: the state that is judged bad.
    """
    program = sketch.program()
    numbers = range(len(program.calls)) if oracle is None else oracle
    object.__setattr__(program, "calls", tuple(program.calls[number] for number in numbers))
    judged: set[State] = set()

    def judge(state: Mapping[Any, Any]) -> int | None:
        judged.add(frozenset(state.items()))
        return 7 if frozenset(state.items()) == bad else None

    found: list[Any] = []

    def walk() -> Walk:
        behaviours = Behaviours(program.calls, KeyBodies(program.initial))
        return Walk(program, behaviours, question, judge=judge if states else None, collect=True, threads=threads)

    current = walk()
    for stop in stops:
        walked = current.go(Limits(calls_max=stop), progress=lambda _: None, listed=found.append)
        left = current.left(walked.seconds)
        current = walk()
        current.resume(left)
    walked = current.go(Limits(), progress=lambda _: None, listed=found.append)
    assert walked.complete

    order: list[int] = []
    for failed in walked.failed:
        explained = current.native.commit_order(failed.sources, failed.state)
        assert explained is not None
        steps, reached = explained
        assert sum(commits for _, commits in steps) == len(program.calls)
        order = [numbers[t] for t, commits in steps[:reached] if commits]
    return Explored(walked, [canonical(sources, numbers) for sources in found], judged, order)
