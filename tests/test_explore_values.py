"""Values that Python says are equal and a program can tell apart, and keys that are written alike."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from isolde import Program, explore
from isolde.engines.explore.values import identity
from isolde.findings import BrokenInvariant
from isolde.history import Read

Point = namedtuple("Point", "x")


@dataclass(frozen=True)
class Box:
    held: Any
    note: str = field(default="", compare=False)


NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
PAIRS = [
    (1, True),
    (0.0, -0.0),
    (Decimal("1.0"), Decimal("1.00")),
    ((1, (2,)), (1, (2.0,))),
    (frozenset({1}), frozenset({True})),
    (Point(1), Point(True)),
    (Box(1), Box(1.0)),
    (Box(1, "a"), Box(1, "b")),
    (Box(Point(0)), Box(Point(False))),
    (NOON, NOON.astimezone(timezone(timedelta(hours=1)))),
]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_equal_values_that_differ_lead_on_to_different_runs(one: Any, other: Any) -> None:
    assert one == other
    assert identity(one) != identity(other)
    assert identity(one) == identity(one)

    def put(tx: Any, value: Any) -> None:
        tx.write("x", value)

    def show(tx: Any) -> None:
        tx.write("seen", repr(tx.read("x")))

    def unseen(shown: str) -> Callable[[Any], bool]:
        return lambda state: bool(state["seen"] != shown)

    for value in (one, other):
        program = Program([[(put, one)], [(put, other)], [show]], invariant=unseen(repr(value)))
        assert not explore(program, level="ser").satisfied, value


def test_keys_that_are_written_alike_are_not_taken_for_each_other() -> None:
    def write(tx: Any) -> None:
        tx.write("(1,)", 5)
        tx.write((1,), 6)

    def read(tx: Any) -> None:
        tx.check(tx.read((1,)) != 6 or tx.read("(1,)") != 5, "seen")

    (finding,) = explore(Program([[write], [read]]), level="ser").findings
    (broken,) = finding.evidence
    assert isinstance(broken, BrokenInvariant)
    assert broken.anomaly is None
    assert broken.history is not None
    ops = broken.history.transactions[1].ops
    assert [(op.key, op.value) for op in ops if isinstance(op, Read)] == [("(1,)", 6), ("'(1,)'", 5)]
