"""Schedules on real databases give Hermitage's table, and what they show is what the checker finds."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from isolde.databases import Adapter, Database, offer_named, open_database
from isolde.databases.conformance import Subject
from isolde.databases.servers import Running
from isolde.databases.stepper import End, Stepper
from isolde.engines.check import check
from isolde.engines.matrix import SCHEDULES, Cell, Schedule, play, play_all, play_cell
from isolde.findings import Frontier, LevelReason, MatrixCell, MatrixFacts, MatrixLevel, Verdict
from isolde.formats import encode
from isolde.levels import Level
from isolde.report.matrix import render_matrix
from running import isolde

Started = Callable[[str], Running]

_COLUMNS = [
    "G0",
    "G1a",
    "G1b",
    "G1c",
    "OTV",
    "PMP",
    "PMP-write",
    "P4",
    "G-single",
    "G-single-pred",
    "G-single-write",
    "G2-item",
    "G2",
    "G2-two-edges",
]
# ✓ prevented, — seen: Hermitage (Martin Kleppmann, 2014), measured again on PostgreSQL 15 and MariaDB 10.11. MariaDB's switch
# innodb_snapshot_isolation makes snapshot isolation of its REPEATABLE READ.
_POSTGRESQL = {
    "read-uncommitted": "✓✓✓✓✓—————————",
    "read-committed": "✓✓✓✓✓—————————",
    "repeatable-read": "✓✓✓✓✓✓✓✓✓✓✓———",
    "serializable": "✓✓✓✓✓✓✓✓✓✓✓✓✓✓",
}
_MARIADB = {
    "read-uncommitted": "✓—————————————",
    "read-committed": "✓✓✓✓✓—————————",
    "repeatable-read": "✓✓✓✓✓✓——✓✓————",
    "serializable": "✓✓✓✓✓✓✓✓✓✓✓✓✓✓",
}
_SNAPSHOTS = _MARIADB | {"repeatable-read": "✓✓✓✓✓✓✓✓✓✓✓———"}


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("postgresql", "", _POSTGRESQL),
        ("mariadb", "", _MARIADB),
        ("mariadb", "?innodb_snapshot_isolation=ON", _SNAPSHOTS),
    ],
    ids=["postgresql", "mariadb", "mariadb-snapshots"],
)
def test_the_table_is_hermitages(kind: str, options: str, expected: dict[str, str], server: Started) -> None:
    adapter, database = open_database(server(kind).url + options)
    found: dict[str, dict[str, str]] = {}
    for tried in play_all(adapter, database, lambda _: None):
        if tried.schedule.hermitage:
            mark = "✓" if tried.cell is Cell.PREVENTED else "—"
            found.setdefault(tried.offer.name, {})[tried.schedule.hermitage] = mark
        assert tried.cell is not Cell.BROKEN, f"{tried.schedule.anomaly} at {tried.offer.name}"
    database.close()
    assert {name: "".join(row[column] for column in _COLUMNS) for name, row in found.items()} == expected


@pytest.mark.parametrize("isolation", ["deferred", "immediate"])
def test_sqlite_prevents_everything(isolation: str) -> None:
    def cell(schedule: Schedule) -> tuple[str, Cell]:
        # A file each: a writer locks all of it, and others would wait.
        adapter, database = open_database("sqlite:")
        try:
            return schedule.anomaly, play_cell(adapter, database, offer_named(database, isolation), schedule).cell
        finally:
            database.close()

    with ThreadPoolExecutor(8) as pool:
        assert dict(pool.map(cell, SCHEDULES)) == {schedule.anomaly: Cell.PREVENTED for schedule in SCHEDULES}


def _seen(url: str, isolation: str, broken: set[str] | None = None) -> set[str]:
    """What happened as the level allows; ``broken`` is what happened although it claims to forbid that."""
    adapter, database = open_database(url)
    try:
        offer = offer_named(database, isolation)
        cells = [play_cell(adapter, database, offer, schedule) for schedule in SCHEDULES]
    finally:
        database.close()
    assert {cell.schedule.anomaly for cell in cells if cell.cell is Cell.BROKEN} == (broken or set())
    assert all(cell.why for cell in cells if cell.cell is Cell.UNTRIED)
    return {cell.schedule.anomaly for cell in cells if cell.cell is Cell.SEEN}


def test_duckdb_allows_what_snapshots_allow_and_loses_updates_to_deletes() -> None:
    broken = {"lost-update-by-delete", "lost-update-after-delete", "lost-update-by-reinsert"}
    assert _seen("duckdb:", "snapshot", broken) == {
        "write-skew",
        "read-only-anomaly",
        "write-skew-by-predicate",
        "read-only-anomaly-by-predicate",
    }


def test_stores_prevent_everything_in_their_transactions_and_little_without(server: Started) -> None:
    loose = {
        "non-repeatable-read",
        "fractured-read",
        "causality-violation",
        "long-fork",
        "lost-update",
        "lost-update-by-delete",
        "lost-update-after-delete",
        "lost-update-by-reinsert",
        "write-skew",
        "read-only-anomaly",
    }
    assert _seen(server("etcd").url, "serializable") == set()
    assert _seen(server("redis").url, "watch") == set()
    assert _seen(server("redis").url, "unwatched") == loose
    assert _seen(server("etcd").url, "single") == loose


# What the checker may call it: a name for all cycles of a kind, or another anomaly that the same schedule shows, too.
_ALSO = {
    "circular-information-flow": {"g1c"},
    "observed-transaction-vanishes": {"non-monotonic-read", "fractured-read", "non-repeatable-read"},
    "non-monotonic-read": {"fractured-read"},
    "lost-update-by-delete": {"lost-update"},
    "lost-update-after-delete": {"lost-update"},
    "lost-update-by-reinsert": {"lost-update"},
    "lost-insert": {"lost-update"},
    "causality-violation": {"g-single"},
    "long-fork": {"g2-item", "g-single", "g-nonadjacent"},
    "read-only-anomaly": {"g2-item", "write-skew"},
}


@pytest.mark.parametrize(
    ("kind", "isolation"),
    [("mariadb", "read-uncommitted"), ("postgresql", "read-committed"), ("postgresql", "repeatable-read")],
)
def test_what_a_schedule_shows_the_checker_finds(kind: str, isolation: str, server: Started) -> None:
    _, database = open_database(server(kind).url)
    offer = offer_named(database, isolation)
    items = [schedule for schedule in SCHEDULES if not schedule.predicates]
    with ThreadPoolExecutor(6) as pool:
        results = pool.map(lambda schedule: play(database, offer, schedule)[0], items)
        played = dict(zip(items, results, strict=True))
    database.close()
    for schedule, result in played.items():
        assert result.history is not None
        (finding,) = check(encode(result.history), [schedule.ruled_out_from]).findings
        if schedule.seen(result):
            names = {anomaly.name for anomaly in finding.anomalies}
            assert finding.verdict is Verdict.VIOLATED, schedule.anomaly
            assert names & ({schedule.anomaly} | _ALSO.get(schedule.anomaly, set())), (schedule.anomaly, names)


def test_every_schedule_has_its_own_name_and_a_level() -> None:
    names = [schedule.anomaly for schedule in SCHEDULES]
    assert len(set(names)) == len(names)
    assert [s.hermitage for s in SCHEDULES if s.hermitage.startswith("G2")] == ["G2-item", "G2", "G2-two-edges"]


def test_the_program_prints_the_table_and_the_same_as_json() -> None:
    status, text, error = isolde("run", "duckdb:", "--matrix", "--transactions", "40", "--sessions", "3")
    assert (status, error) == (1, ""), "DuckDB loses updates to deletes"
    assert [line.split() for line in text.splitlines() if "lost-update-by-delete" in line] == [
        ["lost-update-by-delete", "SEEN"]
    ]
    assert [line.split() for line in text.splitlines() if "G2-item" in line] in (
        [["write-skew", "G2-item", "seen"]],
        [["write-skew", "G2-item", "seen+"]],
    )
    _, document, _ = isolde("run", "duckdb:", "--matrix", "--transactions", "40", "--sessions", "3", "--json")
    (level,) = json.loads(document)["levels"]
    assert level["anomalies"]["write-skew"]["result"] == "seen"


def test_a_refused_statement_empties_its_cell_alone() -> None:
    """Not the whole table, and the cell says why."""
    adapter, database = open_database("duckdb:")
    (wrong,) = (
        replace(schedule, steps="A:x[UPDATE {t} SET nothing = 1] A:commit")
        for schedule in SCHEDULES
        if schedule.anomaly == "phantom-by-write"
    )
    try:
        tried = play_cell(adapter, database, offer_named(database, "snapshot"), wrong)
    finally:
        database.close()
    assert tried.cell is Cell.UNTRIED
    assert "refused 'UPDATE" in tried.why
    assert "nothing" in tried.why


def test_what_a_random_run_met_against_the_claim_is_marked() -> None:
    cell = MatrixCell("lost-update", "P4", "prevented", "")
    line = Frontier((LevelReason(Level.PREFIX, "search"),), (LevelReason(Level.SNAPSHOT_ISOLATION, "lost-update"),))
    claims = Level.SNAPSHOT_ISOLATION
    broken = MatrixLevel("snapshot", "SNAPSHOT", claims, (cell,), 300, ("lost-update",), line, ("lost-update",))
    text = render_matrix(MatrixFacts("A database", (broken,)))
    assert ["lost-update", "P4", "-!"] in [row.split() for row in text.splitlines()]
    assert "keeps prefix, and breaks snapshot-isolation (lost-update)" in text
    assert "snapshot: it claims snapshot-isolation, and the run met lost-update" in text


@pytest.fixture
def subject(server: Started) -> Subject:
    adapter: Adapter
    database: Database
    adapter, database = open_database(server("postgresql").url)
    return Subject(adapter, database)


def test_a_blocked_step_is_found_and_what_is_asked_meanwhile_waits(subject: Subject) -> None:
    with subject.table() as table:
        stepper = Stepper(lambda: subject.database.connect(table), offer_named(subject.database, "read-committed"))
        assert not stepper.do("A", lambda c: c.write(0, 1)).blocked
        begun = time.monotonic()
        write = stepper.do("B", lambda c: c.write(0, 2))
        assert write.blocked
        assert time.monotonic() - begun < 5
        queued = stepper.do("B", lambda c: c.read(1))
        assert queued.blocked
        assert queued.result is None
        stepper.commit("A")
        assert write.done.is_set()
        stepper.settle()
        assert queued.result == b"0"
        stepper.commit("B")
        assert [session.end for session in stepper.sessions.values()] == [End.COMMITTED, End.COMMITTED]
        stepper.close()
        with subject.connection(table) as connection:
            assert subject.read(connection, 0) == [2]


def test_of_a_deadlock_one_session_is_aborted_and_the_other_goes_on(subject: Subject) -> None:
    with subject.table() as table:
        stepper = Stepper(lambda: subject.database.connect(table), offer_named(subject.database, "read-committed"))
        stepper.do("A", lambda c: c.write(0, 1))
        stepper.do("B", lambda c: c.write(1, 2))
        stepper.do("A", lambda c: c.write(1, 1))
        stepper.do("B", lambda c: c.write(0, 2))
        stepper.commit("A")
        stepper.commit("B")
        stepper.settle()
        ends = sorted(session.end for session in stepper.sessions.values())
        reasons = [session.reason for session in stepper.sessions.values() if session.reason]
        stepper.close()
    assert ends == [End.ABORTED, End.COMMITTED]
    assert "deadlock" in reasons[0]


def test_a_failure_that_is_no_abort_is_not_swallowed(subject: Subject) -> None:
    with subject.table() as table:
        stepper = Stepper(lambda: subject.database.connect(table), subject.strongest)
        stepper.do("A", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            stepper.settle()
        stepper.close()
