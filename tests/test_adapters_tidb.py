"""TiDB behind ``mysql://``, by answers that its documentation describes: no server of it is started here, and none was recorded."""

from __future__ import annotations

from typing import Any

import pytest

from isolde.databases import mariadb
from isolde.databases.contract import Rows
from isolde.errors import Aborted, StatementFailed
from isolde.levels import Level

# After the documentation of the 8.5 branch; not recorded from a server.
ANSWERS = {"SELECT VERSION()": "8.0.11-TiDB-v8.5.0", "SELECT @@tidb_txn_mode": "pessimistic"}


class Answering:
    def __init__(self, **changed: str) -> None:
        self._answers = {**ANSWERS, **{f"SELECT @@{name}": value for name, value in changed.items()}}

    def execute(self, statement: str, parameters: Any = ()) -> Rows:
        del parameters
        if statement not in self._answers:
            raise StatementFailed(statement, "Unknown system variable")
        return Rows([(self._answers[statement],)], 1)


def test_it_names_itself() -> None:
    session: Any = Answering()
    assert mariadb._version(session) == "TiDB v8.5.0 (compatible with MySQL 8.0.11)"


@pytest.mark.parametrize(("mode", "claims"), [("pessimistic", Level.PREFIX), ("optimistic", Level.SNAPSHOT_ISOLATION)])
def test_it_has_two_levels_and_its_mode_says_what_the_stronger_promises(mode: str, claims: Level) -> None:
    session: Any = Answering(tidb_txn_mode=mode)
    assert [offer.name for offer in mariadb._offers(session)] == ["read-committed", "repeatable-read"]
    assert mariadb._offers(session)[-1].claims is claims


def test_a_conflict_at_commit_aborts() -> None:
    error = mariadb._translated(Exception(9007, "Write conflict, txnStartTS=1, … [try again later]"), "COMMIT")
    assert isinstance(error, Aborted)
    assert error.word == "serialization-failure"


def test_a_level_that_it_does_not_have_is_named() -> None:
    text = "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE"
    error = mariadb._translated(Exception(8048, "The isolation level 'SERIALIZABLE' is not supported."), text)
    assert isinstance(error, StatementFailed)
    assert "TiDB has READ COMMITTED and REPEATABLE READ" in error.reason
