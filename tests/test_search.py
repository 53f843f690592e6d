"""What the search shows: cases laid open, orders that explain, where the line between the levels runs, and when it gives up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isolde._core import generate
from isolde.engines.check import check, cut_out, frontier, holds_up
from isolde.findings import Circle, Verdict
from isolde.formats import decode, encode
from isolde.history import History, Operation, Read, Write, parse
from isolde.levels import Level

# Two blind writes, seen in opposite orders: no cycle is known, but either order of the writes closes one.
OPPOSITE = """
initial: x=0
s1: [w(x,1)]
s2: [w(x,2)]
s3: [r(x,1)] [r(x,2)]
s4: [r(x,2)] [r(x,1)]
"""

# Two transactions of unknown outcome wrote the same value; only the second can be the one that was read.
DUPLICATES = """
initial: x=0 y=0
s1: [r(y,1) w(x,5)]!unknown
s2: [w(x,5)]!unknown
s3: [r(x,5) w(y,1)]
"""

# Nobody read the last two elements, and both appenders had read the list before.
LOST_APPEND = """
s1: [a(x,1)]
s2: [r(x,[1]) a(x,2)]
s3: [r(x,[1]) a(x,3)]
"""

SKEWED_LISTS = """
s1: [r(x,[]) r(y,[]) a(x,1)]
s2: [r(x,[]) r(y,[]) a(y,2)]
s3: [r(x,[1]) r(y,[2])]
"""


ADYA = {"lost-update": "g-single", "write-skew": "g2-item", "g0": "g0"}


def test_a_violation_without_a_plain_cycle_lays_its_choices_open() -> None:
    history = parse(OPPOSITE)
    finding = check(encode(history), [Level.SERIALIZABLE]).findings[0]
    (anomaly,) = finding.anomalies
    assert (finding.verdict, finding.method, anomaly.cycle) == (Verdict.VIOLATED, "search", ())
    first, second = anomaly.cases
    assert (first.supposition.first, first.supposition.second) == (second.supposition.second, second.supposition.first)
    assert all(isinstance(case.outcome, Circle) for case in anomaly.cases)
    assert any(
        link.assumed for case in anomaly.cases if isinstance(case.outcome, Circle) for link in case.outcome.cycle
    )
    assert "Otherwise" in anomaly.explanation
    assert holds_up(history, Level.SERIALIZABLE, anomaly)
    assert len(cut_out(encode(history), Level.SERIALIZABLE, anomaly).transactions) == 6


def test_the_order_of_a_satisfied_level_names_those_that_took_effect() -> None:
    finding = check(encode(parse(DUPLICATES)), [Level.SERIALIZABLE], order=True).findings[0]
    assert finding.verdict is Verdict.SATISFIED
    assert finding.order is not None
    assert finding.order.transactions == (1, 2)


def test_the_order_of_snapshot_isolation_says_what_each_transaction_saw() -> None:
    skew = parse("initial: x=0 y=0\ns1: [r(x,0) r(y,0) w(x,1)]\ns2: [r(x,0) r(y,0) w(y,2)]")
    finding = check(encode(skew), [Level.SNAPSHOT_ISOLATION], order=True).findings[0]
    assert finding.order is not None
    assert sorted(finding.order.transactions) == [0, 1]
    assert finding.order.snapshots == (0, 0)


@pytest.mark.parametrize(
    ("text", "level", "name"),
    [
        (LOST_APPEND, Level.SNAPSHOT_ISOLATION, "lost-update"),
        (SKEWED_LISTS, Level.SERIALIZABLE, "write-skew"),
        ("s1: [a(x,1)]\ns2: [a(x,2)]\ns3: [r(x,[1,2])]\ns4: [r(x,[2,1])]", Level.PL_2, "incompatible-order"),
        ("s1: [a(x,1)]\ns2: [a(x,2)]\ns3: [r(x,[1,2])]\ns4: [r(x,[2])]", Level.PL_2, "lost-element"),
        ("s1: [a(x,1)]\ns2: [r(x,[1,1])]", Level.PL_2, "duplicate-element"),
        ("s1: [a(x,1) a(x,2)]\ns2: [r(x,[1])]", Level.PL_2, "intermediate-read"),
        ("s1: [a(x,1)]\ns2: [a(x,2) r(x,[1])]", Level.PL_2, "not-my-own-write"),
        ("s1: [a(x,1) a(y,1)]\ns2: [a(x,2) a(y,2)]\ns3: [r(x,[1,2]) r(y,[2,1])]", Level.READ_UNCOMMITTED, "g0"),
    ],
    ids=lambda value: value if isinstance(value, str) and "[" not in value else "",
)
def test_lists_show_their_anomalies_by_name(text: str, level: Level, name: str) -> None:
    history = parse(text)
    (anomaly,) = check(encode(history), [level]).findings[0].anomalies
    assert anomaly.name == name
    assert anomaly.adya == ADYA.get(name, "")
    assert holds_up(history, level, anomaly)
    witness = cut_out(encode(history), level, anomaly)
    assert check(encode(witness), [level]).findings[0].verdict is Verdict.VIOLATED


def test_a_read_that_ends_inside_own_appends_is_fine() -> None:
    history = parse("s1: [a(x,1)]\ns2: [a(x,2) r(x,[1,2]) a(x,3) r(x,[1,2,3])]\ns3: [r(x,[1,2,3])]")
    assert check(encode(history), [Level.SERIALIZABLE]).findings[0].verdict is Verdict.SATISFIED


def test_the_frontier_is_made_of_sets_with_reasons() -> None:
    skew = parse("initial: x=0 y=0\ns1: [r(x,0) r(y,0) w(x,1)]\ns2: [r(x,0) r(y,0) w(y,2)]")
    line = frontier(check(encode(skew), list(Level)).findings)
    assert [entry.level for entry in line.strongest_satisfied] == [Level.SNAPSHOT_ISOLATION]
    assert [(entry.level, entry.reason) for entry in line.weakest_violated] == [(Level.REPEATABLE_READ, "write-skew")]


@pytest.mark.parametrize("blind", [3, 64, 65, 200])
def test_told_versions_order_the_readers_of_the_initial_one_however_many_were_written_blindly(blind: int) -> None:
    """A write skew on the first versions of two keys that many others wrote afterwards."""
    later = " ".join(f"[w(x,{value}) w(y,{value})]" for value in range(2, blind + 1))
    told = ",".join(map(str, range(1, blind + 1)))
    text = (
        f"initial: x=0 y=0\nversions: x=[{told}] y=[{told}]\ns1: [w(x,1) r(y,0)]\ns2: [w(y,1) r(x,{{}})]\ns3: {later}"
    )
    for seen, verdict in ((0, Verdict.VIOLATED), (1, Verdict.SATISFIED)):
        (finding,) = check(encode(parse(text.format(seen))), [Level.SERIALIZABLE], order=True).findings
        assert finding.verdict is verdict
        assert finding.method == "dependency-graph"


def test_versions_lines_close_choices_and_contradictions_are_told() -> None:
    blind = "initial: x=0\nversions: x=[0,{}]\ns1: [w(x,1)]\ns2: [w(x,2)]\ns3: [r(x,1)]\ns4: [r(x,2)]"
    report = check(encode(parse(blind.format("1,2"))), [Level.SERIALIZABLE])
    (told,) = report.findings
    assert (told.verdict, told.method) == (Verdict.SATISFIED, "dependency-graph")
    assert report.known is not None
    assert report.known.open_pairs == 0
    against = parse("initial: x=0\nversions: x=[2,1]\ns1: [w(x,1)] [r(x,1) w(x,2)]")
    finding = check(encode(against), [Level.SERIALIZABLE]).findings[0]
    assert finding.verdict is Verdict.VIOLATED
    assert finding.anomalies[0].name in ("g0", "g1c")


# Whichever of the two T2 saw, it had seen the other before it.
TWO_WRITERS = """
initial: x=0 y=0
s1: [w(x,1) w(y,1)]
s2: [w(x,1) w(y,2)]
s3: [r(y,2) r(x,1) r(y,1) r(x,0)]
"""


@pytest.mark.parametrize("level", [Level.READ_COMMITTED, Level.READ_ATOMIC, Level.CAUSAL])
def test_a_weak_level_is_violated_whomever_an_open_read_saw(level: Level) -> None:
    history = parse(TWO_WRITERS)
    finding = check(encode(history), [level]).findings[0]
    assert finding.verdict is Verdict.VIOLATED
    assert all(holds_up(history, level, anomaly) for anomaly in finding.anomalies)


def test_weak_levels_try_whom_an_open_read_saw() -> None:
    # Only the first writer of x can be the one that was read: the second came after in the reader's own session.
    history = parse("initial: x=0\ns1: [w(x,1)]\ns2: [w(x,2)] [r(x,1)] [w(x,1)]")
    for level in (Level.READ_UNCOMMITTED, Level.PL_2, Level.READ_COMMITTED, Level.READ_ATOMIC, Level.CAUSAL):
        assert check(encode(history), [level]).findings[0].verdict is Verdict.SATISFIED


def generated(
    workload: str, level: str, *, sessions: int, transactions: int, keys: int, unknown_rate: float = 0.0
) -> History:
    columns = generate(
        sessions=sessions,
        transactions=transactions,
        keys=keys,
        operations=6,
        distribution="uniform",
        workload=workload,
        level=level,
        abort_rate=0.0,
        unknown_rate=unknown_rate,
        inject=[],
        seed=5,
    )
    return decode(columns)


def test_thousands_of_open_reads_are_decided_at_read_atomic() -> None:
    history = generated("general", "causal", sessions=10, transactions=2_000, keys=100, unknown_rate=0.01)

    def repeated(op: Operation) -> Operation:
        return replace(op, value=op.value % 50) if isinstance(op, Read | Write) and isinstance(op.value, int) else op

    transactions = tuple(replace(t, ops=tuple(map(repeated, t.ops))) for t in history.transactions)
    initial = {key: value % 50 if isinstance(value, int) else value for key, value in history.initial.items()}
    finding = check(encode(History(transactions, initial=initial)), [Level.READ_ATOMIC]).findings[0]
    assert (finding.verdict, finding.method) == (Verdict.SATISFIED, "search")


@pytest.mark.parametrize(
    ("told", "verdict"), [("1,2,1", Verdict.SATISFIED), ("2,1,2", Verdict.VIOLATED), ("1,1,2", Verdict.VIOLATED)]
)
def test_a_told_value_that_was_written_twice_means_either_write(told: str, verdict: Verdict) -> None:
    history = parse(f"initial: x=0\nversions: x=[{told}]\ns1: [w(x,1)] [r(x,1) w(x,2)] [r(x,2) w(x,1)]")
    for level in (Level.READ_UNCOMMITTED, Level.CAUSAL, Level.SERIALIZABLE):
        finding = check(encode(history), [level]).findings[0]
        # Nobody must have read anything at read uncommitted, so only the number of writes counts there.
        expected = Verdict.SATISFIED if (level, told) == (Level.READ_UNCOMMITTED, "1,1,2") else verdict
        assert finding.verdict is expected, level
        assert all(holds_up(history, level, anomaly) for anomaly in finding.anomalies)


@pytest.mark.parametrize(
    "text", ["versions: y=[_,_]\ns1: [r(x,_)]", "initial: y=1\nversions: y=[1,1]\ns1: [r(y,2)]!unknown"]
)
def test_versions_lines_that_contradict_themselves_are_their_own_witness(text: str) -> None:
    columns = encode(parse(text))
    for level in (Level.READ_COMMITTED, Level.SERIALIZABLE, Level.LINEARIZABLE):
        (anomaly,) = check(columns, [level]).findings[0].anomalies
        witness = cut_out(columns, level, anomaly)
        assert (witness.transactions, [chain.key for chain in witness.versions]) == ((), ["y"])


def test_shared_elements_are_told_apart() -> None:
    twice = parse("s1: [a(x,1)]\ns2: [a(x,1) a(x,2)]\ns3: [r(x,[1,1,2])]")
    assert check(encode(twice), [Level.SERIALIZABLE]).findings[0].verdict is Verdict.SATISFIED
    cut = parse("s1: [a(x,1)]\ns2: [a(x,1) a(x,2)]\ns3: [r(x,[1,2,1])] [r(x,[1])]")
    finding = check(encode(cut), [Level.SERIALIZABLE]).findings[0]
    assert finding.verdict is Verdict.VIOLATED
    assert finding.anomalies[0].cases
    assert holds_up(cut, Level.SERIALIZABLE, finding.anomalies[0])


def test_without_a_budget_a_hard_history_is_undecided_and_says_how_much_is_open() -> None:
    history = generated("heavy-write", "serializable", sessions=8, transactions=400, keys=40)
    # Neither times nor the order of the file help: the sessions come one after the other, the last first.
    transactions = sorted(history.transactions, key=lambda t: -int(t.session))
    bare = tuple(type(t)(t.id, t.session, t.ops, t.status) for t in transactions)
    hard = encode(type(history)(bare, initial=history.initial))
    lost = check(hard, [Level.SERIALIZABLE], session_order=False, budget=0).findings[0]
    assert lost.verdict is Verdict.UNDECIDED
    assert "still open" in lost.reason
    found = check(hard, [Level.SERIALIZABLE], session_order=False).findings[0]
    assert (found.verdict, found.method) == (Verdict.SATISFIED, "search")
