"""Applications on real databases: weak levels break what must hold, serializable never does."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from isolde.databases.servers import Running
from isolde.formats import decode, read
from isolde.history import Sql, Status
from running import isolde as program

# Few rows, so that transactions meet; enough time for a loaded machine. A run ends with the first broken invariant.
SMALL = {
    "tpcc": ("--scale", "warehouses=1", "--scale", "districts=2", "--scale", "customers=9", "--scale", "items=20"),
    "courseware": ("--scale", "students=8", "--scale", "courses=4", "--scale", "capacity=2"),
}
SECONDS_TO_BREAK = "55"
SECONDS_TO_HOLD = "8"


@dataclass(frozen=True, slots=True)
class Result:
    status: int
    output: str
    errors: str


def isolde(*arguments: str) -> Result:
    return Result(*program(*arguments))


@pytest.mark.parametrize("application", list(SMALL))
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_read_committed_breaks_what_must_hold(
    kind: str, application: str, server: Callable[[str], Running], tmp_path: Path
) -> None:
    result = isolde(
        "run",
        server(kind).url,
        *("--workload", application, "--isolation", "read-committed", "--until-violation"),
        *(*SMALL[application], "--time", SECONDS_TO_BREAK, "-o", str(tmp_path / "run"), "--json"),
    )
    assert result.status == 1, result.output + result.errors
    document = json.loads(result.output)
    broken = [invariant for invariant in document["invariants"] if invariant["broken"]]
    assert broken
    assert all(entry["rows"] for invariant in broken for entry in invariant["broken"])


@pytest.mark.parametrize("application", list(SMALL))
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_serializable_keeps_what_must_hold(
    kind: str, application: str, server: Callable[[str], Running], tmp_path: Path
) -> None:
    result = isolde(
        "run",
        server(kind).url,
        *("--workload", application, "--isolation", "serializable", *SMALL[application]),
        *("--time", SECONDS_TO_HOLD, "-o", str(tmp_path / "run"), "--json"),
    )
    assert result.status == 0, result.output + result.errors
    document = json.loads(result.output)
    assert document["quiet_points"] >= 1
    assert document["run"]["committed"] > 0


@pytest.mark.parametrize(
    ("application", "sizes"), [*SMALL.items(), ("bank", ("--scale", "accounts=10", "--scale", "pairs=3"))]
)
def test_locks_keep_at_read_committed_what_breaks_without_them(
    application: str, sizes: tuple[str, ...], server: Callable[[str], Running], tmp_path: Path
) -> None:
    result = isolde(
        "run",
        server("postgresql").url,
        *("--workload", f"{application}-locking", "--isolation", "read-committed", *sizes),
        *("--time", "5", "-o", str(tmp_path / "run"), "--json"),
    )
    assert result.status == 0, result.output + result.errors
    document = json.loads(result.output)
    assert document["quiet_points"] >= 1
    assert document["run"]["committed"] > 0


def test_every_statement_is_recorded_with_its_rows(tmp_path: Path) -> None:
    result = isolde(
        "run", "--workload", "bank", "--transactions", "60", "--scale", "accounts=20", "-o", str(tmp_path / "run")
    )
    assert result.status == 0, result.errors
    assert "5 of 5 held" in result.output
    history = decode(read(str(tmp_path / "run" / "history.jsonl")))
    committed = [t for t in history.transactions if t.status is Status.COMMITTED]
    operations = [op for transaction in committed for op in transaction.ops]
    assert operations
    assert all(isinstance(op, Sql) for op in operations)
    contents = [op.content for op in operations if isinstance(op, Sql)]
    queries = [content for content in contents if content["sql"].startswith("SELECT")]
    changes = [content for content in contents if content["sql"].startswith("UPDATE")]
    assert all(isinstance(content["rows"], list) for content in queries)
    assert all(content["rows"] is None and content["count"] >= 0 for content in changes)
    # The private names of the tables stay in the database.
    assert not any("isolde_" in content["sql"] for content in contents)


def test_levels_are_set_by_kind_of_transaction(tmp_path: Path) -> None:
    common = ("run", "--workload", "courseware", "--transactions", "50", "--json", *SMALL["courseware"])
    result = isolde(*common, "--isolation", "deferred", "--level", "enroll=immediate", "-o", str(tmp_path / "one"))
    levels = json.loads(result.output)["run"]["levels"]
    assert levels["enroll"] == "BEGIN IMMEDIATE"
    assert set(levels.values()) == {"BEGIN IMMEDIATE", "BEGIN DEFERRED"}
    wrong = isolde(*common, "--level", "enrol=immediate", "-o", str(tmp_path / "two"))
    assert wrong.status == 2
    assert "--level enrol=immediate: write TRANSACTION=LEVEL, where TRANSACTION is one of" in wrong.errors


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--workload", "tpccc"), "no workload 'tpccc'"),
        (("--workload", "bank", "--scale", "moons=3"), "--scale moons=3 is no size of bank; it has accounts="),
        (("--workload", "bank", "--check", "ser"), "judged by its invariants"),
        (("--workload", "mini", "--scale", "accounts=3"), "--scale and --level are for applications"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(arguments: tuple[str, ...], words: str) -> None:
    result = isolde("run", *arguments)
    assert result.status == 2
    assert words in result.errors
    assert len(result.errors.strip().splitlines()) == 1


def test_a_store_without_sql_cannot_run_them(server: Callable[[str], Running]) -> None:
    result = isolde("run", server("redis").url, "--workload", "bank")
    assert result.status == 2
    assert "redis speaks no SQL" in result.errors
