"""Linearizability by search, against the definition: registers with repeated values, deletes and silent failures, and lists.

Every history is of single-key transactions. Wherever the definition has an answer, so has the checker, and it is the same; a
violation holds up without the core and has a witness; an order replays, key by key and by the clock.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import pytest

from definition import satisfies
from definition.orders import chains_hold, real_time
from definition.replay import initial_store, run
from definition.states import list_keys
from definition.worlds import World, node
from isolde.engines.check import check, cut_out, holds_up
from isolde.engines.check.unordered import key_of
from isolde.errors import IsoldeError
from isolde.findings import Finding, Verdict
from isolde.formats import encode
from isolde.history import (
    Append,
    CompareAndSet,
    History,
    Key,
    Operation,
    Read,
    Scalar,
    Status,
    Transaction,
    Value,
    VersionChain,
    Write,
    parse,
    render,
)
from isolde.levels import Level

SHAPES = ("duplicates", "deletes", "cas", "silent", "told", "list")
HISTORIES = 6_000
LONG_HISTORIES = 60_000
BATCH = 250


def random_single_keys(rng: random.Random, shape: str) -> History:
    """4 to 8 transactions of one key each, run on a store that forgets, with times around the moment each ran."""
    keys: tuple[Key, ...] = ("x", "y")[: rng.choice((1, 1, 1, 2))]
    initial: dict[Key, Value] = {}
    if rng.random() < 0.5:
        initial = dict.fromkeys(keys, (0,) if shape == "list" else 0)
    past: dict[Key, list[Value]] = {key: [initial.get(key)] for key in keys}
    sloppy = rng.choice((0.0, 0.3, 0.6, 0.9))
    spread = rng.choice((1, 4, 12, 25))
    count = rng.randint(4, 8 if shape != "told" else 6)
    transactions = []
    for number in range(count):
        key = rng.choice(keys)
        status = rng.choices(tuple(Status), (0.75, 0.12, 0.13))[0]
        takes_effect = status is Status.COMMITTED or (status is Status.UNKNOWN and rng.random() < 0.5)
        base = rng.choice(past[key]) if rng.random() < sloppy else past[key][-1]
        ops, after = run_sloppily(rng, shape, key, base, number, wild=rng.random() < sloppy / 3)
        if takes_effect:
            latest = past[key][-1]
            past[key].append(after if shape != "list" else _list(latest) + _list(after)[len(_list(base)) :])
        moment = 10 * (number if rng.random() < 0.95 else rng.randrange(count))
        start: int | None = moment - rng.randint(0, spread)
        end: int | None = moment + rng.randint(0, spread)
        if status is not Status.COMMITTED:
            start = None if rng.random() < 0.08 else start
            end = None if rng.random() < 0.3 else end
        transactions.append(Transaction(number, f"s{number}", tuple(ops), status, start, end))
    versions = tuple(told(rng, key, past[key]) for key in keys if shape == "told")
    if rng.random() < 0.2:
        rng.shuffle(transactions)
    return History(tuple(transactions), initial=initial, versions=versions)


def run_sloppily(
    rng: random.Random, shape: str, key: Key, state: Value, number: int, *, wild: bool
) -> tuple[list[Operation], Value]:
    """One to three operations on ``state``; with ``wild`` the first read is of anything."""
    ops: list[Operation] = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        look = rng.random() < 0.5
        if shape == "list":
            if look:
                seen = (rng.randint(0, 3),) if wild else state
                ops.append(Read(key, seen if seen is not None or rng.random() < 0.5 else ()))
            else:
                element = number if rng.random() < 0.8 else rng.randint(0, 2)
                ops.append(Append(key, element))
                state = (*_list(state), element)
            continue
        assert not isinstance(state, tuple)
        new: Scalar = None if shape == "deletes" and rng.random() < 0.4 else rng.choice((0, 1, 1, 2, 2))
        if look:
            ops.append(Read(key, rng.choice((1, 2)) if wild else state))
        elif shape in ("cas", "silent") and rng.random() < 0.8:
            expected = rng.choice((None, 0, 1, 2, state, state))
            if expected == state and type(expected) is type(state):
                ops.append(CompareAndSet(key, expected, new, applied=True))
                state = new
            else:
                shown = () if shape == "silent" and rng.random() < 0.8 else (state,)
                ops.append(CompareAndSet(key, expected, new, applied=False, current=shown))
        else:
            ops.append(Write(key, new))
            state = new
        wild = False
    return ops, state


def told(rng: random.Random, key: Key, past: list[Value]) -> VersionChain:
    """Parts of the truth, sometimes a lie."""
    values = [value for value in past if not isinstance(value, tuple) and rng.random() < 0.7]
    if rng.random() < 0.3:
        rng.shuffle(values)
    return VersionChain(key, tuple(values))


def _list(value: Value) -> tuple[Scalar, ...]:
    return value if isinstance(value, tuple) else ()


def replays(history: History, order: tuple[int, ...], *, judge_aborted: bool) -> bool:
    """Whether ``order`` explains every answer and keeps real time, taking those as effective that somebody must have been."""
    lists = list_keys(history)
    chosen = [history.transactions[position] for position in order]
    unknown = [t for t in chosen if t.status is Status.UNKNOWN]
    for outcome in range(1 << len(unknown) if judge_aborted else 1):
        left_out = {t.id for bit, t in enumerate(unknown) if outcome >> bit & 1}
        effective = [t.status is not Status.ABORTED and t.id not in left_out for t in chosen]
        nodes = tuple(node(t, lists, takes_effect=e) for t, e in zip(chosen, effective, strict=True))
        touched = {key_of(t) for t in chosen}
        world = World(nodes, history.initial, lists, tuple(c for c in history.versions if c.key in touched))
        if any(a > b for a, b in real_time(world)) or not chains_hold(world, range(len(nodes))):
            continue
        store = initial_store(world)
        for member in nodes:
            after = run(member.transaction, store, lists)
            if after is None:
                break
            store = after if member.takes_effect else store
        else:
            return True
    return False


def problem_with(history: History, finding: Finding, *, judge_aborted: bool) -> str | None:
    truth = satisfies(history, "linearizable", judge_aborted=judge_aborted)
    match finding.verdict:
        case Verdict.UNDECIDED:
            return None if truth is None else f"undecided ({finding.reason}), the definition says {truth}"
        case Verdict.SATISFIED if truth is not True:
            return f"called satisfied, the definition says {truth}"
        case Verdict.SATISFIED:
            assert finding.order is not None
            places = {t.id: i for i, t in enumerate(history.transactions)}
            order = tuple(places[name] for name in finding.order.transactions)
            needed = {i for i, t in enumerate(history.transactions) if t.status is Status.COMMITTED or judge_aborted}
            if len(set(order)) != len(order) or not needed <= set(order):
                return f"the order {order} leaves something out or has it twice"
            if not replays(history, order, judge_aborted=judge_aborted):
                return f"the order {order} does not replay"
        case Verdict.VIOLATED if truth is True:
            return f"called violated, the definition says it holds: {finding.anomalies[0].explanation}"
        case Verdict.VIOLATED:
            for anomaly in finding.anomalies:
                if not holds_up(history, Level.LINEARIZABLE, anomaly, judge_aborted=judge_aborted):
                    return (
                        f"the evidence of {anomaly.name} {anomaly.transactions} does not hold up: {anomaly.explanation}"
                    )
                try:
                    cut_out(encode(history), Level.LINEARIZABLE, anomaly, judge_aborted=judge_aborted)
                except IsoldeError as error:
                    return f"no witness, {error}"
    return None


def batch(shape: str, first_seed: int) -> tuple[Counter[str], list[str]]:
    verdicts: Counter[str] = Counter()
    wrong = []
    for seed in range(first_seed, first_seed + BATCH):
        rng = random.Random(f"linear-{shape}-{seed}")
        history = random_single_keys(rng, shape)
        judge_aborted = rng.random() < 0.3
        every = rng.random() < 0.5
        report = check(encode(history), [Level.LINEARIZABLE], order=True, every=every, judge_aborted=judge_aborted)
        finding = report.findings[0]
        names = {anomaly.name for anomaly in finding.anomalies}
        verdicts[f"{shape} {finding.verdict.value}"] += 1
        verdicts[f"{shape} searched"] += "no-linearization" in names
        if found := problem_with(history, finding, judge_aborted=judge_aborted):
            wrong.append(f"{shape} seed {seed} judge_aborted={judge_aborted}: {found}\n{render(history)}")
    return verdicts, wrong


def assert_agreement(total: int) -> None:
    verdicts: Counter[str] = Counter()
    wrong: list[str] = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(batch, shape, s) for shape in SHAPES for s in range(0, total // len(SHAPES), BATCH)]
        for job in jobs:
            more, also = job.result()
            verdicts += more
            wrong += also
    assert not wrong, f"{len(wrong)} disagreements, first:\n" + "\n\n".join(wrong[:3])
    for shape in SHAPES:
        assert verdicts[f"{shape} satisfied"] > total // 50, verdicts
        assert verdicts[f"{shape} searched"] > total // 400, verdicts


def test_every_verdict_is_the_definitions_on_6000_random_single_key_histories() -> None:
    assert_agreement(HISTORIES)


@pytest.mark.long
def test_every_verdict_is_the_definitions_on_60000_random_single_key_histories() -> None:
    assert_agreement(LONG_HISTORIES)


def decided(text: str) -> Finding:
    return check(encode(parse(text)), [Level.LINEARIZABLE]).findings[0]


def test_a_stale_read_is_shown_with_what_overwrote_it() -> None:
    finding = decided(
        "initial: x=3\ns1: [w(x,3)]@0..1 [w(x,4)]@2..3 [w(x,3)]@4..5 [w(x,5)]@6..7 [r(x,5)]@8..9\ns2: [r(x,3)]@10..11"
    )
    assert finding.verdict is Verdict.VIOLATED
    (anomaly,) = finding.anomalies
    assert anomaly.name == "no-linearization"
    assert len(anomaly.transactions) == 2
    assert "held 5, but then" in anomaly.explanation, anomaly.explanation


def test_a_witness_says_what_the_key_held_before() -> None:
    history = parse(
        "s1: [w(x,3)]@0..1 [w(x,4)]@2..3 [w(x,3)]@4..5 [w(x,5)]@6..7 [r(x,5)]@8..9\ns2: [r(x,3)]@10..11 [r(x,5)]@12..13"
    )
    columns = encode(history)
    (anomaly,) = check(columns, [Level.LINEARIZABLE]).findings[0].anomalies
    witness = cut_out(columns, Level.LINEARIZABLE, anomaly)
    assert len(witness.transactions) == 2
    assert witness.initial == {"x": 3}


def hard_to_order() -> list[Transaction]:
    """Many writes at once, of few values, and then two reads that cannot both be right."""
    writes = [Transaction(i, f"s{i}", (Write("x", i % 5),), start=0, end=100 + i) for i in range(16)]
    return writes + [Transaction(100 + i, f"s{i}", (Read("x", i),), start=200, end=300) for i in range(2)]


def test_without_a_budget_nothing_is_called_satisfied_or_violated() -> None:
    columns = encode(History(tuple(hard_to_order())))
    assert check(columns, [Level.LINEARIZABLE]).findings[0].verdict is Verdict.VIOLATED
    starved = check(columns, [Level.LINEARIZABLE], budget=10).findings[0]
    assert starved.verdict is Verdict.UNDECIDED
    assert starved.reason.startswith("the order of 18 operations on the key of w(x,0) was not settled within 10 steps")


def test_a_violated_key_is_found_although_another_exhausts_the_budget() -> None:
    stale = [
        Transaction("a", "t", (Write("y", 1),), start=0, end=1),
        Transaction("b", "t", (Write("y", 1),), start=2, end=3),
        Transaction("c", "t", (Write("y", 2),), start=4, end=5),
        Transaction("d", "t", (Read("y", 1),), start=6, end=7),
    ]
    finding = check(encode(History((*hard_to_order(), *stale))), [Level.LINEARIZABLE], budget=50).findings[0]
    assert finding.verdict is Verdict.VIOLATED
    assert set(finding.anomalies[0].transactions) <= {"a", "b", "c", "d"}
