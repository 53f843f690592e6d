"""``isolde infer`` on the examples of ACIDifier (POPL 2018), on locks, on robustness and on guarantees of one's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from isolde.cli.main import cli
from isolde.engines.infer.candidates import candidates
from isolde.engines.infer.obligations import Obligations
from isolde.engines.infer.problem import Problem
from isolde.engines.infer.prove import Prover
from isolde.errors import UsageError
from isolde.levels.specifications import CANDIDATES, specification
from isolde.workloads.applications import application_named

RC, RR, SER = CANDIDATES
APPLICATIONS = Path(__file__).parent / "applications"
FIGURE_9, FIGURE_12 = (str(APPLICATIONS / f"figure_{number}.py") for number in (9, 12))


def _run(*arguments: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(cli, [*arguments, "--json"], standalone_mode=False)
    assert result.exception is None, result.exception
    return result.return_value, json.loads(result.stdout)


def _levels(document: dict[str, Any]) -> dict[str, str]:
    return {result["transaction"]: result["level"] for result in document["results"]}


def _failures(name: str, database: str, level: str, *left_out: str) -> set[str]:
    application = application_named(name)
    invariants = [one.name for one in application.invariants if one.name not in left_out]
    problem = Problem(application, invariants, (), database)
    listed = {one.name: one for one in candidates(problem)}
    levels = {level: specification(database, level) for level in CANDIDATES}
    prover = Prover(Obligations(problem, listed, problem.conditions), levels, problem.transactions)
    writers = [name for name, one in problem.transactions.items() if not one.reads_only]
    return {one.transaction for one in prover.attempt(dict.fromkeys(writers, level)).failures}


@pytest.mark.parametrize("database", ["postgresql", "mariadb", "paper-postgresql", "paper-mysql"])
def test_interest_is_added_at_read_committed(database: str) -> None:
    status, document = _run("infer", FIGURE_9, "--database", database)
    assert status == 0
    assert _levels(document) == dict.fromkeys(("add_interest", "deposit", "withdraw"), RC)


@pytest.mark.parametrize("database", ["paper-postgresql", "paper-mysql"])
def test_the_encoding_of_the_paper_proves_its_examples(database: str) -> None:
    status, document = _run("infer", FIGURE_9, "--database", database, "--encoding", "paper")
    assert status == 0
    assert _levels(document) == dict.fromkeys(("add_interest", "deposit", "withdraw"), RC)


@pytest.mark.long
@pytest.mark.parametrize("database", ["paper-postgresql", "paper-mysql"])
def test_the_encoding_of_the_paper_proves_courseware(database: str) -> None:
    status, document = _run("infer", "courseware", "--database", database, "--encoding", "paper")
    assert status == 0
    high = {"enroll": SER, "deregister": SER, "cancel_course": SER}
    assert _levels(document) == high | dict.fromkeys(("leave", "register", "add_course"), RC)
    status, document = _run("infer", FIGURE_12, "--database", database, "--encoding", "paper")
    assert status == 3
    assert None in _levels(document).values()


def test_the_encoding_of_the_paper_names_what_it_cannot_carry() -> None:
    status, document = _run("infer", "tpcc", "--database", "paper-mysql", "--encoding", "paper")
    assert status == 3
    assert "in the paper's encoding" in document["results"][0]["reason"]
    result = CliRunner().invoke(
        cli, ["infer", FIGURE_9, "--database", "postgresql", "--encoding", "paper"], standalone_mode=False
    )
    assert isinstance(result.exception, UsageError)


def test_what_is_looked_at_first_is_not_safe_in_the_encoding_of_the_paper() -> None:
    path = str(APPLICATIONS / "withdrawals.py")
    _, document = _run("infer", path, "--database", "paper-postgresql", "--encoding", "paper")
    assert _levels(document) == {"look_first": RR, "in_place": RC}


_TABLE_1 = [f"condition-{number}" for number in (1, 2, 3, 4, 10)]


@pytest.mark.long
@pytest.mark.parametrize(("database", "level"), [("postgresql", RR), ("mariadb", SER)])
def test_tpcc_without_its_keys_needs_what_table_1_says(database: str, level: str) -> None:
    named = [part for name in _TABLE_1 for part in ("--invariant", name)]
    status, document = _run("infer", "tpcc-nokeys", "--database", database, "--from-populate", *named)
    assert (status, document["complete"]) == (0, True)
    weak = dict.fromkeys(("payment", "order_status", "stock_level"), RC)
    assert document["assignments"] == [{"new_order": level, "delivery": level} | weak]


def test_the_execution_of_figure_3_breaks_condition_6_without_keys() -> None:
    calls = ("new_order(1, 1, 1, 1, 0, [(1, 1, 1)])", "new_order(1, 1, 2, 1, 0, [(1, 1, 2), (1, 1, 3)])")
    sizes = ("warehouses=1", "districts=1", "customers=2", "items=1")
    given = [part for call in calls for part in ("--sessions", call)]
    given += [part for size in sizes for part in ("--scale", size)]
    status, document = _run("explore", "tpcc-nokeys", "--store", "postgresql", "--isolation", RC, *given)
    assert status == 1
    broken = {one["check"]: one for one in document["results"][0]["violations"]}
    assert {"condition-3", "condition-6"} <= set(broken)
    status, _ = _run("explore", "tpcc", "--store", "postgresql", "--isolation", RC, *given)
    assert status == 0


@pytest.mark.parametrize("database", ["postgresql", "mariadb"])
def test_courseware_with_locks_is_safe_at_read_committed(database: str) -> None:
    assert _failures("courseware-locking", database, RC) == set()
    assert _failures("courseware", database, RC) >= {"enroll", "deregister", "cancel_course"}


def test_an_old_snapshot_behind_a_lock_is_worse_than_read_committed() -> None:
    status, document = _run("infer", "courseware-locking", "--database", "postgresql")
    assert (status, document["complete"]) == (0, True)
    assert set(_levels(document).values()) == {RC}
    above = {result["transaction"]: [one["level"] for one in result["refused_above"]] for result in document["results"]}
    assert above["deregister"] == [RR, SER]


@pytest.mark.long
@pytest.mark.parametrize("database", ["postgresql", "mariadb"])
def test_the_bank_with_locks_is_safe_at_read_committed(database: str) -> None:
    # A movement of a number that is taken makes a transfer uneven even alone.
    assert _failures("bank-locking", database, RC, "transfers-are-even") == set()
    assert _failures("bank", database, RC, "transfers-are-even")
    overdrawn = _failures("bank-locking", database, RR, "transfers-are-even")
    assert overdrawn == ({"withdraw_overdraft"} if database == "mariadb" else set())


@pytest.mark.long
def test_tpcc_with_locks_is_safe_at_read_committed() -> None:
    others = [f"condition-{number}" for number in range(5, 13)]
    assert _failures("tpcc-locking", "postgresql", RC, *others) == set()


@pytest.mark.parametrize(("database", "reads_first"), [("postgresql", RR), ("mariadb", SER)])
def test_robustness_asks_for_no_invariant(database: str, reads_first: str) -> None:
    status, document = _run("infer", FIGURE_9, "--database", database, "--robustness")
    assert status == 0
    assert document["subject"]["invariants"] == []
    levels = _levels(document)
    # An update in place is as good as alone; who writes back what was read before is not.
    assert (levels["add_interest"], levels["deposit"]) == (reads_first, RC)
    (interest,) = (one for one in document["results"] if one["transaction"] == "add_interest")
    assert {one["status"] for one in interest["weaker"]} == {"refused"}
    assert all(one["confirmed"] == "explored" and one["schedule"] for one in interest["weaker"])


def test_what_a_collation_takes_for_equal_is_not_the_same_text(tmp_path: Path) -> None:
    path = tmp_path / "names.py"
    path.write_text(_NAMES)
    status, document = _run("infer", str(path), "--database", "postgresql")
    assert (status, document["results"][0]["status"]) == (0, "proved")
    status, document = _run("infer", str(path), "--database", "mariadb")
    assert status != 0
    assert document["results"][0]["level"] is None


_NAMES = """
from isolde.tx.python import Handle, transaction
from isolde.workloads.application import Application, Part, must_hold


