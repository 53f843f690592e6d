"""What the generator produces is what it says: checked against the definition on small histories, and by counting."""

from __future__ import annotations

import re
from collections import Counter
from itertools import accumulate
from typing import Any

import pytest

from definition import satisfies
from isolde._core import Columns
from isolde.engines.check import check
from isolde.engines.generate import generate, generator_names
from isolde.errors import UsageError
from isolde.findings import Verdict
from isolde.formats import decode
from isolde.history import Append, CompareAndSet, History, Read, Status, Transaction, Write, render
from isolde.levels import Level, level_named

WORKLOADS, DISTRIBUTIONS, LEVEL_NAMES, ANOMALIES = generator_names()
LEVELS = ("read-committed", "read-atomic", "causal", "snapshot-isolation", "serializable", "strict-serializable")
SEEDS = 60
"""Small histories of each level and workload; each is checked by brute force."""

USUAL: dict[str, Any] = {
    "sessions": 3,
    "transactions": 5,
    "keys": 2,
    "operations": 3,
    "distribution": "uniform",
    "workload": "mini",
    "level": "serializable",
    "abort_rate": 0.0,
    "unknown_rate": 0.0,
    "inject": (),
    "seed": 0,
}

# The levels that a group of each anomaly breaks first; it satisfies the one before (levels.md, corpus/).
WEAKEST_BROKEN = {
    "thin-air-read": "read-committed",
    "aborted-read": "read-committed",
    "future-read": "read-committed",
    "not-my-last-write": "read-committed",
    "not-my-own-write": "read-committed",
    "intermediate-read": "read-committed",
    "non-monotonic-read": "read-committed",
    "non-repeatable-read": "read-atomic",
    "session-guarantee-violation": "read-atomic",
    "fractured-read": "read-atomic",
    "causality-violation": "causal",
    "long-fork": "prefix",
    "lost-update": "snapshot-isolation",
    "write-skew": "serializable",
}
CHAIN = ("read-committed", "read-atomic", "causal", "prefix", "snapshot-isolation", "serializable")


def made(**parameters: Any) -> Columns:
    """The helper that touches the generator."""
    return generate(**(USUAL | parameters))


def small(seed: int, **parameters: Any) -> History:
    """A history that brute force can decide, of a size that depends on the seed."""
    size = {"transactions": 2 + seed % 5, "sessions": 1 + seed % 4, "keys": 1 + seed % 3, "seed": seed}
    rates = {"abort_rate": (0.0, 0.3)[seed % 2], "unknown_rate": (0.0, 0.0, 0.3)[seed % 3]}
    return decode(made(**(size | rates | parameters)))


def runs_at(workload: str, level: str) -> bool:
    return workload != "cas" or level in ("serializable", "strict-serializable")


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("level", LEVELS)
def test_a_small_history_satisfies_its_level_by_definition(level: str, workload: str) -> None:
    for seed in range(SEEDS if runs_at(workload, level) else 0):
        history = small(seed, workload=workload, level=level)
        assert satisfies(history, level) is True, f"seed {seed}: {render(history)}"


def test_a_small_history_of_compare_and_sets_is_linearizable_by_definition() -> None:
    for seed in range(SEEDS):
        history = small(seed, workload="cas", level="strict-serializable")
        assert satisfies(history, "linearizable") is True, f"seed {seed}: {render(history)}"


@pytest.mark.parametrize(
    ("level", "next_level"),
    [
        ("read-committed", "read-atomic"),
        ("read-atomic", "causal"),
        ("causal", "snapshot-isolation"),
        ("snapshot-isolation", "serializable"),
        ("serializable", "strict-serializable"),
    ],
)
def test_a_level_is_not_secretly_the_next_one(level: str, next_level: str) -> None:
    histories = (
        small(seed, level=level, transactions=6, sessions=4, keys=2, abort_rate=0.0, unknown_rate=0.0, operations=4)
        for seed in range(400)
    )
    assert any(satisfies(history, next_level) is False for history in histories)


@pytest.mark.parametrize("anomaly", ANOMALIES)
def test_an_injected_anomaly_breaks_its_level_and_none_below_by_definition(anomaly: str) -> None:
    broken = CHAIN.index(WEAKEST_BROKEN[anomaly])
    for seed in range(15):
        parameters = {"transactions": 4 + seed % 3, "sessions": 1 + seed % 5, "level": "strict-serializable"}
        for workload in ("mini", "general"):
            history = small(seed, inject=[anomaly], workload=workload, unknown_rate=0.0, **parameters)
            for place, level in enumerate(CHAIN):
                assert satisfies(history, level) is (place < broken), f"{level}, seed {seed}: {render(history)}"


