"""Store models: states and schedules a second, TPC-C explored whole, and memory under a budget.

(a) Small programs over two rows at each level of each database. (b) Two sessions of TPC-C's new_order and payment, all
interleavings, at sizes so small that they meet on the same rows. (c) Four sessions that are too many to finish, with budgets.
Each is a process of its own; seconds are of one core.

    python benchmarks/stores.py
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from cell import peak_megabytes
from isolde.engines.explore.files import program_of
from isolde.engines.explore.on_store import STATES_MAX, StoreExploration
from isolde.engines.explore.program import Program
from isolde.tx.python import Handle, transaction
from isolde.workloads.applications import application_named

LEVELS = (
    ("postgresql", "read committed"),
    ("postgresql", "repeatable read"),
    ("postgresql", "serializable"),
    ("mariadb", "read committed"),
    ("mariadb", "repeatable read"),
    ("mariadb", "serializable"),
    ("sqlite", ""),
)
TPCC_SIZES = {"warehouses": 1, "districts": 1, "customers": 2, "items": 2}
NEW_ORDER = "new_order(1, 1, 1, 1, 1700000000, [(1, 1, 3), (2, 1, 1)])"
DELIVERY = "delivery(1, 3, 1700000000, 1)"
PAYMENT = "payment(1, 1, 1, 1, 0, 1, '', 500, 901, 1700000000)"
BUDGETS = (1_000, 2_000, 4_000, 8_000)


@transaction
def transfer(tx: Handle, source: int, target: int) -> None:
    """Four statements, two of which lock."""
    have = tx.value("SELECT balance FROM accounts WHERE id = :id", id=source)
    if have < 10:
        tx.abort("not enough")
    tx.execute("UPDATE accounts SET balance = balance - 10 WHERE id = :id", id=source)
    tx.execute("UPDATE accounts SET balance = balance + 10 WHERE id = :id", id=target)


@dataclass(frozen=True, slots=True)
class Ran:
    """One exploration. ``megabytes``: the most that the process had."""

    seconds: float
    outcomes: int
    schedules: int
    states: int
    megabytes: float
    complete: bool


def transfers(sessions: int) -> Program:
    return Program(
        sessions=[[(transfer, 1 + n % 2, 2 - n % 2)] for n in range(sessions)],
        tables="CREATE TABLE accounts (id INT PRIMARY KEY, balance INT NOT NULL)",
        rows={"accounts": [(1, 20), (2, 20)]},
        invariant="SELECT id FROM accounts WHERE balance < 0",
    )


def tpcc(sessions: Sequence[str]) -> Program:
    return program_of(application_named("tpcc"), sessions, TPCC_SIZES, 0)


def explored(program: Program, store: str, isolation: str, states_max: int = STATES_MAX) -> Ran:
    """Explores in a process of its own, which begins as small as this one."""
    fork = multiprocessing.get_context("fork")
    receiving, sending = fork.Pipe(duplex=False)

    def work() -> None:
        began = time.process_time()
        found = StoreExploration(program, store, isolation).explore(states_max=states_max)
        seconds = time.process_time() - began
        sending.send(Ran(seconds, len(found.outcomes), found.schedules, found.states, peak_megabytes(), found.complete))

    process = fork.Process(target=work)
    process.start()
    sending.close()
    try:
        ran: Ran = receiving.recv()
    except EOFError:
        sys.exit(f"exploring on {store} at {isolation or 'its default'} failed")
    process.join()
    return ran


def rates(title: str, program: Program) -> None:
    print(
        f"| {title} | outcomes | schedules | states | seconds | states a second | schedules a second | MB |", flush=True
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for store, isolation in LEVELS:
        ran = explored(program, store, isolation)
        cells = f"{ran.outcomes:,} | {ran.schedules:,} | {ran.states:,} | {ran.seconds:.2f}"
        rate = f"{ran.states / ran.seconds:,.0f} | {ran.schedules / ran.seconds:,.0f} | {ran.megabytes:.0f}"
        print(f"| {store} {isolation or 'serializable'} | {cells} | {rate} |", flush=True)
    print()


def budgets() -> None:
    print("| new_order ∥ new_order ∥ payment ∥ delivery, budget | states | complete | seconds | MB |")
    print("| --- | --- | --- | --- | --- |")
    program = tpcc([NEW_ORDER, NEW_ORDER, PAYMENT, DELIVERY])
    for budget in BUDGETS:
        ran = explored(program, "postgresql", "read committed", budget)
        whole = "yes" if ran.complete else "no"
        print(f"| {budget:,} | {ran.states:,} | {whole} | {ran.seconds:.1f} | {ran.megabytes:.0f} |", flush=True)


def main() -> None:
    rates("three transfers", transfers(3))
    rates("new_order ∥ payment", tpcc([NEW_ORDER, PAYMENT]))
    rates("new_order ∥ new_order", tpcc([NEW_ORDER, NEW_ORDER]))
    budgets()


if __name__ == "__main__":
    main()
