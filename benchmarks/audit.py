"""How fast logs of a real PostgreSQL are judged: transactions a second, by application and level.

Two clients, as in section 8.3 of *Checking Observational Correctness of Database Systems*. Logs are recorded first, on a private
server.
Usage: python benchmarks/audit.py [--transactions N] [--application NAME]…
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import isolde

APPLICATIONS: dict[str, dict[str, int]] = {"bank": {}, "twitter": {}, "rubis": {}, "tpcc": {}}
LEVELS = {
    "serializable": ("strict-ser", "ser"),
    "repeatable read": ("strict-si", "si"),
    "read committed": ("rc",),
}
SECONDS = 300.0


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--transactions", type=int, default=2_000)
    options.add_argument("--application", action="append", choices=sorted(APPLICATIONS))
    given = options.parse_args()
    print(
        f"{'application':12} {'recorded at':16} {'judged at':12} {'verdict':10} {'committed':>9} {'seconds':>8} {'a second':>9}"
    )
    with tempfile.TemporaryDirectory() as directory:
        for application in given.application or APPLICATIONS:
            for isolation, levels in LEVELS.items():
                path = Path(directory) / f"{application}-{isolation.replace(' ', '-')}"
                isolde.run(
                    start="postgresql",
                    isolation=isolation,
                    workload=application,
                    transactions=given.transactions,
                    sessions=2,
                    sizes=APPLICATIONS[application],
                    output=path,
                )
                for level in levels:
                    _judge(application, isolation, level, path)


def _judge(application: str, isolation: str, level: str, path: Path) -> None:
    began = time.process_time()
    report = isolde.audit(path, level, seconds=SECONDS)
    seconds = time.process_time() - began
    committed = getattr(report.subject, "committed", 0)
    verdict = report.verdict.value
    print(
        f"{application:12} {isolation:16} {level:12} {verdict:10} {committed:9,} {seconds:8.2f} {committed / seconds:9,.0f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
