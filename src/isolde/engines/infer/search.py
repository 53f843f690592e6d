"""The minimal assignments of levels that are safe, from proofs and from counterexamples.

A counterexample needs few transactions at certain levels: it is a nogood, and refuses every assignment that has them. What is
neither proved nor refused stays open, and the list of minimal assignments is then not complete.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from isolde.engines.infer.prove import Assignment, Attempt, Failure, Prover, below, by_strength


@dataclass(frozen=True, slots=True)
class Nogood:
    """Transactions that break an invariant together at these levels; ``witness`` is what shows it."""

    levels: tuple[tuple[str, str], ...]
    invariant: str
    witness: Any

    def refuses(self, assignment: Mapping[str, str]) -> bool:
        return all(assignment.get(name) == level for name, level in self.levels)


Refute = Callable[[Assignment, Sequence[Failure]], list[Nogood]]
"""Looks for counterexamples to an assignment that could not be proved; may find some for other assignments, too."""


@dataclass(eq=False)
class Search:
    """``levels`` are weakest first; ``names`` the transactions that write (those that only read are safe everywhere)."""

    prover: Prover
    names: Sequence[str]
    levels: Sequence[str]
    refute: Refute
    deadline: float | None = None
    nogoods: list[Nogood] = field(default_factory=list)
    minimal: list[Assignment] = field(default_factory=list)
    open: list[Assignment] = field(default_factory=list)
    _given_up: set[tuple[tuple[str, str], ...]] = field(default_factory=set)

    @property
    def complete(self) -> bool:
        """Whether the list of minimal assignments is all there is."""
        return not any(one in self.minimal or not self._above_safe(one) for one in self.open)

    def run(self) -> None:
        order = {level: place for place, level in enumerate(self.levels)}
        for assignment in by_strength(self.names, self.levels):
            if any(below(safe, assignment, order) for safe in self.minimal):
                continue
            if self.refused(assignment) is not None:
                continue
            if self.deadline is not None and time.monotonic() > self.deadline:
                self.open.append(assignment)
                continue
            if self.judged(assignment) == "proved":
                self.minimal.append(assignment)
            elif self.refused(assignment) is None:
                self.open.append(assignment)

        if not self.minimal:
            self.from_above()

    def from_above(self) -> None:
        """Where nothing was proved from below, or time ran out: the weakest level that all may have, then one by one."""
        order = {level: place for place, level in enumerate(self.levels)}
        for all_at in self.levels:
            found = dict.fromkeys(self.names, all_at)
            if self.refused(found) is None and self.prover.attempt(found).proved:
                break
        else:
            return
        for name in self.names:
            for level in self.levels[: order[found[name]]]:
                if self.deadline is not None and time.monotonic() > self.deadline:
                    break
                lower = found | {name: level}
                if self.refused(lower) is None and self.prover.attempt(lower).proved:
                    found = lower
                    break
        self.minimal.append(found)
        self.open.append(found | {})

    def judged(self, assignment: Assignment) -> str:
        """``proved``, ``refused`` or ``open``."""
        if self.refused(assignment) is not None:
            return "refused"
        attempt = self.prover.attempt(assignment)
        if attempt.proved:
            return "proved"
        return self._refuted(assignment, attempt)

    def _refuted(self, assignment: Assignment, attempt: Attempt) -> str:
        index = tuple(sorted(assignment.items()))
        if index not in self._given_up:
            self.nogoods += self.refute(assignment, attempt.failures)
            self._given_up.add(index)
        return "refused" if self.refused(assignment) is not None else "open"

    def refused(self, assignment: Assignment) -> Nogood | None:
        return next((nogood for nogood in self.nogoods if nogood.refuses(assignment)), None)

    def _above_safe(self, assignment: Assignment) -> bool:
        order = {level: place for place, level in enumerate(self.levels)}
        return any(below(safe, assignment, order) for safe in self.minimal)
