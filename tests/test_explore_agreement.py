"""The explorer against exhaustive enumeration, on random programs over keys.

For every level the set of histories must be the one of the definition, no history twice; for the levels that steer an
exploration no execution may lead nowhere. The same set must come out whatever the base, the method, the number of threads,
the order of the transactions that the explorer tries first, and wherever it was stopped and resumed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from definition.explorations import LEVELS, History, Sources, complete_histories
from exploring import KEYS, VALUES, Explored, Sketch, Step, canonical, explore
from isolde.engines.explore.question import Question

PROGRAMS = 2_000
LONG_PROGRAMS = 20_000
LARGE_PROGRAMS = 2_000
BATCH = 100
STEERING = ("rc", "ra", "cc")


@dataclass(frozen=True)
class Size:
    """How large a program may be so that it can still be enumerated."""

    transactions_max: int
    histories_max: int
    orders_max: int


SMALL = Size(transactions_max=6, histories_max=60, orders_max=1_200)
LARGE = Size(transactions_max=7, histories_max=300, orders_max=12_000)


def all_histories(sketch: Sketch, size: Size) -> list[History] | None:
    """All histories of complete executions; ``None`` if they, or their commit orders, are too many."""
    if not 3 <= len(sketch.transactions) <= size.transactions_max:
        return None
    histories = complete_histories(sketch.bodies, sketch.initial, histories_max=size.histories_max)
    if histories is None or sum(len(history.commit_orders) for history in histories) > size.orders_max:
        return None
    return histories


def random_step(random_: random.Random, keys: int) -> Step:
    key = random_.choice(KEYS[:keys])
    step: Step = random_.choices(
        [
            ("read", key),
            ("write", key, random_.randrange(VALUES)),
            ("add", key),
            ("read at",),
            ("write at", random_.randrange(VALUES)),
            ("abort",),
        ],
        weights=[9, 7, 3, 2, 1, 1],
    )[0]
    return ("if", random_.randrange(VALUES), step) if random_.random() < 0.2 else step


def random_sketch(random_: random.Random) -> Sketch:
    keys = random_.choice([1, 2, 2, 3])
    return Sketch(
        tuple(
            tuple(
                tuple(random_step(random_, keys) for _ in range(random_.choice([1, 2, 2, 3, 4])))
                for _ in range(random_.choice([1, 1, 2, 3]))
            )
            for _ in range(random_.choice([2, 2, 3, 3, 4]))
        )
    )


def enumerated(random_: random.Random, size: Size) -> tuple[Sketch, list[History]]:
    """A program that leaves a choice, and all its histories."""
    while True:
        sketch = random_sketch(random_)
        histories = all_histories(sketch, size)
        if histories is not None and len(histories) > 1:
            return sketch, histories


def sources_of(histories: Sequence[History]) -> set[Sources]:
    return {history.sources for history in histories}


def expect_same(what: str, explored: Explored, expected: set[Sources]) -> None:
    twice = len(explored.histories) - len(explored.found)
    missing, wrong = expected - explored.found, explored.found - expected
    assert (twice, missing, wrong) == (0, set(), set()), what
    assert explored.walked.counts.histories == len(expected), what


def random_levels(random_: random.Random, sketch: Sketch) -> list[str]:
    return [random_.choice(LEVELS) for _ in sketch.transactions]


def mixed(levels: Sequence[str]) -> Question:
    return Question("cc", levels={f"t{number}": level for number, level in enumerate(levels)})


def random_oracle(random_: random.Random, sketch: Sketch) -> list[int]:
    """An order of the transactions that keeps the order inside sessions."""
    places = sketch.session
    random_.shuffle(places)
    queues = {s: [t for t, own in enumerate(sketch.session) if own == s] for s in set(places)}
    return [queues[s].pop(0) for s in places]


def check_levels(sketch: Sketch, histories: list[History]) -> None:
    for level in LEVELS:
        explored = explore(sketch, Question(level))
        expected = [history for history in histories if history.satisfies(level)]
        expect_same(level, explored, sources_of(expected))
        counts = explored.walked.counts
        if level in STEERING:
            assert counts.fruitless == 0, level
            assert counts.end_states == counts.histories, level
        else:
            assert counts.end_states == sum(history.satisfies("cc") for history in histories), level


def check_walks(sketch: Sketch, histories: list[History], random_: random.Random) -> None:
    """Other ways to walk give the same set."""
    level = random_.choice(LEVELS)
    expected = sources_of([history for history in histories if history.satisfies(level)])
    steering = level if level in STEERING else "cc"
    bases = ("trivial", *STEERING[: STEERING.index(steering) + 1])
    base = random_.choice(bases)
    explored = explore(sketch, Question(level, base=base))
    expect_same(f"{level} by {base}", explored, expected)
    weaker = histories if base == "trivial" else [history for history in histories if history.satisfies(base)]
    assert explored.walked.counts.end_states == len(weaker), f"{level} by {base}"
    expect_same(f"{level} dfs", explore(sketch, Question(level, method="dfs")), expected)

    one, two = (explore(sketch, Question(level), threads=threads) for threads in (1, 2))
    expect_same(f"{level} with two threads", two, expected)
    for counts in ("explored", "end_states", "histories", "fruitless"):
        assert getattr(one.walked.counts, counts) == getattr(two.walked.counts, counts), counts

    oracle = random_oracle(random_, sketch)
    other = explore(sketch, Question(level), oracle=oracle)
    expect_same(f"{level} by the oracle order {oracle}", other, expected)
    if level in STEERING:
        assert other.walked.counts.fruitless == 0, oracle

    calls = one.walked.counts.explored
    stops = sorted(random_.sample(range(1, calls), k=min(calls - 1, random_.choice([1, 2, 4]))))
    resumed = explore(sketch, Question(level, base=base), stops=stops, threads=random_.choice([1, 2]))
    expect_same(f"{level} by {base}, stopped after {stops}", resumed, expected)
    assert resumed.walked.counts == explored.walked.counts, stops


def check_mixed_levels(sketch: Sketch, histories: list[History], random_: random.Random) -> None:
    levels = random_levels(random_, sketch)
    expected = [history for history in histories if history.satisfies(levels)]
    explored = explore(sketch, mixed(levels), states=True)
    expect_same(f"mixed {levels}", explored, sources_of(expected))
    assert explored.states == set().union(*(history.final_states(levels) for history in expected)), levels
    on_the_way = explore(sketch, replace(mixed(levels), states="each-commit"), states=True)
    assert on_the_way.states == set().union(*(history.states_on_the_way(levels) for history in expected)), levels


def check_states(sketch: Sketch, histories: list[History], random_: random.Random) -> None:
    """The states of every commit order, and the shortest history that leaves a bad one."""
    level = random_.choice(LEVELS)
    allowed = [history for history in histories if history.satisfies(level)]
    final = {history.sources: history.final_states(level) for history in allowed}
    way = {history.sources: history.states_on_the_way(level) for history in allowed}
    for question, expected in ((Question(level), final), (Question(level, states="each-commit"), way)):
        every = set().union(*expected.values())
        bad = random_.choice(sorted(every, key=sorted))
        explored = explore(sketch, question, states=True, bad=bad)
        assert explored.states == every, question
        (failed,) = explored.walked.failed
        shown = canonical(failed.sources, range(len(sketch.transactions)))
        assert bad in expected[shown], question
        shortest = min(history.events for history in allowed if bad in expected[history.sources])
        (history,) = (history for history in allowed if history.sources == shown)
        assert history.events == shortest, question
        prefix = explored.order
        assert history.state(prefix) == bad, question
        # The rest of the order follows; some order with this beginning must fulfil the axioms.
        orders = history.obeying([level] * len(sketch.transactions))
        assert any(list(co[: len(prefix)]) == prefix for co in orders), (question, prefix)


def check_robustness(sketch: Sketch, histories: list[History], random_: random.Random) -> None:
    level = random_.choice(LEVELS[:-1])
    against = random_.choice(LEVELS[LEVELS.index(level) + 1 :])
    explored = explore(sketch, Question(level, against=against))
    beyond = [h for h in histories if h.satisfies(level) and not h.satisfies(against)]
    assert explored.walked.counts.beyond == len(beyond), (level, against)
    shown = [canonical(sources, range(len(sketch.transactions))) for sources in explored.walked.beyond]
    assert len(set(shown)) == len(shown) == min(len(beyond), 20)
    lengths = {history.sources: history.events for history in beyond}
    assert [lengths[sources] for sources in shown] == sorted(lengths.values())[: len(shown)], (level, against)


def check_batch(first: int, count: int, size: Size) -> None:
    for seed in range(first, first + count):
        random_ = random.Random(seed)
        sketch, histories = enumerated(random_, size)
        try:
            check_levels(sketch, histories)
            check_walks(sketch, histories, random_)
            check_mixed_levels(sketch, histories, random_)
            check_states(sketch, histories, random_)
            check_robustness(sketch, histories, random_)
        except Exception as error:
            raise AssertionError(f"program {seed}: {sketch}") from error


@pytest.mark.parametrize("batch", range(PROGRAMS // BATCH))
def test_the_explorer_finds_what_exhaustive_enumeration_finds(batch: int) -> None:
    check_batch(batch * BATCH, BATCH, SMALL)


@pytest.mark.long
@pytest.mark.parametrize("batch", range(LONG_PROGRAMS // BATCH))
def test_the_explorer_finds_what_exhaustive_enumeration_finds_in_more_programs(batch: int) -> None:
    check_batch(1_000_000 + batch * BATCH, BATCH, SMALL)


@pytest.mark.long
@pytest.mark.parametrize("batch", range(LARGE_PROGRAMS // BATCH))
def test_the_explorer_finds_what_exhaustive_enumeration_finds_in_larger_programs(batch: int) -> None:
    check_batch(2_000_000 + batch * BATCH, BATCH, LARGE)
