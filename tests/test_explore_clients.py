"""The clients of the five applications: drawn by a seed, and explored as exhaustive enumeration says."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from definition.explorations import LEVELS, complete_histories
from exploring import canonical
from isolde._core.exploration import ExplorationCounts
from isolde.engines.explore import search
from isolde.engines.explore.behaviours import Behaviours
from isolde.engines.explore.bodies import KeyBodies
from isolde.engines.explore.program import Program
from isolde.engines.explore.question import Question
from isolde.engines.explore.search import Limits, Progress, Walk
from isolde.workloads.clients import CLIENTS


@pytest.mark.parametrize("name", CLIENTS)
def test_a_smaller_client_is_the_beginning_of_the_larger(name: str) -> None:
    clients = CLIENTS[name]
    large = clients.sessions(3, 5, 5)
    assert large == clients.sessions(3, 5, 5)
    assert large != clients.sessions(4, 5, 5)
    assert clients.sessions(3, 2, 4) == [session[:4] for session in large[:2]]


@pytest.mark.parametrize("name", CLIENTS)
def test_small_clients_have_the_histories_of_the_definition(name: str) -> None:
    clients = CLIENTS[name]
    for seed in range(4):
        sessions, initial = clients.sessions(seed, 2, 2), clients.initial()
        bodies = [[partial(_called, call) for call in session] for session in sessions]
        every = complete_histories(bodies, initial)
        assert every is not None
        program = Program(sessions, initial=initial)
        for level in LEVELS:
            found: list[Any] = []
            behaviours = Behaviours(program.calls, KeyBodies(program.initial))
            walk = Walk(program, behaviours, Question(level), judge=None, collect=True, threads=1)
            walked = walk.go(Limits(), progress=lambda _: None, listed=found.append)
            expected = sorted(history.sources for history in every if history.satisfies(level))
            assert sorted(canonical(sources, range(4)) for sources in found) == expected, (seed, level)
            assert walked.complete


def test_an_estimate_changes_nothing_but_what_is_known_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = CLIENTS["courseware"]
    program = Program(clients.sessions(4, 3, 3), initial=clients.initial())

    def walked(estimated_from_s: float) -> tuple[ExplorationCounts, float | None]:
        monkeypatch.setattr(search, "_ESTIMATED_FROM_S", estimated_from_s)
        monkeypatch.setattr(search, "_CALLS_AT_ONCE", 500)
        seen: list[Progress] = []
        behaviours = Behaviours(program.calls, KeyBodies(program.initial))
        walk = Walk(program, behaviours, Question("cc"), judge=None, collect=False, threads=1)
        return walk.go(Limits(), progress=seen.append, listed=lambda _: None).counts, seen[-1].calls_in_all

    (without, unknown), (counts, about) = walked(1e9), walked(0.0)
    assert (without, unknown) == (counts, None)
    assert about is not None
    assert counts.explored / 10 < about < counts.explored * 10


def _called(call: tuple[Any, ...], tx: Any) -> None:
    function, *arguments = call
    function(tx, *arguments)
