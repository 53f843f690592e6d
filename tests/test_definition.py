"""The definition agrees with itself: two ways to say a level, the lattice of levels, and facts of the literature."""

from __future__ import annotations

import random
from itertools import permutations, product

import pytest

from definition import LEVELS, satisfies
from definition.axioms import AXIOMS
from definition.executions import some_commit_order
from definition.orders import Relation
from definition.random_histories import SHAPES, random_history
from definition.replay import some_serial_order
from definition.satisfaction import contained
from definition.snapshots import some_snapshots
from definition.worlds import World, worlds
from isolde.history import History, parse, render

SEEDS = range(400)

IMPLICATIONS = (
    ("serializable", "repeatable-read"),
    ("repeatable-read", "serializable"),
    ("serializable", "snapshot-isolation"),
    ("snapshot-isolation", "prefix"),
    ("prefix", "causal"),
    ("causal", "read-atomic"),
    ("read-atomic", "read-committed"),
    ("read-committed", "pl-2"),
    ("pl-2", "read-uncommitted"),
    ("strict-serializable", "serializable"),
    ("strict-serializable", "strict-snapshot-isolation"),
    ("strict-snapshot-isolation", "snapshot-isolation"),
)


def histories(shape: str) -> list[History]:
    return [random_history(random.Random(f"{shape} {seed}"), shape=shape) for seed in SEEDS]


def strongest(text: str) -> str:
    """The last level of the chain that the history satisfies."""
    chain = ("pl-2", "read-committed", "read-atomic", "causal", "prefix", "snapshot-isolation", "serializable")
    satisfied = [level for level in chain if satisfies(parse(text), level)]
    assert tuple(satisfied) == chain[: len(satisfied)]
    return satisfied[-1] if satisfied else "none"


