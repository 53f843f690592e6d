"""Which is the weakest level at which each transaction is safe? Proofs by ``infer``, counterexamples by ``explore``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isolde.errors import OutsideError, UsageError
from isolde.findings import (
    ApplicationSubject,
    Assignments,
    BrokenInvariant,
    Finding,
    NotProved,
    Proof,
    Refused,
    Remark,
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
    from isolde.campaigns.refuting import Refuter
    from isolde.engines.infer.cache import Cache
    from isolde.engines.infer.candidates import Candidate
    from isolde.engines.infer.obligations import Obligations
    from isolde.engines.infer.prove import Assignment, Failure, Prover
    from isolde.engines.infer.search import Nogood, Search

_METHOD = "rely-guarantee"


@dataclass(frozen=True, slots=True)
class InferOptions:
    """What is asked: a database by name with its settings, which invariants and transactions (all if none are named).

    ``candidates`` are the levels that are tried, weakest first. ``seconds`` bounds the search for assignments,
    ``query_seconds`` each question to the solver. ``smtlib``: a directory for the questions; ``cache``: one for the answers.
    ``guarantees``: a file of what transactions do to rows at most, proposals for the proof. ``from_populate``: only states count
    that the application's first rows lead to. ``confirm``, ``start``: the server on which counterexamples are executed, by its
    URL, or by its kind if it is to be started.
    """

    database: str
    settings: Mapping[str, str] = field(default_factory=dict)
    invariants: Sequence[str] = ()
    transactions: Sequence[str] = ()
    candidates: Sequence[str] = CANDIDATES
    seconds: float | None = None
    query_seconds: float = 5.0
    smtlib: str | None = None
    cache: str | None = None
    guarantees: str | None = None
    from_populate: bool = False
    confirm: str | None = None
    start: str | None = None
    told: Callable[[str], None] = lambda _: None


def infer(application: Application, options: InferOptions) -> Report:
    """Everything that can be said about the levels of an application's transactions on a database."""
    if options.confirm is None and options.start is None:
        return Inference(application, options).report()
    from isolde.campaigns.confirming import confirmed, refuse_other_database
    from isolde.campaigns.target import Wanted

    refuse_other_database(options.database, options.start)
    report = Inference(application, options).report()
    options.told("executing counterexamples")
    wanted = Wanted(options.confirm, options.start)
    return confirmed(report, application, options.database, options.settings, wanted)


