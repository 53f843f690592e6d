"""Laws that hold for every history, whatever the levels mean."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from definition import satisfies
from definition.random_histories import SHAPES, random_history
from isolde._core import Columns
from isolde.engines.check import check, cut_out
from isolde.findings import Anomaly, Finding, Verdict
from isolde.formats import encode, read, write
from isolde.history import History, Key, Operation, Transaction, render
from isolde.levels import LEVELS, Level, implies

CASES = 150
"""Of each shape."""
ALL = [row.level for row in LEVELS]
WITNESSED = (
    Level.READ_COMMITTED,
    Level.READ_ATOMIC,
    Level.CAUSAL,
    Level.PREFIX,
    Level.SNAPSHOT_ISOLATION,
    Level.SERIALIZABLE,
    Level.STRICT_SERIALIZABLE,
    Level.LINEARIZABLE,
)


def cases(law: str, shape: str, count: int = CASES) -> Iterator[tuple[random.Random, History]]:
    for seed in range(count):
        rng = random.Random(f"{law}-{shape}-{seed}")
        yield rng, random_history(rng, shape=shape)


def findings(columns: Columns, **options: Any) -> dict[Level, Finding]:
    """The helper that touches the checker: its answer at every level."""
    return {finding.level: finding for finding in check(columns, ALL, **options).findings}


def summary(columns: Columns, **options: Any) -> dict[Level, tuple[Verdict, list[str]]]:
    """What must not depend on names: verdicts, and the names of anomalies."""
    found = findings(columns, **options)
    return {level: (f.verdict, [anomaly.name for anomaly in f.anomalies]) for level, f in found.items()}


def shows_alike(again: Finding, anomaly: Anomaly) -> bool:
    """Whether a cycle, or cases of cycles, is shown by one again, and a read that nothing explains by its name."""
    if anomaly.name == "no-linearization":
        # Of two values that were read, nobody may be left who wrote the second.
        return True
    if anomaly.cycle or anomaly.cases:
        return any(found.cycle or found.cases or found.name == anomaly.name for found in again.anomalies)
    # One for which there were too many cases to lay them open may be shown by some, once it is cut out.
    return any(found.name == anomaly.name or found.cases for found in again.anomalies)


# --- Renaming ---------------------------------------------------------------------------------------------------------

NAMES: tuple[Key, ...] = (7, "7", -3, "key", 10**20, "", "é\n", "true", 0, "0", 1, 2, "a b", 3, 4, 5)


def fresh_names(rng: random.Random, old: set[Key]) -> dict[Key, Key]:
    return dict(zip(sorted(old, key=str), rng.sample(NAMES, len(old)), strict=True))


def with_key(op: Operation, keys: Mapping[Key, Key]) -> Operation:
    changes: dict[str, Any] = {"key": keys[op.key]} if hasattr(op, "key") else {}
    return replace(op, **changes)


def keys_of(history: History) -> set[Key]:
    used = {op.key for t in history.transactions for op in t.ops if hasattr(op, "key")}
    return used | set(history.initial) | {chain.key for chain in history.versions}


def with_other_keys(rng: random.Random, history: History) -> History:
    keys = fresh_names(rng, keys_of(history))
    return replace(
        history,
        transactions=tuple(replace(t, ops=tuple(with_key(op, keys) for op in t.ops)) for t in history.transactions),
        initial={keys[key]: value for key, value in history.initial.items()},
        versions=tuple(replace(chain, key=keys[chain.key]) for chain in history.versions),
    )


def with_other_sessions(rng: random.Random, history: History) -> History:
    sessions = fresh_names(rng, {t.session for t in history.transactions})
    return replace(history, transactions=tuple(replace(t, session=sessions[t.session]) for t in history.transactions))


def with_other_ids(rng: random.Random, history: History) -> History:
    ids = fresh_names(rng, {t.id for t in history.transactions})
    return replace(history, transactions=tuple(replace(t, id=ids[t.id]) for t in history.transactions))


RENAMINGS = {"keys": with_other_keys, "sessions": with_other_sessions, "ids": with_other_ids}


# --- The laws ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_what_satisfies_a_level_violates_no_weaker_one(shape: str) -> None:
    for rng, history in cases("monotone", shape):
        found = findings(encode(history), session_order=rng.random() < 0.7, judge_aborted=rng.random() < 0.2)
        for stronger, finding in found.items():
            for weaker in ALL:
                if implies(stronger, weaker) and finding.verdict is Verdict.SATISFIED:
                    assert found[weaker].verdict is not Verdict.VIOLATED, (stronger, weaker, render(history))


@pytest.mark.parametrize("what", RENAMINGS)
@pytest.mark.parametrize("shape", SHAPES)
def test_renaming_changes_no_verdict_and_no_anomaly(shape: str, what: str) -> None:
    for rng, history in cases(f"renaming-{what}", shape, CASES // 2):
        renamed = RENAMINGS[what](rng, history)
        every = rng.random() < 0.5
        assert summary(encode(renamed), every=every) == summary(encode(history), every=every), (
            f"{render(history)}\n{render(renamed)}"
        )


def with_other_lines(rng: random.Random, history: History) -> History:
    """The lines in another order that keeps the order inside of each session."""
    waiting: dict[Key, list[Transaction]] = {}
    for transaction in history.transactions:
        waiting.setdefault(transaction.session, []).append(transaction)
    lines = []
    while waiting:
        session = rng.choice(sorted(waiting, key=str))
        lines.append(waiting[session].pop(0))
        if not waiting[session]:
            del waiting[session]
    return replace(history, transactions=tuple(lines))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_order_of_lines_changes_no_verdict(shape: str) -> None:
    for rng, history in cases("lines", shape, CASES * 2):
        moved = with_other_lines(rng, history)
        options: dict[str, Any] = {"session_order": rng.random() < 0.7, "judge_aborted": rng.random() < 0.2}
        before, after = findings(encode(history), **options), findings(encode(moved), **options)
        for level in ALL:
            assert before[level].verdict is after[level].verdict, (
                level,
                options,
                f"{render(history)}\n{render(moved)}",
            )


@pytest.mark.parametrize("shape", SHAPES)
def test_the_witness_of_a_violation_is_violated_by_the_checker_and_by_definition(shape: str) -> None:
    for rng, history in cases("witness", shape):
        options: dict[str, Any] = {"session_order": rng.random() < 0.7, "judge_aborted": rng.random() < 0.2}
        columns = encode(history)
        for level in WITNESSED:
            finding = check(columns, [level], **options).findings[0]
            if finding.verdict is Verdict.VIOLATED:
                anomaly = finding.anomalies[0]
                witness = cut_out(columns, level, anomaly, **options)
                again = check(encode(witness), [level], **options).findings[0]
                assert again.verdict is Verdict.VIOLATED, (level, render(history), render(witness))
                assert shows_alike(again, anomaly), (level, anomaly.name, again.anomalies[0].name, render(history))
                assert satisfies(witness, level.value, **options) is not True, (level, render(history), render(witness))
                assert {t.id for t in witness.transactions} <= {t.id for t in history.transactions}


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".jsonl.zst"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_check_of_a_file_is_the_check_of_what_was_written(shape: str, suffix: str, tmp_path: Path) -> None:
    path = str(tmp_path / f"h{suffix}")
    for rng, history in cases("files", shape, CASES // 3):
        columns = encode(with_other_keys(rng, history))
        write(columns, path)
        assert summary(read(path)) == summary(columns), columns.to_jsonl().decode()


@pytest.mark.parametrize("shape", SHAPES)
def test_forgetting_the_order_of_sessions_never_makes_a_violation(shape: str) -> None:
    for _, history in cases("sessions", shape):
        columns = encode(history)
        kept, forgotten = findings(columns), findings(columns, session_order=False)
        for level in ALL:
            if kept[level].verdict is Verdict.SATISFIED:
                assert forgotten[level].verdict is not Verdict.VIOLATED, (level, render(history))


@pytest.mark.parametrize("shape", SHAPES)
def test_judging_aborted_transactions_never_makes_a_violation_vanish(shape: str) -> None:
    for _, history in cases("aborted", shape):
        columns = encode(history)
        usual, strict = findings(columns), findings(columns, judge_aborted=True)
        for level in ALL:
            if usual[level].verdict is Verdict.VIOLATED:
                assert strict[level].verdict is not Verdict.SATISFIED, (level, render(history))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_level_is_answered_the_same_alone_and_among_others(shape: str) -> None:
    for rng, history in cases("alone", shape, CASES // 3):
        columns = encode(history)
        together = summary(columns)
        level = rng.choice(ALL)
        alone = check(columns, [level]).findings[0]
        assert (alone.verdict, [anomaly.name for anomaly in alone.anomalies]) == together[level], render(history)