@transaction
def admit(tx: Handle, id: int, name: str) -> None:
    if name == "admin":
        return
    tx.execute("INSERT INTO guest (id, name) VALUES (:id, :name)", id=id, name=name)


APPLICATION = Application(
    "names", "", "", "CREATE TABLE guest (id INTEGER PRIMARY KEY, name VARCHAR(20) NOT NULL);",
    (Part(admit, 1, lambda random, scale: {"id": 1, "name": "x"}),), lambda random, scale: iter(()), {"rows": 1},
    (must_hold("no-admin", "SELECT id FROM guest WHERE name = 'admin'", ""),),
)
"""

_RISES = '[[guarantee]]\nname = "{}"\ntable = "account"\nrows = "{}"\nholds = "{}"\n'


def test_guarantees_of_ones_own_are_proposals(tmp_path: Path) -> None:
    path = tmp_path / "guarantees.toml"
    path.write_text(_RISES.format("balances stay", "stay", "new.balance >= 0 OR old.balance < 0"))
    status, document = _run("infer", FIGURE_9, "--database", "postgresql", "--guarantees", str(path))
    assert (status, document["complete"]) == (0, True)


@pytest.mark.parametrize(
    ("rows", "holds", "said"),
    [
        ("stay", "new.balance = old.balance + 1", "leaves the row alone"),
        ("stay", "new.balance <= old.balance + 1", "two commits"),
        ("stay", "new.amount = old.amount", "amount"),
        ("go", "new.balance = old.balance", "'stay' or 'no-new'"),
    ],
)
def test_a_guarantee_that_cannot_be_relied_upon_is_refused(rows: str, holds: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "guarantees.toml"
    path.write_text(_RISES.format("wrong", rows, holds))
    arguments = ["infer", FIGURE_9, "--database", "postgresql", "--guarantees", str(path)]
    result = CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert isinstance(result.exception, UsageError)
    assert said in str(result.exception)
