"""The checker against the definition, on random small histories of every shape.

Every verdict that the checker gives must be the definition's. Every violation must hold up from its own evidence, and its
witness must be violated again; every order that explains a history must replay. "Undecided" is allowed only where
something is really open.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from definition import satisfies
from definition.random_histories import SHAPES, random_history
from isolde.engines.check import check, cut_out, holds_up
from isolde.errors import IsoldeError
from isolde.findings import Finding, Verdict
from isolde.formats import encode
from isolde.history import History, render
from isolde.levels import Level

DECIDED = (
    Level.READ_UNCOMMITTED,
    Level.PL_2,
    Level.READ_COMMITTED,
    Level.READ_ATOMIC,
    Level.CAUSAL,
    Level.PREFIX,
    Level.REPEATABLE_READ,
    Level.SNAPSHOT_ISOLATION,
    Level.SERIALIZABLE,
    Level.STRICT_SNAPSHOT_ISOLATION,
    Level.STRICT_SERIALIZABLE,
    Level.LINEARIZABLE,
)
# Undecided only where times are missing. (Whether that matters is asked of the definition with more patience than the checker has.)
ACCEPTED = "real time"
BATCH = 250
HISTORIES = 4_000
LONG_HISTORIES = 60_000


@dataclass
class Tally:
    """How often each verdict was given, and what went wrong."""

    verdicts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.verdicts += other.verdicts
        self.wrong += other.wrong


def disagreement(history: History, finding: Finding, *, session_order: bool, judge_aborted: bool) -> str | None:
    """What is wrong with a finding, if anything is."""
    level = finding.level
    truth = satisfies(history, level.value, session_order=session_order, judge_aborted=judge_aborted)
    match finding.verdict:
        case Verdict.UNDECIDED if truth is not None and ACCEPTED not in finding.reason:
            return f"undecided ({finding.reason}), the definition says {truth}"
        case Verdict.UNDECIDED:
            return None
        case Verdict.SATISFIED if truth is not True:
            return f"called satisfied, the definition says {truth}"
        case Verdict.VIOLATED if truth is True:
            return f"called violated ({finding.anomalies[0].name}), the definition says it holds"
        case Verdict.VIOLATED:
            for anomaly in finding.anomalies:
                if not holds_up(history, level, anomaly, judge_aborted=judge_aborted):
                    return f"the evidence of {anomaly.name} does not hold up: {anomaly.explanation}"
            options: dict[str, Any] = {"session_order": session_order, "judge_aborted": judge_aborted}
            try:
                cut_out(encode(history), level, finding.anomalies[0], **options)
            except IsoldeError as error:
                return f"no witness, {error}"
        case _:
            pass
    return None


def batch(shape: str, first_seed: int, count: int) -> Tally:
    tally = Tally()
    for seed in range(first_seed, first_seed + count):
        rng = random.Random(f"{shape}-{seed}")
        history = random_history(rng, shape=shape)
        options: dict[str, Any] = {"session_order": rng.random() < 0.75, "judge_aborted": rng.random() < 0.2}
        columns = encode(history)
        report = check(columns, DECIDED, order=True, every=rng.random() < 0.5, **options)
        for finding in report.findings:
            tally.verdicts[f"{finding.level.value} {finding.verdict.value}"] += 1
            wrong = disagreement(history, finding, **options)
            if wrong:
                tally.wrong.append(f"{shape} seed {seed} {options} {finding.level.value}: {wrong}\n{render(history)}")
    return tally


def run_batches(total: int) -> Tally:
    seeds = range(0, total // len(SHAPES) + 1, BATCH)
    tally = Tally()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(batch, shape, seed, BATCH) for shape in SHAPES for seed in seeds]
        for job in jobs:
            tally.add(job.result())
    return tally


def assert_agreement(total: int) -> None:
    tally = run_batches(total)
    assert not tally.wrong, f"{len(tally.wrong)} disagreements, first:\n" + "\n\n".join(tally.wrong[:3])
    for level in ("read-committed", "read-atomic", "causal", "serializable", "snapshot-isolation", "linearizable"):
        assert tally.verdicts[f"{level} satisfied"] > total // 100, tally.verdicts
        assert tally.verdicts[f"{level} violated"] > total // 200, tally.verdicts


def test_every_verdict_is_the_definitions_on_4000_random_histories() -> None:
    assert_agreement(HISTORIES)


@pytest.mark.long
def test_every_verdict_is_the_definitions_on_60000_random_histories() -> None:
    assert_agreement(LONG_HISTORIES)


@pytest.mark.long
def test_lists_with_unknown_outcomes_agree_on_30000_random_histories() -> None:
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(batch, "append-in-doubt", seed, BATCH) for seed in range(100_000, 130_000, BATCH)]
        wrong = [text for job in jobs for text in job.result().wrong]
    assert not wrong, f"{len(wrong)} disagreements, first:\n" + "\n\n".join(wrong[:3])


@pytest.mark.parametrize("shape", ["mini", "forks"])
def test_nothing_is_undecided_when_every_write_follows_a_read_of_its_key(shape: str) -> None:
    for seed in range(300):
        history = random_history(random.Random(f"complete-{shape}-{seed}"), shape=shape)
        finding = check(encode(history), [Level.SERIALIZABLE]).findings[0]
        assert finding.verdict is not Verdict.UNDECIDED, render(history)
