"""The checker with evidence from outside against the definition: random edges, told orders and serial orders at every level."""

from __future__ import annotations

import os
import random
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any, get_args

import pytest

from definition import Told, replays, satisfies
from definition.random_histories import SHAPES, random_history
from isolde.engines.check import Evidence, check, holds_up, witness
from isolde.findings import Finding, Verdict
from isolde.findings.model import Kind
from isolde.formats import encode
from isolde.history import Append, CompareAndSet, History, Key, Status, Write, render
from isolde.levels import LEVELS, Level

KINDS = get_args(Kind)
ALL = [row.level for row in LEVELS]
BATCH = 100
HISTORIES = 2_500
LONG_HISTORIES = 60_000
# Undecided where times are missing, where linearizable is asked, and where elements are shared and orders told.
ACCEPTED = ("real time", "besides the history", "duplicate-write")


def random_evidence(rng: random.Random, history: History) -> Evidence:
    """Up to four edges, mostly forward in the file, and up to two told orders, mostly in the order of the file."""
    count = len(history.transactions)
    edges: list[tuple[int, int, Kind, str]] = []
    for _ in range(rng.choice((0, 1, 2, 2, 3, 4)) if count > 1 else 0):
        first, second = rng.sample(range(count), 2)
        if rng.random() < 0.7:
            first, second = min(first, second), max(first, second)
        edges.append((first, second, rng.choice(KINDS), f"reason {len(edges)}"))
    writes: dict[Key, list[tuple[int, int]]] = {}
    for position, t in enumerate(history.transactions):
        for index, op in enumerate(t.ops):
            applied = isinstance(op, Write | Append) or (isinstance(op, CompareAndSet) and op.applied)
            if applied and t.status is not Status.ABORTED:
                writes.setdefault(op.key, []).append((position, index))  # type: ignore[union-attr]
    versions: list[list[tuple[int, int] | None]] = []
    for places in rng.sample(list(writes.values()), min(len(writes), rng.choice((0, 0, 1, 2)))):
        chosen: list[tuple[int, int] | None] = [*rng.sample(places, rng.randint(1, len(places)))]
        if rng.random() < 0.7:
            chosen.sort()
        versions.append([None, *chosen] if rng.random() < 0.3 else chosen)
    return replace(Evidence.of_edges(edges), versions=versions)


def told_of(history: History, evidence: Evidence) -> Told:
    ids = [t.id for t in history.transactions]
    edges = zip(evidence.sources, evidence.targets, evidence.kinds, strict=True)
    orders = tuple(tuple(None if p is None else ids[p[0]] for p in order) for order in evidence.versions)
    return Told(tuple((ids[a], ids[b], kind) for a, b, kind in edges), orders)


def disagreement(history: History, finding: Finding, evidence: Evidence, **options: Any) -> str | None:
    level = finding.level
    told = told_of(history, evidence)
    truth = satisfies(history, level.value, told=told, **options)
    match finding.verdict:
        case Verdict.UNDECIDED:
            accepted = any(reason in finding.reason for reason in ACCEPTED)
            return None if truth is None or accepted else f"undecided ({finding.reason}), the definition says {truth}"
        case Verdict.SATISFIED if truth is not True:
            return f"called satisfied, the definition says {truth}"
        case Verdict.VIOLATED if truth is True:
            return f"called violated ({finding.anomalies[0].name}), the definition says it holds"
        case Verdict.VIOLATED:
            # That the evidence holds up on a part of the history was checked before it was shown; here on the whole.
            judge_aborted = options["judge_aborted"]
            for anomaly in finding.anomalies:
                if not holds_up(history, level, anomaly, judge_aborted=judge_aborted, evidence=evidence):
                    return f"the evidence of {anomaly.name} does not hold up: {anomaly.explanation}"
            witness(encode(history), level, finding.anomalies[0], evidence=evidence, **options)
    return None


