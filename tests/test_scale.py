"""Work in parts gives what it gives in one: by processes of this machine, and on a Ray cluster of two nodes that loses one."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from definition.random_histories import SHAPES, random_history
from definition.random_logs import TABLES, random_log
from isolde.campaigns.audit import AuditQuestion, audit_file
from isolde.campaigns.check import CheckOptions, check_file
from isolde.campaigns.explore import ExploreOptions, explore
from isolde.engines.audit.apart import parts_by_tables
from isolde.engines.audit.audit import AuditOptions
from isolde.engines.audit.decide import decide
from isolde.engines.audit.log import log_of
from isolde.engines.audit.readings import READINGS
from isolde.engines.audit.search import Allowance, End
from isolde.engines.explore.files import program_of, programs_in
from isolde.engines.explore.program import Origin
from isolde.engines.explore.search import Limits
from isolde.errors import IsoldeError, OutsideFragment, UsageError
from isolde.findings import Finding, Report
from isolde.formats import decode, encode, read
from isolde.formats.jsonl import transaction_line
from isolde.formats.tables import SqlHistory, sql_history
from isolde.history import History, Scan, Sql, Status, Transaction, VersionChain
from isolde.history.json_text import json_text
from isolde.scale import Workers, opened_workers
from isolde.scale.auditing import audit_apart
from isolde.scale.checking import check_apart
from isolde.scale.exploring import exploring
from isolde.scale.workers import Answer, answered, spread, version_here
from isolde.workloads.applications import application_named

SMALL = Limits(calls_max=100)
"""A share so small that an exploration takes many."""


class InTurn:
    """Runs jobs in this process, the last one first: what the parts and their joining are worth, without waiting for processes."""

    count = 3

    def __init__(self) -> None:
        self._waiting: list[tuple[int, bytes]] = []
        self._started = 0

    def start(self, job: Callable[[Any], Any], argument: Any) -> int:
        self._waiting.append((self._started, pickle.dumps((job, argument))))
        self._started += 1
        return self._started - 1

    def ended(self) -> tuple[int, Answer]:
        number, packed = self._waiting.pop()
        job, argument = pickle.loads(packed)
        answer: Answer = pickle.loads(pickle.dumps(answered(job, argument, version_here())))
        return number, answer


def without_cost(report: Report) -> list[Finding]:
    """The findings, but for the seconds and the memory that they took."""
    found = []
    for finding in report.findings:
        counts = tuple(one for one in finding.spent.counts if one[0] not in {"memory_mb", "bodies"})
        found.append(replace(finding, spent=replace(finding.spent, seconds=0.0, counts=counts)))
    return found


# Explorations

PROGRAM = """
from isolde import Program

def first(tx):
    if tx.read({a!r}) > 1:
        tx.write({b!r}, tx.read({c!r}) + 1)
    tx.check(tx.read({b!r}) < {most}, "small")

def second(tx, key):
    tx.write(key, tx.read({a!r}) + 2)
    if tx.read({c!r}) == {most}:
        tx.abort()
    tx.write({c!r}, {most})

def third(tx):
    tx.write({a!r}, tx.read({b!r}) + tx.read({c!r}))

