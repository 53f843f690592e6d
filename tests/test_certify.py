"""Certificates: planted faults have their names, contradictions their line, and the verdict says by what it was found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from certifying import certified, verdicts
from definition.key_certificates import random_keys
from definition.predicate_histories import random_case
from isolde.campaigns.check import CheckOptions, check_columns
from isolde.engines.certify import SecondOpinion
from isolde.errors import MistakeError
from isolde.findings import Verdict
from isolde.formats import encode, write
from isolde.formats.certificates import PlacedCertificate, write_certificate
from isolde.history import History, Sql, Status, Transaction, parse
from isolde.history.certificate import Certificate, Installed, ObjectId, RowId, Sees, VersionId, VersionSet
from running import isolde

_SCHEMA = ["CREATE TABLE t (c0 INT PRIMARY KEY, c1 INT, c2 INT)"]


def _row(key: int) -> RowId:
    return RowId("t", (key,))


def _op(sql: str, rows: Any = None, count: int | None = None) -> Sql:
    return Sql({"sql": sql, "params": [], "rows": rows} | ({} if count is None else {"count": count}))


def _history(*transactions: tuple[str, list[Sql]], aborted: tuple[str, ...] = ()) -> History:
    return History(
        tuple(
            Transaction(name, name, tuple(ops), Status.ABORTED if name in aborted else Status.COMMITTED)
            for name, ops in transactions
        ),
        extra={"dialect": "postgresql", "schema": _SCHEMA, "rows": {"t": [[1, 5, 0], [2, 50, 0]]}},
    )


def _certificate(
    lines: dict[int, list[VersionId]],
    commits: tuple[str, ...],
    sees: dict[VersionId, int | VersionSet],
    serial: tuple[str, ...] | None = None,
) -> Certificate:
    objects: dict[ObjectId, Installed] = {_row(key): Installed((None, *line)) for key, line in lines.items()}
    reads = {place: VersionSet(Sees(one)) if isinstance(one, int) else one for place, one in sees.items()}
    return Certificate("by hand", objects, commits, reads, serial)


_COUNT = "SELECT count(*) FROM t WHERE c1 BETWEEN 0 AND 10"
# T1 changes rows 1 and 2 and inserts row 3, one operation each; T2 then looks.
_WRITER = (
    "w",
    [
        _op("UPDATE t SET c1 = 7 WHERE c0 = 1", count=1),
        _op("UPDATE t SET c1 = c1 + 1 WHERE c0 = 2", count=1),
        _op("INSERT INTO t VALUES (3, 9, 0)", count=1),
    ],
)
_LINES: dict[int, list[VersionId]] = {1: [("w", 0)], 2: [("w", 1)], 3: [("w", 2)]}
_SEES: dict[VersionId, int | VersionSet] = {("w", 0): 0, ("w", 1): 0, ("w", 2): 0}


def _read(sql: str, rows: Any, first: int | VersionSet = 1) -> tuple[History, Certificate]:
    history = _history(_WRITER, ("r", [_op(sql, rows)]))
    return history, _certificate(_LINES, ("w", "r"), {**_SEES, ("r", 0): first})


def _names(history: History, certificate: Certificate, level: str = "serializable") -> list[str]:
    (finding,) = certified(history, certificate, (level,)).findings
    return [anomaly.name for anomaly in finding.anomalies]


def test_what_is_right_is_valid_by_design() -> None:
    for sql, rows in (
        (_COUNT, [[2]]),
        ("SELECT * FROM t ORDER BY c0", [[1, 7, 0], [2, 51, 0], [3, 9, 0]]),
        ("SELECT * FROM t", [[3, 9, 0], [2, 51, 0], [1, 7, 0]]),
        ("SELECT sum(c1), min(c1), max(c1), count(c2) FROM t", [[67, 7, 51, 3]]),
    ):
        history, certificate = _read(sql, rows)
        assert set(verdicts(history, certificate).values()) <= {True, None}, sql


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (_COUNT, [[1]]),
        ("SELECT * FROM t", [[2, 51, 0], [1, 7, 0]]),
        ("SELECT * FROM t", [[3, 9, 0], [2, 51, 0], [1, 7, 0], [1, 7, 0]]),
        ("SELECT * FROM t WHERE c0 = 1", [[1, 5, 0]]),
        ("SELECT max(c1) FROM t", [[52]]),
        ("SELECT * FROM t ORDER BY c0", [[2, 51, 0], [1, 7, 0], [3, 9, 0]]),
    ],
    ids=["count", "row dropped", "row added", "stale row", "wrong aggregate", "wrong order"],
)
def test_a_wrong_answer_is_a_mismatch(sql: str, rows: Any) -> None:
    history, certificate = _read(sql, rows)
    assert _names(history, certificate, "pl-2") == ["result-set-mismatch"]
    assert verdicts(history, certificate)["read-uncommitted"] is True


def test_a_read_that_skips_a_visible_version_misses_half_of_a_transaction() -> None:
    # The reader sees the writer's row 3 and the row 1 from before it.
    seen = VersionSet(Sees(1), {_row(1): None})
    history, certificate = _read("SELECT * FROM t", [[1, 5, 0], [2, 51, 0], [3, 9, 0]], seen)
    assert _names(history, certificate, "read-atomic") == ["fractured-read"]
    assert verdicts(history, certificate)["pl-2"] is True


def test_a_stale_read_is_a_cycle_where_something_else_shows_that_the_writer_came_first() -> None:
    history = _history(_WRITER, ("r", [_op(_COUNT, [[2]]), _op(_COUNT, [[1]])]))
    certificate = _certificate(_LINES, ("w", "r"), {**_SEES, ("r", 0): 1, ("r", 1): 0})
    assert _names(history, certificate) == ["g-single"]
    assert verdicts(history, certificate)["repeatable-read"] is True


def test_a_swapped_version_order_contradicts_what_was_read() -> None:
    history = _history(
        ("a", [_op("UPDATE t SET c1 = c1 + 1 WHERE c0 = 1", count=1)]),
        ("b", [_op("UPDATE t SET c1 = c1 + 1 WHERE c0 = 1", count=1)]),
    )
    sees: dict[VersionId, int | VersionSet] = {("a", 0): 0, ("b", 0): 1}
    right = _certificate({1: [("a", 0), ("b", 0)]}, ("a", "b"), sees)
    assert verdicts(history, right)["serializable"] is True
    swapped = _certificate({1: [("b", 0), ("a", 0)]}, ("a", "b"), sees)
    assert _names(history, swapped, "pl-2") == ["g1c"]


def test_versions_that_nobody_installed() -> None:
    aborted = _history(
        ("a", [_op("UPDATE t SET c1 = 9 WHERE c0 = 1", count=1)]),
        ("r", [_op("SELECT c1 FROM t WHERE c0 = 1", [[9]])]),
        aborted=("a",),
    )
    told = _certificate({}, ("r",), {("a", 0): 0, ("r", 0): VersionSet(None, {_row(1): ("a", 0)})})
    assert _names(aborted, told, "pl-2") == ["aborted-read"]
    between = _history(
        ("a", [_op("UPDATE t SET c1 = 9 WHERE c0 = 1", count=1), _op("UPDATE t SET c1 = 8 WHERE c0 = 1", count=1)]),
        ("r", [_op("SELECT c1 FROM t WHERE c0 = 1", [[9]])]),
    )
    sees: dict[VersionId, int | VersionSet] = {
        ("a", 0): 0,
        ("a", 1): 0,
        ("r", 0): VersionSet(None, {_row(1): ("a", 0)}),
    }
    assert _names(between, _certificate({1: [("a", 0), ("a", 1)]}, ("a",), sees), "pl-2") == ["intermediate-read"]
    own = _history(
        ("a", [_op("UPDATE t SET c1 = 9 WHERE c0 = 1", count=1), _op("SELECT c1 FROM t WHERE c0 = 1", [[5]])])
    )
    told = _certificate({1: [("a", 0)]}, ("a",), {("a", 0): 0, ("a", 1): VersionSet(None, {_row(1): None})})
    assert _names(own, told, "pl-2") == ["not-my-own-write"]


def test_a_version_that_came_only_later_decides_although_nobody_can_tell_what_it_holds() -> None:
    history = _history(
        ("a", [_op("UPDATE t SET c1 = c1 + 1 WHERE c0 = 1", count=1), _op("UPDATE t SET c1 = 8 WHERE c0 = 1", count=1)])
    )
    told = _certificate(
        {1: [("a", 0), ("a", 1)]}, ("a",), {("a", 0): VersionSet(None, {_row(1): ("a", 1)}), ("a", 1): 0}
    )
    assert verdicts(history, told, ("read-uncommitted",)) == {"read-uncommitted": True}
    assert _names(history, told, "pl-2") == ["future-read"]


def test_one_transaction_before_and_after_another_is_a_cycle_of_overwrites() -> None:
    history = _history(
        ("a", [_op("UPDATE t SET c1 = 9 WHERE c0 = 1", count=1), _op("UPDATE t SET c1 = 8 WHERE c0 = 1", count=1)]),
        ("b", [_op("UPDATE t SET c1 = 7 WHERE c0 = 1", count=1)]),
    )
    certificate = _certificate({1: [("a", 0), ("b", 0), ("a", 1)]}, (), {})
    assert _names(history, certificate, "read-uncommitted") == ["g0"]


def test_updates_computed_from_each_other() -> None:
    history = _history(
        ("a", [_op("UPDATE t SET c1 = c1 + 1 WHERE c0 = 1", count=1)]),
        ("b", [_op("UPDATE t SET c1 = c1 + 1 WHERE c0 = 1", count=1)]),
    )
    sees: dict[VersionId, int | VersionSet] = {
        ("a", 0): VersionSet(None, {_row(1): ("b", 0)}),
        ("b", 0): VersionSet(None, {_row(1): ("a", 0)}),
    }
    assert _names(history, _certificate({1: [("a", 0), ("b", 0)]}, ("a", "b"), sees), "pl-2") == ["g1c"]


def test_orders_that_contradict_the_statements_are_the_databases_fault() -> None:
    insert = _history(("a", [_op("INSERT INTO t VALUES (1, 0, 0)", count=1)]))
    assert _names(insert, _certificate({1: [("a", 0)]}, ("a",), {("a", 0): 0}), "pl-2") == ["result-set-mismatch"]
    unwritten = _history(("a", [_op("UPDATE t SET c1 = 6 WHERE c0 = 1", count=1)]))
    assert _names(unwritten, _certificate({}, ("a",), {("a", 0): 0}), "pl-2") == ["result-set-mismatch"]
    unchanged = _history(("a", [_op("UPDATE t SET c1 = 5 WHERE c0 = 1", count=1)]))
    assert verdicts(unchanged, _certificate({}, ("a",), {("a", 0): 0}))["serializable"] is True


def test_of_the_versions_of_one_transaction_the_last_is_enough() -> None:
    """Its later statements see what it wrote all the same, an INSERT without a version set included."""
    ops = [
        _op("INSERT INTO t VALUES (3, 9, 0)", count=1),
        _op("SELECT count(*) FROM t", [[3]]),
        _op("DELETE FROM t WHERE c1 = 9", count=1),
    ]
    certificate = _certificate({3: [("w", 2)]}, ("w",), {("w", 1): 0, ("w", 2): 0})
    assert _names(_history(("w", ops)), certificate) == []
    wrong = [_op("INSERT INTO t VALUES (3, 9, 0)", count=2), *ops[1:]]
    assert _names(_history(("w", wrong)), certificate) == ["result-set-mismatch"]
    untold = _certificate({}, ("w",), {("w", 1): 0})
    assert _names(_history(("w", ops[:2])), untold) == ["result-set-mismatch"]


def test_every_version_that_is_listed_is_held_against_its_statement() -> None:
    """The first of two updates of one transaction cannot have met a row that was deleted before it, although it is not its last."""
    delete = ("d", [_op("DELETE FROM t WHERE c0 = 1", count=1)])
    updates = (
        "u",
        [_op("UPDATE t SET c2 = 1 WHERE c0 = 1", count=1), _op("UPDATE t SET c2 = 2 WHERE c0 = 1", count=1)],
    )
    sees: dict[VersionId, int | VersionSet] = {("d", 0): 0, ("u", 0): 0, ("u", 1): 0}
    certificate = _certificate({1: [("d", 0), ("u", 0), ("u", 1)]}, ("d", "u"), sees)
    assert _names(_history(delete, updates), certificate, "pl-2") == ["result-set-mismatch"]


def test_a_phantom_is_named_with_the_predicate_and_the_row() -> None:
    history = _history(
        ("a", [_op(_COUNT, [[1]]), _op("INSERT INTO t VALUES (3, 60, 0)", count=1)]),
        ("b", [_op("SELECT count(*) FROM t WHERE c1 >= 20", [[1]]), _op("INSERT INTO t VALUES (4, 7, 0)", count=1)]),
    )
    certificate = _certificate(
        {3: [("a", 1)], 4: [("b", 1)]}, ("a", "b"), {("a", 0): 0, ("a", 1): 0, ("b", 0): 0, ("b", 1): 0}
    )
    (finding,) = certified(history, certificate).findings
    (anomaly,) = finding.anomalies
    assert (anomaly.name, anomaly.adya) == ("phantom", "g2")
    assert [link.sentence for link in anomaly.cycle] == [
        "a counted the rows of t with c1 between 0 and 10; b then inserted t 4 = (4, 7, 0).",
        "b counted the rows of t with c1 >= 20; a then inserted t 3 = (3, 60, 0).",
    ]
    found = verdicts(history, certificate)
    assert found["repeatable-read"] is True
    assert found["snapshot-isolation"] is True


def test_an_operation_without_a_version_set_is_read_by_value() -> None:
    history, certificate = _read("SELECT * FROM t WHERE c0 = 1", [[1, 7, 0]])
    reads = {place: seen for place, seen in certificate.reads.items() if place != ("r", 0)}
    told = Certificate("", certificate.objects, certificate.commits, reads)
    assert verdicts(history, told)["serializable"] is True
    wrong, _ = _read("SELECT * FROM t WHERE c0 = 1", [[1, 99, 0]])
    assert _names(wrong, told, "pl-2") == ["thin-air-read"]


# Serialization orders


def test_a_serial_order_is_replayed_predicates_included() -> None:
    history = _history(_WRITER, ("r", [_op(_COUNT, [[1]])]))
    right = Certificate("", serial=("r", "w"))
    (finding,) = certified(history, right).findings
    assert (finding.verdict, finding.judged_by.oracle) == (Verdict.SATISFIED, "serialization-order")
    wrong = Certificate("", serial=("w", "r"))
    (finding,) = certified(history, wrong).findings
    assert finding.verdict is Verdict.VIOLATED
    assert "it returned (1)" in finding.anomalies[0].explanation


def test_beside_an_order_of_versions_the_replay_is_a_second_opinion() -> None:
    history, certificate = _read(_COUNT, [[2]])
    told = Certificate("", certificate.objects, certificate.commits, certificate.reads, ("r", "w"))
    (finding,) = certified(history, told).findings
    assert (finding.verdict, finding.judged_by.oracle) == (Verdict.SATISFIED, "certificate")
    assert "second opinion" in finding.judged_by.remark


# Keys


def test_what_is_explainable_may_still_be_wrong_by_the_databases_own_order() -> None:
    history = parse("a: a=[w(x,1)] | b: b=[w(x,2)] | c: c=[r(x,1)]")
    told = Certificate(
        "", {"x": Installed((None, ("a", 0), ("b", 0)))}, ("a", "b", "c"), {("c", 0): VersionSet(Sees(2))}
    )
    (finding,) = certified(history, told, ("pl-2",)).findings
    assert finding.anomalies[0].name == "result-set-mismatch"
    assert finding.judged_by.explainable is True


def test_equal_values_are_told_apart_by_the_versions_that_were_read() -> None:
    history = parse("a: a=[w(x,1)] | b: b=[r(x,1) w(x,1)] | c: c=[r(x,1)]")
    lines: dict[ObjectId, Installed] = {"x": Installed((None, ("a", 0), ("b", 1)))}
    reads: dict[VersionId, VersionSet] = {("b", 0): VersionSet(Sees(1)), ("c", 0): VersionSet(Sees(2))}
    assert verdicts(history, Certificate("", lines, ("a", "b"), reads))["serializable"] is True


def test_a_value_that_several_versions_have_is_left_open_unless_the_version_is_told() -> None:
    history = parse("a: a=[w(x,1)] | b: b=[w(x,1)] | c: c=[r(x,1)]")
    lines: dict[ObjectId, Installed] = {"x": Installed((None, ("a", 0), ("b", 0)))}
    assert verdicts(history, Certificate("", lines), ("serializable",)) == {"serializable": None}
    told = Certificate("", lines, ("a", "b"), {("c", 0): VersionSet(Sees(1))})
    assert verdicts(history, told, ("serializable",)) == {"serializable": True}


def test_a_partial_order_goes_to_the_search() -> None:
    history = parse("a: a=[w(x,1)] | b: b=[w(x,2)] | c: c=[w(x,3)] | d: d=[r(x,2) r(y,_)]")
    told = Certificate("", {"x": Installed((("b", 0), ("c", 0)), partial=True)})
    assert verdicts(history, told, ("serializable",))["serializable"] is True


# Contradictions and the command line

_WRONG = {
    "unknown transaction": ({"object": ["t", [1]], "versions": [["nobody", 0]]}, "no transaction"),
    "unknown table": ({"object": ["u", [1]], "versions": []}, "names no row"),
    "unknown operation": ({"object": ["t", [1]], "versions": [["w", 9]]}, "no operation 9"),
    "aborted": ({"object": ["t", [1]], "versions": [["x", 0]]}, "aborted"),
    "missing from serial": ({"serial": ["w"]}, "missing from"),
    "a key": ({"object": "t", "versions": []}, "is a key"),
    "a query": ({"object": ["t", [1]], "versions": [["r", 0]]}, "writes no"),
}


@pytest.mark.parametrize("case", _WRONG)
def test_certificates_that_do_not_fit_are_refused_with_their_line(tmp_path: Path, case: str) -> None:
    line, words = _WRONG[case]
    history = _history(
        _WRITER,
        ("r", [_op(_COUNT, [[1]])]),
        ("x", [_op("UPDATE t SET c1 = 1 WHERE c0 = 1", count=1)]),
        aborted=("x",),
    )
    write(encode(history), str(tmp_path / "h.jsonl"))
    text = json.dumps({"isolde": "certificate", "version": 1}) + "\n\n" + json.dumps(line) + "\n"
    (tmp_path / "h.certificate.jsonl").write_text(text)
    status, _, complaint = isolde("check", str(tmp_path / "h.jsonl"))
    assert status == 2
    assert "h.certificate.jsonl:3: " in complaint
    assert words in complaint


def test_a_sidecar_is_taken_by_itself_and_can_be_left(tmp_path: Path) -> None:
    history, certificate = _read(_COUNT, [[1]])
    path = str(tmp_path / "h.jsonl")
    write(encode(history), path)
    write_certificate(certificate, str(tmp_path / "h.certificate.parquet"))

    def result(*options: str) -> dict[str, Any]:
        output = isolde("check", "--json", *options, path)[1]
        document: dict[str, Any] = json.loads(output)["results"][0]
        return document

    told = result()
    assert (told["verdict"], told["oracle"], told["explainable"]) == ("violated", "certificate", None)
    assert told["anomalies"][0]["name"] == "result-set-mismatch"
    assert result("--no-certificate")["oracle"] == "search"
    named = result("--certificate", str(tmp_path / "h.certificate.parquet"))
    assert named["verdict"] == "violated"


def test_both_asks_the_search_whatever_the_certificate_says(tmp_path: Path) -> None:
    path = str(tmp_path / "h.jsonl")
    write(encode(parse("a: a=[w(x,1)] | b: b=[r(x,1)]")), path)
    write_certificate(Certificate("", {"x": Installed((None, ("a", 0)))}), str(tmp_path / "h.certificate.jsonl"))
    plain = json.loads(isolde("check", "--json", path)[1])["results"][0]
    both = json.loads(isolde("check", "--json", "--both", path)[1])["results"][0]
    assert (plain["verdict"], plain["explainable"]) == ("satisfied", None)
    assert (both["verdict"], both["explainable"]) == ("satisfied", True)
    assert "valid by design" in isolde("check", path)[1]


def test_a_read_of_a_duplicate_write_is_left_open_by_name() -> None:
    history = parse("a: a=[w(x,1)] | b: b=[w(x,1)] | c: c=[r(x,1)]")
    orders: dict[ObjectId, Installed] = {"x": Installed((None, ("b", 0), ("a", 0)))}
    other_read: dict[VersionId, VersionSet] = {("a", 0): VersionSet(Sees(0))}
    for told in (Certificate(objects=orders), Certificate(objects=orders, commits=("a", "b"), reads=other_read)):
        (finding,) = certified(history, told).findings
        assert finding.verdict is Verdict.UNDECIDED
        assert str(finding.reason).startswith("duplicate-write: c read x = 1, which a and b wrote")
    seen = Certificate(objects=orders, commits=("b", "a"), reads={("c", 0): VersionSet(Sees(2))})
    assert verdicts(history, seen, ("serializable",)) == {"serializable": True}


def test_one_write_that_is_installed_twice_is_a_duplicate_write() -> None:
    keys = parse("a: a=[w(x,1)] | b: b=[w(x,2)]"), Certificate(objects={"x": Installed((("a", 0), ("b", 0), ("a", 0)))})
    one = _op("UPDATE t SET c1 = 7 WHERE c0 = 1", count=1)
    rows = _history(("a", [one]), ("b", [one])), _certificate({1: [("a", 0), ("b", 0), ("a", 0)]}, ("a", "b"), {})
    for history, told in (keys, rows):
        (finding,) = certified(history, told, ("read-uncommitted",)).findings
        assert finding.anomalies[0].name == "g0"
        assert "duplicate write, which the database tells that it installed twice" in str(finding.anomalies[0])
    once = Certificate(objects={"x": Installed((("a", 0), ("a", 0), ("b", 0)))})
    assert verdicts(keys[0], once, ("serializable",)) == {"serializable": True}


def test_equal_rows_without_a_version_set_are_a_duplicate_write() -> None:
    same = _op("UPDATE t SET c1 = 7 WHERE c0 = 1", count=1)
    history = _history(("a", [same]), ("b", [same]), ("r", [_op("SELECT * FROM t WHERE c0 = 1", [[1, 7, 0]])]))
    told = _certificate({1: [("a", 0), ("b", 0)]}, ("a", "b", "r"), {("a", 0): 0, ("b", 0): 1})
    (finding,) = certified(history, told).findings
    assert finding.verdict is Verdict.UNDECIDED
    assert str(finding.reason).startswith("duplicate-write: r read (1, 7, 0) in its operation 0, which a and b wrote")


def test_an_order_of_the_graph_is_replayed_as_a_second_opinion() -> None:
    history, certificate = _read(_COUNT, [[2]])
    (finding,) = certified(history, certificate).findings
    assert finding.judged_by.remark.startswith("A second opinion: the transactions replay one after the other")


def test_two_changes_that_matter_only_together_are_told_by_the_second_opinion() -> None:
    # The first query of r sees neither change, its second both. Either change alone leaves the first query's answer as it is.
    both = "SELECT a.c0 FROM t AS a JOIN t AS b ON b.c0 = 2 WHERE a.c0 = 1 AND a.c1 = 6 AND b.c1 = 51"
    point = "SELECT c0 FROM t WHERE c0 = "
    history = _history(
        ("u", [_op("UPDATE t SET c1 = 6 WHERE c0 = 1", count=1), _op("INSERT INTO t VALUES (3, 0, 0)", count=1)]),
        ("v", [_op("UPDATE t SET c1 = 51 WHERE c0 = 2", count=1), _op("INSERT INTO t VALUES (4, 0, 0)", count=1)]),
        ("r", [_op(both, []), _op(f"{point}3", [[3]]), _op(f"{point}4", [[4]])]),
    )
    lines: dict[int, list[VersionId]] = {1: [("u", 0)], 2: [("v", 0)], 3: [("u", 1)], 4: [("v", 1)]}
    sees: dict[VersionId, int | VersionSet] = {("u", 0): 0, ("u", 1): 0, ("v", 0): 1, ("v", 1): 1}
    sees |= {("r", 0): 0, ("r", 1): 2, ("r", 2): 2}
    (finding,) = certified(history, _certificate(lines, ("u", "v", "r"), sees)).findings
    assert finding.verdict is Verdict.SATISFIED
    assert "several together may change what a statement finds" in finding.judged_by.remark


def test_a_graph_without_a_cycle_whose_order_does_not_replay_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "isolde.engines.certify.tables.second_opinion", lambda *_: SecondOpinion("r ran another query", exact=True)
    )
    history, certificate = _read(_COUNT, [[2]])
    with pytest.raises(MistakeError, match="in its order r ran another query"):
        certified(history, certificate)


def test_a_partial_order_of_rows_is_completed() -> None:
    first, second = _op("UPDATE t SET c1 = 6 WHERE c0 = 1", count=1), _op("UPDATE t SET c1 = 7 WHERE c0 = 1", count=1)
    history = _history(("a", [first]), ("b", [second]), ("r", [_op("SELECT c1 FROM t WHERE c0 = 1", [[6]])]))
    sees: dict[VersionId, VersionSet] = {
        (name, 0): VersionSet(Sees(first)) for name, first in (("a", 0), ("b", 0), ("r", 2))
    }
    for listed in ((), (("a", 0),), (("b", 0),)):
        objects: dict[ObjectId, Installed] = {_row(1): Installed((None, *listed), partial=True)}
        told = Certificate("by hand", objects, ("a", "b", "r"), sees)
        # Only the order b, a gives the reader what it read; a then overwrote what it did not see.
        assert verdicts(history, told, ("pl-2", "repeatable-read", "serializable")) == {
            "pl-2": True,
            "repeatable-read": False,
            "serializable": False,
        }
    (finding,) = certified(history, told, ("serializable",)).findings
    assert finding.anomalies[0].name == "lost-update"


@pytest.mark.parametrize("made", [random_case, random_keys])
def test_a_witness_is_violated_alike_by_its_part_of_the_certificate(
    made: Callable[[int], tuple[History, Certificate]],
) -> None:
    smaller = found = 0
    for seed in range(25):
        history, certificate = made(seed)
        options = CheckOptions(("serializable",))
        checked = check_columns(encode(history), options, certificate=PlacedCertificate(certificate))
        witness = checked.witness()
        if witness is None:
            continue
        assert witness.certificate is not None
        (again,) = certified(witness.history, witness.certificate).findings
        assert again.anomalies[0].name == checked.report.findings[0].anomalies[0].name, f"seed {seed}"
        found += 1
        smaller += len(witness.history.transactions) < len(history.transactions)
    assert smaller > found / 3 > 0


def test_a_witness_is_written_with_its_certificate_beside_it(tmp_path: Path) -> None:
    history, witness = str(tmp_path / "h.jsonl"), str(tmp_path / "w.jsonl")
    isolde("generate", "--workload", "predicates", "--transactions", "60", "--inject", "phantom", "-o", history)
    assert isolde("check", history, "--witness", witness)[0] == 1
    assert (tmp_path / "w.certificate.jsonl").is_file()
    answer = json.loads(isolde("check", witness, "--json")[1])
    assert answer["results"][0]["anomalies"][0]["name"] == "phantom"
    assert len(answer["results"][0]["anomalies"][0]["transactions"]) == 2
