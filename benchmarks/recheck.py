"""The second look: what it costs to check every violation again from its evidence before it is shown.

Generated histories with one planted anomaly; each check is timed as it is, and without the second look, in the same run.

    python benchmarks/recheck.py [--transactions N]
"""

from __future__ import annotations

import argparse
import time
from unittest.mock import patch

from cell import markdown
from isolde._core import Columns, generate
from isolde.engines.check import check
from isolde.engines.check import decide as deciding
from isolde.levels import Level

CASES = (
    ("mini", "write-skew", Level.SERIALIZABLE),
    ("mini", "lost-update", Level.SNAPSHOT_ISOLATION),
    ("mini", "causality-violation", Level.CAUSAL),
    ("mini", "aborted-read", Level.READ_COMMITTED),
    ("general", "write-skew", Level.SERIALIZABLE),
)
REPEATS = 3


def history(workload: str, anomaly: str, transactions: int) -> Columns:
    return generate(
        sessions=20,
        transactions=transactions,
        keys=max(10, transactions // 10),
        operations=4,
        distribution="uniform",
        workload=workload,
        level="serializable",
        abort_rate=0.01,
        unknown_rate=0.0,
        inject=[anomaly],
        seed=1,
    )


def seconds(columns: Columns, level: Level) -> float:
    best = float("inf")
    for _ in range(REPEATS):
        began = time.perf_counter()
        check(columns, [level])
        best = min(best, time.perf_counter() - began)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transactions", type=int, default=1_000_000, help="the largest history")
    largest = parser.parse_args().transactions
    rows = []
    for workload, anomaly, level in CASES:
        for transactions in (largest // 100, largest // 10, largest):
            columns = history(workload, anomaly, transactions)
            with patch.object(deciding, "verified", lambda *args, **_: args[3]):
                without = seconds(columns, level)
            whole = seconds(columns, level)
            cost = whole - without
            rows.append(
                [
                    f"{transactions:,}",
                    workload,
                    anomaly,
                    level.value,
                    f"{without:.3f}",
                    f"{cost:.3f}",
                    f"{cost / without:.0%}",
                ]
            )
    head = ["transactions", "workload", "anomaly", "level", "check, seconds", "second look, seconds", "share"]
    print(markdown(head, rows))


if __name__ == "__main__":
    main()