@pytest.mark.parametrize("anomaly", ANOMALIES)
@pytest.mark.parametrize("workload", ["mini"])
def test_an_injected_anomaly_is_found_in_a_large_history_under_its_own_name(anomaly: str, workload: str) -> None:
    for seed in range(5):
        columns = made(
            sessions=10,
            transactions=1000,
            keys=50,
            operations=4,
            level="strict-serializable",
            inject=[anomaly],
            workload=workload,
            seed=seed,
        )
        finding = check(columns, [Level.SERIALIZABLE]).findings[0]
        assert finding.verdict is Verdict.VIOLATED
        assert [found.name for found in finding.anomalies] == [anomaly], f"seed {seed}"


@pytest.mark.parametrize("workload", ["mini", "cas"])
def test_a_large_history_without_injections_is_satisfied(workload: str) -> None:
    for seed in range(5):
        columns = made(
            sessions=10,
            transactions=2000,
            keys=50,
            operations=4,
            level="strict-serializable",
            workload=workload,
            seed=seed,
            abort_rate=0.1,
        )
        finding = check(columns, [Level.STRICT_SERIALIZABLE]).findings[0]
        assert finding.verdict is Verdict.SATISFIED, finding.reason


def test_several_anomalies_are_all_found() -> None:
    columns = made(
        sessions=10, transactions=1000, keys=50, level="strict-serializable", inject=["lost-update", "write-skew"]
    )
    finding = check(columns, [Level.SERIALIZABLE], every=True).findings[0]
    assert sorted(found.name for found in finding.anomalies) == ["lost-update", "write-skew"]


# --- Counting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(workload: str, distribution: str) -> None:
    parameters = {
        "transactions": 300,
        "keys": 20,
        "workload": workload,
        "distribution": distribution,
        "abort_rate": 0.1,
    }
    first, again, other = (made(**parameters, seed=seed).to_jsonl() for seed in (5, 5, 6))
    assert first == again
    assert first != other


@pytest.mark.parametrize("workload", WORKLOADS)
def test_there_are_as_many_transactions_sessions_and_operations_as_asked_for(workload: str) -> None:
    counts = made(transactions=1000, sessions=7, keys=20, operations=4, workload=workload).counts()
    assert (counts.transactions, counts.committed, counts.sessions) == (1000, 1000, 7)
    assert counts.operations <= (8000 if workload in ("rmw", "heavy-write") else 4000)
    if workload in ("general", "read-write", "append"):
        assert counts.operations == 4000
    if workload == "cas":
        assert counts.operations == 1000


@pytest.mark.parametrize("anomaly", ANOMALIES)
def test_injected_transactions_count_too(anomaly: str) -> None:
    assert made(transactions=100, inject=[anomaly]).counts().transactions == 100


@pytest.mark.parametrize("workload", WORKLOADS)
def test_shares_of_aborted_and_unknown_transactions_are_near_the_rates(workload: str) -> None:
    counts = made(
        transactions=20_000,
        sessions=10,
        keys=5000,
        workload=workload,
        level="strict-serializable",
        abort_rate=0.2,
        unknown_rate=0.1,
    ).counts()
    assert 0.18 < counts.aborted / counts.transactions < 0.22
    # Of compare-and-sets, only the answer of one that was applied can be lost.
    low = 0.02 if workload == "cas" else 0.07
    assert low < counts.unknown / (counts.transactions - counts.aborted) < 0.12


def test_rates_of_nothing_and_of_everything_are_exact() -> None:
    assert made(transactions=500).counts().committed == 500
    assert made(transactions=500, abort_rate=1.0).counts().aborted == 500
    assert made(transactions=500, unknown_rate=1.0).counts().unknown == 500


def most_at_once(history: tuple[Transaction, ...]) -> int:
    """How many transactions were in flight at one time."""
    changes = sorted(change for t in history for change in ((t.start or 0, 1), (t.end or 0, -1)))
    return max(accumulate(change for _, change in changes))


def transactions(columns: Columns) -> tuple[Transaction, ...]:
    return decode(columns).transactions


