"""``isolde infer``: applications whose weakest levels are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from isolde.campaigns.lawful import Laws
from isolde.cli.main import cli
from isolde.engines.infer.candidates import candidates
from isolde.engines.infer.obligations import Obligations
from isolde.engines.infer.problem import Problem
from isolde.engines.infer.prove import Prover
from isolde.levels.specifications import CANDIDATES, specification
from isolde.semantics.concrete import Store
from isolde.tx.dialects import Dialect
from isolde.workloads.applications import application_named
from isolde.workloads.applications.files import application_in

RC, RR, SER = CANDIDATES
APPLICATIONS = Path(__file__).parent / "applications"


def _infer(*arguments: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(cli, ["infer", *arguments, "--json"], standalone_mode=False)
    assert result.exception is None, result.exception
    return result.return_value, json.loads(result.stdout)


def _prover(name: str, database: str, *invariants: str) -> Prover:
    problem = Problem(application_named(name), invariants, (), database)
    listed = {one.name: one for one in candidates(problem)}
    levels = {level: specification(database, level) for level in CANDIDATES}
    return Prover(Obligations(problem, listed, problem.conditions), levels, problem.transactions)


@pytest.mark.parametrize(("database", "cancel"), [("postgresql", RR), ("mariadb", SER)])
def test_courseware_gets_its_levels(database: str, cancel: str) -> None:
    status, document = _infer("courseware", "--database", database)
    assert status == 0
    assert document["complete"]
    wanted = {
        "enroll": SER, "leave": RC, "register": RC, "deregister": SER, "add_course": RC, "cancel_course": cancel,
    }  # fmt: skip
    assert document["assignments"] == [wanted]
    for result in document["results"]:
        assert (result["level"], result["status"]) == (wanted[result["transaction"]], "proved")
        assert {one["status"] for one in result["weaker"]} <= {"refused"}
        assert all(one["confirmed"] == "explored" and one["schedule"]["steps"] for one in result["weaker"])


def test_smallbank_on_postgresql_needs_a_snapshot_for_two() -> None:
    prover = _prover("smallbank", "postgresql")
    weakest = dict.fromkeys(prover.transactions, RC)
    failed = {(one.transaction, one.invariant) for one in prover.attempt(weakest).failures}
    assert {name for name, _ in failed} == {"amalgamate", "transact_savings"}
    assert prover.attempt(weakest | {"amalgamate": RR, "transact_savings": RR}).proved


def test_enroll_as_printed_breaks_alone() -> None:
    status, document = _infer(str(APPLICATIONS / "figure_12.py"), "--database", "postgresql", "--time", "1")
    enroll = document["results"][0]
    assert status == 1
    assert (enroll["level"], enroll["status"], enroll["serially"]) == (None, "refused", True)
    assert enroll["invariant"] == "I1-student"
    assert enroll["state"]["course"]


@pytest.mark.parametrize("name", ["new_order", "payment", "delivery"])
def test_tpcc_keeps_its_first_four_conditions_alone(name: str) -> None:
    prover = _prover("tpcc", "postgresql", *(f"condition-{number}" for number in range(1, 5)))
    assert prover.serially(name) == []
    assert prover.can_commit(name)


@pytest.mark.parametrize("database", ["postgresql", "mariadb"])
def test_tpcc_keeps_its_first_four_conditions_at_read_committed(database: str) -> None:
    prover = _prover("tpcc", database, *(f"condition-{number}" for number in range(1, 5)))
    assert prover.attempt(dict.fromkeys(("new_order", "payment", "delivery"), RC)).failures == ()


def test_what_is_proved_of_nothing_is_told() -> None:
    assert all(_prover("courseware", "mariadb").can_commit(name) for name in ("enroll", "leave", "deregister"))


def test_questions_are_written_down(tmp_path: Path) -> None:
    _infer("courseware", "--database", "mariadb", "--transaction", "register", "--smtlib", str(tmp_path))
    texts = [path.read_text() for path in tmp_path.glob("*.smt2")]
    assert texts
    assert all("(check-sat)" in text for text in texts)


def test_mistakes_are_told_in_a_line() -> None:
    for arguments in (
        ("courseware", "--database", "oracle"),
        ("courseware", "--database", "mariadb", "--invariant", "I9"),
    ):
        with pytest.raises(Exception, match=r"oracle|I9"):
            CliRunner().invoke(cli, ["infer", *arguments], standalone_mode=False, catch_exceptions=False)


@pytest.mark.parametrize("database", ["postgresql", "mariadb"])
def test_no_state_that_a_database_refuses_shows_that_something_breaks(database: str) -> None:
    status, document = _infer(str(APPLICATIONS / "stock_of_a_shelf.py"), "--database", database)
    assert status == 3
    assert all(result["status"] == "not-proved" for result in document["results"])


@pytest.mark.parametrize(
    ("shelves", "items", "lawful"),
    [([(1, 1)], [(1, 1, 0)], True), ([(1, 0)], [], False), ([(1, 1)], [(1, 2, 0)], False), ([(1, None)], [], False)],
)
def test_a_state_obeys_checks_references_and_what_may_not_be_null(
    shelves: list[tuple[Any, ...]], items: list[tuple[Any, ...]], lawful: bool
) -> None:
    application = application_in(str(APPLICATIONS / "stock_of_a_shelf.py"))
    store = Store(application.schema, Dialect.POSTGRESQL)
    store.load("shelf", shelves)
    store.load("item", items)
    assert Laws(application.schema).kept(store) is lawful


@pytest.mark.parametrize("database", ["postgresql", "mariadb"])
def test_a_check_protects_as_a_key_does(tmp_path: Path, database: str) -> None:
    text = (APPLICATIONS / "withdrawals.py").read_text()
    path = tmp_path / "withdrawals.py"
    path.write_text(text.replace("balance INTEGER NOT NULL", "balance INTEGER NOT NULL CHECK (balance >= 0)"))
    status, document = _infer(str(path), "--database", database)
    assert (status, document["complete"]) == (0, True)
    assert document["assignments"] == [{"look_first": RC, "in_place": RC}]
