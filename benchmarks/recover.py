"""What asking a database for its order costs: the run with and without it, and the time that recovery takes after the run.

In turns on one private server, the same plans: seconds of the run as it is, of the run that is listened to, and seconds that
the database is asked afterwards. Everything is a ratio to the run as it is.

    python benchmarks/recover.py [--rounds N] [--transactions N] [--only DATABASE] [--tidb URL]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from contextlib import nullcontext

from isolde.databases.recoveries import started_with
from isolde.databases.servers import start

CASES = (
    ("postgresql", "serializable", "mini"),
    ("postgresql", "read-committed", "mini"),
    ("postgresql", "read-committed", "tpcc"),
    ("mariadb", "serializable", "mini"),
    ("mariadb", "repeatable-read", "mini"),
    ("etcd", "serializable", "mini"),
    ("redis", "watch", "mini"),
    ("tidb", "repeatable-read", "mini"),
)
KEYS = "1000"


def ran(url: str, isolation: str, workload: str, transactions: int, *options: str) -> tuple[float, float]:
    """Seconds a committed transaction, and seconds that recovery took for each."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-c",
            "from isolde.cli import program; program()",
            "run",
            url,
            "--json",
            "-o",
            f"{folder}/run",
        ]
        command += ["--isolation", isolation, "--workload", workload, "--transactions", str(transactions), *options]
        if workload != "tpcc":
            command += ["--keys", KEYS]
        out = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    run = json.loads(out)["run"]
    told = run.get("certificate")
    return run["seconds"] / run["committed"], 0.0 if told is None else told["seconds"] / run["committed"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--transactions", type=int, default=3000)
    parser.add_argument("--only", default="", help="one database")
    parser.add_argument("--tidb", metavar="URL", help="a TiDB that runs; none is started")
    arguments = parser.parse_args()
    print("| database | level | workload | run, µs a transaction | listened to, ratio | recovery after it, ratio |")
    print("| --- | --- | --- | --- | --- | --- |")
    for kind, isolation, workload in CASES:
        if arguments.only not in ("", kind) or (kind == "tidb" and arguments.tidb is None):
            continue
        few = arguments.transactions // 10 if workload == "tpcc" or kind == "etcd" else arguments.transactions
        with nullcontext() if kind == "tidb" else start(kind, **started_with(kind)) as server:
            url = arguments.tidb if server is None else server.url
            plain, listened, asked = [], [], []
            for _ in range(arguments.rounds):
                plain.append(ran(url, isolation, workload, few)[0])
                run, after = ran(url, isolation, workload, few, "--certify")
                listened.append(run)
                asked.append(after)
        base = statistics.median(plain)
        ratios = [statistics.median(some) / base for some in (listened, asked)]
        print(
            f"| {kind} | {isolation} | {workload} | {base * 1e6:.0f} | {ratios[0]:.2f} | {ratios[1]:.2f} |", flush=True
        )


if __name__ == "__main__":
    main()
