"""Wrong answers of databases: the eleven queries that the paper took from SQLancer's list, and the two bugs of its section 8.5.

The queries are told in our own words; the right answer is accepted and the wrong one is not. MariaDB 10.11 gives the "wrong" one
of two of them by its own design: an unsigned CAST of a negative number in a condition, and NOT NOT of a number.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from audit_logs import failing, log, txn, verdict
from isolde import History, Sql, Status, Transaction
from isolde.engines.audit.log import log_of
from isolde.engines.audit.readings import READINGS
from isolde.engines.audit.replay import Replay
from isolde.engines.audit.search import Allowance, End, Search
from isolde.formats.tables import sql_history
from isolde.levels import Level

ERROR = "error"
SET_A = "UPDATE t SET a = ? WHERE id = 1"
LEVELS = ("ser", "strict-ser", "si", "strict-si", "rc")
INT, TEXT = "CREATE TABLE n (v INT)", "CREATE TABLE w (v TEXT)"
FLOATS = ("CREATE TABLE f (v FLOAT)", "CREATE TABLE g (v FLOAT)")

# What it is about, tables, rows, query, right rows, wrong rows.
CASES: list[tuple[str, tuple[str, ...], dict[str, Any], str, list[Any], Any]] = [
    (
        "null in a list of numbers and nulls is unknown",
        ("CREATE TABLE n (k INT UNIQUE, x INT, y INT, m INT UNIQUE)",),
        {"n": [[None, None, None, None], [0, 1, None, 0], [None, None, None, 1], [2, 1, None, 3]]},
        "SELECT NULL IN (SELECT m FROM n WHERE k)",
        [[None]],
        ERROR,
    ),
    (
        "null in an empty list is false",
        ("CREATE TABLE n (v INT UNIQUE)",),
        {"n": [[None], [0]]},
        "SELECT NULL IN (SELECT v FROM n WHERE (v OR TRUE) IS NULL)",
        [[0]],
        ERROR,
    ),
    ("a fraction is true", (INT,), {"n": [[1]]}, "SELECT * FROM n WHERE IF(FALSE, v, 0.1)", [[1]], []),
    ("a text that is a fraction is true", (TEXT,), {"w": [["0.9"]]}, "SELECT * FROM w WHERE v", [["0.9"]], []),
    (
        "minus one as an unsigned number is not zero",
        ("CREATE TABLE n (v BIGINT UNSIGNED)",),
        {"n": [[None]]},
        "SELECT * FROM n WHERE CAST(COALESCE(v, -1) AS UNSIGNED)",
        [[None]],
        [],
    ),
    ("a fraction and one", (TEXT,), {"w": [["0.5"]]}, "SELECT * FROM w WHERE v AND 1", [["0.5"]], []),
    ("white space before a number", (), {}, r"SELECT '\n1' & 1", [[1]], [[0]]),
    ("not not is a truth value", (INT,), {"n": [[2]]}, "SELECT v FROM n WHERE (NOT NOT v) = v", [], [[2]]),
    ("one and a fraction", ("CREATE TABLE n (v BOOL)",), {"n": [[0]]}, "SELECT * FROM n WHERE 1 AND 0.4", [[0]], []),
    ("minus zero", FLOATS, {"f": [[0]], "g": [[0]]}, "SELECT g.v FROM g, f WHERE f.v = -g.v", [[0]], []),
    (
        "a left join keeps equal rows",
        ("CREATE TABLE u (v INT UNIQUE)", "CREATE TABLE f (v FLOAT)"),
        {"u": [[None], [None]], "f": [[0]]},
        "SELECT f.v FROM f LEFT JOIN u ON 1",
        [[0], [0]],
        [[0]],
    ),
]


def asked(case: tuple[Any, ...], answer: Any) -> History:
    _, schema, rows, query, _, _ = case
    content = {"sql": query, "rows": answer} if answer != ERROR else {"sql": query, "rows": None, "error": "other"}
    return log(Transaction("q", 0, (Sql(content),), start=1, end=2), dialect="mysql", schema=schema, rows=rows)


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
@pytest.mark.parametrize("definition", ["default", "paper"])
def test_the_right_answer_is_accepted_and_the_wrong_one_is_not(case: tuple[Any, ...], definition: str) -> None:
    right, wrong = case[4], case[5]
    for level in LEVELS:
        assert verdict(asked(case, right), level, definition=definition) == "satisfied"
        shown = failing(asked(case, wrong), level, definition=definition)
        assert (shown.kind, shown.length, shown.statement) == ("semantic", 1, 0)


def test_a_table_that_is_made_and_filled_in_one_transaction_is_found_by_conditions() -> None:
    made = txn(
        "t1",
        ("CREATE TABLE fresh (id INT PRIMARY KEY, v INT)",),
        ("INSERT INTO fresh VALUES (1, 5)", [], None, 1),
        start=1,
        end=2,
    )

    def then(rows: list[Any]) -> History:
        found = txn("t2", ("SELECT v FROM fresh WHERE v = 5", [], rows), session="t1", start=3, end=4)
        return log(made, found, rows={})

    for definition in ("default", "paper"):
        for level in LEVELS:
            assert verdict(then([[5]]), level, definition=definition) == "satisfied"
    # At read committed a statement may read the state in which the table was made by nobody yet; but then it fails.
    for level in LEVELS:
        assert failing(then([]), level).kind == "semantic"
    whole = log(made, txn("t2", ("SELECT v FROM fresh", [], [[5]]), session="t1"), rows={})
    assert verdict(whole, "ser") == "satisfied"


def test_a_table_that_is_dropped_or_not_made_yet_is_not_there() -> None:
    missing = Sql({"sql": "SELECT a FROM t WHERE id = 1", "rows": None, "error": "other"})
    history = log(txn("t1", ("DROP TABLE t",)), Transaction("t2", "t1", (missing,)))
    assert verdict(history, "ser") == "satisfied"
    assert failing(log(Transaction("t2", "t1", (missing,))), "ser").kind == "semantic"


def test_two_rows_for_one_primary_key_are_wrong_at_every_level() -> None:
    history = log(txn("t1", ("SELECT id, a FROM t WHERE id = 1", [], [[1, 0], [1, 0]]), start=1, end=2))
    for definition in ("default", "paper"):
        assert {verdict(history, level, definition=definition) for level in LEVELS} == {"violated"}


# Random logs of keys and values


def key_value_log(seed: int) -> History:
    """Fifty transactions, each a read or a write of one of ten keys. Values are repeated, and reads may be old."""
    chance = random.Random(seed)
    values = [[key, chance.randrange(100)] for key in range(10)]
    versions: dict[int, list[int]] = {key: [value] for key, value in values}
    found = []
    for number in range(50):
        key = chance.randrange(10)
        op: dict[str, Any]
        if chance.random() < 0.5:
            op = {"sql": "SELECT v FROM kv WHERE k = ?", "params": [key], "rows": [[chance.choice(versions[key])]]}
        else:
            versions[key].append(chance.randrange(100))
            op = {
                "sql": "UPDATE kv SET v = ? WHERE k = ?",
                "params": [versions[key][-1], key],
                "rows": None,
                "count": 1,
            }
        start, end = 10 * number - chance.randrange(30), 10 * number + 9
        found.append(Transaction(number, number % 4, (Sql(op),), Status.COMMITTED, start, end))
    return log(*found, schema=("CREATE TABLE kv (k INT PRIMARY KEY, v INT)",), rows={"kv": values})


@pytest.mark.parametrize("definition", ["default", "paper"])
def test_hundred_logs_of_repeated_values_are_proved_correct(definition: str) -> None:
    assert {verdict(key_value_log(seed), "rc", definition=definition) for seed in range(100)} == {"satisfied"}


# What may be answered in several ways


def test_ties_of_order_by_and_open_cuts_have_several_right_answers() -> None:
    rows = {"t": [[1, 5, 0], [2, 5, 1], [3, 7, 2]]}

    def answers(sql: str, rows_: list[Any]) -> str:
        return verdict(log(txn("t1", (sql, [], rows_)), rows=rows), "ser")

    ordered = "SELECT id FROM t ORDER BY a"
    assert answers(ordered, [[1], [2], [3]]) == answers(ordered, [[2], [1], [3]]) == "satisfied"
    assert answers(ordered, [[3], [1], [2]]) == "violated"
    cut = "SELECT id FROM t ORDER BY a LIMIT 1"
    assert answers(cut, [[1]]) == answers(cut, [[2]]) == "satisfied"
    assert answers(cut, [[3]]) == "violated"
    anything = "SELECT id FROM t LIMIT 2"
    assert answers(anything, [[3], [1]]) == "satisfied"
    assert answers(anything, [[3]]) == answers(anything, [[3], [3]]) == "violated"
    shifted = "SELECT id FROM t ORDER BY a LIMIT 2 OFFSET 1"
    assert answers(shifted, [[1], [3]]) == answers(shifted, [[2], [3]]) == "satisfied"
    assert answers(shifted, [[3], [1]]) == "violated"


def test_errors_are_answers() -> None:
    def failed(sql: str, error: str) -> str:
        return verdict(
            log(Transaction("t1", 0, (Sql({"sql": sql, "rows": None, "error": error}),)), dialect="mysql"), "ser"
        )

    taken, free = "INSERT INTO t VALUES (1, 0, 0)", "INSERT INTO t VALUES (7, 0, 0)"
    assert failed(taken, "unique") == "satisfied"
    assert failed(free, "unique") == failed(taken, "not-null") == "violated"
    # No definition says when a database may give up.
    assert failed(free, "lock-timeout") == "satisfied"


def test_counts_are_answers_of_rows_found_or_changed() -> None:
    same = txn("t1", ("UPDATE t SET a = 0 WHERE id = 1", [], None, 0))
    assert verdict(log(same, dialect="mysql"), "ser") == "satisfied"
    assert verdict(log(same, dialect="mysql", counts="changed"), "ser") == "satisfied"
    assert verdict(log(same, dialect="mysql", counts="found"), "ser") == "violated"
    assert verdict(log(same), "ser") == "violated"


def test_what_only_the_server_knows_is_refused_by_name() -> None:
    schema = ("CREATE TABLE s (id SERIAL PRIMARY KEY, a INT)",)
    drawn = log(txn("t1", ("INSERT INTO s (a) VALUES (1)", [], None, 1)), schema=schema, rows={})
    clock = log(txn("t1", ("SELECT now()", [], [["2026-01-01 00:00:00"]])))
    assert verdict(drawn, "ser") == verdict(clock, "ser") == "unknown"


def test_unknown_first_values_are_guessed_from_the_log() -> None:
    def then(*values: int) -> str:
        read: list[tuple[object, ...]] = [("SELECT a FROM t WHERE id = 1", [], [[value]]) for value in values]
        add = ("UPDATE t SET a = a + ? WHERE id = 1", [5], None, 1)
        return verdict(log(txn("t1", add, *read), rows={"t": [[1, {"unknown": "x"}, 0]]}), "ser")

    assert then(105) == "satisfied"
    assert then(105, 106) == "violated"


def test_an_unknown_outcome_is_tried_both_ways() -> None:
    doubted = txn("t1", ("UPDATE t SET a = 1 WHERE id = 1", [], None, 1), status="unknown", start=1, end=2)

    def then(value: int) -> History:
        return log(doubted, txn("t2", ("SELECT a FROM t WHERE id = 1", [], [[value]]), start=5, end=6))

    assert verdict(then(1), "strict-ser") == verdict(then(0), "strict-ser") == "satisfied"
    assert verdict(then(2), "strict-ser") == "violated"


@pytest.mark.parametrize("level", ["ser", "si", "rc"])
def test_a_change_without_a_count_may_find_its_rows_later(level: str) -> None:
    """On the first rows it finds none, so that nobody sees it; the one that makes its row stands behind it in the log."""
    found = txn("u", ("UPDATE t SET a = 5 WHERE a = 1", []))
    read = txn("r", ("SELECT a FROM t WHERE id = 1", [], [[5]]))
    assert verdict(log(read, found, txn("w", ("UPDATE t SET a = 1 WHERE id = 1", [], None, 1))), level) == "satisfied"
    body = "IF (SELECT a FROM t WHERE id = 1) = 1 THEN UPDATE t SET a = 5 WHERE id = 1; END IF;"
    called = Transaction("u", "u", (Sql({"call": "raise_it", "params": [], "rows": []}),))
    before = txn("w", ("UPDATE t SET a = 1 WHERE id = 1", [], None, 1))
    procedures = [f"CREATE PROCEDURE raise_it() BEGIN {body} END"]
    assert verdict(log(read, called, before, dialect="mysql", procedures=procedures), level) == "satisfied"


def bank_of_calls(moved: list[Any], shown: list[Any]) -> History:
    """One call moves an account's money to another while a second one looks at both of them."""
    procedures = [
        "CREATE PROCEDURE move() BEGIN UPDATE t SET a = a - 5 WHERE id = 1; UPDATE t SET a = a + 5 WHERE id = 2; END",
        "CREATE PROCEDURE look() BEGIN DECLARE x INT; DECLARE y INT; SELECT a INTO x FROM t WHERE id = 1;"
        " SELECT a INTO y FROM t WHERE id = 2; SELECT x, y; UPDATE t SET b = x + y WHERE id = 1; END",
    ]
    return log(
        Transaction("t1", 1, (Sql({"call": "move", "params": [], "rows": []}),), start=1, end=4),
        Transaction("t2", 2, (Sql({"call": "look", "params": [], "rows": moved}),), start=2, end=5),
        txn("t3", ("SELECT b FROM t WHERE id = 1", [], shown), start=6, end=7),
        dialect="mysql",
        procedures=procedures,
        rows={"t": [[1, 10, 0], [2, 10, 0]]},
    )


