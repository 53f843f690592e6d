"""The evaluation of "Boosting End-to-End Database Isolation Checking via Mini-Transactions" (ICDE 2025), one command a figure.

    python benchmarks/mtc.py 7|8|9|10|11|13|14|17|tables [--full]
    python benchmarks/mtc.py 7 --rival 'Cobra=cobra=java -jar cobra.jar {file}'
    python benchmarks/mtc.py 13 --start postgresql --server-version 12.3 --isolation serializable --check ser --trials 40

7 and 8: seconds to verify serializable and snapshot isolation over distribution, objects, sessions and transactions. 9: strict
serializability of compare-and-sets over the share of concurrent sessions. 10 and 17: end to end on PostgreSQL, mini-transactions
against general ones with as many committed, at serializable and at snapshot isolation. 11: the share of aborts. 13 and 14: the
share of seeds that find an anomaly, how soon and where, and the seconds of a run. The tables: each anomaly planted and found.

Writes ``results/mtc-FIGURE.csv`` and ``.svg`` beside this file. Sizes are small; ``--full`` has ten times as much. Histories
of 7 to 9 are generated, by a store that keeps the level; the paper's for 7 and 8 are of PostgreSQL. A rival gets the same history
in the format that is named (``isolde convert`` knows the suffixes), as a process of its own, so that its seconds include its
start and its reading.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cell import FOLDER, history, markdown, measure
from isolde.databases.servers import start
from isolde.databases.servers.releases import programs_of
from isolde.engines.check import check
from isolde.engines.generate import generate, generator_names
from isolde.levels import level_named
from plot import Curves, drawn_curves

PROGRAM = [sys.executable, "-c", "from isolde.cli import program; program()"]
LIMIT_S = 300.0
ASKED = tuple(map(level_named, ("ra", "cc", "si", "ser")))
PUBLISHED = {
    "7": "MTC-SER: 5 times as fast as Cobra on a GPU under zipfian, 2 times over the sessions; stable over the skew",
    "8": "MTC-SI: 1,600 times as fast as PolySI under zipfian, up to 93 times over the transactions",
    "9": "MTC-SSER: 28 times as fast as Porcupine where all sessions are concurrent; stable over their share",
    "10": "MTC: verification up to 100 times as fast as Cobra on a GPU, 1,000 times without; memory up to 30 and 14 times less",
    "11": "general transactions: nearly half aborted at few sessions, over 60 % at 20 transactions an object; mini: few",
    "13": "PostgreSQL 12.3: within 30 minutes 32 trials found a bug by mini-transactions, 35 by Elle's lists of length 8",
    "14": "PostgreSQL: up to 3.5 times as fast to record, 15 times to verify, as registers of length 8 (Elle)",
    "17": "as figure 10, at snapshot isolation against PolySI",
    "tables": "all of table I are mini-transactions; table II: six releases of five databases",
}


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement: its diagram, its place on the axis with the label there, whose line, and what came out."""

    panel: str
    across: float
    label: str
    series: str
    value: float
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Rival:
    """Another checker: the suffix of its format, and its command, in which ``{file}`` is the history."""

    name: str
    suffix: str
    command: str

    def seconds(self, path: Path) -> tuple[float, str]:
        """How long it takes for a history, and its exit status."""
        file = path.with_suffix("").with_suffix(f".rival.{self.suffix}")
        if not file.exists():
            # Elle's file has no place for what a compare-and-set found that failed.
            failed = ("--failed-cas", "compared") if self.suffix == "edn" else ()
            told = subprocess.run(
                [*PROGRAM, "convert", *failed, str(path), str(file)], check=False, capture_output=True, text=True
            )
            if told.returncode:
                raise SystemExit(f"{self.name}: {told.stderr.strip()}")
        words = [word.replace("{file}", str(file)) for word in shlex.split(self.command)]
        began = time.perf_counter()
        try:
            status = str(subprocess.run(words, capture_output=True, check=False, timeout=LIMIT_S).returncode)
        except subprocess.TimeoutExpired:
            status = "over the limit"
        return time.perf_counter() - began, f"exit status {status}"


