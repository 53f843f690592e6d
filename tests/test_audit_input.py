"""What a log may hold: procedures with cursors and loops, answers in any allowed order, and what is refused, by its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import isolde
from audit_logs import log, verdict
from isolde import History, Sql, Transaction
from isolde.findings import FailingPrefix, LeftOut

ROWS = {"t": [[1, 5, 0], [2, 5, 1], [3, 7, 2]]}
POSTGRESQL = """CREATE PROCEDURE bump(low INT) LANGUAGE plpgsql AS $$
DECLARE r RECORD; c CURSOR FOR SELECT id, a FROM t WHERE a >= low ORDER BY id;
BEGIN
  FOR r IN c LOOP
    IF r.a > 5 THEN UPDATE t SET b = b + 10 WHERE id = r.id; ELSE UPDATE t SET b = b + 1 WHERE id = r.id; END IF;
  END LOOP;
END $$"""
MYSQL = """CREATE PROCEDURE bump(IN low INT)
BEGIN
  DECLARE done INT DEFAULT 0; DECLARE k INT; DECLARE v INT;
  DECLARE c CURSOR FOR SELECT id, a FROM t WHERE a >= low ORDER BY id;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = 1;
  OPEN c;
  l: LOOP
    FETCH c INTO k, v;
    IF done = 1 THEN LEAVE l; END IF;
    IF v > 5 THEN UPDATE t SET b = b + 10 WHERE id = k; ELSE UPDATE t SET b = b + 1 WHERE id = k; END IF;
  END LOOP;
  CLOSE c;
