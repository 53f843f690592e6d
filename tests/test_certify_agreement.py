"""The check with a certificate agrees with the definition: on random histories with predicates, at every level."""

from __future__ import annotations

import pytest

from certifying import LEVELS, verdicts
from definition.certificates import Definition
from definition.key_certificates import KeyDefinition, random_keys
from definition.predicate_histories import random_case


def _agree(seeds: range) -> None:
    told: set[tuple[str, bool | None]] = set()
    for seed in seeds:
        history, certificate = random_case(seed)
        session_order = seed % 5 != 0
        expected = Definition(history, certificate).verdicts(session_order=session_order)
        found = verdicts(history, certificate, session_order=session_order)
        for level in LEVELS:
            # The definition of the strict levels needs no times; a history that lacks some leaves them open.
            if found[level] is not None and expected[level] is not None:
                assert found[level] == expected[level], f"seed {seed}, {level}"
            told.add((level, found[level]))
    assert {(level, verdict) for level in LEVELS[1:] for verdict in (True, False)} <= told


def test_verdicts_are_those_of_the_definition() -> None:
    _agree(range(250))


@pytest.mark.long
@pytest.mark.parametrize("part", range(12))
def test_verdicts_are_those_of_the_definition_on_many_histories(part: int) -> None:
    _agree(range(1_000 * (part + 1), 1_000 * (part + 2)))


def _agree_on_keys(seeds: range) -> None:
    for seed in seeds:
        history, certificate = random_keys(seed)
        expected = KeyDefinition(history, certificate).verdicts()
        found = verdicts(history, certificate, tuple(expected))
        assert found == expected, f"seed {seed}"


def test_verdicts_over_keys_are_those_of_the_definition() -> None:
    _agree_on_keys(range(400))


@pytest.mark.long
def test_verdicts_over_keys_are_those_of_the_definition_on_many_histories() -> None:
    _agree_on_keys(range(1_000, 6_000))