@pytest.mark.parametrize("judge_aborted", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_serial_replay_agrees_with_the_serializability_axiom(shape: str, judge_aborted: bool) -> None:
    for history in histories(shape):
        for level, with_so in product(("serializable", "strict-serializable"), (True, False)):
            for world in worlds(history, judge_aborted=judge_aborted):
                order = contained(world, level, with_session_order=with_so)
                by_axiom = some_commit_order(world, order, AXIOMS["serializable"])
                assert some_serial_order(world, order) == by_axiom, render(history, separator="\n")


@pytest.mark.parametrize("judge_aborted", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_snapshots_agree_with_the_axioms_prefix_and_conflict(shape: str, judge_aborted: bool) -> None:
    # Many judged readers in one session have very many snapshots to choose from.
    for history in histories(shape)[: 100 if judge_aborted else None]:
        for level, with_so in product(("snapshot-isolation", "strict-snapshot-isolation"), (True, False)):
            for world in worlds(history, judge_aborted=judge_aborted):
                order = contained(world, level, with_session_order=with_so)
                by_axioms = some_commit_order(world, order, AXIOMS["snapshot-isolation"])
                assert some_snapshots(world, order) == by_axioms, render(history, separator="\n")


@pytest.mark.parametrize("shape", ["mini", "blind"])
def test_a_commit_order_without_axioms_is_a_version_order_without_cycles(shape: str) -> None:
    compared = 0
    for history in histories(shape):
        if history.versions:
            continue
        for world in worlds(history, judge_aborted=False):
            order = contained(world, "pl-2", with_session_order=True)
            if max((len(_writers(world, key)) for key in "xyz"), default=0) > 3:
                continue
            compared += 1
            by_order = some_commit_order(world, order, AXIOMS["pl-2"])
            assert _some_version_order(world, order) == by_order, render(history, separator="\n")
    assert compared > 100


@pytest.mark.parametrize("shape", SHAPES)
def test_stronger_levels_imply_weaker_ones(shape: str) -> None:
    for history in histories(shape):
        verdicts = {level: satisfies(history, level) for level in LEVELS}
        for stronger, weaker in IMPLICATIONS:
            if verdicts[stronger]:
                assert verdicts[weaker], (stronger, weaker, render(history, separator="\n"))


@pytest.mark.parametrize("shape", SHAPES)
def test_asking_for_less_never_turns_satisfied_into_violated(shape: str) -> None:
    for history in histories(shape):
        for level in LEVELS:
            if satisfies(history, level):
                assert satisfies(history, level, session_order=False)
            if satisfies(history, level, judge_aborted=True):
                assert satisfies(history, level)


def test_linearizable_and_strict_serializable_are_the_same_for_one_key_without_session_order() -> None:
    compared = 0
    for shape in SHAPES:
        for history in histories(shape):
            lin = satisfies(history, "linearizable")
            if lin is not None:
                compared += 1
                # Linearizability is local (Herlihy & Wing 1990, theorem 1), so this holds for several keys too.
                assert lin == satisfies(history, "strict-serializable", session_order=False), render(history)
    assert compared > 100


@pytest.mark.parametrize("level", LEVELS)
def test_random_histories_have_both_verdicts_at_every_level(level: str) -> None:
    verdicts = {satisfies(history, level) for shape in SHAPES for history in histories(shape)[:200]}
    assert {True, False} <= verdicts


def _writers(world: World, key: str) -> list[int]:
    return [index for index, node in enumerate(world.nodes) if key in node.effects]


def _some_version_order(world: World, so: Relation) -> bool:
    """Adya's PL-2 literally, for registers whose values are unique: no G1a, G1b, and for some version order no G1c."""
    if not all(node.sees_itself for node in world.nodes):
        return False
    edges = set(so)
    for index, node in enumerate(world.nodes):
        for seen in node.seen:
            if seen.allows(world.initial_state(seen.key)):
                continue
            sources = [
                writer
                for writer in _writers(world, str(seen.key))
                if writer != index and seen.allows(getattr(world.nodes[writer].effects[seen.key], "state", None))
            ]
            if len(sources) != 1:
                return False
            edges.add((sources[0], index))
    for orders in product(*(permutations(_writers(world, key)) for key in "xyz")):
        ww = {(order[i], order[j]) for order in orders for j in range(len(order)) for i in range(j)}
        if _is_acyclic(edges | ww, len(world.nodes)):
            return True
    return False


def _is_acyclic(edges: set[tuple[int, int]], count: int) -> bool:
    remaining = set(range(count))
    while remaining:
        free = {node for node in remaining if not any(a in remaining and b == node for a, b in edges)}
        if not free:
            return False
        remaining -= free
    return True


def test_write_skew_satisfies_snapshot_isolation_and_not_serializable() -> None:
    text = "initial: x=0 y=0 | s1: [r(x,0) r(y,0) w(x,1)] | s2: [r(x,0) r(y,0) w(y,2)]"
    assert strongest(text) == "snapshot-isolation"


def test_long_fork_satisfies_causal_and_not_prefix() -> None:
    text = "initial: x=0 y=0 | s1: [r(x,0) w(x,1)] | s2: [r(y,0) w(y,2)] | s3: [r(x,1) r(y,0)] | s4: [r(x,0) r(y,2)]"
    assert strongest(text) == "causal"


def test_lost_update_satisfies_prefix_and_not_snapshot_isolation() -> None:
    assert strongest("initial: x=0 | s1: [r(x,0) w(x,1)] | s2: [r(x,0) w(x,2)]") == "prefix"


def test_causality_violation_satisfies_read_atomic_and_not_causal() -> None:
    text = "initial: x=0 y=0 | s1: [r(x,0) w(x,1)] | s2: [r(x,1) r(y,0) w(y,2)] | s3: [r(y,2) r(x,0)]"
    assert strongest(text) == "read-atomic"


def test_missing_ones_own_session_satisfies_read_committed_only() -> None:
    text = "initial: x=0 | s1: [r(x,0) w(x,1)] [r(x,0)]"
    assert strongest(text) == "read-committed"
    assert satisfies(parse(text), "serializable", session_order=False)


@pytest.mark.parametrize(
    ("reads", "level"),
    [("r(x,0) r(x,1)", "read-committed"), ("r(x,1) r(x,0)", "pl-2")],
)
def test_read_committed_lets_a_repeated_read_go_forward_and_not_back(reads: str, level: str) -> None:
    assert strongest(f"initial: x=0 | s1: [r(x,0) w(x,1)] | s2: [{reads}]") == level


@pytest.mark.parametrize(
    ("reads", "level"),
    [("r(x,0) r(y,2)", "read-committed"), ("r(y,2) r(x,0)", "pl-2")],
)
def test_read_committed_lets_a_fractured_read_miss_the_past_and_not_what_it_saw(reads: str, level: str) -> None:
    text = f"initial: x=0 y=0 | s1: [r(x,0) r(y,0) w(x,1) w(y,2)] | s2: [{reads}]"
    assert strongest(text) == level


def test_a_cycle_of_reads_violates_pl_2() -> None:
    assert strongest("initial: x=0 y=0 | s1: [r(y,2) w(x,1)] | s2: [r(x,1) w(y,2)]") == "none"


def test_an_aborted_write_must_not_be_read_but_an_unknown_one_may() -> None:
    assert strongest("initial: x=0 | s1: [r(x,0) w(x,1)]!abort | s2: [r(x,1)]") == "none"
    assert strongest("initial: x=0 | s1: [r(x,0) w(x,1)]!unknown | s2: [r(x,1)]") == "serializable"
    assert strongest("initial: x=0 | s1: [r(x,0) w(x,1)]!unknown | s2: [r(x,0)]") == "serializable"


def test_what_an_aborted_transaction_read_is_judged_on_request_only() -> None:
    history = parse("initial: x=0 | s1: [r(x,0) w(x,1)] [r(x,0) w(x,2)]!abort")
    assert satisfies(history, "serializable")
    assert satisfies(history, "serializable", judge_aborted=True) is False


def test_real_time_matters_to_strict_levels_only() -> None:
    history = parse("initial: x=0 | s1: [r(x,0) w(x,1)]@0..10 | s2: [r(x,0)]@20..30")
    assert satisfies(history, "serializable")
    for level in ("strict-serializable", "strict-snapshot-isolation", "linearizable"):
        assert satisfies(history, level) is False


def test_an_unknown_transaction_may_take_effect_after_its_client_gave_up() -> None:
    history = parse("initial: x=0 | s1: [w(x,1)]!unknown@0..10 | s2: [r(x,0)]@20..30 [r(x,1)]@40..50")
    assert satisfies(history, "strict-serializable")
    too_early = parse("initial: x=0 | s1: [w(x,1)]!unknown@60..70 | s2: [r(x,1)]@40..50")
    assert satisfies(too_early, "strict-serializable") is False


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("s1: [w(x,1)]@0.. | s2: [r(x,1)]@5..6", "strict-serializable"),
        ("s1: [w(x,1)]!unknown | s2: [r(x,1)]@5..6", "strict-serializable"),
        ("s1: [w(x,1) w(y,1)]@0..1", "linearizable"),
        ('s1: [{"scan": {}, "rows": []}]', "serializable"),
    ],
)
def test_a_level_that_does_not_apply_gives_none(text: str, level: str) -> None:
    assert satisfies(parse(text), level) is None


