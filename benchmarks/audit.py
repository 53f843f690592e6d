"""How fast logs are judged: transactions a second, by application and level, beside the table and the figures of the paper.

*Checking Observational Correctness of Database Systems* (Pick et al. 2025), sections 8.1, 8.3 and 8.4. Table 1: logs of two
clients are recorded on a private PostgreSQL first, and each is judged at the level that it was recorded at (read committed
by our definition, by the paper's, and by the model of PostgreSQL). Figures 8 to 10: logs made up here, with its parameters.
Usage: python benchmarks/audit.py [--transactions N] [--application NAME]… | --figures FILE.svg [--seconds S] | --bank N
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import isolde
from isolde import History, Sql, Transaction
from plot import Curves, drawn_curves

APPLICATIONS: dict[str, dict[str, int]] = {"bank": {}, "twitter": {}, "rubis": {}, "tpcc": {}}
LEVELS: dict[str, list[tuple[str, str]]] = {
    "serializable": [("strict-ser", "default"), ("ser", "default")],
    "repeatable read": [("strict-si", "default"), ("si", "default")],
    "read committed": [("rc", "paper"), ("rc", "default"), ("postgresql:read-committed", "default")],
}
PAPER = {
    ("twitter", "ser"): 2_860,
    ("twitter", "si"): 2_810,
    ("twitter", "rc"): 496,
    ("rubis", "ser"): 451,
    ("rubis", "si"): 397,
    ("rubis", "rc"): 311,
    ("tpcc", "ser"): 445,
    ("tpcc", "si"): 394,
    ("tpcc", "rc"): 121,
}
"""Transactions that the paper's tool judged in five minutes, on other hardware."""
SECONDS = 300.0
ACCOUNTS = 1_000


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--transactions", type=int, default=2_000)
    options.add_argument("--application", action="append", choices=sorted(APPLICATIONS))
    options.add_argument("--figures", type=Path, help="figures 8, 9 and 10 instead of the table, drawn into this file")
    options.add_argument("--seconds", type=float, default=5.0, help="processor time for each point of figure 10")
    options.add_argument(
        "--bank", type=int, metavar="N", help="one made-up log of N bank transactions at strict SI instead"
    )
    given = options.parse_args()
    if given.figures is not None:
        curves = [*figure_8(given.seconds), *figure_9(given.transactions), *figure_10(given.seconds)]
        given.figures.write_text(drawn_curves(curves), encoding="utf-8")
    elif given.bank is not None:
        _bank(given.bank)
    else:
        _table(given.application or list(APPLICATIONS), given.transactions)


# Table 1


def _table(applications: list[str], transactions: int) -> None:
    print(
        "| application | judged at | definition | verdict | committed | seconds | a second | in 5 minutes | the paper's | ratio |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as directory:
        for application in applications:
            for isolation, levels in LEVELS.items():
                path = Path(directory) / f"{application}-{isolation.replace(' ', '-')}"
                isolde.run(
                    start="postgresql",
                    isolation=isolation,
                    workload=application,
                    transactions=transactions,
                    sessions=2,
                    sizes=APPLICATIONS[application],
                    output=path,
                )
                for level, definition in levels:
                    _judge(application, level, definition, path)


def _judge(application: str, level: str, definition: str, path: Path) -> None:
    began = time.process_time()
    report = isolde.audit(path, level, definition=definition, seconds=SECONDS)
    seconds = time.process_time() - began
    committed = getattr(report.subject, "committed", 0)
    rate = committed / seconds
    known = PAPER.get((application, "rc" if level.endswith("read-committed") else level))
    beside = f"{known:,} | {SECONDS * rate / known:,.0f}" if known else "- | -"
    print(
        f"| {application} | {level} | {definition} | {report.verdict.value} | {committed:,} | {seconds:.2f} | {rate:,.0f} |"
        f" {SECONDS * rate:,.0f} | {beside} |",
        flush=True,
    )


# Logs that are made up


def bank(transactions: int, *, accessed: float = 1.0, blind: float = 0.0, read_only: float = 0.2) -> History:
    """Two clients of a bank of 1,000 accounts: which share is accessed, how many writes are blind, how many transactions read."""
    chance = random.Random(7)
    balance = dict.fromkeys(range(ACCOUNTS), 100)
    reached = range(max(1, int(accessed * ACCOUNTS)))
    found = []
    for number in range(transactions):
        account, amount = chance.choice(reached), chance.randrange(1, 100)
        read = {"sql": "SELECT balance FROM accounts WHERE id = ?", "params": [account], "rows": [[balance[account]]]}
        ops: list[dict[str, Any]] = [read]
        if chance.random() >= read_only:
            balance[account] += amount
            if chance.random() < blind:
                balance[account] = amount
                text, ops = "UPDATE accounts SET balance = ? WHERE id = ?", []
            else:
                text = "UPDATE accounts SET balance = balance + ? WHERE id = ?"
            ops.append({"sql": text, "params": [amount, account], "rows": None, "count": 1})
        start = 10 * number - chance.choice((0, 0, 4))
        found.append(Transaction(number, number % 2, tuple(map(Sql, ops)), start=start, end=10 * number + 9))
    return _history(found, dict.fromkeys(range(ACCOUNTS), 100))


def transfers(many: int, read: int) -> History:
    """So many transfers of 10 between two accounts, and then a read of the second: figure 8."""
    found = []
    for number in range(many):
        ops = [
            {"sql": f"UPDATE accounts SET balance = balance {sign} 10 WHERE id = {account}", "rows": None, "count": 1}
            for sign, account in (("+", 2), ("-", 1))
        ]
        found.append(Transaction(number, 0, tuple(map(Sql, ops)), start=10 * number, end=10 * number + 5))
    last = Sql({"sql": "SELECT balance FROM accounts WHERE id = 2", "rows": [[read]]})
    found.append(Transaction("read", 0, (last,), start=10 * many, end=10 * many + 5))
    return _history(found, {1: 100, 2: 300})


def _history(transactions: list[Transaction], rows: dict[int, int]) -> History:
    schema = ["CREATE TABLE accounts (id INT PRIMARY KEY, balance BIGINT)"]
    held = {"accounts": [list(row) for row in rows.items()]}
    return History(tuple(transactions), extra={"dialect": "postgresql", "schema": schema, "rows": held})


def _bank(transactions: int) -> None:
    history = bank(transactions)
    began = time.process_time()
    verdict = isolde.audit(history, "strict-si").verdict.value
    seconds = time.process_time() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"bank, strict-si: {verdict}, {transactions:,} transactions, {seconds:.1f} s, {memory:,.0f} MB")


