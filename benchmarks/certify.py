"""From a history and its certificate on disk to the verdict: figures 9 to 12 of "Bringing Order to Practical Validation of
Database Isolation Levels" (Clark et al.), with Isolde in the place of Emme (order of versions) and Enne (serialization order).

Item operations are reads and writes of 1,000 keys, five a transaction, half of them writes; predicate operations are the paper's
figure 10 (100 keys; 10, 50 and 90 % of reads and updates by a condition). Each cell is a process of its own; seconds of processor
time, reading both files included, the start of the program not. The paper's figures are of other hardware and of checking alone.

    python benchmarks/certify.py [--small] [--repeat N] [--svg FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from cell import FOLDER, markdown
from isolde.engines.check import check
from isolde.engines.generate import generate
from isolde.engines.generate.predicates import generate_predicates
from isolde.formats import decode, encode, read, write
from isolde.formats.certificates import certificate_path, write_certificate
from isolde.history import Write
from isolde.history.certificate import Certificate, Installed, ObjectId
from isolde.levels import Level
from plot import Curves, drawn_curves

ITEMS = (10_000, 25_000, 50_000, 100_000)
PREDICATES = (500, 1_000, 2_500, 10_000, 25_000)
SHARES = (10, 50, 90)
PAPER = {("items", 100_000): (98.3, 1.7), ("predicates", 2_500): (76.2, 0.6)}
"""Emme's and Enne's seconds."""
_CHILD = """
import json, sys, time
from isolde.campaigns.check import CheckOptions, check_file
began, wall = time.process_time(), time.perf_counter()
report = check_file(sys.argv[1], CheckOptions(("serializable",)), certificate=sys.argv[2]).report
(finding,) = report.findings
print(json.dumps([time.process_time() - began, time.perf_counter() - wall, finding.verdict.value, finding.judged_by.oracle]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="leave out the largest histories")
    parser.add_argument("--repeat", type=int, default=3, help="the best of so many")
    parser.add_argument("--svg", type=Path, default=Path(__file__).resolve().parent / "certify.svg")
    arguments = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    print(markdown(["operations", "transactions", "told", "seconds", "verdict", "the paper"], []))
    items: dict[str, list[tuple[float, float]]] = {"order of versions": [], "serialization order": []}
    for size in ITEMS[:-1] if arguments.small else ITEMS:
        path, told, serial = _items(size)
        for name, certificate in (("order of versions", told), ("serialization order", serial)):
            seconds, verdict = _measured(path, certificate, arguments.repeat)
            items[name].append((size, seconds))
            _print("items", f"{size:,}", name, f"{seconds:.2f}", verdict, _paper("items", size, name))
    curves = [Curves("items (figures 9 and 11)", "transactions", "seconds", items)]
    for name in ("order of versions", "serialization order"):
        lines: dict[str, list[tuple[float, float]]] = {}
        for share in SHARES:
            for size in PREDICATES[:-1] if arguments.small else PREDICATES:
                path, told, serial = _predicates(size, share)
                seconds, verdict = _measured(path, told if name == "order of versions" else serial, arguments.repeat)
                lines.setdefault(f"{share} % predicates", []).append((size, seconds))
                paper = _paper("predicates", size, name) if share == 50 else ""
                _print(f"{share} % predicates", f"{size:,}", name, f"{seconds:.2f}", verdict, paper)
        figure = "10" if name == "order of versions" else "12"
        curves.append(Curves(f"predicates, {name} (figure {figure})", "transactions", "seconds", lines))
    arguments.svg.write_text(drawn_curves(curves), encoding="utf-8")


def _paper(kind: str, size: int, name: str) -> str:
    found = PAPER.get((kind, size))
    return "" if found is None else str(found[0] if name == "order of versions" else found[1])


def _print(*cells: str) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


def _measured(path: Path, certificate: Path, repeat: int) -> tuple[float, str]:
    """The best of so many, in seconds, and the verdict."""
    answers: list[list[Any]] = []
    # As an installed program has it: modules are compiled once and not for each run.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(repeat):
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, str(path), str(certificate)],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        )
        answers.append(json.loads(done.stdout))
    best = min(answers, key=lambda answer: float(answer[0]))
    return float(best[0]), str(best[2])


def _items(size: int) -> tuple[Path, Path, Path]:
    path = FOLDER / f"certify-items-{size}.jsonl"
    told, serial = Path(certificate_path(str(path))), FOLDER / f"certify-items-{size}.serial.jsonl"
    if not serial.exists():
        columns = generate(
            sessions=20,
            transactions=size,
            keys=1_000,
            operations=5,
            distribution="uniform",
            workload="read-write",
            level="serializable",
            abort_rate=0.0,
            unknown_rate=0.0,
            inject=(),
            seed=1,
            versions=1.0,
        )
        history = decode(columns)
        places = {
            (op.key, op.value): (t.id, index)
            for t in history.transactions
            for index, op in enumerate(t.ops)
            if isinstance(op, Write)
        }
        objects: dict[ObjectId, Installed] = {
            chain.key: Installed(
                (None, *(places[chain.key, value] for value in chain.values if (chain.key, value) in places))
            )
            for chain in history.versions
        }
        bare = type(history)(history.transactions, history.initial)
        write(encode(bare), str(path))
        write_certificate(Certificate("generated", objects), str(told))
        (finding,) = check(read(str(path)), [Level.SERIALIZABLE], order=True).findings
        assert finding.order is not None
        write_certificate(Certificate("generated", serial=finding.order.transactions), str(serial))
    return path, told, serial


def _predicates(size: int, share: int) -> tuple[Path, Path, Path]:
    path = FOLDER / f"certify-{share}-{size}.jsonl"
    told, serial = Path(certificate_path(str(path))), FOLDER / f"certify-{share}-{size}.serial.jsonl"
    if not serial.exists():
        history, certificate = generate_predicates(mix=[f"figure-10-{share}"], transactions=size, sessions=10, seed=1)
        write(encode(history), str(path))
        write_certificate(certificate, str(told))
        write_certificate(Certificate("generated", serial=certificate.commits), str(serial))
    return path, told, serial


if __name__ == "__main__":
    main()
