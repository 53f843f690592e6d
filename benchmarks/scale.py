"""What work in parts costs and gains: a job that does nothing, and an exploration and a check by one and two workers.

    python benchmarks/scale.py [--ray]

Seconds are on the clock, and ratios are to the same work in this process on one core.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import isolde
from isolde.campaigns.check import CheckOptions, check_file
from isolde.campaigns.explore import ExploreOptions, explore
from isolde.engines.explore.explore import Explorer
from isolde.engines.explore.files import programs_in
from isolde.scale import Engine, Workers, opened_workers
from isolde.scale.checking import check_apart
from isolde.scale.exploring import exploring
from isolde.scale.workers import spread

JOBS = 200
PROGRAM = """
from isolde import Program

def move(tx, here, there, amount):
    have = tx.read(here)
    tx.write(there, tx.read(there) + amount)
    tx.write(here, have - amount)

PROGRAM = Program(
    sessions=[
        [(move, "x", "y", 1), (move, "y", "z", 2)],
        [(move, "y", "z", 4), (move, "z", "x", 8)],
        [(move, "z", "x", 16), (move, "x", "y", 64)],
        [(move, "x", "z", 32)],
    ],
    initial={"x": 0, "y": 0, "z": 0},
)
"""
LEVEL = "rc"


def nothing(_: int) -> None:
    """A job."""


def seconds(work: Callable[[], object]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def blind_history(path: Path, components: int) -> None:
    """Parts without a common key or session, each of which has to be searched: transactions that write without reading."""
    lines = [b'{"isolde":"history","version":1}']
    with tempfile.TemporaryDirectory() as directory:
        for number in range(components):
            part = Path(directory, "part.jsonl")
            isolde.generate(
                part, workload="read-write", seed=number, sessions=8, transactions=20_000, keys=1_000, blind_writes=0.8
            )
            lines += [_apart(line, number) for line in part.read_bytes().splitlines()[1:]]
    path.write_bytes(b"\n".join([*lines, b""]))


def _apart(line: bytes, number: int) -> bytes:
    """A transaction with keys and a session of its own part, and without times: they would tell an order."""
    content = json.loads(line)
    ops = [[kind, f"{number}.{key}", *rest] for kind, key, *rest in content["ops"]]
    kept = {name: content[name] for name in ("status",) if name in content}
    return json.dumps({"session": f"{number}.{content['session']}", **kept, "ops": ops}).encode()


def measured(engine: Engine, count: int, program: Path, history: Path) -> tuple[float, float, float, float]:
    """Seconds to start, milliseconds of a job, and seconds of the exploration and of the check."""
    (read,) = programs_in(str(program))
    options = ExploreOptions(levels=(LEVEL,), threads=1)
    begun = time.monotonic()
    with opened_workers(engine, count) as workers:
        list(spread(workers, nothing, range(count)))
        started = time.monotonic() - begun
        job = seconds(lambda: list(spread(workers, nothing, range(JOBS)))) / JOBS * 1e3
        # Both are asked once before, so that every worker has loaded what it needs.
        explored = min(seconds(lambda: explore(read, options, None, exploring(workers))) for _ in range(2))
        checked = min(seconds(lambda: _checked(history, workers)) for _ in range(2))
    return started, job, explored, checked


def _checked(history: Path, workers: Workers) -> None:
    check_apart(str(history), CheckOptions(("ser",)), workers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ray", action="store_true", help="on Ray, too")
    engines: list[Engine] = ["local", "ray"] if parser.parse_args().ray else ["local"]
    with tempfile.TemporaryDirectory() as directory:
        program, history = Path(directory, "moves.py"), Path(directory, "blind.jsonl")
        program.write_text(PROGRAM)
        blind_history(history, 8)
        (read,) = programs_in(str(program))
        options = ExploreOptions(levels=(LEVEL,), threads=1)
        alone = seconds(lambda: explore(read, options, None, Explorer.ask))
        checked = seconds(lambda: check_file(str(history), CheckOptions(("ser",))))
        print("| workers | started, s | a job, ms | exploration, s | ratio | check, s | ratio |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        print(f"| this process | | | {alone:.1f} | 1.00 | {checked:.1f} | 1.00 |")
        for engine in engines:
            for count in (1, 2):
                started, job, exploring_s, checking_s = measured(engine, count, program, history)
                print(
                    f"| {engine}, {count} | {started:.1f} | {job:.1f} | {exploring_s:.1f} | {exploring_s / alone:.2f}"
                    f" | {checking_s:.1f} | {checking_s / checked:.2f} |"
                )


if __name__ == "__main__":
    main()
