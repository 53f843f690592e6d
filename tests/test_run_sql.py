"""``isolde run --workload sql``: random transactions on real databases, every answer judged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import isolde
from isolde.databases.servers import Running
from isolde.findings import FailingPrefix
from isolde.history.schedule import Schedule
from isolde.tx.dialects import Dialect
from isolde.tx.sql import schema, statement
from isolde.workloads.sql import LAST, Sizes, round_of, transactions_of
from running import ran

Started = Callable[[str], Running]


def drawn(number: int, dialect: Dialect) -> Schedule:
    return round_of(5, number, Sizes(), dialect, "serializable")


@pytest.mark.parametrize("dialect", list(Dialect))
def test_rounds_are_of_the_language_and_are_given_by_their_numbers(dialect: Dialect) -> None:
    seen = set()
    for number in range(15):
        made = drawn(number, dialect)
        assert made == drawn(number, dialect)
        assert 3 <= transactions_of(made) <= 10
        assert made.steps[-1].session == LAST
        schema(";\n".join(made.schema), dialect)
        for step in made.steps:
            if step.sql not in ("begin", "commit", "rollback"):
                statement(step.sql, dialect, strict=False)
                seen.add(step.sql.split()[0])
    assert seen == {"SELECT", "INSERT", "UPDATE", "DELETE"}


def test_a_correct_database_passes_and_its_rounds_can_be_judged_again(tmp_path: Path) -> None:
    result = ran(
        tmp_path / "out", "sqlite:", "--workload", "sql", "--sessions", "2", "--transactions", "8", "--seed", "3"
    )
    assert (result.status, result.verdicts) == (0, ["satisfied"]), result.error
    run = result.run
    assert run["workload"] == "sql"
    assert run["rounds"] >= 2
    assert run["committed"] + run["aborted"] >= 8
    header = json.loads((tmp_path / "out" / "run.json").read_text())
    assert {"schema", "rows", "dialect", "store", "settings", "counts", "meta"} <= header.keys()
    assert isolde.audit(tmp_path / "out", "strict-ser").verdict.value == "satisfied"
    assert len(list((tmp_path / "out" / "rounds").glob("*.jsonl"))) == run["rounds"]


def test_duckdb_lets_two_change_one_row_if_their_columns_differ(tmp_path: Path) -> None:
    """Not snapshot isolation, by which the second of two who change a row at once must fail."""
    report = isolde.run("duckdb:", workload="sql", seed=2, until_violation=True, transactions=60, output=tmp_path / "o")
    (finding,) = report.findings
    assert finding.verdict.value == "violated"
    (shown,) = finding.evidence
    assert isinstance(shown, FailingPrefix)
    wrong = finding.reproduce.split()[-1]
    assert isolde.audit(wrong, "si").verdict.value == "violated"
    again = ran(tmp_path / "again", "duckdb:", "--schedule", wrong.replace(".jsonl", ".schedule.json"))
    assert again.status == 0


def test_what_makes_no_sense_beside_it_is_refused(tmp_path: Path) -> None:
    for option in (["--mix", "a=1"], ["--deletes", "0.5"], ["--nemesis", "kill"], ["--certify"], ["--check", "causal"]):
        assert ran(tmp_path / "out", "sqlite:", "--workload", "sql", *option).status == 2
    assert ran(tmp_path / "out", "sqlite:", "--tables", "1").status == 2


LEVELS = [
    ("postgresql", "read-committed"),
    ("postgresql", "repeatable-read"),
    ("postgresql", "serializable"),
    ("mariadb", "read-committed"),
    ("mariadb", "repeatable-read"),
    ("mariadb", "serializable"),
]


@pytest.mark.parametrize(("kind", "isolation"), LEVELS)
def test_servers_answer_as_their_models_do(kind: str, isolation: str, server: Started, tmp_path: Path) -> None:
    """Of MariaDB, NOT NOT is left out by choosing the seed: the next test is about that."""
    result = ran(
        tmp_path / "out",
        server(kind).url,
        *("--isolation", isolation, "--workload", "sql", "--transactions", "25", "--seed", "9"),
    )
    assert result.status in (0, 3), result.error
    (found,) = result.document["results"]
    assert found["level"] == f"{kind}:{isolation}"
    if kind == "postgresql":
        assert found["verdict"] == "satisfied"


def test_a_double_negation_is_found_on_the_real_mariadb(server: Started, tmp_path: Path) -> None:
    """``NOT NOT c0`` is 0 or 1; MariaDB drops both NOTs and compares c0 to itself."""
    schedule = {
        "schema": ["CREATE TABLE t0 (c0 INT)"],
        "rows": {"t0": [[2]]},
        "steps": [["s", "SELECT t0.c0 FROM t0 WHERE (NOT NOT t0.c0) = t0.c0"]],
    }
    file = tmp_path / "negation.json"
    file.write_text(json.dumps(schedule))
    url = server("mariadb").url
    assert ran(tmp_path / "out", url, "--schedule", str(file)).status == 0
    for level in ("ser", "mariadb:repeatable-read"):
        (finding,) = isolde.audit(tmp_path / "out" / "history.jsonl", level).findings
        (shown,) = finding.evidence
        assert isinstance(shown, FailingPrefix)
        assert (shown.kind, shown.observed) == ("semantic", ((2,),))
    # And without knowing it.
    report = isolde.run(url, workload="sql", seed=2, until_violation=True, transactions=60, output=tmp_path / "random")
    (finding,) = report.findings
    assert finding.verdict.value == "violated"
    (shown,) = finding.evidence
    assert isinstance(shown, FailingPrefix)
    assert shown.kind == "semantic"
    assert "NOT NOT" in shown.explanation