class Inference:
    """One question, as far as it has been answered."""

    def __init__(self, application: Application, options: InferOptions) -> None:
        from isolde.engines.infer.problem import Problem

        self.options, self.began = options, time.monotonic()
        self.deadline = None if options.seconds is None else self.began + options.seconds
        _refuse_unknown("invariant", options.invariants, [one.name for one in application.invariants])
        _refuse_unknown("transaction", options.transactions, [part.name for part in application.parts])
        self.levels = {level: specification(options.database, level, options.settings) for level in options.candidates}
        names = set(options.transactions)
        parts = tuple(part for part in application.parts if not names or part.name in names)
        self.application = replace(application, parts=parts)
        self.problem = Problem(self.application, options.invariants, options.transactions, options.database)
        self._given = (self.application, self.problem)
        if options.from_populate:
            self._derive()
        self.writers = [name for name, one in self.problem.transactions.items() if not one.reads_only]
        self.serial: dict[str, list[tuple[Failure, BrokenInvariant | None]]] = {}
        self.kept: list[str] = []
        self.vacuous: dict[str, str] = {}
        self.obligations: Obligations | None = None

    def _derive(self, *, all_kinds: bool = False) -> None:
        """Adds what the first rows satisfy to what has to be kept, and may be assumed."""
        from isolde.campaigns.reachable import first_conditions
        from isolde.engines.infer.problem import Problem, tables_named

        self.application, self.problem = self._given
        asked = [*self.problem.conditions, *self.problem.uncarried]
        places = frozenset[int]().union(*(one.writing.tables for one in self.problem.transactions.values()))
        places = places.union(*(tables_named(self.problem, one) for one in asked))
        named = {self.problem.table(place).table.name for place in places}
        derived = first_conditions(self.application, self.problem, named, all_kinds=all_kinds)
        self.application = replace(self.application, invariants=(*self.application.invariants, *derived))
        wanted = [*asked, *(one.name for one in derived)]
        self.problem = Problem(self.application, wanted, self.options.transactions, self.options.database)

    def report(self) -> Report:
        refused = {name: one.refused for name, one in self.problem.transactions.items() if one.refused}
        if refused:
            listed = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
            reason = f"not all transactions are in the fragment ({listed}), so what others do meanwhile is not known"
            return self._whole([self._open(name, reason) for name in self.problem.transactions], [], complete=False)
        prover = self.kept_alone()
        if self.options.from_populate and any(shown is None for found in self.serial.values() for _, shown in found):
            self.serial, self.vacuous = {}, {}
            self._derive(all_kinds=True)
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
        from isolde.campaigns.reachable import is_derived
        from isolde.engines.infer.candidates import candidates
        from isolde.engines.infer.obligations import Obligations
        from isolde.engines.infer.prove import Prover

        listed = {one.name: one for one in (*candidates(self.problem), *self._guarantees())}
        conditions = dict(self.problem.conditions)
        directory, cache = self._directory(), self._cache()
        while True:
            obligations = Obligations(
                self.problem, listed, conditions, self.options.query_seconds, directory, self.options.told, cache
            )
            self.obligations = obligations
            prover = Prover(obligations, self.levels, self.problem.transactions)
            broken = {name: prover.serially(name) for name in self.writers}
            lost = {failure.invariant for failures in broken.values() for failure in failures}
            derived = {one for one in lost if is_derived(one)}
            if derived:
                # Those that were only guessed go first: others may not need them.
                conditions = {name: one for name, one in conditions.items() if name not in derived}
                continue
            for name, failures in broken.items():
                for failure in failures:
                    shown = self._shown_alone(obligations, failure)
                    self.serial.setdefault(name, []).append((failure, shown))
            if not lost:
                self.kept = list(conditions)
                self._note_vacuous(prover)
                return prover
            conditions = {name: one for name, one in conditions.items() if name not in lost}

    def _note_vacuous(self, prover: Prover) -> None:
        """Who was never seen to write something and commit, and cannot, as the solver sees it: a proof would say nothing."""
        refuter = self._refuter(self.kept, None)
        for name in self.writers:
            if not refuter.commits(name) and not prover.can_commit(name):
                self.vacuous[name] = refuter.failed.get(name, "")

    def _guarantees(self) -> list[Candidate]:
        from isolde.engines.infer.guarantees import guarantees

        if self.options.guarantees is None:
            return []
        path = Path(self.options.guarantees)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--guarantees {path}: {getattr(error, 'strerror', None) or error}") from None
        return guarantees(self.problem, text, f"--guarantees {path}")

    def _directory(self) -> Path | None:
        if self.options.smtlib is None:
            return None
        directory = Path(self.options.smtlib)
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutsideError(f"--smtlib {directory}: {error.strerror or error}") from None
        return directory

    def _cache(self) -> Cache | None:
        if self.options.cache is None:
            return None
        from isolde.engines.infer.cache import Cache, application_texts

        about = [*application_texts(self.problem), self.options.database, repr(sorted(self.options.settings.items()))]
        # Two guarantees of one name may say different things.
        about += [] if self.options.guarantees is None else [Path(self.options.guarantees).read_text()]
        return Cache(Path(self.options.cache), about)

    def _shown_alone(self, obligations: Any, failure: Failure) -> BrokenInvariant | None:
        from isolde.campaigns.serially import broken_alone

        if self.options.from_populate:
            from isolde.campaigns.reachable import broken_on_the_way

            invariant = next(one for one in self.application.invariants if one.name == failure.invariant)
            return broken_on_the_way(self._refuter(list(obligations.conditions), None), failure.transaction, invariant)

        return broken_alone(self.application, self.problem, obligations, failure)

    # Levels

    def search(self, prover: Prover) -> Search:
        from isolde.engines.infer.search import Search

        refute: Any = lambda *_: []  # noqa: E731
        if not self.options.database.startswith("paper-"):
            refute = self._refuter(self.kept, self.deadline).refute
        return Search(prover, self.writers, list(self.options.candidates), refute, self.deadline)

    def _refuter(self, invariants: Sequence[str], deadline: float | None) -> Refuter:
        from isolde.campaigns.reachable import is_derived
        from isolde.campaigns.refuting import Refuter

        judged = tuple(
            one for one in self.application.invariants if one.name in invariants and not is_derived(one.name)
        )
        options = self.options
        return Refuter(
            replace(self.application, invariants=judged),
            options.database,
            options.settings,
            list(options.candidates),
            self.writers,
            deadline,
            anywhere=not options.from_populate,
            told=options.told,
        )

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
            proof = Proof("it writes nothing, so it breaks nothing", self._assumed(name))
            return self._proved(question, weakest, (proof,))
        if chosen is None:
            return self._nowhere(name, search)
        level = chosen[name]
        text = "every commit keeps the invariants, whatever the others commit meanwhile at their levels; it can commit"
        proof = Proof(text, self._assumed(name))
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
            late = self.deadline is not None and time.monotonic() > self.deadline
            judged = "late" if late else search.judged(assignment)
            nogood = search.refused(assignment)
            if nogood is not None:
                found.append(self._refused(level, nogood, above=above))
            elif judged == "late":
                found += [NotProved("the time was over before it was asked", level)] if not above else []
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
        reasons = [
            f"invariant {one} is outside of the fragment ({reason})"
            for one, reason in self.problem.uncarried.items()
            if self._concerns(name, one)
        ]
        if name in self.vacuous:
            why = f" ({self.vacuous[name]})" if self.vacuous[name] else ""
            reasons.append(f"no way through it was found that can commit, so that a proof would say nothing{why}")
        reasons += [
            f"{failure.invariant} could not be proved even for transactions one after the other"
            for failure, shown in self.serial.get(name, [])
            if shown is None
        ]
        reasons += [
            f"{failure.invariant} could not be proved of {other} even one after the other, so that it is known of nobody"
            for other, failures in self.serial.items()
            for failure, shown in failures
            if shown is None and other != name and self._concerns(name, failure.invariant)
        ]
        return "; ".join(dict.fromkeys(reasons))

    def _concerns(self, name: str, invariant: str) -> bool:
        """Whether a transaction writes a table that an invariant looks at."""
        from isolde.engines.infer.problem import tables_named

        return bool(self.problem.transactions[name].writing.tables & tables_named(self.problem, invariant))

    def _open(self, name: str, reason: str) -> Finding:
        return Finding(WeakestLevel(name), Verdict.UNDECIDED, _METHOD, self._spent(), (NotProved(reason),))

    def _spent(self) -> Spent:
        return Spent(time.monotonic() - self.began)

    def _assumed(self, name: str) -> tuple[str, ...]:
        """What a proof about a transaction rests on, and what it does not speak of."""
        from isolde.campaigns.reachable import SAMPLES, is_derived

        derived = [one for one in self.kept if is_derived(one)]
        own = [one for one in self.kept if not is_derived(one)]
        alone = {
            failure.invariant: other
            for other, failures in self.serial.items()
            for failure, shown in failures
            if shown is not None and self._concerns(name, failure.invariant)
        }
        return (
            f"the rules of {self.options.database} at its levels, as isolde.levels has them",
            "the fragment: what is not modelled gives any result, or is refused by name (docs/design/infer.md)",
            f"invariants: {', '.join(own) or 'none'}",
            *(f"not {invariant}, which {other} breaks even alone" for invariant, other in alone.items()),
            *([f"{SAMPLES} first rows that were drawn, and so all: {'; '.join(derived)}"] if derived else []),
        )

    def _whole(self, findings: list[Finding], assignments: list[Assignment], *, complete: bool) -> Report:
        from isolde.campaigns.reachable import is_derived

        first = "any first state that satisfies the invariants"
        if self.options.from_populate:
            first = "states that the application's own first rows lead to"
        settings = {} if self.options.database.startswith("paper-") else dict(self.options.settings)
        if settings:
            settings = {name: store_settings(self.options.database, settings)[name] for name in settings}
        subject = ApplicationSubject(
            self.application.name,
            self.options.database,
            tuple(settings.items()),
            tuple(one for one in (*self.problem.conditions, *self.problem.uncarried) if not is_derived(one)),
            (
                f"any number of instances, any arguments that the types allow, {first}",
                "integers do not overflow into something else: a transaction that would overflow fails",
                "texts fit into their columns: blanks that a database cuts off without a word are not followed",
                *(f"{level}: {one.source}" for level, one in self.levels.items()),
            ),
        )
        listed = tuple(tuple(one.items()) for one in assignments)
        return Report(subject, tuple(findings), facts=(Assignments(listed, complete), *self._remarks()))

    def _remarks(self) -> list[Remark]:
        unanswered = 0 if self.obligations is None else self.obligations.unanswered
        if not unanswered:
            return []
        within = f"{self.options.query_seconds:g} s"
        return [
            Remark(
                f"The solver had no answer to {unanswered} questions within {within} each: they count as not proved."
            )
        ]


def _refuse_unknown(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise UsageError(f"--{what} {name}: there is none of that name; there are {', '.join(known)}")
