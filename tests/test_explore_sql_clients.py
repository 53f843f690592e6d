"""The clients over SQL of the five applications: drawn by a seed, and explored at every level."""

from __future__ import annotations

from typing import Any

import pytest

from definition.explorations import LEVELS
from isolde.engines.explore.explore import Explorer
from isolde.engines.explore.program import Program, populated
from isolde.engines.explore.question import Question
from isolde.engines.explore.search import Limits
from isolde.workloads.clients.sql import SIZES, sql_clients


@pytest.mark.parametrize("name", SIZES)
def test_a_smaller_client_is_the_beginning_of_the_larger(name: str) -> None:
    clients = sql_clients(name)
    large = clients.sessions(3, 3, 3)
    assert large == clients.sessions(3, 3, 3)
    assert large != clients.sessions(4, 3, 3)
    assert clients.sessions(3, 2, 1) == [session[:1] for session in large[:2]]


@pytest.mark.parametrize("name", SIZES)
def test_small_clients_are_explored_at_every_level(name: str) -> None:
    """A stronger level has no more histories, and each level has one: that of the sessions one after the other."""
    clients = sql_clients(name)
    rows = populated(clients.rows())
    for seed in range(2):
        calls: Any = clients.sessions(seed, 2, 1)
        explorer = Explorer(Program(calls, application=clients.application, rows=rows))
        found = [explorer.ask(Question(level), Limits(threads=1)) for level in LEVELS]
        assert all(explored.complete for explored in found)
        histories = [explored.counts.histories for explored in found]
        assert histories[-1] >= 1
        assert histories == sorted(histories, reverse=True), (seed, histories)
