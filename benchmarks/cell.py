"""One cell of a table: a history checked at a level, in a process of its own, within a time limit.

As a program it checks a file and prints a line of JSON after each repetition, so that what was measured before a limit is not
lost:

    python benchmarks/cell.py FILE LEVEL REPEAT [--no-session-order]
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isolde.engines.check import check
from isolde.engines.generate import generate
from isolde.formats import read
from isolde.levels import level_named

FOLDER = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True, slots=True)
class Cell:
    """The best time from the loaded history to the verdict, the time to load it, the largest memory, and what came out.

    ``answer`` is ``None`` if the limit came first.
    """

    seconds: float
    loading_s: float
    megabytes: float
    answer: dict[str, Any] | None

    def time(self, limit_s: float) -> str:
        return f"over {limit_s:.0f}" if self.answer is None else f"{self.seconds:.2f}"

    def verdict(self) -> str:
        return "-" if self.answer is None else str(self.answer["verdict"])

    def method(self) -> str:
        return "-" if self.answer is None else str(self.answer["method"])

    def memory(self) -> str:
        return "-" if self.answer is None else f"{self.megabytes:.0f}"

    def open_pairs(self) -> str:
        return "-" if self.answer is None else f"{self.answer['open_pairs']:,}"


def measure(path: Path, level: str, *, limit_s: float, repeat: int = 3, session_order: bool = True) -> Cell:
    """Checks a file in a process that is ended after ``limit_s``, however far it got."""
    command = [sys.executable, __file__, str(path), level, str(repeat)]
    process = subprocess.Popen(
        command if session_order else [*command, "--no-session-order"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    alarm = threading.Timer(limit_s, process.kill)
    alarm.start()
    answers = [json.loads(line) for line in process.stdout]
    process.wait()
    alarm.cancel()
    best = min(answers, key=lambda answer: float(answer["seconds"]), default=None)
    if best is None:
        return Cell(limit_s, 0.0, 0.0, None)
    return Cell(best["seconds"], best["loading_s"], best["megabytes"], best)


def history(name: str, *, per_client: bool = False, **parameters: Any) -> Path:
    """Writes a generated history once. ``per_client`` writes it as clients log: one after the other, without times."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.jsonl"
    if not path.exists():
        usual: dict[str, Any] = {
            "distribution": "uniform",
            "abort_rate": 0.0,
            "unknown_rate": 0.0,
            "inject": (),
            "seed": 1,
        }
        text = generate(**(usual | parameters)).to_jsonl().decode()
        path.write_text(_by_client(text) if per_client else text, encoding="utf-8")
    return path


def _by_client(text: str) -> str:
    lines = [json.loads(line) for line in text.splitlines()]
    transactions = [line for line in lines if "ops" in line]
    transactions.sort(key=lambda line: int(line["session"]))
    for line in transactions:
        del line["start"], line["end"]
    told = [line for line in lines if "ops" not in line]
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in [*told, *transactions])


def markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def peak_megabytes() -> float:
    """Of this process alone: ``getrusage`` would count what the parent held when it forked."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024


def main(path: str, level: str, repeat: str, *flags: str) -> None:
    began = time.perf_counter()
    columns = read(path, None)
    loading_s = time.perf_counter() - began
    for _ in range(int(repeat)):
        began = time.perf_counter()
        report = check(columns, [level_named(level)], session_order="--no-session-order" not in flags)
        (finding,) = report.findings
        seconds = time.perf_counter() - began
        answer = {
            "seconds": seconds,
            "loading_s": loading_s,
            "megabytes": peak_megabytes(),
            "verdict": finding.verdict.value,
            "method": finding.method,
            "open_pairs": report.known.open_pairs if report.known else 0,
            "found": finding.anomalies[0].name if finding.anomalies else "",
            "reason": str(finding.reason or ""),
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
