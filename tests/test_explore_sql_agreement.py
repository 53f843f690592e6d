"""Programs over a table: the outcomes that the explorer finds are those of exhaustive enumeration, at every level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from definition import sql_explorations as definition
from isolde.engines.explore.explore import Explorer, Listening
from isolde.engines.explore.program import Program
from isolde.engines.explore.question import Question
from isolde.semantics.concrete import Store
from isolde.tx.dialects import Dialect
from isolde.tx.python import Transaction
from isolde.tx.sql import schema

LEVELS = ("rc", "ra", "cc", "pc", "si", "ser")
ROWS = {1: (1, 0, 5), 2: (2, 1, None)}
_STATEMENTS = (
    "SELECT v FROM t WHERE id = {k}",
    "SELECT id, v FROM t WHERE v > {c}",
    "SELECT COUNT(*) FROM t",
    "SELECT SUM(v) FROM t WHERE w IS NULL",
    "SELECT COUNT(*) FROM t WHERE v = {c} AND w = 5",
    "UPDATE t SET v = v + 1 WHERE id = {k}",
    "UPDATE t SET v = {c} WHERE v < {c}",
    "UPDATE t SET w = 5",
    "UPDATE t SET id = {n} WHERE id = {k}",
    "INSERT INTO t (id, v, w) VALUES ({n}, {c}, NULL)",
    "INSERT INTO t (id, v, w) VALUES ({n}, {c}, 5) ON CONFLICT (id) DO UPDATE SET v = t.v + 1",
    "INSERT INTO t (id, v, w) VALUES ({k}, {c}, 5) ON CONFLICT DO NOTHING",
    "DELETE FROM t WHERE id = {k}",
    "DELETE FROM t WHERE v > {c}",
    "SELECT a.id FROM t a JOIN t b ON a.v = b.v AND a.id < b.id",
    "SELECT id FROM t WHERE v = (SELECT MAX(v) FROM t)",
    "SELECT id FROM t ORDER BY v DESC, id LIMIT 1",
)

Plan = list[tuple[str, str]]
"""Statements, each with what it depends on: ``always``, ``some`` or ``none``, if the one before gave rows; ``abort``."""


def _plan(random: Random, most: int) -> Plan:
    plan: Plan = []
    for number in range(random.randint(1, most)):
        text = random.choice(_STATEMENTS).format(
            k=random.choice((1, 2)), n=random.choice((2, 3)), c=random.randint(0, 2)
        )
        when = "always" if number == 0 else random.choice(("always", "always", "some", "none"))
        plan.append((text, when))
    if random.random() < 0.1:
        plan.append(("abort", random.choice(("always", "some"))))
    return plan


def _follow(plan: Plan, run: Callable[[str], tuple[bool, Any]], abort: Callable[[], Any]) -> None:
    gave_rows = True
    for text, when in plan:
        if (when == "some" and not gave_rows) or (when == "none" and gave_rows):
            continue
        if text == "abort":
            abort()
        gave_rows, _ = run(text)


def _sessions(random: Random) -> list[list[Plan]]:
    while True:
        sizes = [random.randint(1, 2) for _ in range(random.randint(2, 3))]
        if sum(sizes) > 3:
            continue
        sessions = [[_plan(random, 2) for _ in range(size)] for size in sizes]
        if sum(len(plan) for session in sessions for plan in session) <= (4 if sum(sizes) == 3 else 5):
            return sessions


def _program(sessions: Sequence[Sequence[Plan]], invariant: Callable[[Any], bool]) -> Program:
    def function(plan: Plan) -> Transaction:
        def body(tx: Any) -> None:
            def run(text: str) -> tuple[bool, Any]:
                answer = tx.run(text, {})
                return (len(answer.rows) if text.startswith("SELECT") else answer.count) > 0, answer

            _follow(plan, run, lambda: tx.abort("no"))

        return Transaction(body, Dialect.POSTGRESQL)

    return Program(
        sessions=[[function(plan) for plan in session] for session in sessions],
        tables=definition.DDL,
        rows={"t": list(ROWS.values())},
        invariant=invariant,
    )


def _explored(sessions: Sequence[Sequence[Plan]], level: str) -> tuple[set[Any], set[Any]]:
    states: set[Any] = set()

    def note(state: Any) -> bool:
        states.add(tuple(sorted((tuple(row) for row in state["t"]), key=repr)))
        return True

    outcomes: set[Any] = set()

    def listed(history: Any) -> None:
        ordered = sorted(history, key=_number)
        outcomes.add(tuple((one.trace.end, tuple(map(_given, one.trace.statements))) for one in ordered))

    explored = Explorer(_program(sessions, note)).ask(Question(level), listening=Listening(listed=listed))
    assert explored.complete
    return outcomes, states


def _number(entry: Any) -> int:
    return int(entry.number)


def _given(ran: Any) -> Any:
    if ran.error:
        return ("error", ran.error)
    return tuple(sorted(ran.rows or (), key=repr)), ran.count


def _defined(sessions: Sequence[Sequence[Plan]]) -> Callable[[str], tuple[set[Any], set[Any]]]:
    def body(plan: Plan) -> Any:
        def follow(handle: definition.Handle) -> None:
            def run(text: str) -> tuple[bool, Any]:
                answer = handle.run(text)
                return (len(answer[0]) if text.startswith("SELECT") else answer[1]) > 0, answer

            def abort() -> None:
                raise definition.Aborted

            _follow(plan, run, abort)

        return follow

    found = list(definition.histories([[body(plan) for plan in session] for session in sessions], ROWS))

    def at(level: str) -> tuple[set[Any], set[Any]]:
        outcomes, states = set(), set()
        for history, outcome, written in found:
            orders = list(history.obeying([level] * len(history.session)))
            if orders:
                outcomes.add(outcome)
            for co in orders:
                rows: dict[Any, Any] = dict(ROWS)
                for t in co:
                    rows |= written[t]
                states.add(tuple(sorted((row for row in rows.values() if row is not None), key=repr)))
        return outcomes, states

    return at


def _agree(seed: int) -> None:
    random = Random(seed)
    sessions = _sessions(random)
    defined = _defined(sessions)
    for level in LEVELS:
        outcomes, states = _explored(sessions, level)
        expected, expected_states = defined(level)
        assert outcomes == expected, (seed, level, sessions, outcomes ^ expected)
        assert states == expected_states, (seed, level, sessions, states ^ expected_states)


def _replayed(history: Any) -> None:
    """Every statement of a history gives the same on a concrete store with the rows that it read."""
    base = Store(schema(definition.DDL, Dialect.POSTGRESQL), Dialect.POSTGRESQL)
    by_number = {entry.number: entry for entry in history}
    for entry in history:
        sources = iter(entry.sources)
        own: dict[Any, Any] = {}
        for ran in entry.trace.statements:
            seen = dict(ROWS) | own
            for event in entry.trace.events[ran.first : ran.last]:
                if event.kind == "read":
                    source = next(sources)
                    known = by_number[source].trace.written if source >= 0 else {}
                    expected = known[event.key] if source >= 0 else ROWS.get(event.key.key)
                    assert event.value == expected
                    seen[event.key.key] = event.value
            rows = [row for row in seen.values() if row is not None]
            answer, written = definition.executed(base, rows, ran.sql)
            assert answer == _given(ran)
            own |= written
        assert not entry.committed or {key.key: row for key, row in entry.trace.written.items()} == own


@pytest.mark.parametrize("seed", range(0, 120, 4))
def test_histories_over_a_table_replay_on_the_concrete_store(seed: int) -> None:
    sessions = _sessions(Random(seed))
    program = _program(sessions, lambda _: False)
    explorer = Explorer(program)
    found: list[Any] = []
    explored = explorer.ask(Question("rc"), listening=Listening(listed=found.append))
    for history in [*found, *(violation.history for violation in explored.violations)]:
        _replayed(history)
    assert explored.violations


@pytest.mark.parametrize("block", range(20))
def test_outcomes_over_a_table_equal_exhaustive_enumeration(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        _agree(seed)


@pytest.mark.long
@pytest.mark.parametrize("block", range(50))
def test_many_outcomes_over_a_table_equal_exhaustive_enumeration(block: int) -> None:
    for seed in range(10_000 + block * 20, 10_000 + block * 20 + 20):
        _agree(seed)
