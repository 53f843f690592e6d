"""Three applications in small sessions on the store models: which invariants break at which level of which database.

python tests/store_applications.py                     # the table of docs/stores.md
python tests/store_applications.py run [SECONDS]       # which of them break on real servers, in runs of random transactions
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations_with_replacement
from tempfile import TemporaryDirectory
from typing import NamedTuple

from isolde.engines.explore.files import program_of
from isolde.engines.explore.on_store import Explored, StoreExploration
from isolde.workloads.application import Scale
from isolde.workloads.applications import application_named
from isolde.workloads.scales import scale_of


class Level(NamedTuple):
    """A level of a database, with settings."""

    store: str
    isolation: str
    settings: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        also = "".join(f", {name}={value}" for name, value in self.settings)
        return f"{self.store} {self.isolation}{also}"


LEVELS = (
    Level("postgresql", "read committed"),
    Level("postgresql", "repeatable read"),
    Level("postgresql", "serializable"),
    Level("mariadb", "read uncommitted"),
    Level("mariadb", "read committed"),
    Level("mariadb", "repeatable read"),
    Level("mariadb", "repeatable read", (("innodb_snapshot_isolation", "ON"),)),
    Level("mariadb", "serializable"),
)


class Small(NamedTuple):
    """An application at small sizes; every two of the calls are the two sessions of a program, each also with itself.

    ``{n}`` is 1 in the first session and 2 in the second, for ids that must be new.
    """

    scale: Mapping[str, int]
    calls: Sequence[str]


_NAME = f"{1:064d}"
APPLICATIONS: Mapping[str, Small] = {
    "smallbank": Small(
        {"customers": 2, "hot": 1},
        (
            "amalgamate(10{n}, 1, 2)",
            f"balance('{_NAME}')",
            f"deposit_checking(10{{n}}, '{_NAME}', 130)",
            "send_payment(10{n}, 1, 2, 500)",
            f"transact_savings(10{{n}}, '{_NAME}', -4000)",
            f"write_check(10{{n}}, '{_NAME}', 500)",
        ),
    ),
    "courseware": Small(
        {"students": 2, "courses": 1, "capacity": 1},
        (
            "enroll({n}, 1, 10{n})",
            "enroll(1, 1, 10{n})",
            "leave(1)",
            "register(3, 'new')",
            "deregister(1)",
            "add_course(2, 'new', 1)",
            "cancel_course(1)",
        ),
    ),
    "tpcc": Small(
        {"warehouses": 1, "districts": 1, "customers": 2, "items": 2},
        (
            "new_order(1, 1, 1, 1, 1700000000, [(1, 1, 3)])",
            # There is no item 3: it rolls back, as one order in a hundred does.
            "new_order(1, 1, 1, 1, 1700000000, [(3, 1, 1)])",
            "payment(1, 1, 1, 1, 0, 1, '', 500, 90{n}, 1700000000)",
            "order_status(1, 1, 0, 1, '')",
            "delivery(1, 3, 1700000000, 1)",
            "stock_level(1, 1, 15)",
        ),
    ),
}


RUN_SCALES: Mapping[str, Mapping[str, int]] = {
    # With one course, most transactions of a run find it cancelled or full.
    "courseware": {"students": 10, "courses": 4, "capacity": 2},
    "tpcc": {"warehouses": 1, "districts": 2, "customers": 10, "items": 10},
}


def explored(name: str, sessions: Sequence[str], level: Level) -> Explored:
    """Everything that the sessions can do there."""
    application = application_named(name)
    scale: Scale = scale_of(application, [f"{size}={number}" for size, number in APPLICATIONS[name].scale.items()])
    program = program_of(application, sessions, scale, 0)
    return StoreExploration(program, level.store, level.isolation, settings=dict(level.settings)).explore()


def pairs(name: str) -> Iterator[tuple[str, str]]:
    for first, second in combinations_with_replacement(APPLICATIONS[name].calls, 2):
        yield first.replace("{n}", "1"), second.replace("{n}", "2")


def broken(name: str, level: Level) -> dict[str, list[str]]:
    """The invariants that break, each with the pairs of transactions that break it."""
    found: dict[str, list[str]] = {}
    for sessions in pairs(name):
        result = explored(name, sessions, level)
        assert result.complete, (name, sessions, level)
        for invariant in result.violations:
            both = " ∥ ".join(call.partition("(")[0] for call in sessions)
            found.setdefault(invariant, []).append(both)
    return {invariant: list(dict.fromkeys(both)) for invariant, both in sorted(found.items())}


def table() -> Iterator[str]:
    """The lines of the table in docs/stores.md."""
    yield "| application | level | invariants that two transactions can break | by |"
    yield "| --- | --- | --- | --- |"
    for name in APPLICATIONS:
        for level in LEVELS:
            found = broken(name, level)
            by = "; ".join(f"{invariant}: {', '.join(both)}" for invariant, both in found.items())
            yield f"| {name} | {level} | {', '.join(found) or 'none'} | {by} |"


def ran(name: str, level: Level, seconds: float) -> list[str]:
    """The invariants that a run of random transactions of ten sessions breaks on a real server."""
    sizes = RUN_SCALES.get(name, APPLICATIONS[name].scale)
    scale = [word for size, number in sizes.items() for word in ("--scale", f"{size}={number}")]
    settings = [word for setting in level.settings for word in ("--setting", "=".join(setting))]
    command = [sys.executable, "-m", "isolde", "run", "--start", level.store, "--workload", name, *scale, *settings]
    bounds = ["--isolation", level.isolation.replace(" ", "-"), "--time", str(seconds), "--json"]
    with TemporaryDirectory() as directory:
        done = subprocess.run(
            [*command, *bounds, "-o", f"{directory}/run"], capture_output=True, text=True, check=False
        )
    if done.returncode not in (0, 1, 3):
        raise RuntimeError(f"{name} at {level}: {done.stderr}")
    document = json.loads(done.stdout)
    return sorted(invariant["name"] for invariant in document["invariants"] if invariant["broken"])


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        for application_name in APPLICATIONS:
            for one in LEVELS:
                print(application_name, one, ran(application_name, one, float((sys.argv[2:3] or ["5"])[0])), flush=True)
    else:
        for line in table():
            print(line, flush=True)