# Figures


def figure_8(limit: float) -> list[Curves]:
    """Seconds for k - 1 transfers and one read, wrong (66) or right (400), at read committed, by encoding."""
    found = []
    for read in (66, 400):
        lines: dict[str, list[tuple[float, float]]] = {}
        for encoding in ("baseline", "array", "guarded"):
            for many in range(12, 40, 2):
                began = time.process_time()
                # Without H4, which would hold each transfer to the newest state and leave nothing to choose.
                report = isolde.audit(
                    transfers(many - 1, read), "rc", encoding=encoding, heuristics="h1,h2,h3", seconds=limit
                )
                seconds = time.process_time() - began
                print(
                    f"figure 8: read {read}, {encoding}, k = {many}: {report.verdict.value}, {seconds:.2f} s",
                    flush=True,
                )
                if report.verdict.value == "unknown":
                    break
                lines.setdefault(encoding, []).append((many, seconds))
        found.append(Curves(f"read {read} (figure 8)", "k", "seconds", lines or {"none": [(0, 0)]}))
    return found


def figure_9(transactions: int) -> list[Curves]:
    """Transactions a second over the share of rows accessed, of blind writes and of read-only transactions."""
    found = []
    for name in ("accessed", "blind", "read_only"):
        lines: dict[str, list[tuple[float, float]]] = {}
        for share in (0.002, 0.25, 0.5, 0.75, 1.0) if name == "accessed" else (0.0, 0.25, 0.5, 0.75, 1.0):
            history = bank(transactions, **{name: share})
            for level in ("ser", "si", "rc"):
                began = time.process_time()
                verdict = isolde.audit(history, level, seconds=SECONDS).verdict
                rate = transactions / (time.process_time() - began) if verdict.value == "satisfied" else 0.0
                print(f"figure 9: {name} {share:.3f}, {level}: {verdict.value}, {rate:,.0f} a second", flush=True)
                lines.setdefault(level, []).append((100 * share, rate))
        found.append(Curves(f"{name} (figure 9)", "percent", "transactions a second", lines))
    return found


def figure_10(limit: float) -> list[Curves]:
    """Transactions that the solver judges in a time, with heuristics added one by one, over the share of rows accessed."""
    found = []
    for level in ("ser", "si", "rc"):
        lines: dict[str, list[tuple[float, float]]] = {}
        for heuristics in ("none", "h1", "h1,h2=8", "h1,h2=8,h3", "h1,h2=8,h3,h4"):
            for share in (0.002, 0.2, 0.6, 1.0):
                many = _judged_in(limit, level, heuristics, share)
                print(f"figure 10: {level}, {heuristics}, {share:.3f}: {many:,} transactions", flush=True)
                lines.setdefault(heuristics, []).append((100 * share, many))
        found.append(Curves(f"heuristics, {level} (figure 10)", "percent of rows", f"in {limit:.0f} s", lines))
    return found


def _judged_in(limit: float, level: str, heuristics: str, share: float) -> int:
    """The longest log, among some, that is judged in this time."""
    best, length = 0, 25
    while length <= 12_800:
        began = time.process_time()
        report = isolde.audit(
            bank(length, accessed=share), level, encoding="guarded", heuristics=heuristics, seconds=limit
        )
        if report.verdict.value != "satisfied" or time.process_time() - began > limit:
            break
        best, length = length, 2 * length
    return best


if __name__ == "__main__":
    main()