def batch(shape: str, first_seed: int, count: int) -> tuple[Counter[str], list[str]]:
    verdicts: Counter[str] = Counter()
    wrong: list[str] = []
    for seed in range(first_seed, first_seed + count):
        rng = random.Random(f"evidence-{shape}-{seed}")
        history = random_history(rng, shape=shape)
        evidence = random_evidence(rng, history)
        options: dict[str, Any] = {"session_order": rng.random() < 0.75, "judge_aborted": rng.random() < 0.2}
        try:
            report = check(encode(history), ALL, evidence=evidence, every=rng.random() < 0.3, order=True, **options)
            for finding in report.findings:
                verdicts[f"{finding.level.value} {finding.verdict.value}"] += 1
                verdicts.update(link.basis for a in finding.anomalies for link in a.cycle)
                problem = disagreement(history, finding, evidence, **options)
                if problem:
                    wrong.append(
                        f"{shape} {seed} {options} {finding.level.value}: {problem}\n{render(history)}\n{evidence}"
                    )
        except Exception as error:
            wrong.append(f"{shape} {seed} {options}: {error!r}\n{render(history)}\n{evidence}")
    return verdicts, wrong


def assert_agreement(total: int) -> None:
    verdicts: Counter[str] = Counter()
    wrong: list[str] = []
    seeds = range(0, total // len(SHAPES) + 1, BATCH)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for job in [pool.submit(batch, shape, seed, BATCH) for shape in SHAPES for seed in seeds]:
            counted, problems = job.result()
            verdicts += counted
            wrong += problems
    assert not wrong, f"{len(wrong)} disagreements, first:\n" + "\n\n".join(wrong[:3])
    for level in ALL:
        assert verdicts[f"{level.value} satisfied"] > total // 100, verdicts
        assert verdicts[f"{level.value} violated"] > total // 200, verdicts
    assert verdicts["outside"] > total, verdicts


def test_verdicts_with_evidence_are_the_definitions_on_2500_random_histories() -> None:
    assert_agreement(HISTORIES)


@pytest.mark.long
def test_verdicts_with_evidence_are_the_definitions_on_60000_random_histories() -> None:
    assert_agreement(LONG_HISTORIES)


def serial_history(rng: random.Random, shape: str) -> History:
    """A random history with a place for each transaction that was not aborted, mostly in the order of the file."""
    history = random_history(rng, shape=shape)
    places = list(range(len(history.transactions)))
    if rng.random() < 0.3:
        rng.shuffle(places)
    transactions = [
        t
        if t.status is Status.ABORTED or (t.status is Status.UNKNOWN and rng.random() < 0.5)
        else replace(t, serial=at)
        for t, at in zip(history.transactions, places, strict=True)
    ]
    return replace(history, transactions=tuple(transactions), versions=())


@pytest.mark.parametrize("shape", SHAPES)
def test_a_claimed_serial_order_holds_iff_it_replays(shape: str) -> None:
    seen: Counter[Verdict] = Counter()
    for seed in range(250):
        rng = random.Random(f"serial-{shape}-{seed}")
        history = serial_history(rng, shape)
        session_order = rng.random() < 0.7
        placed = [t for t in history.transactions if t.serial is not None]
        order = [t.id for t in sorted(placed, key=lambda t: t.serial or 0)]
        finding = check(
            encode(history), [Level.SERIALIZABLE], serialization_order=True, session_order=session_order
        ).findings[0]
        truth = replays(history, order, "serializable", session_order=session_order)
        assert (finding.verdict is Verdict.SATISFIED) == truth, (finding, render(history))
        assert finding.method == "serialization-order"
        seen[finding.verdict] += 1
        if finding.anomalies:
            part = witness(encode(history), Level.SERIALIZABLE, finding.anomalies[0], session_order=session_order)
            assert part.history.transactions
    assert min(seen[Verdict.SATISFIED], seen[Verdict.VIOLATED]) > 5, seen


@pytest.mark.parametrize("shape", SHAPES)
def test_a_serial_order_as_a_hint_changes_no_verdict(shape: str) -> None:
    for seed in range(60):
        rng = random.Random(f"hint-{shape}-{seed}")
        history = serial_history(rng, shape)
        plain = replace(history, transactions=tuple(replace(t, serial=None) for t in history.transactions))
        hinted = [finding.verdict for finding in check(encode(history), ALL).findings]
        assert hinted == [finding.verdict for finding in check(encode(plain), ALL).findings], render(history)
