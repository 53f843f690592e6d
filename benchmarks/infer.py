"""How long ``isolde infer`` takes: applications as they are included, the questions asked, with and without kept answers.

The paper's own tool took less than a minute for each of its applications (Kaki et al., POPL 2018, section 7). Each row is a
process of its own; seconds are of one core.

    python benchmarks/infer.py [--time 60] [courseware tpcc …]
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time

from isolde.campaigns.infer import Inference, InferOptions
from isolde.findings import Assignments, Verdict
from isolde.workloads.applications import application_named

FOUR = tuple(f"condition-{number}" for number in range(1, 5))
ROWS = (
    ("tpcc", FOUR),
    ("tpcc-nokeys", (*FOUR, "condition-10")),
    ("courseware", ()),
    ("smallbank", ()),
    ("bank", ()),
    ("shopping-cart", ()),
    ("twitter", ()),
    ("rubis", ()),
    ("wikipedia", ()),
)


def _measured(name: str, invariants: tuple[str, ...], database: str, seconds: float, cache: str) -> str:
    options = InferOptions(database, invariants=invariants, seconds=seconds, cache=cache or None)
    began = time.process_time()
    inference = Inference(application_named(name), options)
    report = inference.report()
    spent = time.process_time() - began
    facts = report.fact(Assignments)
    asked = 0 if inference.obligations is None else inference.obligations.asked
    status = {Verdict.SATISFIED: "proved", Verdict.VIOLATED: "refused", Verdict.UNDECIDED: "not proved"}
    counted = {word: sum(status[one.verdict] == word for one in report.findings) for word in status.values()}
    said = ", ".join(f"{many} {word}" for word, many in counted.items() if many)
    complete = "" if facts is not None and facts.complete else ", more may be safe"
    return f"| {name} | {database} | {spent:.1f} s | {asked} | {said}{complete} |"


def _row(arguments: tuple[str, tuple[str, ...], str, float, str]) -> str:
    return _measured(*arguments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("applications", nargs="*", help="of those that are included")
    parser.add_argument("--time", type=float, default=60.0)
    parser.add_argument("--database", action="append", choices=("postgresql", "mariadb"))
    arguments = parser.parse_args()
    print("| application | database | seconds | questions | answers |\n| --- | --- | --- | --- | --- |", flush=True)
    for name, invariants in ROWS:
        if arguments.applications and name not in arguments.applications:
            continue
        for database in arguments.database or ("postgresql", "mariadb"):
            with tempfile.TemporaryDirectory() as kept:
                for cache, note in (("", ""), (kept, ", answers kept"), (kept, ", again")):
                    with multiprocessing.get_context("spawn").Pool(1) as pool:
                        row = pool.map(_row, [(name, invariants, database, arguments.time, cache)])[0]
                    print(row.replace(f"| {name} |", f"| {name}{note} |"), flush=True)


if __name__ == "__main__":
    main()