def test_at_read_committed_each_statement_of_a_call_reads_a_state_of_its_own() -> None:
    between = bank_of_calls([[10, 15]], [[25]])
    assert [verdict(between, level) for level in ("ser", "si", "rc")] == ["violated", "violated", "satisfied"]
    # The second statement does not read an older state than the first.
    assert verdict(bank_of_calls([[5, 10]], [[15]]), "rc") == "violated"
    assert verdict(bank_of_calls([[10, 15]], [[20]]), "rc") == "violated"
    assert verdict(bank_of_calls([[10, 10]], [[20]]), "si") == "satisfied"


def test_the_rows_of_a_procedures_queries_are_what_a_call_of_mysql_answers() -> None:
    def called(body: str, rows: list[Any] | None, *params: int) -> str:
        content = {"call": "p", "params": list(params), "rows": rows}
        history = log(Transaction("t1", 1, (Sql(content),)), dialect="mysql", procedures=[f"CREATE PROCEDURE p{body}"])
        return verdict(history, "ser")

    one = "(k INT) BEGIN SELECT id, a FROM t WHERE id = k; END"
    assert called(one, [[2, 0]], 2) == called(one, None, 2) == "satisfied"
    assert called(one, [[2, 1]], 2) == called(one, [], 2) == "violated"
    several = "() BEGIN SELECT id FROM t; UPDATE t SET a = 7; SELECT a FROM t; END"
    assert called(several, [[1], [2], [7], [7]]) == called(several, [[1], [2]]) == "satisfied"
    assert called(several, [[1], [2], [7]]) == "violated"
    # What goes out by parameters is told or not, and its places are no arguments.
    out = "(IN k INT, OUT x INT) BEGIN SELECT a INTO x FROM t WHERE id = k; END"
    assert called(out, [[0]], 1) == called(out, [], 1) == "satisfied"
    assert called(out, [[5]], 1) == "violated"
    assert called(out, [[0]], 1, 0) == "unknown"


