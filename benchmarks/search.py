"""The order of writes is open: how long a search takes, and how much memory.

(a) 100,000 transactions of Cobra's mix, eight operations, 24 sessions, 10,000 keys; (b) 10,000 transactions of which 60 % of the
operations are blind writes, 1,000 keys; each once with nothing to find and once made at a weaker level than is asked for. Each
history is checked as it was recorded (in order of completion, with times) and as clients log it (one after the other, without
times), where nothing hints at the order. ``--growth`` adds (c): how (a) grows.

    python benchmarks/search.py [--limit SECONDS] [--repeat N] [--growth]
"""

from __future__ import annotations

import argparse
from typing import Any

from cell import history, markdown, measure

Parameters = dict[str, Any]
GENERAL: Parameters = {"workload": "general", "sessions": 24, "keys": 10_000, "operations": 8}
BLIND: Parameters = {"workload": "read-write", "blind_writes": 0.6, "sessions": 24, "keys": 1_000, "operations": 8}
FAMILIES = {"general": GENERAL | {"transactions": 100_000}, "60 % blind": BLIND | {"transactions": 10_000}}
# What is asked for, and the level that the history was made at: the same, or one that allows more.
QUESTIONS = (
    ("ser", "serializable"),
    ("ser", "snapshot-isolation"),
    ("ser", "causal"),
    ("si", "snapshot-isolation"),
    ("si", "causal"),
)
SIZES = (10_000, 30_000, 100_000, 300_000)


def compare(limit_s: float, repeat: int) -> None:
    print(
        markdown(
            ["family", "file", "asked", "made at", "seconds", "loading", "peak MB", "verdict", "method", "open pairs"],
            [],
        )
    )
    for family, parameters in FAMILIES.items():
        for per_client in (False, True):
            for asked, made_at in QUESTIONS:
                name = f"search-{parameters['workload']}-{parameters['transactions']}-{made_at}-{per_client}"
                path = history(name, per_client=per_client, level=made_at, **parameters)
                cell = measure(path, asked, limit_s=limit_s, repeat=repeat)
                row = [family, "by client" if per_client else "recorded", asked, made_at, cell.time(limit_s)]
                row += [
                    f"{cell.loading_s:.2f}",
                    cell.memory(),
                    cell.verdict(),
                    cell.method(),
                    cell.open_pairs(),
                ]
                print("| " + " | ".join(row) + " |", flush=True)


def growth(limit_s: float) -> None:
    """Cobra's mix at four sizes, over 10,000 keys and over keys that grow along (a tenth of the transactions)."""
    head = ["transactions", "keys", "asked", "seconds", "µs a transaction", "peak MB", "kB a transaction", "verdict"]
    print("\n" + markdown(head, []))
    for transactions in SIZES:
        for keys in sorted({10_000, transactions // 10}):
            for asked, made_at in (("ser", "serializable"), ("si", "snapshot-isolation")):
                parameters = GENERAL | {"transactions": transactions, "keys": keys}
                path = history(f"growth-{transactions}-{keys}-{made_at}", level=made_at, **parameters)
                cell = measure(path, asked, limit_s=limit_s, repeat=1)
                row = [f"{transactions:,}", f"{keys:,}", asked, cell.time(limit_s)]
                row += [f"{cell.seconds / transactions * 1e6:.1f}", cell.memory()]
                row += [f"{cell.megabytes * 1e3 / transactions:.1f}", cell.verdict()]
                print("| " + " | ".join(row) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS", help="for one cell")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--growth", action="store_true", help="also 10,000 to 300,000 transactions")
    arguments = parser.parse_args()
    compare(arguments.limit, arguments.repeat)
    if arguments.growth:
        growth(arguments.limit)


if __name__ == "__main__":
    main()
