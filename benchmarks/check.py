"""From the file to the verdict: how long checking takes, as a multiple of merely reading the file.

One million mini-transactions of four operations (100 sessions, 10,000 keys) are written once. Every program then runs as a
process of its own, several times in turn, and the best time of each counts, so that a noisy machine disturbs all alike. The
yardstick is the fastest JSON reader among those that are installed; a ratio of 2.0 means twice its time.

    python benchmarks/check.py [--transactions N] [--repeat N] [--growth]
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "results"
SESSIONS = 100
KEYS = 10_000
LEVELS = ("ser", "si", "strict-ser", "strict-si", "rc", "ra", "cc")

READERS = {
    "json": "import json,sys\nwith open(sys.argv[1],'rb') as f:\n    for line in f: json.loads(line)",
    "orjson": "import orjson,sys\nwith open(sys.argv[1],'rb') as f:\n    for line in f: orjson.loads(line)",
    "msgspec": (
        "import msgspec,sys\nd=msgspec.json.Decoder()\nwith open(sys.argv[1],'rb') as f:\n    d.decode_lines(f.read())"
    ),
    "duckdb": (
        'import duckdb,sys\nduckdb.sql("create table t as select * from read_json(\'" + sys.argv[1] + "\','
        "format='newline_delimited',columns={id:'BIGINT',session:'BIGINT',start:'BIGINT','end':'BIGINT',ops:'JSON[]'})\")"
    ),
    "pyarrow": (
        "import pyarrow.json as j,sys\nj.read_json(sys.argv[1],read_options=j.ReadOptions(block_size=1<<25),"
        "parse_options=j.ParseOptions(explicit_schema=__import__('pyarrow').schema([('id','int64'),('session','int64'),"
        "('start','int64'),('end','int64')]),unexpected_field_behavior='ignore'))"
    ),
    "isolde, reading only": "import sys\nfrom isolde._core import Columns\nColumns.read(sys.argv[1])",
}
# Isolde's own reader is measured but is not the yardstick: that would be too easy to move.
OWN = "isolde, reading only"


@dataclass
class Measured:
    """The best wall time and the largest memory over the repetitions."""

    seconds: float
    megabytes: float


def run(command: list[str]) -> Measured | None:
    """One run of a process; ``None`` if it cannot run here."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    if os.waitstatus_to_exitcode(status) != 0:
        return None
    return Measured(seconds, usage.ru_maxrss / 1024)


def write_history(path: Path, transactions: int) -> None:
    """Mini-transactions r(x) r(y) w(x) w(y), executed one after another at points inside overlapping intervals."""
    rng = random.Random(1)
    current = [0] * KEYS
    free_at = [0] * SESSIONS
    value = 0
    with path.open("w", encoding="ascii") as file:
        initial = ",".join(f'"{key}":0' for key in range(KEYS))
        file.write(f'{{"isolde":"history","version":1,"initial":{{{initial}}}}}\n')
        for number in range(transactions):
            session = number % SESSIONS
            instant = (number + 1) * 10
            start, end = max(free_at[session] + 1, instant - rng.randrange(500)), instant + rng.randrange(400)
            free_at[session] = end
            x = rng.randrange(KEYS)
            y = (x + 1 + rng.randrange(KEYS - 1)) % KEYS
            file.write(
                f'{{"id":{number},"session":{session},"start":{start},"end":{end},"ops":[["r",{x},{current[x]}],'
                f'["r",{y},{current[y]}],["w",{x},{value + 1}],["w",{y},{value + 2}]]}}\n'
            )
            current[x], current[y] = value + 1, value + 2
            value += 2


def best(jobs: dict[str, list[str]], repeat: int) -> dict[str, Measured]:
    """The best of several runs of each job, taken in turn."""
    found: dict[str, Measured] = {}
    for _ in range(repeat):
        for name, command in jobs.items():
            measured = run(command)
            if measured is None:
                continue
            old = found.get(name, measured)
            found[name] = Measured(min(old.seconds, measured.seconds), max(old.megabytes, measured.megabytes))
    return found


def isolde(level: str, path: Path) -> list[str]:
    return [sys.executable, "-m", "isolde", "check", "--level", level, str(path)]


def table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def compare(transactions: int, repeat: int) -> None:
    jsonl = FOLDER / f"mini-{transactions}.jsonl"
    parquet = FOLDER / f"mini-{transactions}.parquet"
    prepare(jsonl, parquet, transactions)
    jobs = {f"read: {name}": [sys.executable, "-c", code, str(jsonl)] for name, code in READERS.items()}
    jobs |= {
        f"check: {level}, JSONL": isolde(level, jsonl)
        for level in ("ser", "si", "strict-ser", "strict-si", "rc", "ra", "cc")
    }
    jobs |= {f"check: {level}, Parquet": isolde(level, parquet) for level in ("ser", "si")}
    found = best(jobs, repeat)
    foreign = {name: m for name, m in found.items() if name.startswith("read: ") and OWN not in name}
    fastest = min(foreign, key=lambda name: foreign[name].seconds)
    rows = [("job", "seconds", f"ratio to '{fastest}'", "peak MB")]
    for name, measured in found.items():
        ratio = measured.seconds / found[fastest].seconds
        rows.append((name, f"{measured.seconds:.2f}", f"{ratio:.2f}", f"{measured.megabytes:.0f}"))
    print(
        f"{transactions:,} mini-transactions of 4 operations, {jsonl.stat().st_size / 1e6:.0f} MB of JSON Lines,",
        end=" ",
    )
    print(f"{parquet.stat().st_size / 1e6:.0f} MB of Parquet; best of {repeat}\n")
    print(table(rows))
    strict = found["check: strict-ser, JSONL"].seconds / found["check: ser, JSONL"].seconds
    print(f"\nstrict serializable / serializable: {strict:.2f}")


def prepare(jsonl: Path, parquet: Path, transactions: int) -> None:
    FOLDER.mkdir(exist_ok=True)
    if not jsonl.exists():
        write_history(jsonl, transactions)
    if not parquet.exists():
        subprocess.run([sys.executable, "-m", "isolde", "convert", str(jsonl), str(parquet)], check=True)


def growth(repeat: int) -> None:
    """One, two, five and ten million transactions: seconds and memory a million."""
    rows = [("transactions", "ser s", "s a million", "si s", "s a million", "peak MB")]
    for millions in (1, 2, 5, 10):
        jsonl = FOLDER / f"mini-{millions * 1_000_000}.jsonl"
        FOLDER.mkdir(exist_ok=True)
        if not jsonl.exists():
            write_history(jsonl, millions * 1_000_000)
        found = best({level: isolde(level, jsonl) for level in ("ser", "si")}, repeat)
        ser, si = found["ser"], found["si"]
        rows.append(
            (
                f"{millions},000,000",
                f"{ser.seconds:.2f}",
                f"{ser.seconds / millions:.2f}",
                f"{si.seconds:.2f}",
                f"{si.seconds / millions:.2f}",
                f"{max(ser.megabytes, si.megabytes):.0f}",
            )
        )
        if millions > 1:
            jsonl.unlink()
    print("\n" + table(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transactions", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument(
        "--growth", action="store_true", help="also up to ten million transactions (needs 2 GB of disk)"
    )
    arguments = parser.parse_args()
    compare(arguments.transactions, arguments.repeat)
    if arguments.growth:
        growth(1)


if __name__ == "__main__":
    main()
