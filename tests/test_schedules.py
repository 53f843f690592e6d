"""Schedules as files: what is read, what is refused and how, and that no text ends in a traceback."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from math import comb
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isolde.errors import InputError, MalformedSchedule
from isolde.formats.schedules import parse_schedules, read_schedules, schedule_of, schedule_text
from isolde.history.schedule import Schedule, ScheduleStep
from isolde.tx.dialects import Dialect
from isolde.tx.script import is_plain, is_setting, level_in, rolls_back, statements_of
from known_schedules import names, schedule_named

DOCUMENT = """
{"schema": ["create table test (id int primary key, value int)"], "rows": {"test": [[1, 10], [2, null]]},
 "sessions": {"T1": "serializable", "T2": "read committed"}, "meta": {"kept": false}, "unknown": 1,
 "steps": [["T1", "begin"], ["T2", "begin"], ["T1", "update test set value = 11 where id = 1", "w1"], ["T1", "commit"]]}
"""

SPEC = """
# Every kind of thing that such a file can hold.
setup { CREATE TABLE t (id int PRIMARY KEY, "a;b" text); INSERT INTO t VALUES (1, 'x;y'); }
setup { CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $body$ begin return 1; end; $body$; }
teardown { DROP TABLE t; }

session "the first"
setup
{
    BEGIN ISOLATION LEVEL SERIALIZABLE; -- a comment; of SQL
    SET deadlock_timeout = '10s';
}
step r1 { SELECT * FROM t; }
step "w 1" { UPDATE t SET id = 2; }
teardown { COMMIT; }

session s2
step r2 { SELECT 1; SELECT 2; }

