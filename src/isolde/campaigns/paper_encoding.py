"""``infer --encoding paper``: the proofs of ACIDifier (POPL 2018) in its own encoding, for comparison on its examples."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from isolde.campaigns.infer import Inference, InferOptions
from isolde.errors import OutsideFragment, UsageError
from isolde.findings import Evidence, Finding, NotProved, Proof, Report, SafeAt, Verdict, WeakestLevel
from isolde.workloads.application import Application

if TYPE_CHECKING:
    from isolde.engines.infer.forgetting import Forgetting

_METHOD = "figure-10"


def paper_encoding(application: Application, options: InferOptions) -> Report:
    """For each transaction the weakest level that the paper's own reasoning proves."""
    if not options.database.startswith("paper-"):
        named = "--database paper-postgresql or paper-mysql"
        raise UsageError(f"--encoding paper is about the levels of the paper: {named}, not {options.database}")
    return _PaperEncoding(application, replace(options, from_populate=False)).report()


class _PaperEncoding(Inference):
    def report(self) -> Report:
        from isolde.engines.infer.forgetting import Forgetting

        forgetting = Forgetting(self.problem, self.options.query_seconds)
        self.problem.uncarried = dict(forgetting.uncarried)
        self.kept = list(forgetting.records.invariants)
        reason = self._not_all(forgetting)
        if reason:
            return self._whole([self._open(name, reason) for name in self.problem.transactions], [], complete=False)
        findings = [self._weakest(name, forgetting) for name in self.problem.transactions]
        levels = {
            finding.question.transaction: one.level
            for finding in findings
            for one in finding.evidence
            if isinstance(one, SafeAt) and isinstance(finding.question, WeakestLevel)
        }
        assignments = [levels] if len(levels) == len(findings) else []
        return self._whole(findings, assignments, complete=False)

    def _not_all(self, forgetting: Forgetting) -> str:
        """Why nothing is proved of anybody: some transaction or all invariants are outside of the encoding."""
        refused = {name: one.refused for name, one in self.problem.transactions.items() if one.refused}
        for name in self.writers:
            if name not in refused:
                try:
                    forgetting.weakened(self.problem.transactions[name])
                except OutsideFragment as error:
                    refused[name] = error.what
        if refused:
            listed = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
            return (
                f"not all transactions are in the paper's encoding ({listed}), so what others do meanwhile is not known"
            )
        if not forgetting.records.invariants:
            return "no invariant is in the paper's encoding"
        return ""

    def _weakest(self, name: str, forgetting: Forgetting) -> Finding:
        question, order = WeakestLevel(name), list(self.options.candidates)
        if name not in self.writers:
            nothing = Proof("it writes nothing, so it breaks nothing", ())
            safe = SafeAt(order[0], self.levels[order[0]].means)
            return Finding(question, Verdict.SATISFIED, _METHOD, self._spent(), (safe, nothing))
        weaker: list[Evidence] = []
        for level in order:
            self.options.told(f"{name} at {level}")
            broken = forgetting.broken(self.problem.transactions[name], self.levels[level])
            if not broken:
                text = "what it leaves, put over any state that satisfies the invariants, satisfies them"
                proof = Proof(text, (f"invariants: {', '.join(self.kept)}", *self._left_out(forgetting)))
                safe = SafeAt(level, self.levels[level].means)
                return Finding(question, Verdict.SATISFIED, _METHOD, self._spent(), (safe, proof, *weaker))
            weaker.append(NotProved(f"no proof ({', '.join(broken)})", level))
        return self._open(name, f"no proof at any level ({', '.join(forgetting.uncarried) or 'its invariants'})")

    @staticmethod
    def _left_out(forgetting: Forgetting) -> tuple[str, ...]:
        return tuple(f"not {name}: {reason}" for name, reason in forgetting.uncarried.items())
