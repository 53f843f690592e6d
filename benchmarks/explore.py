"""Exploring the clients of five applications: time, memory and end states of the paper's algorithms.

(a) Five client programs of 3 sessions x 3 transactions for each application, by EXPLORE-CE at causal, the filters for
snapshot isolation and serializable, the weaker bases, and the plain search, as in figure 14 of "Dynamic Partial Order
Reduction for Checking Correctness against Transaction Isolation Levels" (PLDI 2023); writes ``explore.svg``.
(b) TPC-C and Wikipedia at causal over the number of sessions and of transactions, as in figure 15. (c) Rates of one core.
Each exploration is a process of its own, on one core; seconds are that core's. One that is over the limit is a time-out.

With ``--client tpcc:1`` instead: one of figure 15's programs of five sessions to its end, and every minute how far it is.
With ``--sql`` instead: five client programs over SQL for each of the included applications, rows or sets of ids as objects.

    python benchmarks/explore.py [--limit S] [--only clients,scaling,rates]
    python benchmarks/explore.py --client tpcc:1 [--sessions 5] [--transactions 3] [--limit S]
    python benchmarks/explore.py --sql [--limit S] [--sessions N] [--transactions N]
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cactus import Cactus, drawn
from cell import peak_megabytes
from isolde.engines.explore.behaviours import Behaviours
from isolde.engines.explore.bodies import KeyBodies
from isolde.engines.explore.explore import Explorer, Listening
from isolde.engines.explore.program import Program, populated
from isolde.engines.explore.question import Question
from isolde.engines.explore.search import Limits, Progress, Walk
from isolde.engines.explore.tables import Model
from isolde.workloads.clients import CLIENTS
from isolde.workloads.clients.sql import SIZES, sql_clients

PICTURE = Path(__file__).resolve().parent / "explore.svg"
SEEDS = range(5)
CALLS_AT_ONCE = 1_000_000
"""Calls of EXPLORE between two looks at the clock."""
SCALED = ("tpcc", "wikipedia")

# The paper's name of each, and its time-outs of 30 minutes among 25 programs.
ALGORITHMS = {
    "CC": (Question("cc"), 3),
    "CC + SI": (Question("si"), 3),
    "CC + SER": (Question("ser"), 3),
    "RA + CC": (Question("cc", base="ra"), 6),
    "RC + CC": (Question("cc", base="rc"), 17),
    "true + CC": (Question("cc", base="trivial"), 20),
    "DFS(CC)": (Question("cc", method="dfs"), 20),
}
# Speed-ups of CC over them, without time-outs.
PAPER_SPEEDUPS = {"RA + CC": 3, "RC + CC": 18, "true + CC": 15}
PAPER_TIMEOUTS_OF_SCALING = {"sessions": {3: 4, 4: 9, 5: 10}, "transactions": {3: 5, 4: 8, 5: 10}}


@dataclass(frozen=True, slots=True)
class Size:
    """A client program: whose, which, and how large."""

    application: str
    seed: int
    sessions: int = 3
    transactions: int = 3

    def program(self) -> Program:
        clients = CLIENTS[self.application]
        return Program(clients.sessions(self.seed, self.sessions, self.transactions), initial=clients.initial())

    def sql_program(self) -> Program:
        clients = sql_clients(self.application)
        calls = clients.sessions(self.seed, self.sessions, self.transactions)
        return Program(calls, application=clients.application, rows=populated(clients.rows()))


@dataclass(frozen=True, slots=True)
class Ran:
    """One exploration. ``explored``: calls of EXPLORE."""

    seconds: float
    megabytes: float
    explored: int
    end_states: int
    histories: int
    finished: bool


def explored(size: Size, algorithm: str, limit_s: float) -> Ran:
    """Explores in this process."""
    program = size.program()
    began = time.process_time()
    walk = Walk(
        program,
        Behaviours(program.calls, KeyBodies(program.initial)),
        ALGORITHMS[algorithm][0],
        judge=None,
        collect=False,
        threads=1,
    )
    calls = 0
    while True:
        calls += CALLS_AT_ONCE
        walked = walk.go(Limits(calls_max=calls), progress=lambda _: None, listed=lambda _: None)
        if walked.complete or time.process_time() - began > limit_s:
            break
    counts = walked.counts
    seconds = time.process_time() - began
    return Ran(seconds, peak_megabytes(), counts.explored, counts.end_states, counts.histories, walked.complete)


def to_the_end(size: Size, limit_s: float) -> None:
    """Explores one large program at causal, and says every minute how far it is."""
    program = size.program()
    began = time.process_time()
    said = 0.0

    def say(progress: Progress) -> None:
        nonlocal said
        if (seconds := time.process_time() - began) >= said + 60:
            said = seconds
            counts, whole = progress.counts, progress.calls_in_all
            about = "" if whole is None else f" of about {whole:,.0f}"
            print(
                f"{seconds:,.0f} s: {counts.explored:,} calls{about}, {counts.end_states:,} end states,"
                f" {peak_megabytes():.0f} MB",
                flush=True,
            )

    behaviours = Behaviours(program.calls, KeyBodies(program.initial))
    walk = Walk(program, behaviours, ALGORITHMS["CC"][0], judge=None, collect=False, threads=1)
    walked = walk.go(Limits(), progress=say, listed=lambda _: None, stop=lambda: late(began, limit_s))
    print(
        f"{size}: {'finished' if walked.complete else 'not finished'} after {time.process_time() - began:,.0f} s,"
        f" {walked.counts.explored:,} calls, {walked.counts.end_states:,} end states, {peak_megabytes():.0f} MB",
        flush=True,
    )


def late(began: float, limit_s: float) -> str:
    return "the time is over" if time.process_time() - began > limit_s else ""


def explored_sql(program: Program, algorithm: str, model: Model, limit_s: float) -> Ran:
    """Explores the client over SQL in this process; the rounds that find out which rows are written are in the time."""
    began = time.process_time()
    late = Listening(stop=lambda: time.process_time() - began > limit_s)
    found = Explorer(program, model).ask(ALGORITHMS[algorithm][0], Limits(threads=1), late)
    counts, seconds = found.counts, time.process_time() - began
    return Ran(seconds, peak_megabytes(), counts.explored, counts.end_states, counts.histories, found.complete)


def measured(size: Size, algorithm: str, limit_s: float) -> Ran:
    """Explores in a process of its own."""
    return apart(lambda: explored(size, algorithm, limit_s), f"exploring {size} by {algorithm}")


def apart(work: Callable[[], Ran], what: str) -> Ran:
    """Works in a process of its own, which begins as small as this one."""
    fork = multiprocessing.get_context("fork")
    receiving, sending = fork.Pipe(duplex=False)
    process = fork.Process(target=lambda: sending.send(work()))
    process.start()
    sending.close()
    try:
        ran: Ran = receiving.recv()
    except EOFError:
        sys.exit(f"{what} failed")
    process.join()
    return ran


def clients(limit_s: float) -> None:
    sizes = [Size(application, seed) for application in CLIENTS for seed in SEEDS]
    ran: dict[str, dict[Size, Ran]] = {}
    print(
        f"| algorithm | over {limit_s:g} s | paper: over 30 min | seconds together | mean MB | end states | slower than CC |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for algorithm, (_, paper) in ALGORITHMS.items():
        rows = ran[algorithm] = {size: measured(size, algorithm, limit_s) for size in sizes}
        seconds = sum(row.seconds for row in rows.values())
        memory = statistics.mean(row.megabytes for row in rows.values())
        ends = sum(row.end_states for row in rows.values())
        slower = [rows[size].seconds / ran["CC"][size].seconds for size in sizes if rows[size].finished]
        beside = f" (paper: {PAPER_SPEEDUPS[algorithm]})" if algorithm in PAPER_SPEEDUPS else ""
        print(
            f"| {algorithm} | {timeouts(rows.values())} | {paper} | {seconds:.1f} | {memory:.0f} | {ends:,}"
            f" | {statistics.mean(slower):.1f}{beside} |",
            flush=True,
        )
    print("\n| client | end states at CC | histories at SI | at SER | seconds at CC | calls of EXPLORE |")
    print("| --- | --- | --- | --- | --- | --- |")
    for size in sizes:
        cc, si, ser = (ran[algorithm][size] for algorithm in ("CC", "CC + SI", "CC + SER"))
        cells = f"{cc.end_states:,} | {si.histories:,} | {ser.histories:,} | {cc.seconds:.2f} | {cc.explored:,}"
        print(f"| {size.application} {size.seed} | {cells} |")

    def finished(value: str) -> dict[str, list[float]]:
        return {name: [getattr(r, value) for r in rows.values() if r.finished] for name, rows in ran.items()}

    panels = [
        Cactus("time", "s", finished("seconds"), 0.001),
        Cactus("memory", "MB", finished("megabytes"), 10),
        Cactus("end states", "number", finished("end_states"), 1),
    ]
    PICTURE.write_text(drawn(panels))
    print(f"\nwritten: {PICTURE.name}\n")


def timeouts(rows: Iterable[Ran]) -> int:
    return sum(not row.finished for row in rows)


def scaling(limit_s: float) -> None:
    print(f"| over | | mean seconds | mean MB | end states | over {limit_s:g} s, of 10 | paper: over 30 min |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for axis, paper in PAPER_TIMEOUTS_OF_SCALING.items():
        for number in range(1, 6):
            sessions, transactions = (number, 3) if axis == "sessions" else (3, number)
            sizes = [Size(application, seed, sessions, transactions) for application in SCALED for seed in SEEDS]
            rows = [measured(size, "CC", limit_s) for size in sizes]
            seconds = statistics.mean(row.seconds for row in rows)
            memory = statistics.mean(row.megabytes for row in rows)
            ends = sum(row.end_states for row in rows)
            print(
                f"| {axis} | {number} | {seconds:.2f} | {memory:.0f} | {ends:,} | {timeouts(rows)} | {paper.get(number, 0)} |",
                flush=True,
            )
    print()


def sql(limit_s: float, sessions: int, transactions: int) -> None:
    """The clients over SQL at the three levels, in both models of tables."""
    print(f"{sessions} sessions x {transactions} transactions, at most {limit_s:g} s each; (over) was not finished\n")
    print(
        "| tables | client | end states at CC | histories at SI | at SER | seconds at CC, SI, SER | calls at CC | MB |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    models: tuple[Model, ...] = ("rows", "set")
    for model in models:
        for size in (Size(application, seed, sessions, transactions) for application in SIZES for seed in SEEDS):
            # Read here once, and not in every process.
            program = size.sql_program()
            ran = [
                apart(partial(explored_sql, program, algorithm, model, limit_s), f"exploring {size} over SQL")
                for algorithm in ("CC", "CC + SI", "CC + SER")
            ]
            found = (ran[0].end_states, ran[1].histories, ran[2].histories)
            numbers = (f"{n:,}" if row.finished else "(over)" for n, row in zip(found, ran, strict=True))
            calls = f"{ran[0].explored:,}" if ran[0].finished else f"over {ran[0].explored:,}"
            seconds = ", ".join(f"{row.seconds:.2f}" for row in ran)
            memory = max(row.megabytes for row in ran)
            print(
                f"| {model} | {size.application} {size.seed} | {' | '.join(numbers)} | {seconds} | {calls} | {memory:.0f} |",
                flush=True,
            )
    print()


def rates(limit_s: float) -> None:
    """What one core does a second at causal, on programs that keep it busy; and whether memory grows with time."""
    print(
        "| client, 5 sessions | calls of EXPLORE a second | end states a second | MB after a fifth of the time | MB |"
    )
    print("| --- | --- | --- | --- | --- |")
    for application in CLIENTS:
        # The largest of the five programs.
        size = max(
            (Size(application, seed, 5, 3) for seed in SEEDS), key=lambda size: measured(size, "CC", 2).end_states
        )
        early, late = measured(size, "CC", limit_s / 5), measured(size, "CC", limit_s)
        calls, ends = late.explored / late.seconds, late.end_states / late.seconds
        print(
            f"| {application} {size.seed} | {calls:,.0f} | {ends:,.0f} | {early.megabytes:.0f} | {late.megabytes:.0f} |",
            flush=True,
        )
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of an exploration; the paper's is 1800")
    parser.add_argument("--only", default="clients,scaling,rates")
    parser.add_argument("--sql", action="store_true", help="the clients over SQL instead")
    parser.add_argument(
        "--client", help="one program over keys alone, to its end: an application and a seed, as tpcc:1"
    )
    parser.add_argument("--sessions", type=int, help="of a client over SQL (3), or of --client (5)")
    parser.add_argument("--transactions", type=int, default=3, help="of each of these sessions")
    options = parser.parse_args()
    if options.client:
        application, _, seed = options.client.partition(":")
        to_the_end(Size(application, int(seed), options.sessions or 5, options.transactions), options.limit)
        return
    if options.sql:
        sql(options.limit, options.sessions or 3, options.transactions)
        return
    if "clients" in options.only:
        clients(options.limit)
    if "scaling" in options.only:
        scaling(options.limit)
    if "rates" in options.only:
        rates(min(options.limit, 20.0))


if __name__ == "__main__":
    main()
