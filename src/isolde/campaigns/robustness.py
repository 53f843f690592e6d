"""Which is the weakest level at which each transaction behaves as if it ran alone? No invariants: robustness, by ``infer``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from isolde.campaigns.infer import Inference, InferOptions
from isolde.findings import Finding, NotProved, Proof, Refused, Report, WeakestLevel
from isolde.workloads.application import Application

if TYPE_CHECKING:
    from isolde.engines.infer.prove import Assignment
    from isolde.engines.infer.robust import RobustProver
    from isolde.engines.infer.search import Refute, Search


def robustness(application: Application, options: InferOptions) -> Report:
    """For each transaction the weakest level at which what all of them commit is what they do one after the other."""
    return RobustInference(replace(application, invariants=()), options).report()


class RobustInference(Inference):
    """One question about robustness, as far as it has been answered."""

    def __init__(self, application: Application, options: InferOptions) -> None:
        from isolde.engines.infer.problem import Problem

        super().__init__(application, replace(options, invariants=(), from_populate=False))
        self.problem = Problem(self.application, (), options.transactions, options.database, exact=True)

    def report(self) -> Report:
        refused = {name: one.refused for name, one in self.problem.transactions.items() if one.refused}
        if refused:
            listed = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
            reason = f"not all transactions are in the fragment ({listed}), so what others do meanwhile is not known"
            return self._whole([self._open(name, reason) for name in self.problem.transactions], [], complete=False)
        search = self._searched()
        chosen = search.minimal[0] if search.minimal else None
        findings = [self._robust(name, chosen, search) for name in self.problem.transactions]
        return self._whole(findings, search.minimal, complete=False)

    def prover(self) -> RobustProver:
        """What proves that an assignment of levels to all transactions is as good as running them one after the other."""
        from isolde.engines.infer.candidates import candidates
        from isolde.engines.infer.obligations import Obligations
        from isolde.engines.infer.robust import RobustProver

        listed = {one.name: one for one in candidates(self.problem)}
        obligations = Obligations(
            self.problem, listed, {}, self.options.query_seconds, self._directory(), self.options.told, self._cache()
        )
        self.obligations = obligations
        return RobustProver(obligations, self.levels, self.problem.transactions)

    def _searched(self) -> Search:
        from isolde.engines.infer.search import Search

        names = list(self.problem.transactions)
        search = Search(self.prover(), names, list(self.options.candidates), self._refute(names), self.deadline)
        search.from_above()
        return search

    def _refute(self, names: list[str]) -> Refute:
        from isolde.campaigns.serial_refuting import SerialRefuter

        options = self.options
        if options.database.startswith("paper-"):
            return lambda *_: []
        levels = list(options.candidates)
        refuter = SerialRefuter(
            self.application, options.database, options.settings, levels, names, self.deadline, told=options.told
        )
        return refuter.refute

    def _robust(self, name: str, chosen: Assignment | None, search: Search) -> Finding:
        if chosen is None:
            return self._open(name, "no assignment of levels to all transactions could be proved")
        order = list(self.options.candidates)
        found: list[Proof | NotProved | Refused] = [
            Proof(
                "every statement reads what it would read if the transaction ran alone at the moment of its commit",
                (f"the rules of {self.options.database} at its levels, as isolde.levels has them",),
            )
        ]
        for level in order[: order.index(chosen[name])]:
            lower = chosen | {name: level}
            search.judged(lower)
            nogood = search.refused(lower)
            if nogood is not None:
                found.append(self._refused(level, nogood))
                continue
            failures = search.prover.attempt(lower).failures
            listed = ", ".join(sorted({one.transaction for one in failures}))
            found.append(NotProved(f"reads of {listed} may be others at the commit", level))
        return self._proved(WeakestLevel(name), chosen[name], tuple(found))
