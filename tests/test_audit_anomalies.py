"""The twelve anomalies of section 8.2 of *Checking Observational Correctness of Database Systems*, and the example of section 2.

Which level allows which is as the paper says and its errata repair it: a dirty write shows over columns of one row, and
"internal inconsistency" is two reads that differ.
"""

from __future__ import annotations

import pytest

from audit_logs import failing, log, txn, verdict
from isolde import History, Sql, Transaction

READ = "SELECT a FROM t WHERE id = ?"
BOTH = "SELECT a, b FROM t WHERE id = ?"
SET = "UPDATE t SET a = ? WHERE id = ?"
SET_BOTH = "UPDATE t SET a = ?, b = ? WHERE id = ?"
ADD = "UPDATE t SET a = a + ? WHERE id = ?"
COUNT = "SELECT COUNT(*) FROM t"
INSERT = "INSERT INTO t VALUES (?, ?, ?)"

NOWHERE: set[str] = set()
READ_COMMITTED = {"rc"}
SNAPSHOTS = {"rc", "si", "strict-si"}
LEVELS = ("ser", "strict-ser", "si", "strict-si", "rc")

ANOMALIES = {
    "dirty update": (
        NOWHERE,
        log(
            txn("t1", (ADD, [5, 1], None, 1), status="aborted", start=1, end=6),
            txn("t2", (ADD, [1, 1], None, 1), start=2, end=4),
            txn("t3", (READ, [1], [[6]]), start=7, end=8),
        ),
    ),
    "duplicate write": (
        NOWHERE,
        log(txn("t1", (ADD, [1, 1], None, 1), start=1, end=2), txn("t2", (READ, [1], [[2]]), start=3, end=4)),
    ),
    "dirty write": (
        NOWHERE,
        log(
            txn("t1", (SET_BOTH, [1, 1, 1], None, 1), start=1, end=4),
            txn("t2", (SET_BOTH, [2, 2, 1], None, 1), start=2, end=5),
            txn("t3", (BOTH, [1], [[1, 2]]), start=6, end=7),
        ),
    ),
    "aborted read": (
        NOWHERE,
        log(
            txn("t1", (SET, [5, 1], None, 1), status="aborted", start=1, end=4),
            txn("t2", (READ, [1], [[5]]), start=2, end=3),
        ),
    ),
    "garbage read": (NOWHERE, log(txn("t1", (READ, [1], [[99]]), start=1, end=2))),
    "intermediate read": (
        NOWHERE,
        log(
            txn("t1", (SET, [5, 1], None, 1), (SET, [6, 1], None, 1), start=1, end=4),
            txn("t2", (READ, [1], [[5]]), start=2, end=5),
        ),
    ),
    "circular information flow": (
        NOWHERE,
        log(
            txn("t1", (SET, [1, 1], None, 1), (READ, [2], [[2]]), start=1, end=4),
            txn("t2", (SET, [2, 2], None, 1), (READ, [1], [[1]]), start=2, end=5),
        ),
    ),
    "phantom": (
        READ_COMMITTED,
        log(
            txn("t1", (INSERT, [3, 0, 0], None, 1), start=2, end=3),
            txn("t2", (COUNT, [], [[2]]), (COUNT, [], [[3]]), start=1, end=4),
        ),
    ),
    "lost update": (
        READ_COMMITTED,
        log(
            txn("t1", (READ, [1], [[0]]), (SET, [1, 1], None, 1), start=1, end=3),
            txn("t2", (READ, [1], [[0]]), (SET, [2, 1], None, 1), start=2, end=4),
            txn("t3", (READ, [1], [[2]]), start=5, end=6),
        ),
    ),
    "read skew": (
        READ_COMMITTED,
        log(
            txn("t1", (SET, [1, 1], None, 1), (SET, [1, 2], None, 1), start=2, end=3),
            txn("t2", (READ, [1], [[0]]), (READ, [2], [[1]]), start=1, end=4),
        ),
    ),
    "internal inconsistency": (
        READ_COMMITTED,
        log(
            txn("t1", (SET, [1, 1], None, 1), start=2, end=3),
            txn("t2", (READ, [1], [[0]]), (READ, [1], [[1]]), start=1, end=4),
        ),
    ),
    "write skew": (
        SNAPSHOTS,
        log(
            txn("t1", (READ, [1], [[0]]), (SET, [1, 2], None, 1), start=1, end=3),
            txn("t2", (READ, [2], [[0]]), (SET, [1, 1], None, 1), start=2, end=4),
        ),
    ),
}


@pytest.mark.parametrize("definition", ["default", "paper"])
@pytest.mark.parametrize("name", ANOMALIES)
def test_an_anomaly_is_allowed_where_the_paper_says(name: str, definition: str) -> None:
    allowed, history = ANOMALIES[name]
    found = {level: verdict(history, level, definition=definition) for level in LEVELS}
    assert found == {level: "satisfied" if level in allowed else "violated" for level in LEVELS}