def verification(level: str, asked: str, rivals: Sequence[Rival], *, full: bool) -> list[Point]:
    """Figures 7 and 8: what changes along each axis, the others as usual."""
    times = 10 if full else 1
    usual: dict[str, Any] = {"sessions": 20, "transactions": 50_000 * times, "keys": 1_000, "distribution": "uniform"}
    axes: dict[str, Sequence[Any]] = {
        "distribution": ("uniform", "exponential", "hotspot", "zipfian"),
        "keys": (100, 500, 1_000, 5_000),
        "sessions": (5, 10, 20, 50),
        "transactions": tuple(n * times for n in (25_000, 50_000, 100_000, 200_000)),
    }
    points = []
    for axis, values in axes.items():
        for place, value in enumerate(values):
            sizes = usual | {axis: value}
            name = f"mtc-{level}-{'-'.join(map(str, sizes.values()))}"
            path = history(name, workload="mini", level=level, operations=4, **sizes)
            across = float(place) if axis == "distribution" else float(value)
            points += _verified(axis, across, str(value), path, asked, rivals)
    return points


def concurrent_sessions(rivals: Sequence[Rival], *, full: bool) -> list[Point]:
    """Figure 9: over the share of concurrent sessions, and over the transactions with all sessions at once."""
    count = 1_000_000 if full else 100_000
    cells = [("concurrent sessions, %", 100 * share, share, count) for share in (0.2, 0.4, 0.6, 0.8, 1.0)]
    cells += [("transactions", n, 1.0, n) for n in (count // 4, count // 2, count)]
    points = []
    for panel, across, share, transactions in cells:
        sizes: dict[str, Any] = {"sessions": 50, "keys": 10, "transactions": transactions, "concurrent": share}
        name = f"mtc-cas-{transactions}-{share:g}"
        path = history(name, workload="cas", level="strict-serializable", operations=1, **sizes)
        points += _verified(panel, float(across), f"{across:g}", path, "strict-ser", rivals)
    return points


def _verified(panel: str, across: float, label: str, path: Path, asked: str, rivals: Sequence[Rival]) -> list[Point]:
    """Ours from the history's file to the verdict without the start of the program, theirs with it."""
    cell = measure(path, asked, limit_s=LIMIT_S)
    what = f"{cell.verdict()}, {cell.memory()} MB"
    points = [Point(panel, across, label, "Isolde, s", cell.seconds + cell.loading_s, what)]
    return points + [Point(panel, across, label, f"{rival.name}, s", *rival.seconds(path)) for rival in rivals]


@dataclass(frozen=True, slots=True)
class Ran:
    """One call of ``isolde run``, and the largest memory of its process."""

    document: dict[str, Any]
    megabytes: float

    @property
    def committed(self) -> int:
        return int(self.document["run"]["committed"])

    @property
    def aborted(self) -> float:
        run = self.document["run"]
        return float(100 * run["aborted"] / max(1, run["aborted"] + run["committed"]))


def isolde_run(url: str, *arguments: str) -> Ran:
    """A run, recorded where it is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*PROGRAM, "run", url, "--json", *arguments, "-o", f"{folder}/run"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        text = process.stdout.read()
        _, _, usage = os.wait4(process.pid, 0)
    if not text:
        raise SystemExit(f"no answer from: {' '.join(arguments)}")
    return Ran(json.loads(text), usage.ru_maxrss / 1024)


_OF = {"mini": ("--workload", "mini"), "general": ("--workload", "general")}


def end_to_end(url: str, isolation: str, asked: str, *, full: bool) -> list[Point]:
    """Figures 10 and 17: seconds to record and to check, and memory."""
    times = 10 if full else 1
    usual = {"transactions": 500 * times, "operations": 20, "keys": 1_000}
    axes = {
        "transactions": tuple(n * times for n in (250, 500, 1_000)),
        "operations": (8, 16, 24),
        "keys": (200, 1_000, 2_000),
    }
    points = []
    for axis, values in axes.items():
        for value in values:
            sizes = usual | {axis: value}
            common = ["--transactions", str(sizes["transactions"]), "--keys", str(sizes["keys"])]
            common += ["--isolation", isolation, "--check", asked]
            for name, workload in _OF.items():
                # A mini-transaction has at most four operations: over operations it is the same one again.
                operations = ("--operations", str(sizes["operations"])) if name == "general" else ()
                ran = isolde_run(url, *common, *workload, *operations)
                run, verdict = ran.document["run"], ran.document["results"][0]["verdict"]
                what = f"{verdict}, {run['committed']} committed, {ran.aborted:.1f} % aborted"
                at = (float(value), str(value))
                points.append(Point(f"over {axis}, s", *at, f"{name}: record", run["seconds"], what))
                points.append(Point(f"over {axis}, s", *at, f"{name}: check", run["check_seconds"], what))
                points.append(Point(f"over {axis}, MB", *at, name, ran.megabytes, what))
    return points


def abort_rates(url: str, *, full: bool) -> list[Point]:
    """Figure 11: over the sessions, and over how many transactions there are for each object; some seconds each."""
    count, seconds = (10_000, "20") if full else (2_000, "2")
    cells = [("sessions", sessions, sessions, 1_000) for sessions in (2, 5, 10, 20)]
    cells += [("transactions an object", each, 10, count // each) for each in (1, 5, 10, 20)]
    points = []
    for panel, value, sessions, keys in cells:
        for name, workload in _OF.items():
            for isolation, asked in (("serializable", "ser"), ("repeatable-read", "si")):
                operations = ("--operations", "20") if name == "general" else ()
                sizes = (
                    "--sessions",
                    str(sessions),
                    "--keys",
                    str(keys),
                    "--transactions",
                    str(count),
                    "--time",
                    seconds,
                )
                ran = isolde_run(url, *sizes, "--isolation", isolation, "--check", asked, *workload, *operations)
                verdict = ran.document["results"][0]["verdict"]
                series = f"{name} at {asked.upper()}, %"
                points.append(
                    Point(panel, float(value), str(value), series, ran.aborted, f"{verdict}, {ran.committed} committed")
                )
    return points


_FINDERS = {"mini": (4,), "append": (4, 8, 16), "read-write": (4, 8, 16)}
_SMALL = ("--keys", "10", "--distribution", "exponential")


def effectiveness(url: str, isolation: str, asked: str, trials: int, *, full: bool) -> list[Point]:
    """Figure 13: which share of seeds finds an anomaly in 3,000 transactions, how soon, and where."""
    bounds = ("--trials", str(trials), "--transactions", "3000" if full else "1000")
    points = []
    for workload, lengths in _FINDERS.items():
        for length in lengths:
            options = ("--workload", workload, "--operations", str(length), "--isolation", isolation, "--check", asked)
            document = isolde_run(url, *options, *_SMALL, *bounds).document
            found, trial = document, document["trials"]
            seen = sorted(one["place"] for one in trial if one["place"] is not None)
            where = f"; half of them by transaction {seen[len(seen) // 2]:,}" if seen else ""
            soon = found["median_seconds"]
            what = f"{found['found']} of {len(trial)}" + (f", half of them within {soon:.2f} s{where}" if soon else "")
            points.append(
                Point("longest", float(length), str(length), f"{workload}, %", 100 * found["found"] / len(trial), what)
            )
    return points


def seconds_of_runs(url: str, isolation: str, asked: str, *, full: bool) -> list[Point]:
    """Figure 14: seconds to record and to check as many committed transactions, anomalies or not."""
    points = []
    for workload, lengths in _FINDERS.items():
        for length in lengths:
            options = ("--workload", workload, "--operations", str(length), "--isolation", isolation, "--check", asked)
            ran = isolde_run(url, *options, *_SMALL, "--transactions", "3000" if full else "500")
            run = ran.document["run"]
            for part, seconds in (("record", run["seconds"]), ("check", run["check_seconds"])):
                points.append(Point(f"{part}, s", float(length), str(length), workload, seconds, f"{run['committed']}"))
    return points


def tables() -> list[Point]:
    """Table I: each anomaly planted in 1,000 mini-transactions; whether it is found, and under its own name."""
    points = []
    usual: dict[str, Any] = {"sessions": 10, "transactions": 1_000, "keys": 100, "operations": 4, "workload": "mini"}
    usual |= {"distribution": "uniform", "level": "strict-serializable", "abort_rate": 0.0, "unknown_rate": 0.0}
    for place, anomaly in enumerate(generator_names()[3]):
        began = time.perf_counter()
        columns = generate(**usual, inject=[anomaly], seed=1)
        names = {one.name for finding in check(columns, list(ASKED)).findings for one in finding.anomalies}
        seconds = time.perf_counter() - began
        what = "found by name" if anomaly in names else f"found as {', '.join(sorted(names)) or 'nothing'}"
        points.append(Point("table I, s", float(place), anomaly, "Isolde", seconds, what))
    return points


def write(figure: str, points: Sequence[Point]) -> None:
    """The table on the terminal, and the files."""
    FOLDER.mkdir(exist_ok=True)
    head = ["diagram", "across", "series", "value", "detail"]
    rows = [[point.panel, point.label, point.series, f"{point.value:.3g}", point.detail] for point in points]
    print(markdown(head, rows))
    print(f"\nthe paper: {PUBLISHED[figure]}")
    file = FOLDER / f"mtc-{figure}"
    with file.with_suffix(".csv").open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows([head, *rows])
    diagrams = []
    for panel in dict.fromkeys(point.panel for point in points):
        lines: dict[str, list[tuple[float, float]]] = {}
        for point in points:
            if point.panel == panel:
                lines.setdefault(point.series, []).append((point.across, point.value))
        diagrams.append(Curves(f"figure {figure}: {panel}" if figure.isdigit() else panel, panel, "value", lines))
    file.with_suffix(".svg").write_text(drawn_curves(diagrams), encoding="utf-8")
    print(f"written: {file}.csv, {file}.svg")


def rival_named(text: str) -> Rival:
    """NAME=SUFFIX=COMMAND."""
    name, _, rest = text.partition("=")
    suffix, _, command = rest.partition("=")
    if not name or not suffix or "{file}" not in command:
        raise argparse.ArgumentTypeError("write NAME=SUFFIX=COMMAND, with {file} in the command")
    return Rival(name, suffix, command)


def on_server(options: argparse.Namespace) -> list[Point]:
    """The figures that need a database: the one that runs at --url, or one that is started."""
    if options.url is None:
        released = {"programs": programs_of(options.start, options.server_version)} if options.server_version else {}
        with start(options.start, **released) as server:
            options.url = server.url
            return on_server(options)
    url, full = options.url, options.full
    match options.figure:
        case "10":
            return end_to_end(url, "serializable", "ser", full=full)
        case "17":
            return end_to_end(url, "repeatable-read", "si", full=full)
        case "11":
            return abort_rates(url, full=full)
        case "13":
            return effectiveness(url, options.isolation, options.check, options.trials, full=full)
        case _:
            return seconds_of_runs(url, options.isolation, options.check, full=full)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", choices=list(PUBLISHED))
    parser.add_argument("--full", action="store_true", help="ten times as much")
    parser.add_argument("--rival", type=rival_named, action="append", default=[], help="NAME=SUFFIX=COMMAND")
    parser.add_argument("--url", help="a database that runs already")
    parser.add_argument("--start", default="postgresql", help="which private server to start")
    parser.add_argument("--server-version", help="its release ('isolde databases' lists them)")
    parser.add_argument("--isolation", default="read-committed", help="of figures 13 and 14")
    parser.add_argument("--check", default="si", help="of figures 13 and 14")
    parser.add_argument("--trials", type=int, default=5, help="of figure 13")
    options = parser.parse_args()
    match options.figure:
        case "7":
            points = verification("serializable", "ser", options.rival, full=options.full)
        case "8":
            points = verification("snapshot-isolation", "si", options.rival, full=options.full)
        case "9":
            points = concurrent_sessions(options.rival, full=options.full)
        case "tables":
            points = tables()
        case _:
            points = on_server(options)
    write(options.figure, points)


if __name__ == "__main__":
    main()
