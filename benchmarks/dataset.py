"""What checking in windows costs: a history as one file, and as a directory of parts by time.

    python benchmarks/dataset.py [--transactions 500000] [--parts 20]

Prints seconds of processor time and the memory that the check added, each in a process of its own.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from isolde._core import Columns
from isolde.campaigns.check import CheckOptions, check_file
from isolde.campaigns.dataset import check_dataset, is_dataset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transactions", type=int, default=500_000)
    parser.add_argument("--parts", type=int, default=20)
    parser.add_argument("--of", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.of:
        print(measured(asked.of))
        return
    with tempfile.TemporaryDirectory() as place:
        whole, parts = Path(place) / "whole.jsonl", Path(place) / "days"
        size = ("--transactions", str(asked.transactions), "--seed", "3")
        subprocess.run([sys.executable, "-m", "isolde", "generate", *size, "-o", str(whole)], check=True)
        parts.mkdir()
        header, *lines = whole.read_bytes().splitlines(keepends=True)
        step = -(-len(lines) // asked.parts)
        for number, begin in enumerate(range(0, len(lines), step)):
            text = header + b"".join(lines[begin : begin + step])
            Columns.from_jsonl(text).write_parquet(str(parts / f"{number:04}.parquet"))
        for path in (whole, parts):
            done = subprocess.run(
                [sys.executable, __file__, "--of", str(path)], check=True, capture_output=True, text=True
            )
            print(f"{path.name:12} {done.stdout.strip()}")


def measured(path: str) -> str:
    """The verdict at serializable, and what it cost."""
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    options = CheckOptions(("serializable",))
    report = check_dataset(path, options) if is_dataset(path) else check_file(path, options).report
    seconds = time.process_time() - began
    added = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    return f"{report.verdict.value}  {seconds:.1f} s  {added} MB"


if __name__ == "__main__":
    main()
