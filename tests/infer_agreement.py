"""The other way of deciding what ``infer`` decides: all interleavings of pairs and triples of calls on the store model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from random import Random

from isolde.campaigns.infer import Inference, InferOptions
from isolde.campaigns.refuting import Refuter, Witness
from isolde.campaigns.robustness import RobustInference
from isolde.campaigns.serial_refuting import SerialRefuter
from isolde.campaigns.store import play_on_model
from isolde.engines.explore.invariants import holds, loaded_store
from isolde.engines.infer.prove import Assignment, Prover, by_strength
from isolde.errors import UsageError
from isolde.levels.specifications import CANDIDATES
from isolde.semantics.concrete import Store
from isolde.tx.dialects import Dialect
from isolde.workloads.application import Application


@dataclass(frozen=True)
class Judged:
    """``outcome``: what came of an application; ``wrong``: what was called safe and breaks, in a sentence each."""

    outcome: str
    proved: int
    wrong: tuple[str, ...] = ()


@dataclass
class Sample:
    """How much is explored: programs for each pair, each triple, and how many of the proved assignments (all if ``None``)."""

    pairs: int = 4
    triples: int = 2
    assignments: int | None = None


def judged(
    application: Application, store: str, sample: Sample, seed: int = 0, levels: Sequence[str] = CANDIDATES
) -> Judged:
    """Proves every assignment of levels, and looks for interleavings that break those that were proved."""
    inference = Inference(application, InferOptions(store, candidates=levels, query_seconds=2.0))
    if any(one.refused for one in inference.problem.transactions.values()) or inference.problem.uncarried:
        return Judged("outside of the fragment", 0)
    prover = inference.kept_alone()
    if not inference.kept:
        return Judged("broken alone", 0)
    proved = list(_proved(prover, inference.writers, levels))
    refuter = Refuter(
        replace(application, invariants=tuple(one for one in application.invariants if one.name in inference.kept)),
        store, {}, levels, inference.writers,
    )  # fmt: skip
    chosen = proved
    if sample.assignments is not None and len(proved) > sample.assignments:
        # The weakest ones, and some others.
        few = sample.assignments // 2
        chosen = proved[:few] + Random(seed).sample(proved[few:], sample.assignments - few)
    return Judged("compared", len(proved), tuple(_wrong(refuter, inference.writers, chosen, sample)))


def judged_robust(application: Application, store: str, sample: Sample, seed: int = 0) -> Judged:
    """Proves every assignment robust that it can, and looks for interleavings that no order of the transactions has."""
    inference = RobustInference(replace(application, invariants=()), InferOptions(store, query_seconds=2.0))
    names = list(inference.problem.transactions)
    if any(one.refused for one in inference.problem.transactions.values()):
        return Judged("outside of the fragment", 0)
    proved = list(_proved(inference.prover(), names, CANDIDATES))
    chosen = proved
    if sample.assignments is not None and len(proved) > sample.assignments:
        few = sample.assignments // 2
        chosen = proved[:few] + Random(seed).sample(proved[few:], sample.assignments - few)
    refuter = SerialRefuter(replace(application, invariants=()), store, {}, CANDIDATES, names)
    return Judged("compared", len(proved), tuple(_wrong(refuter, names, chosen, sample)))


def _proved(prover: Prover, names: list[str], levels: Sequence[str]) -> Iterator[Assignment]:
    for assignment in by_strength(names, levels):
        if prover.attempt(assignment).proved:
            yield assignment


def _wrong(refuter: Refuter, names: list[str], proved: list[Assignment], sample: Sample) -> Iterator[str]:
    done: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()
    for size, many in ((2, sample.pairs), (3, sample.triples)):
        for group in combinations_with_replacement(names, size):
            programs = list(refuter.programs(group))[:many]
            for assignment in proved:
                index = (group, tuple(assignment[name] for name in group))
                if index in done:
                    continue
                done.add(index)
                for rows, calls in programs:
                    try:
                        witness = refuter.witness(rows, calls, {name: assignment[name] for name in group})
                    except UsageError as error:
                        # From some first rows a random body fails by itself, which no program that is explored may do.
                        if " raises " not in str(error):
                            raise
                        continue
                    if witness is not None:
                        yield f"{assignment} is called safe and {calls} breaks {witness.broken.check} from {dict(rows)}"
                        break


def breaks_when_replayed(application: Application, store: str, witness: Witness) -> bool:
    """Whether a counterexample's schedule, played step by step on the model, may end in a state that breaks its invariant."""
    ways = play_on_model(witness.schedule, store, None).ways
    assert ways is not None
    broken = next(one for one in application.invariants if one.name == witness.broken.check)
    concrete = Store(application.schema, Dialect.POSTGRESQL)
    for played in ways.played:
        rows = {table: [tuple(row) for row in found] for table, found in played.rows.items()}
        if not holds(broken.name, broken.violations, rows, lambda rows=rows: loaded_store(concrete, rows)):  # type: ignore[misc]
            return True
    return False
