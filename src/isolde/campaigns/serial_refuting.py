"""Counterexamples to robustness: interleavings in which transactions do what they do in no order one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

from isolde.campaigns.refuting import SECONDS, STATES_MAX, Call, Refuter, Rows, Witness
from isolde.campaigns.store import StoreOptions, shown_violation
from isolde.engines.explore.on_store import Explored, Outcome, StoreExploration, Violation
from isolde.engines.explore.program import Program

AS_ALONE = "serial behaviour"
_COMMITTED = "committed"
Answers = tuple[tuple[Any, ...], tuple[tuple[str, tuple[Any, ...]], ...]]
"""What the statements of each committed transaction returned, and the rows that are left."""


@dataclass(eq=False)
class SerialRefuter(Refuter):
    """``witness`` is an outcome that no order of the committed transactions has: other answers, or other rows at the end."""

    _serial: dict[tuple[str, str], Answers | None] = field(default_factory=dict)

    def witness(self, rows: Rows, calls: tuple[Call, ...], levels: Mapping[str, str]) -> Witness | None:
        program = self._program(rows, [(call,) for call in calls])
        options = StoreOptions(self.store, self.levels[0], levels, self.settings, True, STATES_MAX, SECONDS)
        found = self._explored(program, levels)
        self.explored += 1
        for outcome, schedule in found.outcomes.items():
            if not self._as_in_some_order(rows, calls, outcome, levels):
                state = {table: list(left) for table, left in outcome.rows}
                broken, played = shown_violation(program, options, Violation(AS_ALONE, schedule, state))
                return Witness(rows, calls, broken, played)
        return None

    def _program(self, rows: Rows, sessions: list[tuple[Call, ...]]) -> Program:
        parts = {part.name: part.transaction for part in self.application.parts}
        called = [[(parts[name], *arguments) for name, arguments in session] for session in sessions]
        return Program(sessions=called, application=self.application, rows=rows)

    def _explored(self, program: Program, levels: Mapping[str, str]) -> Explored:
        called = {call.name: levels[call.name] for call in program.calls}
        exploration = StoreExploration(program, self.store, self.levels[0], called, self.settings)
        return exploration.explore(states_max=STATES_MAX, time_s=SECONDS)

    def _as_in_some_order(
        self, rows: Rows, calls: tuple[Call, ...], outcome: Outcome, levels: Mapping[str, str]
    ) -> bool:
        done = [session[0] if session else ((), "") for session in outcome.transactions]
        committed = [place for place, (_, end) in enumerate(done) if end == _COMMITTED]
        if not committed:
            # What nobody committed is nothing.
            return True
        for order in permutations(committed):
            serial = self._in_order(rows, tuple(calls[place] for place in order), levels)
            if serial == (tuple(done[place][0] for place in order), outcome.rows):
                return True
        return False

    def _in_order(self, rows: Rows, calls: tuple[Call, ...], levels: Mapping[str, str]) -> Answers | None:
        """What calls do one after the other; ``None`` if one of them fails then."""
        index = (repr(rows), repr(calls))
        if index not in self._serial:
            self._serial[index] = self._alone(rows, calls, levels)
        return self._serial[index]

    def _alone(self, rows: Rows, calls: tuple[Call, ...], levels: Mapping[str, str]) -> Answers | None:
        found = self._explored(self._program(rows, [calls]), levels)
        for outcome in found.outcomes:
            (session,) = outcome.transactions
            if all(end == _COMMITTED for _, end in session):
                return tuple(answers for answers, _ in session), outcome.rows
        return None
