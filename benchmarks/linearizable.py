"""How the search for a linearization grows: with the clients that work at once, and with the operations.

The histories are linearizable: each operation takes effect at a moment inside its interval, on registers that hold one of few
values, so that most reads have many possible writers and only a search can tell. Unknown outcomes and silent failures of
compare-and-sets are among them. The time is that of the check alone, without reading the file.

    python benchmarks/linearizable.py [--operations N,N,...] [--clients N,N,...] [--keys N] [--values N]
"""

from __future__ import annotations

import argparse
import json
import random
import time

from isolde._core import Columns
from isolde.engines.check import check
from isolde.levels import Level


def history(operations: int, clients: int, keys: int, values: int, seed: int = 1) -> bytes:
    """JSON Lines: a quarter compare-and-sets, a quarter writes, half reads; one in a hundred is of unknown outcome."""
    rng = random.Random(seed)
    current = [0] * keys
    free_at = [0] * clients
    unknown = [0] * clients
    lines = [json.dumps({"isolde": "history", "version": 1, "initial": [[key, 0] for key in range(keys)]})]
    for number in range(operations):
        client = number % clients
        instant = 10 * number
        start = max(free_at[client] + 1, instant - rng.randrange(10 * clients))
        end = instant + rng.randrange(10 * clients)
        instant = max(instant, start)
        free_at[client] = max(end, instant)
        key, value = rng.randrange(keys), rng.randrange(values)
        kind = rng.random()
        lost = rng.random() < 0.01
        took_effect = not lost or rng.random() < 0.5
        op: list[object] = ["r", key, current[key]]
        if kind < 0.25:
            expected = rng.randrange(values)
            applied = expected == current[key]
            op = ["cas", key, expected, value, applied]
            if lost and not applied:
                lost = False
            if applied and took_effect:
                current[key] = value
        elif kind < 0.5:
            op = ["w", key, value]
            if took_effect:
                current[key] = value
        line = {"session": f"{client}-{unknown[client]}", "start": start, "end": free_at[client], "ops": [op]}
        if lost and op[0] != "r":
            line["status"] = "unknown"
            unknown[client] += 1
        lines.append(json.dumps(line))
    return ("\n".join(lines) + "\n").encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operations", default="1000,10000,100000")
    parser.add_argument("--clients", default="1,2,5,10,20")
    parser.add_argument("--keys", type=int, default=100)
    parser.add_argument("--values", type=int, default=5)
    arguments = parser.parse_args()
    print(f"{arguments.keys} keys, {arguments.values} values\n")
    print(f"{'operations':>10}  {'clients':>7}  {'seconds':>8}  {'microseconds each':>17}  verdict")
    for operations in map(int, arguments.operations.split(",")):
        for clients in map(int, arguments.clients.split(",")):
            columns = Columns.from_jsonl(history(operations, clients, arguments.keys, arguments.values))
            began = time.perf_counter()
            finding = check(columns, [Level.LINEARIZABLE]).findings[0]
            seconds = time.perf_counter() - began
            each = 1e6 * seconds / operations
            print(f"{operations:>10,}  {clients:>7}  {seconds:>8.3f}  {each:>17.2f}  {finding.verdict.value}")


if __name__ == "__main__":
    main()
