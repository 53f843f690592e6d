"""Which is the weakest level at which each transaction is safe? Proofs by ``infer``, counterexamples by ``explore``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isolde.errors import UsageError
from isolde.findings import (
    ApplicationSubject,
    Assignments,
    BrokenInvariant,
    Finding,
    NotProved,
    Proof,
    Refused,
    Report,
    SafeAt,
    Spent,
    Verdict,
    WeakestLevel,
)
from isolde.levels.specifications import CANDIDATES, specification
from isolde.levels.stores import store_settings
from isolde.workloads.application import Application

if TYPE_CHECKING:
    from isolde.engines.infer.prove import Assignment, Failure, Prover
    from isolde.engines.infer.search import Nogood, Search

_METHOD = "rely-guarantee"


@dataclass(frozen=True, slots=True)
class InferOptions:
    """What is asked: a database by name with its settings, which invariants and transactions (all if none are named).

    ``candidates`` are the levels that are tried, weakest first. ``seconds`` bounds the search for assignments,
    ``query_seconds`` each question to the solver. ``smtlib``: a directory for the questions.
    """

    database: str
    settings: Mapping[str, str] = field(default_factory=dict)
    invariants: Sequence[str] = ()
    transactions: Sequence[str] = ()
    candidates: Sequence[str] = CANDIDATES
    seconds: float | None = None
    query_seconds: float = 5.0
    smtlib: str | None = None
    told: Callable[[str], None] = lambda _: None


def infer(application: Application, options: InferOptions) -> Report:
    """Everything that can be said about the levels of an application's transactions on a database."""
    return Inference(application, options).report()


