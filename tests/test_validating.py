"""Levels that are validated on a real server: in parts it is found what is found in one process."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from isolde.scale import opened_workers

pytestmark = pytest.mark.usefixtures("servers")
SCRIPTS = Path(__file__).parents[1] / "benchmarks"


def test_transactions_that_meet_break_the_same_when_they_are_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SCRIPTS)
    import infer_validate as script

    writers = ("enroll", "deregister")
    plan = script.Plan("courseware", "postgresql", ("I1-student",), writers, many=(6, 0), programs=2, seconds=0)
    parts = [script.Part(plan, meeting) for meeting in plan.meetings()]
    assert [part.meeting for part in parts] == [("enroll",), ("deregister",), writers]
    broken = together(script.done(plan, parts, None))
    with opened_workers("local", 2) as workers:
        assert together(script.done(plan, parts, workers)) == broken
    # Both of them have to be serializable, as they are proved to be.
    pairs = {index: names for index, names in broken.items() if len(index) == 2}
    assert [index for index, names in pairs.items() if not names] == [
        (("deregister", "serializable"), ("enroll", "serializable"))
    ]


def together(found: Iterable[tuple[Any, Any]]) -> dict[Any, set[str]]:
    return {index: names for _, one in found for index, names in one.broken.items()}
