"""Store models: the known answers of each database, exploration against plain enumeration, schedules."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

import known_schedules
from isolde.engines.explore.on_store import Explored, Outcome, StoreExploration
from isolde.engines.explore.program import Program
from isolde.errors import OutsideFragment, UsageError
from isolde.history.schedule import Failure, Played, Schedule, ScheduleStep
from isolde.levels.stores import STORE_LEVELS, store_level
from isolde.semantics.stores import store_model
from isolde.semantics.stores.play import play
from isolde.tx.dialects import Dialect
from isolde.tx.python import Transaction, transaction
from isolde.tx.render import render
from isolde.tx.sql import schema, statement
from store_programs import ROWS, TABLES, program

PG, MARIADB = "postgresql", "mariadb"
RC, RR, SER = "read committed", "repeatable read", "serializable"
TEST = ("create table test (id int primary key, value int)",)
PARENTS = (
    "create table parent (id int primary key, name int)",
    "create table child (id int primary key, p int, foreign key (p) references parent (id))",
)


def played(
    store: str, level: str, text: str, tables: tuple[str, ...] = TEST, rows: Any = None, **settings: str
) -> list[list[str]]:
    """A schedule (``1: begin`` a line) on a model: what each step came to, for each way that it may go.

    Rows as they are, a count as a number, an error as its word, ``ok`` for an end, ``rolled-back`` for a COMMIT that was none; a step
    that waited has ``…`` and the number of the step after which it returned before that.
    """
    steps = tuple(
        ScheduleStep(name.strip(), sql.strip())
        for name, sql in (line.split(":", 1) for line in text.strip().splitlines())
    )
    given = rows if rows is not None else {"test": ((1, 10), (2, 20))}
    sessions = dict.fromkeys((step.session for step in steps), level)
    ways = play(Schedule(tables, given, sessions, steps), store, settings)
    return [[*map(_shown, enumerate(one.steps)), str(_first_rows(one))] for one in ways.played]


def _shown(numbered: tuple[int, Any]) -> str:
    number, step = numbered
    if step.returned_after is None:
        return "…"
    late = "" if step.returned_after == number else f"…{step.returned_after} "
    if step.error is not None:
        return f"{late}{step.error.value}"
    if step.ended is not None:
        return late + ("ok" if step.ended.value == "committed" else "rolled-back")
    if step.rows is not None:
        return late + str([row[0] if len(row) == 1 else row for row in step.rows])
    return late + ("ok" if step.count is None else str(step.count))


def _first_rows(one: Played) -> Any:
    return list(next(iter(one.rows.values())))


LOST_UPDATE = """
1: begin
2: begin
1: select value from test where id = 1
2: select value from test where id = 1
1: update test set value = 11 where id = 1
2: update test set value = 11 where id = 1
1: commit
2: commit
"""
INCREMENT = LOST_UPDATE.replace("value = 11", "value = value + 1")
WRITE_SKEW = """
1: begin
2: begin
1: select value from test
2: select value from test
1: update test set value = 11 where id = 1
2: update test set value = 21 where id = 2
1: commit
2: commit
"""


@pytest.mark.parametrize(
    ("store", "level", "expected"),
    [
        (PG, RC, ["ok", "ok", "[10]", "[10]", "1", "…6 1", "ok", "ok", "[(1, 12), (2, 20)]"]),
        (
            PG,
            RR,
            ["ok", "ok", "[10]", "[10]", "1", "…6 serialization-failure", "ok", "rolled-back", "[(1, 11), (2, 20)]"],
        ),
        (
            PG,
            SER,
            ["ok", "ok", "[10]", "[10]", "1", "…6 serialization-failure", "ok", "rolled-back", "[(1, 11), (2, 20)]"],
        ),
        (MARIADB, RC, ["ok", "ok", "[10]", "[10]", "1", "…6 1", "ok", "ok", "[(1, 12), (2, 20)]"]),
        (MARIADB, RR, ["ok", "ok", "[10]", "[10]", "1", "…6 1", "ok", "ok", "[(1, 12), (2, 20)]"]),
    ],
)
def test_an_increment_in_place_is_lost_nowhere(store: str, level: str, expected: list[str]) -> None:
    assert played(store, level, INCREMENT) == [expected]


def test_a_lost_update_is_stopped_by_the_first_updater_of_postgresql_and_by_mariadbs_setting() -> None:
    assert played(PG, RC, LOST_UPDATE)[0][-1] == "[(1, 11), (2, 20)]"
    assert played(PG, RR, LOST_UPDATE)[0][5] == "…6 serialization-failure"
    # The row that it found counts, although it holds the value already, as on the connections that a schedule is played on.
    assert played(MARIADB, RR, LOST_UPDATE)[0][5] == "…6 1"
    (on,) = played(MARIADB, RR, LOST_UPDATE, innodb_snapshot_isolation="ON")
    assert on[5] == "…6 serialization-failure"


def test_a_reader_that_writes_at_mariadbs_serializable_is_a_deadlock() -> None:
    (way,) = played(MARIADB, SER, LOST_UPDATE)
    assert way[4:6] == ["…5 1", "deadlock"]


@pytest.mark.parametrize(("store", "level"), [(PG, RC), (PG, RR), (MARIADB, RC), (MARIADB, RR)])
def test_write_skew_happens_below_serializable(store: str, level: str) -> None:
    assert played(store, level, WRITE_SKEW)[0][-1] == "[(1, 11), (2, 21)]"


def test_write_skew_fails_at_postgresqls_commit() -> None:
    assert played(PG, SER, WRITE_SKEW)[0][-2:] == ["serialization-failure", "[(1, 11), (2, 20)]"]


def test_serializable_protects_only_against_serializable_peers() -> None:
    steps = tuple(ScheduleStep(*line.split(": ")) for line in WRITE_SKEW.strip().splitlines())
    mixed = Schedule(TEST, {"test": ((1, 10), (2, 20))}, {"1": SER, "2": RR}, steps)
    (way,) = play(mixed, PG).played
    assert all(step.error is None for step in way.steps)


def test_the_recheck_of_postgresqls_manual_misses_the_row_that_newly_matches() -> None:
    # 13.2.1: hits are 9 and 10; one session adds one to both, the other deletes hits = 10.
    rows = {"website": ((1, 9), (2, 10))}
    (way,) = played(
        PG,
        RC,
        """
        1: begin
        1: update website set hits = hits + 1
        2: delete from website where hits = 10
        1: commit
        """,
        ("create table website (id int primary key, hits int)",),
        rows,
    )
    assert way == ["ok", "2", "…3 0", "ok", "[(1, 10), (2, 11)]"]


def test_a_deleted_row_is_skipped_and_its_locker_goes_on() -> None:
    text = "1: begin\n1: delete from test where id = 1\n2: update test set value = 0\n1: commit"
    assert played(PG, RC, text)[0] == ["ok", "1", "…3 1", "ok", "[(2, 0)]"]


def test_the_snapshot_is_taken_at_the_first_statement() -> None:
    text = "1: begin\n2: update test set value = 0 where id = 1\n1: select value from test where id = 1"
    for store in (PG, MARIADB):
        assert played(store, RR, text)[0][2] == "[0]"


def test_the_read_view_of_innodb_is_made_by_the_first_plain_read() -> None:
    text = """
    1: begin
    1: update test set value = 21 where id = 2
    2: update test set value = 11 where id = 1
    1: select value from test order by id
    """
    assert played(MARIADB, RR, text)[0][3] == "[11, 21]"
    assert played(PG, RR, text)[0][3] == "[10, 21]"


def test_mariadbs_mixed_view() -> None:
    text = """
    1: begin
    1: select value from test order by id
    2: update test set value = value + 1
    1: update test set value = value + 10 where id = 1
    1: select value from test order by id
    """
    assert played(MARIADB, RR, text)[0][3:5] == ["1", "[21, 20]"]
    assert played(MARIADB, RR, text, innodb_snapshot_isolation="on")[0][3] == "serialization-failure"


def test_rows_that_were_only_locked_do_not_fail_a_repeatable_read() -> None:
    text = """
    1: begin
    2: begin
    1: select value from test where id = 2
    2: select value from test where id = 1 for update
    1: update test set value = 0 where id = 1
    2: commit
    """
    assert played(PG, RR, text)[0][4] == "…5 1"


def test_key_share_passes_after_an_update_of_another_column_and_share_fails() -> None:
    text = """
    1: begin
    1: select value from test where id = 2
    2: update test set value = 0 where id = 1
    1: select value from test where id = 1 for key share
    1: select value from test where id = 1 for share
    """
    assert played(PG, RR, text)[0][3:5] == ["[10]", "serialization-failure"]


@pytest.mark.parametrize(
    ("held", "wanted", "waits"),
    [
        (held, wanted, first + second >= 3)
        for first, held in enumerate(("key share", "share", "no key update", "update"))
        for second, wanted in enumerate(("key share", "share", "no key update", "update"))
    ],
)
def test_row_locks_of_postgresql(held: str, wanted: str, waits: bool) -> None:
    text = f"1: begin\n1: select id from test where id = 1 for {held}\n2: select id from test for {wanted} {{}}"
    assert played(PG, RC, text.format(""))[0][2] == ("…" if waits else "[1, 2]")
    assert played(PG, RC, text.format("nowait"))[0][2] == ("lock-timeout" if waits else "[1, 2]")
    assert played(PG, RC, text.format("skip locked"))[0][2] == ("[2]" if waits else "[1, 2]")


def test_compatible_lockers_overtake_waiters_and_so_does_who_upgrades() -> None:
    text = """
    1: begin
    3: begin
    1: select id from test where id = 1 for share
    2: update test set value = 0 where id = 1
    3: select id from test where id = 1 for share
    1: commit
    3: update test set value = 5 where id = 1
    3: commit
    """
    assert played(PG, RC, text)[0] == ["ok", "ok", "[1]", "…7 1", "[1]", "ok", "1", "ok", "[(1, 0), (2, 20)]"]


FOREIGN = {"parent": ((1, 0), (2, 0)), "child": ((1, 1),)}


@pytest.mark.parametrize(
    ("store", "level", "between", "result"),
    [
        (PG, RR, "insert into parent values (3, 0)", "foreign-key"),
        (PG, RC, "insert into parent values (3, 0)", "1"),
        (MARIADB, RR, "insert into parent values (3, 0)", "1"),
        (PG, RR, "update parent set id = 3 where id = 2", "foreign-key"),
    ],
)
def test_a_parent_that_came_after_the_snapshot(store: str, level: str, between: str, result: str) -> None:
    text = f"1: begin\n1: select id from parent where id = 9\n2: {between}\n1: insert into child values (2, 3)"
    assert played(store, level, text, PARENTS, FOREIGN)[0][3] == result


@pytest.mark.parametrize(
    ("between", "result"),
    [("update parent set name = 5 where id = 2", "1"), ("delete from parent where id = 2", "serialization-failure")],
)
def test_a_parent_that_changed_or_went_at_postgresqls_repeatable_read(between: str, result: str) -> None:
    text = f"1: begin\n1: select id from parent where id = 9\n2: {between}\n1: insert into child values (2, 2)"
    assert played(PG, RR, text, PARENTS, FOREIGN)[0][3] == result


def test_a_child_locks_keys_of_its_parent_in_postgresql_and_all_of_it_in_innodb() -> None:
    text = """
    1: begin
    1: insert into child values (2, 2)
    2: update parent set name = 5 where id = 2
    """
    assert played(PG, RC, text, PARENTS, FOREIGN)[0][2] == "1"
    assert played(MARIADB, RC, text, PARENTS, FOREIGN)[0][2] == "…"


@pytest.mark.parametrize("level", [RC, RR])
def test_an_inserter_waits_for_another_of_the_same_key(level: str) -> None:
    text = "1: begin\n2: begin\n1: insert into test values (3, 1)\n2: insert into test values (3, 2)\n1: {}"
    assert played(PG, level, text.format("commit"))[0][3] == "…4 unique"
    assert played(PG, level, text.format("rollback"))[0][3] == "…4 1"
    assert played(MARIADB, level, text.format("commit"))[0][3] == "…4 unique"
    assert played(MARIADB, level, text.format("rollback"))[0][3] == "…4 1"


def test_a_taken_key_at_serializable_depends_on_who_looked() -> None:
    look = "select * from test where id = 3"
    text = "1: begin\n2: begin\n1: {}\n2: {}\n1: insert into test values (3, 1)\n2: insert into test values (3, 2)\n1: commit"
    other = "select * from test where id = 1"
    assert played(PG, SER, text.format(look, look))[0][5] == "…6 serialization-failure"
    assert played(PG, SER, text.format(look, other))[0][5] == "…6 unique"
    assert played(PG, SER, text.format(other, look))[0][5] == "…6 unique"


def test_on_conflict_sees_what_its_snapshot_does_not() -> None:
    text = """
    1: begin
    1: select id from test where id = 1
    2: insert into test values (3, 1)
    1: insert into test values (3, 5) on conflict (id) do {}
    """
    update, nothing = "update set value = test.value + excluded.value", "nothing"
    assert played(PG, RC, text.format(update))[0][3:] == ["1", "[(1, 10), (2, 20), (3, 1)]"]
    assert played(PG, RR, text.format(update))[0][3] == "serialization-failure"
    assert played(PG, RC, text.format(nothing))[0][3] == "0"
    assert played(PG, RR, text.format(nothing))[0][3] == "serialization-failure"
    assert played(PG, RR, text.replace("(3, 5)", "(1, 5)").format(nothing))[0][3] == "0"


READ_ONLY_ANOMALY = """
1: begin
1: select value from test order by id
2: begin
2: update test set value = 30 where id = 2
2: commit
3: begin transaction isolation level serializable read only
3: select value from test order by id
3: commit
1: update test set value = 0 where id = 1
1: commit
"""


def test_the_read_only_anomaly_is_stopped_at_serializable() -> None:
    # The reader's snapshot shows the second transaction and not the first: T3 committed before the snapshot.
    (way,) = played(PG, SER, READ_ONLY_ANOMALY)
    assert way[8] == "serialization-failure" or way[9] == "serialization-failure"
    (allowed,) = played(PG, RR, READ_ONLY_ANOMALY)
    assert "serialization-failure" not in allowed


def test_without_the_reader_the_same_two_transactions_are_serializable() -> None:
    text = "\n".join(line for line in READ_ONLY_ANOMALY.splitlines() if not line.startswith("3:"))
    assert "serialization-failure" not in played(PG, SER, text)[0]


DEADLOCK = """
1: begin
2: begin
1: update test set value = 11 where id = 1
2: update test set value = 21 where id = 2
1: update test set value = 12 where id = 2
2: update test set value = 22 where id = 1
1: commit
2: commit
"""


def test_any_waiter_of_postgresql_may_die_in_a_deadlock_and_the_transaction_stays_failed() -> None:
    ways = played(PG, RC, DEADLOCK)
    assert sorted(way[4:8] for way in ways) == [
        ["…5 1", "deadlock", "ok", "rolled-back"],
        ["…5 deadlock", "1", "rolled-back", "ok"],
    ]


def test_on_a_tie_innodb_rolls_back_who_closed_the_circle() -> None:
    (way,) = played(MARIADB, RR, DEADLOCK)
    assert way[4:6] == ["…5 1", "deadlock"]


def test_the_lighter_transaction_of_innodb_loses() -> None:
    heavy = DEADLOCK.replace(
        "2: update test set value = 21", "2: insert into test values (7, 7)\n2: update test set value = 21"
    )
    heavy = heavy.replace("(7, 7)", "(7, 7), (8, 8), (9, 9)")
    (way,) = played(MARIADB, RR, heavy)
    assert way[5] == "…6 deadlock"


def test_a_failed_transaction_of_postgresql_accepts_only_its_end() -> None:
    text = "1: begin\n1: insert into test values (1, 1)\n1: select value from test\n1: commit"
    assert played(PG, RC, text)[0][:4] == ["ok", "unique", "transaction-failed", "rolled-back"]
    assert played(MARIADB, RR, text)[0][:4] == ["ok", "unique", "[10, 20]", "ok"]


def test_locked_gaps_of_innodb_let_both_look_and_neither_insert() -> None:
    text = """
    1: begin
    2: begin
    1: select id from test where id = 5 for update
    2: select id from test where id = 5 for update
    1: insert into test values (5, 1)
    2: insert into test values (5, 2)
    """
    assert played(MARIADB, RR, text)[0][4:6] == ["…5 1", "deadlock"]
    assert played(MARIADB, RC, text)[0][4:6] == ["1", "…"]


def test_three_inserters_of_one_key_and_a_rollback_are_a_deadlock_of_innodb() -> None:
    text = """
    1: begin
    2: begin
    3: begin
    1: insert into test values (3, 1)
    2: insert into test values (3, 2)
    3: insert into test values (3, 3)
    1: rollback
    """
    for way in played(MARIADB, RR, text):
        assert sorted((way[4], way[5])) == ["…6 1", "…6 deadlock"]


def test_who_waited_to_insert_does_not_come_beside_who_came_meanwhile() -> None:
    # 3 waits because 2 has locked a record that is gone; 2 puts its own there.
    text = """
    1: begin
    1: insert into test values (4, 1)
    2: begin
    2: delete from test where value = 99
    1: rollback
    3: begin
    3: insert into test values (4, 3)
    2: insert into test values (4, 2)
    2: insert into test values (4, 5)
    2: commit
    3: commit
    """
    (way,) = played(MARIADB, RC, text)
    assert way[7:] == ["1", "unique", "ok", "ok", "[(1, 10), (2, 20), (4, 2)]"]


def test_who_waited_for_a_deleted_row_sees_the_one_that_came_under_its_key() -> None:
    text = """
    2: begin
    2: delete from test where id = 2
    1: begin
    1: insert into test values (2, 7) on duplicate key update value = value
    3: begin
    3: delete from test where id = 2
    2: commit
    1: commit
    3: commit
    """
    (way,) = played(MARIADB, SER, text)
    assert way[3] == "…6 1"
    assert way[5] == "…7 1"
    assert way[-1] == "[(1, 10)]"


def test_who_asks_for_rows_locks_the_gap_against_an_inserter_that_waits_for_it() -> None:
    text = """
    1: begin
    1: select id from b where a = 2
    2: begin
    2: select id from b where a = 2
    1: insert into b values (4, 2)
    3: begin
    3: select id from b where a = 2
    2: rollback
    3: rollback
    1: commit
    """
    tables = ("create table b (id int primary key, a int not null, key (a))",)
    (way,) = played(MARIADB, SER, text, tables, {"b": ((1, 1),)})
    assert way[4] == "…8 1"


def test_the_semi_consistent_read_is_for_updates_alone() -> None:
    text = "1: begin\n1: update test set value = 11 where id = 1\n2: {} value = 20 {}"
    assert played(MARIADB, RC, text.format("update test set value = 0 where", ""))[0][2] == "1"
    assert played(MARIADB, RC, text.format("delete from test where", ""))[0][2] == "…"
    assert played(MARIADB, RC, text.format("select id from test where", "for update"))[0][2] == "…"
    assert played(MARIADB, RR, text.format("update test set value = 0 where", ""))[0][2] == "…"


def test_plain_reads_of_innodbs_serializable_lock() -> None:
    text = "1: begin\n1: select value from test where id = 1\n2: update test set value = 0 where id = 1"
    assert played(MARIADB, SER, text)[0][2] == "…"
    assert played(PG, SER, text)[0][2] == "1"


def test_dirty_reads_are_innodbs_alone() -> None:
    text = "1: begin\n1: update test set value = 11 where id = 1\n2: begin\n2: select value from test where id = 1"
    assert played(MARIADB, "read uncommitted", text)[0][3] == "[11]"
    assert played(PG, "read uncommitted", text)[0][3] == "[10]"


def test_an_update_can_wait_and_deadlock_inside_of_one_statement() -> None:
    text = """
    1: begin
    2: begin
    2: update test set value = 0 where id = 2
    1: update test set value = value + 1
    2: update test set value = 0 where id = 1
    """
    words = {tuple(way[3:5]) for way in played(PG, RC, text)}
    assert words == {("…4 2", "deadlock"), ("…4 deadlock", "1")}


SQLITE_RACE = """
1: begin{}
2: begin{}
1: select value from test where id = 1
2: select value from test where id = 1
1: update test set value = 11 where id = 1
2: update test set value = 12 where id = 1
1: commit
2: update test set value = 12 where id = 1
2: commit
"""


def test_a_reader_of_sqlite_that_wants_to_write_is_busy_at_once() -> None:
    wal = played("sqlite", "deferred", SQLITE_RACE.replace("{}", ""), journal_mode="wal")[0]
    assert wal[4:9] == ["1", "lock-timeout", "ok", "lock-timeout", "ok"]
    journal = played("sqlite", "deferred", SQLITE_RACE.replace("{}", ""), journal_mode="delete")[0]
    assert journal[4:7] == ["1", "lock-timeout", "lock-timeout"]


def test_begin_immediate_waits_for_the_writer() -> None:
    text = "1: begin\n2: begin\n1: update test set value = 11 where id = 1\n1: commit\n2: select value from test where id = 1"
    way = played("sqlite", "immediate", text)[0]
    assert way[1] == "…3 ok"
    assert way[4] == "[11]"


def test_every_level_has_its_source_and_every_store_its_default() -> None:
    assert all(row.source and row.aborts for row in STORE_LEVELS)
    assert len({(row.store, row.level, row.when) for row in STORE_LEVELS}) == len(STORE_LEVELS)
    for store in ("postgresql", "mariadb", "mysql", "sqlite"):
        assert store_level(store).store == store
    with pytest.raises(UsageError, match="no isolation level 'chaos'"):
        store_level("postgresql", "chaos")
    with pytest.raises(UsageError, match="has no setting 'fsync'"):
        store_level("mariadb", "", {"fsync": "off"})


# What servers were seen to answer

# A server that remembers pages fails here where exact predicates pass, and a LIMIT that stops early reads less than the model.
_APPROXIMATED = {("semi-consistent-update", PG, SER), ("skip-locked", PG, SER)}


def _compared(answer: dict[str, Any]) -> str:
    """An answer without what only servers have (SQLSTATE), and rows in an order of their own."""
    answer = json.loads(json.dumps(answer))
    for step in answer["steps"]:
        step.pop("sqlstate", None)
        step["rows"] = sorted(step["rows"], key=repr) if step["rows"] else step["rows"]
    return json.dumps(answer, sort_keys=True)


@pytest.mark.parametrize("name", known_schedules.names())
def test_the_models_answer_as_the_servers_did(name: str) -> None:
    schedule = known_schedules.schedule_named(name)
    for store in known_schedules.stores_of(name):
        answers = known_schedules.answers_of(name, store)
        for level in known_schedules.levels_of(store):
            if (name, store, level.replace("-", " ")) in _APPROXIMATED:
                continue
            settings = {"innodb_snapshot_isolation": "on"} if level == known_schedules.SNAPSHOTS else {}
            ways = play(known_schedules.at_level(schedule, level), store, settings)
            allowed = {_compared(known_schedules.outcome(one)) for one in ways.played}
            assert {_compared(answer) for answer in answers[level]} <= allowed, (store, level)


# Exploration


def _bodies(random: Random, store: str, level: str) -> Program:
    """A random program of the agreement tests as functions; they branch on what they read."""
    mysql = store != PG
    sessions = []
    for transactions in program(random, [level], mysql=mysql)[:2]:
        calls = []
        for _, acts in transactions[:1]:
            calls.append(_body(tuple(acts[:3]), store))
        sessions.append(calls)
    tables = ";\n".join(TABLES)
    if mysql:
        tables = tables.replace(
            "p int references t (id), w int not null", "p int, w int not null, foreign key (p) references t (id)"
        )
    return Program(sessions=sessions, tables=tables, rows=ROWS)


def _body(acts: tuple[Any, ...], store: str) -> Transaction:
    def run(tx: Any) -> None:
        last: Any = None
        for act in acts:
            if act == "rollback":
                tx.abort("as told")
            sql = act if isinstance(act, str) else act[1] if isinstance(last, int) and last >= act[0] else act[2]
            answer = tx.run(sql, {})
            if answer.rows:
                last = answer.rows[0][-1]

    return transaction(dialect=Dialect.POSTGRESQL if store == PG else Dialect.MYSQL)(run)


def enumerated(exploration: StoreExploration) -> tuple[set[Outcome], int]:
    """The definition: every interleaving by itself, no state met twice."""
    outcomes: set[Outcome] = set()
    ways = 0

    def walk(state: Any, places: Any) -> None:
        nonlocal ways
        steps = exploration.steps(state, places)
        if not steps:
            ways += 1
            outcomes.add(exploration.outcome(state, places))
        for after, there, _ in steps:
            walk(after, there)

    walk(*exploration.start())
    return outcomes, ways


@pytest.mark.parametrize(
    ("store", "level"), [(PG, RC), (PG, RR), (PG, SER), (MARIADB, RC), (MARIADB, RR), (MARIADB, SER)]
)
def test_exploration_finds_the_outcomes_of_all_interleavings(store: str, level: str) -> None:
    for seed in range(60):
        random = Random(f"{store} {level} {seed}")
        exploration = StoreExploration(_bodies(random, store, level), store, level)
        found: Explored = exploration.explore()
        outcomes, ways = enumerated(exploration)
        assert found.complete
        assert set(found.outcomes) == outcomes
        assert found.schedules == ways


@transaction
def skewed(tx: Any, account: int, amount: int) -> None:
    if tx.value("select sum(value) from test") >= amount:
        tx.execute("update test set value = value - :amount where id = :account", amount=amount, account=account)


def _skew(store: str, level: str, **options: Any) -> Explored:
    made = Program(
        sessions=[[(skewed, 1, 25)], [(skewed, 2, 25)]],
        tables=TEST,
        rows={"test": [(1, 10), (2, 20)]},
        invariant=lambda state: sum(row.value for row in state["test"]) >= 0,
    )
    return StoreExploration(made, store, level, **options).explore(invariant_after_each_commit=True)


def test_an_invariant_that_write_skew_breaks_holds_at_serializable_alone() -> None:
    assert set(_skew(PG, RR).violations) == {"invariant"}
    at_serializable = _skew(PG, SER)
    assert not at_serializable.violations
    assert at_serializable.aborted["serialization-failure"] > 0


def test_the_schedule_of_a_violation_is_the_shortest() -> None:
    violation = _skew(PG, RC).violations["invariant"]
    assert len(violation.schedule) == 6
    assert [step.sql for step in violation.schedule][-1] == "commit"


def test_a_transaction_that_retries_commits_in_the_end() -> None:
    again = _skew(PG, SER, retries=1)
    ends = {session[-1][1] for outcome in again.outcomes for session in outcome.transactions}
    assert ends == {"committed"}


def test_a_budget_ends_an_exploration_that_is_not_complete() -> None:
    made = Program(sessions=[[(skewed, 1, 25)], [(skewed, 2, 25)]], tables=TEST, rows={"test": [(1, 10), (2, 20)]})
    found = StoreExploration(made, PG, RC).explore(states_max=5)
    assert not found.complete
    assert found.schedules == 0


def test_the_same_states_are_reached_on_different_ways() -> None:
    tables = schema(TEST[0], Dialect.POSTGRESQL)
    model = store_model(PG, tables, {"test": [(1, 10), (2, 20)]})

    def after(*sessions: str) -> Any:
        state = model.initial()
        for name in sessions:
            (begun,) = model.begin(state, name, RC)
            (step,) = model.submit(begun.state, name, f"update test set value = 0 where id = {name}")
            state = step.state
        return state

    assert after("1", "2").key() == after("2", "1").key()
    assert after("1").key() != after("2").key()
    assert Failure("deadlock") is Failure.DEADLOCK


@pytest.mark.parametrize("lock", ["for update", "for no key update", "for share", "for key share"])
@pytest.mark.parametrize("patience", ["", " nowait", " skip locked"])
def test_locking_queries_are_read_and_written(lock: str, patience: str) -> None:
    text = f"SELECT id FROM test {(lock + patience).upper()}"
    assert render(statement(text, Dialect.POSTGRESQL), Dialect.POSTGRESQL) == text
    if "key" in lock:
        with pytest.raises(OutsideFragment):
            render(statement(text, Dialect.POSTGRESQL), Dialect.MYSQL)
    else:
        spelled = text.replace("FOR SHARE", "LOCK IN SHARE MODE")
        assert render(statement(text, Dialect.POSTGRESQL), Dialect.MYSQL) == spelled
