"""Certificates written by hand, rule by rule: what is told of part of a history is held against the rest, and no more is concluded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from certifying import certified, verdicts
from isolde.errors import MalformedCertificate
from isolde.history import History, Sql, Status, Transaction, parse
from isolde.history.certificate import Certificate, Installed, ObjectId, RowId, Sees, VersionId, VersionSet

_LEVELS = ("read-uncommitted", "pl-2", "repeatable-read", "snapshot-isolation", "serializable")
_ALL = dict.fromkeys(_LEVELS, True)
_NONE = dict.fromkeys(_LEVELS[1:], False)
_OPEN = dict.fromkeys(_LEVELS[1:], None)


def _row(key: int) -> RowId:
    return RowId("t", (key,))


def _op(sql: str, rows: Any = None, **more: Any) -> Sql:
    return Sql({"sql": sql, "params": [], "rows": rows, **more})


def _history(unknown: tuple[str, ...] = (), dialect: str = "postgresql", **transactions: list[Sql]) -> History:
    return History(
        tuple(
            Transaction(name, name, tuple(ops), Status.UNKNOWN if name in unknown else Status.COMMITTED)
            for name, ops in transactions.items()
        ),
        extra={
            "dialect": dialect,
            "schema": ["CREATE TABLE t (id INT PRIMARY KEY, a INT)"],
            "rows": {"t": [[1, 10], [2, 20]]},
        },
    )


def _told(
    lines: dict[Any, list[VersionId]],
    commits: tuple[str, ...] = (),
    reads: dict[VersionId, VersionSet | int] | None = None,
    partial: str = "",
    serial: tuple[str, ...] | None = None,
) -> Certificate:
    objects: dict[ObjectId, Installed] = {
        _row(key) if isinstance(key, int) else key: Installed((None, *line), partial=str(key) in partial.split())
        for key, line in lines.items()
    }
    sets = {op: VersionSet(Sees(seen)) if isinstance(seen, int) else seen for op, seen in (reads or {}).items()}
    return Certificate("by hand", objects, commits, sets, serial)


def _set(versions: dict[ObjectId, VersionId | None]) -> VersionSet:
    return VersionSet(None, versions)


def _names(history: History, certificate: Certificate) -> list[str]:
    return [one.name for one in certified(history, certificate, ("pl-2",)).findings[0].anomalies]


# Rows


def test_an_update_of_a_primary_key_ends_one_row_and_makes_another() -> None:
    history = _history(
        u=[_op("UPDATE t SET id = 3 WHERE id = 1", count=1)], r=[_op("SELECT * FROM t", [[3, 10], [2, 20]])]
    )
    lines: dict[Any, list[VersionId]] = {1: [("u", 0)], 3: [("u", 0)]}
    told = _told(lines, ("u", "r"), {("u", 0): 0, ("r", 0): 1})
    assert verdicts(history, told, _LEVELS) == _ALL
    # Where it ends cannot be told from a row alone.
    assert verdicts(history, _told(lines, ("u", "r"), {("r", 0): 1}), _LEVELS) == {"read-uncommitted": True, **_OPEN}
    over = _history(
        i=[_op("INSERT INTO t VALUES (3, 0)", count=1)], u=[_op("UPDATE t SET id = 3 WHERE id = 1", count=1)]
    )
    wrong = _told({1: [("u", 0)], 3: [("i", 0), ("u", 0)]}, ("i", "u"), {("i", 0): 0, ("u", 0): 0})
    assert _names(over, wrong) == ["result-set-mismatch"]


def test_versions_that_are_not_listed_come_just_before_the_one_that_is() -> None:
    """A row that was inserted over a live one, although the order names only its deletion; a random history showed it."""
    insert = _op("INSERT INTO t VALUES (3, 0)", count=1)
    history = _history(a=[insert], b=[insert, _op("DELETE FROM t WHERE id = 3", count=1)])
    told = _told({3: [("a", 0), ("b", 1)]}, ("a", "b"), {("a", 0): 0, ("b", 0): 0, ("b", 1): 0})
    assert _names(history, told) == ["result-set-mismatch"]
    other = _told({3: [("b", 1), ("a", 0)]}, ("b", "a"), {("a", 0): 0, ("b", 0): 0, ("b", 1): 0})
    assert verdicts(history, other, _LEVELS) == _ALL


def test_a_statement_without_a_version_set_may_have_written_what_its_transaction_wrote_again() -> None:
    add = _op("UPDATE t SET a = a + 1 WHERE id = 1", count=1)
    history = _history(w=[add, add], r=[_op("SELECT a FROM t WHERE id = 1", [[12]])])
    reads: dict[VersionId, VersionSet | int] = {("r", 0): 1}
    for some in (reads, {**reads, ("w", 1): 0}):
        assert verdicts(history, _told({1: [("w", 1)]}, ("w", "r"), some), _LEVELS) == _ALL


def test_the_row_before_a_version_may_have_come_after_an_earlier_change_of_its_transaction() -> None:
    """MariaDB at read committed: the first change met no row, since another transaction made it match only then."""
    early = _op("UPDATE t SET a = a + 1 WHERE a > 15", count=1)
    history = _history(
        w=[early, _op("UPDATE t SET a = a + 1 WHERE a = 30", count=1)],
        o=[_op("UPDATE t SET a = 30 WHERE id = 1", count=1)],
    )
    lines: dict[Any, list[VersionId]] = {1: [("o", 0), ("w", 1)], 2: [("w", 0)]}
    reads: dict[VersionId, VersionSet | int] = {("o", 0): 0, ("w", 1): 1}
    assert verdicts(history, _told(lines, ("o", "w"), reads), _LEVELS) == _ALL
    # Where the count does not tell, it is open.
    open_ = replace(
        history,
        transactions=(
            replace(history.transactions[0], ops=(_op(str(early.content["sql"])), *history.transactions[0].ops[1:])),
            *history.transactions[1:],
        ),
    )
    assert verdicts(open_, _told(lines, ("o", "w"), reads), _LEVELS) == {"read-uncommitted": True, **_OPEN}


@pytest.mark.parametrize("line", [[("w", 2)], [("w", 0), ("w", 2)]], ids=["the last", "both"])
def test_a_query_without_a_version_set_reads_what_its_transaction_wrote(line: list[VersionId]) -> None:
    first, second = (_op(f"UPDATE t SET a = {value} WHERE id = 1", count=1) for value in (5, 6))
    reads: dict[VersionId, VersionSet | int] = {("w", 0): 0, ("w", 2): 0}
    told = _told({1: line}, ("w", "r"), reads)
    for value, name in ((5, []), (10, ["not-my-own-write"]), (6, ["future-read"]), (7, ["thin-air-read"])):
        mine = _history(w=[first, _op("SELECT * FROM t WHERE id = 1", [[1, value]]), second])
        assert _names(mine, replace(told, commits=("w",))) == name
    other = _history(w=[first, _op("SELECT 1", [[1]]), second], r=[_op("SELECT * FROM t WHERE id = 1", [[1, 5]])])
    assert _names(other, told) == ["intermediate-read"]
    aborted = replace(
        other, transactions=(replace(other.transactions[0], status=Status.ABORTED), other.transactions[1])
    )
    assert _names(aborted, _told({}, ("r",), reads)) == ["aborted-read"]


def test_beside_a_partial_order_a_statement_without_a_version_set_may_have_made_what_is_missing() -> None:
    first, second = (_op(f"UPDATE t SET a = {value} WHERE id = 1", count=1) for value in (11, 12))
    history = _history(v=[first], w=[second], r=[_op("SELECT a FROM t WHERE id = 1", [[12]])])
    for line in ([], [("v", 0)], [("w", 0)]):
        assert verdicts(history, _told({1: list(line)}, ("v", "w", "r"), {("r", 0): 2}, "1"), _LEVELS) == _ALL
    elsewhere, read = _op("UPDATE t SET a = 12 WHERE id = 3", count=0), _op("SELECT a FROM t WHERE id = 1", [[12]])
    none = _history(v=[first], w=[elsewhere], r=[read])
    assert _names(none, _told({1: []}, ("v", "w", "r"), {("r", 0): 2}, "1")) == ["result-set-mismatch"]


def test_an_unknown_transaction_whose_version_somebody_saw_may_have_taken_effect() -> None:
    history = _history(
        unknown=("u",),
        u=[_op("UPDATE t SET a = 5 WHERE id = 1", count=1)],
        r=[_op("SELECT a FROM t WHERE id = 1", [[5]])],
    )
    reads: dict[VersionId, VersionSet | int] = {("u", 0): 0, ("r", 0): _set({_row(1): ("u", 0)})}
    assert verdicts(history, _told({1: []}, ("r",), reads, partial="1"), _LEVELS) == _ALL
    assert _names(history, _told({1: []}, ("r",), reads)) == ["aborted-read"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM t WHERE id = extract(day from now())",
        "SELECT a FROM t WHERE id = now()",
        "WITH x AS (SELECT a FROM t) SELECT a FROM x",
    ],
)
def test_orders_alone_decide_read_uncommitted_where_statements_cannot_be_run(sql: str) -> None:
    update = _op("UPDATE t SET a = 5 WHERE id = 1", count=1)
    history = _history(a=[update, _op(sql, []), update], b=[update])
    assert verdicts(history, _told({1: [("a", 0), ("b", 0)]}), _LEVELS) == {"read-uncommitted": True, **_OPEN}
    assert verdicts(history, _told({1: [("a", 0), ("b", 0), ("a", 2)]}), _LEVELS) == dict.fromkeys(_LEVELS, False)
    serial = _told({}, serial=("a", "b"))
    assert verdicts(history, serial, _LEVELS) == {"read-uncommitted": True, **_OPEN}


def test_a_serial_order_that_does_not_replay_leaves_read_uncommitted_alone() -> None:
    history = _history(
        w=[_op("UPDATE t SET a = 5 WHERE id = 1", count=1)], r=[_op("SELECT a FROM t WHERE id = 1", [[10]])]
    )
    found = verdicts(history, _told({}, serial=("w", "r")), _LEVELS)
    assert (found["read-uncommitted"], found["serializable"]) == (True, False)


@pytest.mark.parametrize(
    ("thing", "version", "words"),
    [
        (RowId("t", ("1",)), ("a", 0), "names no row"),
        (_row(3), ("a", 1), "operation .* writes no"),
    ],
    ids=["a text for a number", "a statement that failed"],
)
def test_what_cannot_be_meant_is_refused(thing: RowId, version: VersionId, words: str) -> None:
    history = _history(
        a=[
            _op("UPDATE t SET a = 5 WHERE id = 1", count=1),
            _op("INSERT INTO t VALUES (3, 5)", error="unique"),
        ]
    )
    certificate = _told({1: [("a", 0)]})
    objects = {**certificate.objects, thing: Installed((None, version))}
    with pytest.raises(MalformedCertificate, match=words):
        certified(history, Certificate("", objects))


# Keys


def test_reads_are_told_apart_beside_partial_orders_and_without_any() -> None:
    history = parse("a: a=[w(x,1) w(y,1)] | c: c=[w(x,1) w(y,2)] | b: b=[r(x,1) r(y,2)]")
    lines: dict[Any, list[VersionId]] = {"x": [("a", 0), ("c", 0)], "y": [("a", 1), ("c", 1)]}
    reads: dict[VersionId, VersionSet | int] = {("b", 0): _set({"x": ("a", 0)})}
    expected = {"read-uncommitted": True, "pl-2": True, **dict.fromkeys(_LEVELS[2:], False)}
    for partial in ("", "x", "x y"):
        assert verdicts(history, _told(lines, (), reads, partial), _LEVELS) == expected
    wrong: dict[VersionId, VersionSet | int] = {("b", 1): _set({"y": ("a", 1)})}
    for some in (lines, {}, {"x": lines["x"]}):
        assert _names(history, _told(some, (), wrong, "x y")) == ["result-set-mismatch"]


def test_what_was_visible_is_held_against_a_value_where_no_order_is_told() -> None:
    history = parse("a: a=[w(x,1) w(y,1)] | c: c=[w(x,2)] | b: b=[r(x,1)]")
    lines: dict[Any, list[VersionId]] = {"y": [("a", 1)]}
    assert verdicts(history, _told(lines, ("a", "c", "b"), {("b", 0): 1}), _LEVELS) == _ALL
    assert _names(history, _told(lines, ("a", "c", "b"), {("b", 0): 0})) == ["result-set-mismatch"]
    # Both could be seen, and a's was: so c's came first.
    both = parse("a: a=[w(x,1) r(y,_)] | c: c=[w(x,2) w(y,1)] | b: b=[r(x,1)]")
    told = _told({"y": [("c", 1)]}, ("a", "c", "b"), {("b", 0): 2})
    assert verdicts(both, told, ("pl-2", "serializable")) == {"pl-2": True, "serializable": False}
    # Read uncommitted judges no reads, and does not know what follows from them.
    circle = parse("a: a=[w(x,1) w(y,1)] | c: c=[w(x,2) w(y,2)] | b: b=[r(y,1)]")
    told = _told({"x": [("a", 0), ("c", 0)]}, ("a", "c", "b"), {("b", 0): 2})
    found = verdicts(circle, told, ("read-uncommitted", "pl-2"))
    assert found == {"read-uncommitted": True, "pl-2": False}


def test_a_key_that_an_unknown_transaction_wrote_may_be_read_where_no_whole_order_denies_it() -> None:
    history = parse("a: a=[w(x,1)]!unknown | b: b=[r(x,1) w(y,1)]")
    read: dict[VersionId, VersionSet | int] = {("b", 0): _set({"x": ("a", 0)})}
    lines: dict[Any, list[VersionId]] = {"y": [("b", 1)]}
    for some in (lines, {**lines, "x": []}):
        assert verdicts(history, _told(some, ("b",), read, "x"), _LEVELS) == _ALL
    assert _names(history, _told({"x": [], "y": [("b", 1)]}, ("b",), read)) == ["aborted-read"]


def test_a_read_of_a_list_is_the_version_that_it_saw() -> None:
    history = parse("a: a=[a(x,1)] | b: b=[a(x,2)] | c: c=[r(x,[1])]")
    lines: dict[Any, list[VersionId]] = {"x": [("a", 0), ("b", 0)]}
    assert verdicts(history, _told(lines, ("a", "b", "c"), {("c", 0): 1}), _LEVELS) == _ALL
    assert _names(history, _told(lines, ("a", "b", "c"), {("c", 0): 2})) == ["result-set-mismatch"]
    assert _names(history, _told(lines, (), {("c", 0): _set({"x": ("b", 0)})})) == ["result-set-mismatch"]