@pytest.mark.parametrize("operations", [1, 2, 3, 4])
@pytest.mark.parametrize("keys", [1, 2, 30])
def test_a_mini_transaction_has_one_or_two_reads_and_at_most_two_writes_each_after_a_read_of_its_key(
    operations: int, keys: int
) -> None:
    # Paper 004, definition 8.
    for transaction in transactions(made(transactions=2000, keys=keys, operations=operations)):
        kinds = [type(op) for op in transaction.ops]
        assert kinds.count(Read) in (1, 2)
        assert kinds.count(Write) <= 2
        assert len(kinds) == kinds.count(Read) + kinds.count(Write) <= operations
        read = set()
        for op in transaction.ops:
            match op:
                case Read(key, _):
                    read.add(key)
                case Write(key, _):
                    assert key in read, transaction
                case _:
                    pytest.fail(f"no operation of a mini-transaction: {op}")


def test_the_general_workload_mixes_reads_writes_and_updates_as_cobra_does() -> None:
    kinds = Counter(
        "update" if {type(op) for op in t.ops} == {Read, Write} else type(t.ops[0]).__name__
        for t in transactions(made(transactions=10_000, keys=100, operations=4, workload="general"))
    )
    shares = {kind: count / 10_000 for kind, count in kinds.items()}
    assert shares == {
        "Read": pytest.approx(0.2, abs=0.02),
        "Write": pytest.approx(0.4, abs=0.02),
        "update": pytest.approx(0.4, abs=0.02),
    }