PROGRAM = Program(sessions={sessions}, initial={{"x": 0, "y": 1, "z": 2}}, invariant=lambda s: sum(s.values()) < {sum_})
"""
CALLS = ("first", "(second, 'x')", "(second, 'y')", "third")


def random_program(chance: random.Random, directory: Path) -> str:
    a, b, c = chance.sample("xyz", 3)
    lengths = chance.choice([(1, 1), (2, 1), (1, 2), (1, 1, 1)])
    sessions = [[chance.choice(CALLS) for _ in range(length)] for length in lengths]
    text = PROGRAM.format(
        a=a,
        b=b,
        c=c,
        most=chance.randint(2, 4),
        sum_=chance.randint(5, 9),
        sessions="[" + ", ".join(f"[{', '.join(one)}]" for one in sessions) + "]",
    )
    path = directory / f"program_{chance.randrange(10**9)}.py"
    path.write_text(text)
    return str(path)


def same_exploration(path: str, options: ExploreOptions, workers: Workers) -> Report:
    (program,) = programs_in(path)
    whole = explore(program, options)
    assert without_cost(explore(program, options, None, exploring(workers, 10, SMALL))) == without_cost(whole)
    return whole


def test_an_exploration_in_shares_is_the_exploration(tmp_path: Path) -> None:
    chance = random.Random(5)
    violated = 0
    for _ in range(20):
        levels = (chance.choice(["rc", "ra", "cc", "pc", "si", "ser"]),)
        against = "ser" if chance.random() < 0.3 else None
        options = ExploreOptions(levels=levels, against=against, threads=1, each_commit=chance.random() < 0.3)
        whole = same_exploration(random_program(chance, tmp_path), options, InTurn())
        violated += not whole.satisfied
    assert 5 < violated < 20


def test_an_exploration_of_an_application_in_shares_is_the_exploration() -> None:
    courseware = application_named("courseware")
    sessions = ("enroll(1, 1, 1)", "deregister(1)", "enroll(2, 1, 2)", "cancel_course(1)")
    origin = Origin("courseware", "courseware", sessions, ("students=3", "courses=2"), 0)
    scale = {**courseware.scale, "students": 3, "courses": 2}
    program = program_of(courseware, sessions, scale, 0, origin)
    options = ExploreOptions(levels=("cc", "si"), threads=1)
    whole = explore(program, options)
    assert without_cost(explore(program, options, None, exploring(InTurn(), 20, SMALL))) == without_cost(whole)
    assert not whole.satisfied


def test_a_predicate_over_histories_is_asked_by_the_workers(tmp_path: Path) -> None:
    path = tmp_path / "history.py"
    path.write_text(
        "from isolde import Program\n"
        "def add(tx, n):\n    tx.write('x', tx.read('x') + n)\n"
        "PROGRAM = Program(sessions=[[(add, 1)], [(add, 2)], [(add, 3)]], initial={'x': 0},\n"
        "    history=lambda h: len({op.value for t in h for op in t.ops}) > 4)\n"
    )
    assert not same_exploration(str(path), ExploreOptions(levels=("cc",), threads=1), InTurn()).satisfied


def test_a_bounded_exploration_in_shares_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    path = random_program(random.Random(8), tmp_path)
    (program,) = programs_in(path)
    whole = explore(program, ExploreOptions(levels=("rc",), threads=1)).findings[0]
    options = ExploreOptions(levels=("rc",), threads=1, calls_max=60, checkpoint=str(tmp_path / "left.json"))
    ask = exploring(InTurn(), 10, Limits(calls_max=15))
    for _ in range(1_000):
        found = explore(program, options, None, ask).findings[0]
        if not (tmp_path / "left.json").exists() or "budget" not in found.reason + str(found.evidence):
            break
    counts = {name: count for name, count in found.spent.counts if name in {"histories", "end_states", "explored"}}
    assert counts == {name: count for name, count in whole.spent.counts if name in counts}


def test_a_program_that_cannot_be_read_again_is_refused() -> None:
    from isolde import Program

    program = Program(sessions=[[lambda tx: tx.read("x")]])
    with pytest.raises(UsageError, match="read the program again"):
        explore(program, ExploreOptions(), None, exploring(InTurn()))


# Histories


def side_by_side(parts: list[History], chance: random.Random) -> History:
    """Histories without a common key and session as one, their transactions shuffled as their sessions allow."""
    queues: list[list[Transaction]] = []
    versions: list[VersionChain] = []
    initial: dict[Any, Any] = {}
    for number, part in enumerate(parts):
        initial |= {f"{number}.{key}": value for key, value in part.initial.items()}
        versions += [replace(chain, key=f"{number}.{chain.key}") for chain in part.versions]
        queues.append(
            [
                replace(
                    one,
                    id=f"{number}.{one.id}",
                    session=f"{number}.{one.session}",
                    ops=tuple(
                        replace(op, key=f"{number}.{op.key}") for op in one.ops if not isinstance(op, Scan | Sql)
                    ),
                )
                for one in part.transactions
            ]
        )
    shuffled = []
    while any(queues):
        shuffled.append(chance.choice([queue for queue in queues if queue]).pop(0))
    return History(tuple(shuffled), initial, versions=tuple(versions))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_history_in_parts_has_the_verdicts_of_the_whole(shape: str, tmp_path: Path) -> None:
    chance = random.Random(shape)
    path = tmp_path / "history.jsonl"
    for _ in range(60):
        parts = [random_history(chance, shape=shape) for _ in range(chance.randint(2, 4))]
        path.write_bytes(encode(side_by_side(parts, chance)).to_jsonl())
        names = ("lin",) if chance.random() < 0.2 else ("all",)
        options = CheckOptions(names, session_order=chance.random() < 0.7, judge_aborted=chance.random() < 0.2)
        whole = {one.level: one for one in check_file(str(path), options).report.findings}
        apart = {one.level: one for one in check_apart(str(path), options, InTurn()).report.findings}
        for level, finding in whole.items():
            # A part may be decided where the whole is too open.
            if finding.verdict.value != "unknown":
                assert apart[level].verdict is finding.verdict, path.read_text()
        for found in apart.values():
            ids = [json_id for anomaly in found.anomalies for json_id in anomaly.transactions]
            assert all(isinstance(one, str) and one.partition(".")[0].isdigit() for one in ids)


def test_the_witness_of_a_history_in_parts_is_violated(tmp_path: Path) -> None:
    chance = random.Random(2)
    path = tmp_path / "history.jsonl"
    cut = 0
    for _ in range(60):
        parts = [random_history(chance, shape=SHAPES[0]) for _ in range(3)]
        path.write_bytes(encode(side_by_side(parts, chance)).to_jsonl())
        witness = check_apart(str(path), CheckOptions(("ser",)), InTurn()).witness()
        if witness is not None:
            cut += 1
            small = tmp_path / "witness.jsonl"
            small.write_bytes(encode(witness.history).to_jsonl())
            assert not check_file(str(small), CheckOptions(("ser",))).report.satisfied
    assert cut > 10


# Logs of SQL


def both_logs(one: SqlHistory, other: SqlHistory, chance: random.Random) -> bytes:
    """Two logs as one: the table t of the first, and that of the second under the name u, in sessions of its own."""
    header = {
        "isolde": "history",
        "version": 1,
        "dialect": one.dialect.value,
        "schema": [TABLES, TABLES.replace("TABLE t", "TABLE u")],
        "rows": {"t": one.rows["t"], "u": other.rows["t"]},
    }
    if one.counts is not None:
        header["counts"] = one.counts
    queues = [[transaction_line(each) for each in log.transactions] for log in (one, other)]
    for line in queues[1]:
        line |= {"id": f"other {line['id']}", "session": f"other {line['session']}"}
        for op in line["ops"]:
            op["sql"] = re.sub(r"\bt\b", "u", op["sql"])
    lines = []
    while any(queues):
        lines.append(chance.choice([queue for queue in queues if queue]).pop(0))
    return "\n".join(json_text(line) for line in [header, *lines, ""] if line).encode() + b"\n"


def logs_of_two(path: Path, seeds: range) -> Iterator[int]:
    """Writes one log of two tables after the other."""
    chance = random.Random(1)
    for seed in seeds:
        try:
            one, other = random_log(seed), random_log(seed + 1)
        except OutsideFragment:
            continue
        if one.dialect is other.dialect and one.counts == other.counts:
            path.write_bytes(both_logs(one, other, chance))
            yield seed


def test_a_log_is_explained_if_its_parts_are(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    seen: Counter[object] = Counter()
    for seed in logs_of_two(path, range(0, 200, 2)):
        session_order = seed % 4 == 0
        history = sql_history(decode(read(str(path))))
        options = AuditOptions(session_order=session_order)
        parts = parts_by_tables(history, options, 4)
        assert parts is not None
        assert sorted(place for part in parts for place in part) == [
            place for place, one in enumerate(history.transactions) if one.status is not Status.ABORTED
        ]
        logs = [replace(history, transactions=tuple(history.transactions[at] for at in part)) for part in parts]
        for level, reading in READINGS.items():
            ends = [
                decide(log_of(one, session_order=session_order), reading, Allowance(100_000)).end
                for one in (history, *logs)
            ]
            assert (ends[0] is End.FOUND) == all(end is End.FOUND for end in ends[1:]), path.read_text()
            seen[level, ends[0]] += 1
    assert min(seen.values()) > 3


def test_a_log_in_parts_is_judged_as_the_whole(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for seed in logs_of_two(path, range(0, 12, 2)):
        question = AuditQuestion(("ser", "rc"), session_order=seed % 4 == 0, seconds=1.0)
        whole, apart = audit_file(str(path), question), audit_apart(str(path), question, InTurn())
        assert [f.verdict for f in whole.findings] == [f.verdict for f in apart.findings]
        assert whole.subject == apart.subject


# Real workers


def test_a_process_that_dies_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "deposits.py"
    path.write_text(DEPOSITS)
    with opened_workers("local", 2) as workers:
        killing = Killing(workers, lambda: multiprocessing.active_children()[0].kill())
        same_exploration(str(path), ExploreOptions(levels=("rc",), threads=1), killing)
        assert killing.started > killing.AFTER


def test_a_job_that_kills_its_worker_each_time_is_given_up() -> None:
    with opened_workers("local", 1) as workers, pytest.raises(IsoldeError, match="died 3 times"):
        list(spread(workers, _die, [1]))


def _die(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_an_error_of_a_job_is_the_error_here() -> None:
    with opened_workers("local", 1) as workers, pytest.raises(UsageError, match="no good"):
        list(spread(workers, _refuse, [1]))


def _refuse(_: int) -> None:
    raise UsageError("no good")


def test_processes_explore_check_and_audit(tmp_path: Path) -> None:
    chance = random.Random(5)
    with opened_workers("local", 2) as workers:
        same_exploration(random_program(chance, tmp_path), ExploreOptions(levels=("rc", "si"), threads=1), workers)
        path = tmp_path / "history.jsonl"
        parts = [random_history(chance, shape=SHAPES[0]) for _ in range(3)]
        path.write_bytes(encode(side_by_side(parts, chance)).to_jsonl())
        options = CheckOptions(("ser", "si"))
        assert [f.verdict for f in check_apart(str(path), options, workers).report.findings] == [
            f.verdict for f in check_file(str(path), options).report.findings
        ]


def test_a_cluster_that_loses_a_node_loses_no_work(tmp_path: Path) -> None:
    cluster_utils = pytest.importorskip("ray.cluster_utils", reason="the tests' extra brings Ray")
    import ray

    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        lost = cluster.add_node(num_cpus=1)
        path = tmp_path / "deposits.py"
        path.write_text(DEPOSITS)
        with opened_workers("ray", 2, cluster.address) as workers:
            assert ray.cluster_resources()["CPU"] == 2  # type: ignore[no-untyped-call]
            killing = Killing(workers, lambda: cluster.remove_node(lost, allow_graceful=False))
            same_exploration(str(path), ExploreOptions(levels=("rc",), threads=1), killing)
            assert killing.started > killing.AFTER
            deadline = time.monotonic() + 60
            # The cluster notices after a while that nobody answers there.
            while ray.cluster_resources()["CPU"] > 1:  # type: ignore[no-untyped-call]
                assert time.monotonic() < deadline
                time.sleep(0.2)
    finally:
        cluster.shutdown()


DEPOSITS = """
from isolde import Program

def deposit(tx, key, amount):
    tx.write(key, tx.read(key) + amount)

PROGRAM = Program(
    sessions=[[(deposit, "x", 1), (deposit, "y", 2)], [(deposit, "y", 4)], [(deposit, "x", 8), (deposit, "y", 16)], [(deposit, "y", 32)]],
    initial={"x": 0, "y": 0},
    invariant=lambda state: sum(state.values()) == 63,
)
"""


class Killing:
    """Workers, one of which is killed while it has a job."""

    AFTER = 3

    def __init__(self, workers: Workers, kill: Callable[[], None]) -> None:
        self._workers, self._kill, self.started = workers, kill, 0

    @property
    def count(self) -> int:
        return self._workers.count

    def start(self, job: Callable[[Any], Any], argument: Any) -> int:
        number = self._workers.start(job, argument)
        self.started += 1
        if self.started == self.AFTER:
            self._kill()
        return number

    def ended(self) -> tuple[int, Answer]:
        return self._workers.ended()


def test_a_cluster_that_is_not_there_is_one_line() -> None:
    with pytest.raises(UsageError, match="no Ray cluster"), opened_workers("ray", 1, "127.0.0.1:1"):
        pass