@pytest.mark.parametrize("name", ANOMALIES)
def test_an_anomaly_of_isolation_is_told_from_a_wrong_answer(name: str) -> None:
    allowed, history = ANOMALIES[name]
    shown = failing(history, "ser")
    assert shown.kind == ("isolation" if allowed else "semantic")
    assert bool(shown.explained_by) == bool(allowed)


def test_an_own_write_that_is_not_seen_is_allowed_nowhere() -> None:
    history = log(txn("t1", (SET, [1, 1], None, 1), (READ, [1], [[0]])))
    assert {verdict(history, level) for level in ("ser", "si", "rc")} == {"violated"}


# The example of section 2

PROCEDURES = (
    "CREATE PROCEDURE deposit(target INT, amount INT)"
    " BEGIN UPDATE accounts SET balance = balance + amount WHERE acc_id = target; END",
    "CREATE PROCEDURE transfer(source INT, target INT, amount INT)"
    " BEGIN CALL deposit(target, amount); UPDATE accounts SET balance = balance - amount WHERE acc_id = source; END",
)


def call(id: str, name: str, *params: int, start: int, end: int) -> Transaction:
    return Transaction(id, id, (Sql({"call": name, "params": list(params), "rows": []}),), start=start, end=end)


def bank(*more: Transaction) -> History:
    return log(
        call("t1", "transfer", 1, 2, 10, start=0, end=1),
        call("t2", "deposit", 2, 100, start=2, end=4),
        *more,
        dialect="mysql",
        schema=("CREATE TABLE accounts (acc_id INT PRIMARY KEY, balance INT)",),
        rows={"accounts": [[1, 100], [2, 300]]},
        procedures=list(PROCEDURES),
    )


THIRD = call("t3", "transfer", 1, 2, 10, start=3, end=5)
BALANCE = "SELECT balance FROM accounts WHERE acc_id = 2"


def test_two_writers_of_a_row_break_strict_snapshot_isolation_if_times_are_instants() -> None:
    history = bank(THIRD)
    shown = failing(history, "strict-si", definition="paper")
    assert (shown.length, shown.transaction) == (3, "t3")
    # With intervals the third may have begun after the second committed.
    assert verdict(history, "strict-si") == "satisfied"


@pytest.mark.parametrize("definition", ["default", "paper"])
def test_a_balance_that_no_state_has_is_wrong_and_the_right_one_is_told(definition: str) -> None:
    wrong = bank(txn("t4", (BALANCE, [], [[420]]), start=6, end=7))
    shown = failing(wrong, "strict-si", definition=definition)
    assert (shown.length, shown.transaction, shown.statement) == (3, "t4", 0)
    assert (shown.expected, shown.observed, shown.kind) == (((410,),), ((420,),), "semantic")
    right = bank(txn("t4", (BALANCE, [], [[410]]), start=6, end=7))
    assert verdict(right, "strict-si", definition=definition) == "satisfied"


def test_what_would_have_been_right_is_explained_by_the_level_itself() -> None:
    during = log(
        txn("t1", (SET, [1, 1], None, 1), start=1, end=4), txn("t2", (READ, [1], [[7]]), session="t1", start=2, end=6)
    )
    # By instants, only the first state is read; by intervals, the second transaction of a session sees the first.
    shown = failing(during, "strict-si", definition="paper")
    assert (shown.expected, "returns 1" in shown.explanation) == (((0,),), False)
    shown = failing(during, "strict-si")
    assert (shown.expected, "returns 0" in shown.explanation) == (((1,),), False)
    # Of a mixture of versions the newest is told first.
    assert failing(during, "rc", definition="paper").expected == ((1,),)


def test_where_no_single_answer_is_wrong_none_is_said_to_be_right() -> None:
    """The session has them the other way round than the clock: whatever the second one reads, something else is wrong."""
    against = log(
        txn("t2", (READ, [1], [[7]]), session="s", start=5, end=6),
        txn("t1", (SET, [1, 1], None, 1), session="s", start=1, end=2),
    )
    shown = failing(against, "strict-ser")
    assert (shown.expected, shown.core) == (None, ("t2",))


def test_who_only_stands_between_two_in_a_session_is_not_to_blame() -> None:
    turned = log(*(txn(f"t{n}", (READ, [1], [[0]]), session="s", start=2 * n, end=2 * n + 1) for n in (3, 2, 1)))
    assert len(failing(turned, "strict-ser").core) == 2


def test_a_beginning_counts_transactions_that_aborted() -> None:
    aborted = txn("t1", (SET, [5, 1], None, 1), status="aborted", start=1, end=2)
    shown = failing(log(aborted, txn("t2", (READ, [1], [[5]]), start=3, end=4)), "ser")
    assert (shown.length, shown.transaction, shown.core) == (2, "t2", ("t2",))


def test_many_unknown_outcomes_are_given_up_in_the_order_of_ends() -> None:
    doubted = [txn(f"u{n}", (SET, [n, 1], None, 1), status="unknown", start=n, end=n + 1) for n in range(12)]
    history = log(*doubted, txn("t", (READ, [1], [[99]]), start=1, end=50))
    assert verdict(history, "rc", definition="paper", budget=200) == "unknown"