class Inference:
    """One question, as far as it has been answered."""

    def __init__(self, application: Application, options: InferOptions) -> None:
        from isolde.engines.infer.problem import Problem

        self.options, self.began = options, time.monotonic()
        _refuse_unknown("invariant", options.invariants, [one.name for one in application.invariants])
        _refuse_unknown("transaction", options.transactions, [part.name for part in application.parts])
        self.levels = {level: specification(options.database, level, options.settings) for level in options.candidates}
        names = set(options.transactions)
        parts = tuple(part for part in application.parts if not names or part.name in names)
        self.application = replace(application, parts=parts)
        self.problem = Problem(self.application, options.invariants, options.transactions)
        self.writers = [name for name, one in self.problem.transactions.items() if not one.reads_only]
        self.serial: dict[str, list[tuple[Failure, BrokenInvariant | None]]] = {}
        self.kept: list[str] = []
        self.vacuous: list[str] = []

    def report(self) -> Report:
        refused = {name: one.refused for name, one in self.problem.transactions.items() if one.refused}
        if refused:
            listed = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
            reason = f"not all transactions are in the fragment ({listed}), so what others do meanwhile is not known"
            return self._whole([self._open(name, reason) for name in self.problem.transactions], [], complete=False)
        prover = self.kept_alone()
        search = self.search(prover)
        search.run()
        chosen = search.minimal[0] if search.minimal else None
        findings = [self._finding(name, chosen, search) for name in self.problem.transactions]
        weakest = self.options.candidates[0]
        readers = {name: weakest for name in self.problem.transactions if name not in self.writers}
        assignments = [{name: (one | readers)[name] for name in self.problem.transactions} for one in search.minimal]
        return self._whole(findings, assignments, complete=search.complete)

    # One after the other

    def kept_alone(self) -> Prover:
        """A prover with the invariants that every transaction keeps when it runs alone: no other is assumed anywhere."""
        from isolde.engines.infer.candidates import candidates
        from isolde.engines.infer.obligations import Obligations
        from isolde.engines.infer.prove import Prover

        listed = {one.name: one for one in candidates(self.problem)}
        conditions = dict(self.problem.conditions)
        directory = None
        if self.options.smtlib is not None:
            directory = Path(self.options.smtlib)
            directory.mkdir(parents=True, exist_ok=True)
        while True:
            obligations = Obligations(
                self.problem, listed, conditions, self.options.query_seconds, directory, self.options.told
            )
            prover = Prover(obligations, self.levels, self.problem.transactions)
            broken = {name: prover.serially(name) for name in self.writers}
            lost = {failure.invariant for failures in broken.values() for failure in failures}
            for name, failures in broken.items():
                for failure in failures:
                    shown = self._shown_alone(obligations, failure)
                    self.serial.setdefault(name, []).append((failure, shown))
            if not lost:
                self.kept = list(conditions)
                self.vacuous = [name for name in self.writers if not prover.can_commit(name)]
                return prover
            conditions = {name: one for name, one in conditions.items() if name not in lost}

    def _shown_alone(self, obligations: Any, failure: Failure) -> BrokenInvariant | None:
        from isolde.campaigns.serially import broken_alone

        return broken_alone(self.application, self.problem, obligations, failure)

    # Levels

    def search(self, prover: Prover) -> Search:
        from isolde.campaigns.refuting import Refuter
        from isolde.engines.infer.search import Search

        deadline = None if self.options.seconds is None else self.began + self.options.seconds
        judged = replace(
            self.application,
            invariants=tuple(one for one in self.application.invariants if one.name in self.kept),
        )
        levels = list(self.options.candidates)
        refute: Any = lambda *_: []  # noqa: E731
        if not self.options.database.startswith("paper-"):
            refuter = Refuter(judged, self.options.database, self.options.settings, levels, self.writers, deadline)
            refute = refuter.refute
        return Search(prover, self.writers, levels, refute, deadline)

    def _finding(self, name: str, chosen: Assignment | None, search: Search) -> Finding:
        question = WeakestLevel(name)
        shown = [one for _, one in self.serial.get(name, []) if one is not None]
        if shown:
            return Finding(question, Verdict.VIOLATED, _METHOD, self._spent(), tuple(shown))
        reason = self._not_carried(name)
        if reason:
            return self._open(name, reason)
        if name not in self.writers:
            weakest = self.options.candidates[0]
            proof = Proof("it writes nothing, so it breaks nothing", self._assumed())
            return self._proved(question, weakest, (proof,))
        if chosen is None:
            return self._nowhere(name, search)
        level = chosen[name]
        proof = Proof(
            "every commit keeps all invariants, whatever the others commit meanwhile at their levels", self._assumed()
        )
        return self._proved(question, level, (proof, *self._others(name, chosen, search)))

    def _proved(self, question: WeakestLevel, level: str, evidence: tuple[Any, ...]) -> Finding:
        means = self.levels[level].means
        return Finding(question, Verdict.SATISFIED, _METHOD, self._spent(), (SafeAt(level, means), *evidence))

    def _others(self, name: str, chosen: Assignment, search: Search) -> list[Refused | NotProved]:
        """What is known of the other levels of a transaction, the others staying where they are."""
        found: list[Refused | NotProved] = []
        order = list(self.options.candidates)
        for level in order:
            above = order.index(level) > order.index(chosen[name])
            if level == chosen[name]:
                continue
            assignment = chosen | {name: level}
            judged = search.judged(assignment)
            nogood = search.refused(assignment)
            if nogood is not None:
                found.append(self._refused(level, nogood, above=above))
            elif judged != "proved" and not above:
                failures = search.prover.attempt(assignment).failures
                listed = ", ".join(sorted({f"{one.invariant} at {one.transaction}" for one in failures}))
                found.append(NotProved(f"no proof and no counterexample was found ({listed})", level))
        return found

    def _refused(self, level: str, nogood: Nogood, *, above: bool = False) -> Refused:
        calls = " ∥ ".join(
            f"{called}({', '.join(map(repr, arguments))}) at {dict(nogood.levels)[called]}"
            for called, arguments in nogood.witness.calls
        )
        meaning = {one.name: one.meaning for one in self.application.invariants}.get(nogood.invariant, "")
        said = f" ({meaning})" if meaning else ""
        broken: BrokenInvariant = nogood.witness.broken
        return Refused(level, replace(broken, explanation=f"{calls} breaks {nogood.invariant}{said}"), above)

    def _nowhere(self, name: str, search: Search) -> Finding:
        refused: list[Refused | NotProved] = []
        everywhere = True
        for level in self.options.candidates:
            assignment = dict.fromkeys(self.writers, self.options.candidates[-1]) | {name: level}
            nogood = search.refused(assignment)
            if nogood is not None and any(one == name for one, _ in nogood.levels):
                refused.append(self._refused(level, nogood))
            else:
                everywhere = False
                refused.append(NotProved("no assignment of levels to all transactions could be proved", level))
        verdict = Verdict.VIOLATED if everywhere else Verdict.UNDECIDED
        return Finding(WeakestLevel(name), verdict, _METHOD, self._spent(), tuple(refused))

    # The report

    def _not_carried(self, name: str) -> str:
        """Why nothing can be said of a transaction: invariants on what it writes that could not be carried or proved alone."""
        writing = self.problem.transactions[name].writing.tables
        tables = self._tables_of_uncarried()
        reasons = [
            f"invariant {one} is outside of the fragment ({reason})"
            for one, reason in self.problem.uncarried.items()
            if writing & tables[one]
        ]
        if name in self.vacuous:
            reasons.append("no way through it was found that can commit, so that a proof would say nothing")
        reasons += [
            f"{failure.invariant} could not be proved even for transactions one after the other"
            for failure, shown in self.serial.get(name, [])
            if shown is None
        ]
        return "; ".join(dict.fromkeys(reasons))

    def _tables_of_uncarried(self) -> dict[str, frozenset[int]]:
        from isolde.engines.infer.problem import tables_named

        return {name: tables_named(self.problem, name) for name in self.problem.uncarried}

    def _open(self, name: str, reason: str) -> Finding:
        return Finding(WeakestLevel(name), Verdict.UNDECIDED, _METHOD, self._spent(), (NotProved(reason),))

    def _spent(self) -> Spent:
        return Spent(time.monotonic() - self.began)

    def _assumed(self) -> tuple[str, ...]:
        return (
            f"the rules of {self.options.database} at its levels, as isolde.levels has them",
            f"invariants: {', '.join(self.kept) or 'none'}",
        )

    def _whole(self, findings: list[Finding], assignments: list[Assignment], *, complete: bool) -> Report:
        settings = {} if self.options.database.startswith("paper-") else dict(self.options.settings)
        if settings:
            settings = {name: store_settings(self.options.database, settings)[name] for name in settings}
        subject = ApplicationSubject(
            self.application.name,
            self.options.database,
            tuple(settings.items()),
            tuple(one for one in (*self.problem.conditions, *self.problem.uncarried)),
            (
                "any number of instances, any arguments that the types allow, any first state that satisfies the invariants",
                "integers do not overflow into something else: a transaction that would overflow fails",
                *(f"{level}: {one.source}" for level, one in self.levels.items()),
            ),
        )
        listed = tuple(tuple(one.items()) for one in assignments)
        return Report(subject, tuple(findings), facts=(Assignments(listed, complete),))


def _refuse_unknown(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise UsageError(f"--{what} {name}: there is none of that name; there are {', '.join(known)}")