def test_a_call_that_is_sent_as_text_is_a_call() -> None:
    add = "CREATE PROCEDURE add_to(k INT, v INT) BEGIN UPDATE t SET a = a + v WHERE id = k; END"
    show = "CREATE PROCEDURE show_it(k INT) BEGIN SELECT a FROM t WHERE id = k; END"
    ops: tuple[dict[str, Any], ...] = (
        {"sql": "CALL add_to(?, ?)", "params": [1, 5], "rows": None},
        {"sql": "call ADD_TO(?, 3);", "params": [2], "rows": None},
        {"sql": "CALL show_it(2)", "rows": [[3]]},
    )
    for last, expected in (([[5]], "satisfied"), ([[0]], "violated")):
        every = (*ops, {"sql": "CALL show_it(?)", "params": [1], "rows": last})
        history = log(Transaction("t1", 1, tuple(Sql(one) for one in every)), dialect="mysql", procedures=[add, show])
        assert verdict(history, "ser") == expected


def test_names_that_the_header_does_not_tell_are_refused_if_the_database_knew_them() -> None:
    for sql in ("SELECT xmin FROM t", "SELECT pid FROM pg_stat_activity", "SELECT a FROM t WHERE id = ?"):
        assert verdict(log(txn("t1", (sql, [], [[1]]))), "ser") == "unknown"
        failed = Sql({"sql": sql, "rows": None, "error": "other"})
        assert verdict(log(Transaction("t1", 1, (failed,))), "ser") == "satisfied"


@pytest.mark.parametrize(("rows", "expected"), [([], "satisfied"), ([[""]], "satisfied"), ([[1]], "violated")])
def test_a_function_that_returns_nothing_may_be_told_to_return_nothing(rows: list[Any], expected: str) -> None:
    nothing = "CREATE FUNCTION p() RETURNS VOID LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET a = 1; END $$"
    history = log(Transaction("t1", 1, (Sql({"call": "p", "rows": rows}),)), procedures=[nothing])
    assert verdict(history, "ser") == expected


def test_a_search_that_may_run_nothing_says_nothing() -> None:
    """At read committed, statements are run before the first transaction is placed: they count, too."""
    history = log(txn("t1", (SET_A, [1], None, 1)), txn("t2", ("SELECT a FROM t WHERE id = 1", [], [[1]])))
    entries = (found := log_of(sql_history(history, "log"))).entries
    for runs in range(4):
        search = Search(Replay(found), READINGS[Level.READ_COMMITTED], entries, Allowance(1_000, None, runs))
        assert search.run() is not End.NONE