permutation r1 "w 1" r2
permutation r2(r1) r1("w 1", r2 notices 2) "w 1"(*)
"""


def test_json_is_read_with_levels_rows_and_names() -> None:
    (schedule,) = parse_schedules(DOCUMENT).schedules
    assert schedule.sessions == {"T1": "serializable", "T2": "read committed"}
    assert schedule.rows == {"test": ((1, 10), (2, None))}
    assert schedule.steps[2] == ScheduleStep("T1", "update test set value = 11 where id = 1", "w1")
    assert schedule.name == ""


def test_sessions_that_are_not_named_have_the_default_level() -> None:
    schedule = schedule_of({"steps": [["a", "select 1", "x"], ["b", "select 2", "y"]], "sessions": {"b": None}})
    assert schedule.sessions == {"b": None, "a": None}
    assert schedule.name == "x y"


def test_decimals_and_other_values_of_rows_stay_exact() -> None:
    (schedule,) = parse_schedules('{"rows": {"t": [[1.10, true, "x", null]]}, "steps": [["a", "select 1"]]}').schedules
    assert schedule.rows["t"] == ((Decimal("1.10"), True, "x", None),)


def test_a_spec_file_has_a_schedule_a_permutation() -> None:
    first, second = parse_schedules(SPEC, "x.spec").schedules
    assert first.name == "r1 w 1 r2"
    assert [step.name for step in second.steps] == ["r2", "r1", "w 1"]
    assert first.sessions == {"the first": None, "s2": None}
    assert first.before == {"the first": ("BEGIN ISOLATION LEVEL SERIALIZABLE", "SET deadlock_timeout = '10s'")}
    assert first.after == {"the first": ("COMMIT",)}
    assert len(first.schema) == 3
    assert first.schema[2].count(";") == 2
    assert first.steps[2].sql == "SELECT 1; SELECT 2;"


def test_without_permutations_every_order_is_one_up_to_a_limit() -> None:
    text = "session a step a1 {x} step a2 {x} step a3 {x} session b step b1 {x} step b2 {x} step b3 {x}"
    read = parse_schedules(text)
    assert len({schedule.name for schedule in read.schedules}) == comb(6, 3)
    assert read.left_out == 0
    for schedule in read.schedules:
        for session in "ab":
            kept = [step.name for step in schedule.steps if step.session == session]
            assert kept == [f"{session}{number}" for number in (1, 2, 3)]
    some = parse_schedules(text, schedules_max=7)
    assert (len(some.schedules), some.left_out) == (7, comb(6, 3) - 7)


@pytest.mark.parametrize("text", [DOCUMENT, SPEC])
def test_what_is_written_is_read_again(text: str) -> None:
    for schedule in parse_schedules(text).schedules:
        assert parse_schedules(schedule_text(schedule)).schedules == (schedule,)


def test_the_known_schedules_are_written_as_they_are_read() -> None:
    for name in names():
        schedule = schedule_named(name)
        assert parse_schedules(schedule_text(schedule)).schedules == (schedule,)


WRONG = [
    ('{"steps": [["T1"]]}', "x:1: a step with 1 parts; expected a step: "),
    ('{"steps":\n [["T1", "begin"],\n  ["T1", 7]]}', "x:3: 7; expected a step: "),
    ('{"steps": []}', 'x:1: "steps" without a step; expected a step: '),
    ('{"schema": []}', 'x:1: a schedule without "steps"; expected a schedule: '),
    ('{"steps": [["a", "b"]],\n "rows": {"t": [[{}]]}}', "x:2: an object in a row of t; expected null, true"),
    ('{"steps": [["a", "b"]],\n "sessions": ["a"]}', 'x:2: a list; expected "sessions" as names'),
    ('{"steps": [["a", "b"]],\n "steps": []}', 'x:2: the name "steps" for the second time; expected each name once'),
    ('{"steps": [["a", "b"],\n]}', "x:2: ']}'; expected a JSON value"),
    ('{"steps": [["a", "b"]]', "x:1: the end of the text; expected ',' or '}'"),
    ('{"steps": [["a", "b]]}', "x:1: a string that is not closed"),
    ('{"steps": [["a", "b"]]} 7', "x:1: more text after the end ('7'); expected one JSON value"),
    ('{"steps": [["a", "sel\\u0000ect"]]}', "x:1: a text that no database takes"),
    ("[" * 5000, "x:1: a value nested too deeply; expected at most 100 levels"),
    ("[1, 2]", "x:1: a list; expected a schedule: "),
    ("", "x:1: the end of the file; expected setup, teardown or session"),
    ("setup { create", "x:1: an SQL block that is not closed"),
    ("session a\nstep b { x }\n%", "x:3: '%'; expected setup"),
    ("session a\nteardown { x }", "x:2: 'teardown'; expected a step of session a"),
    ("session a step b {x}\nsession a step c {x}", "x:2: a second session 'a'; expected another name"),
    ("session a step b {x}\nstep b {x}", "x:2: a second step 'b'; expected another name"),
    ("session a step b {x}\npermutation c", "x:2: no step is called 'c'; expected one of b"),
    ("session a step b {x}\npermutation", "x:2: the end of the file; expected the name of a step"),
    ("session a step b {x}\npermutation b(", "x:2: the end of the file; expected ')'"),
    ('session "a', "x:1: a quoted name that is not closed on its line"),
    ("session a step b {x} permutation b setup {x}", "x:1: 'setup'; expected permutation"),
]


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_what_is_wrong_is_told_in_one_line_with_its_place(text: str, said: str) -> None:
    with pytest.raises(MalformedSchedule) as refused:
        parse_schedules(text, "x")
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_schedules(str(tmp_path / "nothing.json"))
    with pytest.raises(InputError, match="Is a directory"):
        read_schedules(str(tmp_path))
    (tmp_path / "bytes.json").write_bytes(b'{"steps":\n\xff')
    with pytest.raises(MalformedSchedule, match=r"bytes.json:2: bytes that are no UTF-8"):
        read_schedules(str(tmp_path / "bytes.json"))


def _mutated(text: str, chance: random.Random) -> str:
    signs = list(text)
    for _ in range(chance.randint(1, 6)):
        place = chance.randrange(len(signs))
        match chance.randrange(3):
            case 0:
                del signs[place : place + chance.randint(1, 20)]
            case 1:
                signs.insert(place, chance.choice("{}[]\"',:;#()*\\\n\0$e0\ud800é"))
            case _:
                end = min(len(signs), place + 30)
                signs[place:place] = signs[place:end]
        signs = signs or [" "]
    return "".join(signs)


def test_no_text_ends_in_a_traceback() -> None:
    chance = random.Random(15)
    refused = 0
    for _ in range(6000):
        text = _mutated(chance.choice([DOCUMENT, SPEC]), chance)
        try:
            read = parse_schedules(text, "fuzzed", schedules_max=20)
        except MalformedSchedule:
            refused += 1
        else:
            assert all(isinstance(schedule, Schedule) and schedule.steps for schedule in read.schedules)
            for schedule in read.schedules:
                for dialect in Dialect:
                    for step in schedule.steps:
                        statements_of(step.sql, dialect)
    assert 1000 < refused < 6000


@given(st.text(), st.sampled_from(list(Dialect)))
def test_a_text_is_taken_apart_into_statements_that_stay_whole(text: str, dialect: Dialect) -> None:
    for statement in statements_of(text, dialect):
        assert statement.strip() == statement != ""
        # A statement's own end is its only one.
        assert statements_of(statement, dialect) in ((statement,), ()) or "'" in text or "/*" in text or '"' in text


def test_statements_end_where_each_dialect_says() -> None:
    for text, dialect, expected in [
        ("a; b -- c; d\n;;", Dialect.POSTGRESQL, ("a", "b")),
        ("select $x$;$x$; select E'\\';'", Dialect.POSTGRESQL, ("select $x$;$x$", "select E'\\';'")),
        ("/* a; /* b */ ; */ c", Dialect.POSTGRESQL, ("c",)),
        ("select '\\';'; # x;\n select `;`", Dialect.MYSQL, ("select '\\';'", "select `;`")),
        ("select 1 --x;", Dialect.MYSQL, ("select 1 --x",)),
        (
            "select [;]; create trigger t begin a; b; end;",
            Dialect.SQLITE,
            ("select [;]", "create trigger t begin a; b; end;"),
        ),
    ]:
        assert statements_of(text, dialect) == expected


def test_kinds_of_statements() -> None:
    assert is_setting("SET lock_timeout = 1")
    assert is_setting("set global innodb_lock_wait_timeout = 1")
    assert is_setting("SET GLOBAL TRANSACTION ISOLATION LEVEL SERIALIZABLE")
    assert not is_setting("set session transaction isolation level read committed")
    assert not is_setting("set @x = 1")
    assert not is_setting("SET spec.session = 1")
    assert not is_setting("update t set a = 1")
    assert rolls_back("ROLLBACK")
    assert not rolls_back("rollback to savepoint a")
    assert level_in("start transaction isolation level read  committed") == "read committed"
    assert is_plain("insert into t select * from u")
    assert not is_plain("select * into u from t")


def test_the_answers_of_known_schedules_fit_their_steps() -> None:
    answers = Path(__file__).resolve().parent.parent / "corpus" / "schedules" / "answers"
    for file in answers.glob("*.json"):
        name = file.name.split(".")[0]
        steps = schedule_named(name).steps
        for outcomes in json.loads(file.read_text("utf-8")).values():
            for outcome in outcomes:
                assert [(step["session"], step["step"]) for step in outcome["steps"]] == [
                    (step.session, step.name) for step in steps
                ]
