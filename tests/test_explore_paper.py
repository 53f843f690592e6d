"""The examples of Bouajjani, Enea and Román-Calvo (PLDI 2023) and of what was found wrong or open in it.

The numbers of histories come from exhaustive enumeration, which is run again here. Where a figure's drawing says less than a
program, the program is the smallest that the text around the figure describes.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from definition.explorations import INITIAL, LEVELS, Body, History, Log, complete_histories, run
from exploring import Sketch, Step, explore
from isolde.engines.explore.question import Question

EXTENSIBLE = ("rc", "ra", "cc")
RANDOM_HISTORIES = 3_000


def sketch(text: str) -> Sketch:
    """A program as people write it: ``[r x; w y 1; if 3 w z 2; abort]; [r y] || [w x 3]``; ``if 3``: after reading 3."""

    def step(words: list[str]) -> Step:
        match words:
            case ["if", value, *rest]:
                return "if", int(value), step(rest)
            case ["r", key]:
                return "read", key
            case ["w", key, *value]:
                return "write", key, int(value[0]) if value else 1
            case ["abort"]:
                return ("abort",)
        raise AssertionError(words)

    sessions = tuple(
        tuple(
            tuple(step(part.split()) for part in transaction.split(";"))
            for transaction in re.findall(r"\[(.*?)\]", session)
        )
        for session in text.split("||")
    )
    return Sketch(sessions, dict.fromkeys(re.findall(r"\b[rw] (\w+)", text), 0))


@dataclass(frozen=True)
class Example:
    """A program and the numbers of its histories at rc, ra, cc, pc, si and ser."""

    name: str
    text: str
    histories: tuple[int, int, int, int, int, int]


EXAMPLES = (
    Example("figure 3", "[w x 1] || [r x; w x 2] || [r x; r y] || [r x; w y 1]", (36, 36, 31, 31, 30, 24)),
    Example("figure 5", "[w x 2; w y 2] || [r x; r y]", (3, 2, 2, 2, 2, 2)),
    Example("figure 6", "[r x; w x 1] || [r x; w x 2]", (3, 3, 3, 3, 2, 2)),
    Example("figure 7", "[w x 1; w y 1] || [w x 2] || [w x 3; w z 1] || [r y; r z; r x]", (13, 9, 9, 9, 9, 9)),
    Example("figure 8", "[w x 3]; [r x; if 3 w y 1] || [r x; r y; if 1 w x 4]", (6, 4, 3, 3, 3, 3)),
    Example("figure 10", "[r x; r y] || [w x 2; w y 2]", (3, 2, 2, 2, 2, 2)),
    Example("figure 11", "[r x; if 0 abort; w y 1] || [r x; r y] || [w y 3]; [r y; w x 4]", (20, 10, 7, 7, 7, 7)),
    Example("figure 12", "[r x] || [w x 1] || [r x] || [w x 2]", (9, 9, 9, 9, 9, 9)),
    Example("figure 13", "[r x] || [r y] || [w y 2] || [w x 2]", (4, 4, 4, 4, 4, 4)),
    Example("theorem 6.1", "[r x; w y 1] || [r y; w x 1]", (3, 3, 3, 3, 3, 2)),
    Example("a swapped read as printed loses one", "[r x; r y] || [w y 1] || [w y 2]; [w x 1]", (6, 6, 5, 5, 5, 5)),
    Example(
        "prefix is not extensible",
        "[r q] || [w x] || [w y]; [r x] || [r x; w k] || [r k; r y; w q]",
        (32, 32, 32, 30, 30, 30),
    ),
    Example("two writers of one value", "[r x] || [w x 7] || [w x 7]", (3, 3, 3, 3, 3, 3)),
    Example("what aborted transactions read", "[r x; abort] || [w x 1]; [w x 2]", (3, 3, 3, 3, 3, 3)),
    Example("an own write read, then aborted", "[r x; w x 2; r x; abort] || [w x 1]", (2, 2, 2, 2, 2, 2)),
    Example("own writes are no choice", "[w x 1; r x; r y] || [w x 2; w y 2]", (2, 2, 2, 2, 2, 2)),
    Example("two reads of one key", "[r x; r x] || [w x 1] || [w x 2]", (7, 3, 3, 3, 3, 3)),
    Example("the initial values are a source", "[w x 1]; [r x] || [w x 2]; [r x]", (9, 3, 3, 3, 3, 3)),
)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples_have_the_histories_of_the_definition(example: Example) -> None:
    program = sketch(example.text)
    every = complete_histories(program.bodies, program.initial)
    assert every is not None
    for level, count in zip(LEVELS, example.histories, strict=True):
        expected = {history.sources for history in every if history.satisfies(level)}
        assert len(expected) == count, level
        explored = explore(program, Question(level))
        assert len(explored.histories) == count, level
        assert explored.found == expected, level
        if level in EXTENSIBLE:
            assert explored.walked.counts.fruitless == 0, level


# The histories that the text speaks of: whom each read reads from, transaction by transaction.
NAMED = (
    ("figure 3: t3 reads x from t1 although t4, which it reads, knows t2", "figure 3", ((), (0,), (0, 3), (1,)), "ra"),
    ("figure 5: half of a transaction", "figure 5", ((), (0, INITIAL)), ""),
    ("figure 10: the newer read first", "figure 10", ((1, INITIAL), ()), ""),
    ("figure 10: the newer read second", "figure 10", ((INITIAL, 1), ()), "rc"),
    ("figure 11: t1 sees t4 and commits", "figure 11", ((3,), (3, 0), (), (2,)), "ser"),
    ("theorem 6.1: write skew", "theorem 6.1", ((INITIAL,), (INITIAL,)), "si"),
    ("figure 6: lost update", "figure 6", ((INITIAL,), (INITIAL,)), "pc"),
    ("erratum 1", "a swapped read as printed loses one", ((3, 1), (), (), ()), "ser"),
)


@pytest.mark.parametrize(("name", "example", "sources", "strongest"), NAMED, ids=[row[0] for row in NAMED])
def test_a_named_history_is_found_up_to_its_strongest_level(
    name: str, example: str, sources: tuple[tuple[int, ...], ...], strongest: str
) -> None:
    (text,) = (entry.text for entry in EXAMPLES if entry.name == example)
    for place, level in enumerate(LEVELS):
        allowed = strongest != "" and place <= LEVELS.index(strongest)
        assert (sources in explore(sketch(text), Question(level)).found) == allowed, f"{name} at {level}"


# Properties of levels, on histories as lists of events: ("r", key, source) and ("w", key).

Event = tuple[Any, ...]


def history_of(events: Mapping[int, Sequence[Event]], session: tuple[int, ...]) -> History:
    """The history of these events; what a pending transaction has written counts. A transaction without events is not in it."""
    logs = {}
    for t, own in events.items():
        if not own:
            continue
        reads = tuple((event[1], event[2]) for event in own if event[0] == "r")
        writes = {} if ("abort",) in own else {event[1]: t for event in own if event[0] == "w"}
        logs[t] = Log(reads, writes, len(own))
    return History(logs, session)


def random_events(random_: random.Random) -> tuple[dict[int, list[Event]], tuple[int, ...]]:
    """A few transactions one after the other, each reading from any that wrote before it."""
    session = tuple(sorted(random_.choices(range(3), k=random_.randrange(2, 6))))
    turns = random_.sample(session, k=len(session))
    queues = {own: [t for t, other in enumerate(session) if other == own] for own in set(session)}
    events: dict[int, list[Event]] = {}
    for t in (queues[own].pop(0) for own in turns):
        own: list[Event] = []
        for _ in range(random_.randrange(1, 5)):
            key = random_.choice("xyz")
            if ("w", key) in own:
                continue
            writers = [other for other, done in events.items() if ("w", key) in done]
            own.append(("w", key) if random_.random() < 0.5 else ("r", key, random_.choice([INITIAL, *writers])))
        events[t] = own
    return events, session


def prefix_of(
    events: Mapping[int, list[Event]], session: Sequence[int], random_: random.Random
) -> dict[int, list[Event]]:
    """A random part of a history that holds, with an event, all that came before it in po, so and wr."""
    cut = {t: random_.randrange(len(own) + 1) for t, own in events.items()}
    changed = True
    while changed:
        before = dict(cut)
        for t, own in events.items():
            if not cut[t]:
                continue
            for other in events:
                if other < t and session[other] == session[t]:
                    cut[other] = len(events[other])
            for event in own[: cut[t]]:
                if event[0] == "r" and event[2] != INITIAL:
                    source = event[2]
                    cut[source] = max(cut[source], events[source].index(("w", event[1])) + 1)
        changed = cut != before
    return {t: own[: cut[t]] for t, own in events.items()}


def drawn(count: int) -> Iterator[tuple[random.Random, dict[int, list[Event]], tuple[int, ...]]]:
    for seed in range(count):
        random_ = random.Random(seed)
        events, session = random_events(random_)
        yield random_, events, session


@pytest.mark.parametrize("level", LEVELS)
def test_levels_are_prefix_closed(level: str) -> None:
    kept = 0
    for random_, events, session in drawn(RANDOM_HISTORIES):
        if not history_of(events, session).satisfies(level):
            continue
        part = prefix_of(events, session, random_)
        assert history_of(part, session).satisfies(level), (events, part)
        kept += 1
    assert kept > RANDOM_HISTORIES // 10


@pytest.mark.parametrize("level", EXTENSIBLE)
def test_pending_transactions_that_nobody_depends_on_can_go_on(level: str) -> None:
    tried = 0
    for random_, complete, session in drawn(RANDOM_HISTORIES):
        events = prefix_of(complete, session, random_)
        history = history_of(events, session)
        if not history.satisfies(level):
            continue
        maximal = [t for t in history.logs if not any(t in past for past in history.causal.values())]
        for t in maximal:
            for key in "xyz":
                written = {**events, t: [*events[t], ("w", key)]}
                assert history_of(written, session).satisfies(level), (events, t, key)
                if ("w", key) in events[t]:
                    continue
                past = [other for other in history.causal[t] if key in history.logs[other].written]
                extended = ({**events, t: [*events[t], ("r", key, source)]} for source in (INITIAL, *past))
                assert any(history_of(other, session).satisfies(level) for other in extended), (events, t, key)
                tried += 1
    assert tried > RANDOM_HISTORIES


def test_dropping_an_abort_can_make_a_history_inconsistent() -> None:
    """Theorem 3.2 holds for prefixes that do not take an abort away: what the aborted transaction wrote would count."""
    session = (0, 1)
    whole = {0: [("r", "x", INITIAL), ("w", "y"), ("abort",)], 1: [("r", "y", INITIAL), ("w", "x")]}
    pending = {**whole, 0: whole[0][:-1]}
    assert history_of(whole, session).satisfies("ser")
    assert not history_of(pending, session).satisfies("ser")
    assert history_of(pending, session).satisfies("si")


def stuck(program: Sketch, level: str) -> list[History]:
    """Executions, one transaction pending, that a level allows, but none of their causal extensions to the next read or the end."""
    bodies = [body for session in program.bodies for body in session]
    session = tuple(program.session)
    found = []
    met = set()
    waiting: list[dict[int, Log]] = [{}]

    def prefix(t: int, sources: tuple[int, ...], logs: Mapping[int, Log]) -> tuple[Log, Any]:
        ran = along(bodies[t], sources, logs, program.initial)
        key = ran.keys[-1] if ran.waits else None
        return Log(tuple(zip(ran.keys, sources, strict=False)), ran.written, 0), key

    while waiting:
        logs = waiting.pop()
        for t in range(len(bodies)):
            earlier = [other for other in range(t) if session[other] == session[t]]
            if t in logs or not all(other in logs for other in earlier):
                continue
            pending: list[tuple[int, ...]] = [()]
            while pending:
                sources = pending.pop()
                log, key = prefix(t, sources, logs)
                history = History({**logs, t: log}, session)
                if not history.satisfies(level):
                    continue
                if key is None:
                    mark = frozenset((number, entry.reads) for number, entry in history.logs.items())
                    if mark not in met:
                        met.add(mark)
                        waiting.append(dict(history.logs))
                    continue
                writers = [other for other in logs if key in logs[other].written]
                pending.extend((*sources, source) for source in (INITIAL, *writers))
                causal = [INITIAL, *(other for other in writers if other in history.causal[t])]
                longer = [prefix(t, (*sources, source), logs)[0] for source in causal]
                if not any(History({**logs, t: log}, session).satisfies(level) for log in longer):
                    found.append(history)
    return found


def along(body: Body, sources: Sequence[int], logs: Mapping[int, Log], initial: Mapping[Any, Any]) -> Any:
    answers: list[Any] = []
    for source in sources:
        key = run(body, answers).keys[len(answers)]
        answers.append(initial.get(key) if source == INITIAL else logs[source].written[key])
    return run(body, answers)


NOT_EXTENSIBLE = (
    ("figure 6", ("si", "ser")),
    ("theorem 6.1", ("ser",)),
    ("prefix is not extensible", ("pc",)),
)


@pytest.mark.parametrize(("name", "levels"), NOT_EXTENSIBLE)
def test_levels_above_causal_have_executions_that_cannot_go_on(name: str, levels: tuple[str, ...]) -> None:
    (text,) = (entry.text for entry in EXAMPLES if entry.name == name)
    program = sketch(text)
    for level in levels:
        assert stuck(program, level), level
    for level in EXTENSIBLE:
        assert not stuck(program, level), level


def test_no_order_of_steps_avoids_fruitless_executions_at_snapshot_isolation_and_serializable() -> None:
    """Theorem 6.1: both reads of the initial value are allowed, whichever transaction comes first; the writes are then not."""
    both = {0: [("r", "x", INITIAL)], 1: [("r", "x", INITIAL)]}
    done = {t: [*own, ("w", "x")] for t, own in both.items()}
    for level in ("si", "ser"):
        assert history_of(both, (0, 1)).satisfies(level)
        assert not history_of(done, (0, 1)).satisfies(level)
    assert history_of(done, (0, 1)).satisfies("pc")


@pytest.mark.parametrize("level", ["pc", "si", "ser"])
def test_filtering_keeps_the_histories_of_the_level_alone(level: str) -> None:
    for example in EXAMPLES:
        counts = explore(sketch(example.text), Question(level)).walked.counts
        causal = example.histories[LEVELS.index("cc")]
        assert (counts.end_states, counts.histories) == (causal, example.histories[LEVELS.index(level)]), example.name
