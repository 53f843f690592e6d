"""Runs on PostgreSQL: is the client a bottleneck, what does checking cost, and what do mini-transactions save?

(a) Mini-transactions of ten sessions against pgbench with the same statements: the same shapes in the same shares, prepared,
at the same level, over the same number of keys, on the same private server, in turns; the ratio is that of the medians.
(b) The share of a run's time that checking takes. (c) Mini-transactions against general ones, end to end, over the number
of transactions, sessions and operations: seconds to record, seconds to check, and the share of aborts, as in figures 10 and
11 of "Boosting End-to-End Database Isolation Checking via Mini-Transactions". Writes ``run.svg``.

    python benchmarks/run.py [--rounds N] [--seconds S] [--only pgbench,workloads]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from isolde._core.plans import Intent
from isolde.databases import Kind, Table, open_database
from isolde.databases.servers import Running, start
from isolde.workloads import Settings, workload_named
from plot import Panel, drawn

PICTURE = Path(__file__).resolve().parent / "run.svg"
SESSIONS, KEYS = 10, 1000
GENERAL_OPERATIONS = 20


@dataclass(frozen=True, slots=True)
class Ran:
    """One call of ``isolde run``."""

    seconds: float
    check_s: float
    committed: int
    aborted: int
    verdict: str

    @property
    def rate(self) -> float:
        return self.committed / self.seconds

    @property
    def abort_share(self) -> float:
        return self.aborted / (self.committed + self.aborted)


def isolde(url: str, *arguments: str) -> Ran:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", "from isolde.cli import program; program()", "run", url, "--json", *arguments]
        out = subprocess.run([*command, "-o", f"{folder}/run"], capture_output=True, text=True, check=False).stdout
    document = json.loads(out)
    run = document["run"]
    verdict = document["results"][0]["verdict"]
    return Ran(run["seconds"], run["check_seconds"], run["committed"], run["aborted"], verdict)


def scripts(table: str, level: str, folder: Path) -> list[str]:
    """The shapes of mini-transactions as pgbench's scripts, each with its share."""
    plans = Settings(workload_named("mini"), keys=KEYS).plans(0)
    shapes: Counter[tuple[tuple[int, int], ...]] = Counter()
    for _ in range(5000):
        places: dict[int, int] = {}
        shapes[tuple((intent, places.setdefault(key, len(places))) for intent, key in plans.next())] += 1
    arguments = []
    for number, (shape, weight) in enumerate(shapes.items()):
        lines = [f"\\set k0 random(0, {KEYS - 1})", f"\\set k1 (:k0 + random(1, {KEYS - 1})) % {KEYS}"]
        lines.append(f"BEGIN ISOLATION LEVEL {level};")
        for intent, place in shape:
            if intent == Intent.READ:
                lines.append(f"SELECT v FROM {table} WHERE k = :k{place};")
            else:
                lines.append("\\set v random(1, 1000000000)")
                lines.append(f"UPDATE {table} SET v = :v WHERE k = :k{place};")
        (folder / f"{number}.sql").write_text("\n".join([*lines, "COMMIT;"]) + "\n")
        arguments += ["-f", f"{folder / f'{number}.sql'}@{weight}"]
    return arguments


def pgbench(server: Running, files: list[str], seconds: int) -> float:
    program = shutil.which("pgbench") or next(map(str, Path("/usr/lib/postgresql").glob("*/bin/pgbench")))
    port = server.nodes[0].place.port
    command = [program, "-h", "127.0.0.1", "-p", str(port), "-U", "postgres", "-n", "-M", "prepared"]
    command += ["-c", str(SESSIONS), "-j", str(SESSIONS), "-T", str(seconds), "--max-tries=7", *files, "postgres"]
    environment = os.environ | {"PGPASSWORD": server.nodes[0].place.secret}
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    found = re.search(r"tps = ([\d.]+) \(without", out)
    assert found is not None, out
    return float(found[1])


def against_pgbench(rounds: int, seconds: int) -> None:
    print("| level | pgbench, transactions a second | isolde run | ratio | checking, share of the run |")
    print("| --- | --- | --- | --- | --- |")
    with start("postgresql") as server, tempfile.TemporaryDirectory() as folder:
        _, database = open_database(server.url)
        table = Table("same_statements", Kind.REGISTERS, KEYS)
        database.create(table)
        for name, level in (("serializable", "SERIALIZABLE"), ("repeatable-read", "REPEATABLE READ")):
            files = scripts(table.name, level, Path(folder))
            common = ("--isolation", name, "--sessions", str(SESSIONS), "--keys", str(KEYS), "--time", str(seconds))
            theirs, ours, shares = [], [], []
            for _ in range(rounds):
                theirs.append(pgbench(server, files, seconds))
                ran = isolde(server.url, *common)
                ours.append(ran.rate)
                shares.append(ran.check_s / ran.seconds)
            a, b = statistics.median(theirs), statistics.median(ours)
            print(f"| {name} | {a:,.0f} | {b:,.0f} | {b / a:.2f} | {statistics.median(shares):.1%} |", flush=True)


# What changes, its values, and what the others are meanwhile.
AXES = {
    "transactions": (500, 1000, 2000, 4000),
    "sessions": (2, 5, 10, 20),
    "operations": (4, 8, 16, 24),
}
USUAL = {"transactions": 1000, "sessions": SESSIONS, "operations": GENERAL_OPERATIONS}


def workloads() -> None:
    print("| | | mini: recording s | checking s | aborts | general: recording s | checking s | aborts | verdicts |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    panels = []
    with start("postgresql") as server:
        for axis, values in AXES.items():
            rows = []
            for value in values:
                sizes = USUAL | {axis: value}
                common = [*("--transactions", str(sizes["transactions"]), "--sessions", str(sizes["sessions"]))]
                common += ["--keys", str(KEYS), "--isolation", "serializable", "--check", "ser"]
                # A mini-transaction has at most four operations: over operations it is the same one again.
                mini = isolde(server.url, *common)
                general = isolde(server.url, *common, "--workload", "general", "--operations", str(sizes["operations"]))
                rows.append((value, mini, general))
                cells = [f"{r.seconds:.2f} | {r.check_s:.2f} | {r.abort_share:.1%}" for r in (mini, general)]
                print(f"| {axis} | {value} | {cells[0]} | {cells[1]} | {mini.verdict}, {general.verdict} |", flush=True)
            labels = [str(value) for value, _, _ in rows]
            for title, unit, chosen in (
                ("recording and checking", "s", lambda r: (r.seconds, r.check_s)),
                ("aborted", "%", lambda r: (100 * r.abort_share,)),
            ):
                panels.append(
                    Panel(
                        f"{title}, over {axis}",
                        unit,
                        labels,
                        {"mini": [chosen(m) for _, m, _ in rows], "general": [chosen(g) for _, _, g in rows]},
                    )
                )
    PICTURE.write_text(drawn(panels[0::2] + panels[1::2], columns=3))
    print(f"\nwritten: {PICTURE.name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--only", default="pgbench,workloads")
    options = parser.parse_args()
    if "pgbench" in options.only:
        against_pgbench(options.rounds, options.seconds)
    if "workloads" in options.only:
        workloads()


if __name__ == "__main__":
    main()
