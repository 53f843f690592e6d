"""How long the program takes to start, against a bare interpreter and the libraries it could have used.

python benchmarks/startup.py
"""

from __future__ import annotations

import subprocess
import sys
import time

JOBS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import click": [sys.executable, "-c", "import click"],
    "import isolde": [sys.executable, "-c", "import isolde"],
    "isolde --version": [sys.executable, "-m", "isolde", "--version"],
    "isolde --help": [sys.executable, "-m", "isolde", "--help"],
    "isolde levels": [sys.executable, "-m", "isolde", "levels"],
}
REPEAT = 15


def main() -> None:
    best = dict.fromkeys(JOBS, float("inf"))
    for _ in range(REPEAT):
        for name, command in JOBS.items():
            began = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            best[name] = min(best[name], time.perf_counter() - began)
    base = best["python -c pass"]
    for name, seconds in best.items():
        print(f"{name:18} {seconds * 1000:6.0f} ms   {seconds / base:4.1f} times a bare interpreter")


if __name__ == "__main__":
    main()
