"""Assignments of levels: proofs by a rely that every transaction keeps, and the minimal assignments that are safe.

The rely is found by Houdini: all candidates at first; one that some transaction breaks at its level, assuming the others, is
dropped, until every transaction keeps all that are left. Then the invariants are asked for under what is left. It is an induction
over commits: all earlier commits kept the invariants and the rely, so this one does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from isolde.engines.infer.mutual import Mutual
from isolde.engines.infer.obligations import Obligations
from isolde.engines.infer.problem import SERIAL, TransactionProblem
from isolde.levels.specifications import Specification

Assignment = dict[str, str]
"""The level of each transaction, by name."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An invariant that could not be shown to survive a transaction. ``state``: the solver has a state that breaks it."""

    transaction: str
    invariant: str
    state: bool


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of proving an assignment: nothing failed, or what did. ``rely``: what all transactions keep."""

    failures: tuple[Failure, ...]
    rely: frozenset[str] = frozenset()

    @property
    def proved(self) -> bool:
        return not self.failures


@dataclass(eq=False)
class Prover:
    """Proves assignments. ``levels``: what the candidate levels mean, by name, weakest first."""

    obligations: Obligations
    levels: Mapping[str, Specification]
    transactions: Mapping[str, TransactionProblem]
    _attempts: dict[tuple[tuple[str, str], ...], Attempt] = field(default_factory=dict)
    _narrowed: bool = False

    def __post_init__(self) -> None:
        self._all = dict(self.obligations.candidates)

    def serially(self, name: str) -> list[Failure]:
        """The invariants that a transaction may break even if it runs alone."""
        return self._broken(self.transactions[name], SERIAL, frozenset())

    def can_commit(self, name: str) -> bool:
        """Whether some way through a transaction that writes can be gone at all: else every proof about it says nothing."""
        cases = self.obligations.cases(self.transactions[name], SERIAL)
        return any(case.written and case.solver.check() == "sat" for case in cases)

    def attempt(self, assignment: Assignment) -> Attempt:
        index = tuple(sorted(assignment.items()))
        if index not in self._attempts:
            self._attempts[index] = self._attempt(assignment)
        return self._attempts[index]

    def _attempt(self, assignment: Assignment) -> Attempt:
        weaker = self._without_peers(assignment)
        if weaker != assignment and self.attempt(weaker).proved:
            # Who is serializable among its peers does nothing that it would not do at the snapshot that this rests on.
            return self.attempt(weaker)
        chosen = self.specifications(assignment)
        rely = self.rely(chosen)
        failures: list[Failure] = []
        for name, level in chosen.items():
            failures += self._broken(self.transactions[name], level, rely)
        return Attempt(tuple(failures), rely)

    def _without_peers(self, assignment: Assignment) -> Assignment:
        """The assignment with a level that protects among peers replaced by the same one without that, where there is one."""
        plain = {(one.reads, one.writes): name for name, one in self.levels.items() if not one.mutual}
        levels = {name: self.levels[level] for name, level in assignment.items()}
        return {
            name: plain.get((one.reads, one.writes), assignment[name]) if one.mutual else assignment[name]
            for name, one in levels.items()
        }

    def specifications(self, assignment: Assignment) -> dict[str, Specification]:
        """What the levels mean together: where all that write are serializable among each other, it is as if one by one."""
        chosen = {name: self.levels[level] for name, level in assignment.items()}
        writing = [name for name in chosen if not self.transactions[name].reads_only]
        peers = frozenset(name for name in writing if chosen[name].mutual)
        if peers == set(writing):
            return dict.fromkeys(chosen, SERIAL)
        if peers:
            level = chosen[next(iter(peers))]
            named = replace(level, database=f"{level.database} with {' '.join(sorted(peers))}")
            obligations = self.obligations
            obligations.mutual.setdefault(
                named.database,
                Mutual(obligations.problem, peers, level, self._all),
            )
            chosen |= dict.fromkeys(peers, named)
        return chosen

    def rely(self, chosen: Mapping[str, Specification]) -> frozenset[str]:
        """The candidates that all transactions keep at their levels."""
        self._narrow()
        rely = frozenset(self.obligations.candidates)
        while True:
            left = rely
            for name, level in chosen.items():
                left -= self.obligations.broken_candidates(self.transactions[name], level, left, left)
            if left == rely:
                return rely
            rely = left

    def _narrow(self) -> None:
        """Leaves out what some transaction breaks even alone: it does so at every level."""
        if self._narrowed:
            return
        self._narrowed = True
        obligations = self.obligations
        names = frozenset(obligations.candidates)
        for transaction in self.transactions.values():
            if not transaction.reads_only:
                names -= obligations.broken_candidates(transaction, SERIAL, names, frozenset())
        obligations.candidates = {name: one for name, one in obligations.candidates.items() if name in names}

    def _broken(self, transaction: TransactionProblem, level: Specification, rely: frozenset[str]) -> list[Failure]:
        found = []
        for condition in self.obligations.conditions.values():
            answer = self.obligations.answer(transaction, level, condition, rely)
            if answer.status != "proved":
                found.append(Failure(transaction.name, condition.name, answer.status == "broken"))
        return found


def below(one: Mapping[str, str], other: Mapping[str, str], order: Mapping[str, int]) -> bool:
    """Whether no level of the first is stronger than that of the second."""
    return all(order[one[name]] <= order[other[name]] for name in one)


def by_strength(names: Iterable[str], levels: Iterable[str]) -> list[Assignment]:
    """All assignments, weaker ones first."""
    from itertools import product

    listed, order = list(names), list(levels)
    found = [dict(zip(listed, chosen, strict=True)) for chosen in product(order, repeat=len(listed))]
    return sorted(found, key=lambda one: sum(order.index(level) for level in one.values()))