# Reads, blind writes and read-modify-writes among the operations (Clark et al., section 8.4).
MIXES: dict[str, tuple[dict[str, Any], tuple[float, float, float]]] = {
    "rmw": ({}, (0.25, 0.25, 0.5)),
    "read-write": ({}, (0.5, 0.5, 0.0)),
    "heavy-write": ({}, (0.1, 0.8, 0.1)),
    "read-write, 60 % blind": ({"workload": "read-write", "blind_writes": 0.6}, (0.4, 0.6, 0.0)),
    "read-write, nothing but reads": ({"workload": "read-write", "blind_writes": 0.0}, (1.0, 0.0, 0.0)),
    "read-write, nothing but writes": ({"workload": "read-write", "blind_writes": 1.0}, (0.0, 1.0, 0.0)),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("mix", MIXES)
def test_a_mix_has_the_shares_of_reads_blind_writes_and_read_modify_writes_that_it_is_named_for(
    mix: str, level: str
) -> None:
    parameters, shares = MIXES[mix]
    history = transactions(
        made(**({"workload": mix} | parameters), transactions=5000, keys=10_000, operations=8, level=level)
    )
    reads, blind, updates = 0, 0, 0
    for t in history:
        for at, op in enumerate(t.ops):
            match op:
                case Read():
                    reads += 1
                case Write(key, _):
                    before = t.ops[at - 1] if at else None
                    updated = isinstance(before, Read) and before.key == key
                    updates += updated
                    blind += not any(isinstance(earlier, Read) and earlier.key == key for earlier in t.ops[:at])
                case _:
                    pytest.fail(f"no operation of a mix: {op}")
    # A read-modify-write is one operation of the mix.
    total = 5000 * 8
    assert (reads - updates) / total == pytest.approx(shares[0], abs=0.01)
    assert blind / total == pytest.approx(shares[1], abs=0.01)
    assert updates / total == pytest.approx(shares[2], abs=0.01)


# --- The order of versions that the database tells ---------------------------------------------------------------------

REGISTERS = tuple(workload for workload in WORKLOADS if workload not in ("append", "cas"))


def told(columns: Columns) -> dict[Any, list[Any]]:
    return {chain.key: list(chain.values) for chain in decode(columns).versions}


@pytest.mark.parametrize("workload", REGISTERS)
@pytest.mark.parametrize("level", LEVELS)
def test_a_small_history_satisfies_its_level_by_definition_with_the_order_of_its_versions(
    level: str, workload: str
) -> None:
    for seed in range(SEEDS):
        for share in (1.0, 0.5):
            history = small(seed, workload=workload, level=level, versions=share)
            assert satisfies(history, level) is True, f"seed {seed}: {render(history)}"


@pytest.mark.parametrize("workload", REGISTERS)
def test_the_whole_order_of_versions_is_the_order_of_commits(workload: str) -> None:
    # Executed one after the other, transactions that write are listed as they commit.
    columns = made(
        transactions=2000, sessions=10, keys=20, workload=workload, versions=1.0, abort_rate=0.2, inject=["lost-update"]
    )
    installed: dict[Any, list[Any]] = {}
    for t in transactions(columns):
        if t.status is Status.COMMITTED:
            last = {op.key: op.value for op in t.ops if isinstance(op, Write)}
            for key, value in last.items():
                installed.setdefault(key, []).append(value)
    # The injected transactions ran on a key of their own and in no store.
    del installed[20]
    assert told(columns) == installed


@pytest.mark.parametrize("level", LEVELS)
def test_a_share_of_the_versions_is_left_in_the_order_that_all_have(level: str) -> None:
    parameters: dict[str, Any] = {"transactions": 2000, "keys": 20, "workload": "heavy-write", "level": level}
    whole = told(made(**parameters, versions=1.0))
    total = sum(map(len, whole.values()))
    for share in (0.1, 0.5, 0.9):
        columns = made(**parameters, versions=share)
        left = told(columns)
        assert sum(map(len, left.values())) == pytest.approx(share * total, abs=0.5)
        for key, values in left.items():
            kept = set(values)
            assert [value for value in whole[key] if value in kept] == values
            assert len(values) / len(whole[key]) == pytest.approx(share, abs=0.25)
        assert columns.to_jsonl() == made(**parameters, versions=share).to_jsonl()
        assert told(made(**parameters, versions=share, seed=1)) != left


def test_the_share_of_versions_changes_nothing_else() -> None:
    parameters: dict[str, Any] = {"transactions": 500, "keys": 20, "workload": "general", "inject": ["write-skew"]}
    without = made(**parameters)
    assert told(without) == {}
    assert transactions(made(**parameters, versions=0.5)) == transactions(without)


def verdicts_with_versions(made_at: str, asked: str, workload: str, seed: int) -> list[Verdict]:
    """Of a history of 300 transactions, with no version told, with some, with all."""
    parameters: dict[str, Any] = {
        "transactions": 300,
        "sessions": 6,
        "keys": 30,
        "workload": workload,
        "level": made_at,
    }
    histories = (made(**parameters, versions=share, seed=seed) for share in (0.0, 0.3, 1.0))
    return [check(columns, [level_named(asked)]).findings[0].verdict for columns in histories]


@pytest.mark.parametrize("workload", REGISTERS)
@pytest.mark.parametrize("level", ["rc", "ra", "cc", "si", "ser", "strict-ser"])
def test_the_order_of_versions_is_one_that_satisfies_the_level(workload: str, level: str) -> None:
    for seed in range(3):
        assert verdicts_with_versions(level, level, workload, seed) == [Verdict.SATISFIED] * 3


@pytest.mark.parametrize("workload", REGISTERS)
@pytest.mark.parametrize(("made_at", "asked"), [("rc", "ra"), ("ra", "cc"), ("cc", "si"), ("si", "ser")])
def test_what_is_violated_without_the_order_of_versions_is_violated_with_it(
    workload: str, made_at: str, asked: str
) -> None:
    # Not the other way round: another order of blind writes may explain what the one that is told does not.
    for seed in range(3):
        none, some, every = (v is Verdict.VIOLATED for v in verdicts_with_versions(made_at, asked, workload, seed))
        assert none <= some <= every


@pytest.mark.parametrize("workload", WORKLOADS)
def test_no_value_is_written_twice(workload: str) -> None:
    written = [
        op.new if isinstance(op, CompareAndSet) else op.element if isinstance(op, Append) else op.value
        for t in transactions(made(transactions=3000, keys=10, workload=workload, abort_rate=0.1, inject=()))
        for op in t.ops
        if isinstance(op, Write | Append | CompareAndSet)
    ]
    assert len(written) == len(set(written)) > 500
    assert 0 not in written


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_session_does_one_transaction_at_a_time_in_file_order(workload: str) -> None:
    ends: dict[Any, int] = {}
    for t in transactions(made(transactions=2000, sessions=5, workload=workload, abort_rate=0.2, unknown_rate=0.2)):
        assert t.start is not None
        assert t.end is not None
        assert ends.get(t.session, -1) < t.start < t.end
        ends[t.session] = t.end


def test_a_skewed_distribution_prefers_some_keys() -> None:
    def share_of_the_most_used_fifth(distribution: str) -> float:
        history = transactions(made(transactions=5000, keys=100, distribution=distribution))
        counts = Counter(op.key for t in history for op in t.ops if isinstance(op, Read | Write))
        return sum(count for _, count in counts.most_common(20)) / counts.total()

    assert share_of_the_most_used_fifth("uniform") < 0.3
    assert share_of_the_most_used_fifth("hotspot") == pytest.approx(0.8, abs=0.05)
    assert share_of_the_most_used_fifth("zipfian") > 0.6
    assert share_of_the_most_used_fifth("exponential") > 0.4


@pytest.mark.parametrize(("exponent", "share"), [(0.5, 0.18), (1.0, 0.33), (2.0, 0.65)])
def test_an_exponent_says_how_often_the_first_key_is_used(exponent: float, share: float) -> None:
    history = transactions(
        made(transactions=5000, keys=10, workload="registers", distribution="zipfian", exponent=exponent)
    )
    first = sum(op.key == 0 for t in history for op in t.ops if isinstance(op, Read | Write))
    assert first / len(history) == pytest.approx(share + 0.02, abs=0.04)


def test_hot_keys_get_the_share_of_accesses_that_is_asked_for() -> None:
    strength = {"hot_keys": 0.05, "hot_accesses": 0.5}
    history = transactions(made(transactions=5000, keys=100, workload="registers", distribution="hotspot", **strength))
    hot = sum(int(str(op.key)) < 5 for t in history for op in t.ops if isinstance(op, Read | Write))
    assert hot / len(history) == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize(("share", "at_once"), [(0.01, 1), (0.3, 3), (1.0, 10)])
def test_a_share_of_the_sessions_is_in_flight_at_one_time(share: float, at_once: int) -> None:
    history = transactions(made(transactions=1000, sessions=10, workload="cas", concurrent=share))
    assert most_at_once(history) == at_once
    assert len({t.session for t in history}) == 10


# --- What cannot be made ----------------------------------------------------------------------------------------------

IMPOSSIBLE: dict[str, tuple[dict[str, Any], str]] = {
    "no sessions": ({"sessions": 0}, "sessions is 0; it must be at least 1"),
    "no keys": ({"keys": 0}, "keys is 0; it must be at least 1"),
    "no operations": ({"operations": 0}, "operations a transaction is 0; it must be at least 1"),
    "a rate above 1": ({"abort_rate": 1.5}, "the abort rate is 1.5; it must lie between 0 and 1"),
    "a rate that is no number": ({"unknown_rate": float("nan")}, "the unknown rate is NaN; it must lie between 0 and 1"),
    "long mini-transactions": ({"operations": 5}, "5 operations a transaction; a mini-transaction has at most 4 (the workload 'general' has no bound)"),
    "injection into lists": ({"workload": "append", "inject": ["write-skew"]}, "anomalies are injected as reads and writes of registers; use a workload of these, like 'mini' or 'general'"),
    "versions of lists": ({"workload": "append", "versions": 0.5}, "a list that is read tells the order of its versions itself; use a workload of registers, like 'general'"),
    "versions of compare-and-sets": ({"workload": "cas", "versions": 0.5}, "each compare-and-set tells what it replaced; use a workload of reads and writes, like 'general'"),
    "more than all versions": ({"versions": 1.5}, "the share of versions is 1.5; it must lie between 0 and 1"),
    "a negative share of writes": ({"workload": "read-write", "blind_writes": -0.1}, "the share of blind writes is -0.1; it must lie between 0 and 1"),
    "blind writes elsewhere": ({"workload": "rmw", "blind_writes": 0.6}, "only the workload 'read-write' has a share of blind writes that can be chosen"),
    "compare-and-set at a weak level": ({"workload": "cas", "level": "causal"}, "the workload 'cas' is executed linearizably; use the level 'serializable' or 'strict-serializable'"),
    "an anomaly that does not fit": ({"transactions": 3, "inject": ["long-fork"]}, "the anomalies take 4 transactions; 3 were asked for"),
    "too many transactions": ({"transactions": 2**40}, f"{2**40} transactions; a history holds at most {2**30 - 2}"),
}  # fmt: skip


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_cannot_be_made_is_refused_with_the_reason(name: str) -> None:
    parameters, message = IMPOSSIBLE[name]
    with pytest.raises(UsageError, match=re.escape(message)):
        made(**parameters)


@pytest.mark.parametrize("parameter", ["sessions", "transactions", "keys", "operations", "seed"])
@pytest.mark.parametrize("number", [-1, 2**70])
def test_a_number_out_of_all_bounds_is_a_usage_error(parameter: str, number: int) -> None:
    with pytest.raises(UsageError):
        made(**{parameter: number})


def test_no_transactions_are_an_empty_history() -> None:
    assert decode(made(transactions=0)).transactions == ()


def test_the_unknown_share_of_a_small_history_may_take_effect_or_not() -> None:
    statuses = Counter(t.status for seed in range(50) for t in small(seed, unknown_rate=0.5).transactions)
    assert set(statuses) == set(Status)
