"""Deletes: how the time and the memory of a check grow, and what they are beside the same history without deletes.

Transactions as clients of a serial store record them, ten at a time, on 20 keys; with deletes, 30 % of the writes remove the key.
Each history is as large as twice the one before, so that a ratio of 2 is linear growth.

    python benchmarks/deletes.py [--limit SECONDS]
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

from cell import FOLDER, markdown, measure

SIZES = (12_500, 25_000, 50_000, 100_000)
KEYS, SESSIONS = 20, 10


def recorded(count: int, deletes: float) -> Path:
    """Writes the history once."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"deletes-{count}-{deletes:.0%}.jsonl"
    if path.exists():
        return path
    rng = random.Random(count)
    state: dict[int, int | None] = dict.fromkeys(range(KEYS), 0)
    free = [0] * SESSIONS
    lines = [json.dumps({"isolde": "history", "version": 1, "initial": [[key, 0] for key in range(KEYS)]})]
    moment = 0
    for number in range(count):
        session = min(rng.sample(range(SESSIONS), 5), key=free.__getitem__)
        moment = max(moment + rng.randrange(1, 200), free[session] + 1)
        ops: list[list[object]] = []
        for key in rng.sample(range(KEYS), 2):
            ops.append(["r", key, state[key]])
            if rng.random() < 0.6:
                state[key] = None if rng.random() < deletes else 2 * number + len(ops)
                ops.append(["w", key, state[key]])
        start = max(free[session] + 1, moment - rng.randrange(300))
        free[session] = end = moment + 1 + rng.randrange(300)
        lines.append(json.dumps({"session": session, "start": start, "ops": ops, "status": "committed", "end": end}))
    path.write_text("\n".join(lines) + "\n")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one cell")
    limit_s = parser.parse_args().limit
    head = [
        "transactions",
        "deletes",
        "asked",
        "seconds",
        "ratio to half the size",
        "ratio to no deletes",
        "peak MB",
        "verdict",
    ]
    print(markdown(head, []))
    for level in ("ser", "si"):
        before: dict[float, float] = {}
        for count in SIZES:
            plain = 0.0
            for deletes in (0.0, 0.3):
                cell = measure(recorded(count, deletes), level, limit_s=limit_s)
                if not deletes:
                    plain = cell.seconds
                growth = f"{cell.seconds / before[deletes]:.1f}" if deletes in before else "-"
                beside = f"{cell.seconds / plain:.1f}" if deletes else "-"
                before[deletes] = cell.seconds
                row = [
                    f"{count:,}",
                    f"{deletes:.0%}",
                    level,
                    cell.time(limit_s),
                    growth,
                    beside,
                    cell.memory(),
                    cell.verdict(),
                ]
                print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