def test_an_unread_unknown_transaction_without_times_does_not_matter() -> None:
    assert satisfies(parse("s1: [w(x,1)]!unknown | s2: [r(x,_)]@5..6"), "strict-serializable")


def test_two_values_alike_may_be_attributed_either_way() -> None:
    assert (
        strongest("initial: x=0 | s1: [w(x,1)] [r(x,1) w(x,0)] | s2: [r(x,0) w(y,1)] | s1: [r(y,1)]") == "serializable"
    )


def test_version_lines_bind_every_level() -> None:
    text = "initial: x=0 y=0 | s1: [w(x,1) w(y,1)] | s2: [w(x,2) w(y,2)]"
    assert satisfies(parse(text + " | versions: x=[1,2]"), "serializable")
    assert satisfies(parse(text + " | versions: x=[1,2] y=[2,1]"), "read-uncommitted") is False
    assert satisfies(parse(text + " | versions: x=[0,1,7,2]"), "serializable")


def test_a_failed_compare_and_set_saw_another_value() -> None:
    assert satisfies(parse("initial: x=0 | s1: [cas(x,0,1)!]"), "pl-2") is False
    assert satisfies(parse("initial: x=0 | s1: [cas(x,0,1)!] | s2: [w(x,2)]"), "serializable")
    assert satisfies(parse("initial: x=0 | s1: [cas(x,0,1)] | s2: [cas(x,0,2)]"), "snapshot-isolation") is False


def test_lists_tell_their_order() -> None:
    assert strongest("s1: [a(x,1)] | s2: [a(x,2)] | s3: [r(x,[1,2])] | s4: [r(x,[1])] | s5: [r(x,_)]") == "serializable"
    assert strongest("s1: [a(x,1)] | s2: [a(x,2)] | s3: [r(x,[1,2])] | s4: [r(x,[2])]") == "none"
    assert strongest("s1: [r(x,_) a(x,1)] | s2: [r(x,[]) a(x,2) r(x,[2])] | s3: [r(x,[1,2])]") == "prefix"
    assert strongest("s1: [a(x,1) a(x,2)] | s2: [r(x,[1])]") == "none"