END"""


@pytest.mark.parametrize(("dialect", "procedure"), [("postgresql", POSTGRESQL), ("mysql", MYSQL)])
def test_a_call_runs_cursors_loops_and_conditional_writes(dialect: str, procedure: str) -> None:
    called = Transaction("t1", 0, (Sql({"call": "bump", "params": [5], "rows": []}),))

    def then(rows: list[list[int]]) -> str:
        read = Transaction("t2", 0, (Sql({"sql": "SELECT id, b FROM t", "rows": rows}),))
        return verdict(log(called, read, dialect=dialect, rows=ROWS, procedures=[procedure]), "ser")

    assert then([[1, 1], [2, 2], [3, 12]]) == "satisfied"
    assert then([[1, 1], [2, 2], [3, 3]]) == "violated"


def asked(sql: str, rows: Any, dialect: str = "postgresql") -> History:
    return log(Transaction("t1", 0, (Sql({"sql": sql, "rows": rows}),)), dialect=dialect, rows=ROWS)


@pytest.mark.parametrize(
    ("sql", "rows", "expected"),
    [
        ("SELECT id FROM t ORDER BY a DESC", [[3], [2], [1]], "satisfied"),
        ("SELECT id FROM t ORDER BY a DESC, id", [[3], [2], [1]], "violated"),
        ("SELECT id FROM t ORDER BY a OFFSET 2", [[3]], "satisfied"),
        ("SELECT DISTINCT a FROM t LIMIT 1", [[7]], "satisfied"),
        ("SELECT a, COUNT(*) FROM t GROUP BY a LIMIT 1", [[5, 2]], "satisfied"),
        ("SELECT a, COUNT(*) FROM t GROUP BY a LIMIT 1", [[7, 2]], "violated"),
        ("SELECT x.id, y.id FROM t x JOIN t y ON x.a = y.a AND x.id < y.id", [[1, 2]], "satisfied"),
        ("SELECT x.id, y.id FROM t x LEFT JOIN t y ON x.a = y.b", [[1, None], [2, None], [3, None]], "satisfied"),
        # What a cut leaves open inside of a query, and what only the server knows, is refused.
        ("SELECT MAX(id) FROM (SELECT id FROM t ORDER BY a LIMIT 1) x", [[2]], "unknown"),
        ("SELECT CURRENT_TIMESTAMP", [["2026-01-01 00:00:00"]], "unknown"),
        ("SELECT random()", [[0]], "unknown"),
        ("SELECT nextval('s')", [[1]], "unknown"),
    ],
)
def test_any_answer_that_the_semantics_allows_or_refused(sql: str, rows: Any, expected: str) -> None:
    assert verdict(asked(sql, rows), "ser") == expected


def test_literals_keep_their_types() -> None:
    for text, value in (("'1' = 1", 0), ("1.0 = 1", 1), ("1 = 1", 1), ("'1' = '1'", 1)):
        assert verdict(asked(f"SELECT {text}", [[value]], "sqlite"), "ser") == "satisfied"
        assert verdict(asked(f"SELECT {text}", [[1 - value]], "sqlite"), "ser") == "violated"


def test_a_table_that_is_dropped_and_made_again_is_empty() -> None:
    texts = ("DROP TABLE t", "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
    changes = [Transaction(name, 0, (Sql({"sql": text}),)) for name, text in zip(("t1", "t2"), texts, strict=True)]
    for rows, expected in (([], "satisfied"), ([[5]], "violated")):
        read = Transaction("t3", 0, (Sql({"sql": "SELECT a FROM t WHERE id = 1", "rows": rows}),))
        assert verdict(log(*changes, read, rows=ROWS), "ser") == expected


def test_a_violation_stands_without_queries_but_not_without_changes() -> None:
    wrong = Sql({"sql": "SELECT a FROM t WHERE id = 1", "rows": [[9]]})
    for text, expected in (
        ("SELECT a FROM t UNION SELECT 1", "violated"),
        # What is refused when it runs.
        ("SELECT now()", "violated"),
        ("UPDATE t SET a = x.b FROM t x", "unknown"),
    ):
        history = log(Transaction("t1", 0, (Sql({"sql": text}), wrong)), rows=ROWS)
        (finding,) = isolde.audit(history, "ser", skip_unsupported=True).findings
        assert finding.verdict.value == expected
        if expected == "violated":
            shown = finding.evidence[0]
            assert isinstance(shown, FailingPrefix)
            # Statement 1 of the log, although 0 was left out.
            assert shown.statement == 1
            assert "Statement 1 of t1" in shown.explanation


def test_a_query_that_is_refused_when_it_runs_can_be_left_out() -> None:
    right = Sql({"sql": "SELECT a FROM t WHERE id = 1", "rows": [[5]]})
    history = log(
        Transaction("t1", 0, (Sql({"sql": "SELECT now()", "rows": [["2026-01-01 00:00:00"]]}), right)), rows=ROWS
    )
    assert verdict(history, "ser") == "unknown"
    (finding,) = isolde.audit(history, "ser", skip_unsupported=True).findings
    assert finding.verdict.value == "satisfied"
    (left,) = finding.evidence
    assert isinstance(left, LeftOut)
    assert "statement 0 of t1" in left.statements[0]


def test_what_is_refused_is_named_with_its_line(tmp_path: Path) -> None:
    header = {
        "isolde": "history",
        "version": 1,
        "dialect": "postgresql",
        "schema": ["CREATE TABLE t (id SERIAL PRIMARY KEY, a INT)"],
    }

    def line(id: str, *texts: str) -> str:
        return json.dumps({"id": id, "session": 0, "ops": [{"sql": text} for text in texts]})

    path = tmp_path / "log.jsonl"

    def reason(bad: str, level: str = "ser", **options: Any) -> str:
        good = line("t1", "INSERT INTO t VALUES (1, 2)")
        path.write_text("\n".join([json.dumps(header), good, "", line("t2", "SELECT a FROM t", bad)]) + "\n")
        (finding,) = isolde.audit(path, level, **options).findings
        return str(finding.evidence[0])

    named = f"{path}:4: statement 1 of t2"
    assert named in reason("SELECT a FROM t UNION SELECT 1")
    assert named in reason("SELECT a FROM t UNION SELECT 1", skip_unsupported=True)
    assert named in reason("SELECT now()")
    assert named in reason("INSERT INTO t (a) VALUES (2)", "postgresql:read-committed")


def test_a_session_that_is_listed_against_the_clock_is_kept_as_it_is_listed() -> None:
    """The order of lines is that of the session. No order keeps it here: t3 must fail to insert 1, and delete nothing whose a is 3."""

    def one(id: str, session: int, start: int, end: int, *ops: dict[str, Any]) -> Transaction:
        return Transaction(id, session, tuple(Sql({"rows": None, **op}) for op in ops), start=start, end=end)

    remove = {"sql": "DELETE FROM t WHERE a = 3", "count": 0}
    insert = {"sql": "INSERT INTO t VALUES (1, 3, 3)", "error": "unique"}
    nothing = {"sql": "UPDATE t SET id = 4 WHERE id = 4", "count": 0}
    history = log(
        one("t3", 1, 36, 44, remove, insert),
        one("t0", 1, 0, 10, {"sql": "SELECT a, b FROM t WHERE id = 1", "rows": [[3, 1]]}, nothing),
        one("t1", 2, 18, 21, {"sql": "UPDATE t SET a = 1 WHERE id = 1", "count": 1}, nothing),
        one("t2", 1, 22, 30, {"sql": "UPDATE t SET a = a + 1 WHERE id = 1", "count": 1}),
        dialect="sqlite",
        rows={"t": [[1, 3, 1], [2, 0, 1]]},
    )
    assert {verdict(history, level) for level in ("ser", "strict-ser", "si", "strict-si")} == {"violated"}
    assert verdict(history, "ser", session_order=False) == "satisfied"


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ({"sql": "SELECT a FROM t", "rows": [10]}, '"rows"'),
        ({"sql": "SELECT a FROM t WHERE id = ?", "params": {"a": 1}}, '"params"'),
        ({"sql": "SELECT a FROM t WHERE id = ?", "params": [[1]]}, '"params"'),
        ({"sql": "UPDATE t SET a = 1", "error": "nonsense"}, "nonsense"),
        ({"sql": "SELECT a FROM t", "rows": [], "start": "x"}, '"start"'),
    ],
)
def test_what_is_wrong_with_an_answer_is_told(content: dict[str, Any], named: str) -> None:
    (finding,) = isolde.audit(log(isolde.Transaction("t1", 1, (isolde.Sql(content),))), "ser").findings
    assert finding.verdict.value == "unknown"
    assert named in str(finding.evidence)
